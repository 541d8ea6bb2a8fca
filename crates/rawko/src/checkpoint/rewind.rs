//! Restores a kept tree into the project.
//!
//! The tree as it is now is kept first, under its own name, so that every rewind can be undone. A rewind never touches
//! ignored files, the index, the branch, rawko's sessions, or a file whose present content cannot be kept.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use super::error::CheckpointError;
use super::listing::{TreeListing, TreePath};
use super::objects;
use super::restore::{InTheWay, Restorer, shown};
use super::snapshot::{Snapshot, TreeDifference, difference};
use super::store::Store;
use super::{Checkpoint, Checkpoints, END, REWIND, number};
use crate::journal::{JournalError, SessionLock, SessionStatus, SessionStore};

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

/// What a rewind did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rewound {
    /// The tree that was brought back.
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
    /// Brings the tree back that was kept under the name `to`: the number of an execution means the tree before it,
    /// which is that before the next one that changed anything.
    ///
    /// # Errors
    /// [`CheckpointError::Running`] where a session of this project runs, [`CheckpointError::Unknown`] and
    /// [`CheckpointError::Gone`] where there is nothing to restore; nothing has been changed then. After any other error, what was there before is kept under the latest `rewind-` name.
    pub fn rewind(&self, to: &str, execute: Execute) -> Result<Rewound, CheckpointError> {
        let _session = match execute {
            Execute::Really => Some(self.hold()?),
            Execute::DryRun => None,
        };
        let kept = self.list()?;
        let to = self.target(to, &kept)?;
        let store = self.store()?;
        let target = store.snapshot(&to.id)?;
        let also: BTreeSet<TreePath> = target.keys().cloned().collect();
        let listing = store.list(&also)?;
        if execute == Execute::DryRun {
            let present = store.present(&to.id, &listing)?;
            let plan = self.plan(&store, &kept, &to, &target, &present, &listing)?;
            let shown_all = |paths: &[TreePath]| paths.iter().map(shown).collect();
            return Ok(Rewound {
                restored: shown_all(&plan.difference.put),
                removed: shown_all(&plan.difference.take),
                left_alone: left_alone(plan.left_alone),
                to,
                before: None,
            });
        }
        let _lock = objects::lock(&store.folder)?;
        let name = next_rewind(&kept);
        let id = store.keep(&name, &listing, None)?;
        let before = Checkpoint { name, id };
        let present = if is_like(&before, &to) {
            store.snapshot(&before.id)?
        } else {
            store.present(&to.id, &listing)?
        };
        let plan = self.plan(&store, &kept, &to, &target, &present, &listing)?;
        let mut work = Work { store: &store, target: &target, rewound: Done::default(), plan };
        work.carry_out()?;
        let Done { restored, removed, left_alone: left } = work.rewound;
        Ok(Rewound { to, before: Some(before), restored, removed, left_alone: left_alone(left) })
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
        target: &Snapshot,
        present: &Snapshot,
        listing: &TreeListing,
    ) -> Result<RewindPlan, CheckpointError> {
        let TreeDifference { put, take } = difference(present, target);
        let mut plan = RewindPlan::default();
        for path in put {
            if let Some(why) = listing.skipped.get(&path) {
                plan.left_alone.insert(path, format!("what is there now cannot be kept: {why}"));
            } else {
                plan.difference.put.push(path);
            }
        }
        let not_kept: BTreeSet<String> = store.not_kept(&to.id)?.into_iter().collect();
        let was_kept = |path: &TreePath| {
            let shown = format!("{} (", path.escape_ascii());
            !not_kept.iter().any(|line| line.starts_with(&shown))
        };
        let of_session = if take.is_empty() { None } else { files_of_session(store, kept)? };
        plan.difference.take = take
            .into_iter()
            .filter(was_kept)
            // A file that was made after the session ended is not the session's to remove.
            .filter(|path| of_session.as_ref().is_none_or(|known| known.contains(path)))
            .collect();
        Ok(plan)
    }
}

