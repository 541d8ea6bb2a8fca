//! A COMPLETE against the record (`docs/spec/arbiter.md`, "What the decision rests on"): it counts as a failed
//! verification, whoever decided it.

use crate::arbiter::{Objection, RedCheck, SELECT_HISTORY, recent_history, unanswered_rejection};
use crate::error::{ErrorCode, ErrorInfo};
use crate::facts::{self, CommandEffect, RECORD};
use crate::session::ledger::Ledger;

impl Ledger {
    /// What the record has against a COMPLETE. The verification commands that are still to run decide about the checks
    /// of their own runners.
    pub(in crate::session) fn objection(&self) -> Option<Objection> {
        let history = recent_history(self.machine.context(), &self.statistics, SELECT_HISTORY);
        let verify = self.setup.verify.as_ref().map_or(&[][..], |verify| &verify.commands);
        let verify: Vec<&str> = verify.iter().map(String::as_str).collect();
        Objection::of(&history, &verify)
    }

    /// The newest check of the run, if it is red.
    pub(in crate::session) fn red_check(&self) -> Option<RedCheck> {
        let history = recent_history(self.machine.context(), &self.statistics, SELECT_HISTORY);
        RedCheck::of(&history)
    }

    /// Whether an agent saw one of the verification commands fail, and nothing is known to have been written since.
    pub(in crate::session) fn has_seen_red(&self, commands: &[String]) -> bool {
        let is_of_now = |red: &RedCheck| {
            red.followed_by == CommandEffect::Reads
                && commands.iter().any(|command| facts::are_same_checks(command, &red.command))
        };
        self.red_check().as_ref().is_some_and(is_of_now)
    }

    /// The agent whose rejection was followed by a change and by no other verdict of its own.
    pub(in crate::session) fn unanswered_rejection(&self) -> Option<String> {
        let history = recent_history(self.machine.context(), &self.statistics, SELECT_HISTORY);
        unanswered_rejection(&history).map(str::to_owned)
    }

    /// How often in a row, up to now, this agent's executions have failed.
    pub(in crate::session) fn failures_of(&self, agent: &str) -> u32 {
        let own = self.machine.context().history.iter().rev().filter(|entry| entry.agent == agent);
        let failed = own.take_while(|entry| entry.result.is_failure()).count();
        u32::try_from(failed).unwrap_or(u32::MAX)
    }

    /// The failure that a COMPLETE against the record counts as, and whether it ends the run because nothing changes.
    pub(super) fn refuse_completion(&mut self, objection: &Objection) -> (ErrorInfo, bool) {
        let tree = self.tree.changes.as_ref().map(|changes| changes.names.join("\n")).unwrap_or_default();
        if let Some(stalled) = self.watch_refusal(&objection.to_string(), &tree) {
            return (stalled, true);
        }
        let error = ErrorInfo::new(ErrorCode::ToolFailure, format!("The task is not done: {objection}."));
        let error = ErrorInfo { tool: Some(RECORD.to_owned()), retry_after_ms: Some(0), ..error };
        match objection {
            Objection::RedCheck(RedCheck { command, exit_code, .. }) => {
                (error.of_command(Some(command.clone()), *exit_code), false)
            }
            Objection::Rejected { .. } | Objection::Blocked { .. } | Objection::NothingDone => (error, false),
        }
    }
}
