//! The control tools `UpdatePlan` and `Report`, which carry plan updates and success to the machine
//! (`docs/tools.md#control-tools`). They are answered here and have no effect outside.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::replan::{Replanned, replan};
use super::role::AgentRole;
use super::verdict::VerdictReport;
use crate::machine::{Plan, PlanStep, PlanUpdates, StepStatus};
use crate::tool_spec::{ToolAccess, ToolSpec};

/// Name of the tool that changes the plan.
pub const UPDATE_PLAN: &str = "UpdatePlan";
/// Name of the tool that ends an execution.
pub const REPORT: &str = "Report";

/// Most steps of a plan: it is shown whole in every prompt.
pub(super) const MAX_STEPS: usize = 50;
/// Most characters of a step.
const MAX_STEP_CHARS: usize = 1_000;

/// Arguments of `UpdatePlan`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdatePlan {
    /// The whole plan, in order, by descriptions: also the steps that have not changed. Or changes: where an entry has an
    /// `index`, steps that no entry names stay as they are. At most 50.
    #[schemars(length(min = 1, max = 50))]
    pub steps: Vec<StepInput>,
}

/// One step as an agent gives it: by its words or by its number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepInput {
    /// Number of a step that the plan has, in place of its description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub index: Option<usize>,
    /// What is to be done: one verifiable piece of work, in at most 1,000 characters. Left out with `index`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1_000))]
    pub description: Option<String>,
    /// How far it is. Where absent: as it was, and `pending` for a new step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StepStatus>,
}

/// Arguments of `Report`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Report {
    /// Whether your part is done.
    pub outcome: ReportOutcome,
    /// What you did and what you saw: commands with their results, what is left, what you doubt.
    pub summary: String,
    /// Files you changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// How an agent says its work went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportOutcome {
    /// Your part is done, and you saw it work.
    Success,
    /// It is not done, does not work, or cannot be done.
    Failure,
}

/// The control tools, which are offered to every agent.
#[must_use]
pub fn control_tools() -> Vec<ToolSpec> {
    vec![
        ToolSpec {
            name: UPDATE_PLAN.to_owned(),
            description: "Sets the shared plan: all of its steps, in order, with their statuses. Or changes single steps \
                          by number, such as {\"steps\":[{\"index\":2,\"status\":\"complete\"}]}: the others stay as they are. \
                          Call it when you make a plan, when you begin a step (in_progress) and when you finish one \
                          (complete or failed). What is complete or skipped stays, also where you leave it out; to open \
                          such a step again, list it with another status."
                .to_owned(),
            input_schema: schemars::schema_for!(UpdatePlan).to_value(),
            access: ToolAccess::ReadOnly,
        },
        report_tool(None),
    ]
}

/// `Report` as it is offered to an agent of that role: an agent that tests or reviews gives a verdict in place of an
/// outcome. Conversations are recorded by their digest, so a change to the text is a change of the journal's format.
#[must_use]
pub fn report_tool(role: Option<AgentRole>) -> ToolSpec {
    let (description, input_schema) = if role.is_some_and(AgentRole::judges) {
        (
            "Ends your turn with your verdict on the work. Call it exactly once. Approve only what you have seen to \
             hold; reject what has to be changed, and give what you found; `blocked` means that you could not \
             examine it.",
            schemars::schema_for!(VerdictReport).to_value(),
        )
    } else {
        (
            "Ends your turn and reports what came of it. Call it exactly once, when your part is done \
             or cannot be done. Report success only for what you have seen work.",
            schemars::schema_for!(Report).to_value(),
        )
    };
    ToolSpec {
        name: REPORT.to_owned(),
        description: description.to_owned(),
        input_schema,
        access: ToolAccess::ReadOnly,
    }
}

impl UpdatePlan {
    /// Checks what the schema does not. The error is for the model.
    ///
    /// # Errors
    /// A plan without steps, with too many, or with one that is empty, too long, or not named in one way.
    pub fn check(&self) -> Result<(), String> {
        if self.steps.is_empty() {
            return Err("`steps` is empty; give the whole plan, one step at least".to_owned());
        }
        if self.steps.len() > MAX_STEPS {
            let count = self.steps.len();
            return Err(format!("`steps` has {count} entries; sum them up in at most {MAX_STEPS}"));
        }
        for (number, step) in (1..).zip(&self.steps) {
            let description = match (step.index, &step.description) {
                (None, Some(description)) => description,
                (Some(_), None) => continue,
                (None, None) => {
                    return Err(format!(
                        "entry {number} has neither an `index` nor a `description`; give one of them"
                    ));
                }
                (Some(index), Some(_)) => {
                    return Err(format!(
                        "entry {number} has both an `index` and a `description`; give `index` {index} alone to change the \
                         status of that step, or the descriptions of all steps without `index`"
                    ));
                }
            };
            let length = description.chars().count();
            if description.trim().is_empty() || length > MAX_STEP_CHARS {
                return Err(format!(
                    "step {number} has {length} characters; say it in 1 to {MAX_STEP_CHARS}"
                ));
            }
        }
        Ok(())
    }

