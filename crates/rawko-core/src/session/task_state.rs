//! The state of a task: the machine, and what is kept up to date beside it.

use super::hooks::HookRecord;
use super::outcome::LimitKind;
use crate::agent::execution::Execution;
use crate::arbiter::{
    ExecutionSummary, HistoryStatistics, Objection, RedCheck, RunFacts, SELECT_HISTORY, handed_over,
    recent_history, unanswered_rejection,
};
use crate::machine::{
    AgentResult, Context, Limits, Machine, MachineEvent, Plan, PlanUpdates, State, Step, StepStatus,
};
use crate::setup::{RunLimits, Setup};
use crate::text::truncate;
use crate::time::Timestamp;

/// Characters of the last report.
const REPORT_CHARS: usize = 1_000;

/// The state of a task.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TaskState {
    machine: Machine,
    /// Executions of earlier tasks, which the machine counts.
    earlier_iterations: u32,
    /// Statistics of the machine's history, up to date with it.
    statistics: HistoryStatistics,
    /// The machine's plan with the changes of executions that failed or were cancelled. The next execution that
    /// completes hands it to the machine.
    draft: Option<Plan>,
    /// The facts that the arbiter was last given.
    pub(super) facts: RunFacts,
    /// The limit that stops the run, once one does.
    pub(super) limit: Option<LimitKind>,
    /// What hooks have said about it.
    pub(super) hooks: HookRecord,
}

impl TaskState {
    /// A task that begins after so many executions of earlier ones.
    pub(super) fn new(setup: &Setup, earlier_iterations: u32) -> Self {
        let limits = Limits {
            agents: setup.agents.keys().cloned().collect(),
            max_iterations: earlier_iterations.saturating_add(setup.limits.max_iterations),
            max_consecutive_failures: setup.limits.max_consecutive_failures,
        };
        Self {
            machine: Machine::after(limits, earlier_iterations),
            earlier_iterations,
            statistics: HistoryStatistics::default(),
            draft: None,
            facts: RunFacts::default(),
            limit: None,
            hooks: HookRecord::default(),
        }
    }

    /// The same task as it begins anew. The count of executions and its limit go on.
    pub(super) fn anew(&self, setup: &Setup) -> Self {
        let machine = Machine::after(self.limits().clone(), self.iteration());
        // Its words are the same, and so is what hooks had to say about them.
        let hooks = self.hooks.clone();
        Self { machine, hooks, ..Self::new(setup, self.earlier_iterations) }
    }

    pub(super) fn state(&self) -> State {
        self.machine.state()
    }

    pub(super) fn context(&self) -> &Context {
        self.machine.context()
    }

    pub(super) fn limits(&self) -> &Limits {
        self.machine.limits()
    }

    pub(super) fn statistics(&self) -> &HistoryStatistics {
        &self.statistics
    }

    /// Executions begun so far, those of earlier tasks included.
    pub(super) fn iteration(&self) -> u32 {
        self.context().iteration_count
    }

    /// Executions of earlier tasks.
    pub(super) fn earlier_iterations(&self) -> u32 {
        self.earlier_iterations
    }

    /// Executions that this task has begun.
    pub(super) fn own_iterations(&self) -> u32 {
        self.iteration().saturating_sub(self.earlier_iterations)
    }

    /// Gives the machine an event.
    pub(super) fn apply(&mut self, now: Timestamp, event: &MachineEvent) -> Step {
        let step = self.machine.apply(now, event);
        if !step.ignored && matches!(event, MachineEvent::AgentComplete { .. }) {
            // The machine has taken over what was drafted.
            self.draft = None;
        }
        self.statistics.update(&self.machine.context().history);
        step
    }

    /// The machine as `event` would leave it.
    pub(super) fn after(&self, now: Timestamp, event: &MachineEvent) -> Machine {
        let mut then = self.machine.clone();
        let _ = then.apply(now, event);
        then
    }

    /// The agents were configured anew.
    pub(super) fn set_agents(&mut self, agents: Vec<String>) {
        self.machine.set_agents(agents);
    }

    /// The limits from now on.
    pub(super) fn set_limits(&mut self, limits: &RunLimits) {
        self.machine.set_limits(Limits {
            max_iterations: self.earlier_iterations.saturating_add(limits.max_iterations),
            max_consecutive_failures: limits.max_consecutive_failures,
            ..self.machine.limits().clone()
        });
    }

    /// Goes on in `state` after an end that can be taken back.
    pub(super) fn take_up(&mut self, state: State) {
        self.limit = None;
        self.machine.take_up(state);
    }

