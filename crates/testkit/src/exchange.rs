//! The requests that the server received, and how they ended.

use std::time::Instant;

use serde_json::Value;

/// The wire format of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic's Messages API.
    Claude,
    /// Chat Completions.
    OpenAi,
    /// `OpenAI`'s Responses API, or Open Responses.
    Responses,
}

impl Wire {
    /// All wires.
    pub const ALL: [Self; 3] = [Self::Claude, Self::OpenAi, Self::Responses];

    /// The name of the array of messages in a request.
    #[must_use]
    pub fn messages_field(self) -> &'static str {
        match self {
            Self::Claude | Self::OpenAi => "messages",
            Self::Responses => "input",
        }
    }
}

/// Who sent a request, as far as it shows that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The arbiter, to select the next agent.
    Select,
    /// The arbiter, to evaluate the last execution.
    Evaluate,
    /// An agent.
    Agent,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as received.
    pub body: Vec<u8>,
    /// The body as JSON; null if it is not JSON.
    pub json: Value,
    /// The wire, by its path.
    pub wire: Wire,
    /// When it was received completely.
    pub arrived: Instant,
    /// Number of its connection, from 1.
    pub connection: u64,
    /// Its number among all requests, from 0.
    pub number: usize,
}

/// A request and the end of its answer.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The request.
    pub asked: Asked,
    /// When the last byte of the answer was written.
    pub answered: Option<Instant>,
    /// Whether the client closed the connection before that.
    pub client_left: bool,
}

/// The name of the arbiter's tool.
const DECIDE: &str = "decide";

/// A heading that only the arbiter's evaluation request contains.
const LAST_EXECUTION: &str = "## Last execution";

impl Asked {
    /// A header, by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &str {
        self.json.get("model").and_then(Value::as_str).unwrap_or_default()
    }

    /// The tool that the model must call.
    #[must_use]
    pub fn forced_tool(&self) -> Option<&str> {
        let choice = self.json.get("tool_choice")?;
        choice.get("name").or_else(|| choice.pointer("/function/name")).and_then(Value::as_str)
    }

    /// The tools that the request offers.
    #[must_use]
    pub fn tool_names(&self) -> Vec<&str> {
        self.json
            .get("tools")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|tool| tool.get("name").or_else(|| tool.pointer("/function/name"))?.as_str())
            .collect()
    }

    /// The tool that takes a decision: the forced one, or the only one offered.
    #[must_use]
    pub fn decision_tool(&self) -> Option<&str> {
        self.forced_tool().or_else(|| match self.tool_names().as_slice() {
            [only] => Some(*only),
            _ => None,
        })
    }

    /// The messages, or the items over Responses, without the system prompt.
    #[must_use]
    pub fn messages(&self) -> Vec<&Value> {
        let messages = self.json.get(self.wire.messages_field()).and_then(Value::as_array);
        let is_system = |m: &&Value| m.get("role").and_then(Value::as_str) == Some("system");
        messages.into_iter().flatten().filter(|m| !is_system(m)).collect()
    }

    /// The system prompt.
    #[must_use]
    pub fn system(&self) -> String {
        let first = self.json.pointer("/messages/0");
        let in_messages = first.filter(|m| m.get("role").and_then(Value::as_str) == Some("system"));
        let system = self.json.get("system").or_else(|| self.json.get("instructions"));
        let system = system.or_else(|| in_messages?.get("content"));
        system.map(text_of).unwrap_or_default()
    }

    /// The text of the last message, tool results included.
    #[must_use]
    pub fn last_text(&self) -> String {
        let content = |m: &&Value| m.get("content").or_else(|| m.get("output")).map(text_of);
        self.messages().last().and_then(content).unwrap_or_default()
    }

    /// Who sent it.
    #[must_use]
    pub fn who(&self) -> Who {
        if self.decision_tool() != Some(DECIDE) {
            return Who::Agent;
        }
        let asks =
            |m: &&Value| m.get("content").map(text_of).is_some_and(|text| text.contains(LAST_EXECUTION));
        if self.messages().iter().any(asks) { Who::Evaluate } else { Who::Select }
    }

    /// Whether the `for` of a script's reply matches: `select`, `evaluate`, or a name that occurs in the system prompt of an
    /// agent.
    #[must_use]
    pub fn is_for(&self, wanted: &str) -> bool {
        match (self.who(), wanted) {
            (Who::Select, wanted) => wanted == "select",
            (Who::Evaluate, wanted) => wanted == "evaluate",
            (Who::Agent, "select" | "evaluate") => false,
            (Who::Agent, name) => self.system().to_lowercase().contains(&name.to_lowercase()),
        }
    }
}

/// All texts of a content, joined.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let text = |part: &Value| part.get("text").or_else(|| part.get("content")).map(text_of);
            parts.iter().filter_map(text).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
