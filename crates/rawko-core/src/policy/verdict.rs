//! What policy says to a request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorCode;
use crate::tool::ToolOutcome;

/// A judgement with the rule it rests on, as it is journaled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It may be done.
    Allowed {
        /// The rule that allows it, e.g. `tools.allowed`.
        rule: String,
    },
    /// It may not be done.
    Denied {
        /// The rule that denies it, e.g. `tools.blocked`.
        rule: String,
        /// What is denied, why, and what would allow it; for the model and for people.
        message: String,
        /// Whether a list decided that a person may overrule for one call: the command is understood, and on no list.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unlisted: bool,
    },
}

impl Verdict {
    /// Allowed by `rule`.
    #[must_use]
    pub fn allowed(rule: impl Into<String>) -> Self {
        Self::Allowed { rule: rule.into() }
    }

    /// Denied by `rule`, in the words of `message`.
    #[must_use]
    pub fn denied(rule: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Denied { rule: rule.into(), message: message.into(), unlisted: false }
    }

    /// Denied by the list `rule`, on which it is not.
    #[must_use]
    pub fn unlisted(rule: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Denied { rule: rule.into(), message: message.into(), unlisted: true }
    }

    /// Whether it may be done.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        match self {
            Self::Allowed { .. } => true,
            Self::Denied { .. } => false,
        }
    }

    /// The rule that decided.
    #[must_use]
    pub fn rule(&self) -> &str {
        match self {
            Self::Allowed { rule } | Self::Denied { rule, .. } => rule,
        }
    }

    /// The tool result that tells the model of a denial; `None` where it is allowed.
    #[must_use]
    pub fn denial(&self) -> Option<ToolOutcome> {
        match self {
            Self::Allowed { .. } => None,
            Self::Denied { message, .. } => {
                Some(ToolOutcome::error(ErrorCode::PermissionError, message.clone()))
            }
        }
    }
}
