//! What outlives a phase: the setup, the machine, what was spent, what is known of the tree, and the open effects.
//!
//! Effects are numbered and checked here, for whatever phase issued them.

use super::approvals::Approvals;
use super::continuing::{CarriedOver, LastNumbers};
use super::effect::{Effect, TimerPurpose};
use super::loop_detector::LoopDetector;
use super::open_effects::{OpenEffect, OpenEffects};
use super::pause::Pause;
use super::phase::FailingCall;
use super::shared::SharedPart;
use super::spend::{Refusal, Spend};
use super::steering::UserWords;
use super::tree::TreeEvidence;
use super::{EffectId, LimitKind, Reaction};
use crate::agent::execution::Execution;
use crate::arbiter::{HistoryStatistics, RunFacts, Sources};
use crate::conversation::{ConversationId, ConversationLog};
use crate::cost::PriceTable;
use crate::error::ErrorInfo;
use crate::machine::{AgentResult, Limits, Machine, Plan, PlanUpdates};
use crate::note::Note;
use crate::request::Purpose;
use crate::setup::{ModelChoice, Setup};
use crate::time::Timestamp;
use crate::usage::Usage;

/// The part of a run that every phase works with.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ledger {
    pub(super) setup: Setup,
    pub(super) prices: PriceTable,
    pub(super) machine: Machine,
    pub(super) now: Timestamp,
    pub(super) open: OpenEffects,
    last_conversation: ConversationId,
    pub(super) statistics: HistoryStatistics,
    pub(super) spend: Spend,
    pub(super) shared: SharedPart,
    pub(super) tree: TreeEvidence,
    /// Tokens that the extractor of memories has used.
    pub(super) extractor_tokens: u64,
    pub(super) detector: LoopDetector,
    /// The machine's plan with the changes of executions that failed or were cancelled. The next execution that
    /// completes hands it to the machine.
    pub(super) drafted_plan: Option<Plan>,
    /// The facts that the arbiter was last given.
    pub(super) facts: RunFacts,
    /// The limit that stops the run, once one does.
    pub(super) limit: Option<LimitKind>,
    /// The model call that is made again, while it fails.
    pub(super) failing: Option<FailingCall>,
    /// The arbiter's provider did not answer the last question, so that the rules decided.
    pub(super) arbiter_is_down: bool,
    /// How long the execution waited for models, in milliseconds, as far as its deadline has not been moved by it.
    pub(super) waited_ms: u64,
    /// What people have said to questions of this task.
    pub(super) approvals: Approvals,
    /// The user's pause, while it lasts.
    pub(super) pause: Option<Pause>,
    /// What the user has said during this task.
    pub(super) words: UserWords,
    /// Sessions that run in the same folder.
    pub(super) beside: Vec<String>,
    /// What earlier tasks of the session left.
    pub(super) carried: CarriedOver,
}

impl Ledger {
    pub(super) fn new(at: Timestamp, setup: &Setup, shared_events: u64) -> Self {
        let none = LastNumbers { effect: EffectId(0), conversation: 0 };
        Self::after(at, setup, SharedPart::of(shared_events), none, CarriedOver::default())
    }

    /// Of a task that begins after others of the same session.
    pub(super) fn after(
        at: Timestamp,
        setup: &Setup,
        shared: SharedPart,
        last: LastNumbers,
        carried: CarriedOver,
    ) -> Self {
        let limits = Limits {
            agents: setup.agents.keys().cloned().collect(),
            max_iterations: carried.iterations.saturating_add(setup.limits.max_iterations),
            max_consecutive_failures: setup.limits.max_consecutive_failures,
        };
        Self {
            setup: setup.clone(),
            prices: PriceTable::with_overrides(setup.prices.clone()),
            machine: Machine::after(limits, carried.iterations),
            now: at,
            open: OpenEffects::after(last.effect),
            last_conversation: last.conversation,
            statistics: HistoryStatistics::default(),
            spend: Spend::default(),
            shared,
            tree: TreeEvidence::default(),
            extractor_tokens: 0,
            detector: LoopDetector::default(),
            drafted_plan: None,
            facts: RunFacts::default(),
            limit: None,
            failing: None,
            arbiter_is_down: false,
            waited_ms: 0,
            approvals: Approvals::default(),
            pause: None,
            words: UserWords::default(),
            beside: Vec::new(),
            carried,
        }
    }

    /// The numbers after which the next task goes on.
    pub(super) fn last_numbers(&self) -> LastNumbers {
        LastNumbers { effect: self.open.last(), conversation: self.last_conversation }
    }

    /// Executions that this task has begun.
    pub(super) fn own_iterations(&self) -> u32 {
        self.iteration().saturating_sub(self.carried.iterations)
    }

    pub(super) fn iteration(&self) -> u32 {
        self.machine.context().iteration_count
    }

    pub(super) fn new_conversation(&mut self) -> ConversationId {
        self.last_conversation += 1;
        self.last_conversation
    }

    pub(super) fn start_timer(&mut self, purpose: TimerPurpose, after_ms: u64, reaction: &mut Reaction) {
        let id = self.open.issue(OpenEffect::Timer { purpose, after_ms });
        reaction.effects.push(Effect::StartTimer { id, after_ms, purpose });
    }

    /// Starts a timer again that was lost with its process. The pause in which no process carried the run does not count,
    /// and time that was used before it is not given again.
    pub(super) fn restart_timer(&mut self, purpose: TimerPurpose, after_ms: u64, reaction: &mut Reaction) {
        let left = match purpose {
            TimerPurpose::RunDeadline => {
                let whole = self.setup.limits.max_duration_ms.unwrap_or(after_ms);
                whole.saturating_sub(self.elapsed_ms()).max(1)
            }
            TimerPurpose::AgentBudget => self.running_agent_time_left().unwrap_or(after_ms).max(1),
            TimerPurpose::Backoff | TimerPurpose::Retry | TimerPurpose::ExecutionDeadline => after_ms,
        };
        self.start_timer(purpose, left, reaction);
    }

