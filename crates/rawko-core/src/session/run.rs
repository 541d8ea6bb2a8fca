//! One task from its start to its end: routes each event to the phase or to the machine, and carries out what the
//! machine wants by entering the next phase.

use super::answer::{EffectAnswer, OpenEffect};
use super::effect::{Effect, TimerPurpose};
use super::event::Event;
use super::landing::Landing;
use super::ledger::Ledger;
use super::pause::HeldAnswer;
use super::phase::hooks::HooksPhase;
use super::phase::verifying::Verifying;
use super::phase::{FollowUp, RunPhase};
use super::reaction::Reaction;
use super::steering::decided_unasked;
use crate::agent::execution::Execution;
use crate::effect_id::EffectId;
use crate::facts::TreeInspection;
use crate::machine::{Decision, MachineEffect, MachineEvent, State};
use crate::note::{DecisionPoint, Note};
use crate::setup::Setup;
use crate::time::Timestamp;

/// A run between two events.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RunState {
    pub(super) ledger: Ledger,
    pub(super) phase: RunPhase,
    /// The execution that ended last, in case the arbiter lets its agent continue.
    pub(super) previous: Option<Box<Execution>>,
}

impl RunState {
    pub(super) fn start(at: Timestamp, task: &str, setup: &Setup, shared_events: u64) -> (Self, Reaction) {
        let ledger = Ledger::new(at, setup, shared_events);
        let mut run = Self { ledger, phase: RunPhase::Idle, previous: None };
        run.ledger.before_event(at);
        let mut reaction = Reaction::default();
        run.start_clock(setup, &mut reaction);
        run.begin(task, &mut reaction);
        run.ledger.spend.after_event();
        (run, reaction)
    }

    /// Reports problems of the setup, and starts the run's time.
    pub(super) fn start_clock(&mut self, setup: &Setup, reaction: &mut Reaction) {
        for problem in &setup.place.instruction_problems {
            reaction.warn(problem.as_str());
        }
        if let Some(after_ms) = setup.limits.max_duration_ms {
            self.ledger.start_timer(TimerPurpose::RunDeadline, after_ms, reaction);
        }
    }

    /// Starts the machine. What hooks and the user have to say about the beginning comes before the arbiter's question.
    pub(super) fn begin(&mut self, task: &str, reaction: &mut Reaction) {
        let start = MachineEvent::StartTask { task: task.to_owned() };
        // `selecting` wants an agent selected: that is what the beginning leads to.
        let _ = self.transition(&start, reaction);
        let next = HooksPhase::begin(&mut self.ledger, reaction);
        self.follow(next, reaction);
    }

    pub(super) fn apply(&mut self, at: Timestamp, event: &Event) -> Reaction {
        let before = std::mem::replace(&mut self.ledger.now, at);
        self.ledger.before_event(at);
        self.ledger.tree.just_checked = false;
        let mut reaction = Reaction::default();
        match event {
            Event::TaskStarted { .. } => reaction.ignored = true,
            Event::Answered { effect, answer } => self.answered(*effect, answer, &mut reaction),
            Event::SessionResumed { changed_files, verify, limits, lost } => {
                if let Some(limits) = limits {
                    self.ledger.set_limits(limits);
                }
                // Who resumes a paused run wants it to go on.
                let held = self.end_pause(before, &mut reaction);
                let paused = at.since(before);
                self.ledger.spend.paused(paused, at);
                self.ledger.failing.resumed(paused);
                // What was written in the meantime is unknown.
                self.ledger.tree.touched();
                if let Some(verify) = verify {
                    self.ledger.verify_with(verify);
                }
                self.tell_lost(lost);
                reaction.changed_since_seen(changed_files);
                reaction.lost(lost);
                self.take_held(held, &mut reaction);
            }
            Event::TaskContinued { task, setup, changed_files, lost, ended } => {
                self.tell_lost(lost);
                self.next_task(at, task, setup, ended, &mut reaction);
                reaction.changed_since_seen(changed_files);
                reaction.lost(lost);
            }
            Event::TaskTakenUp { limits, changed_files, verify, lost } => {
                self.tell_lost(lost);
                if let Some(verify) = verify {
                    self.ledger.verify_with(verify);
                }
                self.take_up(limits, at.since(before), &mut reaction);
                reaction.changed_since_seen(changed_files);
                reaction.lost(lost);
            }
            Event::OverrideRequested { command, request } => {
                self.overridden(command, request.as_deref(), &mut reaction);
            }
            Event::CancelRequested { reason: _ } => self.feed(MachineEvent::Cancel, &mut reaction),
            Event::FinalTreeInspected { inspection } => self.seen_at_the_end(inspection, &mut reaction),
            Event::WorkLanded { landing } => self.landed(landing, &mut reaction),
            Event::RanBeside { sessions } => self.ran_beside(sessions, &mut reaction),
            Event::AgentsReloaded { agents } => {
                self.ledger.task.set_agents(agents.keys().cloned().collect());
                self.ledger.setup.agents.clone_from(agents);
                self.ledger.spend.budgets_changed();
            }
        }
        self.ledger.watch_pause();
        self.ledger.spend.after_event();
        reaction
    }

