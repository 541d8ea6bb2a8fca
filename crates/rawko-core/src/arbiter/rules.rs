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

use super::execution_record::{Checks, ExecutionRecord};
use super::fallback::summary_of;
use super::input::{
    AgentDescription, ConstraintContext, EvaluateProgressInput, ExecutionSummary, RunFacts, SelectAgentInput,
};
use super::objection::Objection;
use super::team::{Team, Worker};
use super::words::stems;
use super::{judging, selecting};
use crate::agent::{AgentRole, Verdict};
use crate::facts::{CheckResult, OtherCheck};
use crate::machine::{Decision, Plan, PlanStep};

/// The rule that stands in for a COMPLETE against the record.
const AGAINST_THE_RECORD: &str = "against-the-record";

/// The decision of a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Ruling {
    /// The decision.
    pub decision: Decision,
    /// The rule's name, for journal and output.
    pub rule: &'static str,
    /// Whether it is certain, so that `hybrid` asks no model.
    pub certain: bool,
}

/// Selects the next agent, if a rule fits.
#[must_use]
pub fn rule_on_selection(input: &SelectAgentInput) -> Option<Ruling> {
    let case = Case::of_selection(input);
    selecting::rule(&case, input.last_error.as_ref()).map(|ruling| case.upheld(ruling))
}

/// Decides what follows an execution, if a rule fits. `agents` are those that can be chosen.
#[must_use]
pub fn rule_on_progress(input: &EvaluateProgressInput, agents: &[AgentDescription]) -> Option<Ruling> {
    let case = Case::of_progress(input, agents);
    judging::rule(&case, &input.last_execution).map(|ruling| case.upheld(ruling))
}

/// The input of a question in the form that rules read.
#[derive(Debug, Clone)]
pub(super) struct Case<'a> {
    pub(super) task: &'a str,
    pub(super) plan: Option<&'a Plan>,
    pub(super) record: ExecutionRecord<'a>,
    pub(super) team: Team<'a>,
    pub(super) constraints: &'a ConstraintContext,
    pub(super) facts: &'a RunFacts,
}

impl<'a> Case<'a> {
    pub(super) fn of_selection(input: &'a SelectAgentInput) -> Self {
        Self {
            task: &input.task,
            plan: input.plan.as_ref(),
            record: ExecutionRecord::of(&input.history, None, &input.facts),
            team: Team::new(&input.available_agents),
            constraints: &input.constraints,
            facts: &input.facts,
        }
    }

    pub(super) fn of_progress(input: &'a EvaluateProgressInput, agents: &'a [AgentDescription]) -> Self {
        Self {
            task: &input.task,
            plan: input.plan.as_ref(),
            record: ExecutionRecord::of(&input.history, Some(&input.last_execution), &input.facts),
            team: Team::new(agents),
            constraints: &input.constraints,
            facts: &input.facts,
        }
    }

    /// A ruling that is not COMPLETE against the record, and is certain of a COMPLETE only if checks passed after the
    /// last change, whoever judged last approved, and no other command failed: it may have been a check that is not known
    /// as one.
    fn upheld(&self, ruling: Ruling) -> Ruling {
        if let Some(instead) = self.against_record(&ruling.decision) {
            return instead;
        }
        let is_done = matches!(ruling.decision, Decision::Complete { .. });
        let proven = || {
            // A command that is not known as a check may be one, where rawko has not run the checks itself.
            let unknown = self.record.verification().is_none() && self.record.has_unknown_failure();
            self.record.checks() == Checks::Passed && self.is_approved() && !unknown
        };
        Ruling { certain: ruling.certain && (!is_done || proven()), ..ruling }
    }

    /// Whether the last agent gave the verdict that its role owes, and it is an approval.
    fn is_approved(&self) -> bool {
        let Some(last) = self.record.last() else { return false };
        let owes = self.team.get(&last.agent).and_then(|agent| agent.role).is_some_and(AgentRole::judges);
        !owes || last.verdict() == Some(Verdict::Approved)
    }

    /// Whether an agent that judges has approved the work as it is.
    pub(super) fn is_approved_since_change(&self) -> bool {
        self.record.since_change().any(|entry| entry.verdict() == Some(Verdict::Approved))
    }

