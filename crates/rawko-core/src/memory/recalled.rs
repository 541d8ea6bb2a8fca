//! What an execution was given of earlier runs, and what became of it.

use serde::{Deserialize, Serialize};

use super::feedback::UseOutcome;
use super::words::fold;

/// The answer to the question which memories an execution is given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Recalled {
    /// The text for the end of the system prompt; empty where there is nothing to tell.
    pub block: String,
    /// What it tells, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<RecalledMemory>,
    /// What is wrong with memories, for people.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
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

impl RecalledMemory {
    /// Whether `text` speaks of it, by its title or its file.
    #[must_use]
    pub fn is_cited_in(&self, text: &str) -> bool {
        let text = fold(text);
        let file = self.path.rsplit('/').next().unwrap_or(&self.path);
        let title = fold(self.title.trim());
        (!title.is_empty() && text.contains(&title)) || text.contains(&fold(file))
    }

    /// Whether one of `files` is among those that it speaks of. Of a glob its part before the first wildcard counts.
    #[must_use]
    pub fn is_touched_by<'a>(&self, mut files: impl Iterator<Item = &'a String>) -> bool {
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
    use super::*;

    fn memory() -> RecalledMemory {
        RecalledMemory {
            path: "api/retries.md".into(),
            title: "The API wants retries".into(),
            score: 40.0,
            files: vec!["src/api/**/*.rs".into(), "Cargo.toml".into()],
        }
    }

    #[test]
    fn a_memory_is_cited_by_title_or_file() {
        for (text, expected) in [
            ("As noted (the api WANTS retries), I retry.", true),
            ("see retries.md", true),
            ("I retry.", false),
            ("", false),
        ] {
            assert_eq!(memory().is_cited_in(text), expected, "{text}");
        }
    }

    #[test]
    fn a_memory_is_touched_by_the_files_it_speaks_of() {
        for (file, expected) in [
            ("src/api/client.rs", true),
            ("Cargo.toml", true),
            ("/p/Cargo.toml", true),
            ("src/main.rs", false),
            ("MyCargo.toml", false),
        ] {
            assert_eq!(memory().is_touched_by([file.to_owned()].iter()), expected, "{file}");
        }
    }
}
