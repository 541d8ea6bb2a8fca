//! A script of answers, as it is written down.
//!
//! Owns the format and the choice of the next reply. Reading files is the SDK's, playing is [`super::Scripted`]'s.

use rawko_core::error::{ErrorCode, ErrorInfo};
use rawko_core::message::StopReason;
use rawko_core::usage::Usage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Replies in order. The first unused one that fits who asks is taken.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Script(pub Vec<Reply>);

/// One reply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Reply {
    /// Whom it answers: `select`, `evaluate`, or the name of an agent; anyone where absent.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub whom: Option<String>,
    /// Reasoning, before everything else.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub thinking: String,
    /// Text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Tool calls, after the text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ScriptedCall>,
    /// The input of the tool that the request forces, whatever its name; as text where it forces none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Value>,
    /// What the reply is said to have consumed.
    pub usage: Usage,
    /// Why it ends; from the content where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// How long the model thinks before it begins, in milliseconds.
    pub delay_ms: u64,
    /// The call fails instead, after whatever else the reply says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ScriptedError>,
    /// It is never used up.
    pub repeat: bool,
}

/// A tool call in a reply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptedCall {
    /// The tool.
    pub name: String,
    /// Its arguments. A text stands for what a model wrote that is not JSON.
    #[serde(default = "no_input")]
    pub input: Value,
}

/// A failure in a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptedError {
    /// What kind.
    pub code: ErrorCode,
    /// What the server says.
    #[serde(default)]
    pub message: String,
    /// How long it asks to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

fn no_input() -> Value {
    Value::Object(Map::new())
}

/// A script being played: which replies are used up.
#[derive(Debug, Clone)]
pub struct Player {
    replies: Vec<(Reply, bool)>,
}

impl Player {
    /// At the beginning of `script`.
    #[must_use]
    pub fn new(script: Script) -> Self {
        Self { replies: script.0.into_iter().map(|reply| (reply, false)).collect() }
    }

    /// Takes the first unused reply that is for `whom`, or for anyone.
    ///
    /// # Errors
    /// `config_error` where there is none left; it names who asked and what is left for others.
    pub fn take(&mut self, whom: &str) -> Result<Reply, ErrorInfo> {
        self.take_where(whom, |wanted| wanted == whom)
    }

    /// The same, where `is_for` tells whether a reply's `for` means the asker.
    ///
    /// # Errors
    /// As [`Player::take`].
    pub fn take_where(&mut self, whom: &str, is_for: impl Fn(&str) -> bool) -> Result<Reply, ErrorInfo> {
        let fits = |(reply, used): &&mut (Reply, bool)| !*used && reply.whom.as_deref().is_none_or(&is_for);
        match self.replies.iter_mut().find(fits) {
            Some((reply, used)) => {
                *used = !reply.repeat;
                Ok(reply.clone())
            }
            None => Err(self.ran_out(whom)),
        }
    }

    fn ran_out(&self, whom: &str) -> ErrorInfo {
        let left: Vec<&str> = self
            .replies
            .iter()
            .filter(|(_, used)| !used)
            .filter_map(|(reply, _)| reply.whom.as_deref())
            .collect();
        let left = match left.as_slice() {
            [] => "all replies are used up".to_owned(),
            others => format!("what is left is for {}", others.join(", ")),
        };
        ErrorInfo::new(
            ErrorCode::ConfigError,
            format!(
                "the script has no reply for {whom}: {left} ({} in all); add one with `for: {whom}`, or `repeat: true` to one",
                self.replies.len()
            ),
        )
    }
}
