//! A session: the machine, the arbiter and the agent loop put together, still pure.
//!
//! [`Event`]s with their times go in, [`Effect`]s to perform and [`Note`]s to report come out. The driver appends
//! the event to the journal, calls [`Session::apply`], appends the effects, then performs them; each performed effect
//! becomes the next event. Live, resumed and replayed runs are the same fold.
//!
//! Every effect is answered at most once: an answer to an effect that is not open (answered, abandoned, or never
//! issued) changes nothing and is reported as ignored.
//!
//! A run (`run.rs`) is its phase (`phase/`), which owns what only matters while it lasts, and its ledger (`ledger.rs`), which
//! outlives phases.

mod answer;
mod approvals;
mod continuing;
mod effect;
mod event;
mod exchange;
mod executions;
mod failing;
mod guard;
mod hooks;
mod landing;
mod ledger;
mod loop_detector;
mod lost;
mod open_effects;
mod outcome;
mod pause;
mod phase;
mod prefix;
mod progress;
mod reaction;
mod run;
mod spend;
mod stagnation;
mod steering;
mod summary;
mod task_state;
mod tree;
mod user_input;

pub use answer::EffectAnswer;
pub use effect::{Effect, TimerPurpose};
pub use event::{Event, Stamped};
pub use exchange::{ArbiterExchange, CheckedAnswer, more_room};
pub use guard::GUARD_RULE;
pub use landing::{Landing, LandingConflict, LandingEnd};
pub use lost::{Lost, LostJob, LostWork};
pub use outcome::{EndedTask, LimitKind, Outcome, Status};
pub use phase::{PhaseKind, phase_diagram};
pub use reaction::Reaction;
pub use spend::{SharedSpend, SoFar};
pub use steering::SAID_BYTES;

pub use crate::conversation::{ConversationId, ConversationLog};
pub use crate::effect_id::EffectId;
pub use crate::memory::KeptMemory;
pub use crate::note::{Compaction, DecisionPoint, DecisionRecord, DecisionSource, Note, PrefixChange};
pub use crate::user_override::Override;

use crate::approval::ApprovalQuestion;
use crate::arbiter::ArbiterQuestion;
use crate::error::ErrorInfo;
use crate::facts::{BudgetFacts, Verification};
use crate::machine::{Context, Plan, State};
use crate::message::ToolCall;
use crate::setup::Setup;
use crate::time::Timestamp;
use crate::usage::Usage;
use answer::OpenEffect;
use phase::{ExecutionStage, RunPhase};
use run::RunState;
use tree::Freshness;

/// A session between two events.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Session {
    run: Option<RunState>,
}

impl Session {
    /// A session in which nothing has happened.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies what happened. Never panics; the cost does not grow with the session.
    #[must_use = "the effects must be performed"]
    pub fn apply(&mut self, stamped: &Stamped) -> Reaction {
        match (&mut self.run, &stamped.event) {
            (None, Event::TaskStarted { task, setup, shared_events }) => {
                let (run, reaction) = RunState::start(stamped.at, task, setup, *shared_events);
                self.run = Some(run);
                reaction
            }
            (Some(run), event) => run.apply(stamped.at, event),
            (None, _) => Reaction { ignored: true, ..Reaction::default() },
        }
    }

    /// The tool call of an open `RunTool`, and the agent that made it.
    #[must_use]
    pub fn open_call(&self, effect: EffectId) -> Option<(String, ToolCall)> {
        let run = self.run.as_ref()?;
        match (&run.phase, run.ledger.open.get(effect)?) {
            (RunPhase::Working(execution, ExecutionStage::Tools), OpenEffect::ToolCall(slot)) => {
                Some((execution.agent().to_owned(), execution.calls.running(slot)?.call))
            }
            _ => None,
        }
    }

    /// The machine's state.
    #[must_use]
    pub fn state(&self) -> State {
        self.run.as_ref().map_or(State::Idle, |run| run.ledger.task.state())
    }

    /// The machine's context, once a task has begun.
    #[must_use]
    pub fn context(&self) -> Option<&Context> {
        self.run.as_ref().map(|run| run.ledger.task.context())
    }

    /// The setup of the run, including reloads, once a task has begun.
    #[must_use]
    pub fn setup(&self) -> Option<&Setup> {
        self.run.as_ref().map(|run| &run.ledger.setup)
    }

    /// The phase of the run.
    #[must_use]
    pub fn phase(&self) -> PhaseKind {
        self.run.as_ref().map_or(PhaseKind::Idle, |run| run.phase.kind())
    }

    /// Why the run waits before it makes a failed model call again, and which attempt follows; `None` if it does not wait
    /// for that.
    #[must_use]
    pub fn waits_to_retry(&self) -> Option<(&ErrorInfo, u32)> {
        let run = self.run.as_ref()?;
        let RunPhase::Retrying(phase) = &run.phase else { return None };
        Some((phase.error(), run.ledger.failing.next_attempt()))
    }

    /// The question that waits for a person, if one does, and the effect that asks it.
    #[must_use]
    pub fn open_question(&self) -> Option<(EffectId, &ApprovalQuestion)> {
        let run = self.run.as_ref()?;
        let RunPhase::Working(_, ExecutionStage::Approving(step)) = &run.phase else { return None };
        let id = run.ledger.open.ids().find(|id| run.ledger.open.get(*id) == Some(OpenEffect::Approval))?;
        Some((id, step.question()))
    }

