//! What an agent is told between its turns: what happened while no process carried the run, and what the user says while
//! it works. The user's words are not lost with an execution that ends before.

use crate::agent::prompt;
use crate::message::Content;

/// What an agent is told with its next request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Inbox {
    /// What is said about the turn, after its results.
    remarks: Vec<String>,
    /// What happened while no process carried the run.
    news: Vec<String>,
    /// What the user has said.
    unheard: Vec<String>,
    /// How many of the user's messages the agent was told, those in `unheard` included.
    heard: usize,
}

impl Inbox {
    /// Adds a text for the agent after the results of the turn.
    pub(crate) fn remark(&mut self, words: String) {
        self.remarks.push(words);
    }

    /// Tells the agent at the next opportunity what happened while no process carried the run.
    pub(crate) fn tell(&mut self, words: String) {
        self.news.push(words);
    }

    /// Tells the agent with its next request what the user has said.
    pub(crate) fn hear(&mut self, words: String) {
        self.unheard.push(words);
        self.heard += 1;
    }

    /// How many of the user's messages the agent was told.
    pub(crate) fn heard(&self) -> usize {
        self.heard - self.unheard.len()
    }

    /// The agent was told the first `count` messages of the user, and no others are to be told.
    pub(crate) fn has_heard(&mut self, count: usize) {
        self.unheard.clear();
        self.heard = count;
    }

    /// The execution is over: what the agent was not told is left to the next one.
    pub(crate) fn forget_unheard(&mut self) {
        self.has_heard(self.heard());
    }

    /// Whether the user has said something that the agent was not told.
    pub(super) fn has_unheard(&self) -> bool {
        !self.unheard.is_empty()
    }

    /// What happened while no process carried the run.
    pub(super) fn take_news(&mut self) -> Vec<Content> {
        texts(&mut self.news)
    }

    /// What the user has said.
    pub(super) fn take_unheard(&mut self) -> Option<Content> {
        let words = std::mem::take(&mut self.unheard);
        (!words.is_empty()).then(|| Content::text(prompt::said_now(&words)))
    }

    /// All of it, for the message that follows the results of a turn.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Content> + use<> {
        let (remarks, news, unheard) = (texts(&mut self.remarks), self.take_news(), self.take_unheard());
        remarks.into_iter().chain(news).chain(unheard)
    }
}

fn texts(words: &mut Vec<String>) -> Vec<Content> {
    std::mem::take(words).into_iter().map(Content::text).collect()
}
