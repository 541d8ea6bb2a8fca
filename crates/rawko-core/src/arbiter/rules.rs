//! Deciding by rules alone: pure functions of what the arbiter is told (`arbiter.mode: rules` and `hybrid`).
//!
//! A rule looks at what was recorded (the plan's steps, files written, exit codes, denials, error categories, what the
//! verification said), never at what an agent claims, but for the agent's own word on whether it succeeded. Each ruling
//! names its rule and says whether it is certain: then a careful person with the same record would hardly decide
//! otherwise, and `hybrid` asks no model. Where no rule fits there is no ruling, and the fallback of ADR-0005 holds.
//!
//! The order of the rules is their precedence: [`selecting`](super::selecting) and [`judging`](super::judging) hold
//! them, `docs/arbiter.md` lists them for people.

use super::evidence::Record;
use super::fallback::said;
use super::input::{
    AgentDescription, ConstraintContext, EvaluateProgressInput, ExecutionSummary, RunFacts, SelectAgentInput,
};
use super::team::{Role, Team};
use super::words::stems;
use super::{judging, selecting};
use crate::machine::{Decision, Plan, PlanStep};

/// What a rule says.
#[derive(Debug, Clone, PartialEq)]
pub struct Ruling {
    /// The decision.
    pub decision: Decision,
    /// Name of the rule, for the journal and for people.
    pub rule: &'static str,
    /// Whether there is nothing for a model to weigh.
    pub certain: bool,
}

/// Who works next, if a rule knows.
#[must_use]
pub fn rule_on_selection(input: &SelectAgentInput) -> Option<Ruling> {
    let record = Record::of(&input.history, None, &input.facts);
    let case = Case {
        task: &input.task,
        plan: input.plan.as_ref(),
        record,
        team: Team::new(&input.available_agents),
        constraints: &input.constraints,
        facts: &input.facts,
    };
    selecting::rule(&case, input.last_error.as_ref())
}

/// How it goes on after an execution, if a rule knows. `agents` are those that can be chosen.
#[must_use]
pub fn rule_on_progress(input: &EvaluateProgressInput, agents: &[AgentDescription]) -> Option<Ruling> {
    let last = &input.last_execution;
    let record = Record::of(&input.history, Some(last), &input.facts);
    let case = Case {
        task: &input.task,
        plan: input.plan.as_ref(),
        record,
        team: Team::new(agents),
        constraints: &input.constraints,
        facts: &input.facts,
    };
    judging::rule(&case, last)
}

/// A state of affairs, in the words in which rules ask for it.
#[derive(Debug, Clone)]
pub(super) struct Case<'a> {
    pub(super) task: &'a str,
    pub(super) plan: Option<&'a Plan>,
    pub(super) record: Record<'a>,
    pub(super) team: Team<'a>,
    pub(super) constraints: &'a ConstraintContext,
    pub(super) facts: &'a RunFacts,
}

/// An agent for a piece of work, and whether there is any doubt about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Worker<'a> {
    pub(super) name: &'a str,
    pub(super) sure: bool,
}

