//! Encodes requests for the Messages API.
//!
//! Decides the order of fields and the cache breakpoints. Stable fields come first and messages last, and a message's bytes
//! never change but for a breakpoint: the top-level `cache_control` is the one that moves with the conversation. The API
//! allows four: after what all conversations of an agent begin with, after what belongs to this conversation only, after
//! the last message, and, where a turn was wide, where the request before ended.

use std::borrow::Cow;
use std::sync::Arc;

use rawko_core::hosted::{HostedSearch, HostedWire};
use rawko_core::message::{Content, Image, Message, Role};
use rawko_core::models;
use rawko_core::request::{ModelRequest, ToolChoice};
use rawko_core::tool::ToolSpec;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::http::concession::{Concession, Concessions};
use crate::http::pictures::NamedPicture;
use crate::http::schema::accepted;
use crate::http::wire::HeadWriter;

/// A cache breakpoint.
#[derive(Debug, Clone, Copy, Serialize)]
struct CacheControl {
    r#type: &'static str,
}

/// The API's name of its search of the web.
pub(super) const SEARCH: &str = "web_search";

const EPHEMERAL: CacheControl = CacheControl { r#type: "ephemeral" };

#[derive(Serialize)]
struct ClaudeSystemBlock<'a> {
    r#type: &'static str,
    text: &'a str,
    cache_control: CacheControl,
}

#[derive(Serialize)]
struct ClaudeTool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: Cow<'a, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

/// The API's own search of the web
/// (<https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool>). Later versions of the tool filter
/// results by code that the service runs, which is a tool of its own.
#[derive(Serialize)]
struct ClaudeSearch<'a> {
    r#type: &'static str,
    name: &'static str,
    max_uses: u32,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    allowed_domains: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    blocked_domains: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum OfferedTool<'a> {
    Search(ClaudeSearch<'a>),
    Own(ClaudeTool<'a>),
}

/// The request up to the messages.
pub(super) fn head(request: &ModelRequest, without: Concessions) -> Result<Vec<u8>, serde_json::Error> {
    let mut head = HeadWriter::new(&request.extra);
    head.fixed("model", &request.model)?;
    head.field("max_tokens", &request.max_tokens)?;
    head.fixed("stream", &true)?;
    if let Some(temperature) = request.temperature.filter(|_| !without.has(Concession::NoTemperature)) {
        head.field("temperature", &temperature)?;
    }
    if !without.has(Concession::UsualThinking)
        && let Some(least) = super::least_thinking(request, &models::find(&request.model))
    {
        for (name, value) in &least.fields {
            head.field(name, value)?;
        }
    }
    if let ToolChoice::Tool { name } = &request.tool_choice {
        let choice = if without.has(Concession::NoForcedTool) {
            json!({"type": "auto", "disable_parallel_tool_use": true})
        } else {
            json!({"type": "tool", "name": name, "disable_parallel_tool_use": true})
        };
        head.field("tool_choice", &choice)?;
    }
    if !without.has(Concession::NoAutomaticCache) {
        head.field("cache_control", &EPHEMERAL)?;
    }
    // The server puts tools before the system prompt, so a breakpoint on the prompt covers both.
    let system = system(request);
    let search = request.search.as_ref().filter(|_| !without.has(Concession::NoSearch));
    if !request.tools.is_empty() || search.is_some() {
        head.fixed("tools", &tools(search, &request.tools, system.is_empty()))?;
    }
    if !system.is_empty() {
        head.fixed("system", &system)?;
    }
    head.into_array("messages")
}

/// The system prompt. The part for this conversation only is a block of its own: cache entries end at breakpoints, so
/// without a breakpoint before it, other memories would invalidate the tools and the whole prompt.
fn system(request: &ModelRequest) -> Vec<ClaudeSystemBlock<'_>> {
    let (stable, own) = request.system_parts();
    // The API rejects blank text.
    let parts = match (stable.trim().is_empty(), own.trim().is_empty()) {
        (false, false) => vec![stable, own],
        (true, true) => Vec::new(),
        (true, false) | (false, true) => vec![&*request.system],
    };
    let block = |text| ClaudeSystemBlock { r#type: "text", text, cache_control: EPHEMERAL };
    parts.into_iter().map(block).collect()
}

fn tools<'a>(
    search: Option<&'a HostedSearch>,
    specs: &'a [ToolSpec],
    mark_last: bool,
) -> Vec<OfferedTool<'a>> {
    let last = specs.len().saturating_sub(1);
    let search = search.map(|search| {
        OfferedTool::Search(ClaudeSearch {
            r#type: "web_search_20250305",
            name: SEARCH,
            max_uses: search.max_uses,
            allowed_domains: &search.allowed_domains,
            blocked_domains: &search.blocked_domains,
            cache_control: (mark_last && specs.is_empty()).then_some(EPHEMERAL),
        })
    });
    let own = specs.iter().enumerate().map(|(at, spec)| {
        OfferedTool::Own(ClaudeTool {
            name: &spec.name,
            description: &spec.description,
            input_schema: accepted(&spec.input_schema),
            cache_control: (mark_last && at == last).then_some(EPHEMERAL),
        })
    });
    search.into_iter().chain(own).collect()
}

