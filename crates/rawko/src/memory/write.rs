//! Writing memories: new ones, and a key of an existing one.
//!
//! Guarantees that nothing is overwritten: a new memory gets a name that is free, and an existing file is replaced only
//! by one that says the same but for the key that was asked for. The text of everything else stays as its author wrote
//! it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rawko_core::Timestamp;
use rawko_core::agent::Importance;
use rawko_core::memory::{CitedFile, Confirmation, Header, Kind, Reason, Severity, slug};
use serde_json::{Value, json};

use super::file::{self, Care, Text};
use super::report::Report;
use crate::config::front_matter;
use crate::private::{Existing, write_whole};

/// Names that are tried for a new memory: `slug.md`, `slug-2.md`, …
const MAX_NAMES: u32 = 1_000;
/// Notes that one memory takes.
const MAX_NOTES: usize = 20;
/// Where notes are: after a top-level heading, so that they are never given to an agent.
const NOTES: &str = "# Seen again";

/// A memory that is to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMemory {
    /// What it says, in one line.
    pub title: String,
    /// Patterns, of which one must match.
    pub when_to_use: Vec<String>,
    /// How much it matters.
    pub importance: Importance,
    /// Whether it says what is so, or what not to do.
    pub kind: Kind,
    /// Whether a person has confirmed it.
    pub status: Confirmation,
    /// When it was found out.
    pub discovered_at: Timestamp,
    /// By which agent, or whom.
    pub discovered_by: String,
    /// In which task.
    pub discovered_in: Option<String>,
    /// What it is about.
    pub tags: Vec<String>,
    /// Memories that it takes the place of.
    pub supersedes: Vec<String>,
    /// Memories that say otherwise.
    pub conflicts_with: Vec<String>,
    /// Globs of the files that it speaks of.
    pub paths: Vec<String>,
    /// Files that it was learned from.
    pub files: Vec<CitedFile>,
    /// The session that it was learned in.
    pub session: Option<String>,
    /// Records of that session's journal.
    pub records: Vec<u64>,
    /// Its text, in Markdown.
    pub body: String,
}

impl NewMemory {
    /// A fact of this title, with nothing else said.
    #[must_use]
    pub fn new(title: &str, when_to_use: Vec<String>, discovered_by: &str, discovered_at: Timestamp) -> Self {
        Self {
            title: title.split_whitespace().collect::<Vec<_>>().join(" "),
            when_to_use,
            importance: Importance::Medium,
            kind: Kind::Fact,
            status: Confirmation::Confirmed,
            discovered_at,
            discovered_by: discovered_by.to_owned(),
            discovered_in: None,
            tags: Vec::new(),
            supersedes: Vec::new(),
            conflicts_with: Vec::new(),
            paths: Vec::new(),
            files: Vec::new(),
            session: None,
            records: Vec::new(),
            body: String::new(),
        }
    }

    /// The file as it is written.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = "---\n".to_owned();
        let mut put = |key: &str, value: Value| {
            let is_empty = match &value {
                Value::Null => true,
                Value::Array(items) => items.is_empty(),
                _ => false,
            };
            if !is_empty {
                text.push_str(&front_matter::key(key, value));
            }
        };
        put("title", json!(self.title));
        put("whenToUse", json!(self.when_to_use));
        put("importance", json!(self.importance));
        put("kind", if self.kind == Kind::Fact { Value::Null } else { json!(self.kind) });
        put("status", if self.status == Confirmation::Confirmed { Value::Null } else { json!(self.status) });
        put("discoveredAt", json!(self.discovered_at.to_rfc3339()));
        put("discoveredBy", json!(self.discovered_by));
        put("discoveredIn", json!(self.discovered_in));
        put("tags", json!(self.tags));
        put("supersedes", json!(self.supersedes));
        put("conflictsWith", json!(self.conflicts_with));
        put("paths", json!(self.paths));
        put("files", json!(self.files));
        put("session", json!(self.session));
        put("records", json!(self.records));
        text.push_str("---\n\n");
        text.push_str(self.body.trim());
        text.push('\n');
        text
    }
}

