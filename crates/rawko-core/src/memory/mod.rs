//! Memories: what earlier runs found out, and which of it the next agent is given (`docs/memory.md`).
//!
//! ```text
//! front matter ─▶ header ─▶ pattern ─┐
//! body ─────────▶ terms ─────────────┴─▶ evidence ─▶ score ─▶ select ─▶ block
//!                                          ▲           ▲         ▲        ▲
//!                              query ──────┘     feedback   staleness  bodies
//! ```
//!
//! [`Header::read`] reads front matter. A [`Query`] is what an execution is about. Declared [`Pattern`]s and the words of a
//! memory say whether it fits, [`Score`] says how much it matters, [`rank`] and [`Ranking::choose`] which few are given to
//! the agent, and [`block`] in which form. All comparisons of words are made by [`words`]. Files and the clock are elsewhere:
//! memories come in as values, instants as arguments.
//!
//! A memory may come with a clone, from a stranger. This module treats its text as data.

pub mod block;
mod conflict;
mod contrast;
mod doubt;
mod duplicate;
mod evidence;
pub mod extraction;
mod feedback;
mod glob;
mod header;
mod kept;
mod literal;
mod mention;
mod pattern;
mod pieces;
mod query;
mod reading;
mod recalled;
mod recipient;
mod reference;
mod score;
mod secret;
mod select;
mod slug;
mod sources;
mod staleness;
mod stop_words;
mod stored;
mod terms;
pub mod words;

pub use duplicate::{Likeness, Said, likeness};
pub use extraction::{Draft, DraftKind};
pub use feedback::{Feedback, Use, UseOutcome};
pub use glob::PathGlob;
pub use header::{CitedFile, Confirmation, Finding, Header, Kind, Severity};
pub use kept::KeptMemory;
pub use pattern::{Pattern, PatternMatch};
pub use query::{Part, Query};
pub use reading::Reading;
pub use recalled::{MemoryUse, Recalled, RecalledMemory, Unmet};
pub use recipient::{DEFAULT_MAX_INJECTED, Recipient, tag_key};
pub use reference::{reference_key, referred_keys};
pub use score::Score;
pub use secret::holds_token;
pub use select::{
    Chosen, Contradiction, LeftOut, RankInput, Ranking, Reason, Selection, rank, shortlist_len, superseded,
};
pub use slug::slug;
pub use sources::learned_from;
pub use staleness::{MAX_STALENESS, Staleness};
pub use stored::Memory;
pub use terms::Terms;

#[cfg(test)]
mod examples;
