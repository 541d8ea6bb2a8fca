//! The store of one session: git, the place that it works on, and the folder that is the session's own.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rawko_tools::project_files;

use super::error::CheckpointError;
use super::git::GitProgram;
use super::history::WholeTree;
use super::known::TreeCache;
use super::listing::{self, Never, TreeListing, TreePath};
use super::message::{CommitMessage, tree_of};
use super::nested::{below, below_of};
use super::objects::Objects;
use super::own::{self, SessionIndex};
use super::place::{self, EnclosingRepository, ObjectFormat, UserFolders, WorkTree};
use super::scratch::Scratch;
use super::snapshot::{Snapshot, TreeEntry, TreeEntryKind};
use super::{Checkpoint, Checkpoints, folders, rules};
use crate::clock::now;
use crate::isolation::was_isolated;

/// Most entries of the project that are looked at for lists of what is ignored.
const MAX_LOOKED_AT: usize = 200_000;

/// The store of one session, opened for a few questions.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) git: GitProgram,
    pub(super) place: WorkTree,
    /// `checkpoints/` in the session's directory.
    pub(super) folder: PathBuf,
    pub(super) session: String,
    pub(super) never: Never,
    pub(super) user: UserFolders,
    looked: Arc<OnceLock<()>>,
    known: TreeCache,
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
        let git = GitProgram::find(of.path.as_deref(), place::work_tree(&project), &of.unanswered)
            .ok_or(CheckpointError::NoGit)?;
        let mut place = WorkTree::find(&project, &git, &of.user)?;
        if was_isolated(&of.directory) {
            place.repository = place.repository.map(EnclosingRepository::of_isolated_tree);
        }
        let never = Never::of(&place.project, &of.directory);
        let folder = std::path::absolute(of.folder())
            .map_err(|error| CheckpointError::io("cannot find", &of.directory, error))?;
        Ok(Self {
            git,
            place,
            folder,
            session: of.session.clone(),
            never,
            user: of.user.clone(),
            looked: Arc::clone(&of.looked),
            known: of.known.clone(),
        })
    }

    /// Looks once for lists of what is ignored that git would wait for: FIFOs and devices.
    fn look(&self) -> Result<(), CheckpointError> {
        if self.looked.get().is_some() {
            return Ok(());
        }
        let (top, project) = (&self.place.toplevel, &self.place.project);
        let enters = |name: &OsStr| name != ".git";
        let seen = project_files(top, project, MAX_LOOKED_AT, enters, |_| {})
            .map_err(|error| CheckpointError::io("cannot look at", project, error))?;
        if let Some(path) = seen.odd.into_iter().find(|path| path.ends_with(".gitignore")) {
            return Err(CheckpointError::OddList { path });
        }
        let _ = self.looked.set(());
        Ok(())
    }

    pub(super) fn objects(&self) -> Objects<'_> {
        let Self { git, place, folder, session, known, .. } = self;
        Objects { git, place, folder, session, known }
    }

    /// The files to be kept, and what of `also` is there.
    pub(super) fn list(&self, also: &BTreeSet<TreePath>) -> Result<TreeListing, CheckpointError> {
        self.look()?;
        let scratch = Scratch::new(self.objects().format(), &self.place.project)?;
        listing::list(&self.git, &self.place, &scratch, &self.user, &self.never, also)
    }

    /// Those of `paths` that are ignored where `rules` are the lists of what is ignored, by path. A repository inside has a say
    /// in its own files alone, and nothing else has a say in them.
    pub(super) fn ignored_by(
        &self,
        rules: &[(&TreePath, Vec<u8>)],
        paths: &BTreeSet<TreePath>,
        listing: &TreeListing,
    ) -> Result<BTreeSet<TreePath>, CheckpointError> {
        let project = if listing.stands_alone { self.place.alone() } else { self.place.clone() };
        let mut ignored = BTreeSet::new();
        for (inside, place) in std::iter::once((&TreePath::new(), &project)).chain(&listing.nested) {
            let own =
                |path: &TreePath| (listing.part_of(path) == inside).then(|| below_of(inside, path).to_vec());
            let paths: BTreeSet<TreePath> = paths.iter().filter_map(own).collect();
            let rules: Vec<(TreePath, Vec<u8>)> =
                rules.iter().filter_map(|(path, rule)| Some((own(path)?, rule.clone()))).collect();
            let scratch = Scratch::new(self.objects().format(), &self.place.project)?;
            let found = rules::ignored(&self.git, place, &scratch, &self.user, &rules, &paths)?;
            ignored.extend(found.iter().map(|path| below(inside, path)));
        }
        Ok(ignored)
    }

    /// The empty folders, now.
    pub(super) fn empty_folders(&self, listing: &TreeListing) -> BTreeSet<TreePath> {
        folders::empty(&self.place.project, listing, &self.never)
    }

    /// What is ignored, now; a folder that is ignored as a whole ends with a slash.
    pub(super) fn ignored(&self, listing: &TreeListing) -> Result<Vec<TreePath>, CheckpointError> {
        self.look()?;
        let mut ignored = Vec::new();
        for (inside, place) in std::iter::once((&TreePath::new(), &self.place)).chain(&listing.nested) {
            let scratch = Scratch::new(self.objects().format(), &self.place.project)?;
            let found = listing::ignored(&self.git, place, &scratch, &self.user)?;
            ignored.extend(found.iter().map(|path| below(inside, path)));
        }
        Ok(ignored)
    }

    /// Keeps a tree under `name`, and forgets what was kept under `forget`.
    pub(super) fn keep(
        &self,
        name: &str,
        tree: &TreeToKeep<'_>,
        forget: Option<&str>,
    ) -> Result<String, CheckpointError> {
        let objects = self.objects();
        let index = SessionIndex::of(&self.folder, &self.known)?;
        let mut folders = self.empty_folders(&tree.listing);
        let not_seen = |entry: &Option<TreeEntry>| {
            entry.as_ref().is_some_and(|entry| entry.kind == TreeEntryKind::Folder)
        };
        folders.retain(|path| !tree.instead.contains_key(path));
        folders.extend(tree.instead.iter().filter(|(_, was)| not_seen(was)).map(|(path, _)| path.clone()));
        let killed = tree.killed;
        let message = CommitMessage { killed, ..CommitMessage::of(&tree.listing, folders, now().0, tree.to) };
        objects.keep(
            &Scratch::new(objects.format(), &self.place.project)?,
            name,
            tree,
            &message,
            index.path(),
            forget,
        )
    }

    pub(super) fn names(&self) -> Result<BTreeMap<String, String>, CheckpointError> {
        self.objects().names()
    }

    pub(super) fn snapshot(&self, id: &str) -> Result<Snapshot, CheckpointError> {
        let mut snapshot = self.objects().snapshot(id)?;
        // Not every tree that a journal names was made by rawko.
        snapshot.retain(|path, _| !self.never.covers(path));
        Ok(snapshot)
    }

    pub(super) fn not_kept(&self, id: &str) -> Result<Vec<String>, CheckpointError> {
        Ok(self.message(id)?.not_kept)
    }

    /// What was recorded beside a kept tree.
    pub(super) fn message(&self, id: &str) -> Result<CommitMessage, CheckpointError> {
        self.objects().message(id)
    }

    /// What was recorded beside the kept trees, by their ids; of those that are still there.
    pub(super) fn messages(
        &self,
        kept: &[Checkpoint],
    ) -> Result<BTreeMap<String, CommitMessage>, CheckpointError> {
        let commits = self.commits(kept)?.into_iter();
        Ok(commits.map(|(id, commit)| (id, CommitMessage::read(&commit))).collect())
    }

    /// The commits of the kept trees, by their ids; of those that are still there.
    pub(super) fn commits(&self, kept: &[Checkpoint]) -> Result<BTreeMap<String, Vec<u8>>, CheckpointError> {
        let ids: BTreeSet<&str> = kept.iter().map(|kept| kept.id.as_str()).collect();
        // Trees may be named in two ways, and one question is about one of them.
        let (short, long): (Vec<&str>, Vec<&str>) = ids
            .into_iter()
            .filter(|id| ObjectFormat::of_id(id).is_some())
            .partition(|id| ObjectFormat::of_id(id) == Some(ObjectFormat::Sha1));
        let mut commits = BTreeMap::new();
        for ids in [short, long] {
            for (id, commit) in ids.iter().zip(self.objects().each(&ids)?) {
                commits.extend(commit.map(|commit| ((*id).to_owned(), commit)));
            }
        }
        Ok(commits)
    }

    /// Names the content of a kept tree.
    pub(super) fn tree_of(&self, id: &str) -> Result<String, CheckpointError> {
        let commit = self.objects().commit(id)?;
        Ok(tree_of(&commit).unwrap_or_default().to_owned())
    }

    /// The tree as it is now, with contents named in the format of `like`. Nothing is kept.
    pub(super) fn present(&self, like: &str, listing: &TreeListing) -> Result<Snapshot, CheckpointError> {
        let objects = self.objects();
        let scratch = objects.scratch_for(like)?;
        let tree = self.tree_now(&objects, &scratch, listing)?;
        objects.files(&scratch, &tree)
    }

    /// The tree as it is now with permissions and empty folders, its contents named in the format of `like`.
    pub(super) fn present_tree(
        &self,
        like: &str,
        listing: &TreeListing,
    ) -> Result<WholeTree, CheckpointError> {
        Ok(WholeTree::present(self.present(like, listing)?, listing, self.empty_folders(listing)))
    }

    /// A kept tree with permissions and empty folders.
    pub(super) fn kept_tree(&self, id: &str) -> Result<WholeTree, CheckpointError> {
        Ok(WholeTree::of(self.snapshot(id)?, &self.message(id)?))
    }

    /// Writes the tree as it is now into `scratch`. What the session's index remembers spares reading most files.
    pub(super) fn tree_now(
        &self,
        objects: &Objects<'_>,
        scratch: &Scratch,
        listing: &TreeListing,
    ) -> Result<String, CheckpointError> {
        let index = scratch.path().join("index");
        let known = self.folder.join("index");
        if known.symlink_metadata().is_ok_and(|found| found.is_file()) {
            // A mere help: without it, all files are read.
            let copied = copy_with_time(&known, &index);
            if copied.is_err() || !self.known.is_index(&index) {
                own::remove(&index)?;
            }
        }
        objects.tree(scratch, listing, &index, &scratch.objects())
    }
}

