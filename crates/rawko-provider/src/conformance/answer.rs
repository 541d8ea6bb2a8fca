//! One answer, with what the contract says of every stream checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use rawko_core::error::ErrorInfo;
use rawko_core::message::{Content, Message, StopReason};
use rawko_core::request::{ModelRequest, Purpose, ToolChoice};
use rawko_core::tool::{ToolAccess, ToolSpec};
use rawko_core::usage::Usage;
use serde_json::{Map, Value, json};

use crate::draft::parse_input;
use crate::provider::{ProviderEvent, ProviderSession};

/// The end of an answer.
pub(super) type Completion = Result<(Message, Usage, StopReason), ErrorInfo>;

/// A request with two tools.
pub(super) fn request(model: &str, messages: Vec<Arc<Message>>) -> ModelRequest {
    let tool = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: format!("The tool {name}."),
        input_schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        access: ToolAccess::ReadOnly,
    };
    ModelRequest {
        purpose: Purpose::Agent { name: "developer".into() },
        model: if model.is_empty() { "test-large".to_owned() } else { model.to_owned() },
        system: Arc::from("You are the developer."),
        stable: None,
        tools: Arc::from([tool("Read"), tool("Write")]),
        messages: messages.into(),
        tool_choice: ToolChoice::Auto,
        max_tokens: 1_000,
        temperature: None,
        extra: Map::new(),
        search: None,
        is_repeat: false,
    }
}

/// A call as far as it was streamed.
#[derive(Default)]
struct StreamedCall {
    name: String,
    input: String,
    end: Option<Value>,
}

/// What was streamed of an answer before its end.
#[derive(Default)]
struct Streamed {
    text: String,
    thinking: String,
    calls: BTreeMap<String, StreamedCall>,
}

/// Sends a request and reads the whole stream.
///
/// # Errors
/// In words, what in the stream is against the contract.
pub(super) async fn ask(
    session: &mut dyn ProviderSession,
    request: ModelRequest,
) -> Result<Completion, String> {
    let mut stream = session.send(request);
    let mut streamed = Streamed::default();
    let mut end: Option<Completion> = None;
    while let Some(event) = stream.next().await {
        if let Some(end) = &end {
            return Err(format!("{event:?} came after the last event, {end:?}"));
        }
        match event {
            ProviderEvent::MessageDone { message, usage, stop_reason } => {
                streamed.agrees_with(&message)?;
                end = Some(Ok((message, usage, stop_reason)));
            }
            ProviderEvent::Error { error, .. } => end = Some(Err(error)),
            other => streamed.add(other)?,
        }
    }
    end.ok_or_else(|| "the stream ended without `MessageDone` or `Error`".to_owned())
}

impl Streamed {
    fn add(&mut self, event: ProviderEvent) -> Result<(), String> {
        match event {
            ProviderEvent::TextDelta(text) => self.text.push_str(&text),
            ProviderEvent::ThinkingDelta(text) => self.thinking.push_str(&text),
            ProviderEvent::ToolUseStart { id, name } => {
                let call = StreamedCall { name, ..StreamedCall::default() };
                if self.calls.insert(id.clone(), call).is_some() {
                    return Err(format!("two calls have the id `{id}`"));
                }
            }
            ProviderEvent::ToolUseInput { id, delta } => match self.calls.get_mut(&id) {
                Some(call) if call.end.is_none() => call.input.push_str(&delta),
                _ => return Err(format!("`ToolUseInput` for `{id}`, a call that is not open")),
            },
            ProviderEvent::ToolUseEnd { id, input } => match self.calls.get_mut(&id) {
                Some(call) if call.end.is_none() => call.end = Some(input),
                _ => return Err(format!("`ToolUseEnd` for `{id}`, a call that is not open")),
            },
            ProviderEvent::Retrying { .. } => {}
            ProviderEvent::MessageDone { .. } | ProviderEvent::Error { .. } => {}
        }
        Ok(())
    }

    /// The streamed text is the message; or nothing of that kind was streamed.
    fn agrees_with(&self, message: &Message) -> Result<(), String> {
        let join = |texts: Vec<&str>| texts.concat();
        let text = join(message.content.iter().filter_map(text_of).collect());
        let thinking = join(message.content.iter().filter_map(thinking_of).collect());
        for (what, deltas, whole) in [("text", &self.text, &text), ("thinking", &self.thinking, &thinking)] {
            if !deltas.is_empty() && deltas != whole {
                return Err(format!("the {what} deltas are {deltas:?}, but the message has {whole:?}"));
            }
        }
        let calls: Vec<_> = message.tool_calls().collect();
        if self.calls.is_empty() {
            return Ok(());
        }
        if self.calls.len() != calls.len() {
            return Err(format!("{} calls were streamed, the message has {}", self.calls.len(), calls.len()));
        }
        for call in calls {
            let Some(streamed) = self.calls.get(&call.id) else {
                return Err(format!("the call `{}` was never begun in the stream", call.id));
            };
            if streamed.name != call.name || streamed.end.as_ref() != Some(&call.input) {
                return Err(format!("the call `{}` differs between stream and message", call.id));
            }
            let (input, _) = parse_input(&streamed.input);
            if !streamed.input.is_empty() && input != call.input {
                return Err(format!("the input of `{}` does not add up: {:?}", call.id, streamed.input));
            }
        }
        Ok(())
    }
}

fn text_of(content: &Content) -> Option<&str> {
    match content {
        Content::Text { text } => Some(text),
        _ => None,
    }
}

fn thinking_of(content: &Content) -> Option<&str> {
    match content {
        Content::Thinking { thinking, .. } => Some(thinking),
        _ => None,
    }
}
