//! The verdict on one tool call: the tool first, then what its arguments ask for.

use crate::agent::AgentConfig;
use crate::message::ToolCall;
use crate::policy::{Verdict, tool_verdict};

/// Whether `agent` may make `call`. `known` are the names of all tools of the run.
#[must_use]
pub fn call_verdict<S: AsRef<str>>(agent: &AgentConfig, call: &ToolCall, known: &[S]) -> Verdict {
    tool_verdict(agent, &call.name, known)
}
