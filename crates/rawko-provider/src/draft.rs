//! The answer while it arrives.
//!
//! Owns the blocks of one message by their position, and turns their parts into [`ProviderEvent`]s as they arrive. All
//! wires write to it, so that messages of all providers look the same.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use rawko_core::hosted::{HostedBlock, HostedWire};
use rawko_core::message::{Content, Message, Role, StopReason, ToolCall};
use rawko_core::policy::WEB_SEARCH;
use rawko_core::usage::Usage;
use serde_json::Value;

use crate::json::{self, Halves};
use crate::provider::ProviderEvent;

/// Events that the consumer has not received yet.
pub type Events = VecDeque<ProviderEvent>;

/// A message under construction.
#[derive(Debug, Default)]
pub struct MessageDraft {
    /// The conversation that this message answers.
    before: Vec<Arc<Message>>,
    /// The ids of its calls, collected once one of them is used again.
    ids_before: Option<HashSet<String>>,
    blocks: BTreeMap<u64, DraftBlock>,
    /// Half characters at the ends of blocks, by the place of the block.
    halves: BTreeMap<u64, Halves>,
    /// The citations of texts, by the place of the text.
    citations: BTreeMap<u64, (HostedWire, Vec<Value>)>,
    /// What the answer has consumed so far.
    pub usage: Usage,
    /// Why the answer ended, if the server says.
    pub stop: Option<StopReason>,
}

#[derive(Debug)]
enum DraftBlock {
    Text(String),
    Thinking {
        thinking: String,
        signature: Option<String>,
    },
    Redacted(String),
    Tool(ToolDraft),
    Hosted(HostedBlock),
    /// A call that the server runs, and its arguments as they arrive.
    HostedCall {
        block: Value,
        raw: String,
    },
}

/// A tool call under construction.
#[derive(Debug)]
struct ToolDraft {
    id: String,
    name: String,
    raw: String,
    /// The call, once it is complete.
    call: Option<ToolCall>,
}

impl MessageDraft {
    /// The answer to a conversation of these messages.
    pub fn answer_to(messages: &[Arc<Message>]) -> Self {
        Self { before: messages.to_vec(), ..Self::default() }
    }

    /// Adds text to the block at `place`.
    pub fn text(&mut self, place: u64, delta: &str, out: &mut Events) {
        let delta = self.halves.entry(place).or_default().joined(delta);
        if let DraftBlock::Text(text) =
            self.blocks.entry(place).or_insert_with(|| DraftBlock::Text(String::new()))
            && !delta.is_empty()
        {
            text.push_str(&delta);
            out.push_back(ProviderEvent::TextDelta(delta.into_owned()));
        }
    }

    /// Adds reasoning to the block at `place`. An empty delta begins a block whose text the provider keeps to itself.
    pub fn thinking(&mut self, place: u64, delta: &str, out: &mut Events) {
        let delta = self.halves.entry(place).or_default().joined(delta);
        let block = self
            .blocks
            .entry(place)
            .or_insert_with(|| DraftBlock::Thinking { thinking: String::new(), signature: None });
        if let DraftBlock::Thinking { thinking, .. } = block
            && !delta.is_empty()
        {
            thinking.push_str(&delta);
            out.push_back(ProviderEvent::ThinkingDelta(delta.into_owned()));
        }
    }

    /// Adds to the signature of the reasoning at `place`.
    pub(crate) fn signature(&mut self, place: u64, delta: &str) {
        if let Some(DraftBlock::Thinking { signature, .. }) = self.blocks.get_mut(&place)
            && !delta.is_empty()
        {
            signature.get_or_insert_default().push_str(delta);
        }
    }

    /// Sets encrypted reasoning at `place`.
    pub(crate) fn redacted(&mut self, place: u64, data: &str) {
        self.blocks.insert(place, DraftBlock::Redacted(data.to_owned()));
    }

    /// Adds a citation to the text at `place`, as the Messages API sends it.
    pub(crate) fn cite(&mut self, place: u64, citation: &Value) {
        self.cite_all(place, HostedWire::Messages, std::slice::from_ref(citation));
    }