impl<'a> Case<'a> {
    /// The first step that is still to be done.
    pub(super) fn open_step(&self) -> Option<&'a PlanStep> {
        let plan = self.plan?;
        let open = |step: &&PlanStep| !step.is_settled();
        plan.steps.get(plan.current_step_index).filter(open).or_else(|| plan.steps.iter().find(open))
    }

    /// Whether there is a plan with steps in it.
    pub(super) fn is_planned(&self) -> bool {
        self.plan.is_some_and(|plan| !plan.steps.is_empty())
    }

    /// The agent with that role.
    pub(super) fn who(&self, role: Role) -> Option<Worker<'a>> {
        let state = self.state();
        let found = self.team.who(role, self.record.last_writer(), &state)?;
        Some(Worker { name: found.name, sure: found.sure })
    }

    /// Who changes what has to be changed.
    pub(super) fn fixer(&self) -> Option<Worker<'a>> {
        self.who(Role::Developer).or_else(|| self.team.only().map(|name| Worker { name, sure: true }))
    }

    /// Who does that step: its first word may ask for a review or a test run, everything else is work on files.
    pub(super) fn worker_for(&self, step: &PlanStep) -> Option<Worker<'a>> {
        match role_of_step(&step.description) {
            Some(role) => self.who(role).or_else(|| self.fixer()),
            None => self.fixer(),
        }
    }

    /// Who may think again where others got stuck: whoever plans, unless it is `but` that got stuck.
    pub(super) fn thinker(&self, but: &str) -> Option<Worker<'a>> {
        let planner = self.who(Role::Planner).filter(|planner| planner.name != but);
        planner.or_else(|| {
            let other = self.team.nearest(&self.state(), but)?;
            Some(Worker { name: other, sure: false })
        })
    }

    /// What the work is about, in words.
    pub(super) fn state(&self) -> String {
        let step = self.open_step().map_or("", |step| &step.description);
        let said = self.record.last().map_or("", ExecutionSummary::said);
        format!("{} {step} {said}", self.task)
    }
}

/// The role that a step's first words ask for.
pub(super) fn role_of_step(description: &str) -> Option<Role> {
    let lower = description.trim_start().to_lowercase();
    let first = lower.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    match first {
        "review" | "audit" | "proofread" | "reread" => Some(Role::Reviewer),
        "verify" | "test" => Some(Role::Tester),
        "run" | "check" | "execute" => stems(&lower)
            .iter()
            .any(|stem| matches!(stem.as_str(), "test" | "suit" | "check" | "benchmark"))
            .then_some(Role::Tester),
        _ => None,
    }
}

/// Whether a task asks to be told something, and nothing to be changed.
pub(super) fn asks_only(task: &str) -> bool {
    let task = task.to_lowercase();
    const HANDS_OFF: &[&str] = &[
        "do not change",
        "don't change",
        "leave the code",
        "without changing anything",
        "only want an explanation",
        "only explain",
    ];
    HANDS_OFF.iter().any(|words| task.contains(words))
}

impl Ruling {
    pub(super) fn select(rule: &'static str, worker: Worker<'_>, certain: bool, reason: &str) -> Self {
        let decision = Decision::SelectMode { mode: worker.name.to_owned(), reason: reason.to_owned() };
        Self { decision, rule, certain: certain && worker.sure }
    }

    pub(super) fn go_on(rule: &'static str, certain: bool, reason: &str) -> Self {
        Self { decision: Decision::Continue { reason: reason.to_owned() }, rule, certain }
    }

    pub(super) fn retry(rule: &'static str, certain: bool, reason: &str) -> Self {
        Self { decision: Decision::Retry { reason: reason.to_owned() }, rule, certain }
    }

