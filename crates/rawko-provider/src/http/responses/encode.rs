//! Encodes requests for the Responses API.
//!
//! Decides the order of fields, stable ones first and the list of items last. One [`Message`] becomes several items: each
//! text, call, result and piece of reasoning is one.

use std::borrow::Cow;

use rawko_core::hosted::{HostedSearch, HostedWire};
use rawko_core::message::{Content, Image, Message, Role};
use rawko_core::models;
use rawko_core::request::{ModelRequest, ToolChoice};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::ResponsesWire;
use crate::http::concession::{Concession, Concessions};
use crate::http::ids::{IdForm, digest};
use crate::http::schema::accepted;
use crate::http::wire::HeadWriter;

/// The fewest tokens of an answer that may be asked for (`CreateResponseBody` in
/// <https://github.com/openresponses/openresponses/blob/main/schema/responses.tsp>).
const LEAST_TOKENS: u32 = 16;

#[derive(Serialize)]
struct FunctionTool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: Cow<'a, Value>,
    /// The default is `true` here, and strict schemas have no optional properties.
    strict: bool,
}

/// The server's own search of the web (<https://developers.openai.com/api/docs/guides/tools-web-search>).
#[derive(Serialize)]
struct SearchTool<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    filters: Option<SearchFilters<'a>>,
}

#[derive(Serialize)]
struct SearchFilters<'a> {
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    allowed_domains: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    blocked_domains: &'a [String],
}

