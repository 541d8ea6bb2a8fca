//! What an agent is told between its turns: what happened while no process carried the run, and what the user says while
//! it works. The user's words are not lost with an execution that ends before.

use super::Execution;
use crate::agent::prompt;
use crate::message::Content;

impl Execution {
    /// Tells the agent at the next opportunity what happened while no process carried the run.
    pub fn tell(&mut self, words: String) {
        self.news.push(words);
    }

    pub(super) fn take_news(&mut self) -> impl Iterator<Item = Content> + use<> {
        std::mem::take(&mut self.news).into_iter().map(Content::text)
    }

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
