//! The files of one skill: read with bounds, and known by a digest.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rawko_core::text::hex;
use rawko_tools::{open_regular, open_regular_below};
use sha2::{Digest as _, Sha256};

use super::find::SkillPlace;
use super::header::SkillFault;
use super::{plain, sha256};
use crate::config::Scope;

/// The names that the file may have. The specification knows the first; its reference library takes both.
const NAMES: [&str; 2] = ["SKILL.md", "skill.md"];
/// Largest `SKILL.md`, in bytes. The specification recommends fewer than 500 lines.
const MAX_TEXT: u64 = 256 * 1024;
/// Most files and folders of a skill.
const MAX_ENTRIES: usize = 1_000;
/// Most bytes of all files of a project's skills together: they are read whenever the configuration is.
pub(super) const MAX_BYTES: u64 = 32 * 1024 * 1024;
/// Deepest folder in a skill.
const MAX_DEPTH: usize = 8;
/// What git keeps of a clone is no part of a skill.
const NOT_OF_A_SKILL: &str = ".git";

/// A skill's files as they were read.
#[derive(Debug)]
pub(super) struct SkillFiles {
    /// The whole `SKILL.md`.
    pub(super) text: String,
    /// The paths of the others, sorted.
    pub(super) files: Vec<String>,
    /// SHA-256 and path of each file, one a line, of a project's skill; empty for the user's own.
    pub(super) manifest: String,
}

impl SkillFiles {
    /// Reads `SKILL.md` and lists the others. Those of a project are read too, because trust covers them.
    ///
    /// `left` is how many bytes may still be read, and is lowered by what was.
    pub(super) fn read(place: &SkillPlace, left: &mut u64) -> Result<Self, Vec<SkillFault>> {
        let text = text_of_skill(place).map_err(|fault| vec![fault])?;
        let fault = |message: String, help: &str| vec![SkillFault::of_file(message, help)];
        let mut walk = SkillWalk { place, entries: 0, left: *left, lines: Vec::new(), files: Vec::new() };
        let whole = walk.folder(Path::new(""), 0);
        *left = walk.left;
        match whole {
            Ok(()) => {}
            // What the user put there needs no trust, so that its files need not be known.
            Err(Stop::TooMuch) if place.scope == Scope::User => {}
            Err(Stop::TooMuch) => {
                let message = format!(
                    "the skill has more than {MAX_ENTRIES} files or more than {MAX_DEPTH} levels of folders, or it and the \
                     project's other skills have more than {} MiB",
                    MAX_BYTES / 1024 / 1024
                );
                return Err(fault(message, "take out what the skill does not need"));
            }
            Err(Stop::LeadsOut(path)) => {
                let path = rawko_core::text::harmless(&path.to_string_lossy());
                return Err(fault(
                    format!("its file `{path}` is a link that leads out of the skill"),
                    "put the file itself there: trust covers what is in the skill's folder",
                ));
            }
            Err(Stop::Unreadable(path, error)) => {
                let path = rawko_core::text::harmless(&path.to_string_lossy());
                return Err(fault(
                    format!("its file `{path}` cannot be read: {error}"),
                    "check its permissions",
                ));
            }
        }
        walk.lines.sort();
        let mut manifest = String::new();
        for (path, digest) in walk.lines {
            let _ = writeln!(manifest, "{digest}  {}", path.escape_debug());
        }
        walk.files.sort();
        Ok(Self { text, files: walk.files, manifest })
    }

    /// By what the skill is known to be the same.
    pub(super) fn digest(&self, scope: Scope) -> String {
        match scope {
            Scope::Project => sha256(self.manifest.as_bytes()),
            Scope::User => sha256(self.text.as_bytes()),
        }
    }
}

