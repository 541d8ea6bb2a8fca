//! Encodes requests for Chat Completions.
//!
//! Decides the order of fields, stable ones first and messages last. One [`Message`] may become several on the wire: each
//! tool result is a message of its own, and its pictures follow in a user message, because tool messages contain only
//! text.

use std::borrow::Cow;

use rawko_core::message::{Content, Image, Message, Role, ToolCall};
use rawko_core::models;
use rawko_core::request::{ModelRequest, ToolChoice};
use serde::Serialize;
use serde_json::{Value, json};

use super::Dialect;
use crate::http::concession::{Concession, Concessions};
use crate::http::ids::IdForm;
use crate::http::schema::accepted;
use crate::http::wire::HeadWriter;

/// Sent between tool results and the user's next text, for servers that refuse `user` directly after `tool`
/// ([`Concession::AssistantAfterTool`]). The alternative, to append the user's text to the last tool message, would make
/// it look like the tool's, and has no place for pictures. Other agents send such a message too
/// (<https://github.com/avante-corp/avante.nvim/pull/2695>).
const BRIDGE: &str = "I have read the results.";

/// Tells Gemini not to look for the signature of a call
/// (<https://ai.google.dev/gemini-api/docs/thought-signatures>).
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

#[derive(Serialize)]
struct OpenAiTool<'a> {
    r#type: &'static str,
    function: OpenAiFunction<'a>,
}

#[derive(Serialize)]
struct OpenAiFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Cow<'a, Value>,
}

/// The request up to and into the messages, and whether the system prompt is already among these.
pub(super) fn head(
    dialect: Dialect,
    request: &ModelRequest,
    without: Concessions,
) -> Result<(Vec<u8>, bool), serde_json::Error> {
    let mut head = HeadWriter::new(&request.extra);
    head.fixed("model", &request.model)?;
    if without.has(Concession::CompletionTokens) {
        head.field("max_completion_tokens", &request.max_tokens)?;
    } else {
        head.field("max_tokens", &request.max_tokens)?;
    }
    head.fixed("stream", &true)?;
    if !without.has(Concession::NoStreamOptions) {
        head.field("stream_options", &json!({"include_usage": true}))?;
    }
    if let Some(temperature) = request.temperature.filter(|_| !without.has(Concession::NoTemperature)) {
        head.field("temperature", &temperature)?;
    }
    if without.has(Concession::NoReasoning) {
        // Overrides the configuration, because the server has just refused that.
        head.fixed("reasoning_effort", &"none")?;
    } else if !without.has(Concession::UsualThinking)
        && let Some(fields) = super::reasoning(dialect, request, &models::find(&request.model))
    {
        for (name, value) in fields {
            head.field(name, value)?;
        }
    }
    if let ToolChoice::Tool { name } = &request.tool_choice {
        if !without.has(Concession::NoForcedTool) {
            let choice = match dialect {
                Dialect::Words if request.tools.len() == 1 => json!("required"),
                _ => json!({"type": "function", "function": {"name": name}}),
            };
            head.field("tool_choice", &choice)?;
        }
        if dialect == Dialect::OpenAi {
            head.field("parallel_tool_calls", &false)?;
        }
    }
    if !request.tools.is_empty() {
        let tools: Vec<OpenAiTool<'_>> = request
            .tools
            .iter()
            .map(|spec| OpenAiTool {
                r#type: "function",
                function: OpenAiFunction {
                    name: &spec.name,
                    description: &spec.description,
                    parameters: accepted(&spec.input_schema),
                },
            })
            .collect();
        head.fixed("tools", &tools)?;
    }
    let mut bytes = head.into_array("messages")?;
    let has_system = !request.system.trim().is_empty();
    if has_system {
        serde_json::to_writer(&mut bytes, &OpenAiMessage::text("system", &request.system))?;
    }
    Ok((bytes, has_system))
}

#[derive(Serialize)]
struct OpenAiMessage<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<Cow<'a, str>>,
    content: OpenAiContent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<OpenAiToolCall<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum OpenAiContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<OpenAiPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OpenAiPart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct OpenAiToolCall<'a> {
    id: Cow<'a, str>,
    r#type: &'static str,
    function: OpenAiCalledFunction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<Value>,
}

#[derive(Serialize)]
struct OpenAiCalledFunction<'a> {
    name: &'a str,
    arguments: String,
}

