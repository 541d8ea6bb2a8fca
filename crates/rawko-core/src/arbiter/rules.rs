//! Deciding by rules alone: pure functions of the arbiter's inputs (`arbiter.mode: rules` and `hybrid`).
//!
//! A rule reads what was recorded (the plan's steps, files written, exit codes, denials, error categories, verdicts, the
//! result of the verification) and the agents' roles. Of what an agent claims it reads only whether the agent reports
//! success. A ruling that words of a text decided is never certain. No ruling is COMPLETE against the record. Each ruling names its
//! rule and whether it is certain: then a careful person with the same record would hardly decide otherwise, and
//! `hybrid` asks no model. If no rule fits there is no ruling, and the fallback decides.
//!
//! The order of the rules is their precedence. They are in [`selecting`](super::selecting) and
//! [`judging`](super::judging); `docs/arbiter.md` lists them.

use super::case::{Case, Ruling};
use super::input::{AgentDescription, EvaluateProgressInput, SelectAgentInput};
use super::{judging, selecting};

/// Selects the next agent, if a rule fits.
#[must_use]
pub fn rule_on_selection(input: &SelectAgentInput) -> Option<Ruling> {
    let case = Case::of_selection(input);
    selecting::rule(&case, input.last_error.as_ref()).map(|ruling| case.checked(ruling))
}

/// Decides what follows an execution, if a rule fits. `agents` are those that can be chosen.
#[must_use]
pub fn rule_on_progress(input: &EvaluateProgressInput, agents: &[AgentDescription]) -> Option<Ruling> {
    let case = Case::of_progress(input, agents);
    judging::rule(&case, &input.last_execution).map(|ruling| case.checked(ruling))
}
