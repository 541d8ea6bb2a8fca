//! Sums up what a run that was stopped by a limit has achieved, in a few sentences: the plan, the files, and the
//! results of the checks. Unknown parts are left out.

use super::ledger::Ledger;
use super::tree::{Freshness, TreeEvidence};
use crate::arbiter::RedCheck;
use crate::error::{ErrorCode, ErrorInfo};
use crate::facts::{CheckResult, CommandEffect, Standing, VERIFY, Verification};

/// Files that are named; the outcome lists all of them.
const FILES: usize = 5;

impl Ledger {
    /// One sentence for each thing that is known, each with a space before it.
    pub(super) fn achieved(&self) -> String {
        let sentences = [
            self.task.plan_progress(),
            self.tree.changed_files(),
            self.tree.last_verification(),
            self.last_check(),
        ];
        sentences.into_iter().flatten().map(|sentence| format!(" {sentence}")).collect()
    }

    /// For a run that failed with `error`: how often the last agent was tried, and what the checks say beyond that.
    pub(super) fn tried(&self, error: &ErrorInfo) -> String {
        let ends_it = error.code == ErrorCode::ConfigError && error.tool.as_deref() == Some(VERIFY);
        let verification = self.tree.last_verification().filter(|_| !ends_it);
        let sentences = [self.task.attempts(), verification, self.last_check()];
        sentences.into_iter().flatten().map(|sentence| format!(" {sentence}")).collect()
    }

    /// An error's message as a sentence that others follow.
    pub(super) fn sentence(message: &str) -> String {
        if message.ends_with(['.', '!', '?']) {
            return message.to_owned();
        }
        format!("{}.", message.trim_end())
    }

    /// For a run that ends as done: checks of agents that are red, and an agent that rejected the work and did not judge it
    /// again. One sentence each.
    pub(super) fn against_the_end(&self) -> String {
        let is_verified = self.tree.fresh().is_some_and(Verification::passed);
        // What passed after a change is newer than the check.
        let red = self.red_check().filter(|red| !is_verified || red.followed_by == CommandEffect::Reads);
        let rejected = self.task.unanswered_rejection().map(|agent| {
            format!("{agent} rejected the work; it was changed since, and {agent} did not judge it again.")
        });
        let fresh = self.tree.fresh();
        // The doubt names it.
        let worst = fresh.and_then(Verification::worst).map(|run| &run.command);
        let others = fresh.into_iter().flat_map(|verification| &verification.others);
        let others = others.filter(|other| !other.now.passed() && Some(&other.now.command) != worst);
        let others = others.map(|other| format!("{}.", other.line()));
        let sentences = others.chain(red.map(|red| as_sentence(&red))).chain(rejected);
        sentences.map(|sentence| format!(" {sentence}")).collect()
    }

    fn last_check(&self) -> Option<String> {
        self.red_check().map(|red| as_sentence(&red))
    }
}

impl TreeEvidence {
    fn changed_files(&self) -> Option<String> {
        let files = self.files();
        let named = files.iter().take(FILES).cloned().collect::<Vec<_>>().join(", ");
        let more = match files.len().saturating_sub(FILES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!files.is_empty()).then(|| format!("Files changed: {named}{more}."))
    }

    fn last_verification(&self) -> Option<String> {
        let (verification, freshness) = self.verification.as_ref()?;
        let how = match verification.worst() {
            None if verification.runs.is_empty() => return None,
            None => match verification.worse_other() {
                Some(other) => format!("The checks passed, but {}", other.line()),
                None => "The checks passed".to_owned(),
            },
            Some(run) if verification.standing() == Standing::RedBefore => {
                format!("The check `{}` {}, as before the run", run.command, run.how())
            }
            Some(run) => format!("The check `{}` {}", run.command, run.how()),
        };
        let since = match freshness {
            Freshness::Fresh => "",
            Freshness::Stale => "; something may have been written since",
        };
        Some(format!("{how}{since}."))
    }

    /// What the checks of a verified run prove.
    pub(super) fn proven(&self) -> String {
        let Some(verification) = self.fresh() else { return String::new() };
        let list = |commands: Vec<&str>| {
            commands.iter().map(|command| format!("`{command}`")).collect::<Vec<_>>().join(", ")
        };
        let all = list(verification.runs.iter().map(|run| run.command.as_str()).collect());
        let passes = match verification.runs.len() {
            _ if verification.adopted => ", which an agent ran and rawko ran again, passes",
            1 => " passes",
            _ => " pass",
        };
        let before = verification.runs.iter().filter_map(|run| verification.before(run));
        let red: Vec<&str> = before
            .clone()
            .filter(|run| run.result() == CheckResult::Failed)
            .map(|run| run.command.as_str())
            .collect();
        let how = if !red.is_empty() {
            format!("{} failed before the run", list(red))
        } else if let Some(first) = verification.new_tests.first() {
            let more = verification.new_tests.len() - 1;
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("a test that the run added fails without its change: {first}{more}")
        } else if before.count() == 0 {
            "how it was before the run is not known, and that the task is done is the agents' word".to_owned()
        } else {
            "as before the run; that the task is done is the agents' word".to_owned()
        };
        format!("Verified: {all}{passes}; {how}.")
    }
}

fn as_sentence(red: &RedCheck) -> String {
    let words = red.to_string();
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}
