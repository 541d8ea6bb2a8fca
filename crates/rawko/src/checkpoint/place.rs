//! Finds the work tree around the project, and its repository.
//!
//! It looks for `.git` in the project and above it instead of asking git: what the repository's configuration says of
//! its own place (`core.worktree`, `core.bare`) does not count, and a folder that only looks like a bare repository is
//! never taken for one.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rawko_tools::text_of;

use super::error::CheckpointError;
use super::git::{BRIEF, GitProgram, GitQuery, Unanswered};
use crate::isolation::SHARED_OBJECTS;

/// Files of a repository that git opens, and would wait for if they were FIFOs.
const READ_BY_GIT: [&str; 6] =
    ["HEAD", "config", "config.worktree", "index", "packed-refs", "objects/info/alternates"];

/// Whether something is there that can be neither read at once nor listed: a FIFO, a device, a socket.
pub(super) fn is_waited_for(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// How a repository names its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectFormat {
    /// 40 hexadecimal digits.
    Sha1,
    /// 64 of them.
    Sha256,
}

impl ObjectFormat {
    /// How many digits a name has.
    pub(super) fn digits(self) -> usize {
        match self {
            Self::Sha1 => 40,
            Self::Sha256 => 64,
        }
    }

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

/// The project and its surroundings.
#[derive(Debug, Clone)]
pub(super) struct WorkTree {
    /// The project's real path.
    pub(super) project: PathBuf,
    /// The work tree that it is part of; the project itself where there is no repository.
    pub(super) toplevel: PathBuf,
    /// The repository, if there is one that can be used.
    pub(super) repository: Option<EnclosingRepository>,
}

/// A repository around the project.
#[derive(Debug, Clone)]
pub(super) struct EnclosingRepository {
    /// `.git`: a folder, or a file that names one.
    pub(super) dot_git: PathBuf,
    toplevel: PathBuf,
    /// Where its objects are.
    pub(super) objects: PathBuf,
    /// Its own list of what is ignored.
    pub(super) exclude: PathBuf,
    /// How it names objects.
    pub(super) format: ObjectFormat,
    /// Which list of what is ignored its user names: `core.excludesFile`.
    pub(super) user_exclude: Option<PathBuf>,
    /// Who else may write to it: `core.sharedRepository`.
    pub(super) shared: Option<OsString>,
    /// Whether nothing is to be added to it.
    is_closed: bool,
}

/// Where the user's own git configuration is looked for.
#[derive(Debug, Clone, Default)]
pub(super) struct UserFolders {
    /// `HOME`.
    pub(super) home: Option<OsString>,
    /// `XDG_CONFIG_HOME`.
    pub(super) config: Option<OsString>,
}

impl UserFolders {
    /// A path as git reads it from a setting.
    fn expand(&self, path: &OsStr, toplevel: &Path) -> PathBuf {
        let path = Path::new(path);
        match (path.strip_prefix("~"), &self.home) {
            (Ok(rest), Some(home)) => Path::new(home).join(rest),
            _ => toplevel.join(path),
        }
    }

    /// The user's list of what is ignored where no setting names one.
    pub(super) fn exclude(&self) -> Option<PathBuf> {
        let of_home = || Some(PathBuf::from(self.home.as_ref()?).join(".config"));
        Some(self.config.as_ref().map(PathBuf::from).or_else(of_home)?.join("git").join("ignore"))
    }
}

impl WorkTree {
    /// Looks for the repository around `project`. One that git cannot use is none.
    ///
    /// # Errors
    /// If there is no such project.
    pub(super) fn find(
        project: &Path,
        git: &GitProgram,
        user: &UserFolders,
    ) -> Result<Self, CheckpointError> {
        let project = real(project)?;
        let repository = project
            .ancestors()
            .filter(|folder| folder.join(".git").symlink_metadata().is_ok())
            .find_map(|folder| EnclosingRepository::at(git, folder, user));
        let toplevel = repository.as_ref().map_or_else(|| project.clone(), |found| found.toplevel.clone());
        Ok(Self { project, toplevel, repository })
    }

