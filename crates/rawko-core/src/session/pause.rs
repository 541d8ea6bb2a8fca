//! A run that the user has paused: what is under way ends, and nothing new begins.
//!
//! Answers that come in meanwhile are journaled and charged like any other, and take effect when the run goes on. So a
//! pause needs no rules of its own in any phase. One answer is not kept back: the end of the run's time, which ends a
//! paused run like any other.

use super::answer::{EffectAnswer, OpenEffect};
use super::effect::TimerPurpose;
use super::ledger::Ledger;
use super::phase::{ExecutionStage, RunPhase};
use super::reaction::Reaction;
use super::run::RunState;
use crate::effect_id::EffectId;
use crate::note::Note;
use crate::time::Timestamp;

/// A pause that lasts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pause {
    /// When the user asked for it.
    pub(super) since: Timestamp,
    /// When the last work that was under way had ended; from then on no agent uses up its time.
    still_since: Option<Timestamp>,
    /// The answers that take effect when the run goes on, oldest first. Their effects are open until then.
    held: Vec<HeldAnswer>,
}

/// An answer that waits for the end of a pause.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HeldAnswer {
    pub(super) effect: EffectId,
    pub(super) answer: EffectAnswer,
    /// The most tokens that a model's answer could have.
    pub(super) limit: Option<u32>,
}

impl OpenEffect {
    /// Whether a paused run still waits for it: not for the end of a time limit.
    fn is_under_way(self) -> bool {
        match self {
            Self::Timer { purpose, .. } => matches!(purpose, TimerPurpose::Backoff | TimerPurpose::Retry),
            _ => true,
        }
    }
}

impl Ledger {
    /// Keeps an answer back until the run goes on.
    pub(super) fn hold(&mut self, held: HeldAnswer) {
        if let Some(pause) = &mut self.user.pause {
            self.open.hold(held.effect);
            pause.held.push(held);
        }
    }

    /// Notes from when on a paused run stands still.
    pub(super) fn watch_pause(&mut self) {
        let Some(pause) = &mut self.user.pause else { return };
        let goes_on =
            |id: EffectId| !self.open.is_held(id) && self.open.get(id).is_some_and(OpenEffect::is_under_way);
        if !self.open.ids().any(goes_on) {
            pause.still_since.get_or_insert(self.now);
        }
    }
}

impl RunState {
    pub(super) fn pause(&mut self, reaction: &mut Reaction) {
        self.ledger.user.pause = Some(Pause { since: self.ledger.now, still_since: None, held: Vec::new() });
        reaction.notes.push(Note::RunPaused);
    }

    /// Ends the pause, which lasted until `until`, and returns the answers that were kept back.
    pub(super) fn end_pause(&mut self, until: Timestamp, reaction: &mut Reaction) -> Vec<HeldAnswer> {
        let Some(Pause { since, still_since, held }) = self.ledger.user.pause.take() else {
            return Vec::new();
        };
        // These take their own wait off the working time.
        let counts_itself =
            matches!(self.phase, RunPhase::Retrying(_) | RunPhase::Working(_, ExecutionStage::Approving(_)));
        if let Some(still_since) = still_since.filter(|_| !counts_itself) {
            self.ledger.spend.waited(until.since(still_since));
        }
        reaction.notes.push(Note::RunUnpaused { after_ms: until.since(since) });
        held
    }

    /// Lets the answers take effect that were kept back. An answer is dropped if its effect was abandoned by one before.
    pub(super) fn take_held(&mut self, held: Vec<HeldAnswer>, reaction: &mut Reaction) {
        for HeldAnswer { effect, answer, limit } in held {
            if let Some(open) = self.ledger.open.close(effect, &answer) {
                self.take_answer(open, &answer, limit, reaction);
            }
        }
    }
}
