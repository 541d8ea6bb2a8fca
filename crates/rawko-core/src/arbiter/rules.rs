//! Deciding without a model: ADR-0005's fallback, completed by the agents' own transitions (`spec/arbiter.md`).

use std::collections::BTreeMap;

use crate::agent::AgentConfig;
use crate::machine::{Context, Decision, ExecutionEnd, ExecutionStatus, HistoryEntry};

/// A transition target that means the end, not an agent.
pub const COMPLETE: &str = "complete";

/// The set of agents and the one to fall back on.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// The agents by name.
    pub agents: &'a BTreeMap<String, &'a AgentConfig>,
    /// `agents.default` of the configuration.
    pub default: Option<&'a str>,
}

impl Rules<'_> {
    /// Who works next: no plan, the planner; an error, the last agent again; else the developer. Names that are
    /// not in the set fall to the last agent's own transitions, then to the default, then to the first by name.
    /// `None` only where there is no agent at all.
    #[must_use]
    pub fn select(&self, context: &Context) -> Option<Decision> {
        let (wanted, reason) = match (&context.plan, &context.last_error) {
            (None, _) => ("planner", "No plan exists".to_owned()),
            (Some(_), Some(failure)) if !context.current_mode.is_empty() => {
                let reason = format!("Error occurred: {}", failure.error.code);
                return Some(Decision::Retry { reason });
            }
            (Some(_), _) => ("developer", "There is a plan and no error".to_owned()),
        };
        let mode = [Some(wanted), self.transition(context), self.default]
            .into_iter()
            .flatten()
            .find(|name| self.agents.contains_key(*name))
            .map(str::to_owned)
            .or_else(|| self.agents.keys().next().cloned())?;
        Some(Decision::SelectMode { mode, reason })
    }

    /// How it goes on after an execution.
    #[must_use]
    pub fn evaluate(&self, context: &Context) -> Decision {
        let Some(last) = context.history.last() else {
            return Decision::Retry { reason: "Nothing has been done yet".to_owned() };
        };
        match self.transition(context) {
            Some(COMPLETE) => {
                Decision::Complete {
                    summary: last.output.clone().filter(|text| !text.is_empty()).unwrap_or_else(|| {
                        format!("{} ended and names no successor but the end", last.agent)
                    }),
                }
            }
            Some(name) if self.agents.contains_key(name) => Decision::SelectMode {
                mode: name.to_owned(),
                reason: format!("{} names {name} as its successor", last.agent),
            },
            _ if last.facts.ended == Some(ExecutionEnd::MaxIterations) => {
                Decision::Continue { reason: "It used up its turns and was not done".to_owned() }
            }
            _ => Decision::Retry { reason: format!("{} names no successor", last.agent) },
        }
    }

    /// Where the last agent's own transitions lead.
    fn transition(&self, context: &Context) -> Option<&str> {
        let last = context.history.last()?;
        let transitions = &self.agents.get(&last.agent)?.transitions;
        let target = match outcome(last) {
            Followed::MaxIterations => transitions.on_max_iterations.as_ref(),
            Followed::Success => transitions.on_success.as_ref(),
            Followed::Failure => transitions.on_failure.as_ref(),
            Followed::Nothing => None,
        };
        target.map(String::as_str)
    }
}

/// Which transition an execution takes.
enum Followed {
    Success,
    Failure,
    MaxIterations,
    Nothing,
}

fn outcome(entry: &HistoryEntry) -> Followed {
    match entry.result {
        _ if entry.facts.ended == Some(ExecutionEnd::MaxIterations) => Followed::MaxIterations,
        ExecutionStatus::Success => Followed::Success,
        ExecutionStatus::Failure | ExecutionStatus::Timeout => Followed::Failure,
        ExecutionStatus::Cancelled => Followed::Nothing,
    }
}
