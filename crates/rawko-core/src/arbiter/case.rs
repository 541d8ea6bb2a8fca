//! The input of the rules ([`Case`]), and their decision ([`Ruling`]).

use super::execution_record::{Checks, ExecutionRecord};
use super::fallback::summary_of;
use super::input::{
    AgentDescription, ConstraintContext, EvaluateProgressInput, ExecutionSummary, RunFacts, SelectAgentInput,
};
use super::objection::Objection;
use super::team::{ChosenAgent, SelectableAgents};
use super::words::stems;
use crate::agent::{AgentRole, Verdict};
use crate::facts::{CheckResult, OtherCheck};
use crate::machine::{Decision, Plan, PlanStep};

/// The rule that replaces a COMPLETE against the record.
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

/// The input of a question in the form that rules read.
#[derive(Debug, Clone)]
pub(super) struct Case<'a> {
    pub(super) task: &'a str,
    pub(super) plan: Option<&'a Plan>,
    pub(super) record: ExecutionRecord<'a>,
    pub(super) team: SelectableAgents<'a>,
    pub(super) constraints: &'a ConstraintContext,
    pub(super) facts: &'a RunFacts,
}

impl<'a> Case<'a> {
    pub(super) fn of_selection(input: &'a SelectAgentInput) -> Self {
        Self {
            task: &input.task,
            plan: input.plan.as_ref(),
            record: ExecutionRecord::of(&input.history, None, &input.facts),
            team: SelectableAgents::new(&input.available_agents),
            constraints: &input.constraints,
            facts: &input.facts,
        }
    }

    pub(super) fn of_progress(input: &'a EvaluateProgressInput, agents: &'a [AgentDescription]) -> Self {
        Self {
            task: &input.task,
            plan: input.plan.as_ref(),
            record: ExecutionRecord::of(&input.history, Some(&input.last_execution), &input.facts),
            team: SelectableAgents::new(agents),
            constraints: &input.constraints,
            facts: &input.facts,
        }
    }

    /// A ruling that is not COMPLETE against the record, and is certain of a COMPLETE only if checks passed after the
    /// last change, the last agent that judged approved, and no other command failed: it may have been a check that is
    /// not known as one.
    pub(super) fn checked(&self, ruling: Ruling) -> Ruling {
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
    pub(super) fn reviewer_since_change(&self) -> Option<ChosenAgent<'a>> {
        let reviewer = self.agent_for(AgentRole::Review)?;
        let has_looked = self.record.since_change().any(|entry| entry.agent == reviewer.name);
        (!has_looked).then_some(reviewer)
    }

    /// `what`, followed by the failure that rawko saw.
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

    /// The replacement for a COMPLETE against the record: the work goes back to an agent that changes files.
    pub(super) fn against_record(&self, decision: &Decision) -> Option<Ruling> {
        if !matches!(decision, Decision::Complete { .. }) {
            return None;
        }
        let reason = Objection::in_record(&self.record)?.to_string();
        Some(self.back_to_work(&reason))
    }

    pub(super) fn back_to_work(&self, reason: &str) -> Ruling {
        match self.implementer() {
            Some(implementer) => Ruling::select(AGAINST_THE_RECORD, implementer, true, reason),
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
    pub(super) fn agent_for(&self, role: AgentRole) -> Option<ChosenAgent<'a>> {
        self.team.agent_for(role, self.record.last_writer(), &self.state())
    }

    /// The agent that changes files: the developer, or the only agent.
    pub(super) fn implementer(&self) -> Option<ChosenAgent<'a>> {
        self.agent_for(AgentRole::Implement)
            .or_else(|| self.team.only().map(|name| ChosenAgent { name, sure: true }))
    }

    /// The agent for that step: its first word may ask for a review or a test run, which is never certain; everything
    /// else is work on files.
    pub(super) fn worker_for(&self, step: &PlanStep) -> Option<ChosenAgent<'a>> {
        match role_of_step(&step.description) {
            Some(role) => {
                let worker = self.agent_for(role).or_else(|| self.implementer())?;
                Some(ChosenAgent { sure: false, ..worker })
            }
            None => self.implementer(),
        }
    }

    /// The agent that finds another approach when `but` is stuck: the planner, unless it is the planner that is stuck.
    pub(super) fn planner_for(&self, but: &str) -> Option<ChosenAgent<'a>> {
        let planner = self.agent_for(AgentRole::Plan).filter(|planner| planner.name != but);
        planner.or_else(|| {
            let other = self.team.nearest(&self.state(), but)?;
            Some(ChosenAgent { name: other, sure: false })
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
    pub(super) fn select(rule: &'static str, worker: ChosenAgent<'_>, certain: bool, reason: &str) -> Self {
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
