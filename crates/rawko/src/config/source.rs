//! Reading configuration files: bounded, as text, with an explanation where that fails.
//!
//! The only place of the configuration that reads files. What was read is what is parsed, hashed for trust and shown
//! in messages: no file is read twice.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::diagnostic::Diagnostic;

/// Most bytes of one file. A configuration is written by hand; anything larger is a mistake or an attack.
pub(super) const MAX_BYTES: u64 = 1024 * 1024;
/// Most files of one directory of agents.
const MAX_FILES: usize = 1_000;

/// Who wrote a file, and so how far it is trusted and which layer it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The user's own, outside of any project.
    User,
    /// The project's: whoever wrote the repository wrote it.
    Project,
}

/// A file's text and where it came from.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// As shown to people.
    pub(super) name: PathBuf,
    pub(super) scope: Scope,
    /// Without byte order mark.
    pub(super) text: Arc<str>,
    /// Where each line begins: a file with many errors is not searched for each of them.
    lines: Arc<[usize]>,
}

impl Source {
    /// Reads `path`, shown as `name`. `None` where there is no such file.
    pub(super) fn read(path: &Path, name: &Path, scope: Scope) -> Result<Option<Self>, Box<Diagnostic>> {
        let bytes = match read_bounded(path) {
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

    /// A text that is at hand already.
    pub(super) fn new(name: &Path, scope: Scope, text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = [0].into_iter().chain(breaks.map(|(at, _)| at + 1)).collect();
        Self { name: name.to_owned(), scope, text: text.into(), lines }
    }

    /// A finding at a place of this file.
    pub(super) fn finding(
        &self,
        place: super::place::Place,
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

fn read_bounded(path: &Path) -> Result<Vec<u8>, Unreadable> {
    let because = |message: String, help: &str| Err(Unreadable::Because(message, help.to_owned()));
    // The kind is looked at first: opening a FIFO to read would wait for a writer.
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_err() => {
            return Err(Unreadable::Absent);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return because("this link points to nothing".to_owned(), "mend or remove the link");
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(Unreadable::Absent),
        Err(error) => return because(format!("cannot be read: {error}"), "check its permissions"),
    };
    if metadata.is_dir() {
        return because("is a directory, but should be a file".to_owned(), "move or rename the directory");
    }
    if !metadata.is_file() {
        return because("is not a regular file".to_owned(), "replace it by a file");
    }
    let too_large = || {
        because(
            format!("is larger than {} KiB, which no configuration needs to be", MAX_BYTES / 1024),
            "shorten it, or remove it if it is here by mistake",
        )
    };
    if metadata.len() > MAX_BYTES {
        return too_large();
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) if bytes.len() as u64 > MAX_BYTES => too_large(),
        Ok(_) => Ok(bytes),
        Err(error) => because(format!("cannot be read: {error}"), "check its permissions"),
    }
}

fn not_text(name: &Path, bytes: &[u8], valid: usize) -> Box<Diagnostic> {
    let line = bytes[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
    let utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    let help = if utf16 { "it looks like UTF-16: save it as UTF-8" } else { "save it as UTF-8" };
    Box::new(Diagnostic::of_file(name, format!("is not UTF-8 text (line {line})"), Some(help.to_owned())))
}

/// The files of `directory` that have one of `extensions`, sorted by name; `None` where there is no such directory.
pub(super) fn list(
    directory: &Path,
    name: &Path,
    extensions: &[&str],
) -> Result<Option<Vec<PathBuf>>, Box<Diagnostic>> {
    let wrong =
        |message: String, help: &str| Box::new(Diagnostic::of_file(name, message, Some(help.to_owned())));
    let unreadable = |error: io::Error| wrong(format!("cannot be read: {error}"), "check its permissions");
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // Either this is a file, or `.rawko` above it is.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory && !directory.exists() => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            let help = "replace it by a directory with one file for each agent";
            return Err(wrong("is a file, but should be a directory".to_owned(), help));
        }
        Err(error) => return Err(unreadable(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        let wanted = path.extension().and_then(|e| e.to_str()).is_some_and(|e| extensions.contains(&e));
        // Editors leave hidden files beside the one they edit.
        if wanted && !entry.file_name().as_encoded_bytes().starts_with(b".") {
            files.push(path);
        }
        if files.len() > MAX_FILES {
            return Err(wrong(format!("holds more than {MAX_FILES} agents"), "remove some"));
        }
    }
    files.sort();
    Ok(Some(files))
}