    /// Adds citations to the text at `place`.
    pub(crate) fn cite_all(&mut self, place: u64, wire: HostedWire, citations: &[Value]) {
        if !citations.is_empty() {
            let (_, all) = self.citations.entry(place).or_insert_with(|| (wire, Vec::new()));
            all.extend_from_slice(citations);
        }
    }

    /// Begins a call of the Messages API that the server runs itself.
    pub(crate) fn hosted_call(&mut self, place: u64, block: &Value) {
        self.blocks.insert(place, DraftBlock::HostedCall { block: block.clone(), raw: String::new() });
    }

    /// Sets what a tool of the server left at `place`.
    pub(crate) fn hosted(&mut self, place: u64, block: HostedBlock) {
        self.blocks.insert(place, DraftBlock::Hosted(block));
    }

    /// Begins a tool call at `place`. `id` is the server's, which may be empty or that of another call.
    pub fn tool(&mut self, place: u64, id: &str, name: &str, out: &mut Events) {
        let (id, name) = (self.unique_id(id), name.to_owned());
        out.push_back(ProviderEvent::ToolUseStart { id: id.clone(), name: name.clone() });
        self.blocks.insert(place, DraftBlock::Tool(ToolDraft { id, name, raw: String::new(), call: None }));
    }

    /// Adds to the arguments of the call at `place`.
    pub fn tool_input(&mut self, place: u64, delta: &str, out: &mut Events) {
        let delta = self.halves.entry(place).or_default().joined(delta);
        if let Some(DraftBlock::HostedCall { raw, .. }) = self.blocks.get_mut(&place) {
            raw.push_str(&delta);
        } else if let Some(DraftBlock::Tool(tool)) = self.blocks.get_mut(&place)
            && !delta.is_empty()
        {
            tool.raw.push_str(&delta);
            out.push_back(ProviderEvent::ToolUseInput { id: tool.id.clone(), delta: delta.into_owned() });
        }
    }

    /// `id`, or one made from it if another call of the conversation has it. Results are matched to calls by id, and
    /// some models use an id twice (<https://github.com/can1357/oh-my-pi/issues/2055>).
    fn unique_id(&mut self, id: &str) -> String {
        let calls = self.blocks.values().filter_map(DraftBlock::call_id);
        let is_here = |id: &str| calls.clone().any(|other| other == id);
        let id = if id.is_empty() {
            format!("call_{}_{}", self.before.len(), calls.clone().count())
        } else {
            id.to_owned()
        };
        let was_before = match self.ids_before.as_ref() {
            Some(ids) => ids.contains(&id),
            None => call_ids(&self.before).any(|other| other == id),
        };
        if !was_before && !is_here(&id) {
            return id;
        }
        // A model may use the same id every time, so many must be tried: collect the ids of the conversation only once.
        let ids = self.ids_before.get_or_insert_with(|| call_ids(&self.before).map(str::to_owned).collect());
        let others = (2_u64..).map(|number| format!("{id}_{number}"));
        others.into_iter().find(|other| !ids.contains(other) && !is_here(other)).unwrap_or(id)
    }

    /// How many bytes of the text, the reasoning, or a call's arguments at `place` have arrived.
    pub(crate) fn received_len(&self, place: u64) -> usize {
        let half = self.halves.get(&place).map_or(0, Halves::len);
        half + match self.blocks.get(&place) {
            Some(DraftBlock::Tool(tool)) => tool.raw.len(),
            Some(DraftBlock::Text(text)) => text.len(),
            Some(DraftBlock::Thinking { thinking, .. }) => thinking.len(),
            Some(DraftBlock::Redacted(_) | DraftBlock::Hosted(_) | DraftBlock::HostedCall { .. }) | None => 0,
        }
    }

