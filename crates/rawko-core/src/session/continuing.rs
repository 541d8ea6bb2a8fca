//! What a session does after the end of a task (`docs/sessions.md#continue-with-the-next-task`): the next task, or the
//! same one again with higher limits.
//!
//! The next task begins as a run of its own: machine, budgets, loop detector and verification are fresh. The numbers of
//! effects, conversations and executions go on, so that every record and every checkpoint keeps its own name. Agents keep
//! their conversations.

use std::collections::BTreeMap;

use super::effect::TimerPurpose;
use super::failing::FailingCalls;
use super::ledger::Ledger;
use super::lost::{LostJob, LostWork};
use super::open_effects::OpenEffects;
use super::outcome::{EndedTask, LimitKind, Outcome, Status};
use super::phase::asking;
use super::phase::hooks::HooksPhase;
use super::prefix::SentPrefixes;
use super::reaction::Reaction;
use super::run::RunState;
use super::task_state::TaskState;
use crate::agent::execution::Execution;
use crate::agent::prompt;
use crate::arbiter::EarlierTask;
use crate::conversation::ConversationId;
use crate::error::ErrorCode;
use crate::machine::{Decision, MachineEvent, State};
use crate::note::Note;
use crate::setup::{RunLimits, Setup};
use crate::text::truncate;
use crate::time::Timestamp;

/// Earlier tasks that are remembered.
const EARLIER_TASKS: usize = 5;
/// Characters of a remembered task, and of its summary.
const EARLIER_CHARS: usize = 400;

/// What goes on from one task of a session to the next.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct CarriedOver {
    /// The earlier tasks, oldest first.
    pub(super) tasks: Vec<EarlierTask>,
    /// The conversation that each agent had last before this task began.
    conversations: BTreeMap<String, Box<Execution>>,
    /// The conversation that each agent had last in this task.
    latest: BTreeMap<String, Box<Execution>>,
    /// The number of the last conversation.
    last_conversation: ConversationId,
    /// Lost background jobs that are not reported to their agents yet.
    pub(super) lost_jobs: Vec<LostJob>,
    /// How the earlier tasks ended, as the event that began this one says.
    pub(super) ended: Vec<EndedTask>,
    /// What provider caches can use of the agents' last requests.
    pub(super) sent: SentPrefixes,
    /// What the damaged end of the journal recorded, in a repaired session.
    pub(super) lost_work: Option<LostWork>,
}

impl CarriedOver {
    /// The number of a new conversation.
    pub(super) fn new_conversation(&mut self) -> ConversationId {
        self.last_conversation += 1;
        self.last_conversation
    }

    /// Keeps the conversation of an execution that is over.
    pub(super) fn keep(&mut self, execution: Box<Execution>) {
        self.latest.insert(execution.agent().to_owned(), execution);
    }

    /// Forgets the conversations of this task, which begins anew.
    pub(super) fn forget_this_task(&mut self) {
        self.latest.clear();
    }

    /// The conversation that the agent had before this task; given once.
    pub(super) fn take(&mut self, agent: &str) -> Option<Box<Execution>> {
        self.conversations.remove(agent)
    }

    /// The conversations that may go on.
    pub(super) fn executions(&mut self) -> impl Iterator<Item = &mut Execution> {
        self.conversations.values_mut().chain(self.latest.values_mut()).map(AsMut::as_mut)
    }

    /// The same after `task` has ended with `outcome`.
    fn after(mut self, task: &str, outcome: &Outcome) -> Self {
        self.tasks.push(EarlierTask {
            task: truncate(task.trim(), EARLIER_CHARS),
            status: outcome.status.as_str().to_owned(),
            summary: {
                let words = [Some(outcome.summary.trim()), outcome.agent_summary.as_deref().map(str::trim)];
                let words: Vec<&str> = words.into_iter().flatten().collect();
                truncate(&words.join(" "), EARLIER_CHARS)
            },
        });
        let old = self.tasks.len().saturating_sub(EARLIER_TASKS);
        self.tasks.drain(..old);
        self.conversations.append(&mut self.latest);
        self
    }
}

