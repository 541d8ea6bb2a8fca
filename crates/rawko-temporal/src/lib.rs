//! Fleets: the same session on many machines, on [Temporal](https://temporal.io) (`docs/fleets.md`).
//!
//! The engine brings the cluster, rawko the pure session. One workflow a task holds the session and the queue of its effects
//! (`workflow`); activities perform the effects on workers (`activities`, `perform`); what workers share is in a store
//! ([`store`]); the work is a branch of the repository ([`tree`]). A journal is derived from the events, and is the same as
//! that of a local session.
//!
//! This crate is the only place that knows the engine. It decides nothing about the work: the core does.

mod activities;
mod budget;
mod codec;
mod engine;
mod error;
mod failed;
mod faults;
mod fleet;
mod handover;
mod kept;
mod merge_request;
mod names;
mod perform;
mod project;
mod records;
mod replay;
mod shown;
pub mod store;
mod submission;
mod task;
pub mod tree;
mod worker;
mod workflow;
mod workspace;

pub use codec::{INLINE_BYTES, MOST_BYTES};
pub use engine::EngineAddress;
pub use error::FleetError;
pub use faults::Notice;
pub use fleet::Fleet;
pub use names::DEFAULT_QUEUE;
pub use replay::replay;
pub use shown::{EngineState, FleetTask, Submitted, Waiting};
pub use task::{ApprovalAnswer, Carriage, TaskOptions, TaskSpec, TaskStatus};
pub use worker::{Slots, WorkerSettings, work};
pub use workspace::MakeBuilder;
