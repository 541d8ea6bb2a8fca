//! llama-cpp-python's server answers 500 with pydantic's message if a request does not fit its types.
//!
//! It reports every exception, even a failed validation, as `internal_server_error`
//! (<https://github.com/abetlen/llama-cpp-python/blob/main/llama_cpp/server/errors.py>; reported in
//! <https://github.com/jekalmin/extended_openai_conversation/issues/203>). It is played for models whose names begin with
//! `llama-cpp-python`.

use serde_json::{Value, json};

use super::openai::text;
use crate::answer::{Answer, ErrorResponse};
use crate::exchange::{Asked, Wire};

pub(super) fn refusal(asked: &Asked) -> Option<Answer> {
    if asked.wire != Wire::OpenAi || !asked.model().starts_with("llama-cpp-python") {
        return None;
    }
    // The content of an assistant message may be absent, but not null:
    // https://github.com/abetlen/llama-cpp-python/blob/main/llama_cpp/llama_types.py
    let is_wrong = |message: &Value| {
        text(message, "role") == "assistant" && message.get("content").is_some_and(|said| !said.is_string())
    };
    let at = asked.json.get("messages")?.as_array()?.iter().position(is_wrong)?;
    let message = format!(
        "[{{'type': 'string_type', 'loc': ('body', 'messages', {at}, 'typed-dict', 'content'), 'msg': 'Input \
         should be a valid string', 'input': None}}]"
    );
    let error = json!({"message": message, "type": "internal_server_error", "param": null, "code": null});
    Some(Answer::Refuse(ErrorResponse {
        status: 500,
        body: Some(json!({"error": error}).to_string()),
        ..ErrorResponse::default()
    }))
}
