//! Messages in the form of the GenAI conventions: JSON texts, bounded. Only used where the user asks for content. What the
//! journal holds is free of secrets, and so is this.

use rawko_core::message::{Content, Message, Role};
use rawko_core::request::ModelRequest;
use rawko_core::text::truncate;
use serde_json::{Value, json};

/// Most characters of one text.
const MAX_TEXT: usize = 16_384;

/// A text that is short enough.
pub(crate) fn bounded(text: &str) -> String {
    truncate(text, MAX_TEXT)
}

/// One message of this text.
pub(crate) fn message(role: &str, text: &str) -> String {
    json!([{ "role": role, "parts": [text_part(text)] }]).to_string()
}

/// What a request adds to the one before it in its conversation: everything after the model's last answer.
pub(crate) fn input(request: &ModelRequest) -> String {
    let last = request.messages.iter().rposition(|message| message.role == Role::Assistant);
    let new = request.messages.iter().skip(last.map_or(0, |at| at + 1));
    let new: Vec<Value> =
        new.map(|message| json!({ "role": role(message), "parts": parts(message) })).collect();
    Value::Array(new).to_string()
}

/// The system prompt, with the first request of a conversation.
pub(crate) fn system(request: &ModelRequest) -> Option<String> {
    let is_first = request.messages.iter().all(|message| message.role == Role::User);
    is_first.then(|| json!([text_part(&request.system)]).to_string())
}

/// A model's answer.
pub(crate) fn output(message: &Message, finish_reason: &str) -> String {
    json!([{ "role": "assistant", "parts": parts(message), "finish_reason": finish_reason }]).to_string()
}

fn role(message: &Message) -> &'static str {
    let is_result = |content: &Content| matches!(content, Content::ToolResult { .. });
    match message.role {
        Role::Assistant => "assistant",
        Role::User if message.content.iter().any(is_result) => "tool",
        Role::User => "user",
    }
}

fn text_part(text: &str) -> Value {
    json!({ "type": "text", "content": bounded(text) })
}

fn parts(message: &Message) -> Vec<Value> {
    let part = |content: &Content| match content {
        Content::Text { text } => Some(text_part(text)),
        Content::Thinking { thinking, .. } if !thinking.is_empty() => {
            Some(json!({ "type": "reasoning", "content": bounded(thinking) }))
        }
        Content::ToolUse(call) => Some(json!({
            "type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments(&call.input),
        })),
        Content::ToolResult { tool_use_id, content, .. } => Some(json!({
            "type": "tool_call_response", "id": tool_use_id, "response": bounded(content),
        })),
        // Pictures and what the provider encrypted say nothing to a reader of traces.
        _ => None,
    };
    message.content.iter().filter_map(part).collect()
}

/// Arguments of a call; as a shortened text where they are long.
fn arguments(input: &Value) -> Value {
    let text = input.to_string();
    if text.chars().nth(MAX_TEXT).is_none() { input.clone() } else { Value::String(bounded(&text)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rawko_core::message::ToolCall;
    use rawko_core::request::{Purpose, ToolChoice};

    fn request(messages: Vec<Message>) -> ModelRequest {
        ModelRequest {
            purpose: Purpose::Select,
            model: "m".into(),
            system: "be brief".into(),
            stable: None,
            tools: [].into(),
            messages: messages.into_iter().map(Into::into).collect::<Vec<_>>().into(),
            tool_choice: ToolChoice::Auto,
            max_tokens: 10,
            temperature: None,
            extra: serde_json::Map::new(),
            is_repeat: false,
            search: None,
        }
    }

    fn call() -> Message {
        let call = ToolCall {
            id: "c1".into(),
            name: "Read".into(),
            input: json!({"file_path": "a"}),
            invalid_input: None,
            withheld: None,
        };
        Message { role: Role::Assistant, content: vec![Content::text("I look"), Content::ToolUse(call)] }
    }

    #[test]
    fn a_request_says_what_is_new() {
        let first = request(vec![Message::user("do it")]);
        assert_eq!(input(&first), r#"[{"parts":[{"content":"do it","type":"text"}],"role":"user"}]"#);
        assert_eq!(system(&first).as_deref(), Some(r#"[{"content":"be brief","type":"text"}]"#));
        let result = Content::ToolResult {
            tool_use_id: "c1".into(),
            content: "x".repeat(20_000),
            is_error: false,
            images: Vec::new(),
        };
        let result = Message { role: Role::User, content: vec![result] };
        let second = request(vec![Message::user("do it"), call(), result]);
        let said = input(&second);
        assert!(said.contains(r#""role":"tool""#) && !said.contains("do it"), "{said}");
        assert!(said.len() < MAX_TEXT + 200, "{}", said.len());
        assert_eq!(system(&second), None);
    }

    #[test]
    fn an_answer_has_its_calls() {
        insta::assert_snapshot!(output(&call(), "tool_call"), @r#"[{"finish_reason":"tool_call","parts":[{"content":"I look","type":"text"},{"arguments":{"file_path":"a"},"id":"c1","name":"Read","type":"tool_call"}],"role":"assistant"}]"#);
    }
}