/// A tree that is to be kept: the files of a listing, but for some.
#[derive(Debug)]
pub(super) struct TreeToKeep<'a> {
    pub(super) listing: TreeListing,
    /// What is kept at these paths instead of what is there.
    pub(super) instead: BTreeMap<TreePath, Option<TreeEntry>>,
    /// What a rewind is about to restore.
    to: Option<&'a str>,
    /// Whether it is what a killed session left.
    killed: bool,
}

impl<'a> TreeToKeep<'a> {
    pub(super) fn of(listing: TreeListing) -> Self {
        Self { listing, instead: BTreeMap::new(), to: None, killed: false }
    }

    /// Before the tree `to` is restored.
    pub(super) fn before(listing: TreeListing, to: &'a str) -> Self {
        Self { to: Some(to), ..Self::of(listing) }
    }

    /// What a killed session left: the same, but with other things at the paths that have changed since its last record.
    pub(super) fn left_by_killed(&self, instead: BTreeMap<TreePath, Option<TreeEntry>>) -> Self {
        let mut listing = self.listing.clone();
        for (path, entry) in &instead {
            match entry {
                Some(entry) if entry.kind != TreeEntryKind::Folder => {
                    listing.files.insert(path.clone(), entry.mode)
                }
                Some(_) | None => listing.files.remove(path),
            };
        }
        Self { listing, instead, to: self.to, killed: true }
    }
}

/// Copies an index. Git takes a file that is no older than the index for one that may have changed unnoticed, and reads
/// it: a copy must not look newer than what it was copied from.
fn copy_with_time(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::copy(from, to)?;
    let written = from.metadata()?.modified()?;
    std::fs::OpenOptions::new().write(true).open(to)?.set_modified(written)
}
