//! The observed facts as text for the arbiter's prompt: figures first, output of commands fenced.

use std::fmt::Write as _;

use super::input::{AgentDescription, RunFacts};
use super::prompt::one_line;
use super::template::fence;
use crate::facts::DiffStat;

/// The run's facts; a line that says so if there are none.
pub(super) fn text(facts: &RunFacts) -> String {
    let RunFacts { changes, verification, repetition, budget, barred, earlier_tasks } = facts;
    let mut text = String::new();
    for earlier in earlier_tasks {
        let _ = writeln!(
            text,
            "- An earlier task of this session, which has ended as {} (the task above is the one to judge):\n{}",
            earlier.status,
            fence("earlier-task", &format!("{}\nHow it ended: {}", earlier.task, earlier.summary)),
        );
    }
    if let Some(changes) = changes {
        let _ = writeln!(text, "- Change of the tree since the run began: {}", diff(changes));
    }
    if let Some(verification) = verification {
        let how = match (verification.passed, verification.is_stale) {
            (true, false) => "passed, and nothing was written since",
            (true, true) => "passed, but something may have been written since",
            (false, false) => "FAILED, and nothing was written since: the task is not done",
            (false, true) => "FAILED when it was last run; something may have been written since",
        };
        let _ = writeln!(text, "- Verification: {how}");
        for run in &verification.commands {
            let exit = run.exit_code.map_or_else(|| "no exit code".to_owned(), |code| format!("exit {code}"));
            let _ = writeln!(text, "    {exit}: {}", one_line(&run.command));
            if !run.passed() {
                let _ = writeln!(text, "{}", fence("verification", &run.output));
            }
        }
    }
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
