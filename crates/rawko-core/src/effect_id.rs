//! The number of an effect.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number of an effect within a session, from 1. The event that answers an effect names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct EffectId(pub u64);

impl std::fmt::Display for EffectId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "e{}", self.0)
    }
}