/// Every file that any kept tree of the session has; `None` where its end is not known.
fn files_of_session(
    store: &Store,
    kept: &[Checkpoint],
) -> Result<Option<BTreeSet<TreePath>>, CheckpointError> {
    if !kept.iter().any(|kept| kept.name == END) {
        return Ok(None);
    }
    let mut files = BTreeSet::new();
    // A tree that a rewind replaced may hold files that other people made.
    for kept in kept.iter().filter(|kept| !kept.name.starts_with(REWIND)) {
        match store.snapshot(&kept.id) {
            Ok(snapshot) => files.extend(snapshot.into_keys()),
            // A lost tree is skipped; the others still count.
            Err(CheckpointError::Gone { .. } | CheckpointError::KeptAsCopy { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(files))
}

fn next_rewind(kept: &[Checkpoint]) -> String {
    let numbers = kept.iter().filter_map(|kept| number(kept.name.strip_prefix(REWIND)?));
    format!("{REWIND}{}", numbers.max().unwrap_or_default().saturating_add(1))
}

/// Whether two trees name their files' contents in the same way.
fn is_like(a: &Checkpoint, b: &Checkpoint) -> bool {
    a.id.len() == b.id.len()
}

fn left_alone(left: BTreeMap<TreePath, InTheWay>) -> Vec<LeftAlone> {
    left.into_iter().map(|(path, why)| LeftAlone { path: shown(&path), why }).collect()
}

/// What the rewind will do.
#[derive(Debug, Default)]
struct RewindPlan {
    difference: TreeDifference,
    left_alone: BTreeMap<TreePath, InTheWay>,
}

/// What the rewind has done.
#[derive(Debug, Default)]
struct Done {
    restored: Vec<String>,
    removed: Vec<String>,
    left_alone: BTreeMap<TreePath, InTheWay>,
}

/// One rewind being carried out.
struct Work<'a> {
    store: &'a Store,
    target: &'a Snapshot,
    plan: RewindPlan,
    rewound: Done,
}

impl Work<'_> {
    fn carry_out(&mut self) -> Result<(), CheckpointError> {
        let restorer = Restorer::new(&self.store.place.project)?;
        let TreeDifference { put, take } = std::mem::take(&mut self.plan.difference);
        self.rewound.left_alone = std::mem::take(&mut self.plan.left_alone);
        // First the `.gitignore` files: a file that was ignored then must not be removed now, whatever the session
        // wrote there.
        let (rules, put): (Vec<_>, Vec<_>) = put.into_iter().partition(|path| is_rule(path));
        let (new_rules, take): (Vec<_>, Vec<_>) = take.into_iter().partition(|path| is_rule(path));
        let rules_change = !rules.is_empty() || !new_rules.is_empty();
        self.take_all(&restorer, new_rules);
        self.put_all(&restorer, &rules)?;
        let take = if rules_change && !take.is_empty() {
            let not_ignored = self.store.not_ignored()?;
            take.into_iter().filter(|path| not_ignored.contains(path)).collect()
        } else {
            take
        };
        self.take_all(&restorer, take);
        self.put_all(&restorer, &put)?;
        self.rewound.restored.sort();
        self.rewound.removed.sort();
        Ok(())
    }

    fn take_all(&mut self, restorer: &Restorer, paths: Vec<TreePath>) {
        for path in paths {
            match restorer.take(&path) {
                Ok(()) => self.rewound.removed.push(shown(&path)),
                Err(why) => {
                    self.rewound.left_alone.insert(path, why);
                }
            }
        }
    }

    fn put_all(&mut self, restorer: &Restorer, paths: &[TreePath]) -> Result<(), CheckpointError> {
        let entries: Vec<_> = paths.iter().filter_map(|path| Some((path, self.target.get(path)?))).collect();
        let mut rest = entries.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take_while(|(_, entry)| {
                let first = bytes == 0;
                bytes += entry.size.max(1);
                first || bytes <= PIECE
            });
            let (piece, later) = rest.split_at(fits.count());
            let ids: Vec<&str> = piece.iter().map(|(_, entry)| entry.id.as_str()).collect();
            let contents = self.store.objects().contents(&ids)?;
            for ((path, entry), content) in piece.iter().zip(contents) {
                match restorer.put(path, entry.kind, &content) {
                    Ok(()) => self.rewound.restored.push(shown(path)),
                    Err(why) => {
                        self.rewound.left_alone.insert((*path).clone(), why);
                    }
                }
            }
            rest = later;
        }
        Ok(())
    }
}

fn is_rule(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next() == Some(b".gitignore")
}
