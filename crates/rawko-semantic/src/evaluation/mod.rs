//! How well memories are found: a labelled set, the ways to search, and figures.
//!
//! Owns `eval/memories.jsonl`'s form and the arithmetic of precision, recall and rank. It runs the same `rank` and
//! `choose` as a run does, so that the figures are about rawko and not about a copy of it.

mod figures;
mod set;
mod table;

pub use figures::{Answer, Figures, figures};
pub use set::{Half, Kind, LabelledQuery, LabelledSet};
pub use table::{Row, table};

use std::collections::BTreeMap;

use rawko_core::Timestamp;
use rawko_core::agent::{AgentConfig, Importance};
use rawko_core::memory::{Corpus, Query, Recipient, Similarity, Surroundings, rank};

/// How memories are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By their patterns: the default of rawko.
    Lexical,
    /// By meaning alone: those that match by it, the nearest first.
    Semantic,
    /// By meaning alone and without a threshold: all memories, the nearest first. What the model could do at best.
    Nearest,
    /// By their patterns or by meaning, in the order of the score: what `memory.semantic: true` does.
    Both,
}

impl Way {
    /// Its name in tables.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::Semantic => "semantic",
            Self::Nearest => "nearest, no threshold",
            Self::Both => "both",
        }
    }
}

/// What is found for a query, best first. `near` is how near each memory is in meaning, by path; not asked for where
/// the way is lexical.
#[must_use]
pub fn found(
    set: &LabelledSet,
    query: &LabelledQuery,
    way: Way,
    near: &BTreeMap<String, Similarity>,
) -> Vec<String> {
    if matches!(way, Way::Semantic | Way::Nearest) {
        let takes = |near: &Similarity| near.matches || way == Way::Nearest;
        let mut found: Vec<(&String, f64)> =
            near.iter().filter(|(_, near)| takes(near)).map(|(path, near)| (path, near.cosine)).collect();
        found.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(other.0)));
        return found.into_iter().map(|(path, _)| path.clone()).collect();
    }
    let mut corpus = Corpus::default();
    for memory in &set.memories {
        corpus.add(memory.header.when_to_use.iter().map(String::as_str));
    }
    let semantic = if way == Way::Both { near.clone() } else { BTreeMap::new() };
    let around = Surroundings { corpus, semantic, now: Timestamp(0), ..Surroundings::default() };
    let agent = AgentConfig { name: query.agent.clone(), ..set.agent.clone() };
    let recipient = Recipient::of(&agent, u32::MAX, Importance::Low);
    let asked = Query::new(&query.task, &query.agent, None, None);
    let ranking = rank(&set.memories, &asked, &recipient, &around);
    ranking.choose(&BTreeMap::new()).chosen.into_iter().map(|one| one.memory.path).collect()
}
