//! What an execution was given of earlier runs, and what became of it.

use serde::{Deserialize, Serialize};

use super::feedback::UseOutcome;
use super::glob::means_file;
use super::mention::{names_file, says_title};
use super::words::fold;

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
    /// What is wrong with memories, for people.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// By which rule it is judged what became of them.
    #[serde(skip_serializing_if = "UseRule::is_first")]
    pub use_rule: UseRule,
}

/// One memory that an execution is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// What became of one memory in one execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// What the effects of memory carry. It is recorded with a run: a journal is replayed by the form in which it was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryEffects {
    /// Journals that name none: the plan and the last reports, and all files that the execution read or wrote.
    #[default]
    First,
    /// What the performer needs: the task, the plan's current step, and the files that a memory cites.
    Complete,
}

impl MemoryEffects {
    /// Whether it is that of journals that name none.
    #[must_use]
    pub fn is_first(&self) -> bool {
        *self == Self::First
    }
}

/// By which rule it is judged what became of a memory. The judgement is recorded, and a journal is replayed by the rule by which it was
/// written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UseRule {
    /// Journals that name none: title and file name anywhere in the text, globs up to their first wildcard.
    #[default]
    Substrings,
    /// Whole titles and names that say something, globs as globs; and nothing is said of an execution that had no turn.
    Words,
}

impl UseRule {
    /// Whether it is that of journals that name none; there the judgement itself was not recorded.
    #[must_use]
    pub fn is_first(&self) -> bool {
        *self == Self::Substrings
    }
}

impl RecalledMemory {
    /// Whether `text` speaks of it, by its title or its file.
    #[must_use]
    pub fn is_cited_in(&self, text: &str, rule: UseRule) -> bool {
        match rule {
            UseRule::Substrings => self.is_part_of(text),
            UseRule::Words => {
                says_title(text, &self.title) || names_file(text, &format!("{FOLDER}{}", self.path))
            }
        }
    }

    /// Whether one of `files` is among those that it speaks of.
    #[must_use]
    pub fn is_touched_by<'a>(&self, mut files: impl Iterator<Item = &'a String>, rule: UseRule) -> bool {
        match rule {
            UseRule::Substrings => self.begins_like(files),
            UseRule::Words => files.any(|file| self.files.iter().any(|pattern| means_file(pattern, file))),
        }
    }

    fn is_part_of(&self, text: &str) -> bool {
        let text = fold(text);
        let file = self.path.rsplit('/').next().unwrap_or(&self.path);
        let title = fold(self.title.trim());
        (!title.is_empty() && text.contains(&title)) || text.contains(&fold(file))
    }

    fn begins_like<'a>(&self, mut files: impl Iterator<Item = &'a String>) -> bool {
        let plain = |glob: &str| {
            let end = glob.find(['*', '?', '[', '{']).unwrap_or(glob.len());
            glob.get(..end).unwrap_or_default().trim_start_matches("./").to_owned()
        };
        let wanted: Vec<(String, bool)> =
            self.files.iter().map(|glob| (plain(glob), glob.contains(['*', '?', '[', '{']))).collect();
        files.any(|file| {
            wanted.iter().any(|(start, is_glob)| match is_glob {
                true => !start.is_empty() && file.starts_with(start.as_str()),
                false => file == start || file.ends_with(&format!("/{start}")),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::UseRule::{Substrings, Words};
    use super::*;

    fn memory(path: &str, title: &str, files: &[&str]) -> RecalledMemory {
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        RecalledMemory { path: path.into(), title: title.into(), score: 40.0, files }
    }

    #[test]
    fn a_memory_is_cited_by_title_or_file() {
        let check = |(path, title): (&str, &str), text: &str, rule: UseRule, expected: bool| {
            assert_eq!(memory(path, title, &[]).is_cited_in(text, rule), expected, "{text}");
        };
        let retries = ("api/retries.md", "The API wants retries");
        for rule in [Substrings, Words] {
            check(retries, "As noted (the api WANTS retries), I retry.", rule, true);
            check(retries, "see retries.md", rule, true);
            check(retries, "I retry.", rule, false);
            check(retries, "", rule, false);
        }
        // What a journal of the first rule says stays so.
        for (memory, text) in [
            (("readme.md", "The project"), "I read the README.md"),
            (("a.md", "x"), "an example"),
            (("tests.md", "Tests"), "the tests pass"),
            (retries, "wrote no-retries.md"),
        ] {
            check(memory, text, Substrings, true);
            check(memory, text, Words, false);
        }
        check(("readme.md", "The project"), "see .rawko/memories/readme.md", Words, true);
    }

    #[test]
    fn a_memory_is_touched_by_the_files_it_speaks_of() {
        let check = |files: &[&str], file: &str, first: bool, words: bool| {
            let touched = |rule| memory("m.md", "m", files).is_touched_by([file.to_owned()].iter(), rule);
            assert_eq!((touched(Substrings), touched(Words)), (first, words), "{files:?} {file}");
        };
        let api = ["src/api/**/*.rs", "Cargo.toml"];
        check(&api, "src/api/client.rs", true, true);
        check(&api, "Cargo.toml", true, true);
        check(&api, "/p/Cargo.toml", true, true);
        check(&api, "src/main.rs", false, false);
        check(&api, "MyCargo.toml", false, false);
        check(&api, "src/api/notes.txt", true, false);
        check(&["**/*.rs"], "src/a.rs", false, true);
        check(&["src/auth/"], "src/auth/login.rs", false, true);
        check(&["src/a.rs"], "./src/a.rs", true, true);
    }
}
