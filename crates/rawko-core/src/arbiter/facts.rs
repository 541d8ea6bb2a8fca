//! The observed facts as text for the arbiter's prompt: figures first, output of commands fenced.

use std::fmt::Write as _;

use super::input::{AgentDescription, RunFacts};
use super::template::fence;
use super::template::one_line;
use crate::facts::{CommandFact, DiffStat, OwnStatus, Proof, Standing};

/// Failures that are named.
const FAILURES: usize = 10;

/// The run's facts; a line that says so if there are none.
pub(super) fn text(facts: &RunFacts) -> String {
    let RunFacts {
        changes,
        verification: _,
        checks: _,
        repetition,
        budget,
        barred,
        earlier_tasks,
        lost_work,
        user_messages,
    } = facts;
    let mut text = String::new();
    for earlier in earlier_tasks {
        let _ = writeln!(
            text,
            "- An earlier task of this session, which has ended as {} (the task above is the one to judge):\n{}",
            earlier.status,
            fence("earlier-task", &format!("{}\nHow it ended: {}", earlier.task, earlier.summary)),
        );
    }
    for message in user_messages {
        let _ = writeln!(
            text,
            "- The user has said since the task began (it belongs to the task):\n{}",
            fence("user", message)
        );
    }
    if let Some(work) = lost_work {
        let _ = writeln!(text, "- {}", work.text());
    }
    if let Some(changes) = changes {
        let _ = writeln!(text, "- Change of the tree since the run began: {}", diff(changes));
    }
    text.push_str(&checks(facts));
    if let Some(repetition) = repetition {
        let _ = writeln!(
            text,
            "- Going round in circles, {} times by now: {}. At {} times another agent must work, at {} the run stops. Decide differently.",
            repetition.times,
            one_line(&repetition.what),
            repetition.change_at,
            repetition.stop_at,
        );
    }
    if let Some(budget) = budget {
        let left = [
            budget.tokens_left.map(|tokens| format!("{tokens} tokens")),
            budget.cost_usd_left.map(|dollars| format!("${dollars:.2}")),
            budget.time_left_ms.map(|ms| format!("{} s", ms / 1_000)),
        ];
        let left: Vec<String> = left.into_iter().flatten().collect();
        let _ = writeln!(text, "- Budget left: {}", left.join(", "));
    }
    for barred in barred {
        let _ = writeln!(text, "- {} cannot work now: {}", barred.agent, one_line(&barred.reason));
    }
    if text.is_empty() { "Nothing yet".to_owned() } else { text.trim_end().to_owned() }
}

/// The checks that rawko runs, with their results: before the run, and on the last tree on which they ran. Empty where
/// nothing is known of them.
pub(crate) fn checks(facts: &RunFacts) -> String {
    let mut text = String::new();
    let Some(verification) = &facts.verification else {
        for command in facts.checks.iter().flatten() {
            let _ = writeln!(text, "- Check: `{}` (not run yet)", one_line(command));
        }
        return text;
    };
    let standing = match verification.standing() {
        Standing::Passed if verification.commands.is_empty() => "no check was found",
        Standing::Passed => "passed",
        Standing::RedBefore => "red, as they were before the run",
        Standing::Unavailable => "could not run",
        Standing::Failed => "FAILED: the task is not done",
    };
    let tree = if verification.is_stale {
        "on an earlier tree; something may have been written since"
    } else {
        "on the tree as it is now"
    };
    let _ = writeln!(text, "- Checks that rawko ran: {standing} ({tree})");
    for run in &verification.commands {
        let before = verification.before.iter().find(|before| before.command == run.command);
        let before =
            before.map_or_else(String::new, |before| format!("before the run {}, now ", before.how()));
        let counts = run.counts.map_or_else(String::new, |it| {
            format!(" ({} tests, {} failed, {} skipped)", it.executed, it.failed, it.skipped)
        });
        let _ = writeln!(text, "    `{}`: {before}{}{counts}", one_line(&run.command), one_line(&run.how()));
        if !run.passed() {
            if !run.failures.is_empty() {
                let shown: Vec<&str> = run.failures.iter().take(FAILURES).map(String::as_str).collect();
                let more = run.failures.len().saturating_sub(FAILURES);
                let more = if more > 0 { format!("; {more} more") } else { String::new() };
                let _ = writeln!(text, "    What fails: {}{more}", one_line(&shown.join("; ")));
            }
            if !run.output.is_empty() {
                let _ = writeln!(text, "{}", fence("verification", &run.output));
            }
        }
    }
    for other in &verification.others {
        let _ = writeln!(text, "- Run by an agent, and by rawko again: {}", one_line(&other.line()));
        if other.is_worse() && !other.now.output.is_empty() {
            let _ = writeln!(text, "{}", fence("verification", &other.now.output));
        }
    }
    match verification.proof {
        Some(Proof::Task) => text.push_str("- A check failed before the run and passes now.\n"),
        Some(Proof::Regression) => {
            text.push_str(
                "- What passed before the run still passes; no check shows that the task itself is done.\n",
            );
        }
        None => {}
    }
    text
}

