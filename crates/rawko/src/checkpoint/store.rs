//! Where the trees of a session are kept, and the operations that both ways of keeping have.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::copies::{self, Copies, is_copy};
use super::diff::{self, ChangeKind, Detail, FileChange};
use super::error::CheckpointError;
use super::git::Git;
use super::listing::{self, Listing, Never, TreePath};
use super::objects::Objects;
use super::own::{self, Index};
use super::place::{self, Place, UserFolders};
use super::restore::shown;
use super::scratch::Scratch;
use super::snapshot::Snapshot;
use super::{Changes, Checkpoint, Checkpoints, Until};

/// The store of one session, opened for a few questions.
#[derive(Debug)]
pub(super) struct Store {
    git: Option<Git>,
    pub(super) place: Place,
    /// `checkpoints/` in the session's directory.
    pub(super) folder: PathBuf,
    session: String,
    never: Never,
    user: UserFolders,
}

impl Store {
    pub(super) fn open(of: &Checkpoints) -> Result<Self, CheckpointError> {
        // It becomes part of a ref's name, and a journal can come from anybody.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if of.session.is_empty() || !of.session.chars().all(is_plain) {
            return Err(CheckpointError::BadSession { session: of.session.escape_debug().to_string() });
        }
        own::check(&of.directory, &of.folder())?;
        let project = place::real(&of.project)?;
        let git = Git::find(of.path.as_deref(), place::work_tree(&project));
        let place = Place::find(&project, git.as_ref(), &of.user)?;
        let never = Never::of(&place.project, &of.directory);
        let folder = std::path::absolute(of.folder())
            .map_err(|error| CheckpointError::io("cannot find", &of.directory, error))?;
        Ok(Self { git, place, folder, session: of.session.clone(), never, user: of.user.clone() })
    }

    pub(super) fn objects(&self) -> Option<Objects<'_>> {
        let git = self.git.as_ref()?;
        Some(Objects { git, place: &self.place, folder: &self.folder, session: &self.session })
    }

    pub(super) fn copies(&self) -> Copies<'_> {
        Copies { project: &self.place.project, folder: &self.folder }
    }

    /// The objects that hold `id`, which is no copy.
    pub(super) fn objects_of(&self, id: &str) -> Result<Objects<'_>, CheckpointError> {
        self.objects().ok_or_else(|| CheckpointError::Git {
            doing: "reads the kept tree",
            message: format!(
                "there is no git program, and {} was kept with one: install git",
                id.escape_debug()
            ),
        })
    }

    /// The files to be kept, and what of `also` is there.
    pub(super) fn list(&self, also: &BTreeSet<TreePath>) -> Result<Listing, CheckpointError> {
        match self.objects() {
            Some(objects) => {
                let scratch = Scratch::new(objects.format())?;
                listing::list(objects.git, &self.place, &scratch, &self.user, &self.never, also)
            }
            None => copies::list(&self.place.project, &self.never, also),
        }
    }

    /// The files that are not ignored, now.
    pub(super) fn not_ignored(&self) -> Result<BTreeSet<TreePath>, CheckpointError> {
        match self.objects() {
            Some(objects) => {
                let scratch = Scratch::new(objects.format())?;
                listing::not_ignored(objects.git, &self.place, &scratch, &self.user)
            }
            None => copies::not_ignored(&self.place.project),
        }
    }

    /// Keeps the files of `listing` under `name`, and lets go of what was kept under `forget`.
    pub(super) fn keep(
        &self,
        name: &str,
        listing: &Listing,
        forget: Option<&str>,
    ) -> Result<String, CheckpointError> {
        match self.objects() {
            Some(objects) => {
                let index = Index::of(&self.folder)?;
                objects.keep(&Scratch::new(objects.format())?, name, listing, index.path(), forget)
            }
            None => self.copies().keep(name, listing, forget),
        }
    }

    pub(super) fn names(&self) -> Result<BTreeMap<String, String>, CheckpointError> {
        let mut names = self.copies().names();
        if let Some(objects) = self.objects() {
            names.extend(objects.names()?);
        }
        Ok(names)
    }

    pub(super) fn snapshot(&self, id: &str) -> Result<Snapshot, CheckpointError> {
        let mut snapshot =
            if is_copy(id) { self.copies().snapshot(id)? } else { self.objects_of(id)?.snapshot(id)? };
        // Not every tree that a journal names was made by rawko.
        snapshot.retain(|path, _| !self.never.covers(path));
        Ok(snapshot)
    }

    pub(super) fn not_kept(&self, id: &str) -> Result<Vec<String>, CheckpointError> {
        if is_copy(id) { self.copies().not_kept(id) } else { self.objects_of(id)?.not_kept(id) }
    }

    /// The contents of files of the tree `of`.
    pub(super) fn contents(&self, of: &str, ids: &[&str]) -> Result<Vec<Vec<u8>>, CheckpointError> {
        if is_copy(of) { self.copies().contents(ids) } else { self.objects_of(of)?.contents(ids) }
    }

    pub(super) fn forget(&self) -> Result<(), CheckpointError> {
        self.objects().map_or(Ok(()), |objects| objects.forget())
    }

    /// The tree as it is now, as the store that holds `like` would keep it. Nothing is kept.
    pub(super) fn present(&self, like: &str, listing: &Listing) -> Result<Snapshot, CheckpointError> {
        if is_copy(like) {
            return self.copies().present(listing);
        }
        let objects = self.objects_of(like)?;
        let scratch = objects.scratch_for(like)?;
        let tree = self.tree_now(&objects, &scratch, listing)?;
        let list = ["ls-tree", "-r", "-z", "-l", "--full-tree", &tree];
        Ok(super::snapshot::parse(&objects.read(&scratch, "reads the tree").args(list).answer()?))
    }

    /// Writes the tree as it is now into `scratch`. What the session's index remembers spares reading most files.
    pub(super) fn tree_now(
        &self,
        objects: &Objects<'_>,
        scratch: &Scratch,
        listing: &Listing,
    ) -> Result<String, CheckpointError> {
        let index = scratch.path().join("index");
        let known = self.folder.join("index");
        if known.symlink_metadata().is_ok_and(|found| found.is_file()) {
            // A mere help: without it, all files are read.
            let _ = copy_with_time(&known, &index);
        }
        objects.tree(scratch, listing, &index, &scratch.objects())
    }

    /// Compares a kept tree with another, or with the folder.
    pub(super) fn changes(
        &self,
        from: Checkpoint,
        to: Until,
        detail: Detail,
    ) -> Result<Changes, CheckpointError> {
        let mut not_kept = self.not_kept(&from.id)?;
        let is_now = matches!(to, Until::Now);
        let listing = if is_now {
            self.list(&self.snapshot(&from.id)?.into_keys().collect())?
        } else {
            Listing::default()
        };
        match &to {
            Until::Kept(to) => not_kept.extend(self.not_kept(&to.id)?),
            Until::Now => not_kept
                .extend(listing.skipped.iter().map(|(path, why)| format!("{} ({why})", path.escape_ascii()))),
        }
        not_kept.sort();
        not_kept.dedup();
        let ids = [Some(from.id.as_str()), if let Until::Kept(to) = &to { Some(&to.id) } else { None }];
        if ids.into_iter().flatten().any(is_copy) {
            let after = match &to {
                Until::Kept(to) => self.snapshot(&to.id)?,
                Until::Now => self.copies().present(&listing)?,
            };
            let files = of_snapshots(&self.snapshot(&from.id)?, &after);
            return Ok(Changes { from, to, files, patch: Vec::new(), not_kept });
        }
        let objects = self.objects_of(&from.id)?;
        let scratch = objects.scratch_for(&from.id)?;
        let after = match &to {
            Until::Kept(to) => to.id.clone(),
            Until::Now => self.tree_now(&objects, &scratch, &listing)?,
        };
        let files = diff::files(&objects, &scratch, &from.id, &after)?;
        let patch = match detail {
            Detail::Files => Vec::new(),
            Detail::Lines => diff::patch(&objects, &scratch, &from.id, &after)?,
        };
        Ok(Changes { from, to, files, patch, not_kept })
    }
}

/// Copies an index. Git takes a file that is no older than the index for one that may have changed unnoticed, and reads
/// it: a copy must not look newer than what it was copied from.
fn copy_with_time(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::copy(from, to)?;
    let written = from.metadata()?.modified()?;
    std::fs::OpenOptions::new().write(true).open(to)?.set_modified(written)
}

/// Without git, which files differ is all that is told.
pub(super) fn of_snapshots(before: &Snapshot, after: &Snapshot) -> Vec<FileChange> {
    let paths: BTreeSet<&TreePath> = before.keys().chain(after.keys()).collect();
    let change = |path: &TreePath| {
        let kind = match (before.get(path), after.get(path)) {
            (None, None) => return None,
            (None, Some(_)) => ChangeKind::Added,
            (Some(_), None) => ChangeKind::Deleted,
            (Some(a), Some(b)) if a == b => return None,
            (Some(a), Some(b)) if a.kind.is_link() != b.kind.is_link() => ChangeKind::Retyped,
            (Some(_), Some(_)) => ChangeKind::Modified,
        };
        Some(FileChange { path: shown(path), from: None, kind, added: None, removed: None })
    };
    paths.into_iter().filter_map(change).collect()
}
