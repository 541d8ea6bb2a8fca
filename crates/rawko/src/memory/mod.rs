//! The memories of a project: reading, finding, writing (`docs/memory.md`).
//!
//! ```text
//! folder ─▶ file ─▶ store ─▶ core::memory (rank, choose, block)
//!                     │
//!            tree, feedback, write, learn, retire
//! ```
//!
//! A [`MemoryStore`] does everything with `.rawko/memories`, or with the user's own memories. What a memory means,
//! whether it matches and what an agent gets of it is decided in `rawko_core::memory`. Nothing here stops a run: what
//! cannot be read becomes a [`Report`]. Everything blocks, and is quick.

mod check;
mod feedback;
mod file;
mod folder;
mod learn;
mod report;
mod retire;
mod store;
mod tree;
mod write;

pub use learn::Learned;
pub use rawko_core::memory::{
    Chosen, CitedFile, Confirmation, Contradiction, Draft, DraftKind, Feedback, Finding, Header, KeptMemory,
    Kind, LeftOut, Memory, MemoryUse, Part, PatternMatch, Query, Reading, Reason, Recalled, RecalledMemory,
    Recipient, Score, Selection, Severity, Staleness, Terms, Unmet, Use, UseOutcome,
};
pub use report::Report;
pub use retire::Retirement;
pub use store::{Inventory, MemoryStore, Recall, RecallOptions};
pub use tree::cite;
pub use write::{NewMemory, WriteError};

/// Where a project's memories are.
pub const FOLDER: &str = ".rawko/memories";
/// What paths of the user's own memories begin with.
pub const OF_USER: &str = "user:";

#[cfg(test)]
mod folder_tests;
#[cfg(test)]
mod tests;