    /// Completes the call at `place`. Does nothing if it is complete already, or if there is none.
    pub fn tool_end(&mut self, place: u64, out: &mut Events) {
        if matches!(self.blocks.get(&place), Some(DraftBlock::Tool(_))) {
            self.end_halves(place, out);
        }
        if let Some(DraftBlock::Tool(tool)) = self.blocks.get_mut(&place) {
            tool.end(out);
        }
    }

    /// Half a character without its other half, once the block at `place` is over.
    fn end_halves(&mut self, place: u64, out: &mut Events) {
        let rest = self.halves.get_mut(&place).map(Halves::rest).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        match self.blocks.get(&place) {
            Some(DraftBlock::Text(_)) => self.text(place, rest, out),
            Some(DraftBlock::Thinking { .. }) => self.thinking(place, rest, out),
            Some(DraftBlock::Tool(_) | DraftBlock::HostedCall { .. }) => self.tool_input(place, rest, out),
            Some(DraftBlock::Redacted(_) | DraftBlock::Hosted(_)) | None => {}
        }
    }

    /// Whether nothing has arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// What the answer has consumed so far; `None` if it has not begun. Servers count the output at the end, so that of an
    /// answer that was cut off is estimated.
    pub fn consumed(&self) -> Option<Usage> {
        if self.is_empty() && self.usage == Usage::default() {
            return None;
        }
        let estimate = self.estimated_output();
        Some(if estimate > self.usage.output_tokens {
            Usage { output_tokens: estimate, estimated: true, ..self.usage }
        } else {
            self.usage
        })
    }

    /// Tokens of what has arrived, at four bytes each.
    fn estimated_output(&self) -> u64 {
        let received: usize = self.blocks.values().map(DraftBlock::len).sum();
        u64::try_from(received.div_ceil(4)).unwrap_or(u64::MAX)
    }

    /// The message, with every open call completed. Without a `stop` the content decides why it ended.
    pub fn finish(mut self, out: &mut Events) -> ProviderEvent {
        let places: Vec<u64> = self.blocks.keys().copied().collect();
        for place in places {
            self.tool_end(place, out);
            self.end_halves(place, out);
        }
        // Output without tokens means that the server did not count them.
        if self.usage.output_tokens == 0 && self.estimated_output() > 0 {
            self.usage.output_tokens = self.estimated_output();
            self.usage.estimated = true;
        }
        let mut content = Vec::new();
        for (place, block) in self.blocks {
            let Some(block) = block.into_content() else { continue };
            let is_text = matches!(block, Content::Text { .. });
            content.push(block);
            if let Some((wire, all)) = self.citations.remove(&place).filter(|_| is_text) {
                let block = Value::Array(all).to_string();
                content.push(Content::Hosted(HostedBlock { wire, block, call: None, result: None }));
            }
        }
        let message = Message { role: Role::Assistant, content };
        let calls = message.tool_calls().next().is_some();
        let stop_reason = match self.stop {
            // Several servers send "stop" for a turn that ends in tool calls, or the other way round.
            None | Some(StopReason::EndTurn | StopReason::ToolUse) => {
                if calls {
                    StopReason::ToolUse
                } else {
                    StopReason::EndTurn
                }
            }
            Some(other) => other,
        };
        ProviderEvent::MessageDone { message, usage: self.usage, stop_reason }
    }
}

/// The ids of all calls in `messages`.
fn call_ids(messages: &[Arc<Message>]) -> impl Iterator<Item = &str> {
    messages.iter().flat_map(|message| message.tool_calls()).map(|call| call.id.as_str())
}

impl DraftBlock {
    fn call_id(&self) -> Option<&str> {
        match self {
            Self::Tool(tool) => Some(&tool.id),
            Self::Text(_)
            | Self::Thinking { .. }
            | Self::Redacted(_)
            | Self::Hosted(_)
            | Self::HostedCall { .. } => None,
        }
    }

    /// Bytes that the model produced, which a signature is not.
    fn len(&self) -> usize {
        match self {
            Self::Text(text) | Self::Redacted(text) => text.len(),
            Self::Thinking { thinking, .. } => thinking.len(),
            Self::Tool(tool) => tool.name.len() + tool.raw.len(),
            Self::HostedCall { raw, .. } => raw.len(),
            // The search results are not the model's text.
            Self::Hosted(_) => 0,
        }
    }

