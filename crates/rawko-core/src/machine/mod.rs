//! The state machine (`spec/machine.md`): pure, closed, and described by one table.

mod effect;
mod event;
mod plan;
mod state;

pub use effect::{Conversation, MachineEffect};
pub use event::{AgentResult, CommandFact, Decision, ExecutionEnd, ExecutionFacts, MachineEvent};
pub use plan::{Plan, PlanStep, PlanUpdates, StepStatus};
pub use state::{Context, ExecutionStatus, FailureRecord, HistoryEntry, Limits, State};