impl<'a> OpenAiMessage<'a> {
    fn of(role: &'static str, content: OpenAiContent<'a>) -> Self {
        Self { role, tool_call_id: None, content, reasoning_content: None, tool_calls: Vec::new() }
    }

    fn text(role: &'static str, text: &'a str) -> Self {
        Self::of(role, OpenAiContent::Text(Cow::Borrowed(text)))
    }
}

/// Encodes a message; empty if this wire can express nothing of it.
pub(super) fn message(
    dialect: Dialect,
    message: &Message,
    without: Concessions,
) -> Result<Vec<u8>, serde_json::Error> {
    let ids = if without.has(Concession::ShortIds) {
        IdForm::Nine
    } else if dialect == Dialect::OpenAi {
        IdForm::Short
    } else {
        IdForm::Any
    };
    let messages = match message.role {
        Role::User => from_user(message, ids, without.has(Concession::AssistantAfterTool)),
        Role::Assistant => from_assistant(dialect, message, ids)?,
    };
    let mut bytes = Vec::new();
    for message in &messages {
        if !bytes.is_empty() {
            bytes.push(b',');
        }
        serde_json::to_writer(&mut bytes, message)?;
    }
    Ok(bytes)
}

fn from_user(message: &Message, ids: IdForm, bridged: bool) -> Vec<OpenAiMessage<'_>> {
    let mut messages = Vec::new();
    let mut pictures = Vec::new();
    for block in &message.content {
        if let Content::ToolResult { tool_use_id, content, images, .. } = block {
            let tool_call_id = Some(ids.of(tool_use_id));
            messages.push(OpenAiMessage { tool_call_id, ..OpenAiMessage::text("tool", content) });
            pictures.extend(images.iter().map(picture));
        }
    }
    let text = texts(message);
    let given: Vec<OpenAiPart<'_>> = message
        .content
        .iter()
        .filter_map(|block| match block {
            Content::Image(image) => Some(picture(image)),
            _ => None,
        })
        .collect();
    if pictures.is_empty() && given.is_empty() && text.is_none() {
        return messages;
    }
    if bridged && !messages.is_empty() {
        messages.push(OpenAiMessage::text("assistant", BRIDGE));
    }
    let content = match text {
        Some(text) if pictures.is_empty() && given.is_empty() => OpenAiContent::Text(text),
        text => {
            let heading = OpenAiPart::Text { text: Cow::Borrowed("The pictures of the tool results above:") };
            let heading = (!pictures.is_empty()).then_some(heading);
            let text = text.map(|text| OpenAiPart::Text { text });
            OpenAiContent::Parts(heading.into_iter().chain(pictures).chain(text).chain(given).collect())
        }
    };
    messages.push(OpenAiMessage::of("user", content));
    messages
}

fn from_assistant(
    dialect: Dialect,
    message: &Message,
    ids: IdForm,
) -> Result<Vec<OpenAiMessage<'_>>, serde_json::Error> {
    let mut tool_calls = Vec::new();
    for call in message.tool_calls() {
        tool_calls.push(wire_call(dialect, call, ids, tool_calls.is_empty())?);
    }
    let content = texts(message);
    if content.is_none() && tool_calls.is_empty() {
        return Ok(Vec::new());
    }
    let reasoning_content =
        (dialect == Dialect::DeepSeek).then(|| reasoning(message)).filter(|r| !r.is_empty());
    // Not `null` beside calls: llama-cpp-python refuses that, and all servers accept an empty text
    // (https://github.com/abetlen/llama-cpp-python/blob/main/llama_cpp/llama_types.py).
    let content = OpenAiContent::Text(content.unwrap_or_default());
    Ok(vec![OpenAiMessage { reasoning_content, tool_calls, ..OpenAiMessage::of("assistant", content) }])
}

fn wire_call(
    dialect: Dialect,
    call: &ToolCall,
    ids: IdForm,
    first: bool,
) -> Result<OpenAiToolCall<'_>, serde_json::Error> {
    let extra_content =
        (dialect == Dialect::Gemini && first).then(|| json!({"google": {"thought_signature": NO_SIGNATURE}}));
    Ok(OpenAiToolCall {
        id: ids.of(&call.id),
        r#type: "function",
        function: OpenAiCalledFunction { name: &call.name, arguments: serde_json::to_string(&call.input)? },
        extra_content,
    })
}

