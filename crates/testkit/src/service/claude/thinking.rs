//! Signatures of thinking blocks
//! (<https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks>).
//! A signature names the model and contains a digest of everything before the block: system prompt, tools, messages and
//! earlier thinking. So the server needs no memory to detect changes.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

use super::Checked;
use super::models::model;
use crate::exchange::Asked;

/// The API's message for a block that it did not sign.
const INVALID: &str = "Invalid `signature` in `thinking` block";

/// The signature of a thinking block at the beginning of the answer to this request.
pub(crate) fn sign(asked: &Asked) -> String {
    let messages = asked.json.get("messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    signature(asked, messages, &[])
}

/// `messages` and `before`, the earlier blocks of the same message, precede the block.
fn signature(asked: &Asked, messages: &[Value], before: &[Value]) -> String {
    let mut hasher = DefaultHasher::new();
    for part in [asked.json.get("system"), asked.json.get("tools")].into_iter().flatten() {
        without_marks(part).to_string().hash(&mut hasher);
    }
    for part in messages.iter().chain(before) {
        without_marks(part).to_string().hash(&mut hasher);
    }
    format!("{}/{:016x}", asked.model(), hasher.finish())
}

/// Cache breakpoints do not change the content.
fn without_marks(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(name, _)| *name != "cache_control");
            Value::Object(fields.map(|(name, value)| (name.clone(), without_marks(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_marks).collect()),
        other => other.clone(),
    }
}

pub(super) fn check(asked: &Asked) -> Checked {
    let Some(model) = model(asked.model()) else { return Ok(()) };
    let messages = asked.json.get("messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for (at, message) in messages.iter().enumerate() {
        let blocks = message.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (place, block) in blocks.iter().enumerate() {
            if block.get("type").and_then(Value::as_str) != Some("thinking") {
                continue;
            }
            let signed = block.get("signature").and_then(Value::as_str).unwrap_or_default();
            let Some((by, _)) = signed.split_once('/') else {
                return Err(format!("messages.{at}.content.{place}: {INVALID}"));
            };
            // Thinking of another model is dropped without an error.
            let is_own = by == asked.model();
            if is_own && model.bound && signed != signature(asked, &messages[..at], &blocks[..place]) {
                return Err(format!(
                    "messages.{at}.content.{place}: {INVALID}. The block is bound to a different conversation. Remove \
                     the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
                ));
            }
        }
    }
    Ok(())
}
