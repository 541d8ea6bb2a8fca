//! A conversation and its model's context window: how long the conversation is, whether the next turn fits, and how it is
//! made to fit.
//!
//! The length is an estimate: the provider's own count at the last answer, and the bytes since at four bytes a token.
//! So the limits leave a margin. The provider decides in the end (`context_length_exceeded`).

use std::sync::Arc;

use super::dialogue::Dialogue;
use crate::agent::compaction::{
    cut_results, summarised, tail, transcript, trim_results, without_unbound_thinking,
};
use crate::agent::prompt;
use crate::agent::shortening::Compaction;
use crate::conversation::{ConversationId, ConversationLog, weight};
use crate::machine::Plan;
use crate::message::Message;
use crate::setup::ModelChoice;
use crate::text::keep_ends;
use crate::usage::Usage;

/// Least tokens for an answer: with less room, the turn is not asked.
const LEAST_ANSWER: u64 = 1_024;
/// Most tokens of a summary.
const SUMMARY_TOKENS: u32 = 4_096;
/// Most bytes of a text to summarize, however large the window is: its tokens cost money.
const TRANSCRIPT_BYTES: usize = 200_000;
/// Bytes of the opening that the summarizing model is shown.
const OPENING_BYTES: usize = 6_000;

/// What is known of the context window.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ContextWindow {
    /// The length at the last count.
    measured: Option<PromptLength>,
    /// A length that the provider refused.
    ceiling: Option<u64>,
    /// Whether this turn was already refused as too long.
    refused: bool,
}

/// The same length in tokens and in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
struct PromptLength {
    tokens: u64,
    bytes: usize,
}

/// A summary to ask for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PendingSummary {
    /// The conversation that asks for it.
    pub(crate) question: ConversationLog,
    /// The position of the first message to keep.
    start: usize,
    max_tokens: u32,
    max_bytes: usize,
}

/// The limits on a conversation's length, in tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Room {
    /// Above this the next turn is not asked.
    limit: u64,
    /// The length that shortening must reach, so that it does not happen at every turn.
    enough: u64,
    /// The length that shortening aims at.
    target: u64,
}

/// The result of shortening a conversation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shortening {
    /// It is shorter now.
    Done(Shortened),
    /// A summary of its middle is needed first.
    Summarize(Box<PendingSummary>),
    /// Nothing could be removed.
    Nothing,
}

/// How a conversation was shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shortened {
    pub(crate) how: Compaction,
    /// Estimated tokens before.
    pub(crate) before: u64,
    /// Estimated tokens after.
    pub(crate) after: u64,
}

impl ContextWindow {
    /// Records the usage of an answered turn, unless it is only an estimate.
    pub(super) fn counted(&mut self, usage: Usage, bytes: usize) {
        self.refused = false;
        if usage.prompt_tokens() > 0 && !usage.estimated {
            self.measured = Some(PromptLength { tokens: usage.total_tokens(), bytes });
        }
    }

    /// Forgets the limits, because another model continues.
    pub(super) fn forget_limits(&mut self) {
        self.ceiling = None;
        self.refused = false;
    }

    /// Marks the next turn as not refused.
    pub(super) fn turn_is_new(&mut self) {
        self.refused = false;
    }
}

impl Dialogue {
    /// Estimated tokens of the next prompt: the provider's count at the last answer, and what was added since.
    fn estimated_tokens(&self) -> u64 {
        let bytes = self.log.bytes();
        match self.window.measured {
            Some(PromptLength { tokens, bytes: counted }) if counted <= bytes => {
                tokens.saturating_add((bytes - counted) as u64 / 4)
            }
            Some(_) | None => bytes as u64 / 4,
        }
    }

    /// Whether the conversation must be shortened before the next turn.
    pub(crate) fn is_too_long(&self) -> bool {
        self.room().is_some_and(|room| self.estimated_tokens() > room.limit)
    }

    /// Whether the conversation cannot fit even after shortening.
    pub(crate) fn is_hopeless(&self) -> bool {
        let tokens = self.estimated_tokens();
        let least = LEAST_ANSWER.min(u64::from(self.model().answer_tokens()));
        let over = |window: u32| tokens.saturating_add(least) > u64::from(window);
        self.model().context_window.is_some_and(over)
            || self.window.ceiling.is_some_and(|ceiling| tokens >= ceiling)
    }

    /// Records that the provider refused the conversation as too long. `false` if it refused this turn before.
    pub(crate) fn refused_as_too_long(&mut self) -> bool {
        let tokens = self.estimated_tokens();
        self.window.ceiling = Some(self.window.ceiling.map_or(tokens, |ceiling| ceiling.min(tokens)));
        !std::mem::replace(&mut self.window.refused, true)
    }

    fn room(&self) -> Option<Room> {
        let answer = u64::from(self.model().answer_tokens());
        let known =
            self.model().context_window.map(|window| (u64::from(window) * 9 / 10).saturating_sub(answer));
        let learned = self.window.ceiling.map(|ceiling| ceiling / 10 * 9);
        let limit = [known, learned].into_iter().flatten().min()?;
        Some(Room { limit, enough: limit / 6 * 5, target: limit / 3 * 2 })
    }

