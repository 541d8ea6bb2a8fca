//! The record of executions: what rawko itself observed, as opposed to what agents claim.
//!
//! It answers the questions that rules and fallback ask. It does not decide which agent works next.

use std::collections::BTreeMap;

use super::input::{ErrorCategory, ExecutionSummary, RecordedFacts, RunFacts, VerificationFacts};
use crate::agent::{Finding, Verdict};
use crate::facts::{CommandEffect, CommandResult, Standing};
use crate::machine::{CommandFact, ExecutionEnd, ExecutionStatus};
use crate::text::without_digits;

impl ExecutionSummary {
    /// How it ended, where that was recorded.
    pub(super) fn ended(&self) -> Option<ExecutionEnd> {
        self.facts.as_ref()?.ended
    }

    /// Whether it changed files.
    pub(super) fn wrote(&self) -> bool {
        let by_tools = self.output.as_ref().is_some_and(|output| !output.files_modified.is_empty());
        let diff = self.facts.as_ref().and_then(|facts| facts.diff.as_ref());
        by_tools || diff.is_some_and(|diff| !diff.is_empty())
    }

    /// The last commands that it ran.
    pub(super) fn commands(&self) -> &[CommandFact] {
        self.facts.as_ref().map_or(&[], |facts| &facts.commands)
    }

    /// The most that commands after this one may have done to files in the same execution.
    pub(super) fn followed_by(&self, fact: &CommandFact) -> CommandEffect {
        let is_stale = self.facts.as_ref().is_some_and(|facts| facts.is_stale(fact));
        match (fact.before_last_write, is_stale) {
            (true, _) => CommandEffect::Writes,
            (false, true) => CommandEffect::Unknown,
            (false, false) => CommandEffect::Reads,
        }
    }

    /// The tools that the policy denied it.
    pub(super) fn denied(&self) -> &[String] {
        self.facts.as_ref().map_or(&[], |facts| &facts.denied_tools)
    }

    /// The verdict that it gave, if it gave one.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        self.facts.as_ref()?.verdict
    }

    /// What it found, with the verdict.
    pub(super) fn findings(&self) -> &[Finding] {
        self.facts.as_ref().map_or(&[], |facts| &facts.findings)
    }

    /// The agent's own text: whole if the input has it, else its summary.
    pub(super) fn output_text(&self) -> &str {
        let Some(output) = &self.output else { return "" };
        output.full.as_deref().unwrap_or(&output.summary)
    }

    /// Identifies a failure: the error message, else the agent's text, without digits.
    fn failure(&self) -> String {
        let text = self.error.as_ref().map_or_else(|| self.output_text(), |error| &error.message);
        without_digits(text)
    }
}

/// The result of the project's checks for the current tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checks {
    /// They ran after the last change, and all exited with 0.
    Passed,
    /// They ran after the last change, and at least one failed.
    Failed,
    /// What fails failed before the run as well.
    RedBefore,
    /// Their programs are missing.
    Unavailable,
    /// They ran, but files have changed since.
    Stale,
    /// None is known to have run.
    None,
}

/// The executions in the input, oldest first and including the last one, and the facts of the run.
#[derive(Debug, Clone)]
pub(super) struct ExecutionRecord<'a> {
    entries: Vec<&'a ExecutionSummary>,
    run: &'a RunFacts,
}

impl<'a> ExecutionRecord<'a> {
    pub(super) fn of(
        history: &'a [ExecutionSummary],
        last: Option<&'a ExecutionSummary>,
        run: &'a RunFacts,
    ) -> Self {
        let mut entries: Vec<&ExecutionSummary> = history.iter().collect();
        // An input for evaluation has the last execution twice: in short and whole.
        if let Some(last) = last {
            entries.retain(|entry| entry.iteration != last.iteration);
            entries.push(last);
        }
        Self { entries, run }
    }

