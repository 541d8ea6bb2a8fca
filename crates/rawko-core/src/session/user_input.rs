//! What people do to a task while it lasts: their answers, their words, their pause.

use super::approvals::Approvals;
use super::pause::Pause;
use super::steering::UserWords;

/// What has come from people during a task.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct UserInput {
    /// What they have said to questions.
    pub(super) approvals: Approvals,
    /// What they have said unasked.
    pub(super) words: UserWords,
    /// Their pause, while it lasts.
    pub(super) pause: Option<Pause>,
}
