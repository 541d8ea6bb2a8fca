//! What a session or an execution changed, and who else changed something meanwhile.

use std::collections::BTreeMap;

use serde::Serialize;

use super::diff::{self, DiffDetail, DiffRange, FileChange};
use super::error::CheckpointError;
use super::history::{ChangeAuthor, History};
use super::listing::TreePath;
use super::restore::shown as path_for_people;
use super::snapshot::{TreeEntry, TreeEntryKind};
use super::{AFTER, Checkpoint, Checkpoints, END, number};

/// With what a kept tree is compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Until {
    /// Another kept tree.
    Kept(Checkpoint),
    /// The folder as it is now.
    Now,
}

/// What a session or an execution changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// The tree before.
    pub from: Checkpoint,
    /// The tree after.
    pub to: Until,
    /// The files that differ, by path, without those that only someone else changed.
    pub files: Vec<FileChange>,
    /// The lines that differ, as a patch; empty where [`DiffDetail::Files`] was asked for.
    pub patch: Vec<u8>,
    /// Files that are not compared because they were not kept, each with why.
    pub not_kept: Vec<String>,
    /// Files that are not, or not certainly, the session's work alone.
    pub others: Vec<OthersChange>,
}

/// A file that someone else changed, or may have changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OthersChange {
    /// The file, relative to the project.
    pub path: String,
    /// Who changed it.
    pub by: ChangedBy,
    /// Whether it is among the files that differ.
    pub shown: bool,
}

/// Who changed a file that the session did not, or not certainly, change alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangedBy {
    /// Others alone, between two executions or before a resume.
    Others,
    /// The session, and others before or after it.
    Both,
    /// The last command of a session that was killed, or others after that.
    Unclear,
}

impl Checkpoints {
    /// What the session or one of its executions changed.
    ///
    /// # Errors
    /// [`CheckpointError::Unknown`] where nothing was kept for it, [`CheckpointError::Gone`] where that is lost.
    pub fn changes(&self, span: DiffRange, detail: DiffDetail) -> Result<Changes, CheckpointError> {
        let kept = self.list()?;
        let executions: Vec<&Checkpoint> = kept.iter().filter(|kept| number(&kept.name).is_some()).collect();
        let at = match span {
            DiffRange::Session => (!executions.is_empty()).then_some(0),
            DiffRange::Execution(wanted) => {
                executions.iter().position(|kept| number(&kept.name) == Some(wanted))
            }
        };
        let Some(from) = at.and_then(|at| executions.get(at)).copied() else {
            let asked = match span {
                DiffRange::Session => "1".to_owned(),
                DiffRange::Execution(wanted) => wanted.to_string(),
            };
            return Err(self.unknown(&asked, &executions));
        };
        let after = format!("{AFTER}{}", from.name);
        let next = match span {
            DiffRange::Session => None,
            DiffRange::Execution(_) => kept
                .iter()
                .find(|kept| kept.name == after)
                .or_else(|| at.and_then(|at| executions.get(at + 1)).copied()),
        };
        let to = next.or_else(|| kept.iter().find(|kept| kept.name == END));
        self.compare(&kept, from, to, detail)
    }

    fn compare(
        &self,
        kept: &[Checkpoint],
        from: &Checkpoint,
        to: Option<&Checkpoint>,
        detail: DiffDetail,
    ) -> Result<Changes, CheckpointError> {
        let store = self.store()?;
        let objects = store.objects();
        let scratch = objects.scratch_for(&from.id)?;
        let mut not_kept = store.not_kept(&from.id)?;
        let (mut after, present) = match to {
            Some(to) => {
                not_kept.extend(store.not_kept(&to.id)?);
                (to.id.clone(), store.kept_tree(&to.id)?)
            }
            None => {
                let listing = store.list(&store.snapshot(&from.id)?.into_keys().collect())?;
                let skipped = listing.skipped.iter();
                not_kept.extend(skipped.map(|(path, why)| format!("{} ({why})", path.escape_ascii())));
                (store.tree_now(&objects, &scratch, &listing)?, store.present_tree(&from.id, &listing)?)
            }
        };
        not_kept.sort();
        not_kept.dedup();
        let history = History::since(&store, kept, (from, to), present, self.last_sign)?;
        let others = of_others(&history, to.is_none() || self.has_lost);
        let left_out: BTreeMap<TreePath, Option<TreeEntry>> = others
            .iter()
            .filter(|(_, change)| !change.shown)
            .map(|(path, _)| (path.clone(), history.target.entries().get(path).cloned()))
            .collect();
        if !left_out.is_empty() {
            after = objects.tree_instead(&scratch, &after, &left_out)?;
        }
        let files = diff::files(&objects, &scratch, &from.id, &after)?;
        let patch = match detail {
            DiffDetail::Files => Vec::new(),
            DiffDetail::Lines | DiffDetail::Bytes => {
                diff::patch(&objects, &scratch, &from.id, &after, detail)?
            }
        };
        let to = to.map_or(Until::Now, |to| Until::Kept(to.clone()));
        let others = others.into_values().collect();
        Ok(Changes { from: from.clone(), to, files, patch, not_kept, others })
    }
}

/// Where memories are.
const MEMORIES: &[u8] = b".rawko/memories/";

/// What is not the session's alone. What may be the work of others is shown only if much of it must be the session's.
fn of_others(history: &History, shows_unclear: bool) -> BTreeMap<TreePath, OthersChange> {
    let content = |entry: Option<&TreeEntry>| {
        entry.filter(|entry| entry.kind != TreeEntryKind::Folder).map(|entry| (entry.kind, entry.id.clone()))
    };
    let mut others = BTreeMap::new();
    // What rawko writes down for later runs is no change of the work.
    for path in history.differences().into_iter().filter(|path| !path.starts_with(MEMORIES)) {
        if content(history.target.entries().get(&path)) == content(history.present.entries().get(&path)) {
            continue;
        }
        let (by, shown) = match history.changed(&path) {
            ChangeAuthor::BySession => continue,
            ChangeAuthor::ByOthers => (ChangedBy::Others, false),
            ChangeAuthor::ByBoth => (ChangedBy::Both, true),
            ChangeAuthor::Unclear => (ChangedBy::Unclear, shows_unclear),
        };
        let change = OthersChange { path: path_for_people(&path), by, shown };
        others.insert(path, change);
    }
    others
}