    /// An answer to an effect that is not open, or of the wrong kind, changes nothing.
    fn answered(&mut self, id: EffectId, answer: &EffectAnswer, reaction: &mut Reaction) {
        let limit = self.ledger.spend.answer_limit(id);
        let expected = self.ledger.open.expects(id, answer).filter(|_| !self.ledger.open.is_held(id));
        let Some(effect) = expected else {
            reaction.ignored = true;
            return;
        };
        self.settle(id, answer, reaction);
        if self.ledger.user.pause.is_some() && !effect.is_run_deadline() {
            self.ledger.hold(HeldAnswer { effect: id, answer: answer.clone(), limit });
            return;
        }
        if let Some(effect) = self.ledger.open.close(id, answer) {
            self.take_answer(effect, answer, limit, reaction);
        }
    }

    /// Lets the answer to an effect that was open take effect.
    pub(super) fn take_answer(
        &mut self,
        effect: OpenEffect,
        answer: &EffectAnswer,
        limit: Option<u32>,
        reaction: &mut Reaction,
    ) {
        let phase = std::mem::take(&mut self.phase);
        let next = match (effect, answer) {
            (OpenEffect::Timer { purpose, after_ms }, _)
                if !matches!(purpose, TimerPurpose::Backoff | TimerPurpose::Retry) =>
            {
                if *answer == EffectAnswer::EffectLost {
                    self.ledger.restart_timer(purpose, after_ms, reaction);
                    FollowUp::Phase(phase)
                } else {
                    phase.on_deadline(purpose, &mut self.ledger, reaction)
                }
            }
            _ => phase.on(effect, answer, limit, &mut self.ledger, reaction),
        };
        self.follow(next, reaction);
    }

    /// Replaces what was reserved for a model call by what it consumed.
    fn settle(&mut self, id: EffectId, answer: &EffectAnswer, reaction: &mut Reaction) {
        match answer {
            EffectAnswer::ModelReplied { cached: true, .. } | EffectAnswer::EffectLost => {
                self.ledger.spend.release(id);
            }
            EffectAnswer::ModelReplied { usage, .. } => {
                self.ledger.failing.answered(self.phase.execution().is_some());
                self.ledger.spend.settle(id, *usage, reaction);
            }
            EffectAnswer::ModelFailed { usage, .. } => {
                if let Some(consumed) = self.ledger.spend.settle_failed(id, *usage, reaction) {
                    self.phase.charge(consumed);
                }
            }
            EffectAnswer::OutsideAgentEnded { work } => {
                if let Some(execution) = self.phase.execution() {
                    let used = (work.usage, work.cost_usd);
                    self.ledger.spend.settle_outside(id, execution.agent(), used, reaction);
                }
            }
            // No model was asked.
            _ => {}
        }
    }

    /// Gives the machine an event from outside the phase.
    pub(super) fn feed(&mut self, event: MachineEvent, reaction: &mut Reaction) {
        if let Some(next) = self.step(&event, reaction) {
            self.follow(next, reaction);
        }
    }

    /// Goes from phase to phase until one waits for the world.
    pub(super) fn follow(&mut self, mut next: FollowUp, reaction: &mut Reaction) {
        loop {
            let event = match next {
                FollowUp::Phase(phase) => {
                    self.phase = phase;
                    return;
                }
                FollowUp::Machine(event) => event,
                FollowUp::Ended { event, execution } => {
                    self.previous = execution;
                    event
                }
            };
            if self.ledger.ends_unchecked(&event) {
                next = Verifying::last(event, &mut self.ledger, reaction);
                continue;
            }
            if self.ledger.stop_hooks_are_due(&event) {
                next = HooksPhase::before_end(event, &mut self.ledger, reaction);
                continue;
            }
            match self.step(&event, reaction) {
                Some(following) => next = following,
                None => return,
            }
        }
    }

    /// One step of the machine, and the phase that it leads to. `None` if it enters no phase.
    fn step(&mut self, event: &MachineEvent, reaction: &mut Reaction) -> Option<FollowUp> {
        let mut next = None;
        for effect in self.transition(event, reaction) {
            match effect {
                MachineEffect::Abandon { state } => self.leave(state, event, reaction),
                MachineEffect::Finish { state } => self.finish(state, reaction),
                effect => {
                    next = Some(RunPhase::enter(effect, &mut self.previous, &mut self.ledger, reaction));
                }
            }
        }
        next
    }

