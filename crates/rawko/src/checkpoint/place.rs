//! Where the project lies: the work tree around it, and the repository that this belongs to.
//!
//! Found by looking for `.git` in the project and above it, not by asking git: what the repository's configuration
//! says of its own place (`core.worktree`, `core.bare`) does not count, and a folder that only looks like a bare
//! repository is never taken for one.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::error::CheckpointError;
use super::git::{Ask, Git};

/// How a repository names its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectFormat {
    /// 40 hexadecimal digits.
    Sha1,
    /// 64 of them.
    Sha256,
}

impl ObjectFormat {
    /// The format of an object's name; `None` where it is no such name.
    pub(super) fn of_id(id: &str) -> Option<Self> {
        if !id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        match id.len() {
            40 => Some(Self::Sha1),
            64 => Some(Self::Sha256),
            _ => None,
        }
    }
}

/// The project and what lies around it.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The project's real path.
    pub(super) project: PathBuf,
    /// The work tree that it is part of; the project itself where there is no repository.
    pub(super) toplevel: PathBuf,
    /// The repository, if there is one that can be used.
    pub(super) repository: Option<Repository>,
}

/// A repository around the project.
#[derive(Debug, Clone)]
pub(super) struct Repository {
    /// `.git`: a folder, or a file that names one.
    pub(super) dot_git: PathBuf,
    toplevel: PathBuf,
    /// Where its objects are.
    pub(super) objects: PathBuf,
    /// Its own list of what is ignored.
    pub(super) exclude: PathBuf,
    /// How it names objects.
    pub(super) format: ObjectFormat,
}

impl Place {
    /// Looks for the repository around `project`. One that git cannot use is none.
    ///
    /// # Errors
    /// If there is no such project.
    pub(super) fn find(project: &Path, git: Option<&Git>) -> Result<Self, CheckpointError> {
        let project = project
            .canonicalize()
            .map_err(|error| CheckpointError::io("cannot find the project", project, error))?;
        let repository = git.and_then(|git| {
            project
                .ancestors()
                .filter(|folder| folder.join(".git").symlink_metadata().is_ok())
                .find_map(|folder| Repository::at(git, folder))
        });
        let toplevel = repository.as_ref().map_or_else(|| project.clone(), |found| found.toplevel.clone());
        Ok(Self { project, toplevel, repository })
    }

    /// The same project, standing alone.
    pub(super) fn alone(&self) -> Self {
        Self { project: self.project.clone(), toplevel: self.project.clone(), repository: None }
    }
}

impl Repository {
    fn at(git: &Git, toplevel: &Path) -> Option<Self> {
        let dot_git = toplevel.join(".git");
        let mut found = Self {
            dot_git,
            toplevel: toplevel.to_owned(),
            objects: PathBuf::new(),
            exclude: PathBuf::new(),
            format: ObjectFormat::Sha1,
        };
        let paths =
            ["rev-parse", "--path-format=absolute", "--git-path", "objects", "--git-path", "info/exclude"];
        let answer = found
            .ask(git, "looks at the repository")
            .args(paths)
            .arg("--show-object-format")
            .answer()
            .ok()?;
        let mut lines = answer.split(|byte| *byte == b'\n');
        let mut path = || lines.next().map(|line| PathBuf::from(OsString::from_vec(line.to_vec())));
        (found.objects, found.exclude) = (path()?, path()?);
        found.format = match lines.next()? {
            b"sha1" => ObjectFormat::Sha1,
            b"sha256" => ObjectFormat::Sha256,
            _ => return None,
        };
        found.objects.is_dir().then_some(found)
    }

    /// A question to git about this repository: the only ones for which its configuration is read.
    pub(super) fn ask(&self, git: &Git, doing: &'static str) -> Ask {
        git.ask(doing)
            .env("GIT_DIR", &self.dot_git)
            .env("GIT_WORK_TREE", &self.toplevel)
            .within(&self.toplevel)
    }

    /// Whether objects can be added to it.
    pub(super) fn is_writable(&self) -> bool {
        rustix::fs::access(&self.objects, rustix::fs::Access::WRITE_OK).is_ok()
    }
}
