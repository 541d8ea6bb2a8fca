//! One conversation with a model. It is append-only, and its digest is updated with each message.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::message::{Content, Image, Message};
use crate::request::{ModelRequest, Purpose, ToolChoice};
use crate::setup::ModelChoice;
use crate::text::hex;
use crate::tool::ToolSpec;

/// Number of a conversation within a session, from 1.
pub type ConversationId = u64;

/// A conversation so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationLog {
    /// Its number in the session.
    pub id: ConversationId,
    /// The system prompt.
    pub system: Arc<str>,
    /// How many bytes of the system prompt other conversations share ([`ModelRequest::stable`]). Only caches need it:
    /// neither text nor digest depends on it.
    ///
    /// [`ModelRequest::stable`]: crate::request::ModelRequest::stable
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable: Option<usize>,
    /// The tools that the model may call.
    pub tools: Arc<[ToolSpec]>,
    /// The messages. Requests share the list.
    pub messages: Arc<Vec<Arc<Message>>>,
    digest: String,
    bytes: usize,
}

impl ConversationLog {
    /// An empty conversation.
    #[must_use]
    pub fn new(id: ConversationId, system: String, tools: Arc<[ToolSpec]>) -> Self {
        let mut hash = Sha256::new();
        hash.update(system.as_bytes());
        for tool in tools.iter() {
            let mut tool = tool.clone();
            // The same in every build: `serde_json` keeps keys in another order with `preserve_order`.
            tool.input_schema.sort_all_objects();
            hash.update(json(&tool));
        }
        let bytes = system.len() + tools.iter().map(|tool| json(tool).len()).sum::<usize>();
        let (system, digest) = (system.into(), short_hex(&hash.finalize()));
        Self { id, system, stable: None, tools, messages: Arc::default(), digest, bytes }
    }

    /// An empty conversation whose system prompt is `stable`, which other conversations share, followed by `own`.
    #[must_use]
    pub fn with_own_ending(id: ConversationId, stable: String, own: &str, tools: Arc<[ToolSpec]>) -> Self {
        let at = (!own.is_empty()).then_some(stable.len());
        Self { stable: at, ..Self::new(id, stable + own, tools) }
    }

    /// Adds a message.
    pub fn push(&mut self, message: Message) {
        self.push_shared(Arc::new(message));
    }

    fn push_shared(&mut self, message: Arc<Message>) {
        let encoded = json(&*message);
        let mut hash = Sha256::new();
        hash.update(self.digest.as_bytes());
        hash.update(&encoded);
        self.digest = short_hex(&hash.finalize());
        self.bytes += without_images(&message, encoded.len());
        // Copies the list only while a request is kept beyond the next message.
        Arc::make_mut(&mut self.messages).push(message);
    }

    /// A new conversation with the same system prompt and tools, for a shorter form of this one.
    #[must_use]
    pub fn rewritten(&self, id: ConversationId, messages: Vec<Arc<Message>>) -> Self {
        let new = Self::new(id, self.system.to_string(), Arc::clone(&self.tools));
        let mut log = Self { stable: self.stable, ..new };
        for message in messages {
            log.push_shared(message);
        }
        log
    }

    /// The request that sends it to `model`.
    #[must_use]
    pub fn request(&self, purpose: Purpose, model: &ModelChoice, tool_choice: ToolChoice) -> ModelRequest {
        let search = model.search.clone().filter(|_| !purpose.is_aside());
        ModelRequest {
            purpose,
            model: model.model.clone(),
            system: Arc::clone(&self.system),
            stable: self.stable,
            tools: Arc::clone(&self.tools),
            search,
            messages: Arc::clone(&self.messages),
            tool_choice,
            max_tokens: model.answer_tokens(),
            temperature: model.temperature,
            extra: model.extra.clone(),
            is_repeat: false,
        }
    }

    /// Its length: the encoded bytes, with each picture counted like a page of text.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The digest of the conversation's content: system prompt, tools and every message, chained. If a replay computes
    /// the same digest, it makes the same request.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// An estimate of the prompt's tokens, at four bytes each; for budgets, not for billing.
    #[must_use]
    pub fn estimated_tokens(&self) -> u64 {
        (self.bytes / 4) as u64
    }
}

/// The length of a message, measured like [`ConversationLog::bytes`].
#[must_use]
pub(crate) fn weight(message: &Message) -> usize {
    without_images(message, json(message).len())
}

fn without_images(message: &Message, encoded: usize) -> usize {
    let images = message.content.iter().flat_map(|block| match block {
        Content::ToolResult { images, .. } => images.as_slice(),
        Content::Image(image) => std::slice::from_ref(image),
        Content::Text { .. }
        | Content::Thinking { .. }
        | Content::RedactedThinking { .. }
        | Content::Hosted(_)
        | Content::ToolUse(_) => &[],
    });
    images.fold(encoded, |bytes, image| bytes.saturating_sub(image.data.len()) + Image::WEIGHT)
}

/// The types encoded here have string keys and finite numbers, so encoding cannot fail.
fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// The first 16 bytes in hexadecimal: short, and long enough to avoid accidental collisions.
fn short_hex(hash: &[u8]) -> String {
    hex(hash.get(..16).unwrap_or(hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_stable_part_ends_is_no_part_of_what_is_said() {
        let whole = ConversationLog::new(1, "Stable.\nMemories.".into(), [].into());
        let mut parts = ConversationLog::with_own_ending(1, "Stable.\n".into(), "Memories.", [].into());
        assert_eq!(parts.stable, Some(8));
        assert_eq!(
            (parts.digest(), parts.bytes(), &parts.system),
            (whole.digest(), whole.bytes(), &whole.system)
        );
        assert_eq!(ConversationLog::with_own_ending(1, "Stable.".into(), "", [].into()).stable, None);
        parts.push(Message::user("a"));
        assert_eq!(parts.rewritten(2, Vec::new()).stable, Some(8), "a shorter form has the same prompt");
        let old = String::from_utf8(json(&whole)).unwrap();
        assert!(!old.contains("stable"), "{old}");
        assert_eq!(serde_json::from_str::<ConversationLog>(&old).unwrap(), whole);
    }
}
