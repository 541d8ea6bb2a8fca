//! The effects that are still to be answered, and which answers fit them.

use std::collections::BTreeMap;

use super::answer::EffectAnswer;
use super::effect::TimerPurpose;
use super::event::EffectId;

/// Effects that were issued and neither answered nor abandoned.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct OpenEffects {
    effects: BTreeMap<EffectId, OpenEffect>,
    last: u64,
}

/// What an open effect does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenEffect {
    ModelCall,
    /// The number is the call's place in its turn.
    ToolCall(usize),
    Approval,
    Checkpoint,
    Inspection,
    Recall,
    Remember,
    Verification,
    Timer {
        purpose: TimerPurpose,
        after_ms: u64,
    },
}

impl OpenEffect {
    pub(super) fn is_run_deadline(self) -> bool {
        matches!(self, Self::Timer { purpose: TimerPurpose::RunDeadline, .. })
    }

    fn is_answered_by(self, answer: &EffectAnswer) -> bool {
        use EffectAnswer as A;
        match answer {
            A::ModelReplied { .. } | A::ModelFailed { .. } => self == Self::ModelCall,
            A::ToolFinished { .. } => matches!(self, Self::ToolCall(_)),
            A::ApprovalAnswered { .. } => self == Self::Approval,
            A::CheckpointTaken { .. } | A::CheckpointFailed { .. } => self == Self::Checkpoint,
            A::MemoriesRecalled { .. } => self == Self::Recall,
            A::MemoryKept { .. } => self == Self::Remember,
            A::TreeInspected { .. } | A::TreeInspectionFailed { .. } => self == Self::Inspection,
            A::VerificationFinished { .. } => self == Self::Verification,
            A::TimerFired => matches!(self, Self::Timer { .. }),
            A::EffectLost => true,
        }
    }
}

impl OpenEffects {
    /// None, after effects up to this number.
    pub(super) fn after(last: EffectId) -> Self {
        Self { last: last.0, ..Self::default() }
    }

    /// The number of the last effect that was issued.
    pub(super) fn last(&self) -> EffectId {
        EffectId(self.last)
    }

    /// Gives a new effect its number.
    pub(super) fn issue(&mut self, effect: OpenEffect) -> EffectId {
        self.last += 1;
        let id = EffectId(self.last);
        self.effects.insert(id, effect);
        id
    }

    /// Closes the effect that `answer` answers. `None` if it is not open, or if the answer is to something else: then
    /// nothing changes.
    pub(super) fn close(&mut self, id: EffectId, answer: &EffectAnswer) -> Option<OpenEffect> {
        let effect = self.expects(id, answer)?;
        self.effects.remove(&id);
        Some(effect)
    }

    /// The open effect that `answer` answers, which stays open.
    pub(super) fn expects(&self, id: EffectId, answer: &EffectAnswer) -> Option<OpenEffect> {
        self.get(id).filter(|effect| effect.is_answered_by(answer))
    }

    pub(super) fn get(&self, id: EffectId) -> Option<OpenEffect> {
        self.effects.get(&id).copied()
    }

    /// Removes every effect that `which` picks, oldest first.
    pub(super) fn remove(&mut self, which: impl Fn(OpenEffect) -> bool) -> Vec<EffectId> {
        self.effects.extract_if(.., |_, effect| which(*effect)).map(|(id, _)| id).collect()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = EffectId> + '_ {
        self.effects.keys().copied()
    }
}
