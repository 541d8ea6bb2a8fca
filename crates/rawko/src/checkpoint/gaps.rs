//! Changes that someone else made while no execution of the session was under way: between two executions, and between
//! the stop of a session and its resumption.

use std::collections::BTreeMap;

use super::Checkpoint;
use super::error::CheckpointError;
use super::history::{in_time, is_work};
use super::message::{CommitMessage, tree_of};
use super::snapshot::{Snapshot, same};
use super::store::Store;

/// The gaps between the works of a session, in their order. Those in which nothing changed are left out.
#[derive(Debug, Default)]
pub(super) struct Gaps(Vec<Gap>);

#[derive(Debug)]
struct Gap {
    /// What the session left.
    left: Snapshot,
    /// What it found again; absent where that is the present tree.
    found: Option<Snapshot>,
    /// Whether it began with a kill: the last command of the session may have made what changed in it.
    is_unclear: bool,
}

impl Gaps {
    /// The gaps since the tree named `began` was kept. `now` names the present tree.
    pub(super) fn since(
        store: &Store,
        names: &BTreeMap<String, String>,
        began: &str,
        now: &str,
    ) -> Result<Self, CheckpointError> {
        let kept: Vec<Checkpoint> =
            names.iter().map(|(name, id)| Checkpoint { name: name.clone(), id: id.clone() }).collect();
        let commits = store.commits(&kept)?;
        let messages: BTreeMap<String, CommitMessage> =
            commits.iter().map(|(id, commit)| (id.clone(), CommitMessage::read(commit))).collect();
        let tree = |kept: &Checkpoint| commits.get(&kept.id).and_then(|commit| tree_of(commit));
        let in_time = in_time(&kept, &messages);
        let since = in_time.iter().skip_while(|kept| kept.name != began).copied();
        let since: Vec<&Checkpoint> = since.collect();
        let next = since.iter().skip(1).map(|kept| Some(*kept)).chain([None]);
        let mut gaps = Vec::new();
        for (left, found) in since.iter().zip(next).filter(|(left, _)| !is_work(&left.name)) {
            let after = found.map_or(Some(now), tree);
            if tree(left) == after {
                continue;
            }
            let trees =
                || Ok((store.snapshot(&left.id)?, found.map(|it| store.snapshot(&it.id)).transpose()?));
            match trees() {
                Ok((before, found)) => {
                    let is_unclear = messages.get(&left.id).is_some_and(|message| message.killed);
                    gaps.push(Gap { left: before, found, is_unclear });
                }
                // A tree that is lost says nothing.
                Err(CheckpointError::Gone { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self(gaps))
    }

    /// Those in which the session changed nothing for certain.
    pub(super) fn certain(mut self) -> Self {
        self.0.retain(|gap| !gap.is_unclear);
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether what is at `path` is different `now` from what it was when the session `began`, and only because of what
    /// happened in the gaps.
    pub(super) fn explain(&self, began: &Snapshot, now: &Snapshot, path: &[u8]) -> bool {
        let (mut last, now) = (began.get(path), now.get(path));
        if same(last, now) {
            return false;
        }
        for Gap { left, found, is_unclear: _ } in &self.0 {
            if !same(last, left.get(path)) {
                return false;
            }
            last = found.as_ref().map_or(now, |found| found.get(path));
        }
        same(last, now)
    }
}
