//! What the user says while an agent works: told with the agent's next request, and not lost with an execution that ends
//! before.

use super::Execution;
use crate::agent::prompt;
use crate::message::Content;

impl Execution {
    /// Tells the agent with its next request what the user has said.
    pub fn hear(&mut self, words: String) {
        self.unheard.push(words);
        self.heard += 1;
    }

    /// How many of the user's messages the agent was told.
    #[must_use]
    pub fn heard(&self) -> usize {
        self.heard - self.unheard.len()
    }

    /// The agent was told the first `count` messages of the user, and no others are to be told.
    pub fn has_heard(&mut self, count: usize) {
        self.unheard.clear();
        self.heard = count;
    }

    /// The execution is over: what the agent was not told is left to the next one.
    pub fn forget_unheard(&mut self) {
        self.has_heard(self.heard());
    }

    pub(super) fn take_unheard(&mut self) -> Option<Content> {
        let words = std::mem::take(&mut self.unheard);
        (!words.is_empty()).then(|| Content::text(prompt::said_now(&words)))
    }
}