#[derive(Serialize)]
struct ClaudeMessage<'a> {
    role: &'static str,
    content: Vec<SentBlock<'a>>,
}

/// A block of rawko's own making, or one that goes back as it came.
#[derive(Serialize)]
#[serde(untagged)]
enum SentBlock<'a> {
    Own(ClaudeBlock<'a>),
    Returned(&'a RawValue),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ClaudeBlock<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        citations: Option<&'a RawValue>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: &'a str,
        input: Cow<'a, Value>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: ResultContent<'a>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    Image {
        source: ClaudeImageSource<'a>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum ResultContent<'a> {
    Text(&'a str),
    Blocks(Vec<ClaudeBlock<'a>>),
}

#[derive(Serialize)]
struct ClaudeImageSource<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: &'a str,
}

/// Encodes a message; empty if this wire can express nothing of it.
pub(super) fn message(message: &Message, without: Concessions) -> Result<Vec<u8>, serde_json::Error> {
    let sends_back = !without.has(Concession::NoSearch);
    let content: Vec<SentBlock<'_>> = blocks(message, sends_back).map(|(_, block)| block).collect();
    if content.is_empty() {
        return Ok(Vec::new());
    }
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    serde_json::to_vec(&ClaudeMessage { role, content })
}

/// After this many new blocks the API may not find where the last request ended: from a breakpoint it looks back over 20
/// blocks (<https://platform.claude.com/docs/en/build-with-claude/prompt-caching>). A few are left as a margin.
const WIDE_TURN: usize = 16;
/// A breakpoint as the last field of a block.
const MARK: &[u8] = b",\"cache_control\":{\"type\":\"ephemeral\"}";
/// What follows the last field of the last block of a message.
const MESSAGE_END: &[u8] = b"}]}";

/// The last message of the request before this one with a breakpoint, and its position, if the turn since then is wide.
/// Without it, ten calls in one turn would have the whole conversation paid for again.
pub(super) fn marked(
    messages: &[Arc<Message>],
    without: Concessions,
) -> Result<Option<(usize, Vec<u8>)>, serde_json::Error> {
    let answer = messages.iter().rposition(|message| message.role == Role::Assistant);
    let Some((answer, at)) = answer.and_then(|answer| Some((answer, answer.checked_sub(1)?))) else {
        return Ok(None);
    };
    let new: usize = messages.iter().skip(answer).map(|message| blocks(message, true).count()).sum();
    let Some(last) = messages.get(at).filter(|_| new >= WIDE_TURN) else { return Ok(None) };
    let mut bytes = message(last, without)?;
    let end = bytes.strip_suffix(MESSAGE_END).map(<[u8]>::len);
    Ok(end.map(|end| {
        bytes.splice(end..end, MARK.iter().copied());
        (at, bytes)
    }))
}

/// The blocks of a message on the wire, each with its position in the message; with those of the API's own tools if they
/// are sent back.
fn blocks(message: &Message, sends_back: bool) -> impl Iterator<Item = (usize, SentBlock<'_>)> {
    // The API wants tool results before other content that answers the calls.
    let is_result = |(_, content): &(usize, &Content)| matches!(content, Content::ToolResult { .. });
    let results = message.content.iter().enumerate().filter(is_result);
    let others = message.content.iter().enumerate().filter(move |content| !is_result(content));
    results.chain(others).filter_map(move |(at, content)| {
        let sent = match block(content)? {
            SentBlock::Returned(_) if !sends_back => return None,
            SentBlock::Own(ClaudeBlock::Text { text, .. }) => {
                let citations = message.content.get(at + 1).filter(|_| sends_back).and_then(citations);
                SentBlock::Own(ClaudeBlock::Text { text, citations })
            }
            other => other,
        };
        Some((at, sent))
    })
}

/// Finds the picture that a refusal names as `messages.3.content.0.tool_result.content.1.image…`
/// (<https://github.com/earendil-works/pi/pull/424>).
pub(super) fn picture_named(words: &str, messages: &[Arc<Message>]) -> Option<NamedPicture> {
    let (_, path) = words.split_once("messages.")?;
    let path = path.split([':', ' ']).next()?;
    let mut numbers = path.split('.').filter_map(|part| part.parse::<usize>().ok());
    let is_sent = |(_, message): &(usize, &Arc<Message>)| blocks(message, true).next().is_some();
    let (message, content) = messages.iter().enumerate().filter(is_sent).nth(numbers.next()?)?;
    let picture = numbers.next().zip(numbers.next()).and_then(|(block, part)| {
        let (at, block) = blocks(content, true).nth(block)?;
        match block {
            SentBlock::Own(ClaudeBlock::ToolResult { content: ResultContent::Blocks(parts), .. }) => {
                let texts =
                    parts.iter().take_while(|part| !matches!(part, ClaudeBlock::Image { .. })).count();
                Some((at, part.checked_sub(texts)?))
            }
            _ => None,
        }
    });
    Some(NamedPicture { message, picture })
}

/// The citations that the API sent with the text before this block.
fn citations(content: &Content) -> Option<&RawValue> {
    match content {
        Content::Hosted(block) if block.is_citations() && block.wire == HostedWire::Messages => {
            serde_json::from_str(&block.block).ok()
        }
        _ => None,
    }
}

fn block(content: &Content) -> Option<SentBlock<'_>> {
    Some(SentBlock::Own(match content {
        Content::Hosted(block) => {
            let is_sent = block.wire == HostedWire::Messages && !block.is_citations();
            return is_sent
                .then(|| serde_json::from_str(&block.block).ok())
                .flatten()
                .map(SentBlock::Returned);
        }
        // The API rejects blank text.
        Content::Text { text } if text.trim().is_empty() => return None,
        Content::Text { text } => ClaudeBlock::Text { text, citations: None },
        Content::Image(picture) => image(picture),
        // The API would refuse reasoning of another provider. It has no signature, or one that is JSON.
        Content::Thinking { thinking, signature } => {
            let signature = signature.as_deref().filter(|signature| !signature.starts_with('{'))?;
            ClaudeBlock::Thinking { thinking, signature }
        }
        Content::RedactedThinking { data } => ClaudeBlock::RedactedThinking { data },
        Content::ToolUse(call) => {
            let input = match &call.input {
                input @ Value::Object(_) => Cow::Borrowed(input),
                _ => Cow::Owned(Value::Object(Map::new())),
            };
            ClaudeBlock::ToolUse { id: valid_id(&call.id), name: &call.name, input }
        }
        Content::ToolResult { tool_use_id, content, is_error, images } => {
            let content = if images.is_empty() {
                ResultContent::Text(content)
            } else {
                let text = (!content.trim().is_empty())
                    .then_some(ClaudeBlock::Text { text: content, citations: None });
                ResultContent::Blocks(text.into_iter().chain(images.iter().map(image)).collect())
            };
            ClaudeBlock::ToolResult { tool_use_id: valid_id(tool_use_id), content, is_error: *is_error }
        }
    }))
}

fn image(image: &Image) -> ClaudeBlock<'_> {
    ClaudeBlock::Image {
        source: ClaudeImageSource { r#type: "base64", media_type: &image.media_type, data: &image.data },
    }
}

/// An id that the API accepts: ids of other providers may contain other characters.
fn valid_id(id: &str) -> Cow<'_, str> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if id.chars().all(is_valid) {
        Cow::Borrowed(id)
    } else {
        Cow::Owned(id.chars().map(|c| if is_valid(c) { c } else { '_' }).collect())
    }
}