/// The text blocks as one text, without a copy if there is only one.
fn texts(message: &Message) -> Option<Cow<'_, str>> {
    let mut texts = message.content.iter().filter_map(|block| match block {
        Content::Text { text } if !text.is_empty() => Some(text.as_str()),
        _ => None,
    });
    let first = texts.next()?;
    match texts.next() {
        None => Some(Cow::Borrowed(first)),
        Some(_) => Some(Cow::Owned(message.text())),
    }
}

fn reasoning(message: &Message) -> String {
    let thoughts = message.content.iter().filter_map(|block| match block {
        Content::Thinking { thinking, .. } => Some(thinking.as_str()),
        _ => None,
    });
    thoughts.collect()
}

fn picture(image: &Image) -> OpenAiPart<'_> {
    OpenAiPart::ImageUrl {
        image_url: ImageUrl { url: format!("data:{};base64,{}", image.media_type, image.data) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ProviderKind, ProviderSettings};

    fn call(id: &str) -> Content {
        Content::ToolUse(ToolCall {
            id: id.into(),
            name: "Read".into(),
            input: json!({"path": "x"}),
            invalid_input: None,
            withheld: None,
        })
    }

    fn thoughtful() -> Message {
        let thinking = Content::Thinking { thinking: "hm".into(), signature: None };
        Message { role: Role::Assistant, content: vec![thinking, call("a"), call("b")] }
    }

    #[track_caller]
    fn check(dialect: Dialect, expected: &Value) {
        let bytes = message(dialect, &thoughtful(), Concessions::default()).expect("JSON");
        assert_eq!(&serde_json::from_slice::<Value>(&bytes).expect("JSON"), expected);
    }

    #[test]
    fn each_server_gets_back_with_a_call_what_it_insists_on() {
        let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "Read", "arguments": "{\"path\":\"x\"}"}});
        let plain = json!({"role": "assistant", "content": "", "tool_calls": [call("a"), call("b")]});
        check(Dialect::Plain, &plain);
        check(Dialect::OpenAi, &plain);

        let mut with_reasoning = plain.clone();
        with_reasoning["reasoning_content"] = json!("hm");
        check(Dialect::DeepSeek, &with_reasoning);

        let mut signed = plain;
        signed["tool_calls"][0]["extra_content"] = json!({"google": {"thought_signature": NO_SIGNATURE}});
        check(Dialect::Gemini, &signed);
    }

    /// Checks how `id` is sent, in a call and in its result.
    #[track_caller]
    fn check_id(dialect: Dialect, without: Concessions, id: &str, expected: &str) {
        let json = |role, block| -> Value {
            let bytes = message(dialect, &Message { role, content: vec![block] }, without).expect("JSON");
            serde_json::from_slice(&bytes).expect("JSON")
        };
        let result = Content::ToolResult {
            tool_use_id: id.into(),
            content: "a line".into(),
            is_error: false,
            images: Vec::new(),
        };
        assert_eq!(json(Role::Assistant, call(id))["tool_calls"][0]["id"], expected, "{dialect:?}");
        assert_eq!(json(Role::User, result)["tool_call_id"], expected, "{dialect:?}");
    }

    #[test]
    fn ids_are_shortened_only_for_those_who_want_it() {
        let none = Concessions::default();
        let long = format!("call_7__thought__{}", "x".repeat(200));
        for dialect in [Dialect::Plain, Dialect::Gemini, Dialect::DeepSeek] {
            check_id(dialect, none, &long, &long);
        }
        check_id(Dialect::OpenAi, none, &long, &IdForm::Short.of(&long));
        check_id(Dialect::OpenAi, none, "call_7", "call_7");
        check_id(Dialect::Plain, none.with(Concession::ShortIds), &long, &IdForm::Nine.of(&long));
    }

    #[test]
    fn dialects_are_known_by_their_hosts() {
        for (url, dialect) in [
            ("https://api.openai.com/v1", Dialect::OpenAi),
            ("https://api.deepseek.com", Dialect::DeepSeek),
            ("https://api.mistral.ai/v1", Dialect::Mistral),
            ("https://generativelanguage.googleapis.com/v1beta/openai", Dialect::Gemini),
            ("http://localhost:11434/v1", Dialect::Plain),
            ("https://api.openai.com.example.org/v1", Dialect::Plain),
            ("nonsense", Dialect::Plain),
        ] {
            let settings = ProviderSettings::new("any", ProviderKind::OpenAi, url);
            assert_eq!(Dialect::of(&settings), dialect, "{url}");
        }
    }
}
