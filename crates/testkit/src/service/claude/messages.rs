//! The conversation: roles, blocks, calls and their results
//! (<https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls>).

use serde_json::Value;

use super::Checked;
use super::models::{Thinks, model};
use crate::exchange::Asked;
use crate::service::responses::is_own;

pub(super) fn check(asked: &Asked) -> Checked {
    let none = Vec::new();
    let messages = asked.json.get("messages").and_then(Value::as_array).unwrap_or(&none);
    if messages.is_empty() {
        return Err("messages: at least one message is required".to_owned());
    }
    if role(&messages[0]) != "user" {
        return Err("messages: first message must use the \"user\" role".to_owned());
    }
    if let Some(blocks) = asked.json.get("system").and_then(Value::as_array) {
        texts("system", blocks)?;
    }
    for (at, message) in messages.iter().enumerate() {
        if !matches!(role(message), "user" | "assistant") {
            return Err(format!("messages.{at}.role: Input should be 'user' or 'assistant'"));
        }
        if is_empty(message) {
            return Err(format!("messages.{at}: user messages must have non-empty content"));
        }
        texts(&format!("messages.{at}.content"), blocks(message))?;
        for block in blocks(message) {
            texts(&format!("messages.{at}.content"), block.get("content").map_or(&[], items))?;
        }
    }
    calls(messages)?;
    searches(messages)?;
    ending(asked, messages)
}

fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The blocks of a message; empty if its content is a string.
fn blocks(message: &Value) -> &[Value] {
    message.get("content").map_or(&[], items)
}

fn is_empty(message: &Value) -> bool {
    match message.get("content") {
        Some(Value::String(text)) => text.trim().is_empty(),
        Some(Value::Array(blocks)) => blocks.is_empty(),
        _ => true,
    }
}

fn kind(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn id<'a>(block: &'a Value, key: &str) -> &'a str {
    block.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn texts(place: &str, blocks: &[Value]) -> Checked {
    let is_blank = |block: &Value| kind(block) == "text" && id(block, "text").trim().is_empty();
    match blocks.iter().any(is_blank) {
        true => Err(format!("{place}: text content blocks must contain non-whitespace text")),
        false => Ok(()),
    }
}

/// Whether a name has at most `most` characters, all of them valid.
pub(super) fn is_name(name: &str, most: usize) -> bool {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    !name.is_empty() && name.len() <= most && name.chars().all(is_valid)
}

/// Every call has a unique id, and its result is in the very next message.
fn calls(messages: &[Value]) -> Checked {
    let mut seen: Vec<&str> = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let mut answered = Vec::new();
        for (place, block) in blocks(message).iter().enumerate() {
            if kind(block) != "tool_result" {
                continue;
            }
            let id = id(block, "tool_use_id");
            if !open.contains(&id) {
                return Err(format!(
                    "messages.{at}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
                     `tool_result` block must have a corresponding `tool_use` block in the previous message."
                ));
            }
            if answered.contains(&id) {
                return Err(format!(
                    "messages.{at}.content.{place}: each tool_use must have a single result. Found multiple \
                     `tool_result` blocks with id: {id}"
                ));
            }
            answered.push(id);
        }
        let missing: Vec<&str> = open.iter().copied().filter(|id| !answered.contains(id)).collect();
        if !missing.is_empty() {
            return Err(unanswered(at - 1, &missing));
        }
        open.clear();
        for (place, block) in blocks(message).iter().enumerate() {
            if kind(block) != "tool_use" {
                continue;
            }
            let id = id(block, "id");
            if !is_name(id, 256) {
                return Err(format!(
                    "messages.{at}.content.{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
                ));
            }
            if seen.contains(&id) {
                return Err("messages: `tool_use` ids must be unique".to_owned());
            }
            if !block.get("input").is_some_and(Value::is_object) {
                return Err(format!(
                    "messages.{at}.content.{place}.tool_use.input: Input should be a valid dictionary"
                ));
            }
            seen.push(id);
            open.push(id);
        }
    }
    if open.is_empty() { Ok(()) } else { Err(unanswered(messages.len() - 1, &open)) }
}

/// Every search that the service ran comes back with its result, unless the turn is still going on, and what it encrypted
/// is its own.
fn searches(messages: &[Value]) -> Checked {
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if let (Some(id), "user") = (open.first(), role(message)) {
            return Err(format!(
                "messages.{}: `web_search` tool use with id `{id}` was found without a corresponding \
                 `web_search_tool_result` block",
                at - 1
            ));
        }
        for (place, block) in blocks(message).iter().enumerate() {
            let place = format!("messages.{at}.content.{place}");
            let sealed = match kind(block) {
                "server_tool_use" => {
                    open.push(id(block, "id"));
                    continue;
                }
                "web_search_tool_result" => {
                    let call = id(block, "tool_use_id");
                    let Some(called) = open.iter().position(|open| *open == call) else {
                        return Err(format!("{place}: unexpected `tool_use_id` found: {call}"));
                    };
                    open.remove(called);
                    block.get("content").map_or(&[][..], items)
                }
                "text" => block.get("citations").map_or(&[][..], items),
                _ => continue,
            };
            let is_own =
                |item: &Value| is_own(id(item, "encrypted_content")) || is_own(id(item, "encrypted_index"));
            if !sealed.iter().all(is_own) {
                return Err(format!("{place}: Invalid encrypted content in search result block"));
            }
        }
    }
    Ok(())
}

fn unanswered(at: usize, ids: &[&str]) -> String {
    format!(
        "messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` \
         block must have a corresponding `tool_result` block in the next message.",
        ids.join(", ")
    )
}

/// Checks the end of the conversation: newer models do not continue a message of their own, and if thinking was requested
/// with a budget, the last turn that called a tool must begin with it.
fn ending(asked: &Asked, messages: &[Value]) -> Checked {
    let thinks = model(asked.model()).map(|model| model.thinks);
    // A turn that was paused is continued from its own end.
    let is_paused = |message: &Value| blocks(message).iter().any(|block| kind(block) == "server_tool_use");
    let is_prefill =
        messages.last().is_some_and(|message| role(message) == "assistant" && !is_paused(message));
    if is_prefill && thinks.is_some_and(|thinks| thinks != Thinks::Asked) {
        return Err(
            "This model does not support assistant message prefill. The conversation must end with a user \
                    message."
                .to_owned(),
        );
    }
    let is_manual = asked.json.pointer("/thinking/type").and_then(Value::as_str) == Some("enabled");
    let Some(at) = messages.iter().rposition(|message| role(message) == "assistant") else { return Ok(()) };
    let first = blocks(&messages[at]).first().map_or("", kind);
    let calls = blocks(&messages[at]).iter().any(|block| kind(block) == "tool_use");
    if is_manual && calls && !matches!(first, "thinking" | "redacted_thinking") {
        return Err(format!(
            "messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{first}`. When \
             `thinking` is enabled, a final `assistant` message must start with a thinking block (preceding the \
             lastmost set of `tool_use` and `tool_result` blocks)."
        ));
    }
    Ok(())
}