    fn into_content(self) -> Option<Content> {
        match self {
            Self::Text(text) => (!text.is_empty()).then_some(Content::Text { text }),
            Self::Thinking { thinking, signature } => (!thinking.is_empty() || signature.is_some())
                .then_some(Content::Thinking { thinking, signature }),
            Self::Redacted(data) => Some(Content::RedactedThinking { data }),
            Self::Tool(tool) => tool.call.map(Content::ToolUse),
            Self::Hosted(block) => Some(Content::Hosted(block)),
            Self::HostedCall { block, raw } => Some(Content::Hosted(hosted_call(block, &raw))),
        }
    }
}

/// A complete call that the server runs. A stream begins with empty arguments and sends them after it.
fn hosted_call(mut block: Value, raw: &str) -> HostedBlock {
    if !raw.trim().is_empty() {
        block["input"] = parse_input(raw).0;
    }
    let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let name =
        Some(text("name")).filter(|name| name != "web_search").unwrap_or_else(|| WEB_SEARCH.to_owned());
    let mut input = block.get("input").cloned().unwrap_or_default();
    sort(&mut input);
    let call = ToolCall { id: text("id"), name, input, invalid_input: None, withheld: None };
    HostedBlock { wire: HostedWire::Messages, block: block.to_string(), call: Some(call), result: None }
}

impl ToolDraft {
    fn end(&mut self, out: &mut Events) {
        if self.call.is_some() {
            return;
        }
        let (input, invalid_input) = parse_input(&self.raw);
        out.push_back(ProviderEvent::ToolUseEnd { id: self.id.clone(), input: input.clone() });
        let (id, name) = (self.id.clone(), self.name.clone());
        self.call = Some(ToolCall { id, name, input, invalid_input, withheld: None });
    }
}

/// Sorts the keys of all objects. They are sorted anyway, unless a crate of the program switches on `preserve_order` of
/// `serde_json`, as the feature `copilot` does: digests of arguments must not depend on that.
fn sort(input: &mut Value) {
    input.sort_all_objects();
}

/// Parses the arguments of a call. Empty text means no arguments. Invalid JSON is returned as text, so that the model
/// can be shown what it wrote.
pub(crate) fn parse_input(raw: &str) -> (Value, Option<String>) {
    let none = || Value::Object(serde_json::Map::new());
    if raw.trim().is_empty() {
        return (none(), None);
    }
    match json::parse(raw) {
        // Some servers send this for a call without arguments.
        Ok(Value::Null) => (none(), None),
        Ok(mut input) => {
            sort(&mut input);
            (input, None)
        }
        Err(_) => once(raw).map_or_else(|| (none(), Some(raw.to_owned())), |input| (input, None)),
    }
}

