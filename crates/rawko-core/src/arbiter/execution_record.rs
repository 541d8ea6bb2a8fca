//! The record of executions: what rawko itself observed, as opposed to what agents claim.
//!
//! It answers the questions that rules and fallback ask. It does not decide which agent works next.

use std::collections::BTreeMap;

use super::input::{ErrorCategory, ExecutionSummary, RunFacts};
use crate::agent::{Finding, Verdict};
use crate::machine::{CommandFact, ExecutionEnd, ExecutionStatus};

/// Exit statuses of a shell for a program that is missing or not executable: nothing was checked.
pub(super) const NOT_RUN: [i32; 2] = [126, 127];

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
        text.chars().filter(|c| !c.is_ascii_digit()).collect()
    }
}

/// The result of the project's checks for the current tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checks {
    /// They ran after the last change, and all exited with 0.
    Passed,
    /// They ran after the last change, and at least one failed.
    Failed,
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

    /// The execution before the last.
    pub(super) fn before_last(&self) -> Option<&'a ExecutionSummary> {
        self.entries.iter().rev().nth(1).copied()
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
            return if verification.passed { Checks::Passed } else { Checks::Failed };
        }
        let mut latest: BTreeMap<&str, Option<i32>> = BTreeMap::new();
        let mut stale = false;
        for entry in self.entries.iter().rev() {
            for fact in entry.commands().iter().rev().filter(|fact| fact.is_check) {
                if fact.before_last_write {
                    stale = true;
                } else {
                    latest.entry(&fact.command).or_insert(fact.exit_code);
                }
            }
            if entry.wrote() {
                break;
            }
        }
        let not_run = |code: &Option<i32>| code.is_some_and(|code| NOT_RUN.contains(&code));
        let known = latest.len();
        latest.retain(|_, code| !not_run(code));
        match (latest.is_empty(), latest.values().all(|code| *code == Some(0))) {
            (false, true) => Checks::Passed,
            (false, false) => Checks::Failed,
            (true, _) if known > 0 => Checks::Unavailable,
            (true, _) if stale => Checks::Stale,
            (true, _) => Checks::None,
        }
    }

    /// The executions, the newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &'a ExecutionSummary> {
        self.entries.iter().rev().copied()
    }

    /// The verification commands that passed on the tree as it is now.
    pub(super) fn passed_verification(&self) -> impl Iterator<Item = &'a str> {
        let fresh = self.run.verification.as_ref().filter(|facts| facts.passed && !facts.is_stale);
        fresh.into_iter().flat_map(|facts| facts.commands.iter().map(|run| run.command.as_str()))
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
        let since = self.entries.iter().rev().take_while(|entry| !entry.wrote());
        since.into_iter().any(|entry| entry.agent == agent)
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
