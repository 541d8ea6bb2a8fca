//! The user's input to a task: answers, messages, pauses.

use super::approvals::Approvals;
use super::pause::Pause;
use super::steering::UserWords;

/// The user's input during a task.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct UserInput {
    /// The answers to questions.
    pub(super) approvals: Approvals,
    /// The messages.
    pub(super) words: UserWords,
    /// The pause, while it lasts.
    pub(super) pause: Option<Pause>,
}
