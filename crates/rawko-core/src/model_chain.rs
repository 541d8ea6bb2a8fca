//! The model that a conversation is held with, and those that follow when its provider fails for good.

use crate::setup::ModelChoice;

/// The model in use, and the models that are left.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelChain {
    /// The model in use.
    pub(crate) current: ModelChoice,
    alternatives: Vec<ModelChoice>,
}

impl ModelChain {
    /// Begins with `current`.
    pub(crate) fn new(current: ModelChoice, alternatives: Vec<ModelChoice>) -> Self {
        Self { current, alternatives }
    }

    /// Whether another model is left.
    pub(crate) fn has_alternative(&self) -> bool {
        !self.alternatives.is_empty()
    }

    /// Goes on with the next model and returns it; `None` if none is left.
    pub(crate) fn switch(&mut self) -> Option<&ModelChoice> {
        if self.alternatives.is_empty() {
            return None;
        }
        self.current = self.alternatives.remove(0);
        Some(&self.current)
    }
}
