//! Trees as git objects: in the repository where there is one that can be written, else in the session's folder.
//!
//! A kept tree is a commit without parents, and its name is in a folder of the session. In a repository a ref below
//! `refs/rawko/<session>/` holds it as well, so that it is not pruned, and nothing else points to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rawko_tools::FileLock;

use super::error::CheckpointError;
use super::git::{GitProgram, GitQuery, THOROUGH};
use super::known::TreeCache;
use super::listing::{TreeListing, TreePath};
use super::message::CommitMessage;
use super::own::{self, create_folder, remove};
use super::place::{EnclosingRepository, ObjectFormat, WorkTree};
use super::scratch::Scratch;
use super::snapshot::{TreeEntry, TreeEntryKind};
use super::store::TreeToKeep;

/// Author of the commits: no person.
const AUTHOR: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "rawko"),
    ("GIT_AUTHOR_EMAIL", "rawko@localhost"),
    ("GIT_COMMITTER_NAME", "rawko"),
    ("GIT_COMMITTER_EMAIL", "rawko@localhost"),
];

/// The trees of one session.
#[derive(Debug)]
pub(super) struct Objects<'a> {
    pub(super) git: &'a GitProgram,
    pub(super) place: &'a WorkTree,
    /// `checkpoints/` in the session's directory.
    pub(super) folder: &'a Path,
    pub(super) session: &'a str,
    pub(super) known: &'a TreeCache,
}

