//! The arbiter (`docs/arbiter.md`): its inputs, its prompts, how its answer is read, and the fallback without a
//! usable answer. Calling the model is an effect and happens elsewhere.

mod answer;
mod cache;
mod case;
mod construct;
mod errors;
mod execution_record;
mod facts;
mod fallback;
mod input;
mod judging;
mod objection;
mod offer;
mod prompt;
mod question;
mod rules;
#[cfg(test)]
mod rules_properties;
#[cfg(test)]
mod rules_tests;
mod selecting;
mod situation;
mod statistics;
mod team;
mod template;
#[cfg(test)]
mod testing;
mod words;

pub use answer::{AnswerError, ArbiterAnswer, DECIDE, DecisionKind, decide_tool, read_answer};
pub use cache::{PROMPT_VERSION, cache_key, cached_answer, is_cacheable};
pub use case::Ruling;
pub use construct::{EVALUATE_HISTORY, SELECT_HISTORY, Sources, evaluate_input, select_input};
pub(crate) use construct::{handed_over, recent_history, summary_of_result};
pub use errors::{category_of, recovery_actions, recovery_options};
pub(crate) use facts::checks as checks_text;
pub use fallback::{COMPLETE, Fallback, another, follow};
pub use input::{
    AgentDescription, BarredAgent, ConstraintContext, EarlierTask, ErrorCategory, ErrorContext, ErrorSummary,
    ErrorSurroundings, EvaluateProgressInput, ExecutionSummary, OutputSummary, RecentPerformance,
    RecordedFacts, RecoveryAction, RecoveryOption, Repetition, RunFacts, SelectAgentInput, TokenCounts,
    ToolLists, VerificationFacts,
};
pub(crate) use objection::unanswered_rejection;
pub use objection::{Objection, RedCheck};
pub use prompt::{Prompt, Templates};
pub(crate) use prompt::{execution as execution_text, plan as plan_text};
pub use question::ArbiterQuestion;
pub use rules::{rule_on_progress, rule_on_selection};
pub use situation::{Label, Recorded, Situation, SituationError, parse_situations};
pub use statistics::{AgentStatistics, HistoryStatistics};
pub(crate) use template::one_line;
pub use template::{VOLATILE, defuse, fence, fill};