    /// Gives the machine an event and records what changed. Returns what the machine wants.
    fn transition(&mut self, event: &MachineEvent, reaction: &mut Reaction) -> Vec<MachineEffect> {
        let from = self.ledger.task.state();
        let executions = self.ledger.task.context().history.len();
        let begun = self.ledger.task.iteration();
        let step = self.ledger.task.apply(self.ledger.now, event);
        reaction.ignored |= step.ignored;
        if self.ledger.task.context().history.len() > executions {
            self.ledger.detector.execution_ended(self.ledger.task.context().plan.as_ref());
            let execution = self.phase.execution().or(self.previous.as_deref());
            self.ledger.judge_memories(execution, reaction);
        }
        let context = self.ledger.task.context();
        let to = self.ledger.task.state();
        if from != to {
            // A reset forgets the count; the session goes on counting.
            let iteration = context.iteration_count.max(begun);
            reaction.notes.push(Note::StateChanged { from, to, iteration });
        }
        step.effects
    }

    /// Leaves the phase before its end: the user intervened.
    fn leave(&mut self, state: State, event: &MachineEvent, reaction: &mut Reaction) {
        let _ = self.end_pause(self.ledger.now, reaction);
        let mut phase = std::mem::take(&mut self.phase);
        if let Some(execution) = phase.execution_mut() {
            execution.inbox.drop_messages();
        }
        if state == State::Executing
            && let Some(execution) = phase.execution()
        {
            self.ledger.task.keep_draft(execution);
        }
        if let Ok(execution) = phase.into_execution() {
            self.ledger.carried.keep(execution);
        }
        if *event == MachineEvent::SkipStep {
            self.ledger.task.skip_drafted_step();
        }
        self.ledger.abandon_phase(reaction);
    }

    fn finish(&mut self, state: State, reaction: &mut Reaction) {
        self.phase = RunPhase::Idle;
        self.ledger.user.pause = None;
        if self.ledger.user.words.are_unread() && state != State::Cancelled {
            reaction.warn("the run ended before an agent had read what you said last");
        }
        if let Some(execution) = self.previous.take() {
            self.ledger.carried.keep(execution);
        }
        self.ledger.abandon_phase(reaction);
        self.ledger.abandon(|_| true, reaction);
        let outcome = Box::new(self.ledger.outcome(state));
        reaction.effects.push(Effect::Finish { outcome });
    }

    /// The execution before which the tree was last kept, where the run has ended and what its last work changed is not
    /// known.
    pub(super) fn unseen_tree(&self) -> Option<u32> {
        let Ledger { task, tree, .. } = &self.ledger;
        let is_unseen = task.state().is_final() && tree.is_unseen();
        (is_unseen && tree.checkpoint_taken > 0).then_some(tree.checkpoint_taken)
    }

    /// The end again, now that it is known what was changed.
    fn seen_at_the_end(&mut self, inspection: &TreeInspection, reaction: &mut Reaction) {
        if self.unseen_tree().is_none() {
            reaction.ignored = true;
            return;
        }
        self.ledger.tree.inspected(inspection);
        let outcome = Box::new(self.ledger.outcome(self.ledger.task.state()));
        reaction.effects.push(Effect::Finish { outcome });
    }

    /// The end again, now that it is known what became of the work.
    fn landed(&mut self, landing: &Landing, reaction: &mut Reaction) {
        if !self.ledger.task.state().is_final() {
            reaction.ignored = true;
            return;
        }
        self.ledger.tree.landing = Some(landing.clone());
        let outcome = Box::new(self.ledger.outcome(self.ledger.task.state()));
        reaction.effects.push(Effect::Finish { outcome });
    }

    /// What others change is seen as the session's own, so its outcome names them.
    fn ran_beside(&mut self, sessions: &[String], reaction: &mut Reaction) {
        let known = &mut self.ledger.tree.beside;
        let new: Vec<String> = sessions.iter().filter(|session| !known.contains(session)).cloned().collect();
        if new.is_empty() || self.ledger.task.state().is_final() {
            reaction.ignored = true;
            return;
        }
        reaction.warn(format!(
            "session {} runs in the same folder: changed files and verification may be of both",
            new.join(", ")
        ));
        known.extend(new);
    }
}

pub(super) fn decided_by_user(decision: Decision, reaction: &mut Reaction) {
    reaction.notes.push(decided_unasked(DecisionPoint::Select, decision, None));
}

pub(super) fn forced(agent: &str) -> String {
    format!("{agent} was asked for by the user")
}
