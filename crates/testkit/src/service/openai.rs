//! Chat Completions: the valid roles, and that every tool call is answered exactly once.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::responses::refused_schema;
use crate::answer::{Answer, ErrorResponse};
use crate::exchange::{Asked, Wire};

/// <https://platform.openai.com/docs/api-reference/chat/create>
const ROLES: [&str; 6] = ["system", "assistant", "user", "function", "tool", "developer"];

/// <https://github.com/vercel/ai/issues/5171>
const MAX_ID: usize = 40;

pub(super) fn refusal(asked: &Asked) -> Option<Answer> {
    if asked.wire != Wire::OpenAi {
        return None;
    }
    for (at, tool) in asked.json["tools"].as_array().into_iter().flatten().enumerate() {
        let Some(schema) = tool.pointer("/function/parameters") else { continue };
        if let Some(message) = refused_schema(text(&tool["function"], "name"), schema) {
            return Some(refuse(
                message,
                format!("tools[{at}].function.parameters"),
                "invalid_function_parameters",
            ));
        }
    }
    let messages = asked.json.get("messages")?.as_array()?;
    messages.iter().enumerate().find_map(|(at, message)| {
        let role = text(message, "role");
        if !ROLES.contains(&role) {
            let message = format!("Invalid value: '{role}'. Supported values are: '{}'.", ROLES.join("', '"));
            return Some(refuse(message, format!("messages[{at}].role"), "invalid_value"));
        }
        match role {
            "assistant" => unanswered(messages, at).or_else(|| too_long(message, at)),
            "tool" => unasked(messages, at).or_else(|| repeated(messages, at)),
            _ => None,
        }
    })
}

/// <https://community.openai.com/t/an-assistant-message-with-tool-calls-must-be-followed-by-tool-messages/754867>
fn unanswered(messages: &[Value], at: usize) -> Option<Answer> {
    let ids = ids(&messages[at]);
    let answered: BTreeSet<&str> = answers(messages, at + 1).map(|m| text(m, "tool_call_id")).collect();
    let missing: Vec<&str> = ids.iter().copied().filter(|id| !answered.contains(id)).collect();
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    if missing.is_empty() && unique.len() == ids.len() {
        return None;
    }
    let message = format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
         'tool_call_id'. The following tool_call_ids did not have response messages: {}",
        if missing.is_empty() { ids } else { missing }.join(", ")
    );
    Some(refuse(message, format!("messages.[{at}].role"), ""))
}

/// <https://community.openai.com/t/messages-with-role-tool-must-be-a-response-to-a-preceeding-message/783106>
fn unasked(messages: &[Value], at: usize) -> Option<Answer> {
    let asked = messages[..at].iter().rev().find(|message| text(message, "role") != "tool");
    let id = text(&messages[at], "tool_call_id");
    if asked.is_some_and(|asked| ids(asked).contains(&id)) {
        return None;
    }
    let message = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.";
    Some(refuse(message.to_owned(), format!("messages.[{at}].role"), ""))
}

/// <https://github.com/agno-agi/agno/issues/5116>
fn repeated(messages: &[Value], at: usize) -> Option<Answer> {
    let id = text(&messages[at], "tool_call_id");
    let before = messages[..at].iter().rev().take_while(|message| text(message, "role") == "tool");
    let distance = before.map(|message| text(message, "tool_call_id")).position(|other| other == id)?;
    let message = format!(
        "Invalid parameter: Duplicate value for 'tool_call_id' of '{id}', in messages[{}] and messages[{at}].",
        at - distance - 1
    );
    Some(refuse(message, format!("messages.[{at}].tool_call_id"), ""))
}

fn too_long(message: &Value, at: usize) -> Option<Answer> {
    let (call, length) = ids(message).iter().map(|id| id.len()).enumerate().find(|(_, len)| *len > MAX_ID)?;
    let place = format!("messages[{at}].tool_calls[{call}].id");
    let message = format!(
        "Invalid '{place}': string too long. Expected a string with maximum length {MAX_ID}, but got a string \
         with length {length} instead."
    );
    Some(refuse(message, place, "string_above_max_length"))
}

/// The consecutive tool messages from `from` on.
pub(super) fn answers(messages: &[Value], from: usize) -> impl Iterator<Item = &Value> {
    messages.iter().skip(from).take_while(|message| text(message, "role") == "tool")
}

/// The ids of the calls in a message.
pub(super) fn ids(message: &Value) -> Vec<&str> {
    let calls = message.get("tool_calls").and_then(Value::as_array);
    calls.into_iter().flatten().map(|call| text(call, "id")).collect()
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn refuse(message: String, param: String, code: &str) -> Answer {
    let code = if code.is_empty() { Value::Null } else { json!(code) };
    let error = json!({"message": message, "type": "invalid_request_error", "param": param, "code": code});
    Answer::Refuse(ErrorResponse {
        status: 400,
        body: Some(json!({"error": error}).to_string()),
        ..ErrorResponse::default()
    })
}
