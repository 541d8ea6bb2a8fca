//! A git directory of rawko's own: made for one question or a few, and removed with the value.
//!
//! Everything that reads or writes trees goes through one of these, with the real objects beside it. Its configuration
//! and attributes are rawko's, so that content is kept byte for byte whatever `.gitattributes` says, and nothing that
//! a repository configures has any say. The one exception is [`Repository::ask`](super::place::Repository::ask).

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, geteuid, test_kill_process};

use super::error::CheckpointError;
use super::git::{Ask, Git};
use super::place::{ObjectFormat, UserFolders, WorkTree};

/// Begins the names of the folders; the process and something random follow.
const PREFIX: &str = "rawko-git-";
/// No conversion of any kind. These win over every `.gitattributes`.
const ATTRIBUTES: &str = "* -text !eol -ident -filter !working-tree-encoding !diff !merge !whitespace\n";
/// Most bytes that are heeded of a repository's own list of what is ignored.
const MAX_EXCLUDE: u64 = 1024 * 1024;

/// The folder.
#[derive(Debug)]
pub(super) struct Scratch {
    folder: tempfile::TempDir,
    format: ObjectFormat,
    /// Locked, which tells [`remove_abandoned`] that the folder is in use.
    _in_use: Option<File>,
}

impl Scratch {
    /// Makes one for objects that are named in this format.
    pub(super) fn new(format: ObjectFormat) -> Result<Self, CheckpointError> {
        let folder =
            tempfile::Builder::new().prefix(&format!("{PREFIX}{}-", std::process::id())).tempdir().map_err(
                |error| CheckpointError::io("cannot make a folder in", &std::env::temp_dir(), error),
            )?;
        let in_use = File::open(folder.path()).ok().filter(|folder| folder.try_lock().is_ok());
        let scratch = Self { folder, format, _in_use: in_use };
        let config = match format {
            ObjectFormat::Sha1 => "[core]\nrepositoryformatversion = 0\nbare = false\nfilemode = true\n",
            ObjectFormat::Sha256 => {
                "[core]\nrepositoryformatversion = 1\nbare = false\nfilemode = true\n\
                 [extensions]\nobjectFormat = sha256\n"
            }
        };
        for folder in ["objects", "refs", "info"] {
            let folder = scratch.path().join(folder);
            std::fs::create_dir(&folder)
                .map_err(|error| CheckpointError::io("cannot create", &folder, error))?;
        }
        scratch.write("HEAD", b"ref: refs/heads/none\n")?;
        scratch.write("config", config.as_bytes())?;
        scratch.write("info/attributes", ATTRIBUTES.as_bytes())?;
        Ok(scratch)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Folder for objects that need not outlive it.
    pub(super) fn objects(&self) -> PathBuf {
        self.path().join("objects")
    }

    /// Ignores what the repository's own list says.
    pub(super) fn exclude(&self, place: &WorkTree) -> Result<(), CheckpointError> {
        match place.repository.as_ref().and_then(|repository| read_regular(&repository.exclude)) {
            Some(patterns) => self.write("info/exclude", &patterns),
            None => Ok(()),
        }
    }

    /// Ignores one more path.
    pub(super) fn exclude_also(&self, path: &str) -> Result<(), CheckpointError> {
        let list = self.path().join("info/exclude");
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&list);
        file.and_then(|mut file| file.write_all(format!("\n{path}\n").as_bytes()))
            .map_err(|error| CheckpointError::io("cannot write", &list, error))
    }

    /// A question that reads objects from `objects` and the `alternates`, and writes to `objects`.
    pub(super) fn ask(&self, git: &Git, doing: &'static str, objects: &Path, alternates: &[PathBuf]) -> Ask {
        let no_attributes = match self.format {
            ObjectFormat::Sha1 => "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            ObjectFormat::Sha256 => "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
        };
        git.ask(doing)
            .env("GIT_DIR", self.path())
            .env("GIT_OBJECT_DIRECTORY", objects)
            // The empty tree: attributes of the work tree are not even read.
            .env("GIT_ATTR_SOURCE", no_attributes)
            .alternates(alternates)
            .within(self.path())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), CheckpointError> {
        let path = self.path().join(name);
        std::fs::write(&path, bytes).map_err(|error| CheckpointError::io("cannot write", &path, error))
    }
}

/// Removes the folders that processes left which were killed.
pub(super) fn remove_abandoned() {
    let entries = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        let pid = rest.split_once('-').and_then(|(pid, _)| Pid::from_raw(pid.parse().ok()?));
        let is_own = entry.metadata().is_ok_and(|it| it.is_dir() && it.uid() == geteuid().as_raw());
        // The lock alone does not tell: it is taken a moment after the folder is made. The process alone does not either:
        // in another container it has another id.
        let is_dead = pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH));
        let is_unused = || File::open(entry.path()).is_ok_and(|folder| folder.try_lock().is_ok());
        if is_own && is_dead && is_unused() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The content of a regular file, or nothing: a FIFO does not make anybody wait, a device does not flood.
pub(super) fn read_regular(path: &Path) -> Option<Vec<u8>> {
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).ok()?;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_EXCLUDE).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The user's own list of what is ignored everywhere, if it is a regular file.
pub(super) fn user_exclude(place: &WorkTree, user: &UserFolders) -> Option<PathBuf> {
    let named = place.repository.as_ref().and_then(|repository| repository.user_exclude.clone());
    let path = named.or_else(|| user.exclude())?;
    std::fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() <= MAX_EXCLUDE).then_some(path)
}
