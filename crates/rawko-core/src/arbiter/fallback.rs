//! The decision when no model gave a usable answer (`docs/arbiter.md#fallback`).
//!
//! The fallback always decides, and only by plan, last error and the agents' transitions. The rules evaluate the record
//! in detail.

use super::input::{AgentDescription, EvaluateProgressInput, ExecutionSummary, SelectAgentInput};
use crate::agent::{Transitions, Verdict};
use crate::machine::{Decision, ExecutionEnd, ExecutionStatus};

/// The transition target that ends the run instead of naming an agent.
pub const COMPLETE: &str = "complete";

/// The agents that can be chosen, and the default agent.
#[derive(Debug, Clone, Copy)]
pub struct Fallback<'a> {
    /// The agents.
    pub agents: &'a [AgentDescription],
    /// `agents.default` of the configuration.
    pub default: Option<&'a str>,
}

impl Fallback<'_> {
    /// Selects the next agent: without a plan the planner, after an error the last agent again, else the developer. If
    /// there is no such agent, the last agent's transitions decide, then the default, then the first by name.
    /// `None` only if there are no agents.
    #[must_use]
    pub fn select(&self, input: &SelectAgentInput) -> Option<Decision> {
        let (wanted, reason) = match (&input.plan, &input.last_error) {
            (None, _) => ("planner", "No plan exists".to_owned()),
            (Some(_), Some(error)) if input.some_agent_ran() => {
                let reason = format!("Error occurred: {}", error.category.word());
                return Some(Decision::Retry { reason });
            }
            (Some(_), _) => ("developer", "There is a plan and no error".to_owned()),
        };
        let transition = input.history.last().and_then(|last| self.transition(last));
        let mode = [Some(wanted), transition, self.default]
            .into_iter()
            .flatten()
            .find(|name| self.knows(name))
            .or_else(|| self.agents.iter().map(|agent| agent.name.as_str()).min())?;
        Some(Decision::SelectMode { mode: mode.to_owned(), reason })
    }

    /// Decides what follows an execution.
    #[must_use]
    pub fn evaluate(&self, input: &EvaluateProgressInput) -> Decision {
        let last = &input.last_execution;
        match self.transition(last) {
            Some(COMPLETE) => Decision::Complete { summary: summary_of(last) },
            Some(name) if self.knows(name) => Decision::SelectMode {
                mode: name.to_owned(),
                reason: format!("{} names {name} as its successor", last.agent),
            },
            _ if last.ended() == Some(ExecutionEnd::MaxIterations) => {
                Decision::Continue { reason: "It used up its turns and was not done".to_owned() }
            }
            _ => Decision::Retry { reason: format!("{} names no successor", last.agent) },
        }
    }

    fn knows(&self, name: &str) -> bool {
        self.agents.iter().any(|agent| agent.name == name)
    }

    /// The target of the agent's own transitions.
    fn transition(&self, last: &ExecutionSummary) -> Option<&str> {
        let agent = self.agents.iter().find(|agent| agent.name == last.agent)?;
        follow(&agent.transitions, last.ended(), last.status, last.verdict())
    }
}

/// The transition target of an execution that ended like this: an agent, or [`COMPLETE`]. A rejection is followed like a
/// failure: the work is not done, although the agent that judged it did its own.
#[must_use]
pub fn follow(
    transitions: &Transitions,
    ended: Option<ExecutionEnd>,
    status: ExecutionStatus,
    verdict: Option<Verdict>,
) -> Option<&str> {
    let target = match (ended, status, verdict) {
        (Some(ExecutionEnd::MaxIterations), ..) => transitions.on_max_iterations.as_ref(),
        (_, ExecutionStatus::Cancelled, _) => None,
        (_, ExecutionStatus::Success, Some(Verdict::Rejected | Verdict::Blocked))
        | (_, ExecutionStatus::Failure | ExecutionStatus::Timeout, _) => transitions.on_failure.as_ref(),
        (_, ExecutionStatus::Success, Some(Verdict::Approved) | None) => transitions.on_success.as_ref(),
    };
    target.map(String::as_str)
}

