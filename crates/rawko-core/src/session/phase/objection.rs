//! A COMPLETE against the record (`docs/arbiter.md#what-the-decision-rests-on`): it counts as a failed
//! verification, regardless of who decided it.

use std::collections::BTreeSet;

use crate::arbiter::{Objection, RedCheck, SELECT_HISTORY};
use crate::error::{ErrorCode, ErrorInfo};
use crate::facts::{self, CommandEffect, CommandResult, RECORD};
use crate::session::ledger::Ledger;

/// Checks of agents that rawko runs as well, the last ones.
const OTHERS: usize = 5;

impl Ledger {
    /// The newest check of the run, if it is red. Where rawko runs the checks itself, it says what they found instead.
    pub(in crate::session) fn red_check(&self) -> Option<RedCheck> {
        if self.setup.verify.is_some() { None } else { self.task.newest_red_check() }
    }

    /// The commands that verify the run, and whether they were adopted: where rawko found none that can run, all tests of the
    /// test runner that an agent ran last with success.
    pub(in crate::session) fn checks(&self) -> (Vec<String>, bool) {
        let Some(verify) = &self.setup.verify else { return (Vec::new(), false) };
        let can_run = !verify.commands.is_empty() && !self.tree.lacks_checks();
        if !verify.found || can_run || !self.tree.has_changed() {
            return (verify.commands.clone(), false);
        }
        let project = &self.setup.place.directory;
        let commands = self.task.context().history.iter().rev().flat_map(|it| it.facts.commands.iter().rev());
        let mut green = commands.filter(|fact| fact.is_check && fact.result() == CommandResult::Passed);
        match green.find_map(|fact| facts::whole_suite_of(&fact.command, project)) {
            Some(adopted) if !verify.commands.contains(&adopted) => (vec![adopted], true),
            _ => (verify.commands.clone(), false),
        }
    }

    /// Checks that agents ran and saw fail last, and that are none of `commands`: rawko runs them as well.
    pub(in crate::session) fn other_checks(&self, commands: &[String]) -> Vec<String> {
        let own: BTreeSet<String> = commands.iter().flat_map(|command| facts::runners_of(command)).collect();
        let project = &self.setup.place.directory;
        let history = &self.task.context().history;
        let recent = history.get(history.len().saturating_sub(SELECT_HISTORY)..).unwrap_or_default();
        let mut red: Vec<String> = Vec::new();
        for fact in recent.iter().flat_map(|entry| &entry.facts.commands).filter(|fact| fact.is_check) {
            let is_red = fact.result() == CommandResult::Failed;
            for line in facts::check_lines(&fact.command, project) {
                red.retain(|known| *known != line);
                if is_red && !facts::runners_of(&line).is_subset(&own) {
                    red.push(line);
                }
            }
        }
        red.split_off(red.len().saturating_sub(OTHERS))
    }

    /// Whether an agent saw one of the verification commands fail, and nothing is known to have been written since.
    pub(in crate::session) fn has_seen_red(&self, commands: &[String]) -> bool {
        let is_of_now = |red: &RedCheck| {
            red.followed_by == CommandEffect::Reads
                && commands.iter().any(|command| facts::are_same_checks(command, &red.command))
        };
        self.task.newest_red_check().as_ref().is_some_and(is_of_now)
    }

    /// The failure that a COMPLETE against the record counts as, and whether it ends the run because nothing changes.
    pub(super) fn refuse_completion(&mut self, objection: &Objection) -> (ErrorInfo, bool) {
        let tree = self.tree.changes().map(|changes| changes.names.join("\n")).unwrap_or_default();
        if let Some(stalled) = self.watch_refusal(&objection.to_string(), &tree) {
            return (stalled, true);
        }
        let error = ErrorInfo::new(ErrorCode::ToolFailure, format!("The task is not done: {objection}."));
        let error = ErrorInfo { tool: Some(RECORD.to_owned()), retry_after_ms: Some(0), ..error };
        match objection {
            Objection::RedCheck(RedCheck { command, exit_code, .. }) => {
                (error.of_command(Some(command.clone()), *exit_code), false)
            }
            Objection::Worse(_)
            | Objection::Rejected { .. }
            | Objection::Blocked { .. }
            | Objection::NothingDone => (error, false),
        }
    }
}
