//! Reads configuration files as text, with a size limit, and explains failures.
//!
//! No other part of the configuration reads files. The same text is parsed, hashed for trust and shown
//! in messages, so no file is read twice.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rawko_tools::read_regular;

use super::diagnostic::Diagnostic;

/// Largest file, in bytes. A configuration is written by hand; anything larger is a mistake or an attack.
pub(super) const MAX_BYTES: u64 = 1024 * 1024;
/// Most files in one directory of agents.
const MAX_FILES: usize = 1_000;

/// Whose file it is, which decides its layer and whether it needs trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The user's own file, outside of any project.
    User,
    /// The project's file, written by the repository's authors.
    Project,
}

/// The text and name of a file.
#[derive(Debug, Clone)]
pub(super) struct SourceFile {
    /// The path as shown in messages.
    pub(super) name: PathBuf,
    pub(super) scope: Scope,
    /// The content, without a byte order mark.
    pub(super) text: Arc<str>,
    /// Offsets of the lines, so that the file is not searched again for each error.
    lines: Arc<[usize]>,
}

/// A file of the project that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectFile {
    /// The file, relative to the project.
    pub path: PathBuf,
    /// Its content, without a byte order mark.
    pub text: Arc<str>,
}

impl From<&SourceFile> for ProjectFile {
    fn from(source: &SourceFile) -> Self {
        Self { path: source.name.clone(), text: Arc::clone(&source.text) }
    }
}

impl SourceFile {
    /// Reads `path`, shown as `name`. Returns `None` if there is no such file. A link that leads out of the folder `within`
    /// is not followed: trust is given to what is in the project.
    pub(super) fn read(
        path: &Path,
        name: &Path,
        scope: Scope,
        within: Option<&Path>,
    ) -> Result<Option<Self>, Box<Diagnostic>> {
        let bytes = match read_bounded(path, within) {
            Ok(bytes) => bytes,
            Err(Unreadable::Absent) => return Ok(None),
            Err(Unreadable::Because(message, help)) => {
                return Err(Box::new(Diagnostic::of_file(name, message, Some(help))));
            }
        };
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => return Err(not_text(name, error.as_bytes(), error.utf8_error().valid_up_to())),
        };
        Ok(Some(Self::new(name, scope, text.strip_prefix('\u{feff}').unwrap_or(&text))))
    }

    /// Wraps a text that was read already.
    pub(super) fn new(name: &Path, scope: Scope, text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = [0].into_iter().chain(breaks.map(|(at, _)| at + 1)).collect();
        Self { name: name.to_owned(), scope, text: text.into(), lines }
    }

    /// A diagnostic about a position in this file.
    pub(super) fn finding(
        &self,
        place: super::position::Position,
        message: impl Into<String>,
        help: Option<String>,
    ) -> Diagnostic {
        let rest = self.lines.get(place.line.saturating_sub(1)).map_or("", |start| &self.text[*start..]);
        Diagnostic::at(&self.name, rest.lines().next().unwrap_or_default(), place, message, help)
    }
}

enum Unreadable {
    Absent,
    Because(String, String),
}

fn read_bounded(path: &Path, within: Option<&Path>) -> Result<Vec<u8>, Unreadable> {
    let because = |message: String, help: &str| Err(Unreadable::Because(message, help.to_owned()));
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_err() => {
            return Err(Unreadable::Absent);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return because("this link points to a missing file".to_owned(), "fix or remove the link");
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(Unreadable::Absent),
        Err(error) => return because(format!("this file cannot be read: {error}"), "check its permissions"),
    };
    let leads_out = |folder: &Path| match (path.canonicalize(), folder.canonicalize()) {
        (Ok(real), Ok(folder)) => !real.starts_with(folder),
        (Err(_), _) | (_, Err(_)) => false,
    };
    if within.is_some_and(leads_out) {
        return because(
            "this is a link that leads out of the project".to_owned(),
            "put the file itself there",
        );
    }
    if metadata.is_dir() {
        return because(
            "this is a directory, but should be a file".to_owned(),
            "move or rename the directory",
        );
    }
    if !metadata.is_file() {
        return because("this is not a regular file".to_owned(), "replace it with a regular file");
    }
    let too_large = || {
        because(
            format!("this file is larger than {} KiB, the limit for configuration files", MAX_BYTES / 1024),
            "shorten it, or remove it if it is here by mistake",
        )
    };
    if metadata.len() > MAX_BYTES {
        return too_large();
    }
    match read_regular(path, MAX_BYTES + 1) {
        Ok(bytes) if bytes.len() as u64 > MAX_BYTES => too_large(),
        Ok(bytes) => Ok(bytes),
        Err(error) => because(format!("this file cannot be read: {error}"), "check its permissions"),
    }
}

fn not_text(name: &Path, bytes: &[u8], valid: usize) -> Box<Diagnostic> {
    let line = bytes[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
    let utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    let help = if utf16 { "it looks like UTF-16: save it as UTF-8" } else { "save it as UTF-8" };
    Box::new(Diagnostic::of_file(
        name,
        format!("this file is not UTF-8 text (line {line})"),
        Some(help.to_owned()),
    ))
}

/// The files in `directory` with one of `extensions`, sorted by name; `None` if there is no such directory.
pub(super) fn list(
    directory: &Path,
    name: &Path,
    extensions: &[&str],
) -> Result<Option<Vec<PathBuf>>, Box<Diagnostic>> {
    let wrong =
        |message: String, help: &str| Box::new(Diagnostic::of_file(name, message, Some(help.to_owned())));
    let unreadable =
        |error: io::Error| wrong(format!("this directory cannot be read: {error}"), "check its permissions");
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // Either this or `.rawko` above it is a file.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory && !directory.exists() => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            let help = "replace it with a directory that has one file for each agent";
            return Err(wrong("this is a file, but should be a directory".to_owned(), help));
        }
        Err(error) => return Err(unreadable(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        let wanted = path.extension().and_then(|e| e.to_str()).is_some_and(|e| extensions.contains(&e));
        // Editors leave hidden files next to the file they edit.
        if wanted && !entry.file_name().as_encoded_bytes().starts_with(b".") {
            files.push(path);
        }
        if files.len() > MAX_FILES {
            return Err(wrong(
                format!("this directory has more than {MAX_FILES} agents"),
                "remove some of them",
            ));
        }
    }
    files.sort();
    Ok(Some(files))
}
