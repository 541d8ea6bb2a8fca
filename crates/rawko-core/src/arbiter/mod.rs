//! The arbiter (`spec/arbiter.md`): what it is told, how it is asked, how its answer is read, and what holds
//! when it gives none. Asking the model is an effect and happens elsewhere.

mod answer;
mod cache;
mod construct;
mod errors;
mod evidence;
mod facts;
mod fallback;
mod input;
mod inquiry;
mod judging;
mod prompt;
mod rules;
mod selecting;
mod situation;
mod tally;
mod team;
mod template;
#[cfg(test)]
mod testing;
mod words;

pub use answer::{AnswerError, ArbiterAnswer, DECIDE, DecisionKind, decide_tool, read_answer};
pub use cache::{PROMPT_VERSION, cache_key, cached_answer, is_cacheable};
pub use construct::{EVALUATE_HISTORY, SELECT_HISTORY, Sources, evaluate_input, select_input};
pub(crate) use construct::{recent_history, summary_of_result};
pub use errors::{category_of, recovery_actions, recovery_options};
pub use fallback::{COMPLETE, Fallback, another, follow};
pub use input::{
    AgentDescription, BarredAgent, ConstraintContext, ErrorCategory, ErrorContext, ErrorSummary,
    ErrorSurroundings, EvaluateProgressInput, ExecutionSummary, OutputSummary, RecentPerformance,
    RecordedFacts, RecoveryAction, RecoveryOption, Repetition, RunFacts, SelectAgentInput, TokenCounts,
    ToolLists, VerificationFacts,
};
pub use inquiry::Inquiry;
pub use prompt::{Prompt, Templates};
pub(crate) use prompt::{execution as execution_text, one_line, plan as plan_text};
pub use rules::{Ruling, rule_on_progress, rule_on_selection};
pub use situation::{Label, Recorded, Situation, SituationError, parse_situations};
pub use tally::{AgentTally, Tally};
pub use template::{VOLATILE, defuse, fence, fill};