impl<'a> SearchTool<'a> {
    fn of(search: &'a HostedSearch) -> Self {
        let HostedSearch { max_uses: _, allowed_domains, blocked_domains } = search;
        let has_filters = !allowed_domains.is_empty() || !blocked_domains.is_empty();
        let filters = has_filters.then_some(SearchFilters { allowed_domains, blocked_domains });
        Self { r#type: "web_search", filters }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum ResponsesTool<'a> {
    Search(SearchTool<'a>),
    Function(FunctionTool<'a>),
}

/// The request up to and into the items.
pub(super) fn head(
    wire: &ResponsesWire,
    request: &ModelRequest,
    without: Concessions,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut head = HeadWriter::new(&request.extra);
    head.fixed("model", &request.model)?;
    head.field("max_output_tokens", &request.max_tokens.max(LEAST_TOKENS))?;
    head.fixed("stream", &true)?;
    head.field("store", &false)?;
    let search = request.search.as_ref().filter(|_| !without.has(Concession::NoSearch));
    if !without.has(Concession::NoEncryptedReasoning) {
        let sources = search.map(|_| "web_search_call.action.sources");
        let include: Vec<&str> = std::iter::once("reasoning.encrypted_content").chain(sources).collect();
        head.field("include", &include)?;
    }
    if let Some(search) = search.filter(|_| wire.is_openai) {
        // Of all tools that the server runs; this is the only one.
        head.field("max_tool_calls", &search.max_uses)?;
    }
    if let Some(temperature) = request.temperature.filter(|_| !without.has(Concession::NoTemperature)) {
        head.field("temperature", &temperature)?;
    }
    if !without.has(Concession::UsualThinking)
        && let Some(effort) = wire.least_effort(request, &models::find(&request.model))
    {
        head.field("reasoning", &json!({"effort": effort}))?;
    }
    if let ToolChoice::Tool { name } = &request.tool_choice {
        if !without.has(Concession::NoForcedTool) {
            head.field("tool_choice", &json!({"type": "function", "name": name}))?;
        }
        if wire.is_openai {
            head.field("parallel_tool_calls", &false)?;
        }
    }
    if wire.is_openai {
        // Sends the requests of one conversation to the same cache
        // (https://platform.openai.com/docs/guides/prompt-caching).
        head.field("prompt_cache_key", &format!("rawko-{}", digest(&request.system, 16)))?;
    }
    if !request.tools.is_empty() || search.is_some() {
        let own = request
            .tools
            .iter()
            .map(|spec| FunctionTool {
                r#type: "function",
                name: &spec.name,
                description: &spec.description,
                parameters: accepted(&spec.input_schema),
                strict: false,
            })
            .map(ResponsesTool::Function);
        let search = search.map(|search| ResponsesTool::Search(SearchTool::of(search)));
        let tools: Vec<ResponsesTool<'_>> = search.into_iter().chain(own).collect();
        head.fixed("tools", &tools)?;
    }
    if !request.system.trim().is_empty() {
        head.fixed("instructions", &request.system)?;
    }
    head.into_array("input")
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum InputItem<'a> {
    Message { role: &'static str, content: [ContentPart<'a>; 1] },
    FunctionCall { call_id: Cow<'a, str>, name: &'a str, arguments: String },
    FunctionCallOutput { call_id: Cow<'a, str>, output: FunctionOutput<'a> },
}

#[derive(Serialize)]
#[serde(untagged)]
enum FunctionOutput<'a> {
    Text(&'a str),
    Parts(Vec<ContentPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart<'a> {
    InputText {
        text: &'a str,
    },
    OutputText {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        annotations: Option<&'a RawValue>,
    },
    InputImage {
        image_url: String,
        detail: &'static str,
    },
}

/// Encodes a message; empty if this wire can express nothing of it. `sends_back`: with what tools of the server left.
pub(super) fn message(
    wire: &ResponsesWire,
    message: &Message,
    sends_back: bool,
) -> Result<Vec<u8>, serde_json::Error> {
    let ids = if wire.is_openai { IdForm::Medium } else { IdForm::Any };
    let mut bytes = Vec::new();
    // Outputs come directly after their calls, before other content of the message that brings them.
    let is_result = |content: &&Content| matches!(content, Content::ToolResult { .. });
    let numbered = || message.content.iter().enumerate();
    let results = numbered().filter(|(_, content)| is_result(content));
    let others = numbered().filter(|(_, content)| !is_result(content));
    for (at, content) in results.chain(others) {
        let piece = match content {
            Content::Text { text } if text.is_empty() => continue,
            Content::Text { text } => {
                let annotations = message.content.get(at + 1).filter(|_| sends_back).and_then(annotations);
                serde_json::to_vec(&text_item(message.role, text, annotations))?
            }
            Content::Hosted(block) if block.is_citations() || !sends_back => continue,
            Content::Hosted(block) if block.wire != HostedWire::Responses || block.block.is_empty() => {
                continue;
            }
            Content::Hosted(block) => block.block.as_bytes().to_vec(),
            Content::Thinking { signature, .. } => match signature.as_deref().and_then(reasoning_item) {
                Some(item) => item.as_bytes().to_vec(),
                None => continue,
            },
            Content::Image(image) => {
                serde_json::to_vec(&InputItem::Message { role: "user", content: [picture(image)] })?
            }
            // Only the Messages API has this.
            Content::RedactedThinking { .. } => continue,
            Content::ToolUse(call) => serde_json::to_vec(&InputItem::FunctionCall {
                call_id: ids.of(&call.id),
                name: &call.name,
                arguments: serde_json::to_string(&call.input)?,
            })?,
            Content::ToolResult { tool_use_id, content, images, .. } => {
                serde_json::to_vec(&InputItem::FunctionCallOutput {
                    call_id: ids.of(tool_use_id),
                    output: output(content, images),
                })?
            }
        };
        if !bytes.is_empty() {
            bytes.push(b',');
        }
        bytes.extend(piece);
    }
    Ok(bytes)
}

/// The annotations that the server sent with the text before this block.
fn annotations(content: &Content) -> Option<&RawValue> {
    match content {
        Content::Hosted(block) if block.is_citations() && block.wire == HostedWire::Responses => {
            serde_json::from_str(&block.block).ok()
        }
        _ => None,
    }
}

fn text_item<'a>(role: Role, text: &'a str, annotations: Option<&'a RawValue>) -> InputItem<'a> {
    match role {
        Role::User => InputItem::Message { role: "user", content: [ContentPart::InputText { text }] },
        Role::Assistant => {
            InputItem::Message { role: "assistant", content: [ContentPart::OutputText { text, annotations }] }
        }
    }
}

fn picture<'a>(image: &Image) -> ContentPart<'a> {
    ContentPart::InputImage {
        image_url: format!("data:{};base64,{}", image.media_type, image.data),
        detail: "auto",
    }
}

fn output<'a>(text: &'a str, images: &'a [Image]) -> FunctionOutput<'a> {
    if images.is_empty() {
        return FunctionOutput::Text(text);
    }
    let text = (!text.is_empty()).then_some(ContentPart::InputText { text });
    FunctionOutput::Parts(text.into_iter().chain(images.iter().map(picture)).collect())
}

/// The reasoning item that a signature is; `None` for signatures of other wires, which are no JSON objects.
fn reasoning_item(signature: &str) -> Option<&str> {
    let is_object = signature.starts_with('{') && serde_json::from_str::<&RawValue>(signature).is_ok();
    is_object.then_some(signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: Vec<Content>, role: Role, is_openai: bool, expected: &Value) {
        let wire = ResponsesWire { is_openai };
        let bytes = message(&wire, &Message { role, content }, true).expect("JSON");
        let items: Value =
            serde_json::from_str(&format!("[{}]", String::from_utf8_lossy(&bytes))).expect("JSON");
        assert_eq!(&items, expected);
    }

    #[test]
    fn reasoning_goes_back_as_the_item_that_it_was() {
        let item = r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"}"#;
        let thinking = |signature: Option<&str>| Content::Thinking {
            thinking: "hm".into(),
            signature: signature.map(str::to_owned),
        };
        let content = vec![
            thinking(Some(item)),
            thinking(Some("EqQBCkYIARgCKkBdTx")),
            thinking(Some("{broken")),
            thinking(None),
            Content::RedactedThinking { data: "sealed".into() },
            Content::text("Done."),
        ];
        let text = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]});
        let item: Value = serde_json::from_str(item).expect("JSON");
        check(content, Role::Assistant, true, &json!([item, text]));
    }

    #[test]
    fn ids_are_shortened_for_openai_alone() {
        let long = "x".repeat(65);
        for (is_openai, id) in [(false, long.clone()), (true, IdForm::Medium.of(&long).into_owned())] {
            let result = Content::ToolResult {
                tool_use_id: long.clone(),
                content: "a line".into(),
                is_error: false,
                images: Vec::new(),
            };
            let expected = json!([{"type": "function_call_output", "call_id": id, "output": "a line"}]);
            check(vec![result], Role::User, is_openai, &expected);
        }
    }
}
