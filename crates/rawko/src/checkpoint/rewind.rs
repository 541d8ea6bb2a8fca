//! Restores the project to a kept tree.
//!
//! The tree as it is now is kept first, under its own name, so that every rewind can be undone. What the session did not
//! change is left alone unless that is asked for. A rewind never touches files that were ignored, the index, the branch,
//! rawko's sessions, or a file whose present content cannot be kept.
//!
//! A rewind that is killed is completed by the next one: whatever it has already restored is not taken for the work
//! of others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use super::error::CheckpointError;
use super::history::{ChangeAuthor, History, WholeTree};
use super::listing::{TreeListing, TreePath};
use super::message::CommitMessage;
use super::objects;
use super::own::create_folder;
use super::restore::{InTheWay, Restorer, shown};
use super::rules::is_rule;
use super::snapshot::{Snapshot, TreeEntry, TreeEntryKind};
use super::store::{Store, TreeToKeep};
use super::{Checkpoint, Checkpoints, REWIND, number};
use crate::journal::{JournalError, SessionLock, SessionStatus, SessionStore};
use rawko_tools::temporary;

/// Most bytes of files that are held in memory at a time.
const PIECE: u64 = 64 * 1024 * 1024;

/// Whether a rewind is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execute {
    /// Files are restored and removed.
    Really,
    /// Nothing is changed; the result says what would be.
    DryRun,
}

/// What a rewind restores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What the session changed and no one else has changed since.
    Session,
    /// The whole tree, regardless of who changed it.
    Everything,
}

/// What a rewind did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rewound {
    /// The tree that was restored.
    pub to: Checkpoint,
    /// The tree that the rewind replaced; `None` in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Checkpoint>,
    /// Files that were restored.
    pub restored: Vec<String>,
    /// Files that were removed, because the kept tree does not have them.
    pub removed: Vec<String>,
    /// Files that should have been restored or removed and were not.
    pub left_alone: Vec<LeftAlone>,
    /// Files that differ from the kept tree, and that no execution of the session changed. They are as they were.
    pub by_others: Vec<String>,
    /// What [`Extent::Everything`] would also do.
    pub more: More,
}

/// What a rewind of everything would also do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct More {
    /// How many files it would restore.
    pub restored: usize,
    /// How many it would remove, because the kept tree does not have them.
    pub removed: usize,
}

/// A file that the rewind did not change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftAlone {
    /// Its path, relative to the project.
    pub path: String,
    /// The reason, for people.
    pub why: String,
}

impl Checkpoints {
    /// Restores the tree that was kept under the name `to`: the number of an execution means the tree before it, which
    /// is that before the next one that changed anything.
    ///
    /// # Errors
    /// [`CheckpointError::Running`] where a session of this project runs, [`CheckpointError::Unknown`] and
    /// [`CheckpointError::Gone`] where there is nothing to restore; nothing has been changed then. After any other error,
    /// what was there before is kept under the latest `rewind-` name.
    pub fn rewind(&self, to: &str, execute: Execute, extent: Extent) -> Result<Rewound, CheckpointError> {
        let _session = match execute {
            Execute::Really => Some(self.hold()?),
            Execute::DryRun => None,
        };
        let store = self.store()?;
        let kept = self.list()?;
        let to = self.target(to, &kept)?;
        let mut also: BTreeSet<TreePath> = store.snapshot(&to.id)?.into_keys().collect();
        also.extend(self.known(&store)?);
        if execute == Execute::DryRun {
            let listing = store.list(&also)?;
            let plan = self.plan(&store, &kept, &to, &listing, extent)?;
            let shown_all = |paths: &mut dyn Iterator<Item = &TreePath>| paths.map(shown).collect();
            return Ok(Rewound {
                restored: shown_all(&mut plan.put.keys()),
                removed: shown_all(&mut plan.take.keys()),
                left_alone: left_alone(plan.left_alone),
                by_others: shown_all(&mut plan.by_others.iter()),
                more: plan.more,
                to,
                before: None,
            });
        }
        let _lock = objects::lock(&store.folder)?;
        temporary::remove_abandoned(&store.place.project);
        // Once some of it is taken back, it is no longer possible to see what a killed session had done for certain.
        // Unclear files stay unclear: a dry run says the same.
        self.keep_what_it_left(&store, false)?;
        let kept = self.list()?;
        let listing = store.list(&also)?;
        let plan = self.plan(&store, &kept, &to, &listing, extent)?;
        let name = next_rewind(&kept);
        let id = store.keep(&name, &TreeToKeep::before(listing, &to.id), None)?;
        let before = Checkpoint { name, id };
        let by_others = plan.by_others.iter().map(shown).collect();
        let more = plan.more;
        let Done { mut restored, mut removed, left_alone: left } = carry_out(&store, plan)?;
        restored.sort();
        removed.sort();
        Ok(Rewound {
            to,
            before: Some(before),
            restored,
            removed,
            left_alone: left_alone(left),
            by_others,
            more,
        })
    }

