//! Which decisions a question offers to the model, and what it says of them. An answer is read leniently: a guard or the
//! machine deals with a decision that was not offered.

use super::answer::DecisionKind;
use super::input::{
    AgentDescription, ErrorContext, EvaluateProgressInput, RecoveryAction, RecoveryOption, SelectAgentInput,
};

/// When BLOCKED is right.
const BLOCKED: &str = " with `reason`, what stands in the way and what a person has to do: the task cannot be done until a person \
     removes it, such as a program or a credential that is missing, or a task that contradicts itself. The run ends. Only if \
     the record or the task shows it, and no agent can go around it.";

/// The decisions while selecting, and when each is right. They are the same for every question of a run, so they are in
/// its stable part.
pub(super) const SELECTING: [(DecisionKind, &str); 4] = [
    (
        DecisionKind::SelectMode,
        " with `mode`, the agent's name: that agent works next. Better than RETRY when the same agent failed more than once.",
    ),
    (DecisionKind::Retry, ": the last agent tries again in a new conversation."),
    (
        DecisionKind::Complete,
        " with `summary`: only if the record shows that the task is done: files written, commands that exited 0. What an \
         agent says of its own work is a claim; what is recorded by rawko was observed.",
    ),
    (DecisionKind::Blocked, BLOCKED),
];

/// The decisions after an execution, and when each is right.
const JUDGING: [(DecisionKind, &str); 5] = [
    (
        DecisionKind::Continue,
        ": the same agent goes on in the same conversation. Right when it was making progress and was merely interrupted, \
         e.g. by its turn limit.",
    ),
    (
        DecisionKind::SelectMode,
        " with `mode`, the agent's name: another agent works next. Right when this one's part is done: a plan is there to be \
         carried out, a change is there to be tested or reviewed, a test or review found something to fix.",
    ),
    (DecisionKind::Retry, ": the approach failed; a new conversation, and a new choice of agent."),
    (
        DecisionKind::Complete,
        " with `summary`: the whole task is done, not only this step. The record must show it: files written, commands that \
         exited 0 after the last change. What an agent says of its own work is a claim; what is recorded by rawko was \
         observed. If they disagree, believe the record.",
    ),
    (DecisionKind::Blocked, BLOCKED),
];

/// [`JUDGING`] without CONTINUE where the last agent cannot go on.
pub(super) fn judging(
    input: &EvaluateProgressInput,
    available: &[AgentDescription],
) -> Vec<(DecisionKind, &'static str)> {
    let last = &input.last_execution.agent;
    let goes_on = available.iter().any(|agent| agent.name == *last) && !input.facts.is_barred(last);
    JUDGING.into_iter().filter(|(kind, _)| goes_on || *kind != DecisionKind::Continue).collect()
}

/// The recovery options that a decision can express now, by its name.
pub(super) fn recovery(error: &ErrorContext, input: &SelectAgentInput) -> Vec<String> {
    let last = input.history.last().map_or(&error.agent, |last| &last.agent);
    let can_retry = input.some_agent_ran() && !input.facts.is_barred(last);
    let mut others = input.available_agents.iter().filter(|agent| agent.name != error.agent);
    let has_others = others.any(|agent| !input.facts.is_barred(&agent.name));
    let offered = |option: &RecoveryOption| {
        let decision = match option.action {
            RecoveryAction::Retry if can_retry => "RETRY",
            RecoveryAction::Fallback if has_others => "SELECT_MODE of another agent",
            // Agents skip steps in the plan. BLOCKED is no way to give up: it says what a person can do.
            RecoveryAction::Retry
            | RecoveryAction::Fallback
            | RecoveryAction::Skip
            | RecoveryAction::Abort => {
                return None;
            }
        };
        Some(format!("- {decision}: {} ({})", option.description, option.reason))
    };
    error.recovery_options.iter().filter_map(offered).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbiter::Templates;
    use crate::arbiter::testing::{InputBuilder, builtin, execution};
    use serde_json::{Value, json};

    fn barred(agents: &[&str]) -> Value {
        let barred: Vec<Value> =
            agents.iter().map(|agent| json!({"agent": agent, "reason": "its budget is used up"})).collect();
        json!({"facts": {"barred": barred}})
    }

    #[track_caller]
    fn check_continue(input: &EvaluateProgressInput, agents: &[AgentDescription], expected: bool) {
        let prompt = Templates::default().evaluate(input, agents);
        assert_eq!(prompt.decisions.contains(&DecisionKind::Continue), expected);
        assert_eq!(prompt.system.contains("CONTINUE"), expected, "{}", prompt.system);
        assert!(prompt.system.contains("- SELECT_MODE with `mode`"), "{}", prompt.system);
        let named = prompt.decisions.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ");
        assert!(prompt.system.contains(&format!("`decision` is one of {named};")), "{}", prompt.system);
    }

    #[test]
    fn continue_is_offered_where_an_agent_can_go_on() {
        let scene = InputBuilder::default().history([execution("developer", json!({}))]);
        check_continue(&scene.evaluate(), &builtin(), true);
        check_continue(&scene.clone().with(barred(&["tester"])).evaluate(), &builtin(), true);
        check_continue(&scene.clone().with(barred(&["developer"])).evaluate(), &builtin(), false);
        check_continue(&scene.evaluate(), &builtin()[..1], false);
        let select = Templates::default().select(&scene.select());
        assert!(!select.decisions.contains(&DecisionKind::Continue) && !select.system.contains("CONTINUE"));
    }

    #[track_caller]
    fn check_recovery(scene: InputBuilder, expected: &[&str]) {
        let every = ["retry", "skip", "abort", "fallback"];
        let every = every.map(|action| json!({"action": action, "description": "d", "reason": "r"}));
        let input = scene.with(json!({"lastError": {"recoveryOptions": every}})).select();
        let prompt = Templates::default().select(&input).user;
        let shown: Vec<&str> = prompt.lines().filter(|line| line.ends_with(": d (r)")).collect();
        assert_eq!(shown, expected, "{prompt}");
        assert_eq!(prompt.contains("Recovery options:"), !expected.is_empty(), "{prompt}");
    }

    #[test]
    fn a_recovery_option_is_offered_where_a_decision_expresses_it() {
        let (retry, other) = ("- RETRY: d (r)", "- SELECT_MODE of another agent: d (r)");
        let failed = || {
            InputBuilder::default()
                .error("developer", "it broke")
                .history([execution("developer", json!({}))])
        };
        check_recovery(failed(), &[retry, other]);
        check_recovery(failed().with(barred(&["developer"])), &[other]);
        check_recovery(failed().with(barred(&["planner", "tester", "reviewer"])), &[retry]);
        check_recovery(failed().with(json!({"availableAgents": [builtin()[1]]})), &[retry]);
        // No agent has worked yet, so none can try again.
        check_recovery(InputBuilder::default().error("arbiter", "network"), &[other]);
        check_recovery(failed().with(barred(&["planner", "developer", "tester", "reviewer"])), &[]);
    }
}
