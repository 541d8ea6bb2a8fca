//! What lies in a project that every command's view depends on: nested repositories, protected folders, build folders.
//!
//! A walk of the whole project for each command would cost more than the sandbox itself. So a survey lasts for a while:
//! what appears meanwhile was made by a command of this run, and no git that rawko starts takes it for a repository. Where
//! files are to be hidden by patterns, a survey lasts until a folder changes.

use std::fs::{self, DirEntry};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::git;

/// How long a survey lasts.
const LASTS: Duration = Duration::from_secs(5);
/// A folder that changed so shortly before it was read may have changed again without a new time.
const TICK: Duration = Duration::from_millis(50);
/// The most entries of a project that are looked at.
const MAX_ENTRIES: usize = 200_000;
/// How deep the walk goes.
const MAX_DEPTH: usize = 24;
/// Folders with installed packages: too large to walk, and nothing in them is edited by hand.
const PACKAGES: [&str; 3] = ["node_modules", ".venv", "venv"];
/// Folders that build tools write.
const BUILDS: [&str; 16] = [
    ".gradle",
    ".mypy_cache",
    ".next",
    ".nuxt",
    ".nyc_output",
    ".pytest_cache",
    ".ruff_cache",
    ".tox",
    ".turbo",
    ".vite",
    "__pycache__",
    "build",
    "coverage",
    "dist",
    "out",
    "target",
];

/// The result of a walk.
#[derive(Debug, Clone, Default)]
pub(super) struct Survey {
    taken: Option<Instant>,
    root: PathBuf,
    /// Names that no permission grants: `.rawko`, `.claude`, `.git`.
    pub(super) protected: Vec<PathBuf>,
    /// Folders that look like a bare repository.
    pub(super) bare: Vec<PathBuf>,
    pub(super) builds: Vec<PathBuf>,
    /// Everything, if patterns of `deny` are to be looked for.
    pub(super) files: Vec<PathBuf>,
    /// The folders that were read and when they had changed, in a thorough survey.
    folders: Vec<(PathBuf, SystemTime)>,
    /// Whether there was more than is looked at.
    pub(super) is_cut: bool,
    is_thorough: bool,
}

impl Survey {
    /// The last survey, or a new one if that is too old. A thorough one leaves no folder out.
    pub(super) fn renewed(last: &mut Option<Arc<Self>>, root: &Path, is_thorough: bool) -> Arc<Self> {
        let fresh = last.as_ref().filter(|survey| {
            survey.root == root
                && survey.is_thorough == is_thorough
                && if is_thorough {
                    survey.folders.iter().all(|(folder, when)| changed(folder) == Some(*when))
                } else {
                    survey.taken.is_some_and(|taken| taken.elapsed() < LASTS)
                }
        });
        match fresh {
            Some(survey) => Arc::clone(survey),
            None => Arc::clone(last.insert(Arc::new(Self::of(root, is_thorough)))),
        }
    }

    fn of(root: &Path, is_thorough: bool) -> Self {
        let mut survey = Self { root: root.to_owned(), is_thorough, ..Self::default() };
        // Whatever else there is: these are at the top.
        let top = [".claude", ".git", ".rawko"].map(|name| root.join(name));
        survey.protected.extend(top.into_iter().filter(|path| path.symlink_metadata().is_ok()));
        let mut left = MAX_ENTRIES;
        survey.walk(root, 0, false, &mut left);
        survey.taken = Some(Instant::now());
        survey
    }

    /// `is_made`: the folder lies in one that tools fill.
    fn walk(&mut self, folder: &Path, depth: usize, is_made: bool, left: &mut usize) {
        if self.is_thorough {
            let settled = |when: &SystemTime| when.elapsed().is_ok_and(|since| since > TICK);
            let when = changed(folder).filter(settled).unwrap_or(SystemTime::UNIX_EPOCH);
            self.folders.push((folder.to_owned(), when));
        }
        let Ok(entries) = fs::read_dir(folder) else { return };
        let entries: Vec<DirEntry> = entries.filter_map(Result::ok).take(*left + 1).collect();
        let has = |name| entries.iter().any(|entry| entry.file_name() == name);
        if depth > 0 && has("HEAD") && has("objects") && has("refs") && git::looks_bare(folder) {
            self.bare.push(folder.to_owned());
            if !self.is_thorough {
                return;
            }
        }
        for entry in entries {
            if *left == 0 {
                self.is_cut = true;
                return;
            }
            *left -= 1;
            let (path, name) = (entry.path(), entry.file_name());
            let Ok(kind) = entry.file_type() else { continue };
            let is_protected = crate::access::protected_name(Path::new(&name)).is_some();
            if self.is_thorough {
                self.files.push(path.clone());
            }
            if is_protected {
                if !self.protected.contains(&path) {
                    self.protected.push(path);
                }
            } else if kind.is_dir() {
                let is = |names: &[&str]| names.iter().any(|n| name == *n);
                let is_build = is(&BUILDS);
                if is_build && !is_made {
                    self.builds.push(path.clone());
                }
                if self.is_thorough || !(is_build || is(&PACKAGES)) {
                    if depth == MAX_DEPTH {
                        self.is_cut = true;
                    } else {
                        self.walk(&path, depth + 1, is_made || is_build || is(&PACKAGES), left);
                    }
                } else if git::looks_bare(&path) {
                    self.bare.push(path);
                }
            }
        }
    }
}

/// When something was last added to a folder or taken away: by the clock of the kernel, which no command can set back.
fn changed(folder: &Path) -> Option<SystemTime> {
    let folder = fs::symlink_metadata(folder).ok()?;
    let (seconds, rest) = (u64::try_from(folder.ctime()).ok()?, u32::try_from(folder.ctime_nsec()).ok()?);
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, rest))
}
