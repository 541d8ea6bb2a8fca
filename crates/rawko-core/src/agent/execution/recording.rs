//! What is recorded of a finished call: files, denials, commands.

use serde_json::Value;

use super::Execution;
use super::calls::COMMAND_CHARS;
use crate::error::ErrorCode;
use crate::facts::{self, CommandEffect, CommandFact, OwnStatus};
use crate::message::ToolCall;
use crate::policy::BASH;
use crate::setup::Edition;
use crate::text::truncate;
use crate::tool::ToolOutcome;

/// Number of commands recorded as facts, and of checks beside them.
const COMMANDS_KEPT: usize = 5;
/// Number of files recorded as accessed.
const FILES_KEPT: usize = 50;

impl Execution {
    /// Records the facts of a finished call, as the tool reports them.
    pub(super) fn record(&mut self, call: &ToolCall, outcome: &ToolOutcome) {
        for file in &outcome.files_modified {
            if self.files.insert(file.clone()) {
                self.facts.files_modified.push(file.clone());
            }
        }
        if outcome.error_code == Some(ErrorCode::PermissionError)
            && !self.facts.denied_tools.contains(&call.name)
        {
            self.facts.denied_tools.push(call.name.clone());
        }
        let seen = outcome.files_seen.iter().map(|file| &file.path);
        for file in seen.chain(&outcome.files_modified) {
            if self.facts.files_accessed.len() < FILES_KEPT && !self.facts.files_accessed.contains(file) {
                self.facts.files_accessed.push(file.clone());
            }
        }
        if !outcome.files_modified.is_empty() {
            self.makes_stale(CommandEffect::Writes);
        }
        let command = call.input.get("command").filter(|_| call.name == BASH);
        if let Some(command) = command.and_then(Value::as_str) {
            match self.edition {
                Edition::First => self.record_in_first_edition(command, outcome),
                Edition::Second => self.record_command(command, call, outcome),
            }
        }
    }

    fn record_command(&mut self, command: &str, call: &ToolCall, outcome: &ToolOutcome) {
        let not_run = [ErrorCode::PermissionError, ErrorCode::ValidationError];
        if outcome.error_code.is_some_and(|code| not_run.contains(&code)) {
            return;
        }
        let in_background = call.input.get("run_in_background") == Some(&Value::Bool(true));
        let examined = facts::examine(command, outcome.exit_code, &outcome.pipe_status);
        self.makes_stale(examined.effect);
        self.facts.may_have_written |= examined.effect != CommandEffect::Reads;
        // What only reads may show the summary of another run.
        let is_about_itself = examined.is_check || examined.effect != CommandEffect::Reads;
        self.facts.commands.push(CommandFact {
            command: truncate(command, COMMAND_CHARS),
            exit_code: outcome.exit_code,
            is_check: examined.is_check,
            before_last_write: examined.after_check == CommandEffect::Writes && examined.is_check,
            before_possible_write: examined.after_check == CommandEffect::Unknown && examined.is_check,
            pipe_status: outcome.pipe_status.clone(),
            own_status: if in_background { Some(OwnStatus::Hidden) } else { examined.own_status },
            summary: is_about_itself.then(|| facts::summarize(&outcome.content)).flatten(),
            effect: Some(examined.effect),
        });
        self.drop_old_commands();
    }

    fn record_in_first_edition(&mut self, command: &str, outcome: &ToolOutcome) {
        if self.facts.commands.len() == COMMANDS_KEPT {
            self.facts.commands.remove(0);
        }
        self.facts.commands.push(CommandFact {
            is_check: facts::is_check(command),
            command: truncate(command, COMMAND_CHARS),
            exit_code: outcome.exit_code,
            ..CommandFact::default()
        });
    }

    /// What was checked before an effect says less about the tree now.
    fn makes_stale(&mut self, effect: CommandEffect) {
        for fact in &mut self.facts.commands {
            match effect {
                CommandEffect::Reads => {}
                CommandEffect::Unknown => fact.before_possible_write = true,
                CommandEffect::Writes => fact.before_last_write = true,
            }
        }
    }

    /// Keeps the last commands, and the last checks among all.
    fn drop_old_commands(&mut self) {
        let commands = &mut self.facts.commands;
        let recent = commands.len().saturating_sub(COMMANDS_KEPT);
        let mut checks = commands.iter().filter(|fact| fact.is_check).count();
        let mut place = 0;
        commands.retain(|fact| {
            let is_recent = place >= recent;
            place += 1;
            let is_new_check = fact.is_check && checks <= COMMANDS_KEPT;
            checks -= usize::from(fact.is_check);
            is_recent || is_new_check
        });
    }
}
