//! A project in a temporary folder, and what can be asked about it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::checkpoint::place::UserFolders;
use crate::checkpoint::{Changes, Checkpoints, DiffDetail, DiffRange, Execute, Extent, Rewound};
use crate::journal::{FORMAT, JournalHeader};

pub(super) const SESSION: &str = "20261122-094512-417-x7f2k";

pub(super) struct Bench {
    folder: tempfile::TempDir,
    inside: PathBuf,
    pub(super) checkpoints: Checkpoints,
}

impl Bench {
    /// A folder that is no repository.
    pub(super) fn plain() -> Self {
        Self::at("")
    }

    /// A repository with a commit of one file.
    pub(super) fn repository() -> Self {
        let bench = Self::plain();
        bench.init();
        bench.write("tracked", "one\n").git(&["add", "tracked"]);
        bench.git(&["commit", "--quiet", "--message", "first"]);
        bench
    }

    /// The project is a folder inside the work tree.
    pub(super) fn at(inside: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("work").join(inside);
        std::fs::create_dir_all(&project).unwrap();
        std::fs::create_dir(folder.path().join("home")).unwrap();
        let inside = PathBuf::from(inside);
        let checkpoints = Checkpoints::new(Path::new("/nowhere"), Path::new("/nowhere"), SESSION);
        Self { folder, inside, checkpoints }.session(SESSION)
    }

    /// Another session of the same project.
    pub(super) fn session(mut self, id: &str) -> Self {
        let project = self.project();
        let directory = project.join(".rawko/sessions").join(id);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(project.join(".rawko/sessions/.gitignore"), "*\n").unwrap();
        std::fs::write(directory.join("journal.jsonl"), "a journal\n").unwrap();
        let mut checkpoints = Checkpoints::new(&project, &directory, id);
        checkpoints.user = UserFolders { home: Some(self.home().into()), config: None };
        self.checkpoints = checkpoints;
        self
    }

    pub(super) fn init(&self) {
        self.git(&["init", "--quiet", "--initial-branch", "main"]);
    }

    pub(super) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The top of the work tree.
    pub(super) fn top(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(super) fn outside(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn project(&self) -> PathBuf {
        self.top().join(&self.inside)
    }

    pub(super) fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.project().join(Path::new(name.as_ref()))
    }

    pub(super) fn write(&self, name: impl AsRef<OsStr>, text: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub(super) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.outside().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    pub(super) fn link(&self, name: &str, to: impl AsRef<Path>) -> &Self {
        std::os::unix::fs::symlink(to, self.path(name)).unwrap();
        self
    }

    pub(super) fn remove(&self, name: &str) -> &Self {
        std::fs::remove_file(self.path(name)).unwrap();
        self
    }

    pub(super) fn executable(&self, name: &str, mode: u32) -> &Self {
        std::fs::set_permissions(self.path(name), PermissionsExt::from_mode(mode)).unwrap();
        self
    }

    pub(super) fn read(&self, name: &str) -> String {
        String::from_utf8(std::fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// Asks git as a user does, at the top of the work tree.
    pub(super) fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.top(), args)
    }

    pub(super) fn git_in(&self, folder: &Path, args: &[&str]) -> String {
        // With settings of the user's, which some tests write.
        testkit::said(
            testkit::git_command(folder).env("HOME", self.home()).env_remove("GIT_CONFIG_GLOBAL").args(args),
        )
    }

    pub(super) fn take(&self, iteration: u32) -> String {
        self.checkpoints.take(iteration).unwrap()
    }

    pub(super) fn end(&self) -> Option<String> {
        self.checkpoints.take_end().unwrap()
    }

    /// The names in a kept tree, without their content.
    #[track_caller]
    pub(super) fn kept(&self, id: &str) -> Vec<String> {
        let snapshot = self.checkpoints.store().unwrap().snapshot(id).unwrap();
        snapshot.keys().map(|path| path.escape_ascii().to_string()).collect()
    }

    /// A file of a kept tree: its mode, and its content.
    #[track_caller]
    pub(super) fn kept_file(&self, id: &str, name: &str) -> (&'static str, Vec<u8>) {
        let store = self.checkpoints.store().unwrap();
        let entry = store.snapshot(id).unwrap().remove(name.as_bytes()).unwrap();
        (entry.kind.mode(), store.objects().contents(&[&entry.id]).unwrap().remove(0))
    }

    #[track_caller]
    pub(super) fn rewind(&self, to: &str) -> Rewound {
        self.checkpoints.rewind(to, Execute::Really, Extent::Session).unwrap()
    }

    #[track_caller]
    pub(super) fn changes(&self, span: DiffRange) -> Changes {
        self.checkpoints.changes(span, DiffDetail::Lines).unwrap()
    }

    /// Every file below the project but rawko's and git's own, with kind and content: what a rewind is about.
    pub(super) fn tree(&self) -> BTreeMap<String, String> {
        let mut tree = BTreeMap::new();
        gather(&self.project(), &self.project(), &mut tree);
        tree
    }

    /// Everything that is the user's in a repository: index, branch, stash, configuration.
    pub(super) fn users_own(&self) -> String {
        let mut all = String::new();
        for name in ["HEAD", "index", "config", "logs/HEAD", "ORIG_HEAD", "COMMIT_EDITMSG"] {
            let content = std::fs::read(self.top().join(".git").join(name)).unwrap_or_default();
            all.push_str(&format!("{name}: {}\n", content.escape_ascii()));
        }
        all.push_str(&self.git(&["for-each-ref", "refs/heads", "refs/tags", "refs/stash", "refs/remotes"]));
        all
    }
}

/// How a journal of this project begins.
pub(super) fn header(session: &str) -> JournalHeader {
    serde_json::from_value(serde_json::json!({
        "format": FORMAT,
        "rawko": "0.0.0",
        "session": session,
        "createdAt": 1,
        "task": "another",
        "configDigest": "",
    }))
    .unwrap()
}

fn gather(root: &Path, folder: &Path, tree: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap();
        if name == Path::new(".git") || name == Path::new(".rawko") {
            continue;
        }
        let metadata = path.symlink_metadata().unwrap();
        let name = name.to_string_lossy().into_owned();
        if metadata.is_symlink() {
            tree.insert(name, format!("-> {}", path.read_link().unwrap().display()));
        } else if metadata.is_dir() {
            gather(root, &path, tree);
        } else {
            let x = if metadata.permissions().mode() & 0o100 == 0 { "" } else { "x " };
            tree.insert(name, format!("{x}{}", std::fs::read(&path).unwrap().escape_ascii()));
        }
    }
}
