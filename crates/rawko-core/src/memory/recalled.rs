//! The memories that an execution was given, and how they were used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::feedback::UseOutcome;
use super::glob::means_file;
use super::mention::{names_file, says_title};

/// The memories' folder as texts may name it.
const FOLDER: &str = ".rawko/memories/";

/// The answer to the question which memories an execution is given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Recalled {
    /// The text for the end of the system prompt; empty where there is nothing to give.
    pub block: String,
    /// The memories in it, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<RecalledMemory>,
    /// How many more match.
    #[serde(skip_serializing_if = "Unmet::is_empty")]
    pub unmet: Unmet,
    /// What is wrong with memories, for people.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// How many memories match and are not given, and why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Unmet {
    /// There is no place left for them.
    pub no_place: usize,
    /// A pattern of theirs matches, but others fit much better, or it says too little.
    pub too_weak: usize,
    /// They are less important than the agent wants.
    pub too_unimportant: usize,
}

impl Unmet {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// In words; `None` where there are none.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        let parts = [
            (self.no_place, "without a place"),
            (self.too_weak, "too weak"),
            (self.too_unimportant, "too unimportant"),
        ];
        let said = parts.iter().filter(|(count, _)| *count > 0);
        let said: Vec<String> = said.map(|(count, why)| format!("{count} {why}")).collect();
        (!said.is_empty()).then(|| format!("others that match: {}", said.join(", ")))
    }
}

/// One memory that an execution is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecalledMemory {
    /// Its path below the memories' folder.
    pub path: String,
    /// Its title.
    pub title: String,
    /// Its score, 0 to 100.
    pub score: f64,
    /// Paths and globs of the files that it speaks of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// How one memory was used in one execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryUse {
    /// Its path below the memories' folder.
    pub path: String,
    /// Whether the agent spoke of it.
    pub cited: bool,
    /// Whether the execution read or wrote a file that it speaks of.
    pub touched: bool,
    /// How the execution ended.
    pub outcome: UseOutcome,
}

impl RecalledMemory {
    /// Whether `text` speaks of it, by its title or its file.
    #[must_use]
    pub fn is_cited_in(&self, text: &str) -> bool {
        says_title(text, &self.title) || names_file(text, &format!("{FOLDER}{}", self.path))
    }

    /// Whether one of `files` is among those that it speaks of.
    #[must_use]
    pub fn is_touched_by<'a>(&self, mut files: impl Iterator<Item = &'a String>) -> bool {
        files.any(|file| self.files.iter().any(|pattern| means_file(pattern, file)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(path: &str, title: &str, files: &[&str]) -> RecalledMemory {
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        RecalledMemory { path: path.into(), title: title.into(), score: 40.0, files }
    }

    #[test]
    fn a_memory_is_cited_by_title_or_file() {
        let check = |(path, title): (&str, &str), text: &str, expected: bool| {
            assert_eq!(memory(path, title, &[]).is_cited_in(text), expected, "{text}");
        };
        let retries = ("api/retries.md", "The API wants retries");
        check(retries, "As noted (the api WANTS retries), I retry.", true);
        check(retries, "see retries.md", true);
        check(retries, "I retry.", false);
        check(retries, "", false);
        check(("readme.md", "The project"), "I read the README.md", false);
        check(("a.md", "x"), "an example", false);
        check(("tests.md", "Tests"), "the tests pass", false);
        check(retries, "wrote no-retries.md", false);
        check(("readme.md", "The project"), "see .rawko/memories/readme.md", true);
    }

    #[test]
    fn a_memory_is_touched_by_the_files_it_speaks_of() {
        let check = |files: &[&str], file: &str, expected: bool| {
            let touched = memory("m.md", "m", files).is_touched_by([file.to_owned()].iter());
            assert_eq!(touched, expected, "{files:?} {file}");
        };
        let api = ["src/api/**/*.rs", "Cargo.toml"];
        check(&api, "src/api/client.rs", true);
        check(&api, "Cargo.toml", true);
        check(&api, "/p/Cargo.toml", true);
        check(&api, "src/main.rs", false);
        check(&api, "MyCargo.toml", false);
        check(&api, "src/api/notes.txt", false);
        check(&["**/*.rs"], "src/a.rs", true);
        check(&["src/auth/"], "src/auth/login.rs", true);
        check(&["src/a.rs"], "./src/a.rs", true);
    }
}