    /// Shortens the conversation, or returns the summary that is needed for that. The shorter conversation of `agent` has
    /// number `next`.
    pub(super) fn shorten(&mut self, next: ConversationId, agent: &str) -> Shortening {
        let Some(room) = self.room() else { return Shortening::Nothing };
        let bytes = self.log.bytes();
        let messages = &self.log.messages;
        let start = tail(messages, self.bytes_of(self.kept(room)));
        let excess = bytes.saturating_sub(self.bytes_of(room.target));
        let cut = cut_results(messages, start, excess);
        let cut = cut.map(|cut| self.rewritten(next, cut));
        if let Some(cut) = &cut
            && self.tokens_of(cut.bytes()) <= room.enough
        {
            return Shortening::Done(self.take_over(cut.clone(), Compaction::ResultsCut));
        }
        let middle: usize = messages.iter().take(start).skip(1).map(|message| weight(message)).sum();
        if start > 1 && middle > self.bytes_of(room.limit / 8) {
            let question = ConversationLog::new(next, prompt::summary_system(agent), [].into());
            return Shortening::Summarize(Box::new(self.summary(question, start, middle, room)));
        }
        let base = cut.as_ref().unwrap_or(&self.log);
        let excess = base.bytes().saturating_sub(self.bytes_of(room.limit));
        let trimmed = trim_results(&base.messages, start, excess).map(|m| self.rewritten(next, m));
        match trimmed.or(cut) {
            Some(shorter) => Shortening::Done(self.take_over(shorter, Compaction::ResultsCut)),
            None => Shortening::Nothing,
        }
    }

    /// How many tokens of the end stay as they are: a fifth of the window, as far as there is room for it.
    fn kept(&self, room: Room) -> u64 {
        let window = self.model().context_window.map_or(room.limit, u64::from);
        (window / 5).min(room.target / 2)
    }

    fn summary(
        &self,
        mut question: ConversationLog,
        start: usize,
        middle: usize,
        room: Room,
    ) -> PendingSummary {
        let messages = &self.log.messages;
        // A third, because the fence makes short lines up to twice as long.
        let max = (self.bytes_of(room.limit) / 3).min(TRANSCRIPT_BYTES);
        let opening = messages.first().map(|first| first.text()).unwrap_or_default();
        let opening = keep_ends(opening.trim(), OPENING_BYTES.min(max / 3));
        question.push(Message::user(prompt::summary_question(&opening, &transcript(messages, start, max))));
        let share = u32::try_from(room.limit / 4).unwrap_or(SUMMARY_TOKENS);
        let max_tokens = SUMMARY_TOKENS.min(self.model().answer_tokens()).min(share).max(256);
        let thinking = self.model().thinking_room.min(share);
        let max_bytes = (middle / 2).min(self.bytes_of(u64::from(max_tokens)).max(1_000));
        let max_tokens = max_tokens + thinking;
        PendingSummary { question, start, max_tokens, max_bytes }
    }

    /// The model choice for the summary.
    pub(crate) fn summary_model(&self, summary: &PendingSummary) -> ModelChoice {
        // `thinking` and similar settings are configured for the agent's work, and may need more tokens than a summary
        // has.
        let max_tokens = summary.max_tokens;
        ModelChoice { max_tokens, extra: serde_json::Map::new(), ..self.model().clone() }
    }

    /// Replaces the middle with the summary, in conversation number `next`. `None` if the summary is empty.
    pub(crate) fn sum_up(
        &mut self,
        pending: &PendingSummary,
        next: ConversationId,
        summary: &str,
        plan: Option<&Plan>,
    ) -> Option<Shortened> {
        let PendingSummary { start, max_bytes, .. } = *pending;
        if summary.trim().is_empty() {
            return None;
        }
        let summary = prompt::summed_up(&keep_ends(summary.trim(), max_bytes), plan);
        let messages = summarised(&self.log.messages, start, summary);
        let mut log = self.rewritten(next, messages);
        let limit = self.room().map_or(u64::MAX, |room| room.limit);
        let excess = log.bytes().saturating_sub(self.bytes_of(limit));
        if excess > 0
            && let Some(trimmed) = trim_results(&log.messages, 1, excess)
        {
            log = self.rewritten(next, trimmed);
        }
        Some(self.take_over(log, Compaction::Summarized))
    }

    /// This conversation with other messages, as number `next`.
    fn rewritten(&self, next: ConversationId, messages: Vec<Arc<Message>>) -> ConversationLog {
        let messages = if self.model().bound_thinking {
            without_unbound_thinking(&self.log.messages, messages)
        } else {
            messages
        };
        self.log.rewritten(next, messages)
    }

    fn take_over(&mut self, log: ConversationLog, how: Compaction) -> Shortened {
        let before = self.estimated_tokens();
        let after = self.tokens_of(log.bytes());
        self.window.measured = Some(PromptLength { tokens: after, bytes: log.bytes() });
        self.log = log;
        Shortened { how, before, after }
    }

    /// Estimated tokens in `bytes` of this conversation.
    fn tokens_of(&self, bytes: usize) -> u64 {
        scale(bytes as u64, self.estimated_tokens(), self.log.bytes() as u64)
    }

    /// Estimated bytes in `tokens` of this conversation.
    fn bytes_of(&self, tokens: u64) -> usize {
        let bytes = scale(tokens, self.log.bytes() as u64, self.estimated_tokens());
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

fn scale(value: u64, to: u64, from: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(to) / u128::from(from.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
