//! What in the record contradicts a COMPLETE, regardless of who decides it (`docs/arbiter.md#when-complete-counts`).

use std::collections::BTreeSet;

use super::execution_record::ExecutionRecord;
use super::input::{ExecutionSummary, RunFacts, VerificationFacts};
use crate::agent::{Finding, Verdict};
use crate::facts::{self, CommandEffect, CommandFact, CommandResult};

/// Findings that are named.
const FINDINGS: usize = 5;

/// Why a task does not count as done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Objection {
    /// The newest check after the last change failed, where rawko runs none itself.
    RedCheck(RedCheck),
    /// A check of an agent that rawko ran again finds what it did not find before the run. Its words.
    Worse(String),
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
    /// The most that may have been done to files since.
    pub followed_by: CommandEffect,
}

impl Objection {
    /// The objection to a COMPLETE after these executions (oldest first), if there is one.
    #[must_use]
    pub fn of(history: &[ExecutionSummary], facts: &RunFacts) -> Option<Self> {
        Self::in_record(&ExecutionRecord::of(history, None, facts))
    }

    /// The same for a record. Where rawko runs the checks, those that agents ran are no evidence beside its own.
    pub(super) fn in_record(record: &ExecutionRecord<'_>) -> Option<Self> {
        if record.newest_first().all(did_nothing) {
            return Some(Self::NothingDone);
        }
        if let Some(against) = verdict_against(record) {
            return Some(against);
        }
        if record.is_checked_by_rawko() {
            let worse = record.verification().and_then(VerificationFacts::worse_other);
            return worse.map(|other| Self::Worse(other.line()));
        }
        let covered: BTreeSet<String> = record.passed_verification().flat_map(runners).collect();
        let (red, excused) = red_check(record)?;
        let is_covered = match red_runners(&red.command) {
            Some(runners) => runners.is_subset(&covered),
            None => !covered.is_empty(),
        };
        let may_stand = red.followed_by < CommandEffect::Writes;
        (may_stand && !excused && !is_covered).then_some(Self::RedCheck(red))
    }
}

impl RedCheck {
    /// The newest check after these executions (oldest first), if it failed.
    #[must_use]
    pub fn of(history: &[ExecutionSummary]) -> Option<Self> {
        let facts = RunFacts::default();
        red_check(&ExecutionRecord::of(history, None, &facts)).map(|(red, _)| red)
    }
}

impl std::fmt::Display for Objection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RedCheck(red) => write!(f, "{red}"),
            Self::Worse(line) => f.write_str(line),
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
        if let Some(summary) = &self.summary {
            write!(f, " ({summary})")?;
        }
        f.write_str(match self.followed_by {
            CommandEffect::Reads => "",
            CommandEffect::Unknown => "; something may have been written since, but no check has passed",
            CommandEffect::Writes => "; files were written since, and no check has passed after that",
        })
    }
}

/// The last agent whose rejection was followed by a change, but by no other verdict of its own, in executions of which
/// the newest comes last.
#[must_use]
pub(crate) fn unanswered_rejection(history: &[ExecutionSummary]) -> Option<&str> {
    let mut judges: BTreeSet<&str> = BTreeSet::new();
    let mut changed = false;
    for entry in history.iter().rev() {
        let is_last = entry.verdict().is_some() && judges.insert(&entry.agent);
        if is_last && changed && entry.verdict() == Some(Verdict::Rejected) {
            return Some(&entry.agent);
        }
        changed |= entry.wrote();
    }
    None
}

fn did_nothing(entry: &ExecutionSummary) -> bool {
    !entry.wrote()
        && entry.commands().is_empty()
        && entry.output_text().trim().is_empty()
        && entry.verdict().is_none()
}

