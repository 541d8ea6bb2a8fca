//! The record of the project's tree: what was changed, what was saved, and what proves the task done.

use super::landing::Landing;
use crate::facts::{DiffStat, TreeInspection, Verification, runs_later};

/// Files written by tools that are listed.
const LISTED: usize = 1_000;
/// Tools that name every file that they write.
const REPORTERS: &[&str] = &["Write", "Edit"];

/// What is known of the tree.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct TreeEvidence {
    /// The last verification, and whether something may have been written since.
    pub(super) verification: Option<(Verification, Freshness)>,
    /// The checks ran, or were tried, before the run ends as failed or because of a limit.
    pub(super) had_last_checks: bool,
    /// The checks ran within the event that is handled now.
    pub(super) just_checked: bool,
    /// What was seen when the tree was last inspected.
    inspection: Option<TreeInspection>,
    /// Files that tools wrote, in order of their first writing; bounded.
    written: Vec<String>,
    /// Whether a call that reports no files of its own has begun since then.
    unseen: bool,
    /// The last execution before which a checkpoint was taken or tried.
    pub(super) checkpoint_tried: u32,
    /// The last execution before which a checkpoint was taken: the tree can be compared with it.
    pub(super) checkpoint_taken: u32,
    /// Sessions that run in the same folder: what they change is seen as the run's own.
    pub(super) beside: Vec<String>,
    /// What became of the work at the end.
    pub(super) landing: Option<Landing>,
}

/// Whether what was seen still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    /// Nothing was written since.
    Fresh,
    /// Something may have been written since.
    Stale,
}

impl TreeEvidence {
    /// Something may have been written: earlier proofs no longer hold.
    pub(super) fn touched(&mut self) {
        self.had_last_checks = false;
        if let Some((_, freshness)) = &mut self.verification {
            *freshness = Freshness::Stale;
        }
    }

    /// The last verification, if it still holds.
    pub(super) fn fresh(&self) -> Option<&Verification> {
        let (verification, freshness) = self.verification.as_ref()?;
        (*freshness == Freshness::Fresh).then_some(verification)
    }

    /// Whether no check that rawko found can run, or an adopted one was run in their place.
    pub(super) fn lacks_checks(&self) -> bool {
        self.verification.as_ref().is_some_and(|(it, _)| it.adopted || it.is_unavailable())
    }

    /// The checks ran. Adopted ones that say nothing leave what is known of those that rawko found. Returns what is known now.
    pub(super) fn checked(&mut self, mut verification: Verification) -> Verification {
        if let Some((found, _)) = &self.verification
            && verification.runs.is_empty()
            && found.is_unavailable()
        {
            verification.runs.clone_from(&found.runs);
        }
        self.verification = Some((verification.clone(), Freshness::Fresh));
        verification
    }

    /// Whether the run changed something, or may have.
    pub(super) fn has_changed(&self) -> bool {
        let changed = self.changes().map(|changes| !changes.is_empty());
        changed.unwrap_or(self.unseen || !self.written.is_empty()) || !self.written.is_empty()
    }

    /// A call of `tool` begins that may change something. Which files, some tools report themselves.
    pub(super) fn changing(&mut self, tool: &str) {
        self.touched();
        self.unseen |= !REPORTERS.contains(&tool);
    }

    /// A call that may have changed something ended without a report.
    pub(super) fn unreported(&mut self) {
        self.unseen = true;
    }

    /// Whether `files` may leave something out, because the tree was not inspected since something may have changed it.
    pub(super) fn is_unseen(&self) -> bool {
        self.unseen
    }

    pub(super) fn wrote(&mut self, files: &[String]) {
        for file in files {
            if self.written.len() < LISTED && !self.written.contains(file) {
                self.written.push(file.clone());
            }
        }
    }

    /// The tree was inspected.
    pub(super) fn inspected(&mut self, inspection: &TreeInspection) {
        if let Some((verification, freshness)) = &mut self.verification
            // What failed may pass since something changed that is not in the tree.
            && verification.passed()
            && !verification.tree_changed
            && verification.tree.as_deref() == Some(inspection.tree.as_str())
        {
            // Later writes are not in the tree, or were undone.
            *freshness = Freshness::Fresh;
        }
        self.inspection = Some(inspection.clone());
        self.unseen = false;
    }

    /// What the run had changed when the tree was last inspected.
    pub(super) fn changes(&self) -> Option<&DiffStat> {
        self.inspection.as_ref().map(|seen| &seen.run)
    }

    /// The same as a patch, where that is known.
    pub(super) fn patch(&self) -> Option<&str> {
        self.inspection.as_ref()?.patch.as_deref()
    }

    /// The files that the run changed, as far as it is known: what the tree showed, commands' work included, and what
    /// tools wrote, which git may ignore.
    pub(super) fn files(&self) -> Vec<String> {
        let changed = self.inspection.as_ref().map(|seen| seen.files.as_slice()).unwrap_or_default();
        changed.iter().chain(self.written.iter().filter(|file| !changed.contains(file))).cloned().collect()
    }

    /// Those of the changed files that programs on the user's machine obey later.
    pub(super) fn runs_later(&self) -> Vec<String> {
        let seen = self.inspection.as_ref().map(|seen| seen.runs_later.as_slice()).unwrap_or_default();
        let is_new = |file: &&String| runs_later(file) && !seen.contains(file);
        // What a tool wrote and the tree does not show any more is gone.
        let written = self.written.iter().filter(|_| self.unseen || self.inspection.is_none());
        seen.iter().chain(written.filter(is_new)).cloned().collect()
    }

    /// How many files the run changed besides those that `files` lists, at least.
    pub(super) fn more_files(&self) -> u32 {
        let all = self.changes().map_or(0, |run| run.files);
        all.saturating_sub(u32::try_from(self.files().len()).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_written_files_is_bounded() {
        let files: Vec<String> = (0..LISTED + 10).map(|number| format!("{number}.txt")).collect();
        let mut tree = TreeEvidence::default();
        tree.wrote(&files);
        tree.wrote(&files);
        assert_eq!(tree.files().len(), LISTED);
    }

    #[test]
    fn what_the_list_leaves_out_is_counted() {
        let mut tree = TreeEvidence::default();
        tree.wrote(&["ignored.txt".to_owned()]);
        let files = vec!["a.txt".to_owned(), "b.txt".to_owned()];
        let run = DiffStat { files: 10, ..DiffStat::default() };
        tree.inspected(&TreeInspection { run, files, ..TreeInspection::default() });
        assert_eq!((tree.files().len(), tree.more_files()), (3, 7));
    }

    #[test]
    fn what_a_command_changed_is_unseen_until_the_tree_is_inspected() {
        let mut tree = TreeEvidence::default();
        tree.changing("Write");
        assert!(!tree.is_unseen(), "it says itself what it wrote");
        tree.changing("Bash");
        tree.changing("Edit");
        assert!(tree.is_unseen());
        tree.inspected(&TreeInspection::default());
        assert!(!tree.is_unseen());
        tree.unreported();
        assert!(tree.is_unseen());
    }
}