    /// The agent waited for a model for so long, which is not its working time.
    pub(super) fn waited(&mut self, ms: u64) {
        self.waited_ms = self.waited_ms.saturating_add(ms);
        self.spend.agents_paused(ms);
    }

    /// Starts the timer of an execution or an agent again whose time is not up yet, because a part of it was spent waiting
    /// for a model. Returns whether it did.
    pub(super) fn extend(&mut self, purpose: TimerPurpose, reaction: &mut Reaction) -> bool {
        if self.setup.retry.is_none() {
            return false;
        }
        let left = if purpose == TimerPurpose::AgentBudget {
            self.running_agent_time_left().unwrap_or(0)
        } else {
            std::mem::take(&mut self.waited_ms)
        };
        if left > 0 {
            self.start_timer(purpose, left, reaction);
        }
        left > 0
    }

    /// Asks a model, if the budgets allow it.
    pub(super) fn call_model(
        &mut self,
        purpose: Purpose,
        choice: &ModelChoice,
        conversation: &ConversationLog,
        cache_key: Option<String>,
        reaction: &mut Reaction,
    ) -> Result<EffectId, Refusal> {
        let reservation = self.reserve(&purpose, choice, conversation.estimated_tokens())?;
        let id = self.open.issue(OpenEffect::ModelCall);
        self.detector.asked();
        if let Purpose::Agent { name } = &purpose
            && let Some(change) = self.carried.sent.sent(name, choice, conversation)
        {
            reaction.notes.push(Note::CachePrefixChanged { agent: name.clone(), change });
        }
        self.spend.hold(id, reservation);
        reaction.effects.push(Effect::CallModel {
            id,
            purpose,
            provider: choice.provider.clone(),
            model: choice.model.clone(),
            conversation: conversation.id,
            messages: conversation.messages.len(),
            digest: conversation.digest().to_owned(),
            cache_key,
        });
        Ok(id)
    }

    /// Ends every open effect but the run's deadline, and stops the clocks of the agents. Returns what abandoned calls of
    /// an agent's own model consumed.
    pub(super) fn abandon_phase(&mut self, reaction: &mut Reaction) -> Usage {
        self.stop_work_timers();
        self.abandon(|effect| !effect.is_run_deadline(), reaction)
    }

    /// Ends the open effects that `which` picks. Returns what abandoned calls of an agent's own model consumed.
    pub(super) fn abandon(&mut self, which: impl Fn(OpenEffect) -> bool, reaction: &mut Reaction) -> Usage {
        let mut consumed = Usage::default();
        for id in self.open.remove(which) {
            consumed += self.settle_abandoned(id, reaction).unwrap_or_default();
            reaction.effects.push(Effect::Abandon { id });
        }
        consumed
    }

    pub(super) fn sources(&self) -> Sources<'_> {
        Sources {
            context: self.machine.context(),
            draft: self.drafted_plan.as_ref(),
            limits: self.machine.limits(),
            statistics: &self.statistics,
            tokens_used: self.run_tokens(),
            facts: &self.facts,
            now: self.now,
            paused_ms: self.spend.paused_ms(),
            earlier_iterations: self.carried.iterations,
            setup: Some(&self.setup),
        }
    }

    /// The plan as arbiter and agents should see it.
    pub(super) fn effective_plan(&self) -> Option<&Plan> {
        self.drafted_plan.as_ref().or(self.machine.context().plan.as_ref())
    }

    /// The same with the changes of `execution`.
    pub(super) fn plan_with(&self, execution: &Execution) -> Option<Plan> {
        let plan = self.effective_plan().cloned();
        let Some(draft) = execution.plan_so_far() else { return plan };
        let mut merged = plan.unwrap_or_default();
        merged.merge(draft.clone());
        Some(merged)
    }

    /// Keeps the plan changes of an execution that fails or is cancelled. The machine takes a plan over only when an
    /// execution completes (`docs/spec/machine.md`).
    pub(super) fn keep_draft(&mut self, execution: &Execution) {
        if execution.plan_so_far().is_some() {
            self.drafted_plan = self.plan_with(execution);
        }
    }

    /// Adds to the result of an execution that completes what those before it had drafted.
    pub(super) fn hand_over_draft(&self, result: &mut AgentResult) {
        let Some(Plan { steps, current_step_index, is_complete }) = self.drafted_plan.clone() else { return };
        if result.plan_updates.is_none() {
            result.plan_updates = Some(PlanUpdates {
                steps: Some(steps),
                current_step_index: Some(current_step_index),
                is_complete: Some(is_complete),
            });
        }
    }
}

impl Reaction {
    pub(super) fn warn(&mut self, message: impl Into<String>) {
        self.notes.push(Note::Warned { message: message.into() });
    }

    /// Reports files that were changed by others.
    pub(super) fn changed_since_seen(&mut self, files: &[String]) {
        if !files.is_empty() {
            let files = files.join(", ");
            self.warn(format!("changed since an agent of this session last saw it: {files}"));
        }
    }

    /// Reports that a conversation continues with another provider.
    pub(super) fn switched_model(&mut self, error: &ErrorInfo, to: &ModelChoice) {
        self.warn(format!("{}: {}; going on with {} ({})", error.code, error.message, to.provider, to.model));
    }
}