impl RunState {
    /// Begins the next task. Without meaning while the one before it has not ended.
    pub(super) fn next_task(
        &mut self,
        at: Timestamp,
        task: &str,
        setup: &Setup,
        ended: &[EndedTask],
        reaction: &mut Reaction,
    ) {
        let from = self.ledger.task.state();
        if !from.is_final() {
            reaction.ignored = true;
            return;
        }
        let outcome = self.ledger.outcome(from);
        let carried = std::mem::take(&mut self.ledger.carried);
        let is_shared = self.ledger.spend.is_shared();
        let ended = ended.iter().map(|task| if is_shared { task.shared() } else { task.clone() });
        let Ledger { task: before, open, spend, .. } = &self.ledger;
        let iteration = before.iteration();
        self.ledger = Ledger {
            task: TaskState::new(setup, iteration),
            open: OpenEffects::after(open.last()),
            carried: CarriedOver {
                ended: ended.collect(),
                ..carried.after(&before.context().task, &outcome)
            },
            ..Ledger::new(at, setup, spend.shared_events_left())
        };
        self.ledger.before_event(at);
        reaction.notes.push(Note::StateChanged { from, to: State::Idle, iteration });
        self.start_clock(setup, reaction);
        self.begin(task, reaction);
    }

    /// Takes a task up again that a limit, its provider or an obstacle ended, under these limits. What was spent counts.
    pub(super) fn take_up(&mut self, limits: &RunLimits, paused_ms: u64, reaction: &mut Reaction) {
        let state = self.ledger.task.state();
        let outcome = self.ledger.outcome(state);
        if !state.is_final() || !outcome.can_be_taken_up() {
            reaction.ignored = true;
            return;
        }
        let ledger = &mut self.ledger;
        ledger.spend.paused(paused_ms, ledger.now);
        ledger.tree.touched();
        ledger.tree.landing = None;
        ledger.failing = FailingCalls::default();
        if outcome.limit == Some(LimitKind::Stalled) {
            ledger.detector.taken_up();
        }
        ledger.set_limits(limits);
        let broke_off = ledger.task.context().history.last().is_some_and(|last| last.error.is_some());
        let agent = ledger.task.context().current_mode.clone();
        let latest = ledger.carried.latest.remove(&agent).filter(|_| broke_off);
        let to = if latest.is_some() { State::Evaluating } else { State::Selecting };
        ledger.task.take_up(to);
        let iteration = ledger.task.iteration();
        reaction.notes.push(Note::StateChanged { from: state, to, iteration });
        if let Some(max) = limits.max_duration_ms {
            let left = max.saturating_sub(ledger.elapsed_ms()).max(1);
            ledger.start_timer(TimerPurpose::RunDeadline, left, reaction);
        }
        match latest {
            Some(mut execution) => {
                execution.break_off();
                self.previous = Some(execution);
                // The agent learns of an error that was kept, as the arbiter does.
                let obstacle = self.ledger.task.context().last_error.as_ref();
                let obstacle = obstacle.map(|last| format!(": {}", last.error.message));
                let reason = format!("the user took the task up again{}", obstacle.unwrap_or_default());
                let decision = Decision::Continue { reason };
                super::run::decided_by_user(decision.clone(), reaction);
                self.feed(MachineEvent::ArbiterDecision { decision }, reaction);
            }
            None => {
                // Hooks that had not answered yet are asked again.
                let next = if self.ledger.task.hooks.has_begun {
                    asking::select(&mut self.ledger, reaction)
                } else {
                    HooksPhase::begin(&mut self.ledger, reaction)
                };
                self.follow(next, reaction);
            }
        }
    }
}

impl Ledger {
    /// The agent's conversation from an earlier task, where it can go on: with the same model, system prompt and tools.
    pub(super) fn carried_conversation(&mut self, agent: &str) -> Option<Box<Execution>> {
        let mut execution = self.carried.take(agent)?;
        let now = self.setup.agents.get(agent)?;
        let stable = prompt::system_prompt(now, &self.setup.place);
        let tools = self.setup.tools_of(now);
        let log = execution.dialogue.log();
        let fits = *execution.dialogue.model() == now.model
            && log.system.starts_with(&stable)
            && *log.tools == tools[..];
        execution.break_off();
        (fits && execution.dialogue.can_resume()).then_some(execution)
    }
}

impl Outcome {
    /// Whether the same task can be taken up again in the same session: a limit stopped it, its provider failed, or something
    /// stands in the way that a person can remove.
    #[must_use]
    pub fn can_be_taken_up(&self) -> bool {
        match self.status {
            Status::Limited => true,
            Status::Failed => self
                .error
                .as_ref()
                .is_some_and(|error| error.code.is_of_provider() || error.code == ErrorCode::Blocked),
            Status::Verified | Status::Claimed | Status::Cancelled => false,
        }
    }
}
