//! The table of checks: which files of a project mean which command. It is data, in `table.json`.

use std::sync::OnceLock;

use serde::Deserialize;

/// The rows of this group are looked at only where no other row of a folder can be run: recipes usually run the
/// language's own runner.
pub(super) const TASKS: &str = "tasks";

/// All that is known of projects: which have which checks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct CheckTable {
    pub(super) checks: Vec<CheckRow>,
    /// Files that make a folder a project of Python.
    pub(super) python_files: Vec<String>,
    /// Folders that hold an interpreter of a project.
    pub(super) python_folders: Vec<String>,
    pub(super) python_locks: Vec<PythonLock>,
}

/// A command, and what a folder has in which it is run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct CheckRow {
    /// What it tests. Of the rows of one language, the first that fits is taken.
    pub(super) of: String,
    /// One sign of each list must be there. The first one is named as the reason.
    pub(super) signs: Vec<Vec<Sign>>,
    /// The command line. `{file}` is the file of the first sign, `{modules}` what `go.work` uses, `{python}`, `{pytest}`
    /// and `{unittest}` are spelt as the project's interpreter needs it.
    pub(super) command: String,
    /// Programs that it needs: names, or files of the folder.
    #[serde(default)]
    pub(super) programs: Vec<String>,
    /// Modules of Python that it needs.
    #[serde(default)]
    pub(super) modules: Vec<String>,
    /// Whether a later row may replace this one if something that it needs is missing.
    #[serde(default)]
    pub(super) or_else: bool,
}

/// What is looked for in a folder: a file, perhaps with something in it, or files by their names.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Sign {
    /// The first of these that is there.
    pub(super) file: Names,
    /// It may be in a folder above as well.
    pub(super) above: bool,
    /// A line of it begins so.
    pub(super) section: Option<String>,
    /// A line of it that is no comment has this word, in any case.
    pub(super) mentions: Option<String>,
    /// At this place in it is a script that does something.
    pub(super) script: Option<String>,
    /// It names this package manager.
    pub(super) manager: Option<String>,
    /// At this place in it are patterns of folders, and a package in one of them has a script `test`.
    pub(super) members: Option<String>,
    /// It is a makefile with a rule of that name.
    pub(super) rule: Option<String>,
    /// It is a justfile with a recipe of that name.
    pub(super) recipe: Option<String>,
    /// It is a `go.work` that uses modules.
    pub(super) uses: bool,
    /// One file of the folder has such a name, and no other.
    pub(super) only: Option<String>,
    /// Files of the folder have such names: the first.
    pub(super) first: Option<String>,
    /// A file in or below the folder has such a path.
    pub(super) like: Option<String>,
    /// There are tests of Python.
    pub(super) tests: Option<PythonTests>,
}

/// A name, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Names {
    One(String),
    Several(Vec<String>),
}

impl Default for Names {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl Names {
    pub(super) fn as_slice(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Several(names) => names,
        }
    }
}

/// Which tests of Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PythonTests {
    /// Those that pytest finds.
    Any,
    /// Those of unittest, where none is written for pytest.
    Unittest,
}

/// A file that a manager of Python's environments keeps.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PythonLock {
    pub(super) file: String,
    pub(super) program: String,
    /// The prefix of a command that is run in the environment.
    pub(super) run: String,
    /// How the file names a package.
    pub(super) package: String,
}

impl CheckTable {
    /// The built-in table.
    pub(super) fn get() -> &'static Self {
        static TABLE: OnceLock<CheckTable> = OnceLock::new();
        #[allow(clippy::expect_used, reason = "the text is a constant that the tests read")]
        TABLE.get_or_init(|| serde_json::from_str(include_str!("table.json")).expect("table.json is valid"))
    }
}