    /// The reviewer, if it has not looked at the work as it is.
    pub(super) fn reviewer_since_change(&self) -> Option<Worker<'a>> {
        let reviewer = self.agent_for(AgentRole::Review)?;
        let has_looked = self.record.since_change().any(|entry| entry.agent == reviewer.name);
        (!has_looked).then_some(reviewer)
    }

    /// `what`, with what rawko saw fail.
    pub(super) fn failing(&self, what: &str) -> String {
        let Some(verification) = self.record.verification() else { return what.to_owned() };
        let failed = verification.commands.iter().find(|run| run.result() == CheckResult::Failed);
        let failed = failed.or_else(|| verification.commands.iter().find(|run| !run.passed()));
        let worse = || verification.worse_other().map(OtherCheck::line);
        match failed.map(|run| format!("`{}` {}", run.command, run.how())).or_else(worse) {
            Some(line) => format!("{what}: {line}"),
            None => what.to_owned(),
        }
    }

    /// What stands in for a COMPLETE against the record: the work goes back to whoever changes files.
    pub(super) fn against_record(&self, decision: &Decision) -> Option<Ruling> {
        if !matches!(decision, Decision::Complete { .. }) {
            return None;
        }
        let reason = Objection::in_record(&self.record)?.to_string();
        Some(self.back_to_work(&reason))
    }

    pub(super) fn back_to_work(&self, reason: &str) -> Ruling {
        match self.fixer() {
            Some(fixer) => Ruling::select(AGAINST_THE_RECORD, fixer, true, reason),
            None => Ruling::retry(AGAINST_THE_RECORD, false, reason),
        }
    }

    /// The current step if it is not done, else the first step that is not.
    pub(super) fn open_step(&self) -> Option<&'a PlanStep> {
        let plan = self.plan?;
        let open = |step: &&PlanStep| !step.is_settled();
        plan.steps.get(plan.current_step_index).filter(open).or_else(|| plan.steps.iter().find(open))
    }

    /// Whether there is a plan with steps.
    pub(super) fn is_planned(&self) -> bool {
        self.plan.is_some_and(|plan| !plan.steps.is_empty())
    }

    /// The agent with that role.
    pub(super) fn agent_for(&self, role: AgentRole) -> Option<Worker<'a>> {
        self.team.agent_for(role, self.record.last_writer(), &self.state())
    }

    /// The agent that changes files: the developer, or the only agent.
    pub(super) fn fixer(&self) -> Option<Worker<'a>> {
        self.agent_for(AgentRole::Implement)
            .or_else(|| self.team.only().map(|name| Worker { name, sure: true }))
    }

    /// The agent for that step: its first word may ask for a review or a test run, which is never certain; everything
    /// else is work on files.
    pub(super) fn worker_for(&self, step: &PlanStep) -> Option<Worker<'a>> {
        match role_of_step(&step.description) {
            Some(role) => {
                let worker = self.agent_for(role).or_else(|| self.fixer())?;
                Some(Worker { sure: false, ..worker })
            }
            None => self.fixer(),
        }
    }

    /// The agent that finds another approach when `but` is stuck: the planner, unless it is the planner that is stuck.
    pub(super) fn thinker(&self, but: &str) -> Option<Worker<'a>> {
        let planner = self.agent_for(AgentRole::Plan).filter(|planner| planner.name != but);
        planner.or_else(|| {
            let other = self.team.nearest(&self.state(), but)?;
            Some(Worker { name: other, sure: false })
        })
    }

    /// The current work in words: task, open step and the last agent's text.
    pub(super) fn state(&self) -> String {
        let step = self.open_step().map_or("", |step| &step.description);
        let output = self.record.last().map_or("", ExecutionSummary::output_text);
        format!("{} {step} {output}", self.task)
    }
}

/// The role that a step's first words ask for.
pub(super) fn role_of_step(description: &str) -> Option<AgentRole> {
    let lower = description.trim_start().to_lowercase();
    let first = lower.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    match first {
        "review" | "audit" | "proofread" | "reread" => Some(AgentRole::Review),
        "verify" | "test" => Some(AgentRole::Test),
        "run" | "check" | "execute" => stems(&lower)
            .iter()
            .any(|stem| matches!(stem.as_str(), "test" | "suit" | "check" | "benchmark"))
            .then_some(AgentRole::Test),
        _ => None,
    }
}

