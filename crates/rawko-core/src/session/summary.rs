//! What a run that was stopped by a limit has achieved, in a few sentences: the plan, the files, the last verification
//! and the last report. What is not known is left out.

use super::ledger::Ledger;
use super::tree::Freshness;
use crate::machine::StepStatus;
use crate::text::truncate;

/// Files that are named; the outcome lists all of them.
const FILES: usize = 5;
/// Characters of the last report.
const REPORT_CHARS: usize = 1_000;

impl Ledger {
    /// One sentence for each thing that is known, each with a space before it.
    pub(super) fn achieved(&self) -> String {
        let sentences =
            [self.plan_progress(), self.changed_files(), self.last_verification(), self.last_report()];
        sentences.into_iter().flatten().map(|sentence| format!(" {sentence}")).collect()
    }

    fn plan_progress(&self) -> Option<String> {
        let steps = &self.machine.context().plan.as_ref().filter(|plan| !plan.steps.is_empty())?.steps;
        let count = |status| steps.iter().filter(|step| step.status == status).count();
        let (done, skipped) = (count(StepStatus::Complete), count(StepStatus::Skipped));
        let skipped = if skipped == 0 { String::new() } else { format!(", {skipped} left out") };
        Some(format!("Plan: {done} of {} steps done{skipped}.", steps.len()))
    }

    fn changed_files(&self) -> Option<String> {
        let files = self.tree.files();
        let named = files.iter().take(FILES).cloned().collect::<Vec<_>>().join(", ");
        let more = match files.len().saturating_sub(FILES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!files.is_empty()).then(|| format!("Files written: {named}{more}."))
    }

    fn last_verification(&self) -> Option<String> {
        let (verification, freshness) = self.tree.verification.as_ref()?;
        let how = match verification.runs.iter().find(|run| !run.passed()) {
            None => "passed".to_owned(),
            Some(failed) => format!("failed at `{}`", failed.command),
        };
        let since = match freshness {
            Freshness::Fresh => "",
            Freshness::Stale => "; something may have been written since",
        };
        Some(format!("The last verification {how}{since}."))
    }

    fn last_report(&self) -> Option<String> {
        let output = self.machine.context().history.iter().rev().find_map(|entry| entry.output.as_deref())?;
        Some(format!("Last report: {}", truncate(output, REPORT_CHARS)))
    }
}
