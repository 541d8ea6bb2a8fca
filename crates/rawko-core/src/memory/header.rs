//! A memory's front matter, typed.
//!
//! Owns which keys there are and what each may hold. It judges a value, however it was written; files, YAML and lines
//! are elsewhere, so a finding names its key by a JSON pointer. Without a title or a `whenToUse` a memory can
//! not be used; everything else that is wrong or missing is reported, and the memory used without it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::pattern::Pattern;
use crate::Timestamp;
use crate::agent::Importance;

/// Most patterns of one memory.
const MAX_PATTERNS: usize = 100;
/// Most entries of any other list.
const MAX_ENTRIES: usize = 100;
/// Most characters of a title.
const MAX_TITLE: usize = 200;

/// The keys that mean something.
const KEYS: [&str; 16] = [
    "title",
    "whenToUse",
    "importance",
    "kind",
    "status",
    "discoveredAt",
    "discoveredBy",
    "discoveredIn",
    "tags",
    "supersedes",
    "conflictsWith",
    "expiresAt",
    "paths",
    "files",
    "session",
    "records",
];

/// The front matter of one memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// What it says, in one line.
    pub title: String,
    /// Patterns, of which one must match.
    pub when_to_use: Vec<String>,
    /// How much it matters; `low` by default.
    pub importance: Importance,
    /// Whether it says what is so, or what not to do.
    #[serde(default, skip_serializing_if = "Kind::is_fact")]
    pub kind: Kind,
    /// Whether a person has confirmed it.
    #[serde(default, skip_serializing_if = "Confirmation::is_confirmed")]
    pub status: Confirmation,
    /// When it was found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovered_at: Option<Timestamp>,
    /// By which agent, or whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovered_by: Option<String>,
    /// In which session or task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovered_in: Option<String>,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Memories that it takes the place of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supersedes: Vec<String>,
    /// Memories that say otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts_with: Vec<String>,
    /// From when on it is not given any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Globs of the files that it speaks of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Files that it was learned from, as they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<CitedFile>,
    /// The session that it was learned in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Records of that session's journal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<u64>,
    /// Keys that mean nothing to rawko, kept as they are.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub other: Map<String, Value>,
}

/// What a memory is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Something that is so.
    #[default]
    Fact,
    /// Something not to do.
    Avoid,
}

impl Kind {
    fn is_fact(&self) -> bool {
        *self == Self::Fact
    }
}

/// Whether a person has confirmed a memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confirmation {
    /// A person wrote it, or kept it.
    #[default]
    Confirmed,
    /// A run wrote it, and no person has kept it yet.
    Proposed,
}

impl Confirmation {
    fn is_confirmed(&self) -> bool {
        *self == Self::Confirmed
    }
}

impl Header {
    /// How much it counts: what is only proposed is never critical.
    #[must_use]
    pub fn effective_importance(&self) -> Importance {
        match self.status {
            Confirmation::Confirmed => self.importance,
            Confirmation::Proposed => self.importance.min(Importance::High),
        }
    }
}

/// A file that a memory was learned from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CitedFile {
    /// Its path in the project.
    pub path: String,
    /// SHA-256 of its content then, in hexadecimal.
    pub sha256: String,
}

/// A problem of the front matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether the memory can be used all the same.
    pub severity: Severity,
    /// The value, as a JSON pointer; empty for the front matter as a whole.
    pub pointer: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The memory is not used.
    Error,
    /// It is used, without what is wrong.
    Warning,
}

impl Header {
    /// Reads front matter as far as it can be read. `None` where the memory cannot be used; then a finding says why.
    #[must_use]
    pub fn read(value: &Value) -> (Option<Self>, Vec<Finding>) {
        Self::read_with(value, Pattern::problem_of)
    }

    /// The same in little time, whatever the patterns are: none is compiled, so that less is found wrong with them.
    #[must_use]
    pub fn read_quickly(value: &Value) -> (Option<Self>, Vec<Finding>) {
        Self::read_with(value, Pattern::obvious_problem_of)
    }

    fn read_with(value: &Value, problem_of: fn(&str) -> Option<String>) -> (Option<Self>, Vec<Finding>) {
        let mut reader = Reader { findings: Vec::new(), problem_of };
        let Value::Object(map) = value else {
            reader.error(
                "",
                "the front matter is not a mapping",
                "write `key: value` lines between the `---`",
            );
            return (None, reader.findings);
        };
        let header = reader.header(map);
        (header, reader.findings)
    }
}

struct Reader {
    findings: Vec<Finding>,
    problem_of: fn(&str) -> Option<String>,
}

impl Reader {
    fn error(&mut self, key: &str, message: impl Into<String>, help: impl Into<String>) {
        self.report(Severity::Error, key, message, help);
    }

    fn warn(&mut self, key: &str, message: impl Into<String>, help: impl Into<String>) {
        self.report(Severity::Warning, key, message, help);
    }

    fn report(&mut self, severity: Severity, key: &str, message: impl Into<String>, help: impl Into<String>) {
        let pointer = if key.is_empty() { String::new() } else { format!("/{key}") };
        self.findings.push(Finding { severity, pointer, message: message.into(), help: help.into() });
    }

