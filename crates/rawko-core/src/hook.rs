//! Hooks: programs of the user's that are asked at fixed points of a run (`docs/hooks.md`).
//!
//! Owns the names of the points and the form of an answer. A hook may refuse and add text; nothing that it says grants
//! anything. How a hook is run, and what it prints, is not known here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::keep_ends;

/// Bytes of one text that a hook adds for agents.
const CONTEXT_BYTES: usize = 10_000;
/// Most texts of one answer.
const MAX_TEXTS: usize = 20;
/// Bytes of a reason.
const REASON_BYTES: usize = 2_000;

/// A point of a run at which hooks are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub enum HookEvent {
    /// Before a tool call that is granted is made.
    PreToolUse,
    /// After a tool call succeeded.
    PostToolUse,
    /// A task begins: its words are shown.
    UserPromptSubmit,
    /// An agent's execution has ended.
    SubagentStop,
    /// The run is about to end as complete.
    Stop,
    /// A task begins, before its words are shown.
    SessionStart,
    /// The run is over.
    SessionEnd,
}

impl HookEvent {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::PreToolUse,
        Self::PostToolUse,
        Self::UserPromptSubmit,
        Self::SubagentStop,
        Self::Stop,
        Self::SessionStart,
        Self::SessionEnd,
    ];

    /// Its name in a configuration and in what a hook reads.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::SubagentStop => "SubagentStop",
            Self::Stop => "Stop",
            Self::SessionStart => "SessionStart",
            Self::SessionEnd => "SessionEnd",
        }
    }

    /// The event of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == name)
    }
}

/// A point of a run at which the core has hooks asked, and what they are given. Those about tool calls are asked where a call
/// is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event")]
pub enum HookOccasion {
    /// A task begins.
    SessionStart {
        /// Whether it is not the first one of its session.
        continued: bool,
    },
    /// A task begins with these words.
    UserPromptSubmit {
        /// The task.
        prompt: String,
    },
    /// An agent's execution has ended.
    SubagentStop {
        /// The agent.
        agent: String,
        /// What it said last, bounded.
        output: String,
    },
    /// The run is about to end as complete.
    Stop {
        /// What the last agent said last, bounded.
        output: String,
        /// Whether a Stop hook has sent the run back before.
        again: bool,
    },
}

impl HookOccasion {
    /// The point.
    #[must_use]
    pub fn event(&self) -> HookEvent {
        match self {
            Self::SessionStart { .. } => HookEvent::SessionStart,
            Self::UserPromptSubmit { .. } => HookEvent::UserPromptSubmit,
            Self::SubagentStop { .. } => HookEvent::SubagentStop,
            Self::Stop { .. } => HookEvent::Stop,
        }
    }
}

/// What the hooks of one point have said together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HookReply {
    /// The reason of the first one that refused, or that wants the work to go on. Of a tool call: it was not made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
    /// Texts for agents, bounded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<String>,
    /// What went wrong, for people.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Whether one of them ran where it could write to the project, so that files may have changed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_have_changed: bool,
}

impl HookReply {
    /// A refusal.
    #[must_use]
    pub fn refusal(reason: &str) -> Self {
        let mut reply = Self::default();
        reply.block(reason);
        reply
    }

    /// Whether there is nothing to record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Sets the reason of a refusal, unless there is one.
    pub fn block(&mut self, reason: &str) {
        let reason = reason.trim();
        let reason = if reason.is_empty() { "it gave no reason" } else { reason };
        self.blocked.get_or_insert_with(|| keep_ends(reason, REASON_BYTES));
    }

    /// Adds a text for agents.
    pub fn add_context(&mut self, text: &str) {
        let text = text.trim();
        if !text.is_empty() && self.context.len() < MAX_TEXTS {
            self.context.push(keep_ends(text, CONTEXT_BYTES));
        }
    }

    /// Adds what went wrong.
    pub fn warn(&mut self, message: impl Into<String>) {
        if self.warnings.len() < MAX_TEXTS {
            self.warnings.push(keep_ends(&message.into(), REASON_BYTES));
        }
    }

    /// Adds what others have said. The first refusal counts.
    pub fn add(&mut self, other: Self) {
        let Self { blocked, context, warnings, may_have_changed } = other;
        self.blocked = self.blocked.take().or(blocked);
        self.context.extend(context);
        self.context.truncate(MAX_TEXTS);
        self.warnings.extend(warnings);
        self.warnings.truncate(MAX_TEXTS);
        self.may_have_changed |= may_have_changed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_found_by_its_name_and_no_other() {
        for event in HookEvent::ALL {
            assert_eq!(HookEvent::parse(event.as_str()), Some(event));
            assert_eq!(serde_json::to_value(event).unwrap(), event.as_str());
        }
        assert_eq!(HookEvent::parse("PreCompact"), None);
    }

    #[test]
    fn the_first_refusal_counts_and_texts_are_bounded() {
        let mut reply = HookReply::refusal(" no \n");
        reply.add(HookReply { may_have_changed: true, ..HookReply::refusal("later") });
        reply.add_context("  ");
        reply.add_context(&"x".repeat(2 * CONTEXT_BYTES));
        assert_eq!(reply.blocked.as_deref(), Some("no"));
        assert!(reply.may_have_changed);
        assert_eq!(reply.context.len(), 1, "an empty text is none");
        assert!(reply.context[0].len() < CONTEXT_BYTES + 100, "{}", reply.context[0].len());
        for _ in 0..2 * MAX_TEXTS {
            reply.add_context("more");
            reply.warn("w");
        }
        assert_eq!((reply.context.len(), reply.warnings.len()), (MAX_TEXTS, MAX_TEXTS));
    }

    #[test]
    fn an_occasion_is_one_flat_object() {
        let stop = HookOccasion::Stop { output: "done".into(), again: true };
        let written = serde_json::to_value(&stop).unwrap();
        assert_eq!(written, serde_json::json!({"event": "Stop", "output": "done", "again": true}));
        assert_eq!(serde_json::from_value::<HookOccasion>(written).unwrap(), stop);
        assert_eq!(stop.event(), HookEvent::Stop);
    }
}
