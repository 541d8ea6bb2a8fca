//! The labelled set: memories, and tasks with those that are for them and those that only look so.
//!
//! `eval/memories.jsonl` holds both, `eval/memory-patterns.jsonl` other patterns for the same memories.

use std::collections::BTreeMap;

use rawko_core::memory::{Header, Memory};
use serde::Deserialize;
use serde_json::{Value, json};

const SET: &str = include_str!("../../../../eval/memories.jsonl");
const PATTERNS: &str = include_str!("../../../../eval/memory-patterns.jsonl");

/// Who wrote a memory's `whenToUse`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patterns {
    /// A person who took care.
    Careful,
    /// An extractor: two or three phrases.
    Extracted,
    /// A model in a hurry: one or two topics.
    Terse,
}

impl Patterns {
    /// All of them, with their names.
    pub(super) const ALL: [(&str, Self); 3] =
        [("careful", Self::Careful), ("extracted", Self::Extracted), ("terse", Self::Terse)];
}

/// Memories and labelled queries.
#[derive(Debug, Clone)]
pub(super) struct LabelledSet {
    memories: Vec<Value>,
    patterns: BTreeMap<String, OtherPatterns>,
    /// The queries.
    pub(super) queries: Vec<LabelledQuery>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct OtherPatterns {
    id: String,
    terse: Vec<String>,
    extracted: Vec<String>,
}

/// One task, and which memories are for it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LabelledQuery {
    /// Its name.
    pub(super) id: String,
    /// What is difficult about it.
    pub(super) kind: Kind,
    /// The task.
    pub(super) task: String,
    /// The agent that has it.
    pub(super) agent: String,
    /// Memories that the agent should be given.
    pub(super) relevant: Vec<String>,
    /// Lures: memories that look relevant and are not. All others are not relevant either.
    pub(super) irrelevant: Vec<String>,
}

/// What is difficult about a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Kind {
    /// It shares content words with a memory that is for it.
    Words,
    /// It shares a content word with each memory that is for it, and less than half of those of any of their patterns.
    Partly,
    /// It says the same in other words: none in common with title and `whenToUse` of what is for it.
    Paraphrase,
    /// It has words of memories, and none is for it.
    None,
}

/// Constants are chosen on one half of the set and reported on the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    /// Where constants are chosen.
    Chosen,
    /// Where they are reported.
    Reported,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Line {
    Memory(Value),
    Query(LabelledQuery),
}

impl LabelledSet {
    /// The set of this repository.
    pub(super) fn load() -> Self {
        let mut set = Self { memories: Vec::new(), patterns: BTreeMap::new(), queries: Vec::new() };
        for line in SET.lines() {
            match serde_json::from_str(line).unwrap() {
                Line::Memory(memory) => set.memories.push(memory),
                Line::Query(query) => set.queries.push(query),
            }
        }
        for line in PATTERNS.lines() {
            let patterns: OtherPatterns = serde_json::from_str(line).unwrap();
            set.patterns.insert(patterns.id.clone(), patterns);
        }
        set
    }

    /// The memories with patterns by this author, each with its id as path.
    pub(super) fn memories(&self, author: Patterns) -> Vec<Memory> {
        let read = |memory: &Value| {
            let id = memory["id"].as_str().unwrap();
            let mut front = memory.clone();
            match author {
                Patterns::Careful => {}
                Patterns::Extracted => front["whenToUse"] = json!(self.patterns[id].extracted),
                Patterns::Terse => front["whenToUse"] = json!(self.patterns[id].terse),
            }
            let header = Header::read(&front).0.unwrap();
            Memory::new(id, header, memory["body"].as_str().unwrap())
        };
        self.memories.iter().map(read).collect()
    }

    /// The queries of a half: every second one of each kind.
    pub(super) fn half(&self, half: Half) -> Vec<&LabelledQuery> {
        let mut all = Vec::new();
        for kind in [Kind::Words, Kind::Partly, Kind::Paraphrase, Kind::None] {
            let of_kind = self.queries.iter().filter(|query| query.kind == kind);
            let wanted = usize::from(half == Half::Reported);
            all.extend(of_kind.enumerate().filter(|(at, _)| at % 2 == wanted).map(|(_, query)| query));
        }
        all
    }
}