    /// Locks the session as a run does, so that it cannot be resumed meanwhile.
    fn hold(&self) -> Result<SessionLock, CheckpointError> {
        let sessions = SessionStore::at(self.directory.parent().unwrap_or(Path::new(".")).to_owned());
        let others = sessions.list().unwrap_or_default();
        if let Some(running) = others.into_iter().find(|session| session.status == SessionStatus::Running) {
            return Err(CheckpointError::Running { session: running.id });
        }
        let path = self.directory.join("journal.jsonl");
        SessionLock::acquire(&path).map_err(|error| match error {
            JournalError::Locked { .. } => CheckpointError::Running { session: self.session.clone() },
            JournalError::Io { doing, path, source } => CheckpointError::io(doing, &path, source),
            other => CheckpointError::io("cannot lock", &path, std::io::Error::other(other)),
        })
    }

    fn target(&self, asked: &str, kept: &[Checkpoint]) -> Result<Checkpoint, CheckpointError> {
        let found = match number(asked) {
            Some(wanted) => {
                kept.iter().find(|kept| number(&kept.name).is_some_and(|number| number >= wanted))
            }
            None => kept.iter().find(|kept| kept.name == asked),
        };
        found.cloned().ok_or_else(|| self.unknown(asked, &kept.iter().collect::<Vec<_>>()))
    }

    fn plan(
        &self,
        store: &Store,
        kept: &[Checkpoint],
        to: &Checkpoint,
        listing: &TreeListing,
        extent: Extent,
    ) -> Result<RewindPlan, CheckpointError> {
        let present = store.present_tree(&to.id, listing)?;
        let history = History::since(store, kept, (to, None), present, self.last_sign)?;
        let mut plan = RewindPlan::default();
        // What is not the session's alone, and whether it is in the kept tree.
        let mut others = BTreeMap::new();
        for path in history.differences() {
            let changed = match extent {
                Extent::Session => history.changed(&path),
                Extent::Everything => ChangeAuthor::BySession,
            };
            let entry = history.target.entries().get(&path);
            if changed != ChangeAuthor::BySession {
                others.insert(path.clone(), entry.is_some());
            }
            match (changed, entry) {
                (ChangeAuthor::ByOthers, _) => drop(plan.by_others.insert(path)),
                (ChangeAuthor::ByBoth, _) => {
                    let why = "the session changed it, and somebody else did since";
                    plan.left_alone.insert(path, why.to_owned());
                }
                (ChangeAuthor::Unclear, _) => {
                    let why = "changed after the last record of the session, which was killed: by its last command or by \
                               somebody else";
                    plan.left_alone.insert(path, why.to_owned());
                }
                (ChangeAuthor::BySession, Some(entry)) => match listing.skipped.get(&path) {
                    Some(why) => {
                        plan.left_alone.insert(path, format!("what is there now cannot be kept: {why}"));
                    }
                    None => drop(plan.put.insert(path, entry.clone())),
                },
                (ChangeAuthor::BySession, None) => {
                    let kind =
                        history.present.entries().get(&path).map_or(TreeEntryKind::File, |entry| entry.kind);
                    if history.target.at(&path).is_some() {
                        // It was a folder with something in it, which may not come back itself.
                        plan.make.insert(path.clone());
                    }
                    plan.take.insert(path, kind);
                }
            }
        }
        let files =
            plan.take.iter().filter(|(_, kind)| **kind != TreeEntryKind::Folder).map(|(path, _)| path);
        let new = others.iter().filter(|(_, is_kept)| !**is_kept).map(|(path, _)| path);
        let was_there = not_kept(store, to, listing, &history, files.chain(new).cloned().collect())?;
        plan.more = More {
            restored: others
                .iter()
                .filter(|(path, kept)| **kept && !listing.skipped.contains_key(*path))
                .count(),
            removed: others.iter().filter(|(path, kept)| !**kept && !was_there.contains_key(*path)).count(),
        };
        for (path, why) in was_there {
            if plan.take.remove(&path).is_some() {
                plan.make.remove(&path);
                plan.left_alone.insert(path, why);
            }
        }
        plan.folders = plan
            .take
            .keys()
            .flat_map(|path| folders_above(path))
            .filter(|folder| match extent {
                _ if history.target.at(folder).is_some() => true,
                Extent::Session => history.changed(folder) != ChangeAuthor::BySession,
                Extent::Everything => false,
            })
            .collect();
        Ok(plan)
    }
}

/// Those of `candidates` that are not in the kept tree because they were ignored or could not be kept then, each with
/// why: they were there all the same.
fn not_kept(
    store: &Store,
    to: &Checkpoint,
    listing: &TreeListing,
    history: &History,
    candidates: BTreeSet<TreePath>,
) -> Result<BTreeMap<TreePath, String>, CheckpointError> {
    if candidates.is_empty() {
        return Ok(BTreeMap::new());
    }
    let CommitMessage { not_kept, gone, .. } = store.message(&to.id)?;
    let ignored = store.ignored_by(&rules(store, &history.target)?, &candidates, listing)?;
    let why = |path: &TreePath| {
        let begin = format!("{} (", path.escape_ascii());
        match not_kept.iter().find_map(|line| line.strip_prefix(&begin)) {
            Some(why) => Some(format!("it was there before and not kept: {}", why.trim_end_matches(')'))),
            None if ignored.contains(path) && !gone.contains(path) => {
                Some("it was ignored then, so it was not kept".to_owned())
            }
            None => None,
        }
    };
    Ok(candidates.into_iter().filter_map(|path| why(&path).map(|why| (path, why))).collect())
}

