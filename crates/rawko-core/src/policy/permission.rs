//! The policy's decision on a request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorCode;
use crate::tool::ToolOutcome;

/// A decision with the rule that made it, as it is journaled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Permission {
    /// It may be done.
    Allowed {
        /// The rule that allows it, e.g. `tools.allowed`.
        rule: String,
    },
    /// It may not be done.
    Denied {
        /// The rule that denies it, e.g. `tools.blocked`.
        rule: String,
        /// What is denied, why, and what to do instead; for the model, which cannot change the configuration.
        message: String,
        /// The change of the configuration that would allow it; for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        would_allow: Option<String>,
        /// Whether a list decided that a person may overrule for one call: the command is understood, and on no list.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unlisted: bool,
    },
}

impl Permission {
    /// Allowed by `rule`.
    #[must_use]
    pub fn allowed(rule: impl Into<String>) -> Self {
        Self::Allowed { rule: rule.into() }
    }

    /// Denied by `rule`, in the words of `message`.
    #[must_use]
    pub fn denied(rule: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Denied { rule: rule.into(), message: message.into(), would_allow: None, unlisted: false }
    }

    /// Denied by the list `rule`, on which it is not.
    #[must_use]
    pub fn unlisted(rule: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Denied { rule: rule.into(), message: message.into(), would_allow: None, unlisted: true }
    }

    /// The same, where `change` of the configuration would allow it.
    #[must_use]
    pub fn lifted_by(mut self, change: Option<String>) -> Self {
        if let Self::Denied { would_allow, .. } = &mut self {
            *would_allow = change;
        }
        self
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

    /// The change of the configuration that would allow what is denied, if there is one.
    #[must_use]
    pub fn would_allow(&self) -> Option<&str> {
        match self {
            Self::Allowed { .. } => None,
            Self::Denied { would_allow, .. } => would_allow.as_deref(),
        }
    }

    /// Why it is denied and what would allow it, for people; `None` where it is allowed.
    #[must_use]
    pub fn explained(&self) -> Option<String> {
        let Self::Denied { message, would_allow, .. } = self else { return None };
        let change =
            would_allow.as_ref().map(|change| format!(" To allow it, {change}.")).unwrap_or_default();
        Some(format!("{message}{change}"))
    }

    /// The tool result for the model where it is denied; `None` where it is allowed.
    #[must_use]
    pub fn denial(&self) -> Option<ToolOutcome> {
        match self {
            Self::Allowed { .. } => None,
            Self::Denied { message, would_allow, .. } => Some(ToolOutcome {
                would_allow: would_allow.clone(),
                ..ToolOutcome::error(ErrorCode::PermissionError, message.clone())
            }),
        }
    }
}
