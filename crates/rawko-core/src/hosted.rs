//! Tools that a provider runs itself while it answers: so far its search of the web.
//!
//! Such a call never reaches rawko as a request to run something. It comes with its result as a part of the answer, and
//! goes back unchanged with the next request. The core decides who may search, reports searches to people, and keeps
//! the blocks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{Content, Message, ToolCall};

/// A search of the web that the provider runs (`web.search.provider`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostedSearch {
    /// Most searches of one request, where the provider has such a limit.
    pub max_uses: u32,
    /// Only results of these domains, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_domains: Vec<String>,
    /// No results of these domains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_domains: Vec<String>,
}

/// What a tool of the provider left in an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostedBlock {
    /// The wire that it came over. It goes back over that one alone.
    pub wire: HostedWire,
    /// The block as JSON text, as it came. Empty where it held a secret: then it is not sent back.
    pub block: String,
    /// The call, if the block is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<ToolCall>,
    /// The result, if the block has one. A block with neither call nor result holds the citations of the text before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<HostedResult>,
}

/// The wire of a [`HostedBlock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostedWire {
    /// Anthropic's Messages API.
    Messages,
    /// The Responses API.
    Responses,
}

/// The result of a call that the provider ran, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostedResult {
    /// Id of the call.
    pub call_id: String,
    /// What was found, as far as the provider shows it.
    pub content: String,
    /// Whether the call failed.
    #[serde(default)]
    pub is_error: bool,
}

impl HostedBlock {
    /// The block without what its provider encrypted; `None` if it is not sent back.
    #[must_use]
    pub fn readable(&self) -> Option<Value> {
        let mut value = serde_json::from_str(&self.block).ok()?;
        remove_encrypted(&mut value);
        Some(value)
    }

    /// Whether it holds the citations of the text before it.
    #[must_use]
    pub fn is_citations(&self) -> bool {
        self.call.is_none() && self.result.is_none()
    }
}

fn remove_encrypted(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !name.starts_with("encrypted_"));
            fields.values_mut().for_each(remove_encrypted);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_encrypted),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The blocks of `message` that tools of the provider left.
pub(crate) fn blocks(message: &Message) -> impl Iterator<Item = &HostedBlock> {
    message.content.iter().filter_map(|content| match content {
        Content::Hosted(block) => Some(block),
        Content::Text { .. }
        | Content::Image(_)
        | Content::Thinking { .. }
        | Content::RedactedThinking { .. }
        | Content::ToolUse(_)
        | Content::ToolResult { .. } => None,
    })
}

/// `message` without calls that its provider has not answered; `None` if there are none. Once anything but the rest of the
/// turn follows, such a call would be refused.
pub(crate) fn without_open_calls(message: &Message) -> Option<Message> {
    let answered: Vec<&str> = blocks(message)
        .filter_map(|block| block.result.as_ref())
        .map(|result| result.call_id.as_str())
        .collect();
    let is_open = |content: &Content| match content {
        Content::Hosted(block) => {
            block.call.as_ref().is_some_and(|call| !answered.contains(&call.id.as_str()))
        }
        _ => false,
    };
    let content = || message.content.iter().filter(|content| !is_open(content)).cloned().collect();
    message
        .content
        .iter()
        .any(is_open)
        .then(|| Message { role: message.role, content: content() }.or_placeholder())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Role;
    use serde_json::json;

    fn call(id: &str) -> Content {
        Content::Hosted(HostedBlock {
            wire: HostedWire::Messages,
            block: json!({"type": "server_tool_use", "id": id}).to_string(),
            call: Some(ToolCall {
                id: id.into(),
                name: crate::policy::WEB_SEARCH.into(),
                input: json!({"query": "q"}),
                invalid_input: None,
                withheld: None,
            }),
            result: None,
        })
    }

    fn result(id: &str) -> Content {
        let block = json!({"tool_use_id": id, "content": [{"title": "T", "encrypted_content": "Eqg"}]});
        Content::Hosted(HostedBlock {
            wire: HostedWire::Messages,
            block: block.to_string(),
            call: None,
            result: Some(HostedResult { call_id: id.into(), content: "1. T".into(), is_error: false }),
        })
    }

    fn message(content: Vec<Content>) -> Message {
        Message { role: Role::Assistant, content }
    }

    #[test]
    fn calls_that_were_not_answered_are_left_out_once_the_turn_is_over() {
        let whole = message(vec![call("a"), result("a"), Content::text("Found.")]);
        assert_eq!(without_open_calls(&whole), None);
        let paused = message(vec![call("a"), result("a"), call("b")]);
        assert_eq!(without_open_calls(&paused), Some(message(vec![call("a"), result("a")])));
        let alone = message(vec![call("b")]);
        assert_eq!(without_open_calls(&alone), Some(message(vec![Content::text("(no answer)")])));
    }

    #[test]
    fn calls_and_results_become_notes() {
        let notes = crate::note::Note::of_hosted_calls("planner", &message(vec![call("a"), result("a")]));
        let notes = serde_json::to_value(notes).unwrap();
        assert_eq!(notes[0]["type"], "tool_called");
        assert_eq!(notes[0]["rule"], "run by the provider");
        assert_eq!(notes[1]["outcome"]["content"], "1. T");
    }

    #[test]
    fn what_is_encrypted_is_not_read() {
        let Content::Hosted(block) = result("a") else { panic!() };
        assert_eq!(block.readable(), Some(json!({"tool_use_id": "a", "content": [{"title": "T"}]})));
    }
}