/// The agents' performance in this session; a line that says so if none has worked.
pub(super) fn performance(agents: &[AgentDescription]) -> String {
    let mut text = String::new();
    for agent in agents {
        let Some(performance) = &agent.recent_performance else { continue };
        let _ = write!(
            text,
            "- {}: {:.0} % of its executions succeeded, {:.1} executions a success",
            agent.name, performance.success_rate, performance.iteration_average
        );
        // The times are in the input; here they would only make two equal questions differ.
        if performance.last_failure > performance.last_success {
            text.push_str(", the last one failed");
        }
        text.push('\n');
    }
    if text.is_empty() { "No agent has worked yet".to_owned() } else { text.trim_end().to_owned() }
}

/// A diff stat on one line.
pub(super) fn diff(diff: &DiffStat) -> String {
    if diff.is_empty() {
        return "none".to_owned();
    }
    let DiffStat { files, insertions, deletions, names } = diff;
    let more = usize::try_from(*files).unwrap_or(usize::MAX).saturating_sub(names.len());
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let names =
        if names.is_empty() { String::new() } else { format!(": {}{more}", one_line(&names.join(", "))) };
    format!("{files} files, +{insertions} -{deletions}{names}")
}

/// One command on one line: its own status first, then what led to it.
pub(super) fn command(fact: &CommandFact, is_stale: bool) -> String {
    let what = if fact.is_check { "check" } else { "command" };
    let call = fact.exit_code.map_or_else(|| "no exit code".to_owned(), |code| format!("exit {code}"));
    let mut text = match fact.own_status {
        Some(OwnStatus::Exited(code)) => format!("Recorded {what}: exit {code}"),
        Some(OwnStatus::Hidden) => format!("Recorded {what}: exit status unknown"),
        None => format!("Recorded {what}: {call}"),
    };
    let members: Vec<String> = fact.pipe_status.iter().map(i32::to_string).collect();
    match (fact.own_status, members.as_slice()) {
        (None, []) => {}
        (Some(_), []) => drop(write!(text, " (the whole command: {call})")),
        (_, members) => drop(write!(text, " (its pipeline: {})", members.join(" | "))),
    }
    if let Some(summary) = &fact.summary {
        let verdict = if summary.failed { ", FAILED by its own summary" } else { ", its own summary" };
        let _ = write!(text, "{verdict} `{}`", one_line(&summary.line));
    }
    match (fact.before_last_write, is_stale) {
        (true, _) => text.push_str(" (before the last write)"),
        (false, true) => text.push_str(" (before a command that may have written)"),
        (false, false) => {}
    }
    let _ = write!(text, ": {}", one_line(&fact.command));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[track_caller]
    fn check(fact: Value, is_stale: bool, expected: &str) {
        let fact: CommandFact = serde_json::from_value(fact).unwrap();
        assert_eq!(command(&fact, is_stale), expected);
    }

    #[test]
    fn a_command_is_shown_with_what_became_of_its_check() {
        check(json!({"command": "ls"}), false, "Recorded command: no exit code: ls");
        check(json!({"command": "t", "exitCode": 0, "isCheck": true}), false, "Recorded check: exit 0: t");
        check(
            json!({"command": "t | tail", "exitCode": 0, "isCheck": true, "pipeStatus": [1, 0], "ownStatus": {"exited": 1},
                "summary": {"line": "1 failed\n# Task", "failed": true}}),
            false,
            "Recorded check: exit 1 (its pipeline: 1 | 0), FAILED by its own summary `1 failed # Task`: t | tail",
        );
        check(
            json!({"command": "t | tail", "exitCode": 0, "isCheck": true, "pipeStatus": [0, 0], "summary": {"line": "1 passed"}}),
            false,
            "Recorded check: exit 0 (its pipeline: 0 | 0), its own summary `1 passed`: t | tail",
        );
        check(
            json!({"command": "t; true", "exitCode": 0, "isCheck": true, "ownStatus": "hidden", "beforeLastWrite": true}),
            true,
            "Recorded check: exit status unknown (the whole command: exit 0) (before the last write): t; true",
        );
        check(
            json!({"command": "t", "exitCode": 0, "isCheck": true, "beforePossibleWrite": true}),
            true,
            "Recorded check: exit 0 (before a command that may have written): t",
        );
    }
}
