//! The labelled set: memories, and tasks with those that are for them and those that only look so.

use rawko_core::agent::AgentConfig;
use rawko_core::memory::{Header, Memory};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Memories and labelled queries.
#[derive(Debug, Clone)]
pub struct LabelledSet {
    /// The memories, each with its id as path.
    pub memories: Vec<Memory>,
    /// The queries.
    pub queries: Vec<LabelledQuery>,
    /// An agent without options, to be named as each query wants.
    pub(super) agent: AgentConfig,
}

/// One task, and which memories are for it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelledQuery {
    /// Its name.
    pub id: String,
    /// What is difficult about it.
    pub kind: Kind,
    /// The task.
    pub task: String,
    /// The agent that has it.
    pub agent: String,
    /// Memories that whoever does the task should be told.
    pub relevant: Vec<String>,
    /// Memories that look as if, and are not. All others are not relevant either.
    pub irrelevant: Vec<String>,
}

/// What is difficult about a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// It shares content words with a memory that is for it.
    Words,
    /// It shares a content word with each memory that is for it, and less than half of those of any of their patterns.
    Partly,
    /// It says the same in other words: none in common with title and `whenToUse` of what is for it.
    Paraphrase,
    /// It has words of memories, and none is for it.
    None,
}

/// Which half of the set: a threshold is chosen on one and reported on the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    /// Where the threshold is chosen.
    Chosen,
    /// Where it is reported.
    Reported,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Line {
    Memory(Value),
    Query(LabelledQuery),
}

impl LabelledSet {
    /// Reads a set: a JSON object a line, `{"memory": …}` or `{"query": …}`.
    ///
    /// # Errors
    /// Where a line is neither, a memory cannot be used, an id is there twice, or a label names no memory; in words, with the line.
    pub fn read(text: &str) -> Result<Self, String> {
        let agent = serde_json::from_value(serde_json::json!({"name": "agent", "systemPrompt": ""}))
            .map_err(|error| error.to_string())?;
        let mut set = Self { memories: Vec::new(), queries: Vec::new(), agent };
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            set.take(line).map_err(|why| format!("line {}: {why}", at + 1))?;
        }
        for query in &set.queries {
            for id in query.relevant.iter().chain(&query.irrelevant) {
                if !set.memories.iter().any(|memory| memory.path == *id) {
                    return Err(format!("the query {} names the memory {id}, which is not there", query.id));
                }
            }
        }
        Ok(set)
    }

    fn take(&mut self, line: &str) -> Result<(), String> {
        match serde_json::from_str(line).map_err(|error| error.to_string())? {
            Line::Memory(value) => {
                let id = value.get("id").and_then(Value::as_str).ok_or("the memory has no id")?.to_owned();
                if self.memories.iter().any(|memory| memory.path == id) {
                    return Err(format!("the memory {id} is there twice"));
                }
                let (header, findings) = Header::read(&value);
                let header = header.ok_or_else(|| format!("the memory {id} is of no use: {findings:?}"))?;
                self.memories.push(Memory { path: id, header });
            }
            Line::Query(query) => {
                if self.queries.iter().any(|other| other.id == query.id) {
                    return Err(format!("the query {} is there twice", query.id));
                }
                self.queries.push(query);
            }
        }
        Ok(())
    }

    /// The queries of a half: every second one of each kind.
    #[must_use]
    pub fn half(&self, half: Half) -> Vec<&LabelledQuery> {
        let mut all = Vec::new();
        for kind in [Kind::Words, Kind::Partly, Kind::Paraphrase, Kind::None] {
            let of_kind = self.queries.iter().filter(|query| query.kind == kind);
            let wanted = usize::from(half == Half::Reported);
            all.extend(of_kind.enumerate().filter(|(at, _)| at % 2 == wanted).map(|(_, query)| query));
        }
        all
    }

    /// How many (task, memory) pairs have a label of their own.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.queries.iter().map(|query| query.relevant.len() + query.irrelevant.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        const MEMORY: &str =
            r#"{"memory":{"id":"a","title":"T","whenToUse":"x","importance":"low","discoveredBy":"x"}}"#;
        const QUERY: &str =
            r#"{"query":{"id":"q","kind":"words","task":"t","agent":"a","relevant":["a"],"irrelevant":[]}}"#;
        assert_eq!(LabelledSet::read(&format!("{MEMORY}\n\n{QUERY}\n")).unwrap().pairs(), 1);
        let check = |text: &str, expected: &str| {
            let error = LabelledSet::read(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check("{}", "line 1");
        check(&format!("{MEMORY}\n{MEMORY}"), "line 2: the memory a is there twice");
        check(QUERY, "q names the memory a");
        check(&format!("{MEMORY}\n{QUERY}\n{QUERY}"), "line 3: the query q");
        check(r#"{"memory":{"id":"a","title":"T"}}"#, "line 1: the memory a is of no use");
    }
}
