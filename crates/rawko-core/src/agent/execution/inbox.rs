//! The messages that go to an agent with its next request: notices of what happened while no process carried the run,
//! and what the user says while the agent works. A message of the user outlives an execution that ends before it is
//! sent.

use crate::agent::prompt;
use crate::message::Content;

/// Messages for an agent's next request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Inbox {
    /// Remarks about the turn, which follow its results.
    remarks: Vec<String>,
    /// Notices of what happened while no process carried the run.
    notices: Vec<String>,
    /// Messages of the user that are still to be sent.
    messages: Vec<String>,
    /// How many messages of the user came in, those in `messages` included.
    received: usize,
}

impl Inbox {
    /// Adds a text for the agent after the results of the turn.
    pub(crate) fn remark(&mut self, words: String) {
        self.remarks.push(words);
    }

    /// Adds what happened while no process carried the run.
    pub(crate) fn notify(&mut self, words: String) {
        self.notices.push(words);
    }

    /// Adds a message of the user.
    pub(crate) fn receive(&mut self, words: String) {
        self.messages.push(words);
        self.received += 1;
    }

    /// How many of the user's messages were sent.
    pub(crate) fn delivered(&self) -> usize {
        self.received - self.messages.len()
    }

    /// The first `count` messages of the user were sent, and no other waits.
    pub(crate) fn set_delivered(&mut self, count: usize) {
        self.messages.clear();
        self.received = count;
    }

    /// Ends the execution: messages that were not sent go to the next one.
    pub(crate) fn drop_messages(&mut self) {
        self.set_delivered(self.delivered());
    }

    /// Whether a message of the user waits.
    pub(super) fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }

    /// Notices of what happened while no process carried the run.
    pub(super) fn take_notices(&mut self) -> Vec<Content> {
        texts(&mut self.notices)
    }

    /// The user's messages, as one text.
    pub(super) fn take_messages(&mut self) -> Option<Content> {
        let words = std::mem::take(&mut self.messages);
        (!words.is_empty()).then(|| Content::text(prompt::said_now(&words)))
    }

    /// All of it, for the message that follows the results of a turn.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Content> + use<> {
        let (remarks, notices, messages) =
            (texts(&mut self.remarks), self.take_notices(), self.take_messages());
        remarks.into_iter().chain(notices).chain(messages)
    }
}

fn texts(words: &mut Vec<String>) -> Vec<Content> {
    std::mem::take(words).into_iter().map(Content::text).collect()
}
