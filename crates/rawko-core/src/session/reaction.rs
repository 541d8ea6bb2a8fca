//! A session's reaction to an event.

use std::collections::BTreeMap;

use super::effect::Effect;
use crate::effect_id::EffectId;
use crate::note::Note;
use crate::request::ModelRequest;

/// The result of applying one event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reaction {
    /// The effects to perform, in this order.
    pub effects: Vec<Effect>,
    /// The notes to report, in this order.
    pub notes: Vec<Note>,
    /// The request of each `CallModel` among the effects.
    pub requests: BTreeMap<EffectId, ModelRequest>,
    /// Whether the event had no meaning here; nothing changed then.
    pub ignored: bool,
}
