//! A git directory of rawko's own: made for one question or a few, and removed with the value.
//!
//! Everything that reads or writes trees goes through one of these, with the real objects beside it. Its configuration
//! and attributes are rawko's, so that content is kept byte for byte whatever `.gitattributes` says, and nothing that
//! a repository configures has any say. The one exception is
//! [`EnclosingRepository::ask`](super::place::EnclosingRepository::ask).

use std::io::Write as _;
use std::path::{Path, PathBuf};

use rawko_tools::read_regular;

use super::error::CheckpointError;
use super::git::{GitProgram, GitQuery};
use super::place::{ObjectFormat, UserFolders, WorkTree};
use rawko_tools::temporary::{self, TemporaryFolder};

/// No conversion of any kind. These win over every `.gitattributes`.
const ATTRIBUTES: &str = "* -text !eol -ident -filter !working-tree-encoding !diff !merge !whitespace\n";
/// The most bytes that are read of a repository's own list of ignored files.
const MAX_EXCLUDE: u64 = 1024 * 1024;

/// The folder.
#[derive(Debug)]
pub(super) struct Scratch {
    folder: TemporaryFolder,
    pub(super) format: ObjectFormat,
}

impl Scratch {
    /// Makes one for objects of a `project` that are named in this format.
    pub(super) fn new(format: ObjectFormat, project: &Path) -> Result<Self, CheckpointError> {
        let folder = TemporaryFolder::new(temporary::GIT, project).map_err(|error| {
            CheckpointError::io("cannot make a folder in", &temporary::parent(project), error)
        })?;
        let scratch = Self { folder, format };
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
        match place.repository.as_ref().and_then(|repository| read_list(&repository.exclude)) {
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
    pub(super) fn ask(
        &self,
        git: &GitProgram,
        doing: &'static str,
        objects: &Path,
        alternates: &[PathBuf],
    ) -> GitQuery {
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

/// The beginning of a list of what is ignored, if it is a regular file.
pub(super) fn read_list(path: &Path) -> Option<Vec<u8>> {
    read_regular(path, MAX_EXCLUDE).ok()
}

/// The user's own list of what is ignored everywhere, if it is a regular file.
pub(super) fn user_exclude(place: &WorkTree, user: &UserFolders) -> Option<PathBuf> {
    let named = place.repository.as_ref().and_then(|repository| repository.user_exclude.clone());
    let path = named.or_else(|| user.exclude())?;
    std::fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() <= MAX_EXCLUDE).then_some(path)
}