    fn header(&mut self, map: &Map<String, Value>) -> Option<Header> {
        let title = self.title(map);
        let when_to_use = self.when_to_use(map);
        let mut other = Map::new();
        for (key, value) in map.iter().filter(|(key, _)| !KEYS.contains(&key.as_str())) {
            if let Some(near) = KEYS.iter().find(|known| strsim::damerau_levenshtein(known, key) <= 2) {
                let message = format!("`{key}` means nothing here");
                self.warn(&escape(key), message, format!("did you mean `{near}`?"));
            }
            other.insert(key.clone(), value.clone());
        }
        let importance = self.importance(map);
        let kind = self.kind(map);
        let status = self.status(map);
        let discovered_at = self.date(map, "discoveredAt", true);
        let discovered_by = self.text(map, "discoveredBy");
        if discovered_by.is_none() && !map.contains_key("discoveredBy") {
            self.warn("", "`discoveredBy` is missing", "add the agent or person who found it out");
        }
        let header = Header {
            title: title.unwrap_or_default(),
            when_to_use: when_to_use.unwrap_or_default(),
            importance,
            kind,
            status,
            discovered_at,
            discovered_by,
            discovered_in: self.text(map, "discoveredIn"),
            tags: self.texts(map, "tags"),
            supersedes: self.texts(map, "supersedes"),
            conflicts_with: self.texts(map, "conflictsWith"),
            expires_at: self.date(map, "expiresAt", false),
            paths: self.texts(map, "paths"),
            files: self.files(map),
            session: self.text(map, "session"),
            records: self.records(map),
            other,
        };
        let is_usable = self.findings.iter().all(|finding| finding.severity != Severity::Error);
        is_usable.then_some(header)
    }

    fn title(&mut self, map: &Map<String, Value>) -> Option<String> {
        let help = "add `title: …`: what the memory says, in one line";
        match map.get("title") {
            Some(Value::String(text)) if !text.trim().is_empty() => {
                let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
                if line.chars().count() > MAX_TITLE {
                    let message = format!("the title is longer than {MAX_TITLE} characters");
                    self.warn("title", message, "shorten it; only its beginning is given");
                }
                Some(line.chars().take(MAX_TITLE).collect())
            }
            None | Some(Value::Null) => {
                self.error("", "`title` is missing", help);
                None
            }
            Some(Value::String(_)) => {
                self.error("title", "`title` is empty", help);
                None
            }
            Some(wrong) => {
                self.error(
                    "title",
                    format!("`title` is {}, not text", kind_of(wrong)),
                    "put quotes around it",
                );
                None
            }
        }
    }

    fn when_to_use(&mut self, map: &Map<String, Value>) -> Option<Vec<String>> {
        const KEY: &str = "whenToUse";
        let help =
            "add `whenToUse:` with a text or a list: words, a glob, a regular expression or a sentence";
        let items: Vec<(String, &Value)> = match map.get(KEY) {
            None | Some(Value::Null) => {
                self.error("", "`whenToUse` is missing: nothing would ever match it", help);
                return None;
            }
            Some(Value::Array(items)) => {
                items.iter().enumerate().map(|(at, item)| (format!("{KEY}/{at}"), item)).collect()
            }
            Some(one) => vec![(KEY.to_owned(), one)],
        };
        if items.len() > MAX_PATTERNS {
            let message = format!("more than {MAX_PATTERNS} patterns; the rest is not read");
            self.warn(KEY, message, "a memory that needs so many says too much: write several");
        }
        let mut patterns = Vec::new();
        for (at, item) in items.iter().take(MAX_PATTERNS) {
            let text = match item {
                Value::Object(item) if item.len() == 1 => item.get("pattern"),
                item => Some(*item),
            };
            match text {
                Some(Value::String(text)) if !text.trim().is_empty() => {
                    if let Some(problem) = (self.problem_of)(text) {
                        let shown = crate::text::truncate(text.trim(), 60);
                        let help = "mend the pattern; `rawko memory show` tells how each is read";
                        self.warn(at, format!("the pattern `{shown}` {problem}"), help);
                    }
                    patterns.push(text.trim().to_owned());
                }
                Some(Value::String(_)) => self.warn(at, "this pattern is empty", "remove it"),
                wrong => {
                    let what = wrong.map_or("a mapping", kind_of);
                    let help =
                        "write a text, or `pattern: …`; put quotes around a number or a word like `yes`";
                    self.warn(at, format!("this pattern is {what}, not text"), help);
                }
            }
        }
        if patterns.is_empty() {
            self.error(KEY, "`whenToUse` has no pattern: nothing would ever match it", help);
            return None;
        }
        Some(patterns)
    }

