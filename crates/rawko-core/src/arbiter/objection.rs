//! What stands against a COMPLETE in the record, whoever decides it (`docs/spec/arbiter.md`, "What the decision rests on").

use std::collections::BTreeSet;

use super::execution_record::ExecutionRecord;
use super::input::{ExecutionSummary, RunFacts};
use crate::agent::{Finding, Verdict};
use crate::facts::{self, CommandResult};
use crate::setup::Edition;

/// Findings that are named.
const FINDINGS: usize = 5;

/// Why a task does not count as done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Objection {
    /// The newest check after the last change failed.
    RedCheck(RedCheck),
    /// An agent rejected the work, and neither was the work changed nor did that agent approve it since.
    Rejected {
        /// The agent.
        agent: String,
        /// What it found.
        findings: Vec<Finding>,
    },
    /// The last agent that was to judge the work could not.
    Blocked {
        /// The agent.
        agent: String,
    },
    /// No agent has done or said anything.
    NothingDone,
}

/// A check that failed after the last change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedCheck {
    /// The agent that ran it.
    pub agent: String,
    /// The command.
    pub command: String,
    /// The exit status of the check itself, whatever follows it in a pipeline; absent if it was killed.
    pub exit_code: Option<i32>,
    /// What its runner printed about the result.
    pub summary: Option<String>,
}

impl Objection {
    /// What stands against a COMPLETE after these executions (oldest first), if anything does. A red check does not if
    /// the verification commands of `verify` include its runner: then these decide.
    #[must_use]
    pub fn of(history: &[ExecutionSummary], verify: &[&str], edition: Edition) -> Option<Self> {
        let facts = RunFacts::default();
        Self::in_record(&ExecutionRecord::of(history, None, &facts), verify, edition)
    }

    /// The same for a record. Verification commands that passed on the tree as it is now count as well.
    pub(super) fn in_record(record: &ExecutionRecord<'_>, verify: &[&str], edition: Edition) -> Option<Self> {
        if record.newest_first().all(did_nothing) {
            return Some(Self::NothingDone);
        }
        if let Some(against) = verdict_against(record) {
            return Some(against);
        }
        let verified = verify.iter().copied().chain(record.passed_verification());
        let covered: BTreeSet<String> = verified.flat_map(|command| runners(command, edition)).collect();
        let (red, excused) = red_check(record, edition)?;
        let is_covered = runners(&red.command, edition).is_subset(&covered);
        (!excused && !is_covered).then_some(Self::RedCheck(red))
    }
}

impl RedCheck {
    /// The newest check after these executions (oldest first), if it failed.
    #[must_use]
    pub fn of(history: &[ExecutionSummary], edition: Edition) -> Option<Self> {
        let facts = RunFacts::default();
        red_check(&ExecutionRecord::of(history, None, &facts), edition).map(|(red, _)| red)
    }
}

impl std::fmt::Display for Objection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RedCheck(red) => write!(f, "{red}"),
            Self::Rejected { agent, findings } => {
                write!(f, "{agent} rejected the work, and it was not changed since")?;
                for finding in findings.iter().take(FINDINGS) {
                    write!(f, "\n- {}", finding.line())?;
                }
                Ok(())
            }
            Self::Blocked { agent } => write!(f, "{agent} could not judge the work"),
            Self::NothingDone => f.write_str("no agent has done or said anything"),
        }
    }
}

impl std::fmt::Display for RedCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let command = self.command.split_whitespace().collect::<Vec<_>>().join(" ");
        match self.exit_code {
            Some(code) => write!(f, "the last check was red: `{command}` exited with {code}")?,
            None => write!(f, "the last check was red: `{command}` did not end by itself")?,
        }
        match &self.summary {
            Some(summary) => write!(f, " ({summary})"),
            None => Ok(()),
        }
    }
}

fn did_nothing(entry: &ExecutionSummary) -> bool {
    !entry.wrote()
        && entry.commands().is_empty()
        && entry.output_text().trim().is_empty()
        && entry.verdict().is_none()
}

/// A rejection that no change and no approval of the same agent followed, or a judge that was blocked last.
fn verdict_against(record: &ExecutionRecord<'_>) -> Option<Objection> {
    let mut heard: BTreeSet<&str> = BTreeSet::new();
    for entry in record.newest_first() {
        if let Some(verdict) = entry.verdict()
            && heard.insert(&entry.agent)
        {
            match verdict {
                Verdict::Rejected => {
                    let (agent, findings) = (entry.agent.clone(), entry.findings().to_vec());
                    return Some(Objection::Rejected { agent, findings });
                }
                Verdict::Blocked if heard.len() == 1 => {
                    return Some(Objection::Blocked { agent: entry.agent.clone() });
                }
                Verdict::Blocked | Verdict::Approved => {}
            }
        }
        if entry.wrote() {
            break;
        }
    }
    None
}

/// The newest red check after the last change, where no later run of the same runner was green; and whether it is
/// excused: nothing was changed, and the agent that ran it approves, because running it was its task.
fn red_check(record: &ExecutionRecord<'_>, edition: Edition) -> Option<(RedCheck, bool)> {
    let mut heard: BTreeSet<String> = BTreeSet::new();
    for entry in record.newest_first() {
        for fact in entry.fresh_checks() {
            let result = fact.result();
            if matches!(result, CommandResult::NotRun | CommandResult::Unknown) {
                continue;
            }
            let runners = runners(&fact.command, edition);
            if runners.is_subset(&heard) {
                continue;
            }
            heard.extend(runners);
            if result == CommandResult::Failed {
                let red = RedCheck {
                    agent: entry.agent.clone(),
                    command: fact.command.clone(),
                    exit_code: fact.own_exit_code(),
                    summary: fact.summary.as_ref().map(|summary| summary.line.clone()),
                };
                let excused = !record.wrote() && entry.verdict() == Some(Verdict::Approved);
                return Some((red, excused));
            }
        }
        if entry.wrote() {
            break;
        }
    }
    None
}

