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

    /// Who of these agents works in place of one that cannot; `None` where nobody is left.
    #[must_use]
    pub fn another(&self, context: &Context) -> Option<String> {
        [self.transition(context), Some("developer"), self.default]
            .into_iter()
            .flatten()
            .find(|name| self.agents.contains_key(*name))
            .map(str::to_owned)
            .or_else(|| self.agents.keys().next().cloned())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::builtin_agents;
    use crate::error::{ErrorCode, ErrorInfo};
    use crate::machine::{ExecutionFacts, FailureRecord, Plan};
    use crate::time::Timestamp;

    fn entry(agent: &str, result: ExecutionStatus, ended: Option<ExecutionEnd>) -> HistoryEntry {
        HistoryEntry {
            agent: agent.into(),
            iteration: 1,
            started_at: Timestamp(0),
            completed_at: Timestamp(1),
            result,
            output: Some("said".into()),
            error: None,
            plan_step: None,
            usage: None,
            facts: ExecutionFacts { ended, ..ExecutionFacts::default() },
        }
    }

    struct State {
        plan: bool,
        error: bool,
        last: Option<HistoryEntry>,
        agents: &'static [&'static str],
        default: Option<&'static str>,
    }

    impl Default for State {
        fn default() -> Self {
            Self {
                plan: false,
                error: false,
                last: None,
                agents: &["planner", "developer", "tester", "reviewer"],
                default: None,
            }
        }
    }

    impl State {
        fn decide(self) -> (Option<Decision>, Decision) {
            let built_in = builtin_agents();
            let agents = self
                .agents
                .iter()
                .map(|name| {
                    // Names that are not built in borrow the developer's configuration, transitions included.
                    let named = built_in.iter().find(|agent| agent.name == *name);
                    let agent = named.or_else(|| built_in.iter().find(|agent| agent.name == "developer"));
                    ((*name).to_owned(), agent.unwrap())
                })
                .collect();
            let failure = FailureRecord {
                error: ErrorInfo::new(ErrorCode::NetworkError, "m"),
                agent: "developer".into(),
                at: Timestamp(1),
            };
            let context = Context {
                plan: self.plan.then(Plan::default),
                last_error: self.error.then_some(failure),
                current_mode: self.last.as_ref().map(|entry| entry.agent.clone()).unwrap_or_default(),
                history: self.last.into_iter().collect(),
                ..Context::default()
            };
            let rules = Rules { agents: &agents, default: self.default };
            (rules.select(&context), rules.evaluate(&context))
        }
    }

    #[track_caller]
    fn check_select(state: State, expected: &str) {
        let chosen = match state.decide().0 {
            Some(Decision::SelectMode { mode, .. }) => mode,
            Some(other) => other.kind().to_owned(),
            None => "nobody".to_owned(),
        };
        assert_eq!(chosen, expected);
    }

    #[track_caller]
    fn check_evaluate(agent: &'static str, result: ExecutionStatus, ended: ExecutionEnd, expected: &str) {
        let last = Some(entry(agent, result, Some(ended)));
        let decision = match (State { last, plan: true, ..State::default() }).decide().1 {
            Decision::SelectMode { mode, .. } => mode,
            other => other.kind().to_owned(),
        };
        assert_eq!(decision, expected, "{agent} {result:?}");
    }

    #[test]
    fn selection_is_the_fallback_of_adr_0005() {
        let developer = || Some(entry("developer", ExecutionStatus::Success, None));
        check_select(State::default(), "planner");
        check_select(State { error: true, last: developer(), ..State::default() }, "planner");
        check_select(State { plan: true, ..State::default() }, "developer");
        check_select(State { plan: true, error: true, last: developer(), ..State::default() }, "RETRY");
        check_select(State { plan: true, error: true, ..State::default() }, "developer");
    }

    #[test]
    fn missing_names_fall_to_transitions_then_default_then_the_first() {
        let tester = || Some(entry("tester", ExecutionStatus::Success, Some(ExecutionEnd::Reported)));
        let agents = &["tester", "reviewer", "writer"];
        check_select(State { agents, last: tester(), ..State::default() }, "reviewer");
        check_select(State { agents, default: Some("writer"), ..State::default() }, "writer");
        check_select(State { agents, ..State::default() }, "reviewer");
        check_select(State { agents: &[], ..State::default() }, "nobody");
    }

    #[test]
    fn evaluation_follows_the_agents_transitions() {
        use ExecutionEnd::{MaxIterations, Reported};
        use ExecutionStatus::{Cancelled, Failure, Success};
        check_evaluate("planner", Success, Reported, "developer");
        check_evaluate("developer", Success, Reported, "tester");
        check_evaluate("tester", Failure, Reported, "developer");
        check_evaluate("reviewer", Success, Reported, "COMPLETE");
        check_evaluate("reviewer", Failure, Reported, "developer");
        check_evaluate("developer", Success, MaxIterations, "developer");
        check_evaluate("developer", Cancelled, Reported, "RETRY");
    }
}
