//! Records the facts of a finished call: files, denials, commands.

use serde_json::Value;

use super::ExecutionLog;
use crate::agent::execution::calls::COMMAND_CHARS;
use crate::error::ErrorCode;
use crate::facts::{self, CommandEffect, CommandFact, OwnStatus};
use crate::message::ToolCall;
use crate::policy::BASH;
use crate::text::truncate;
use crate::tool::ToolOutcome;

/// Number of commands recorded as facts, and of checks beside them.
const COMMANDS_KEPT: usize = 5;
/// Number of files recorded as accessed.
const FILES_KEPT: usize = 50;

impl ExecutionLog {
    /// Records the facts of a finished call, as the tool reports them.
    pub(in crate::agent::execution) fn finished(&mut self, call: &ToolCall, outcome: &ToolOutcome) {
        self.note_error(call, outcome);
        for file in &outcome.files_modified {
            if self.files.insert(file.clone()) {
                self.facts.files_modified.push(file.clone());
            }
        }
        if outcome.error_code == Some(ErrorCode::PermissionError) {
            self.denied(call);
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
            self.record_command(command, call, outcome);
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
        let summary = is_about_itself.then(|| facts::summarize(&outcome.content)).flatten();
        // A runner inside a script of another language shows only in its output. What such output says is believed
        // where it speaks of failures.
        let shows_failures = summary.as_ref().is_some_and(|summary| summary.failed);
        self.facts.commands.push(CommandFact {
            command: truncate(command, COMMAND_CHARS),
            exit_code: outcome.exit_code,
            is_check: examined.is_check || shows_failures,
            before_last_write: examined.after_check == CommandEffect::Writes && examined.is_check,
            before_possible_write: examined.after_check == CommandEffect::Unknown && examined.is_check,
            pipe_status: outcome.pipe_status.clone(),
            own_status: if in_background { Some(OwnStatus::Hidden) } else { examined.own_status },
            summary,
            effect: Some(examined.effect),
        });
        self.drop_old_commands();
    }

    /// A check before an effect says less about the tree as it is now.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(name: &str, input: Value) -> ToolCall {
        serde_json::from_value(json!({"id": "1", "name": name, "input": input})).unwrap()
    }

    fn run(record: &mut ExecutionLog, command: &str, exit_code: i32, pipe_status: &[i32], output: &str) {
        let outcome = ToolOutcome {
            exit_code: Some(exit_code),
            pipe_status: pipe_status.to_vec(),
            ..ToolOutcome::ok(output)
        };
        record.finished(&call(BASH, json!({ "command": command })), &outcome);
    }

    /// Each recorded command with its result: `+`, `-`, `0` (not run) or `?`, in capitals for checks, and `!` or `~` where
    /// something was or may have been written since.
    fn shown(record: &ExecutionLog) -> Vec<String> {
        let show = |fact: &CommandFact| {
            let result = match fact.result() {
                facts::CommandResult::Passed => '+',
                facts::CommandResult::Failed => '-',
                facts::CommandResult::NotRun => '0',
                facts::CommandResult::Unknown => '?',
            };
            let stale = match (fact.before_last_write, fact.before_possible_write) {
                (true, _) => "!",
                (false, true) => "~",
                (false, false) => "",
            };
            format!("{}{result}{stale} {}", if fact.is_check { "C" } else { "" }, fact.command)
        };
        record.facts.commands.iter().map(show).collect()
    }

    #[test]
    fn a_check_has_its_own_result_whatever_the_pipeline_says() {
        let mut work = ExecutionLog::default();
        run(&mut work, "pytest | tail -3", 0, &[1, 0], "x");
        run(&mut work, "npx jest | tail", 0, &[0, 0], "Tests:       1 failed, 1 passed, 2 total");
        run(&mut work, "make test || true; echo done", 0, &[], "ok");
        run(&mut work, "make check; echo done", 0, &[], "75% tests passed, 1 tests failed out of 4");
        run(&mut work, "cat log | grep failed", 0, &[0, 0], "=== 1 failed in 0.1s ===");
        run(&mut work, "tox | tail", 0, &[127, 0], "tox: command not found");
        assert_eq!(
            shown(&work),
            [
                "C- pytest | tail -3",
                "C- npx jest | tail",
                "C? make test || true; echo done",
                "C- make check; echo done",
                "+ cat log | grep failed",
                "C0 tox | tail",
            ]
        );
        let summary = work.facts.commands[1].summary.as_ref().unwrap();
        assert_eq!((summary.counts.unwrap().executed, summary.failed), (2, true));
        assert!(!work.facts.may_have_written);
    }

    #[test]
    fn a_runner_inside_a_script_is_a_check_where_it_shows_failures() {
        let script = "python3 -c 'import subprocess; subprocess.run([\"pytest\"])'";
        let heredoc = "bash <<X\npytest\nX";
        let mut work = ExecutionLog::default();
        run(&mut work, heredoc, 1, &[], "=== 1 failed in 0.1s ===");
        run(&mut work, script, 0, &[], "=== 1 failed in 0.1s ===");
        run(&mut work, "python3 -c 'print(1)'", 0, &[], "=== 1 passed in 0.1s ===");
        let shown = shown(&work);
        let marks: Vec<&str> = shown.iter().filter_map(|fact| fact.split(['~', ' ']).next()).collect();
        assert_eq!(marks, ["C-", "C-", "+"]);
    }

    #[test]
    fn a_command_that_may_write_makes_earlier_checks_stale() {
        let mut work = ExecutionLog::default();
        run(&mut work, "pytest", 0, &[], "");
        run(&mut work, "git diff | cat", 0, &[0, 0], "");
        assert_eq!(shown(&work), ["C+ pytest", "+ git diff | cat"]);
        run(&mut work, "python x.py", 0, &[], "");
        assert_eq!(shown(&work)[0], "C+~ pytest");
        run(&mut work, "sed -i s/a/b/ x.py && mypy x.py", 0, &[], "");
        assert_eq!(shown(&work)[0], "C+! pytest");
        assert_eq!(shown(&work)[3], "C+ sed -i s/a/b/ x.py && mypy x.py");
        run(&mut work, "pytest; rm x.py", 0, &[], "");
        assert_eq!(shown(&work)[4], "C?! pytest; rm x.py");
        assert!(work.facts.may_have_written);
    }

    #[test]
    fn the_last_checks_stay_beside_the_last_commands() {
        let mut work = ExecutionLog::default();
        for number in 0..7 {
            run(&mut work, &format!("pytest t{number}"), 0, &[], "");
        }
        for number in 0..6 {
            run(&mut work, &format!("cat f{number}"), 0, &[], "");
        }
        let kept: Vec<&str> = work.facts.commands.iter().map(|fact| fact.command.as_str()).collect();
        assert_eq!(
            kept,
            [
                "pytest t2",
                "pytest t3",
                "pytest t4",
                "pytest t5",
                "pytest t6",
                "cat f1",
                "cat f2",
                "cat f3",
                "cat f4",
                "cat f5",
            ]
        );
    }

    #[test]
    fn what_did_not_run_or_goes_on_is_not_taken_for_a_result() {
        let mut work = ExecutionLog::default();
        let refused = ToolOutcome::error(ErrorCode::PermissionError, "no");
        work.finished(&call(BASH, json!({"command": "pytest"})), &refused);
        assert!(work.facts.commands.is_empty());
        let input = json!({"command": "pytest", "run_in_background": true});
        work.finished(&call(BASH, input), &ToolOutcome::ok("[background job 1: started]"));
        assert_eq!(shown(&work), ["C? pytest"]);
    }
}