/// Whether a task asks for an answer only, without any change.
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
        Self { decision: Decision::Complete { summary: summary_of(last) }, rule, certain }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbiter::Label;
    use crate::arbiter::testing::{InputBuilder, builtin, execution};
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

    /// A report with that verdict.
    fn judged(agent: &str, iteration: u32, verdict: &str) -> ExecutionSummary {
        let findings = json!([{"text": "it leaks", "file": "a.rs:3"}]);
        did(agent, iteration, json!({"facts": {"turns": 1, "verdict": verdict, "findings": findings}}))
    }

    #[track_caller]
    fn check_ruling(ruling: Option<Ruling>, expected: &str) {
        let got = ruling.map_or_else(
            || "no rule".to_owned(),
            |Ruling { decision, rule, certain }| {
                format!("{rule}: {}{}", Label::of(&decision), if certain { "" } else { "?" })
            },
        );
        assert_eq!(got, expected);
    }

    #[track_caller]
    fn check(scene: InputBuilder, history: Vec<ExecutionSummary>, expected: &str) {
        check_ruling(rule_on_progress(&scene.history(history).evaluate(), &builtin()), expected);
    }

    #[track_caller]
    fn check_select(scene: InputBuilder, history: Vec<ExecutionSummary>, expected: &str) {
        check_ruling(rule_on_selection(&scene.history(history).select()), expected);
    }

    fn done() -> InputBuilder {
        InputBuilder::default().plan(&["complete"])
    }

    fn open() -> InputBuilder {
        InputBuilder::default().plan(&["complete", "pending"])
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
            vec![dev(), did("tester", 2, ran(0)), judged("reviewer", 3, "approved")],
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
    fn an_unknown_failure_leaves_a_completion_in_doubt() {
        let reviewer = |code: i32| {
            let command = json!({"command": "./demo", "exitCode": code, "effect": "unknown"});
            did("reviewer", 3, json!({"facts": {"turns": 1, "verdict": "approved", "commands": [command]}}))
        };
        let history =
            |code: i32| vec![wrote("developer", 1, json!({})), did("tester", 2, ran(0)), reviewer(code)];
        check(done(), history(0), "tested-and-reviewed: COMPLETE");
        check(done(), history(1), "tested-and-reviewed: COMPLETE?");
    }

    #[test]
    fn verdicts_decide_and_not_words() {
        let dev = |n| wrote("developer", n, ran(0));
        check(done(), vec![dev(1), judged("reviewer", 2, "rejected")], "rejected: SELECT_MODE developer");
        check(done(), vec![dev(1), judged("tester", 2, "rejected")], "rejected: SELECT_MODE developer");
        let blocked = ExecutionSummary {
            status: crate::machine::ExecutionStatus::Failure,
            ..judged("tester", 2, "blocked")
        };
        check(done(), vec![dev(1), blocked], "blocked: SELECT_MODE planner?");
        let again = |n| [dev(n), judged("reviewer", n + 1, "rejected")];
        check(done(), [again(1), again(3), again(5)].concat(), "rejected-again: SELECT_MODE planner?");
        // A reviewer that rejects in prose has given no verdict: it is asked for one, and nothing is certain.
        let prose = |n| {
            did(
                "reviewer",
                n,
                json!({"output": {"summary": "I reject this."}, "facts": {"ended": "end_turn", "turns": 1}}),
            )
        };
        check(done(), vec![dev(1), prose(2)], "no-verdict: CONTINUE");
        check(done(), vec![dev(1), prose(2), prose(3)], "tested-and-reviewed: COMPLETE?");
        let reason = rule_on_progress(
            &done().history(vec![dev(1), judged("reviewer", 2, "rejected")]).evaluate(),
            &builtin(),
        );
        assert!(reason.unwrap().decision.reason().contains("a.rs:3: it leaks"));
    }

    #[test]
    fn no_agent_continues_for_ever() {
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
        // A plan whose steps no agent marks as complete.
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
    fn a_fresh_verification_decides() {
        let verification = |passed: bool| json!({"facts": {"verification": {"passed": passed, "isStale": false, "commands": []}}});
        let history = || vec![wrote("developer", 1, json!({})), judged("reviewer", 2, "approved")];
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
    fn errors_are_handled_by_their_category() {
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
        // The arbiter's own error says nothing about the work.
        check_select(
            InputBuilder::default().error("arbiter", "x"),
            vec![],
            "beginning: SELECT_MODE planner?",
        );
    }

    #[test]
    fn without_agents_there_is_no_ruling() {
        let alone = InputBuilder::default().with(json!({"availableAgents": []}));
        check_select(alone, vec![], "no rule");
        let input = done().history([wrote("developer", 1, json!({}))]).evaluate();
        check_ruling(rule_on_progress(&input, &[]), "no rule");
    }

    #[test]
    fn the_first_word_of_a_step_names_a_role() {
        for (step, expected) in [
            ("Review the diff", Some(AgentRole::Review)),
            ("Run the test suite", Some(AgentRole::Test)),
            ("Run the migration", None),
            ("Verify that it works", Some(AgentRole::Test)),
            ("Write tests for the parser", None),
            ("", None),
        ] {
            assert_eq!(role_of_step(step), expected, "{step}");
        }
    }
}