/// The lists of what is ignored that a kept tree has.
fn rules<'a>(store: &Store, tree: &'a WholeTree) -> Result<Vec<(&'a TreePath, Vec<u8>)>, CheckpointError> {
    let is_list =
        |(path, entry): &(&TreePath, &TreeEntry)| is_rule(path) && entry.kind != TreeEntryKind::Folder;
    let (paths, ids): (Vec<&TreePath>, Vec<&str>) =
        tree.entries().iter().filter(is_list).map(|(path, entry)| (path, entry.id.as_str())).unzip();
    Ok(paths.into_iter().zip(store.objects().contents(&ids)?).collect())
}

/// The folders that contain a path.
fn folders_above(path: &[u8]) -> impl Iterator<Item = TreePath> + '_ {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    ends.filter_map(|end| path.get(..end).map(<[u8]>::to_vec))
}

fn next_rewind(kept: &[Checkpoint]) -> String {
    let numbers = kept.iter().filter_map(|kept| number(kept.name.strip_prefix(REWIND)?));
    format!("{REWIND}{}", numbers.max().unwrap_or_default().saturating_add(1))
}

fn left_alone(left: BTreeMap<TreePath, InTheWay>) -> Vec<LeftAlone> {
    left.into_iter().map(|(path, why)| LeftAlone { path: shown(&path), why }).collect()
}

/// What the rewind will do.
#[derive(Debug, Default)]
pub(super) struct RewindPlan {
    /// Files to write, links and empty folders to make.
    pub(super) put: Snapshot,
    /// What to remove.
    pub(super) take: BTreeMap<TreePath, TreeEntryKind>,
    /// Folders to make where something was removed.
    make: BTreeSet<TreePath>,
    /// Folders that stay where they become empty.
    pub(super) folders: BTreeSet<TreePath>,
    left_alone: BTreeMap<TreePath, InTheWay>,
    by_others: BTreeSet<TreePath>,
    more: More,
}

/// What the rewind has done.
#[derive(Debug, Default)]
pub(super) struct Done {
    restored: Vec<String>,
    removed: Vec<String>,
    pub(super) left_alone: BTreeMap<TreePath, InTheWay>,
}

pub(super) fn carry_out(store: &Store, plan: RewindPlan) -> Result<Done, CheckpointError> {
    let staging = store.folder.join("staging");
    create_folder(&staging)?;
    let restorer = Restorer::new(&store.place.project, &staging)?;
    let mut done = Done { left_alone: plan.left_alone, ..Done::default() };
    // The contents of a folder are removed before the folder.
    for (path, kind) in plan.take.into_iter().rev() {
        match restorer.take(&path, kind, &|folder| plan.folders.contains(folder)) {
            Ok(()) => done.removed.push(shown(&path)),
            Err(why) => drop(done.left_alone.insert(path, why)),
        }
    }
    for path in plan.make {
        if let Err(why) = restorer.put(&path, TreeEntryKind::Folder, None, &[]) {
            done.left_alone.insert(path, why);
        }
    }
    let ids: Vec<&str> =
        plan.put.values().map(|entry| entry.id.as_str()).filter(|id| !id.is_empty()).collect();
    let sizes = ids.iter().zip(store.objects().sizes(&ids)?).collect::<BTreeMap<_, _>>();
    let entries: Vec<(&TreePath, &TreeEntry)> = plan.put.iter().collect();
    let mut rest = entries.as_slice();
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|(_, entry)| {
            let first = bytes == 0;
            bytes += sizes.get(&entry.id.as_str()).copied().unwrap_or_default().max(1);
            first || bytes <= PIECE
        });
        let (piece, later) = rest.split_at(fits.count());
        let with_content = || piece.iter().filter(|(_, entry)| entry.kind != TreeEntryKind::Folder);
        let ids: Vec<&str> = with_content().map(|(_, entry)| entry.id.as_str()).collect();
        let mut contents = store.objects().each(&ids)?.into_iter();
        for (path, entry) in piece {
            let content = match entry.kind {
                TreeEntryKind::Folder => Ok(Vec::new()),
                TreeEntryKind::File | TreeEntryKind::Executable | TreeEntryKind::Link => {
                    contents.next().unwrap_or_else(|| Ok(Vec::new()))
                }
            };
            let put = |content: Vec<u8>| restorer.put(path, entry.kind, entry.mode, &content);
            match content.map_err(|error| error.to_string()).and_then(put) {
                Ok(()) => done.restored.push(shown(path)),
                Err(why) => drop(done.left_alone.insert((*path).clone(), why)),
            }
        }
        rest = later;
    }
    Ok(done)
}