    pub(super) fn done(rule: &'static str, certain: bool, last: &ExecutionSummary) -> Self {
        Self { decision: Decision::Complete { summary: said(last) }, rule, certain }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbiter::Label;
    use crate::arbiter::testing::{Scene, builtin, execution};
    use serde_json::{Value, json};

    fn wrote(agent: &str, iteration: u32, other: Value) -> ExecutionSummary {
        let mut whole =
            json!({"iteration": iteration, "output": {"summary": "s", "filesModified": ["a.rs"]}});
        whole.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        execution(agent, whole)
    }

    fn ran(code: i32) -> Value {
        json!({"facts": {"turns": 1, "commands": [{"command": "cargo test", "exitCode": code, "isCheck": true}]}})
    }

    fn did(agent: &str, iteration: u32, other: Value) -> ExecutionSummary {
        let mut whole = json!({"iteration": iteration, "output": {"summary": "s"}});
        whole.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        execution(agent, whole)
    }

    #[track_caller]
    fn told(ruling: Option<Ruling>, expected: &str) {
        let got = ruling.map_or_else(
            || "no rule".to_owned(),
            |Ruling { decision, rule, certain }| {
                format!("{rule}: {}{}", Label::of(&decision), if certain { "" } else { "?" })
            },
        );
        assert_eq!(got, expected);
    }

    #[track_caller]
    fn check(scene: Scene, history: Vec<ExecutionSummary>, expected: &str) {
        told(rule_on_progress(&scene.history(history).evaluate(), &builtin()), expected);
    }

    #[track_caller]
    fn check_select(scene: Scene, history: Vec<ExecutionSummary>, expected: &str) {
        told(rule_on_selection(&scene.history(history).select()), expected);
    }

    fn done() -> Scene {
        Scene::default().plan(&["complete"])
    }

    fn open() -> Scene {
        Scene::default().plan(&["complete", "pending"])
    }

    #[test]
    fn the_record_decides_not_the_claim() {
        let dev = || wrote("developer", 1, json!({}));
        check(done(), vec![dev()], "changed-not-tested: SELECT_MODE tester");
        check(done(), vec![wrote("developer", 1, ran(101))], "checks-failed: CONTINUE");
        check(done(), vec![dev(), did("tester", 2, ran(0))], "tested-not-reviewed: SELECT_MODE reviewer");
        check(done(), vec![dev(), did("tester", 2, ran(1))], "checks-failed: SELECT_MODE developer");
        check(done(), vec![dev(), did("tester", 2, json!({}))], "tested-nothing: CONTINUE");
        check(
            done(),
            vec![dev(), did("tester", 2, ran(0)), did("reviewer", 3, json!({}))],
            "tested-and-reviewed: COMPLETE",
        );
        check(done(), vec![dev(), did("reviewer", 2, json!({}))], "reviewed-not-tested: SELECT_MODE tester");
        check(
            open(),
            vec![dev(), did("tester", 2, ran(0)), did("reviewer", 3, json!({}))],
            "steps-open: SELECT_MODE developer",
        );
        check(open(), vec![did("planner", 1, json!({}))], "plan-made: SELECT_MODE developer");
    }

    #[test]
    fn nobody_goes_on_for_ever() {
        let red = |n| wrote("developer", n, ran(101));
        check(done(), vec![red(1), red(2)], "checks-failed: CONTINUE");
        check(done(), vec![red(1), red(2), red(3)], "checks-fail-on: SELECT_MODE planner?");
        let failed = |n| did("developer", n, json!({"status": "failure"}));
        check(open(), vec![failed(1)], "cannot-be-done-so: SELECT_MODE planner");
        check(open(), vec![failed(1), failed(2), failed(3)], "in-circles: SELECT_MODE planner");
        let idle = |n| did("tester", n, json!({}));
        check(
            done(),
            vec![wrote("developer", 1, json!({})), idle(2), idle(3)],
            "tested-not-reviewed: SELECT_MODE reviewer?",
        );
        let reviewer = did("reviewer", 3, json!({}));
        check(
            done(),
            vec![wrote("developer", 1, json!({})), idle(2), reviewer],
            "reviewed-and-last: COMPLETE?",
        );
        // A plan that nobody ticks off.
        check(
            open(),
            vec![wrote("developer", 1, json!({})), did("developer", 2, json!({}))],
            "changed-not-tested: SELECT_MODE tester?",
        );
        let repetition =
            json!({"facts": {"repetition": {"what": "x", "times": 3, "changeAt": 5, "stopAt": 7}}});
        check(
            done().with(repetition),
            vec![did("reviewer", 1, json!({}))],
            "in-circles: SELECT_MODE planner",
        );
    }

    #[test]
    fn a_fresh_verification_is_believed() {
        let verification = |passed: bool| json!({"facts": {"verification": {"passed": passed, "isStale": false, "commands": []}}});
        let history = || vec![wrote("developer", 1, json!({})), did("reviewer", 2, json!({}))];
        check(done().with(verification(true)), history(), "tested-and-reviewed: COMPLETE");
        check(done().with(verification(false)), history(), "checks-failed: SELECT_MODE developer");
    }

    #[test]
    fn the_last_iteration_ends_with_what_is_proven() {
        let last = || done().with(json!({"constraints": {"iterationsRemaining": 0}}));
        check(last(), vec![wrote("developer", 1, ran(0))], "proven-at-the-last-iteration: COMPLETE");
        check(last(), vec![wrote("developer", 1, ran(1))], "checks-failed: CONTINUE");
        check(last(), vec![wrote("developer", 1, json!({}))], "changed-not-tested: SELECT_MODE tester");
    }

    fn error(category: &str, tool: Option<&str>, options: &[&str]) -> Value {
        let options: Vec<Value> =
            options.iter().map(|action| json!({"action": action, "description": "", "reason": ""})).collect();
        json!({"lastError": {"category": category, "tool": tool, "recoveryOptions": options}})
    }

    #[test]
    fn errors_are_weighed_by_their_category() {
        let met = |category: &str, tool: Option<&str>, options: &[&str]| {
            open().error("tester", "it failed").with(error(category, tool, options))
        };
        let history = || vec![did("tester", 1, json!({"status": "failure"}))];
        check_select(met("provider_error", None, &["retry"]), history(), "provider-trouble: RETRY");
        check_select(
            met("tool_failure", Some("Bash"), &["retry", "skip"]),
            history(),
            "tool-failed-once: RETRY",
        );
        check_select(met("validation_error", None, &["retry"]), history(), "malformed-once: RETRY");
        check_select(met("timeout", None, &["retry", "abort"]), history(), "took-too-long: RETRY");
        check_select(met("unknown", None, &["retry", "abort"]), history(), "unknown-error: RETRY?");
        check_select(
            met("permission_error", Some("Bash"), &["skip"]),
            history(),
            "not-allowed: SELECT_MODE planner?",
        );
        check_select(
            met("tool_failure", Some("verify"), &["retry"]),
            history(),
            "verification-failed: SELECT_MODE developer",
        );
        let twice = || {
            vec![
                did("tester", 1, json!({"status": "failure"})),
                did("tester", 2, json!({"status": "failure"})),
            ]
        };
        check_select(met("timeout", None, &["retry"]), twice(), "same-error-again: SELECT_MODE planner");
        check_select(
            met("tool_failure", None, &["retry"]),
            twice(),
            "same-error-again: SELECT_MODE planner?",
        );
        let denied = open().error("reviewer", "Write is not among the tools").with(error(
            "permission_error",
            Some("Write"),
            &["skip"],
        ));
        check_select(
            denied,
            vec![did("reviewer", 1, json!({"status": "failure"}))],
            "tool-not-allowed: SELECT_MODE developer",
        );
        // The arbiter's own error says nothing of the work.
        check_select(Scene::default().error("arbiter", "x"), vec![], "beginning: SELECT_MODE planner?");
    }

    #[test]
    fn without_anybody_there_is_no_ruling() {
        let alone = Scene::default().with(json!({"availableAgents": []}));
        check_select(alone, vec![], "no rule");
        let input = done().history([wrote("developer", 1, json!({}))]).evaluate();
        told(rule_on_progress(&input, &[]), "changed-not-tested: CONTINUE?");
    }

    #[test]
    fn first_words_of_steps_tell_who_they_are_for() {
        for (step, expected) in [
            ("Review the diff", Some(Role::Reviewer)),
            ("Run the test suite", Some(Role::Tester)),
            ("Run the migration", None),
            ("Verify that it works", Some(Role::Tester)),
            ("Write tests for the parser", None),
            ("", None),
        ] {
            assert_eq!(role_of_step(step), expected, "{step}");
        }
    }
}
