//! Conversations: messages, content blocks, tool calls. Wire formats live in `rawko-provider`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hosted::HostedBlock;

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// rawko: the task, tool results, and everything else that it sends.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The content blocks, in order.
    pub content: Vec<Content>,
}

impl Message {
    /// A user message of one text block.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: vec![Content::text(text)] }
    }

    /// An assistant message of one text block.
    #[must_use]
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: Role::Assistant, content: vec![Content::text(text)] }
    }

    /// The message itself, or a placeholder if it is empty: providers refuse conversations with empty messages.
    #[must_use]
    pub fn or_placeholder(mut self) -> Self {
        let has_content = self.content.iter().any(|block| match block {
            Content::Text { text } => !text.trim().is_empty(),
            Content::Image(_) | Content::ToolUse(_) | Content::ToolResult { .. } => true,
            Content::Hosted(block) => !block.is_citations(),
            Content::Thinking { .. } | Content::RedactedThinking { .. } => false,
        });
        self.content.retain(|block| !matches!(block, Content::Text { text } if text.trim().is_empty()));
        if !has_content {
            self.content.push(Content::text("(no answer)"));
        }
        self
    }

    /// The message without the thinking that its provider signed; `None` if there is none. Providers only accept such
    /// thinking after exactly the messages that it was produced after.
    #[must_use]
    pub fn without_signed_thinking(&self) -> Option<Self> {
        let is_signed = |block: &Content| match block {
            Content::Thinking { signature, .. } => signature.is_some(),
            Content::RedactedThinking { .. } => true,
            Content::Text { .. }
            | Content::Image(_)
            | Content::ToolUse(_)
            | Content::ToolResult { .. }
            | Content::Hosted(_) => false,
        };
        let content = || self.content.iter().filter(|block| !is_signed(block)).cloned().collect();
        self.content.iter().any(is_signed).then(|| Self { role: self.role, content: content() })
    }

    /// All text blocks joined by line breaks, without thinking and tool calls. Text that cites a source is a part of the
    /// sentence around it, so no line breaks there.
    #[must_use]
    pub fn text(&self) -> String {
        let is_citations =
            |block: Option<&Content>| matches!(block, Some(Content::Hosted(block)) if block.is_citations());
        let mut all = String::new();
        let mut is_first = true;
        for (at, block) in self.content.iter().enumerate() {
            let Content::Text { text } = block else { continue };
            let before = at.checked_sub(1).and_then(|before| self.content.get(before));
            let follows_text = is_citations(before) || matches!(before, Some(Content::Text { .. }));
            let is_one_sentence =
                follows_text && (is_citations(before) || is_citations(self.content.get(at + 1)));
            if !is_first && !is_one_sentence {
                all.push('\n');
            }
            all.push_str(text);
            is_first = false;
        }
        all
    }

    /// The tool calls, in the order in which the model made them.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|c| match c {
            Content::ToolUse(call) => Some(call),
            _ => None,
        })
    }
}

/// One block of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Content {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture that the user gave.
    Image(Image),
    /// The model's reasoning, sent back to providers that require it.
    Thinking {
        /// The reasoning; may be empty if the provider does not reveal it.
        thinking: String,
        /// The provider's signature of the block, opaque.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// Reasoning that the provider encrypted, opaque.
    RedactedThinking {
        /// The provider's bytes.
        data: String,
    },
    /// A tool call of the model.
    ToolUse(ToolCall),
    /// The result of a tool call.
    ToolResult {
        /// Id of the call.
        tool_use_id: String,
        /// The result for the model.
        content: String,
        /// Whether the tool failed.
        #[serde(default)]
        is_error: bool,
        /// Pictures that belong to the result.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Image>,
    },
    /// What a tool left that the provider ran itself.
    Hosted(HostedBlock),
}

impl Content {
    /// A text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// A picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    /// The bytes in base64.
    pub data: String,
}

impl Image {
    /// Bytes of text that a picture counts for in estimates. Providers charge for its dimensions, not its file size.
    pub const WEIGHT: usize = 6_400;
}

/// A request of the model to run a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The provider's id for this call, which its result names.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// The arguments; `{}` if `invalid_input` is set. The keys of objects are sorted, for digests.
    #[serde(deserialize_with = "sorted")]
    pub input: Value,
    /// The model's text, if it was not valid JSON. Such a call is never run; its result is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid_input: Option<String>,
    /// Which argument contained which secret, in words, if one did: `content` holds the value of `OPENAI_API_KEY`. The
    /// arguments are recorded without the secret, and such a call is never run; its result is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
}

/// Reads a value and sorts the keys of its objects, which changes nothing unless `serde_json` was built with
/// `preserve_order`.
fn sorted<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    let mut value = Value::deserialize(deserializer)?;
    value.sort_all_objects();
    Ok(value)
}

/// Why a model ended its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The answer is complete.
    EndTurn,
    /// It called tools and waits for their results.
    ToolUse,
    /// The token limit cut it off.
    MaxTokens,
    /// It declined to answer.
    Refusal,
    /// The conversation filled the model's context window.
    ContextWindow,
    /// The provider paused a long turn in which it ran tools itself. The same conversation continues it.
    Paused,
}