    /// The updates to the plan `current`, and a text about them for the agent. Finished steps stay, with the agent that
    /// did them.
    ///
    /// # Errors
    /// A number that no step has, a step that is listed twice, or too many steps with those that stay.
    pub fn to_updates(&self, current: Option<&Plan>, agent: &str) -> Result<(PlanUpdates, String), String> {
        let before = current.map(|plan| plan.steps.as_slice()).unwrap_or_default();
        let Replanned { steps, kept, reopened } = replan(before, &self.steps, agent)?;
        let position_of = |wanted| steps.iter().position(|step| step.status == wanted);
        let current_step_index = position_of(StepStatus::InProgress)
            .or_else(|| position_of(StepStatus::Pending))
            .or_else(|| position_of(StepStatus::Failed))
            .unwrap_or(steps.len().saturating_sub(1));
        let is_complete = steps.iter().all(PlanStep::is_settled);
        let mut words = String::new();
        for (what, numbers) in [
            ("Kept, because they are finished: ", kept),
            ("Open again, although they were finished: ", reopened),
        ] {
            if !numbers.is_empty() {
                let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                words.push_str(what);
                words.push_str(&numbers.join(", "));
                words.push('\n');
            }
        }
        let updates = PlanUpdates {
            steps: Some(steps),
            current_step_index: Some(current_step_index),
            is_complete: Some(is_complete),
        };
        Ok((updates, words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn step(text: &str, status: Option<StepStatus>) -> StepInput {
        StepInput { index: None, description: Some(text.to_owned()), status }
    }

    #[track_caller]
    fn check(steps: &[(&str, StepStatus)], current: usize, complete: bool) {
        let update =
            UpdatePlan { steps: steps.iter().map(|(text, status)| step(text, Some(*status))).collect() };
        let (updates, _) = update.to_updates(None, "developer").unwrap();
        assert_eq!(updates.current_step_index, Some(current));
        assert_eq!(updates.is_complete, Some(complete));
        assert_eq!(updates.steps.map(|s| s.len()), Some(steps.len()));
    }

    #[test]
    fn the_current_step_is_the_one_in_progress_else_the_next_pending() {
        use StepStatus::{Complete, Failed, InProgress, Pending, Skipped};
        check(&[("a", Pending), ("b", Pending)], 0, false);
        check(&[("a", Complete), ("b", Pending)], 1, false);
        check(&[("a", Pending), ("b", InProgress)], 1, false);
        check(&[("a", Complete), ("b", Skipped)], 1, true);
        check(&[("a", Complete), ("b", Failed)], 1, false);
        check(&[("a", Failed), ("b", Complete)], 0, false);
    }

    #[test]
    fn plans_are_bounded() {
        let step = |text: String| step(&text, None);
        let check = |steps: Vec<StepInput>| UpdatePlan { steps }.check();
        assert_eq!(check(vec![step("ü".repeat(1_000))]), Ok(()));
        assert!(check(vec![step("x".repeat(1_001))]).unwrap_err().contains("step 1"));
        assert!(check(vec![step(" ".into())]).is_err() && check(vec![]).is_err());
        assert!(check((0..51).map(|n| step(n.to_string())).collect()).unwrap_err().contains("51"));
    }

    #[test]
    fn a_step_is_named_in_one_way() {
        let check = |steps: serde_json::Value| {
            serde_json::from_value::<UpdatePlan>(json!({ "steps": steps })).unwrap().check()
        };
        assert_eq!(check(json!([{"index": 2, "status": "complete"}, {"description": "new"}])), Ok(()));
        let neither = check(json!([{"description": "a"}, {"status": "complete"}])).unwrap_err();
        assert!(neither.contains("entry 2 has neither"), "{neither}");
        let both = check(json!([{"index": 7, "description": "a"}])).unwrap_err();
        assert!(both.contains("entry 1 has both") && both.contains("`index` 7 alone"), "{both}");
    }

    #[test]
    fn the_agent_learns_what_stays_and_what_is_reopened() {
        let first = UpdatePlan { steps: vec![step("a", Some(StepStatus::Complete)), step("b", None)] };
        let (updates, words) = first.to_updates(None, "developer").unwrap();
        assert_eq!(words, "");
        let plan = Plan { steps: updates.steps.unwrap(), ..Plan::default() };
        let (updates, words) =
            UpdatePlan { steps: vec![step("c", None)] }.to_updates(Some(&plan), "tester").unwrap();
        assert_eq!(words, "Kept, because they are finished: 1\n");
        assert_eq!(updates.steps.unwrap()[0].agent_used.as_deref(), Some("developer"));
        let (updates, words) = UpdatePlan { steps: vec![step("A", Some(StepStatus::Failed))] }
            .to_updates(Some(&plan), "tester")
            .unwrap();
        assert_eq!(words, "Open again, although they were finished: 1\n");
        assert_eq!(updates.steps.unwrap()[0].agent_used.as_deref(), Some("tester"));
    }
}
