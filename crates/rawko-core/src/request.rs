//! A request to a model, independent of any wire format.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hosted::HostedSearch;
use crate::message::Message;
use crate::tool::ToolSpec;

/// What a model call is for. Never sent to the model: scripts, journals and progress reports use it to identify calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Purpose {
    /// The arbiter chooses the next agent.
    Select,
    /// The arbiter judges progress.
    Evaluate,
    /// An agent works.
    Agent {
        /// The agent's name.
        name: String,
    },
    /// The extractor writes down what an execution learned, as a memory.
    Remember {
        /// The agent of that execution.
        agent: String,
    },
    /// The middle of an agent's conversation is summarized, because it no longer fits the model's window.
    Summarize {
        /// The agent of that conversation.
        agent: String,
    },
}

impl Purpose {
    /// Whether this is a short question outside an agent's work: a decision, a memory, a summary. Its few tokens are
    /// meant for the answer, so the model should think as little as possible.
    #[must_use]
    pub fn is_aside(&self) -> bool {
        match self {
            Self::Agent { .. } => false,
            Self::Select | Self::Evaluate | Self::Remember { .. } | Self::Summarize { .. } => true,
        }
    }
}

impl std::fmt::Display for Purpose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Select => f.write_str("select"),
            Self::Evaluate => f.write_str("evaluate"),
            Self::Agent { name } => f.write_str(name),
            Self::Remember { agent } => write!(f, "{agent} (memory)"),
            Self::Summarize { agent } => write!(f, "{agent} (summary)"),
        }
    }
}

/// Which tools the model may, must or must not call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must call this tool: structured output through the tool's schema. A model that cannot be forced is only
    /// offered the tool, so the prompt has to ask for the call too.
    Tool {
        /// The tool's name.
        name: String,
    },
}

/// One request to a model: the whole conversation so far, and how to answer.
///
/// Conversations are append-only, and messages are shared, not copied: a provider session may keep what it has already
/// encoded and recognise it by the pointer.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// What the call is for.
    pub purpose: Purpose,
    /// The model's name as the provider knows it.
    pub model: String,
    /// The system prompt, stable for the whole conversation.
    pub system: Arc<str>,
    /// How many bytes of the system prompt other conversations of the same agent share; the rest belongs to this
    /// conversation alone. `None` if there is no rest. A provider that caches prefixes sets a breakpoint there
    /// ([`Self::system_parts`]).
    pub stable: Option<usize>,
    /// The tools that the model may call, stable for the whole conversation.
    pub tools: Arc<[ToolSpec]>,
    /// The provider's own search of the web, if the model may use it. A provider without one ignores it.
    pub search: Option<HostedSearch>,
    /// The conversation, user first.
    pub messages: Arc<Vec<Arc<Message>>>,
    /// Which tools may be called.
    pub tool_choice: ToolChoice,
    /// Most tokens of the answer.
    pub max_tokens: u32,
    /// Sampling temperature; the provider's default where absent.
    pub temperature: Option<f64>,
    /// Further top-level fields of the provider's own request format, passed through unchanged
    /// (e.g. `thinking`). Empty for most.
    pub extra: serde_json::Map<String, Value>,
    /// Whether the session makes a failed call again and waits by itself if it fails: the provider then sends it once.
    pub is_repeat: bool,
}

impl ModelRequest {
    /// The system prompt in two parts: the one that other conversations share, and the one of this conversation alone,
    /// which may be empty. Together they are the whole prompt.
    #[must_use]
    pub fn system_parts(&self) -> (&str, &str) {
        self.stable.and_then(|at| self.system.split_at_checked(at)).unwrap_or((&self.system, ""))
    }
}