/// The one object in a text that has `{}` before it, or the same object several times: servers that send the arguments as a
/// whole besides their pieces. `None` if there is more than one.
fn once(raw: &str) -> Option<Value> {
    let mut found = None;
    for value in serde_json::Deserializer::from_str(raw).into_iter::<Value>() {
        let mut value = value.ok().filter(Value::is_object)?;
        sort(&mut value);
        match &found {
            None => found = Some(value),
            Some(known) if *known == value || value.as_object().is_some_and(serde_json::Map::is_empty) => {}
            Some(known) if known.as_object().is_some_and(serde_json::Map::is_empty) => found = Some(value),
            Some(_) => return None,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(raw: &str, input: &Value, invalid: Option<&str>) {
        assert_eq!(parse_input(raw), (input.clone(), invalid.map(str::to_owned)), "{raw:?}");
    }

    #[test]
    fn arguments_that_are_no_json_are_kept_as_written() {
        check("{\"a\":1}", &json!({"a": 1}), None);
        check(" ", &json!({}), None);
        check("null", &json!({}), None);
        check("{\"a\":", &json!({}), Some("{\"a\":"));
        check("[1]", &json!([1]), None);
        check(r#"{}{"a":1}"#, &json!({"a": 1}), None);
        check(r#"{"a":1,"b":2} {"b":2,"a":1}"#, &json!({"a": 1, "b": 2}), None);
        check("{} {}", &json!({}), None);
        for more_than_one in [r#"{"a":1}{"a":2}"#, r#"{}{"a":1}{"a":2}"#, r#"{"a":1}["a"]"#, r#"{"a":1}x"#] {
            check(more_than_one, &json!({}), Some(more_than_one));
        }
        check(r#"{"a":"\ud83d"}"#, &json!({"a": "\u{FFFD}"}), None);
    }

    #[test]
    fn an_id_that_was_given_out_before_gets_the_next_free_number() {
        let call = |id: &str| {
            let (id, name) = (id.to_owned(), "Read".to_owned());
            Content::ToolUse(ToolCall { id, name, input: json!({}), invalid_input: None, withheld: None })
        };
        let earlier = Message { role: Role::Assistant, content: ["c", "c_2", "c_4"].map(call).into() };
        let mut draft = MessageDraft::answer_to(&[Arc::new(earlier)]);
        let mut out = Events::new();
        let given = ["c", "d", "c", "d", ""];
        for (place, id) in (0..).zip(given) {
            draft.tool(place, id, "Read", &mut out);
        }
        let ids: Vec<&str> = draft.blocks.values().filter_map(DraftBlock::call_id).collect();
        assert_eq!(ids, ["c_3", "d", "c_5", "d_2", "call_1_4"]);
    }

    #[test]
    fn half_characters_are_joined_with_the_next_part_of_their_block() {
        let part = |text: &str| {
            let part = json::parse_part(&format!("\"{text}\"")).expect("JSON");
            part.as_str().expect("a text").to_owned()
        };
        let mut draft = MessageDraft::default();
        let mut out = Events::new();
        draft.text(0, &part(r"ok \ud83d"), &mut out);
        draft.tool(1, "t", "Write", &mut out);
        draft.tool_input(1, &part(r#"{\"a\":\"\ud83d"#), &mut out);
        draft.text(0, &part(r"\ude00 fine"), &mut out);
        draft.tool_input(1, &part(r#"\ude00\"}"#), &mut out);
        draft.text(2, &part(r"cut \ud83d"), &mut out);
        let ProviderEvent::MessageDone { message, .. } = draft.finish(&mut out) else { panic!("no message") };
        let [text, Content::ToolUse(call), cut] = message.content.as_slice() else { panic!("{message:?}") };
        assert_eq!((text, cut), (&Content::text("ok 😀 fine"), &Content::text("cut \u{FFFD}")));
        assert_eq!((&call.input, &call.invalid_input), (&json!({"a": "😀"}), &None));
        let streamed: String = out
            .iter()
            .filter_map(|event| match event {
                ProviderEvent::TextDelta(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(streamed, "ok 😀 finecut \u{FFFD}");
    }

    #[test]
    fn blocks_come_out_in_their_places_and_empty_ones_not_at_all() {
        let mut draft = MessageDraft::default();
        let mut out = Events::new();
        draft.tool(3, "t", "Read", &mut out);
        draft.text(1, "", &mut out);
        draft.text(2, "hi", &mut out);
        draft.thinking(0, "", &mut out);
        draft.signature(0, "sig");
        let done = draft.finish(&mut out);
        let ProviderEvent::MessageDone { message, stop_reason, .. } = done else { panic!("{done:?}") };
        assert_eq!(stop_reason, StopReason::ToolUse);
        assert_eq!(
            message.content,
            [
                Content::Thinking { thinking: String::new(), signature: Some("sig".into()) },
                Content::text("hi"),
                Content::ToolUse(ToolCall {
                    id: "t".into(),
                    name: "Read".into(),
                    input: json!({}),
                    invalid_input: None,
                    withheld: None,
                }),
            ]
        );
        assert_eq!(out.len(), 3, "start, text, end: {out:?}");
    }
}
