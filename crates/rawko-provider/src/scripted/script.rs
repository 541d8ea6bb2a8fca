//! The format of scripts, and the choice of the next reply.
//!
//! The SDK reads script files, and [`super::Scripted`] plays them.

use rawko_core::error::{ErrorCode, ErrorInfo};
use rawko_core::message::StopReason;
use rawko_core::usage::Usage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Replies in order. Each request gets the first unused reply that matches it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Script(pub Vec<ScriptedReply>);

/// One reply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ScriptedReply {
    /// Which requests it answers: `select`, `evaluate`, or the name of an agent; any if absent.
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
    /// The input of the tool that the request forces, whatever its name; sent as text if it forces none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Value>,
    /// The usage that the reply reports.
    pub usage: Usage,
    /// Why it ends; decided by the content if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// Delay before the reply begins, in milliseconds.
    pub delay_ms: u64,
    /// Makes the call fail, after the rest of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ScriptedError>,
    /// It can be used any number of times.
    pub repeat: bool,
}

/// A tool call in a reply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptedCall {
    /// Name of the tool.
    pub name: String,
    /// Its arguments. A string is text of the model that is not JSON.
    #[serde(default = "no_input")]
    pub input: Value,
}

/// A failure in a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptedError {
    /// The error code.
    pub code: ErrorCode,
    /// The server's message.
    #[serde(default)]
    pub message: String,
    /// How long the server asks to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

fn no_input() -> Value {
    Value::Object(Map::new())
}

/// A script in use: knows which replies were taken.
#[derive(Debug, Clone)]
pub struct ScriptPlayer {
    replies: Vec<(ScriptedReply, bool)>,
}

impl ScriptPlayer {
    /// Starts at the beginning of `script`.
    #[must_use]
    pub fn new(script: Script) -> Self {
        Self { replies: script.0.into_iter().map(|reply| (reply, false)).collect() }
    }

    /// Takes the first unused reply that is for `whom`, or for anyone.
    ///
    /// # Errors
    /// `config_error` if none is left; it names `whom` and who the remaining replies are for.
    pub fn take(&mut self, whom: &str) -> Result<ScriptedReply, ErrorInfo> {
        self.take_where(whom, |wanted| wanted == whom)
    }

    /// Like [`ScriptPlayer::take`], where `is_for` decides whether a reply's `for` matches the request.
    ///
    /// # Errors
    /// As [`ScriptPlayer::take`].
    pub fn take_where(
        &mut self,
        whom: &str,
        is_for: impl Fn(&str) -> bool,
    ) -> Result<ScriptedReply, ErrorInfo> {
        let fits =
            |(reply, used): &&mut (ScriptedReply, bool)| !*used && reply.whom.as_deref().is_none_or(&is_for);
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
            others => format!("the remaining replies are for {}", others.join(", ")),
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
