//! What lies in a project that every command's view depends on: nested repositories, protected folders, build folders.
//!
//! A walk of the whole project for each command would cost more than the sandbox itself. So a survey lasts for a while:
//! what appears meanwhile was made by a command of this run, and no git that rawko starts takes it for a repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::git;

/// How long a survey lasts.
const LASTS: Duration = Duration::from_secs(5);
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
    /// Whether there was more than is looked at.
    pub(super) is_cut: bool,
    is_thorough: bool,
}

impl Survey {
    /// The last survey, or a new one if that is too old. A thorough one leaves no folder out.
    pub(super) fn renewed(last: &mut Option<Self>, root: &Path, is_thorough: bool) -> Self {
        let fresh = last.as_ref().filter(|survey| {
            survey.root == root
                && survey.is_thorough == is_thorough
                && survey.taken.is_some_and(|taken| taken.elapsed() < LASTS)
        });
        match fresh {
            Some(survey) => survey.clone(),
            None => last.insert(Self::of(root, is_thorough)).clone(),
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
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.filter_map(Result::ok) {
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
                if git::looks_bare(&path) {
                    self.bare.push(path);
                } else if self.is_thorough || !(is_build || is(&PACKAGES)) {
                    if depth == MAX_DEPTH {
                        self.is_cut = true;
                    } else {
                        self.walk(&path, depth + 1, is_made || is_build || is(&PACKAGES), left);
                    }
                }
            }
        }
    }
}