    fn importance(&mut self, map: &Map<String, Value>) -> Importance {
        const WORDS: [(&str, Importance); 4] = [
            ("low", Importance::Low),
            ("medium", Importance::Medium),
            ("high", Importance::High),
            ("critical", Importance::Critical),
        ];
        let help = "write low, medium, high or critical";
        match map.get("importance") {
            None | Some(Value::Null) => {
                self.warn("", "`importance` is missing and read as low", help);
                Importance::Low
            }
            Some(Value::String(word)) => {
                let known = WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word.trim()));
                known.map(|(_, importance)| *importance).unwrap_or_else(|| {
                    let shown = crate::text::truncate(word, 40);
                    self.warn("importance", format!("`{shown}` is no importance and read as low"), help);
                    Importance::Low
                })
            }
            Some(wrong) => {
                let message = format!("`importance` is {}, not a word, and read as low", kind_of(wrong));
                self.warn("importance", message, help);
                Importance::Low
            }
        }
    }

    fn kind(&mut self, map: &Map<String, Value>) -> Kind {
        match map.get("kind") {
            None | Some(Value::Null) => Kind::Fact,
            Some(Value::String(word)) if word.eq_ignore_ascii_case("fact") => Kind::Fact,
            Some(Value::String(word)) if word.eq_ignore_ascii_case("avoid") => Kind::Avoid,
            Some(_) => {
                self.warn("kind", "this kind is unknown and read as fact", "write fact or avoid");
                Kind::Fact
            }
        }
    }

    fn status(&mut self, map: &Map<String, Value>) -> Confirmation {
        match map.get("status").map(|value| value.as_str().unwrap_or_default().trim()) {
            None => Confirmation::Confirmed,
            Some(word) if word.eq_ignore_ascii_case("confirmed") => Confirmation::Confirmed,
            Some(word) if word.eq_ignore_ascii_case("proposed") => Confirmation::Proposed,
            Some(_) => {
                let help = "write proposed or confirmed";
                self.warn("status", "this status is unknown and read as proposed", help);
                Confirmation::Proposed
            }
        }
    }

    fn date(&mut self, map: &Map<String, Value>, key: &str, wanted: bool) -> Option<Timestamp> {
        let help = "write an instant with its offset, e.g. 2026-01-23T09:30:00Z or 2026-01-23T10:30:00+01:00";
        match map.get(key) {
            None | Some(Value::Null) => {
                if wanted {
                    self.warn("", format!("`{key}` is missing"), help);
                }
                None
            }
            Some(Value::String(text)) => {
                let at = Timestamp::from_rfc3339(text.trim());
                if at.is_none() {
                    self.warn(key, format!("`{key}` is no date"), help);
                }
                at
            }
            Some(wrong) => {
                self.warn(key, format!("`{key}` is {}, not a date", kind_of(wrong)), help);
                None
            }
        }
    }

    fn text(&mut self, map: &Map<String, Value>, key: &str) -> Option<String> {
        match map.get(key)? {
            Value::Null => None,
            Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            wrong => {
                self.warn(key, format!("`{key}` is {}, not text", kind_of(wrong)), "put quotes around it");
                None
            }
        }
    }

    fn texts(&mut self, map: &Map<String, Value>, key: &str) -> Vec<String> {
        let items: Vec<(String, &Value)> = match map.get(key) {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(items)) => {
                items.iter().enumerate().map(|(at, item)| (format!("{key}/{at}"), item)).collect()
            }
            Some(one) => vec![(key.to_owned(), one)],
        };
        if items.len() > MAX_ENTRIES {
            let message = format!("more than {MAX_ENTRIES} entries; the rest is not read");
            self.warn(key, message, "shorten the list");
        }
        let mut texts = Vec::new();
        for (at, item) in items.iter().take(MAX_ENTRIES) {
            match item {
                Value::String(text) if !text.trim().is_empty() => texts.push(text.trim().to_owned()),
                Value::String(_) | Value::Null => {}
                wrong => {
                    let message = format!("an entry of `{key}` is {}, not text", kind_of(wrong));
                    self.warn(at, message, "put quotes around it");
                }
            }
        }
        texts
    }

    fn files(&mut self, map: &Map<String, Value>) -> Vec<CitedFile> {
        let items = match map.get("files") {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(items)) => items.as_slice(),
            Some(one) => std::slice::from_ref(one),
        };
        let mut files = Vec::new();
        for (at, item) in items.iter().take(MAX_ENTRIES).enumerate() {
            let file = serde_json::from_value::<CitedFile>(item.clone()).ok();
            match file
                .filter(|file| file.sha256.len() == 64 && file.sha256.bytes().all(|b| b.is_ascii_hexdigit()))
            {
                Some(file) => files.push(CitedFile { sha256: file.sha256.to_ascii_lowercase(), ..file }),
                None => self.warn(
                    &format!("files/{at}"),
                    "this is no cited file",
                    "write `path:` and `sha256:` (64 hexadecimal digits), or use `paths`",
                ),
            }
        }
        files
    }

    fn records(&mut self, map: &Map<String, Value>) -> Vec<u64> {
        let items = match map.get("records") {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(items)) => items.as_slice(),
            Some(one) => std::slice::from_ref(one),
        };
        let records: Vec<u64> = items.iter().take(MAX_ENTRIES).filter_map(Value::as_u64).collect();
        if records.len() < items.len().min(MAX_ENTRIES) {
            self.warn("records", "`records` holds something that is no number", "write numbers of records");
        }
        records
    }
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