/// A memory could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// It would not be one.
    #[error("this is no memory: {}", .0.first().map_or("", |report| report.message.as_str()))]
    Invalid(Vec<Report>),
    /// There is one that says nearly the same.
    #[error("there is a memory that says nearly the same: {path} ({title})")]
    Duplicate {
        /// Its path.
        path: String,
        /// Its title.
        title: String,
    },
    /// There is no such memory.
    #[error("there is no memory `{path}`")]
    NotFound {
        /// What was asked for.
        path: String,
    },
    /// It was to replace another memory, and no agent gets it itself.
    #[error("`{path}` cannot take the place of another: it is not given itself ({})", reason.sentence())]
    NotGiven {
        /// The memory.
        path: String,
        /// Why it is not given.
        reason: Reason,
        /// What is given in its place.
        instead: Option<String>,
    },
    /// The file's front matter is written in a form that rawko does not change.
    #[error("{path} cannot be changed without changing more than `{key}`: edit it by hand")]
    Form {
        /// The memory.
        path: String,
        /// The key.
        key: &'static str,
    },
    /// Another process keeps writing there.
    #[error("{} is locked by another process, and stayed so", super::FOLDER)]
    Busy,
    /// The memories' folder cannot be used.
    #[error("{} {}", super::FOLDER, .0.message)]
    Folder(Box<Report>),
    /// The file system refused.
    #[error("cannot write {path}: {source}")]
    Io {
        /// The file or folder.
        path: String,
        /// Why.
        source: io::Error,
    },
}

/// The text of `new`, which is a memory.
pub(super) fn sound(new: &NewMemory) -> Result<String, WriteError> {
    let text = new.markdown();
    let entry = file::parse(text.as_bytes(), "", Care::Full);
    let is_too_long = text.len() as u64 > file::MAX_BYTES;
    if entry.header.is_none() || is_too_long {
        let mut reports = entry.reports;
        if is_too_long {
            let message = format!("it is longer than {} kB", file::MAX_BYTES / 1024);
            reports.insert(0, Report::error("", message, "shorten it"));
        }
        return Err(WriteError::Invalid(reports));
    }
    Ok(text)
}

/// Writes `new` into the memories' folder under a free name, and returns that name.
pub(super) fn create(folder: &Path, new: &NewMemory) -> Result<String, WriteError> {
    let text = sound(new)?;
    let stem = slug(&new.title);
    for number in 1..=MAX_NAMES {
        let name = if number == 1 { format!("{stem}.md") } else { format!("{stem}-{number}.md") };
        match write_whole(&folder.join(&name), text.as_bytes(), 0o644, Existing::Stays) {
            Ok(()) => return Ok(name),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(WriteError::Io { path: name, source }),
        }
    }
    let source = io::Error::new(io::ErrorKind::AlreadyExists, "too many memories have this title");
    Err(WriteError::Io { path: format!("{stem}.md"), source })
}

/// Sets `key` in the front matter of a memory, and nothing else.
pub(super) fn set_key(
    folder: &Path,
    path: &str,
    text: &Text,
    key: &'static str,
    value: Value,
) -> Result<(), WriteError> {
    let form = || WriteError::Form { path: path.to_owned(), key };
    let front = with_key(&text.front, key, value).ok_or_else(form)?;
    // The text that is written must be the old one, except for the key.
    let before = file::parse(text.front.as_bytes(), path, Care::Full).header;
    let after = file::parse(front.as_bytes(), path, Care::Full);
    let sound = match (before, after.header) {
        (Some(before), Some(after)) => same_but(key, before, after),
        (None, after) => after.is_some(),
        (Some(_), None) => false,
    };
    if !sound || after.reports.iter().any(|report| report.severity == Severity::Error) {
        return Err(form());
    }
    replace(&folder.join(path), &format!("{front}{}", text.body))
        .map_err(|source| WriteError::Io { path: path.to_owned(), source })
}

fn same_but(key: &str, before: Header, after: Header) -> bool {
    let strip = |header: Header| {
        let mut value = serde_json::to_value(header).unwrap_or_default();
        if let Value::Object(map) = &mut value {
            map.remove(key);
        }
        value
    };
    strip(before) == strip(after)
}

/// The front matter (with its two fences) with `key` set; `None` where it is not written a key a line.
fn with_key(front: &str, key: &str, value: Value) -> Option<String> {
    let lines: Vec<&str> = front.split_inclusive('\n').collect();
    let ending = if lines.first()?.ends_with("\r\n") { "\r\n" } else { "\n" };
    let inner = lines.get(1..lines.len().checked_sub(1)?)?.concat();
    let parsed = front_matter::parse(&inner, 1).ok()?;
    let keys = parsed.value.as_object()?;
    // Lines of the file, from 0.
    let line_of = |key: &str| parsed.key_place(key).line.saturating_sub(1);
    if keys.keys().any(|key| parsed.key_place(key).column != 1) {
        return None;
    }
    let last = lines.len() - 1;
    let (start, end) = if keys.contains_key(key) {
        let start = line_of(key);
        let next = keys.keys().map(|other| line_of(other)).filter(|line| *line > start).min().unwrap_or(last);
        // Comments and blank lines before the next key are the next key's.
        let is_own = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        let own = lines.get(start..next)?.iter().rposition(is_own)?;
        (start, start + own + 1)
    } else {
        (last, last)
    };
    let new = front_matter::key(key, value).replace('\n', ending);
    Some([&lines[..start].concat(), new.as_str(), &lines[end..].concat()].concat())
}