/// A rejection that no change and no approval of the same agent followed, or a judge that was blocked last.
fn verdict_against(record: &ExecutionRecord<'_>) -> Option<Objection> {
    let mut judges: BTreeSet<&str> = BTreeSet::new();
    for entry in record.newest_first() {
        if let Some(verdict) = entry.verdict()
            && judges.insert(&entry.agent)
        {
            match verdict {
                Verdict::Rejected => {
                    let (agent, findings) = (entry.agent.clone(), entry.findings().to_vec());
                    return Some(Objection::Rejected { agent, findings });
                }
                Verdict::Blocked if judges.len() == 1 => {
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

/// The newest red check that no later pass supersedes, and whether it is excused: nothing was changed, and the agent that
/// ran it approves, because running it was its task.
fn red_check(record: &ExecutionRecord<'_>) -> Option<(RedCheck, bool)> {
    let mut passes = Passes::default();
    let mut since = CommandEffect::Reads;
    for entry in record.newest_first() {
        for fact in entry.commands().iter().rev() {
            let followed_by = since.max(entry.followed_by(fact));
            match fact.result() {
                CommandResult::Passed => passes.add(fact),
                CommandResult::Failed if fact.is_check && !passes.supersede(fact) => {
                    let red = RedCheck {
                        agent: entry.agent.clone(),
                        command: fact.command.clone(),
                        exit_code: fact.own_exit_code(),
                        summary: fact.summary.as_ref().map(|summary| summary.line.clone()),
                        followed_by,
                    };
                    let excused = !record.wrote() && entry.verdict() == Some(Verdict::Approved);
                    return Some((red, excused));
                }
                CommandResult::Failed | CommandResult::NotRun | CommandResult::Unknown => {}
            }
        }
        if entry.wrote() {
            since = CommandEffect::Writes;
        }
    }
    None
}

/// The commands that passed after the one that is looked at.
#[derive(Default)]
struct Passes<'a> {
    facts: Vec<&'a CommandFact>,
}

impl<'a> Passes<'a> {
    fn add(&mut self, fact: &'a CommandFact) {
        self.facts.push(fact);
    }

    /// Whether they supersede a red check: the same check, or checks of all its runners that ran no fewer tests.
    fn supersede(&self, red: &CommandFact) -> bool {
        if self.facts.iter().any(|fact| facts::are_same_checks(&fact.command, &red.command)) {
            return true;
        }
        let executed = |fact: &CommandFact| Some(fact.summary.as_ref()?.counts?.executed);
        // One that ran no test says nothing.
        let ran = || self.facts.iter().filter(|fact| fact.is_check && executed(fact) != Some(0));
        let enough = executed(red).is_none_or(|tests| ran().any(|fact| executed(fact) >= Some(tests)));
        let own_runners: BTreeSet<String> = ran().flat_map(|fact| runners(&fact.command)).collect();
        let has_runners =
            red_runners(&red.command).map_or(!own_runners.is_empty(), |own| own.is_subset(&own_runners));
        enough && has_runners
    }
}

/// The runners in a red check; `None` where only its output shows that it is one.
fn red_runners(command: &str) -> Option<BTreeSet<String>> {
    Some(facts::runners_of(command)).filter(|runners| !runners.is_empty())
}

/// The runners in a command, each with its subcommand. If no runner is known, the command itself is used.
fn runners(command: &str) -> BTreeSet<String> {
    red_runners(command).unwrap_or_else(|| BTreeSet::from([command.to_owned()]))
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
    fn check(history: &[ExecutionSummary], expected: Option<&str>) {
        let objection = Objection::of(history, &RunFacts::default()).map(|objection| objection.to_string());
        assert_eq!(objection.as_deref(), expected);
    }

    const RED: Option<&str> = Some("the last check was red: `pytest -q` exited with 1");

    #[test]
    fn the_newest_check_after_the_last_change_counts() {
        let dev = |code| ran("d", 1, true, None, &[("pytest -q", code)]);
        check(&[dev(0)], None);
        check(&[dev(1)], RED);
        check(&[dev(1), ran("d", 2, true, None, &[])], None);
        check(&[dev(1), ran("t", 2, false, None, &[("python -m pytest tests", 0)])], None);
        check(&[dev(1), ran("t", 2, false, None, &[("cargo test", 0)])], RED);
        check(&[dev(127)], None);
        check(&[ran("d", 1, true, None, &[("grep x y", 1)])], None);
    }

    #[test]
    fn another_runner_in_the_same_wrapper_takes_nothing_back() {
        let dev = |commands: &[(&str, i32)]| [ran("d", 1, true, None, commands)];
        let red = Some("the last check was red: `uv run pytest` exited with 1");
        check(&dev(&[("uv run pytest", 1), ("uv run ruff check .", 0)]), red);
        check(&dev(&[("uv run pytest", 1), ("timeout 60 uv run pytest -x | tail", 0)]), None);
        // A command with two runners is taken back by a later run of each.
        let both = ("ruff check . && pytest", 1);
        let red = Some("the last check was red: `ruff check . && pytest` exited with 1");
        check(&dev(&[both, ("pytest", 0)]), red);
        check(&dev(&[both, ("pytest", 0), ("ruff check .", 0)]), None);
    }

    /// One execution that changed a file and ran these, each with its exit status and how many tests ran.
    fn counted(commands: &[(&str, i32, Option<u64>)]) -> Vec<ExecutionSummary> {
        let fact = |(command, code, executed): &(&str, i32, Option<u64>)| {
            let mut fact = json!({"command": command, "exitCode": code, "isCheck": !command.contains("<<")});
            if let Some(executed) = executed {
                let counts = json!({"executed": executed, "failed": code, "skipped": 0});
                fact["summary"] = json!({"line": "l", "failed": *code != 0, "counts": counts});
                fact["isCheck"] = json!(!command.contains("<<") || *code != 0);
            }
            fact
        };
        let commands: Vec<Value> = commands.iter().map(fact).collect();
        let facts = json!({"turns": 1, "commands": commands});
        let output = json!({"summary": "said", "filesModified": ["a.py"]});
        vec![execution("d", json!({"iteration": 1, "output": output, "facts": facts}))]
    }

    #[test]
    fn a_green_run_of_fewer_tests_takes_nothing_back() {
        let red = ("pytest -q", 1, Some(5));
        let words = Some("the last check was red: `pytest -q` exited with 1 (l)");
        check(&counted(&[red, ("pytest tests/one.py", 0, Some(2))]), words);
        check(&counted(&[red, ("pytest -k nosuch", 0, Some(0))]), words);
        check(&counted(&[red, ("pytest tests > log", 0, None)]), words);
        check(&counted(&[red, ("pytest -v tests", 0, Some(5))]), None);
        check(&counted(&[red, ("timeout 9 pytest -q > log", 0, None)]), None);
        let uncounted = ("pytest -q", 1, None);
        check(&counted(&[uncounted, ("pytest tests", 0, None)]), None);
        check(
            &counted(&[uncounted, ("pytest -k nosuch", 0, Some(0))]),
            Some("the last check was red: `pytest -q` exited with 1"),
        );
    }

    /// Only what it printed shows that a runner was in it.
    #[test]
    fn a_red_check_in_a_script_is_taken_back_by_any_runner_or_itself() {
        let red = ("bash <<X", 1, Some(3));
        let words = Some("the last check was red: `bash <<X` exited with 1 (l)");
        check(&counted(&[red]), words);
        check(&counted(&[red, ("bash <<X", 0, Some(3))]), None);
        check(&counted(&[red, ("pytest", 0, Some(3))]), None);
        check(&counted(&[red, ("pytest", 0, Some(2))]), words);
    }

    #[test]
    fn a_red_check_before_a_possible_write_stands_and_before_a_write_is_named() {
        let history = |flag: &str| {
            let mut history = counted(&[("pytest -q", 1, None)]);
            let fact = &mut history[0].facts.as_mut().unwrap().commands[0];
            match flag {
                "possible" => fact.before_possible_write = true,
                _ => fact.before_last_write = true,
            }
            history
        };
        let red = "the last check was red: `pytest -q` exited with 1; ";
        let possible = format!("{red}something may have been written since, but no check has passed");
        check(&history("possible"), Some(&possible));
        check(&history("sure"), None);
        let sure = format!("{red}files were written since, and no check has passed after that");
        assert_eq!(RedCheck::of(&history("sure")).map(|red| red.to_string()), Some(sure));
    }

    #[test]
    fn a_rejection_that_only_a_change_followed_is_found() {
        let dev = |n| ran("d", n, true, None, &[]);
        let judged = |agent: &str, n, verdict| ran(agent, n, false, Some(verdict), &[]);
        let rejected = || vec![dev(1), judged("r", 2, "rejected")];
        assert_eq!(unanswered_rejection(&rejected()), None, "it stands");
        assert_eq!(unanswered_rejection(&[rejected(), vec![dev(3)]].concat()), Some("r"));
        let answered = [rejected(), vec![dev(3), judged("r", 4, "approved")]].concat();
        assert_eq!(unanswered_rejection(&answered), None);
        let by_another = [rejected(), vec![dev(3), judged("t", 4, "approved")]].concat();
        assert_eq!(unanswered_rejection(&by_another), Some("r"));
    }

    #[test]
    fn where_rawko_runs_the_checks_only_what_it_saw_counts() {
        let red = || [ran("d", 1, true, None, &[("ruff check .", 1)])];
        let facts = |facts: Value| -> RunFacts { serde_json::from_value(facts).unwrap() };
        let objection = |facts: &RunFacts| Objection::of(&red(), facts).map(|it| it.to_string());
        assert_eq!(objection(&facts(json!({"checks": []}))), None);
        let run =
            |code: i32| json!({"command": "ruff check .", "exitCode": code, "output": "", "durationMs": 1});
        let other = |before: i32, stale: bool| {
            let others = json!([{"now": run(1), "before": run(before)}]);
            let verification = json!({"passed": true, "isStale": stale, "commands": [], "others": others});
            facts(json!({"checks": [], "verification": verification}))
        };
        let words = "`ruff check .` exited with 1: it passed before, so it is worse than before";
        assert_eq!(objection(&other(0, false)).as_deref(), Some(words));
        assert_eq!(objection(&other(0, true)), None, "the tree is another one since");
        assert_eq!(objection(&other(1, false)), None, "red before as well");
    }

    #[test]
    fn a_task_to_run_the_checks_is_done_when_they_ran() {
        check(&[ran("t", 1, false, Some("approved"), &[("pytest -q", 1)])], None);
        check(&[ran("d", 1, false, None, &[("pytest -q", 1)])], RED);
    }

    #[test]
    fn a_rejection_stands_until_a_change_or_an_approval_of_its_agent() {
        let rejected = Some("r rejected the work, and it was not changed since\n- it leaks");
        let dev = |n| ran("d", n, true, None, &[]);
        let judged = |agent: &str, n, verdict| ran(agent, n, false, Some(verdict), &[]);
        check(&[dev(1), judged("r", 2, "rejected")], rejected);
        check(&[dev(1), judged("r", 2, "rejected"), judged("t", 3, "approved")], rejected);
        check(&[dev(1), judged("r", 2, "rejected"), judged("r", 3, "approved")], None);
        check(&[dev(1), judged("r", 2, "rejected"), dev(3)], None);
        check(&[dev(1), judged("r", 2, "blocked")], Some("r could not judge the work"));
        check(&[dev(1), judged("t", 2, "blocked"), judged("r", 3, "approved")], None);
    }

    #[test]
    fn nothing_is_not_done() {
        check(&[], Some("no agent has done or said anything"));
        check(&[execution("d", json!({"output": null}))], Some("no agent has done or said anything"));
    }
}