/// The agent of `agents` that replaces one that cannot work; `None` if there is none.
#[must_use]
pub fn another<'a>(agents: &[&'a str], successor: Option<&str>, default: Option<&str>) -> Option<&'a str> {
    let known = |wanted: &str| agents.iter().copied().find(|name| *name == wanted);
    let wanted = [successor, Some("developer"), default];
    wanted.into_iter().flatten().find_map(known).or_else(|| agents.iter().copied().min())
}

/// The agent's text about its work, as the summary of a run that ends with it.
pub(super) fn summary_of(last: &ExecutionSummary) -> String {
    let output = last.output.as_ref();
    let text = output.and_then(|output| output.full.clone()).or_else(|| Some(output?.summary.clone()));
    text.filter(|text| !text.is_empty())
        .unwrap_or_else(|| format!("{} ended and names no successor but the end", last.agent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbiter::testing::{InputBuilder, builtin, execution};
    use serde_json::json;

    #[track_caller]
    fn check_select(scene: InputBuilder, agents: &[&str], default: Option<&str>, expected: &str) {
        let described = builtin();
        // Names that are not built in use the developer's description, including its transitions.
        let described: Vec<AgentDescription> = agents
            .iter()
            .map(|name| {
                let own = described.iter().find(|agent| agent.name == *name);
                AgentDescription { name: (*name).to_owned(), ..own.unwrap_or(&described[1]).clone() }
            })
            .collect();
        let chosen = match (Fallback { agents: &described, default }).select(&scene.select()) {
            Some(Decision::SelectMode { mode, .. }) => mode,
            Some(other) => other.kind().to_owned(),
            None => "none".to_owned(),
        };
        assert_eq!(chosen, expected);
    }

    #[track_caller]
    fn check_evaluate(agent: &str, status: &str, ended: &str, expected: &str) {
        let last = execution(agent, json!({"status": status, "facts": {"ended": ended, "turns": 1}}));
        let input = InputBuilder::default().history([last]).evaluate();
        let decision = match (Fallback { agents: &builtin(), default: None }).evaluate(&input) {
            Decision::SelectMode { mode, .. } => mode,
            other => other.kind().to_owned(),
        };
        assert_eq!(decision, expected, "{agent} {status}");
    }

    const BUILT_IN: &[&str] = &["planner", "developer", "tester", "reviewer"];

    #[test]
    fn selection_follows_plan_and_error() {
        let plan = || InputBuilder::default().plan(&["pending"]);
        let developer = || [execution("developer", json!({}))];
        check_select(InputBuilder::default(), BUILT_IN, None, "planner");
        check_select(
            InputBuilder::default().error("developer", "network").history(developer()),
            BUILT_IN,
            None,
            "planner",
        );
        check_select(plan(), BUILT_IN, None, "developer");
        check_select(plan().error("developer", "network").history(developer()), BUILT_IN, None, "RETRY");
        check_select(plan().error("developer", "network"), BUILT_IN, None, "RETRY");
        check_select(plan().error("arbiter", "network"), BUILT_IN, None, "developer");
    }

    #[test]
    fn missing_names_fall_to_transitions_then_default_then_the_first() {
        let tester = || InputBuilder::default().history([execution("tester", json!({}))]);
        let agents = &["tester", "reviewer", "writer"];
        check_select(tester(), agents, None, "reviewer");
        check_select(InputBuilder::default(), agents, Some("writer"), "writer");
        check_select(InputBuilder::default(), agents, None, "reviewer");
        check_select(InputBuilder::default(), &[], None, "none");
    }

    #[test]
    fn evaluation_follows_the_agents_transitions() {
        check_evaluate("planner", "success", "reported", "developer");
        check_evaluate("developer", "success", "reported", "tester");
        check_evaluate("tester", "failure", "reported", "developer");
        check_evaluate("reviewer", "success", "reported", "COMPLETE");
        check_evaluate("reviewer", "failure", "reported", "developer");
        check_evaluate("developer", "success", "max_iterations", "developer");
        check_evaluate("developer", "cancelled", "reported", "RETRY");
        check_evaluate("unknown", "success", "max_iterations", "CONTINUE");
    }
}