    /// The same project, standing alone.
    pub(super) fn alone(&self) -> Self {
        Self { project: self.project.clone(), toplevel: self.project.clone(), repository: None }
    }
}

/// The project's real path.
pub(super) fn real(project: &Path) -> Result<PathBuf, CheckpointError> {
    project.canonicalize().map_err(|error| CheckpointError::io("cannot find the project", project, error))
}

/// The root of the work tree of git around `folder`, if there is one.
#[must_use]
pub fn toplevel(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|above| above.join(".git").symlink_metadata().is_ok())
}

/// The folder whose content the repository decides on: the work tree around `project`, or the project.
pub(crate) fn work_tree(project: &Path) -> &Path {
    toplevel(project).unwrap_or(project)
}

/// Longest file that names a folder.
const LONGEST_NAME: u64 = 64 * 1024;

/// Whether the repository that `.git` refers to belongs to this work tree. A file or a link can name any repository:
/// one outside counts only if it names the work tree back, as git has it for linked work trees and submodules.
fn is_own(git: &GitProgram, toplevel: &Path, dot_git: &Path) -> bool {
    if dot_git.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        return true;
    }
    let Ok(real) = dot_git.canonicalize() else { return false };
    let text = text_of(&real, LONGEST_NAME);
    let named = text.as_deref().and_then(|text| text.strip_prefix("gitdir:"));
    let named = named.map_or(Ok(real.clone()), |named| toplevel.join(named.trim()).canonicalize());
    let (Ok(folder), Ok(top)) = (named, toplevel.canonicalize()) else { return false };
    if folder.starts_with(&top) {
        return true;
    }
    let is_here = |path: PathBuf, here: &Path| path.canonicalize().is_ok_and(|path| path == here);
    let back = text_of(&folder.join("gitdir"), LONGEST_NAME);
    if back.is_some_and(|back| is_here(folder.join(back.trim()), &real)) {
        return true;
    }
    let config = folder.join("config");
    if is_waited_for(&config) {
        return false;
    }
    // To read a setting from a file runs nothing.
    let ask =
        git.ask("looks whose repository it is").within_time(BRIEF).args(["config", "--file"]).arg(&config);
    let answer = ask.args(["--get", "core.worktree"]).answer().unwrap_or_default();
    let worktree = OsString::from_vec(answer.trim_ascii_end().to_vec());
    !worktree.is_empty() && is_here(folder.join(worktree), &top)
}

/// Whether the repository that the `.git` of a work tree refers to belongs to it.
pub(crate) fn owns_repository(root: &Path) -> bool {
    let git = GitProgram::find(std::env::var_os("PATH").as_deref(), root, &Unanswered::default());
    git.is_some_and(|git| is_own(&git, root, &root.join(".git")))
}

/// The `.git` of a work tree around `project` that refers to a repository which does not belong to it.
pub(crate) fn foreign_repository(project: &Path) -> Option<PathBuf> {
    let dot_git = work_tree(project).join(".git");
    let top = work_tree(project);
    // A folder is its own, and needs no git to know.
    dot_git.symlink_metadata().ok().filter(|found| !found.is_dir())?;
    let git = GitProgram::find(std::env::var_os("PATH").as_deref(), top, &Unanswered::default())?;
    (!is_own(&git, top, &dot_git)).then_some(dot_git)
}

