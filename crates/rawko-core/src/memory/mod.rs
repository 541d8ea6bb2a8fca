//! Memories: what earlier runs found out, and which of it the next agent is told (`spec/memory.md`, SPEC-0007).
//!
//! ```text
//! front matter ─▶ header ─▶ pattern ─▶ score ─▶ select ─▶ block
//!                             ▲          ▲         ▲        ▲
//!                 query ──────┘   feedback    staleness   bodies
//! ```
//!
//! [`Header::read`] understands front matter. A [`Query`] is what an execution is about; a [`Pattern`] says whether a
//! memory is for it, [`score`](Score) how much it matters, [`rank`] and [`Ranking::choose`] which few are told,
//! and [`block`] how. All comparisons of words are [`words`]'. Files, the index over them and the clock are elsewhere:
//! memories come in as values, instants as arguments.
//!
//! A memory may come with a clone, from somebody else. Nothing here takes its text for more than data.

pub mod block;
mod conflict;
mod contrast;
mod doubt;
mod duplicate;
pub mod extraction;
mod feedback;
mod glob;
mod header;
mod literal;
mod mention;
mod pattern;
mod pieces;
mod query;
mod recalled;
mod recipient;
mod reference;
mod score;
mod select;
mod size;
mod slug;
mod sources;
mod staleness;
mod stop_words;
pub mod words;

pub use duplicate::{Likeness, Said, likeness};
pub use extraction::{Draft, DraftKind};
pub use feedback::{Feedback, MAX_FEEDBACK, Use, UseOutcome};
pub use glob::PathGlob;
pub use header::{CitedFile, Finding, Header, Kind, Severity};
pub use literal::required_literals;
pub use pattern::{Corpus, IDF_FROM, Pattern, PatternMatch, Reading, weight};
pub use query::{Part, Query};
pub use recalled::{MemoryUse, Recalled, RecalledMemory, UseRule};
pub use recipient::{DEFAULT_MAX_INJECTED, Recipient, tag_key};
pub use reference::{reference_key, referred_keys};
pub use score::{MAX_SEMANTIC, Score, five_each, of_importance, of_recency};
pub use select::{
    Chosen, Contradiction, LeftOut, Memory, Ranking, Reason, Selection, Similarity, Surroundings, rank,
    semantic_points, shortlist_len, superseded,
};
pub use slug::slug;
pub use sources::learned_from;
pub use staleness::{MAX_STALENESS, Staleness};

#[cfg(test)]
mod examples;