    /// The plan as arbiter and agents should see it.
    pub(super) fn plan(&self) -> Option<&Plan> {
        self.draft.as_ref().or(self.context().plan.as_ref())
    }

    /// The plan that an execution which broke off has drafted.
    pub(super) fn draft(&self) -> Option<&Plan> {
        self.draft.as_ref()
    }

    /// The plan with the changes of `execution`.
    pub(super) fn plan_with(&self, execution: &Execution) -> Option<Plan> {
        let plan = self.plan().cloned();
        let Some(draft) = execution.record.plan() else { return plan };
        let mut merged = plan.unwrap_or_default();
        merged.merge(draft.clone());
        Some(merged)
    }

    /// Keeps the plan changes of an execution that fails or is cancelled. The machine takes a plan over only when an
    /// execution completes (`docs/machine.md`).
    pub(super) fn keep_draft(&mut self, execution: &Execution) {
        if execution.record.plan().is_some() {
            self.draft = self.plan_with(execution);
        }
    }

    /// Adds to the result of an execution that completes what those before it had drafted.
    pub(super) fn hand_over_draft(&self, result: &mut AgentResult) {
        let Some(Plan { steps, current_step_index, is_complete }) = self.draft.clone() else { return };
        if result.plan_updates.is_none() {
            result.plan_updates = Some(PlanUpdates {
                steps: Some(steps),
                current_step_index: Some(current_step_index),
                is_complete: Some(is_complete),
            });
        }
    }

    /// A step that is skipped is skipped in the draft too, which would bring it back otherwise.
    pub(super) fn skip_drafted_step(&mut self) {
        if let Some(draft) = &mut self.draft {
            draft.skip_current_step();
        }
    }

    /// How many steps of the plan are done, as a sentence.
    pub(super) fn plan_progress(&self) -> Option<String> {
        let steps = &self.context().plan.as_ref().filter(|plan| !plan.steps.is_empty())?.steps;
        let count = |status| steps.iter().filter(|step| step.status == status).count();
        let (done, skipped) = (count(StepStatus::Complete), count(StepStatus::Skipped));
        let skipped = if skipped == 0 { String::new() } else { format!(", {skipped} left out") };
        Some(format!("Plan: {done} of {} steps done{skipped}.", steps.len()))
    }

    /// Why the last decision was taken.
    pub(super) fn last_reason(&self) -> &str {
        self.context().last_decision.as_ref().map_or("", |decision| decision.reason())
    }

    /// What the executions before hand over to the next agent.
    pub(super) fn handed_over(&self) -> Vec<ExecutionSummary> {
        handed_over(self.context(), &self.statistics)
    }

    fn recent(&self) -> Vec<ExecutionSummary> {
        recent_history(self.context(), &self.statistics, SELECT_HISTORY)
    }

    /// What the record has against a COMPLETE.
    pub(super) fn objection(&self) -> Option<Objection> {
        Objection::of(&self.recent(), &self.facts)
    }

    /// The newest check that an agent ran, if it is red.
    pub(super) fn newest_red_check(&self) -> Option<RedCheck> {
        RedCheck::of(&self.recent())
    }

    /// The agent whose rejection was followed by a change and by no other verdict of its own.
    pub(super) fn unanswered_rejection(&self) -> Option<String> {
        unanswered_rejection(&self.recent()).map(str::to_owned)
    }

    /// How often in a row, up to now, this agent's executions have failed.
    pub(super) fn failures_of(&self, agent: &str) -> u32 {
        let own = self.context().history.iter().rev().filter(|entry| entry.agent == agent);
        let failed = own.take_while(|entry| entry.result.is_failure()).count();
        u32::try_from(failed).unwrap_or(u32::MAX)
    }

    /// How often the agent was tried that worked last, as a sentence.
    pub(super) fn attempts(&self) -> Option<String> {
        let last = self.context().history.last()?;
        let failed = self.failures_of(&last.agent);
        let times = if failed == 1 { "once".to_owned() } else { format!("{failed} times in a row") };
        (failed > 0).then(|| format!("{} was tried {times}.", last.agent))
    }

    /// Whether another failure is one too many. Where it is that of going in circles, the run should say so.
    pub(super) fn fails_for_good(&self) -> bool {
        self.context().consecutive_failures + 1 >= self.limits().max_consecutive_failures
    }

    /// The last report of an agent.
    pub(super) fn last_report(&self) -> Option<String> {
        let output = self.context().history.iter().rev().find_map(|entry| entry.output.as_deref())?;
        Some(truncate(output, REPORT_CHARS))
    }
}