/// The text of a skill's `SKILL.md`. That of a project is no link: it could lead anywhere.
pub(super) fn text_of_skill(place: &SkillPlace) -> Result<String, SkillFault> {
    let found = NAMES.iter().find(|name| place.folder.join(name).symlink_metadata().is_ok());
    let Some(name) = found else {
        return Err(SkillFault::of_file("there is no SKILL.md", "write one, with `name` and `description`"));
    };
    let file = match place.scope {
        Scope::Project => open_regular_below(&place.folder, Path::new(name)),
        Scope::User => open_regular(&place.folder.join(name)),
    };
    let unreadable = |error: io::Error| {
        SkillFault::of_file(
            format!("{name} cannot be read: {error}"),
            "put a readable file there, and no link",
        )
    };
    let mut bytes = Vec::new();
    file.and_then(|file| file.take(MAX_TEXT + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_TEXT {
        let message = format!("{name} is larger than {} KiB", MAX_TEXT / 1024);
        return Err(SkillFault::of_file(message, "move parts of it into files of their own"));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| SkillFault::of_file(format!("{name} is not UTF-8 text"), "save it as UTF-8"))?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).replace("\r\n", "\n"))
}

enum Stop {
    TooMuch,
    LeadsOut(PathBuf),
    Unreadable(PathBuf, io::Error),
}

struct SkillWalk<'a> {
    place: &'a SkillPlace,
    entries: usize,
    left: u64,
    /// Path and digest.
    lines: Vec<(String, String)>,
    files: Vec<String>,
}

impl SkillWalk<'_> {
    fn folder(&mut self, below: &Path, depth: usize) -> Result<(), Stop> {
        let unreadable = |error| Stop::Unreadable(below.to_owned(), error);
        let entries = std::fs::read_dir(self.place.folder.join(below)).map_err(unreadable)?;
        for entry in entries {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            if name == NOT_OF_A_SKILL {
                continue;
            }
            self.entries += 1;
            let path = below.join(&name);
            let kind = entry.file_type().map_err(|error| Stop::Unreadable(path.clone(), error))?;
            if self.entries > MAX_ENTRIES || (kind.is_dir() && depth == MAX_DEPTH) {
                return Err(Stop::TooMuch);
            }
            if kind.is_dir() {
                self.folder(&path, depth + 1)?;
            } else {
                self.entry(path, kind)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, path: PathBuf, kind: std::fs::FileType) -> Result<(), Stop> {
        let is_text = depth_of(&path) == 1 && NAMES.iter().any(|name| path == Path::new(name));
        if let Some(path) = plain(&path).filter(|_| kind.is_file() && !is_text) {
            self.files.push(path.to_owned());
        }
        if self.place.scope == Scope::User {
            return Ok(());
        }
        // What a link within the skill leads to is an entry of its own. A file outside could change after it was
        // trusted.
        let digest = if kind.is_symlink() {
            let real = self.place.folder.join(&path).canonicalize();
            if !real.is_ok_and(|real| real.starts_with(&self.place.folder)) {
                return Err(Stop::LeadsOut(path));
            }
            let target = std::fs::read_link(self.place.folder.join(&path))
                .map_err(|error| Stop::Unreadable(path.clone(), error))?;
            format!("link:{}", sha256(target.as_os_str().as_encoded_bytes()))
        } else if kind.is_file() {
            let file = open_regular_below(&self.place.folder, &path);
            let hashed = file
                .and_then(|file| self.hash(file))
                .map_err(|error| Stop::Unreadable(path.clone(), error))?;
            hashed.ok_or(Stop::TooMuch)?
        } else {
            "special".to_owned()
        };
        self.lines.push((path.to_string_lossy().into_owned(), digest));
        Ok(())
    }

    /// The digest of a file; `None` where all files together are too large.
    fn hash(&mut self, file: File) -> io::Result<Option<String>> {
        let mut hash = Sha256::new();
        let mut file = file.take(self.left.saturating_add(1));
        let mut chunk = [0; 64 * 1024];
        loop {
            let read = file.read(&mut chunk)?;
            let Some(bytes) = chunk.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
            hash.update(bytes);
            match self.left.checked_sub(bytes.len() as u64) {
                Some(left) => self.left = left,
                None => return Ok(None),
            }
        }
        Ok(Some(hex(&hash.finalize())))
    }
}

fn depth_of(path: &Path) -> usize {
    path.components().count()
}
