//! What can be made of a session that has been recorded: explanations, a replay, situations, a repaired copy, a fork.

pub(crate) mod explain;
pub(crate) mod fork;
pub(crate) mod repair;
pub(crate) mod replay;
pub(crate) mod situations;
