//! What is known of the project's tree: what was changed, what was saved, and what proves the task done.

use crate::facts::{DiffStat, TreeInspection, Verification};
use crate::setup::Edition;

/// Files written by tools that are listed. In older journals all of them are.
const LISTED: usize = 1_000;

/// What is known of the tree.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct TreeEvidence {
    /// The last verification, and whether something may have been written since.
    pub(super) verification: Option<(Verification, Freshness)>,
    /// What the run had changed when the tree was last inspected.
    pub(super) changes: Option<DiffStat>,
    /// Files that tools wrote, in order of their first writing; bounded.
    written: Vec<String>,
    /// The files that the run had changed when the tree was last inspected, by path.
    changed: Vec<String>,
    /// The last execution before which a checkpoint was taken or tried.
    pub(super) checkpoint_tried: u32,
    /// The last execution before which a checkpoint was taken: the tree can be compared with it.
    pub(super) checkpoint_taken: u32,
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
        if let Some((_, freshness)) = &mut self.verification {
            *freshness = Freshness::Stale;
        }
    }

    /// The last verification, if it still holds.
    pub(super) fn fresh(&self) -> Option<&Verification> {
        let (verification, freshness) = self.verification.as_ref()?;
        (*freshness == Freshness::Fresh).then_some(verification)
    }

    pub(super) fn wrote(&mut self, files: &[String], edition: Edition) {
        let most = if edition >= Edition::Third { LISTED } else { usize::MAX };
        for file in files {
            if self.written.len() < most && !self.written.contains(file) {
                self.written.push(file.clone());
            }
        }
    }

    /// The tree was inspected.
    pub(super) fn inspected(&mut self, inspection: &TreeInspection) {
        self.changes = Some(inspection.run.clone());
        self.changed.clone_from(&inspection.files);
    }

    /// The files that the run changed, as far as it is known: what the tree showed, commands' work included, and what
    /// tools wrote, which git may ignore.
    pub(super) fn files(&self) -> Vec<String> {
        let mut files = self.changed.clone();
        files.extend(self.written.iter().filter(|file| !self.changed.contains(file)).cloned());
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_written_files_is_bounded() {
        let files: Vec<String> = (0..LISTED + 10).map(|number| format!("{number}.txt")).collect();
        for (edition, listed) in [(Edition::NEWEST, LISTED), (Edition::Second, LISTED + 10)] {
            let mut tree = TreeEvidence::default();
            tree.wrote(&files, edition);
            tree.wrote(&files, edition);
            assert_eq!(tree.files().len(), listed);
        }
    }
}