/// The runners in a command, each with its subcommand; never empty.
fn runners(command: &str, edition: Edition) -> BTreeSet<String> {
    let known = if edition >= Edition::Third { facts::runners_of(command) } else { BTreeSet::new() };
    if known.is_empty() { BTreeSet::from([facts::runner(command)]) } else { known }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbiter::testing::execution;
    use serde_json::{Value, json};

    fn ran(
        agent: &str,
        iteration: u32,
        wrote: bool,
        verdict: Option<&str>,
        commands: &[(&str, i32)],
    ) -> ExecutionSummary {
        let commands: Vec<Value> = commands
            .iter()
            .map(
                |(command, code)| {
                    json!({"command": command, "exitCode": code, "isCheck": !command.starts_with("grep")})
                },
            )
            .collect();
        let files: &[&str] = if wrote { &["a.rs"] } else { &[] };
        let mut facts = json!({"turns": 1, "commands": commands});
        if let Some(verdict) = verdict {
            facts["verdict"] = json!(verdict);
            facts["findings"] = json!([{"text": "it leaks"}]);
        }
        let output = json!({"summary": "said", "filesModified": files});
        execution(agent, json!({"iteration": iteration, "output": output, "facts": facts}))
    }

    #[track_caller]
    fn check(history: &[ExecutionSummary], verify: &[&str], expected: Option<&str>) {
        let objection =
            Objection::of(history, verify, Edition::NEWEST).map(|objection| objection.to_string());
        assert_eq!(objection.as_deref(), expected);
    }

    const RED: Option<&str> = Some("the last check was red: `pytest -q` exited with 1");

    #[test]
    fn the_newest_check_after_the_last_change_counts() {
        let dev = |code| ran("d", 1, true, None, &[("pytest -q", code)]);
        check(&[dev(0)], &[], None);
        check(&[dev(1)], &[], RED);
        check(&[dev(1), ran("d", 2, true, None, &[])], &[], None);
        check(&[dev(1), ran("t", 2, false, None, &[("python -m pytest tests", 0)])], &[], None);
        check(&[dev(1), ran("t", 2, false, None, &[("cargo test", 0)])], &[], RED);
        check(&[dev(127)], &[], None);
        check(&[ran("d", 1, true, None, &[("grep x y", 1)])], &[], None);
    }

    #[test]
    fn another_runner_behind_the_same_wrapper_takes_nothing_back() {
        let dev = |commands: &[(&str, i32)]| [ran("d", 1, true, None, commands)];
        let red = Some("the last check was red: `uv run pytest` exited with 1");
        check(&dev(&[("uv run pytest", 1), ("uv run ruff check .", 0)]), &[], red);
        check(&dev(&[("uv run pytest", 1), ("timeout 60 uv run pytest -x | tail", 0)]), &[], None);
        check(&dev(&[("uv run pytest", 1)]), &["python -m pytest"], None);
        // A command with two runners is taken back by a later run of each.
        let both = ("ruff check . && pytest", 1);
        let red = Some("the last check was red: `ruff check . && pytest` exited with 1");
        check(&dev(&[both, ("pytest", 0)]), &[], red);
        check(&dev(&[both, ("pytest", 0), ("ruff check .", 0)]), &[], None);
        // As it was in older journals.
        let old =
            Objection::of(&dev(&[("uv run pytest", 1), ("uv run ruff check .", 0)]), &[], Edition::Second);
        assert_eq!(old, None);
    }

    #[test]
    fn verification_outweighs_a_check_of_the_same_runner_only() {
        let red = || [ran("d", 1, true, None, &[("pytest -q", 1)])];
        check(&red(), &["python3 -m pytest"], None);
        check(&red(), &["cargo test"], RED);
    }

    #[test]
    fn a_task_to_run_the_checks_is_done_when_they_ran() {
        check(&[ran("t", 1, false, Some("approved"), &[("pytest -q", 1)])], &[], None);
        check(&[ran("d", 1, false, None, &[("pytest -q", 1)])], &[], RED);
    }

    #[test]
    fn a_rejection_stands_until_a_change_or_an_approval_of_its_agent() {
        let rejected = Some("r rejected the work, and it was not changed since\n- it leaks");
        let dev = |n| ran("d", n, true, None, &[]);
        let judged = |agent: &str, n, verdict| ran(agent, n, false, Some(verdict), &[]);
        check(&[dev(1), judged("r", 2, "rejected")], &["make test"], rejected);
        check(&[dev(1), judged("r", 2, "rejected"), judged("t", 3, "approved")], &[], rejected);
        check(&[dev(1), judged("r", 2, "rejected"), judged("r", 3, "approved")], &[], None);
        check(&[dev(1), judged("r", 2, "rejected"), dev(3)], &[], None);
        check(&[dev(1), judged("r", 2, "blocked")], &[], Some("r could not judge the work"));
        check(&[dev(1), judged("t", 2, "blocked"), judged("r", 3, "approved")], &[], None);
    }

    #[test]
    fn nothing_is_not_done() {
        check(&[], &[], Some("no agent has done or said anything"));
        check(&[execution("d", json!({"output": null}))], &[], Some("no agent has done or said anything"));
    }
}