impl EnclosingRepository {
    /// The one of a work tree; `None` where git cannot use it.
    pub(super) fn at(git: &GitProgram, toplevel: &Path, user: &UserFolders) -> Option<Self> {
        let dot_git = toplevel.join(".git");
        if READ_BY_GIT.iter().any(|name| is_waited_for(&dot_git.join(name))) {
            return None;
        }
        if !is_own(git, toplevel, &dot_git) {
            return None;
        }
        let mut found = Self {
            dot_git,
            toplevel: toplevel.to_owned(),
            objects: PathBuf::new(),
            exclude: PathBuf::new(),
            format: ObjectFormat::Sha1,
            user_exclude: None,
            shared: None,
            is_closed: false,
        };
        let paths = ["objects", "info/exclude", "refs"].into_iter().flat_map(|path| ["--git-path", path]);
        let answer = found
            .ask(git, "looks at the repository")
            .args(["rev-parse", "--path-format=absolute"])
            .args(paths)
            .args(["--git-common-dir", "--show-object-format"])
            .answer()
            .ok()?;
        let mut lines = answer.split(|byte| *byte == b'\n');
        let mut path = || lines.next().map(|line| PathBuf::from(OsString::from_vec(line.to_vec())));
        (found.objects, found.exclude) = (path()?, path()?);
        let (refs, common) = (path()?, path()?);
        // Nothing is written where a link leads: git resolves it in its answer.
        let is_linked = found.objects != common.join("objects") || refs != common.join("refs");
        if is_linked || refs.join("rawko").is_symlink() {
            return None;
        }
        found.format = match lines.next()? {
            b"sha1" => ObjectFormat::Sha1,
            b"sha256" => ObjectFormat::Sha256,
            _ => return None,
        };
        found.read_settings(git, user);
        found.objects.is_dir().then_some(found)
    }

    /// The two settings that count, the user's own among them. To read one runs nothing.
    fn read_settings(&mut self, git: &GitProgram, user: &UserFolders) {
        let ask = self.ask_settings(git, user);
        let wanted = ["config", "-z", "--get-regexp", r"^core\.(excludesfile|sharedrepository)$"];
        // Neither is set in most repositories, and git then ends with a status of failure.
        let answer = ask.args(wanted).answer().unwrap_or_default();
        for setting in answer.split(|byte| *byte == 0) {
            let Some(end) = setting.iter().position(|byte| *byte == b'\n') else { continue };
            let (name, value) = setting.split_at(end);
            let value = OsString::from_vec(value.get(1..).unwrap_or_default().to_vec());
            // The last one holds.
            match name {
                b"core.excludesfile" => self.user_exclude = Some(user.expand(&value, &self.toplevel)),
                _ => self.shared = Some(value),
            }
        }
    }

    /// One setting, of the repository or of its user.
    pub(super) fn setting(&self, git: &GitProgram, user: &UserFolders, name: &str) -> Option<String> {
        let answer = self.ask_settings(git, user).args(["config", "--get", name]).text().ok()?;
        (!answer.is_empty()).then_some(answer)
    }

    fn ask_settings(&self, git: &GitProgram, user: &UserFolders) -> GitQuery {
        let mut ask = self
            .ask(git, "reads its settings")
            .without_env("GIT_CONFIG_GLOBAL")
            .without_env("GIT_CONFIG_SYSTEM")
            .without_env("GIT_CONFIG_NOSYSTEM");
        for (name, value) in [("HOME", &user.home), ("XDG_CONFIG_HOME", &user.config)] {
            if let Some(value) = value {
                ask = ask.env(name, value);
            }
        }
        ask
    }

    /// A question to git about this repository: the only ones for which its configuration is read.
    pub(super) fn ask(&self, git: &GitProgram, doing: &'static str) -> GitQuery {
        git.ask(doing)
            .env("GIT_DIR", &self.dot_git)
            .env("GIT_WORK_TREE", &self.toplevel)
            .within(&self.toplevel)
            .within_time(BRIEF)
    }

    /// For the session of an isolated tree: nothing is added to the repository, and of its copy in that tree only the
    /// objects of the project's own count. What the session keeps can then be read after the tree is gone.
    pub(super) fn of_isolated_tree(mut self) -> Self {
        let shared = self.objects.with_file_name(SHARED_OBJECTS);
        if shared.is_dir() {
            self.objects = shared;
        }
        self.is_closed = true;
        self
    }

    /// Whether objects can be added to it.
    pub(super) fn is_writable(&self) -> bool {
        !self.is_closed && rustix::fs::access(&self.objects, rustix::fs::Access::WRITE_OK).is_ok()
    }
}