    /// What the arbiter would be asked now at `point`, once a task has begun; nothing is judged before an execution.
    #[must_use]
    pub fn arbiter_question(&self, point: DecisionPoint) -> Option<ArbiterQuestion> {
        let ledger = &self.run.as_ref()?.ledger;
        match point {
            DecisionPoint::Select => Some(ledger.selection_question()),
            DecisionPoint::Evaluate => ledger.evaluation_question(),
        }
    }

    /// What this session shares with the one that it was forked from, once all of that has been applied.
    #[must_use]
    pub fn shared(&self) -> Option<SharedSpend> {
        self.run.as_ref()?.ledger.shared_part()
    }

    /// What counts for the present task until the last event, once a task has begun.
    #[must_use]
    pub fn so_far(&self) -> Option<SoFar> {
        self.run.as_ref().map(|run| run.ledger.so_far())
    }

    /// The plan, with what the working agent has changed.
    #[must_use]
    pub fn plan(&self) -> Option<Plan> {
        let run = self.run.as_ref()?;
        let task = &run.ledger.task;
        match run.phase.execution() {
            Some(execution) => task.plan_with(execution),
            None => task.plan().cloned(),
        }
    }

    /// The last verification, and whether it still holds: nothing may have been written since.
    #[must_use]
    pub fn last_verification(&self) -> Option<(&Verification, bool)> {
        let (verification, freshness) = self.run.as_ref()?.ledger.tree.verification.as_ref()?;
        Some((verification, *freshness == Freshness::Fresh))
    }

    /// What the agent that worked last has said at its end, once one has.
    #[must_use]
    pub fn last_words(&self) -> Option<&str> {
        let history = &self.run.as_ref()?.ledger.task.context().history;
        history.iter().rev().find_map(|entry| entry.output.as_deref())
    }

    /// What is left of the run's budgets, once a task has begun.
    #[must_use]
    pub fn remaining(&self) -> Option<BudgetFacts> {
        self.run.as_ref().map(|run| run.ledger.remaining())
    }

    /// What an open `CallModel` may cost at most, in US dollars, if the price of its model is known: for a budget that several
    /// sessions share.
    #[must_use]
    pub fn reserved_cost(&self, effect: EffectId) -> Option<f64> {
        self.run.as_ref()?.ledger.spend.reserved_cost(effect)
    }

    /// What an open `CallModel` costs that used so much, in US dollars; 0 if its model's price is not known.
    #[must_use]
    pub fn call_cost(&self, effect: EffectId, usage: &Usage) -> Option<f64> {
        self.run.as_ref()?.ledger.spend.call_cost(effect, usage)
    }

    /// Whether the run has ended, and what its last work changed in the tree is not known: the execution before which the
    /// tree was last kept. [`Event::FinalTreeInspected`] answers that.
    #[must_use]
    pub fn unseen_tree(&self) -> Option<u32> {
        self.run.as_ref()?.unseen_tree()
    }

    /// How the run ended, if its machine is in a final state.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        let run = self.run.as_ref()?;
        let state = run.ledger.task.state();
        state.is_final().then(|| run.ledger.outcome(state))
    }

    /// The end of a session that the driver cannot carry on, with what was done and used until then.
    #[must_use]
    pub fn broken_off(&self, at: Timestamp, error: ErrorInfo) -> Outcome {
        match &self.run {
            Some(run) => run.ledger.broken_off(at, error),
            None => Outcome::failed(error),
        }
    }

    /// What the damaged end of the journal recorded, where an event has reported it.
    #[must_use]
    pub fn lost_work(&self) -> Option<&LostWork> {
        self.run.as_ref()?.ledger.carried.lost_work.as_ref()
    }

    /// The executions begun so far, those of earlier tasks included.
    #[must_use]
    pub fn executions(&self) -> u32 {
        self.run.as_ref().map_or(0, |run| run.ledger.task.iteration())
    }

    /// The executions of earlier tasks: the present one's have higher numbers.
    #[must_use]
    pub fn earlier_executions(&self) -> u32 {
        self.run.as_ref().map_or(0, |run| run.ledger.task.earlier_iterations())
    }

    /// Why a command of the user would change nothing now, as [`Note::Steered`] will say; `None` if it would be carried out.
    #[must_use]
    pub fn refusal(&self, command: &Override) -> Option<String> {
        match &self.run {
            Some(run) => run.refusal(command),
            None => Some("no task has begun".to_owned()),
        }
    }

    /// Since when the user has paused the run, if it is paused.
    #[must_use]
    pub fn paused_since(&self) -> Option<Timestamp> {
        self.run.as_ref()?.ledger.user.pause.as_ref().map(|pause| pause.since)
    }

    /// Effects that are still to be answered, oldest first.
    pub fn open_effects(&self) -> impl Iterator<Item = EffectId> + '_ {
        self.run
            .iter()
            .flat_map(|run| run.ledger.open.ids().filter(|effect| !run.ledger.open.is_held(*effect)))
    }
}
