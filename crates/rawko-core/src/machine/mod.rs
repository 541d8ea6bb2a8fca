//! The state machine (`docs/machine.md`): pure, closed, and described by one table.
//!
//! ```text
//! idle ──▶ selecting ──▶ executing ──▶ evaluating ──▶ complete
//!              ▲             │             │
//!              └─────── error_handling ◀───┘
//!                            └──▶ failed          any of the middle three ──▶ cancelled
//! ```
//!
//! In: [`MachineEvent`]. Out: [`MachineEffect`]. Between them [`Machine`], which interprets [`table::TABLE`]; the
//! same rows become the diagrams and the XState config of [`export`]. The diagram is in `docs/machine.md`.

mod action;
mod backoff;
mod effect;
mod event;
pub mod export;
mod guard;
mod kind;
mod plan;
mod simulate;
mod state;
mod step;
pub mod table;

pub use crate::facts::CommandFact;
pub use action::{Action, MAX_ITERATIONS_SUMMARY};
pub use backoff::backoff;
pub use effect::{Conversation, MachineEffect};
pub use event::{AgentResult, Decision, ExecutionEnd, ExecutionFacts, MachineEvent};
pub use guard::Guard;
pub use kind::EventKind;
pub use plan::{Plan, PlanStep, PlanUpdates, StepStatus};
pub use simulate::{SimulateError, SimulatedStep, Simulator};
pub use state::{Context, ExecutionStatus, FailureRecord, HistoryEntry, Limits, State};
pub use step::{Machine, Step};