    /// The last execution.
    pub(super) fn last(&self) -> Option<&'a ExecutionSummary> {
        self.entries.last().copied()
    }

    /// Whether files were changed, as far as the input shows.
    pub(super) fn wrote(&self) -> bool {
        let changed = self.run.changes.as_ref().is_some_and(|changes| !changes.is_empty());
        changed || self.entries.iter().any(|entry| entry.wrote())
    }

    /// The last agent that changed files.
    pub(super) fn last_writer(&self) -> Option<&'a str> {
        self.entries.iter().rev().find(|entry| entry.wrote()).map(|entry| entry.agent.as_str())
    }

    /// The result of the checks for the current tree. A verification that is not stale outweighs them.
    pub(super) fn checks(&self) -> Checks {
        if let Some(verification) = self.run.verification.as_ref().filter(|facts| !facts.is_stale) {
            match verification.standing() {
                Standing::Passed if verification.worse_other().is_some() => return Checks::Failed,
                // Where there are none, what agents ran is all that is known.
                Standing::Passed if verification.commands.is_empty() && self.is_checked_by_rawko() => {}
                Standing::Passed => return Checks::Passed,
                Standing::RedBefore => return Checks::RedBefore,
                Standing::Unavailable => return Checks::Unavailable,
                Standing::Failed => return Checks::Failed,
            }
        }
        let mut latest: BTreeMap<&str, CommandResult> = BTreeMap::new();
        let mut stale = false;
        for (fact, is_stale) in self.facts_of_this_tree().filter(|(fact, _)| fact.is_check) {
            if is_stale {
                stale = true;
            } else {
                latest.entry(&fact.command).or_insert(fact.result());
            }
        }
        let has = |wanted: CommandResult| latest.values().any(|result| *result == wanted);
        if has(CommandResult::Failed) {
            Checks::Failed
        } else if has(CommandResult::Passed) {
            Checks::Passed
        } else if has(CommandResult::NotRun) {
            Checks::Unavailable
        } else if stale {
            Checks::Stale
        } else {
            Checks::None
        }
    }

    /// Whether a command that is no known check failed on the current tree, and did not succeed since.
    pub(super) fn has_unknown_failure(&self) -> bool {
        let mut latest: BTreeMap<&str, CommandResult> = BTreeMap::new();
        let is_unknown = |fact: &CommandFact| {
            !fact.is_check && fact.effect.is_some_and(|effect| effect != CommandEffect::Reads)
        };
        for (fact, _) in self.facts_of_this_tree().filter(|(fact, _)| is_unknown(fact)) {
            // Its failure counts although another command may have written since.
            if !fact.before_last_write {
                latest.entry(&fact.command).or_insert(fact.result());
            }
        }
        latest.values().any(|result| matches!(result, CommandResult::Failed | CommandResult::NotRun))
    }

    /// The commands of the last execution that changed files and of those after it, newest first, and whether something
    /// was written since.
    fn facts_of_this_tree(&self) -> impl Iterator<Item = (&'a CommandFact, bool)> + '_ {
        let mut is_over = false;
        let entries = self.entries.iter().rev().take_while(move |entry| {
            let facts = entry.facts.as_ref();
            let changes = entry.wrote() || facts.is_some_and(RecordedFacts::may_have_changed);
            let was_over = is_over;
            is_over |= changes;
            !was_over
        });
        entries
            .filter_map(|entry| entry.facts.as_ref())
            .flat_map(|facts| facts.commands.iter().rev().map(move |fact| (fact, facts.is_stale(fact))))
    }

    /// The executions, the newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &'a ExecutionSummary> {
        self.entries.iter().rev().copied()
    }

    /// The verification commands that passed on the tree as it is now.
    pub(super) fn passed_verification(&self) -> impl Iterator<Item = &'a str> {
        let fresh = self.verification().filter(|facts| facts.passed);
        fresh.into_iter().flat_map(|facts| facts.commands.iter().map(|run| run.command.as_str()))
    }

    /// The last verification, if it holds for the tree as it is now.
    pub(super) fn verification(&self) -> Option<&'a VerificationFacts> {
        self.run.verification.as_ref().filter(|facts| !facts.is_stale)
    }

    /// Whether rawko runs the checks itself: then nothing that agents saw of checks counts beside it.
    pub(super) fn is_checked_by_rawko(&self) -> bool {
        self.run.checks.is_some()
    }

    /// The executions after the last one that changed files, the newest first.
    pub(super) fn since_change(&self) -> impl Iterator<Item = &'a ExecutionSummary> {
        self.newest_first().take_while(|entry| !entry.wrote())
    }

    /// How often the agent of the last execution has rejected the work.
    pub(super) fn rejections(&self) -> usize {
        let Some(last) = self.last() else { return 0 };
        let alike = |entry: &&&ExecutionSummary| {
            entry.agent == last.agent && entry.verdict() == Some(Verdict::Rejected)
        };
        self.entries.iter().filter(alike).count()
    }

    /// How many executions in a row, up to the last, had the same agent.
    pub(super) fn in_a_row(&self) -> usize {
        let Some(last) = self.last() else { return 0 };
        self.entries.iter().rev().take_while(|entry| entry.agent == last.agent).count()
    }

    /// Whether `agent` has worked since the last change of files.
    pub(super) fn worked_since_change(&self, agent: &str) -> bool {
        self.since_change().any(|entry| entry.agent == agent)
    }

    /// How often the agent of the last execution failed in the same way, including this time; 0 if it did not fail.
    /// Provider errors do not count.
    pub(super) fn same_failures(&self) -> usize {
        let Some(last) = self.last().filter(|last| last.status.is_failure()) else { return 0 };
        if last.error.as_ref().is_some_and(|error| error.category == ErrorCategory::ProviderError) {
            return 0;
        }
        let failure = last.failure();
        let alike = |entry: &&&ExecutionSummary| {
            entry.status.is_failure() && entry.agent == last.agent && entry.failure() == failure
        };
        self.entries.iter().filter(alike).count()
    }

    /// How many executions of the last agent in a row, up to the last, failed.
    pub(super) fn failures_in_a_row(&self) -> usize {
        let Some(last) = self.last() else { return 0 };
        let failed = |entry: &&&ExecutionSummary| {
            entry.agent == last.agent
                && matches!(entry.status, ExecutionStatus::Failure | ExecutionStatus::Timeout)
                && entry.error.as_ref().is_none_or(|error| error.category != ErrorCategory::ProviderError)
        };
        self.entries.iter().rev().take_while(failed).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbiter::testing::execution;
    use serde_json::{Value, json};

    fn command(command: &str, code: i32) -> Value {
        json!({"command": command, "exitCode": code, "isCheck": true})
    }

    fn ran(agent: &str, iteration: u32, wrote: bool, commands: &[Value]) -> ExecutionSummary {
        let files: &[&str] = if wrote { &["a"] } else { &[] };
        let output = json!({"summary": "s", "filesModified": files});
        execution(
            agent,
            json!({"iteration": iteration, "output": output, "facts": {"turns": 1, "commands": commands}}),
        )
    }

    #[track_caller]
    fn check(entries: &[ExecutionSummary], expected: Checks) {
        assert_eq!(ExecutionRecord::of(entries, None, &RunFacts::default()).checks(), expected);
    }

    #[test]
    fn only_what_ran_after_the_last_change_counts() {
        let (green, red) = (command("t", 0), command("t", 101));
        check(&[], Checks::None);
        check(&[ran("d", 1, true, std::slice::from_ref(&green))], Checks::Passed);
        check(&[ran("d", 1, true, &[red.clone(), green.clone()])], Checks::Passed);
        check(&[ran("d", 1, true, &[green.clone(), red.clone()])], Checks::Failed);
        check(&[ran("d", 1, true, &[green.clone(), command("lint", 1)])], Checks::Failed);
        check(&[ran("t", 1, false, std::slice::from_ref(&green)), ran("d", 2, true, &[])], Checks::None);
        check(&[ran("d", 1, true, &[]), ran("t", 2, false, std::slice::from_ref(&red))], Checks::Failed);
        check(&[ran("d", 1, true, std::slice::from_ref(&red)), ran("t", 2, false, &[green])], Checks::Passed);
        check(&[ran("t", 1, false, &[command("t", 127)])], Checks::Unavailable);
        let mut before = red;
        before["beforeLastWrite"] = json!(true);
        check(&[ran("d", 1, true, &[before])], Checks::Stale);
        check(&[ran("r", 1, false, &[json!({"command": "grep x", "exitCode": 1})])], Checks::None);
    }

    fn observed(agent: &str, facts: Value) -> ExecutionSummary {
        execution(agent, json!({"output": {"summary": "s"}, "facts": facts}))
    }

    #[test]
    fn a_check_counts_by_its_own_status_and_summary() {
        let one = |extra: Value| {
            let mut fact = command("t | tail", 0);
            fact.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            [observed("d", json!({"turns": 1, "commands": [fact]}))]
        };
        check(&one(json!({"ownStatus": {"exited": 1}})), Checks::Failed);
        check(&one(json!({"ownStatus": {"exited": 127}})), Checks::Unavailable);
        check(&one(json!({"ownStatus": "hidden"})), Checks::None);
        check(
            &one(json!({"ownStatus": "hidden", "summary": {"line": "1 failed", "failed": true}})),
            Checks::Failed,
        );
        check(&one(json!({"summary": {"line": "1 passed"}})), Checks::Passed);
    }

    #[test]
    fn a_possible_write_counts_unless_the_tree_is_known_to_be_unchanged() {
        let mut green = command("t", 0);
        let diff = |files: u32| json!({"files": files, "insertions": 0, "deletions": 0});
        let entry = |fact: &Value, diff: Option<Value>| {
            observed("t", json!({"turns": 1, "commands": [fact], "mayHaveWritten": true, "diff": diff}))
        };
        // An earlier execution's check, and one that may have written.
        let earlier = || ran("t", 1, false, &[command("t", 0)]);
        let wrote = |diff: Option<Value>| {
            let mut entry = observed("d", json!({"turns": 1, "mayHaveWritten": true, "diff": diff}));
            entry.iteration = 2;
            entry
        };
        check(&[earlier(), wrote(Some(diff(0)))], Checks::Passed);
        check(&[earlier(), wrote(Some(diff(1)))], Checks::None);
        check(&[earlier(), wrote(None)], Checks::None);
        // The same within one execution.
        check(&[entry(&green, None)], Checks::Passed);
        green["beforePossibleWrite"] = json!(true);
        check(&[entry(&green, None)], Checks::Stale);
        check(&[entry(&green, Some(diff(1)))], Checks::Stale);
        check(&[entry(&green, Some(diff(0)))], Checks::Passed);
    }

    #[test]
    fn an_unknown_command_that_failed_is_remembered_until_it_succeeds_or_files_are_written() {
        let check = |commands: Value, expected: bool| {
            let entries = [observed("d", json!({"turns": 1, "commands": commands}))];
            let run = RunFacts::default();
            assert_eq!(ExecutionRecord::of(&entries, None, &run).has_unknown_failure(), expected);
        };
        let ran = |code: i32, effect: &str| json!({"command": "./demo", "exitCode": code, "effect": effect});
        check(json!([ran(1, "unknown")]), true);
        check(json!([ran(0, "unknown")]), false);
        check(json!([ran(1, "unknown"), ran(0, "unknown")]), false);
        check(json!([ran(1, "reads")]), false);
        check(json!([{"command": "./demo", "exitCode": 1}]), false);
        let mut before = ran(1, "unknown");
        before["beforeLastWrite"] = json!(true);
        check(json!([before]), false);
    }

    #[test]
    fn a_fresh_verification_outweighs_the_agents_commands() {
        let entries = [ran("d", 1, true, &[command("t", 0)])];
        let facts = |stale: bool| -> RunFacts {
            let verification = json!({"passed": false, "isStale": stale, "commands": []});
            serde_json::from_value(json!({ "verification": verification })).unwrap()
        };
        assert_eq!(ExecutionRecord::of(&entries, None, &facts(false)).checks(), Checks::Failed);
        assert_eq!(ExecutionRecord::of(&entries, None, &facts(true)).checks(), Checks::Passed);
    }

    #[test]
    fn failures_are_alike_whatever_figures_they_hold() {
        let failed = |agent: &str, iteration: u32, message: &str, category: &str| {
            let error = json!({"message": message, "category": category, "recoveryOptions": []});
            execution(agent, json!({"iteration": iteration, "status": "failure", "error": error}))
        };
        let check = |entries: &[ExecutionSummary], same: usize, in_a_row: usize| {
            let run = RunFacts::default();
            let record = ExecutionRecord::of(entries, None, &run);
            assert_eq!((record.same_failures(), record.failures_in_a_row()), (same, in_a_row));
        };
        let tool = "tool_failure";
        check(&[failed("d", 1, "line 3", tool), failed("d", 2, "line 14", tool)], 2, 2);
        check(&[failed("d", 1, "one", tool), failed("d", 2, "two", tool)], 1, 2);
        check(
            &[failed("t", 1, "x", tool), execution("d", json!({"iteration": 2})), failed("t", 3, "x", tool)],
            2,
            1,
        );
        check(&[failed("d", 1, "429", "provider_error"), failed("d", 2, "429", "provider_error")], 0, 0);
        check(&[failed("d", 1, "x", tool), execution("d", json!({"iteration": 2}))], 0, 0);
    }
}
