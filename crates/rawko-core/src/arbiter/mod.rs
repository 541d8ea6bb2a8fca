//! The arbiter (`spec/arbiter.md`): what it is told, how it is asked, how its answer is read, and what holds
//! when it gives none. Asking the model is an effect and happens elsewhere.

mod answer;
mod construct;
mod errors;
mod facts;
mod input;
mod prompt;
mod rules;
mod tally;
mod template;

pub use answer::{AnswerError, ArbiterAnswer, DECIDE, DecisionKind, decide_tool, read_answer};
pub(crate) use construct::recent_history;
pub use construct::{EVALUATE_HISTORY, SELECT_HISTORY, Sources, evaluate_input, select_input};
pub use errors::{category_of, recovery_actions, recovery_options};
pub use input::{
    AgentDescription, BarredAgent, ConstraintContext, ErrorCategory, ErrorContext, ErrorSummary,
    ErrorSurroundings, EvaluateProgressInput, ExecutionSummary, OutputSummary, RecentPerformance,
    RecordedFacts, RecoveryAction, RecoveryOption, Repetition, RunFacts, SelectAgentInput, TokenCounts,
    ToolLists, VerificationFacts,
};
pub use prompt::{Prompt, Templates};
pub(crate) use prompt::{execution as execution_text, plan as plan_text};
pub use rules::{COMPLETE, Rules};
pub use tally::{AgentTally, Tally};
pub use template::{VOLATILE, fence, fill};
