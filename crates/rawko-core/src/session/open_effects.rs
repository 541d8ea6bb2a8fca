//! The effects that are still to be answered.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::{EffectAnswer, OpenEffect};
use crate::effect_id::EffectId;

/// Effects that were issued and neither answered nor abandoned.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct OpenEffects {
    effects: BTreeMap<EffectId, OpenEffect>,
    /// Those whose answers wait for the end of a pause.
    held: BTreeSet<EffectId>,
    last: u64,
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
        self.held.remove(&id);
        Some(effect)
    }

    /// The open effect that `answer` answers, which stays open.
    pub(super) fn expects(&self, id: EffectId, answer: &EffectAnswer) -> Option<OpenEffect> {
        self.get(id).filter(|effect| effect.is_answered_by(answer))
    }

    /// The answer to this effect waits for the end of a pause.
    pub(super) fn hold(&mut self, id: EffectId) {
        self.held.insert(id);
    }

    /// Whether its answer waits for the end of a pause.
    pub(super) fn is_held(&self, id: EffectId) -> bool {
        self.held.contains(&id)
    }

    pub(super) fn get(&self, id: EffectId) -> Option<OpenEffect> {
        self.effects.get(&id).copied()
    }

    /// Removes every effect that `which` picks. Gives those that still go on, oldest first.
    pub(super) fn remove(&mut self, which: impl Fn(OpenEffect) -> bool) -> Vec<EffectId> {
        let removed = self.effects.extract_if(.., |_, effect| which(*effect)).map(|(id, _)| id);
        removed.filter(|id| !self.held.remove(id)).collect()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = EffectId> + '_ {
        self.effects.keys().copied()
    }
}