/// Puts a new text in the place of a file, whole.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mode = fs::symlink_metadata(path)?.permissions().mode() & 0o777;
    write_whole(path, text.as_bytes(), mode, Existing::Replaced)
}

/// A memory's text without what was noted on it.
pub(super) fn without_notes(body: &str) -> &str {
    let mut end = 0;
    for line in body.split_inclusive('\n').take_while(|line| line.trim_end() != NOTES) {
        end += line.len();
    }
    &body[..end]
}

/// Notes on a memory that the same was found again. Its beginning, which is what agents are given, stays as it is.
pub(super) fn note(folder: &Path, path: &str, text: &Text, note: &str) -> Result<bool, WriteError> {
    let line = note.split_whitespace().collect::<Vec<_>>().join(" ");
    let notes = text
        .body
        .split_once(NOTES)
        .map_or(0, |(_, notes)| notes.lines().filter(|l| l.starts_with("- ")).count());
    let is_full = (text.front.len() + text.body.len() + line.len()) as u64 + 100 > file::MAX_BYTES;
    if notes >= MAX_NOTES || is_full || text.body.lines().any(|known| known == format!("- {line}")) {
        return Ok(false);
    }
    let mut addition = String::new();
    if !text.body.ends_with('\n') {
        addition.push('\n');
    }
    if !text.body.lines().any(|line| line.trim_end() == NOTES) {
        addition.push_str(&format!("\n{NOTES}\n\n"));
    }
    addition.push_str(&format!("- {line}\n"));
    let append = || OpenOptions::new().append(true).open(folder.join(path))?.write_all(addition.as_bytes());
    append().map_err(|source| WriteError::Io { path: path.to_owned(), source })?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(front: &str, key: &'static str, value: Value, expected: Option<&str>) {
        assert_eq!(with_key(front, key, value).as_deref(), expected);
    }

    #[test]
    fn one_key_is_set_and_the_rest_stays() {
        let front = "---\ntitle: T # mine\nexpiresAt:\n  2026-01-01\n\n# about tags\ntags: [a]\n---\n";
        let expected = "---\ntitle: T # mine\nexpiresAt: soon\n\n# about tags\ntags: [a]\n---\n";
        check(front, "expiresAt", json!("soon"), Some(expected));
        check("---\ntitle: T\n---\n", "tags", json!(["b"]), Some("---\ntitle: T\ntags: [b]\n---\n"));
        check("---\r\ntitle: T\r\n---\r\n", "a", json!("b"), Some("---\r\ntitle: T\r\na: b\r\n---\r\n"));
        check("---\ntitle: T\ntags:\n- a\n- b\n---", "tags", json!("c"), Some("---\ntitle: T\ntags: c\n---"));
        check("---\n{title: T}\n---\n", "tags", json!("c"), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_written_is_a_memory(
            title in "\\PC{1,40}", pattern in "\\PC{1,30}", tag in "\\PC{0,10}", body in "[\\PC\n]{0,60}",
        ) {
            prop_assume!(!title.trim().is_empty() && !pattern.trim().is_empty());
            let mut new = NewMemory::new(&title, vec![pattern.clone()], "me", Timestamp(0));
            new.tags = vec![tag];
            new.body = body.clone();
            let dir = tempfile::tempdir().unwrap();
            let (one, two) = (create(dir.path(), &new).unwrap(), create(dir.path(), &new).unwrap());
            prop_assert!(one != two);
            let bytes = fs::read(dir.path().join(&two)).unwrap();
            let header = file::parse(&bytes, "", Care::Full).header.unwrap();
            prop_assert_eq!(header.title, new.title);
            prop_assert_eq!(&header.when_to_use, &[pattern.trim().to_owned()]);
            let ending = format!("\n\n{}\n", body.trim());
            prop_assert!(String::from_utf8(bytes).unwrap().ends_with(&ending));
        }
    }
}
