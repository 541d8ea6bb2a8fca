//! The state that outlives a phase: the setup, the task's state, what was spent, the record of the tree, and the open
//! effects.
//!
//! Effects are numbered and checked here, for whatever phase issued them.

use super::answer::OpenEffect;
use super::continuing::CarriedOver;
use super::effect::{Effect, TimerPurpose};
use super::failing::FailingCalls;
use super::loop_detector::LoopDetector;
use super::open_effects::OpenEffects;
use super::reaction::Reaction;
use super::spend::{BudgetRefusal, Spend};
use super::task_state::TaskState;
use super::tree::TreeEvidence;
use super::user_input::UserInput;
use crate::agent::outside::OutsideUse;
use crate::arbiter::Sources;
use crate::conversation::ConversationLog;
use crate::effect_id::EffectId;
use crate::error::ErrorInfo;
use crate::note::Note;
use crate::request::{ModelRequest, Purpose};
use crate::setup::{ModelChoice, RunLimits, Setup};
use crate::time::Timestamp;
use crate::usage::Usage;

/// The part of a run that every phase works with.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ledger {
    pub(super) setup: Setup,
    pub(super) now: Timestamp,
    pub(super) task: TaskState,
    pub(super) open: OpenEffects,
    pub(super) spend: Spend,
    pub(super) tree: TreeEvidence,
    pub(super) detector: LoopDetector,
    pub(super) failing: FailingCalls,
    pub(super) user: UserInput,
    /// The outside agents that have worked.
    pub(super) outside: Vec<OutsideUse>,
    /// What earlier tasks of the session left.
    pub(super) carried: CarriedOver,
}

impl Ledger {
    /// Of a session's first task.
    pub(super) fn new(at: Timestamp, setup: &Setup, shared_events: u64) -> Self {
        Self {
            setup: setup.clone(),
            now: at,
            task: TaskState::new(setup, 0),
            open: OpenEffects::default(),
            spend: Spend::new(setup, shared_events),
            tree: TreeEvidence::default(),
            detector: LoopDetector::default(),
            failing: FailingCalls::default(),
            user: UserInput::default(),
            outside: Vec::new(),
            carried: CarriedOver::default(),
        }
    }

    /// An event is about to be applied.
    pub(super) fn before_event(&mut self, at: Timestamp) {
        self.spend.before_event(at, self.task.own_iterations());
    }

    /// The limits from now on.
    pub(super) fn set_limits(&mut self, limits: &RunLimits) {
        self.setup.limits = *limits;
        self.task.set_limits(limits);
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

    /// Starts the timer of an execution or an agent again whose time is not up yet, because a part of it was spent waiting
    /// for a model. Returns whether it did.
    pub(super) fn extend(&mut self, purpose: TimerPurpose, reaction: &mut Reaction) -> bool {
        if self.setup.retry.is_none() {
            return false;
        }
        let left = if purpose == TimerPurpose::AgentBudget {
            self.running_agent_time_left().unwrap_or(0)
        } else {
            self.spend.take_waited()
        };
        if left > 0 {
            self.start_timer(purpose, left, reaction);
        }
        left > 0
    }

    /// Asks a model, if the budgets allow it. `request` sends `conversation` to `choice`.
    pub(super) fn call_model(
        &mut self,
        choice: &ModelChoice,
        conversation: &ConversationLog,
        mut request: ModelRequest,
        cache_key: Option<String>,
        reaction: &mut Reaction,
    ) -> Result<EffectId, BudgetRefusal> {
        let reservation = self.reserve(&request.purpose, choice, conversation.estimated_tokens())?;
        let id = self.open.issue(OpenEffect::ModelCall);
        self.detector.asked();
        if let Purpose::Agent { name } = &request.purpose
            && let Some(change) = self.carried.sent.sent(name, choice, conversation)
        {
            reaction.notes.push(Note::CachePrefixChanged { agent: name.clone(), change });
        }
        reaction.effects.push(Effect::CallModel {
            id,
            purpose: request.purpose.clone(),
            provider: choice.provider.clone(),
            model: choice.model.clone(),
            conversation: conversation.id,
            messages: conversation.messages.len(),
            digest: conversation.digest().to_owned(),
            cache_key,
        });
        let is_patient = self.setup.retry.is_some_and(|retry| retry.patience_ms > 0);
        request.is_repeat = self.failing.is_repeating(&request.purpose, is_patient);
        reservation.limit(&mut request);
        reaction.requests.insert(id, request);
        self.spend.hold(id, reservation);
        Ok(id)
    }

    /// Ends every open effect but the run's deadline, and stops the clocks of the agents. Returns what abandoned calls of
    /// an agent's own model consumed.
    pub(super) fn abandon_phase(&mut self, reaction: &mut Reaction) -> Usage {
        self.spend.stop_work(self.now);
        self.abandon(|effect| !effect.is_run_deadline(), reaction)
    }

    /// Ends the open effects that `which` picks. Returns what abandoned calls of an agent's own model consumed.
    pub(super) fn abandon(&mut self, which: impl Fn(OpenEffect) -> bool, reaction: &mut Reaction) -> Usage {
        let mut consumed = Usage::default();
        for id in self.open.remove(which) {
            consumed += self.spend.settle_abandoned(id, reaction).unwrap_or_default();
            reaction.effects.push(Effect::Abandon { id });
        }
        consumed
    }

    pub(super) fn sources(&self) -> Sources<'_> {
        Sources {
            context: self.task.context(),
            draft: self.task.draft(),
            limits: self.task.limits(),
            statistics: self.task.statistics(),
            tokens_used: self.spend.run_tokens(),
            facts: &self.task.facts,
            now: self.now,
            paused_ms: self.spend.paused_ms(),
            earlier_iterations: self.task.earlier_iterations(),
            setup: Some(&self.setup),
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
