//! Mistral's models on any server: the order of roles and the form of tool call ids.
//!
//! The rules are those of mistral-common
//! (<https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/protocol/instruct/validator.py>), which both
//! Mistral's own service and vLLM use.

use serde_json::{Value, json};

use super::openai::{answers, ids, text};
use crate::answer::{Answer, ErrorResponse};
use crate::exchange::{Asked, Wire};

const NAMES: [&str; 8] =
    ["mistral", "ministral", "mixtral", "codestral", "devstral", "magistral", "pixtral", "open-mi"];

pub(super) fn refusal(asked: &Asked) -> Option<Answer> {
    let model = asked.model().rsplit('/').next().unwrap_or_default().to_lowercase();
    if asked.wire != Wire::OpenAi || !NAMES.iter().any(|name| model.starts_with(name)) {
        return None;
    }
    let messages = asked.json.get("messages")?.as_array()?;
    order(messages).or_else(|| counts(messages)).or_else(|| form_of_ids(messages))
}

/// Reported as <https://github.com/avante-corp/avante.nvim/pull/2695>.
fn order(messages: &[Value]) -> Option<Answer> {
    messages.windows(2).find_map(|pair| {
        let (before, role) = (text(&pair[0], "role"), text(&pair[1], "role"));
        let allowed: &[&str] = match before {
            "system" => &["user", "assistant", "system"],
            "user" => &["assistant", "system", "user"],
            "assistant" => &["assistant", "user", "tool"],
            "tool" => &["assistant", "tool"],
            _ => &[],
        };
        let message = format!("Unexpected role '{role}' after role '{before}'");
        (!allowed.contains(&role)).then(|| refuse(&message, "invalid_request_message_order", "3230"))
    })
}

fn counts(messages: &[Value]) -> Option<Answer> {
    let is_wrong = |(at, message): (usize, &Value)| {
        text(message, "role") == "assistant" && ids(message).len() != answers(messages, at + 1).count()
    };
    let message = "Not the same number of function calls and responses";
    let wrong = messages.iter().enumerate().any(is_wrong);
    wrong.then(|| refuse(message, "invalid_request_message_order", "3230"))
}

/// Reported as <https://github.com/nearai/ironclaw/issues/1241>.
fn form_of_ids(messages: &[Value]) -> Option<Answer> {
    let of_results = messages.iter().filter_map(|message| message.get("tool_call_id")?.as_str());
    let id = messages.iter().flat_map(ids).chain(of_results).find(|id| !is_valid(id))?;
    let message = format!("Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.");
    Some(refuse(&message, "invalid_function_call", "3280"))
}

fn is_valid(id: &str) -> bool {
    id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric())
}

fn refuse(message: &str, kind: &str, code: &str) -> Answer {
    let body = json!({"object": "error", "message": message, "type": kind, "param": null, "code": code});
    Answer::Refuse(ErrorResponse { status: 400, body: Some(body.to_string()), ..ErrorResponse::default() })
}
