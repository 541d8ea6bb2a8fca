//! Finds what failed in an execution without success (`docs/machine.md#transitions`): its last red check, else its last
//! failed call, else its own report.

use super::ExecutionLog;
use crate::agent::execution::calls::COMMAND_CHARS;
use crate::error::{ErrorCode, ErrorInfo};
use crate::facts::CommandResult;
use crate::machine::CommandFact;
use crate::message::ToolCall;
use crate::policy::BASH;
use crate::text::{keep_ends, truncate};
use crate::tool::ToolOutcome;

/// Bytes of a tool's output in a message.
const OUTPUT_BYTES: usize = 600;
/// Characters of a report in a message.
const REPORT_CHARS: usize = 600;

impl ExecutionLog {
    /// What failed, where the agent reports `words`.
    pub(crate) fn failure(&self, words: &str) -> ErrorInfo {
        let newest_check = self.facts.commands.iter().rev().find(|fact| fact.is_check);
        let red = newest_check.filter(|fact| fact.result() == CommandResult::Failed);
        let is_last_error = |red: &CommandFact| {
            self.last_error.as_ref().is_some_and(|last| last.command() == Some(&red.command))
        };
        match (red, &self.last_error) {
            (Some(red), last) if last.is_none() || !is_last_error(red) => {
                failed_command(&red.command, red.own_exit_code(), "")
            }
            (_, Some(last)) => last.clone(),
            (_, None) => ErrorInfo::new(ErrorCode::Unknown, truncate(words, REPORT_CHARS)),
        }
    }

    /// Remembers a failed call; a success of the same tool takes it back.
    pub(in crate::agent::execution) fn note_error(&mut self, call: &ToolCall, outcome: &ToolOutcome) {
        let failed = outcome.is_error || outcome.exit_code.is_some_and(|code| code != 0);
        if failed {
            self.last_error = Some(error_of(call, outcome));
        } else if self.last_error.as_ref().is_some_and(|last| last.tool.as_deref() == Some(&call.name)) {
            self.last_error = None;
        }
    }
}

fn error_of(call: &ToolCall, outcome: &ToolOutcome) -> ErrorInfo {
    let output = keep_ends(outcome.content.trim(), OUTPUT_BYTES);
    let command = call.input.get("command").filter(|_| call.name == BASH).and_then(serde_json::Value::as_str);
    let error = match (command, outcome.exit_code, outcome.error_code) {
        (Some(command), Some(code), _) => failed_command(command, Some(code), &output),
        (
            _,
            _,
            Some(code @ (ErrorCode::PermissionError | ErrorCode::ValidationError | ErrorCode::Timeout)),
        ) => ErrorInfo::new(code, output),
        (_, _, _) => ErrorInfo::new(ErrorCode::ToolFailure, output),
    };
    let error = ErrorInfo { tool: Some(truncate(&call.name, COMMAND_CHARS)), ..error };
    match command {
        Some(command) => error.of_command(Some(truncate(command, COMMAND_CHARS)), outcome.exit_code),
        None => error,
    }
}

fn failed_command(command: &str, exit_code: Option<i32>, output: &str) -> ErrorInfo {
    let how = match exit_code {
        Some(code) => format!("Command failed with exit code {code}"),
        None => "Command did not end by itself".to_owned(),
    };
    let message = if output.is_empty() { how } else { format!("{how}\n{output}") };
    let error = ErrorInfo { tool: Some(BASH.to_owned()), ..ErrorInfo::new(ErrorCode::ToolFailure, message) };
    error.of_command(Some(truncate(command, COMMAND_CHARS)), exit_code)
}