impl Objects<'_> {
    /// The object format of new trees.
    pub(super) fn format(&self) -> ObjectFormat {
        self.place.repository.as_ref().map_or(ObjectFormat::Sha1, |repository| repository.format)
    }

    /// Keeps a tree under `name`. `index` remembers what was seen of them, for the next time.
    pub(super) fn keep(
        &self,
        scratch: &Scratch,
        name: &str,
        kept: &TreeToKeep<'_>,
        message: &CommitMessage,
        index: &Path,
        forget: Option<&str>,
    ) -> Result<String, CheckpointError> {
        let objects = self.new_objects()?;
        let mut tree = self.tree(scratch, &kept.listing, index, &objects)?;
        if !kept.instead.is_empty() {
            tree = self.tree_with(scratch, &kept.instead, index, &objects)?;
        }
        let message = message.write(self.session, name);
        let commit = AUTHOR
            .iter()
            .fold(self.write(scratch, "records the tree", &self.new_objects()?), |ask, (name, value)| {
                ask.env(name, value)
            })
            .args(["commit-tree", &tree, "-F", "-"])
            .input(message.as_bytes())
            .line()?;
        self.name(name, &commit, forget)?;
        Ok(commit)
    }

    /// Writes a tree of these files into `objects`.
    pub(super) fn tree(
        &self,
        scratch: &Scratch,
        listing: &TreeListing,
        index: &Path,
        objects: &Path,
    ) -> Result<String, CheckpointError> {
        match self.tree_by(scratch, listing, index, objects) {
            // The index is damaged, or names objects that were pruned since: try once more without it.
            Err(CheckpointError::Git { .. }) if index.exists() => {
                remove(index)?;
                self.tree_by(scratch, listing, index, objects)
            }
            other => other,
        }
    }

    fn tree_by(
        &self,
        scratch: &Scratch,
        listing: &TreeListing,
        index: &Path,
        objects: &Path,
    ) -> Result<String, CheckpointError> {
        let ask = |doing| self.write(scratch, doing, objects).env("GIT_INDEX_FILE", index);
        let in_project = |doing| {
            ask(doing)
                .env("GIT_WORK_TREE", &self.place.project)
                .within(&self.place.project)
                .within_time(THOROUGH)
        };
        if index.exists() {
            let known = ask("lists what it knows").args(["ls-files", "-z"]).answer()?;
            let known = known.split(|byte| *byte == 0).filter(|path| !path.is_empty());
            let gone = joined(known.filter(|path| !listing.files.contains_key(*path)));
            if !gone.is_empty() {
                let update = ["update-index", "-z", "--force-remove", "--stdin"];
                in_project("forgets files").args(update).input(&gone).answer()?;
            }
        }
        let files = joined(listing.files.keys().map(Vec::as_slice));
        if !files.is_empty() {
            let update = ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"];
            in_project("keeps the files").args(update).input(&files).answer()?;
        }
        ask("writes the tree").args(["write-tree"]).line()
    }

    /// Writes the tree of the index, but with other things at some paths.
    fn tree_with(
        &self,
        scratch: &Scratch,
        instead: &BTreeMap<TreePath, Option<TreeEntry>>,
        index: &Path,
        objects: &Path,
    ) -> Result<String, CheckpointError> {
        let no_object = "0".repeat(scratch.format.digits());
        let mut lines = Vec::new();
        for (path, entry) in instead {
            let entry = entry.as_ref().filter(|entry| entry.kind != TreeEntryKind::Folder);
            let (mode, id) = entry.map_or(("0", &no_object), |entry| (entry.kind.mode(), &entry.id));
            lines.extend([format!("{mode} {id}\t").as_bytes(), path, b"\0"].concat());
        }
        let ask = |doing| self.write(scratch, doing, objects).env("GIT_INDEX_FILE", index);
        ask("puts files aside").args(["update-index", "-z", "--index-info"]).input(&lines).answer()?;
        ask("writes the tree").args(["write-tree"]).line()
    }

    /// Writes the tree `tree` into `scratch`, but with other things at some paths.
    pub(super) fn tree_instead(
        &self,
        scratch: &Scratch,
        tree: &str,
        instead: &BTreeMap<TreePath, Option<TreeEntry>>,
    ) -> Result<String, CheckpointError> {
        let (index, objects) = (scratch.path().join("instead"), scratch.objects());
        let ask = self.write(scratch, "reads the tree", &objects).env("GIT_INDEX_FILE", &index);
        ask.args(["read-tree", tree]).answer()?;
        self.tree_with(scratch, instead, &index, &objects)
    }

    /// Keeps one content, and names it.
    pub(super) fn keep_content(&self, scratch: &Scratch, content: &[u8]) -> Result<String, CheckpointError> {
        let ask = self.write(scratch, "keeps a file", &self.new_objects()?);
        ask.args(["hash-object", "-w", "--no-filters", "--stdin"]).input(content).line()
    }

    /// Holds `commit` under `name`, and removes the name `forget`.
    pub(super) fn name(&self, name: &str, commit: &str, forget: Option<&str>) -> Result<(), CheckpointError> {
        if let Some(repository) = self.writable_repository() {
            let mut commands = format!("update {}\0{commit}\0\0", self.reference(name));
            if let Some(other) = forget {
                commands.push_str(&format!("delete {}\0\0", self.reference(other)));
            }
            let update = ["update-ref", "-z", "--no-deref", "--stdin"];
            let ask = repository.ask(self.git, "names the kept tree").durable().args(update);
            ask.input(commands.as_bytes()).answer()?;
        }
        self.name_own(name, commit, forget)
    }

    /// The same for a commit of the session's own objects, which no ref can hold.
    pub(super) fn name_own(
        &self,
        name: &str,
        commit: &str,
        forget: Option<&str>,
    ) -> Result<(), CheckpointError> {
        let (mut names, folder) = (self.names()?, self.own_names());
        create_folder(&folder)?;
        own::write(self.folder, &folder.join(name), format!("{commit}\n").as_bytes())?;
        names.insert(name.to_owned(), commit.to_owned());
        if let Some(other) = forget {
            remove(&self.own_names().join(other))?;
            names.remove(other);
        }
        self.known.keep_names(names);
        Ok(())
    }

    /// All names of the session, each with its commit. A process asks once: after that, agents may have made refs. A ref
    /// counts only where the session's own folder does not say otherwise, as where a session came from another machine.
    pub(super) fn names(&self) -> Result<BTreeMap<String, String>, CheckpointError> {
        if let Some(names) = self.known.names() {
            return Ok(names);
        }
        let mut names = self.references()?;
        names.extend(self.own()?);
        self.known.keep_names(names.clone());
        Ok(names)
    }

    /// The names that are refs of the repository, each with its commit.
    fn references(&self) -> Result<BTreeMap<String, String>, CheckpointError> {
        let Some(repository) = &self.place.repository else { return Ok(BTreeMap::new()) };
        let prefix = self.reference("");
        let list = ["for-each-ref", "--format=%(objectname) %(refname)"];
        let answer = repository.ask(self.git, "lists the kept trees").args(list).arg(&prefix).answer()?;
        let text = String::from_utf8_lossy(&answer);
        let named = text.lines().filter_map(|line| {
            let (id, name) = line.split_once(' ')?;
            Some((name.strip_prefix(&prefix)?.to_owned(), id.to_owned()))
        });
        Ok(named.collect())
    }

    /// The names in the session's own folder.
    fn own(&self) -> Result<BTreeMap<String, String>, CheckpointError> {
        let folder = self.own_names();
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(CheckpointError::io("cannot read", &folder, error)),
        };
        let held = |entry: std::fs::DirEntry| {
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            let name = entry.file_name().into_string().ok().filter(|_| is_file)?;
            let id = std::fs::read_to_string(entry.path()).ok()?.trim().to_owned();
            ObjectFormat::of_id(&id).map(|_| (name, id))
        };
        Ok(entries.filter_map(Result::ok).filter_map(held).collect())
    }

    /// Removes all refs. The names in the session's own folder go with that.
    pub(super) fn forget(&self) -> Result<(), CheckpointError> {
        let Some(repository) = &self.place.repository else { return Ok(()) };
        let names = self.references()?.into_keys();
        let commands: String = names.map(|name| format!("delete {}\0\0", self.reference(&name))).collect();
        if !commands.is_empty() {
            let update = ["update-ref", "-z", "--no-deref", "--stdin"];
            let ask = repository.ask(self.git, "removes the names of kept trees").args(update);
            ask.input(commands.as_bytes()).answer()?;
        }
        Ok(())
    }

    /// A scratch git directory in the object format of `id`.
    pub(super) fn scratch_for(&self, id: &str) -> Result<Scratch, CheckpointError> {
        let format = ObjectFormat::of_id(id).ok_or_else(|| self.lost(id))?;
        Scratch::new(format, &self.place.project)
    }

    /// A command that only reads, from every place that may hold kept objects.
    pub(super) fn read(&self, scratch: &Scratch, doing: &'static str) -> GitQuery {
        scratch.ask(self.git, doing, &scratch.objects(), &self.all_objects())
    }

    fn write(&self, scratch: &Scratch, doing: &'static str, objects: &Path) -> GitQuery {
        let others: Vec<PathBuf> = self.all_objects().into_iter().filter(|other| other != objects).collect();
        let mut ask = scratch.ask(self.git, doing, objects, &others);
        if *objects != scratch.objects() {
            ask = ask.durable();
        }
        // Others who share the repository must be able to write to what is made there.
        match self.place.repository.as_ref().and_then(|repository| repository.shared.as_ref()) {
            Some(shared) => ask.setting("core.sharedRepository", shared),
            None => ask,
        }
    }

    fn all_objects(&self) -> Vec<PathBuf> {
        let of_repository = self.place.repository.iter().map(|repository| repository.objects.clone());
        let own = Some(self.own_objects()).filter(|own| own.is_dir());
        own.into_iter().chain(of_repository).collect()
    }

    /// Where new objects go.
    fn new_objects(&self) -> Result<PathBuf, CheckpointError> {
        if let Some(repository) = self.writable_repository() {
            return Ok(repository.objects.clone());
        }
        let own = self.own_objects();
        create_folder(&own)?;
        Ok(own)
    }

    fn writable_repository(&self) -> Option<&EnclosingRepository> {
        self.place.repository.as_ref().filter(|repository| repository.is_writable())
    }

    pub(super) fn own_objects(&self) -> PathBuf {
        self.folder.join("objects")
    }

    fn own_names(&self) -> PathBuf {
        self.folder.join("names")
    }

    fn reference(&self, name: &str) -> String {
        format!("refs/rawko/{}/{name}", self.session)
    }

    pub(super) fn gone(&self, id: &str, error: CheckpointError) -> CheckpointError {
        match error {
            CheckpointError::Git { .. } => self.lost(id),
            other => other,
        }
    }

    pub(super) fn lost(&self, id: &str) -> CheckpointError {
        CheckpointError::Gone { id: id.escape_debug().to_string(), store: self.holder().to_owned() }
    }

    /// What people know as the place of the objects.
    pub(super) fn holder(&self) -> &Path {
        self.place.repository.as_ref().map_or(self.folder, |repository| &repository.dot_git)
    }
}

fn joined<'a>(paths: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    paths.map(TreePath::from).fold(Vec::new(), |mut all, path| {
        all.extend(path);
        all.push(0);
        all
    })
}

/// Waits until no other process keeps trees for this session.
pub(super) fn lock(folder: &Path) -> Result<FileLock, CheckpointError> {
    create_folder(folder)?;
    let path = folder.join("lock");
    let wrong = |error| CheckpointError::io("cannot lock", &path, error);
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let mut options = std::fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.create(true).append(true).open(&path).map_err(wrong)?;
    FileLock::wait_for(file).map_err(wrong)
}
