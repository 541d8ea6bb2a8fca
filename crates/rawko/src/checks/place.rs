//! A folder of the project in which checks are looked for, and the machine that would run them.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use rawko_tools::{project_files, read_regular};

/// Most bytes that are read of a file.
const MAX_BYTES: u64 = 256 * 1024;
/// Most entries below a folder that are looked at.
const MAX_ENTRIES: usize = 10_000;
/// Folders that hold what is not the project's own, or no tests.
const FOREIGN: [&str; 14] = [
    "__pycache__",
    "bower_components",
    "build",
    "deps",
    "dist",
    "dist-packages",
    "fixtures",
    "node_modules",
    "site-packages",
    "target",
    "testdata",
    "third_party",
    "vendor",
    "venv",
];

/// The parts of the user's environment that matter.
#[derive(Debug, Default)]
pub(crate) struct UserEnvironment {
    /// As in `PATH`.
    pub(crate) path: Option<OsString>,
    /// As in `VIRTUAL_ENV`.
    pub(crate) virtual_env: Option<PathBuf>,
    /// As in `HOME`.
    pub(crate) home: Option<PathBuf>,
}

impl UserEnvironment {
    /// Where a program of that name is found.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        let folders = self.path.as_deref().map(std::env::split_paths).into_iter().flatten();
        // A relative folder is the project's to fill.
        let folders = folders.filter(|folder| folder.is_absolute());
        folders.map(|folder| folder.join(name)).find(|path| is_executable(path))
    }
}

/// Whether a path leads to a file that can be executed.
pub(super) fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// A folder in the project. Both are real paths.
#[derive(Debug)]
pub(super) struct ProjectFolder<'a> {
    pub(super) project: &'a Path,
    pub(super) folder: &'a Path,
    pub(super) machine: &'a UserEnvironment,
    below: OnceCell<Vec<String>>,
}

impl<'a> ProjectFolder<'a> {
    pub(super) fn new(project: &'a Path, folder: &'a Path, machine: &'a UserEnvironment) -> Self {
        Self { project, folder, machine, below: OnceCell::new() }
    }

    /// The folder and those above it, up to the project.
    pub(super) fn ancestors(&self) -> impl Iterator<Item = &'a Path> + use<'a> {
        let project = self.project;
        self.folder.ancestors().take_while(move |above| above.starts_with(project))
    }

    /// How a path is named in the project; `None` if it is outside the project or its name is not text.
    pub(super) fn in_project(&self, path: &Path) -> Option<String> {
        path.strip_prefix(self.project).ok()?.to_str().map(str::to_owned)
    }

    /// Whether a program is there: one of the machine, or a file of the folder.
    pub(super) fn has_program(&self, name: &str) -> bool {
        if name.contains('/') {
            is_executable(&self.folder.join(name))
        } else {
            self.machine.program(name).is_some()
        }
    }

    /// The names of the files in the folder, sorted.
    pub(super) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder).into_iter().flatten().take(MAX_ENTRIES);
        let files = entries.flatten().filter(|entry| is_file(&entry.path()));
        let mut names: Vec<String> = files.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The paths of the files below the folder that git would track, those of folders for tests first.
    pub(super) fn below(&self) -> &[String] {
        self.below.get_or_init(|| {
            let mut paths: Vec<String> = Vec::new();
            for start in ["tests", "test", "spec", ""] {
                let start = self.folder.join(start);
                if start.is_symlink() || !start.is_dir() {
                    continue;
                }
                // A folder that cannot be read counts as missing.
                let _ = project_files(self.project, &start, MAX_ENTRIES, is_own, |path| {
                    let path = path.strip_prefix(self.folder).ok().and_then(Path::to_str);
                    paths.extend(
                        path.filter(|path| !paths.iter().any(|seen| seen == path)).map(str::to_owned),
                    );
                });
            }
            paths
        })
    }
}

/// Whether a folder of that name may hold tests of the project.
fn is_own(name: &OsStr) -> bool {
    !name.as_encoded_bytes().starts_with(b".") && FOREIGN.iter().all(|foreign| name != *foreign)
}

pub(super) fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file())
}

/// The beginning of a regular file: a FIFO is not waited for.
pub(super) fn read(path: &Path) -> Option<String> {
    let bytes = read_regular(path, MAX_BYTES).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// What has names like this: `*` does not go beyond a folder.
pub(super) fn pattern(glob: &str) -> Option<GlobMatcher> {
    GlobBuilder::new(glob).literal_separator(true).build().ok().map(|glob| glob.compile_matcher())
}
