//! Which files decide what the checks of a project are: its tests, and what configures and starts them.
//!
//! The conventions of each ecosystem are data, in `kinds.json`. Names are compared without case, because some file
//! systems do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use regex::Regex;
use serde::Deserialize;

/// Test runners of Python.
const RUNNERS: &[&str] = &["unittest", "pytest", "_pytest", "doctest", "sitecustomize", "usercustomize"];
/// Where Python keeps what it compiled: no check, whatever its name.
const COMPILED: &str = "__pycache__/";
/// Endings of files that are found by the names of modules.
const MODULES: &[&str] = &[
    ".py", ".pyc", ".so", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx", ".json", ".node",
    ".rb",
];

/// The table of conventions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Conventions {
    /// Tests, as globs.
    tests: Vec<String>,
    /// What configures and starts tests, as globs.
    config: Vec<String>,
    /// Modules that Python's runners import: one of that name in the project comes before them.
    modules: Vec<String>,
    /// Headers of C's own: one of that name in the project may come before them.
    headers: Vec<String>,
    /// Folders that builds and test runs write to.
    outputs: Vec<String>,
    /// Folders that builds write to, and that may hold checks all the same.
    builds: Vec<String>,
    /// Folders that package managers write to.
    dependencies: Vec<String>,
    /// Files whose change explains a change of the dependencies, as globs of names.
    locks: Vec<String>,
    /// What configures tools that only count where a command names them, as globs.
    tools: BTreeMap<String, Vec<String>>,
    /// Tests, tasks, and libraries that only tests use, as regular expressions, with the endings of the files that they
    /// count in. So are the next three.
    pub(super) test_code: BTreeMap<String, Vec<String>>,
    /// What asserts.
    pub(super) assertions: BTreeMap<String, Vec<String>>,
    /// Comments that silence a checker.
    pub(super) suppressions: BTreeMap<String, Vec<String>>,
    /// Code that makes checks pass whatever it does.
    pub(super) patches: BTreeMap<String, Vec<String>>,
    /// Programs that checks use.
    pub(super) programs: Vec<String>,
    /// Files of the user's home folder that configure them.
    pub(super) home: Vec<String>,
}

impl Conventions {
    /// The built-in table.
    pub(super) fn get() -> &'static Self {
        static TABLE: OnceLock<Conventions> = OnceLock::new();
        #[allow(clippy::expect_used, reason = "the text is a constant that the tests read")]
        TABLE.get_or_init(|| serde_json::from_str(include_str!("kinds.json")).expect("kinds.json is valid"))
    }

    /// Whether a folder of that name holds what builds and test runs write.
    pub(super) fn is_output(&self, name: &str) -> bool {
        self.outputs.iter().any(|known| known == name)
    }

    /// Whether a folder of that name is made by builds: a copy of the project does without it, because an agent's own builds
    /// write it at the same time, and because what it holds was made from other sources.
    pub(super) fn is_build(&self, name: &str) -> bool {
        self.builds.iter().any(|known| known == name)
    }

    /// Whether a folder of that name holds installed packages.
    pub(super) fn is_dependencies(&self, name: &str) -> bool {
        self.dependencies.iter().any(|known| known == name)
    }
}

/// The files of a project that decide what its checks are.
#[derive(Debug, Clone)]
pub(super) struct CheckFiles {
    tests: GlobSet,
    config: GlobSet,
    /// What configures the tools that the commands name.
    tools: GlobSet,
    locks: GlobSet,
}

impl CheckFiles {
    /// The conventions, and the project's own globs for tests (`verify.tests`). A glob that cannot be read matches
    /// nothing; the configuration has refused it before.
    pub(super) fn new(tests: &[String]) -> Self {
        let table = Conventions::get();
        let locks: Vec<String> = table.locks.iter().map(|name| format!("**/{name}")).collect();
        Self {
            tests: globs(table.tests.iter().chain(tests)),
            config: globs(&table.config),
            tools: GlobSet::empty(),
            locks: globs(&locks),
        }
    }

    /// Also what configures tools, such as linters, that are among the `words` of the commands.
    pub(super) fn with_tools(self, words: &BTreeSet<String>) -> Self {
        let name = |word: &String| word.rsplit('/').next().unwrap_or(word).to_owned();
        let named: BTreeSet<String> = words.iter().map(name).collect();
        let tools = Conventions::get().tools.iter().filter(|(tool, _)| named.contains(*tool));
        Self { tools: globs(tools.flat_map(|(_, globs)| globs)), ..self }
    }

    /// Whether it is a test or belongs to tests.
    pub(super) fn is_test(&self, path: &str) -> bool {
        !path.contains(COMPILED) && self.tests.is_match(path)
    }

    /// Whether it configures or starts checks.
    pub(super) fn is_config(&self, path: &str) -> bool {
        !path.contains(COMPILED) && (self.config.is_match(path) || self.tools.is_match(path))
    }

    /// Whether a runner would find it before a module of its own: by any name of the table in the project's folder, by
    /// the runner's own name in any folder.
    pub(super) fn shadows(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        if Conventions::get().headers.iter().any(|known| known == name) {
            return true;
        }
        // A name without an ending may be a link to a folder.
        let is_code =
            [".py", ".pyc", ".so"].iter().any(|ending| name.ends_with(ending)) || !name.contains('.');
        let stem = |part: &str| part.split('.').next().unwrap_or(part).to_owned();
        let known = |part: &str| Conventions::get().modules.contains(&stem(part));
        let is_runner = |part: &str| RUNNERS.contains(&stem(part).as_str());
        is_code && (path.split('/').next().is_some_and(known) || path.split('/').any(is_runner))
    }

    /// Whether it is a test that may change how others run, because they are loaded into one process. Those of Rust are
    /// programs of their own.
    pub(super) fn shares_a_process(&self, path: &str) -> bool {
        self.is_test(path) && !path.ends_with(".rs")
    }

    /// Whether its change explains that installed packages change.
    pub(super) fn is_lock(&self, path: &str) -> bool {
        self.locks.is_match(path)
    }
}

/// Whether Python compiled it.
pub(super) fn is_bytecode(path: &str) -> bool {
    path.contains(COMPILED)
}

/// The name that a file of code is found by: `a/b` for `a/b.js`, `a/b/index.js` and `a/b`.
pub(super) fn module(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = match MODULES.iter().find_map(|ending| path.strip_suffix(ending)) {
        // `a.cpython-311.so`
        Some(stem) if path.ends_with(".so") => {
            stem.get(..path.len() - name.len() + name.find('.').unwrap_or_default())?
        }
        Some(stem) => stem,
        None if name.contains('.') => return None,
        None => path,
    };
    Some(["/__init__", "/index"].iter().find_map(|end| stem.strip_suffix(end)).unwrap_or(stem))
}

/// Whether a file would be found instead of a module that Python's runners import, if its folder is searched.
pub(super) fn is_standard_module(path: &str) -> bool {
    let name = module(path).and_then(|module| module.rsplit('/').next());
    name.is_some_and(|name| Conventions::get().modules.iter().any(|known| known == name))
}

/// Whether `glob` can be read; the error is for the user.
pub(crate) fn check_glob(glob: &str) -> Result<(), String> {
    GlobBuilder::new(glob)
        .literal_separator(true)
        .empty_alternates(true)
        .build()
        .map(drop)
        .map_err(|error| error.kind().to_string())
}

/// Regular expressions, each with the endings of the files that it counts in.
pub(super) type Expressions = Vec<(Vec<String>, Regex)>;

/// The regular expressions of a part of the table.
pub(super) fn expressions(table: &BTreeMap<String, Vec<String>>) -> Expressions {
    table.iter().filter_map(|(regex, endings)| Some((endings.clone(), Regex::new(regex).ok()?))).collect()
}

/// What matches any of these patterns.
pub(super) fn matching(patterns: &BTreeSet<String>) -> GlobSet {
    globs(patterns)
}

fn globs<'a>(patterns: impl IntoIterator<Item = &'a String>) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .case_insensitive(true)
            .empty_alternates(true)
            .build();
        if let Ok(glob) = glob {
            set.add(glob);
        }
    }
    set.build().unwrap_or_else(|_| GlobSet::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(paths: &[&str], expected: (bool, bool)) {
        let files = CheckFiles::new(&["proofs/**/*.txt".to_owned()]);
        for path in paths {
            assert_eq!((files.is_test(path), files.is_config(path)), expected, "{path}");
        }
    }

    #[test]
    fn tests_are_known_by_the_conventions_of_each_ecosystem() {
        check(
            &[
                "test_a.py",
                "pkg/test_a.py",
                "pkg/a_test.py",
                "tests/helper.py",
                "src/app.test.ts",
                "src/__snapshots__/x.snap",
                "pkg/a_test.go",
                "pkg/testdata/in.txt",
                "spec/a_spec.rb",
                "src/test/java/A.java",
                "src/main/java/ATest.java",
                "crates/x/tests/e2e.rs",
                "Tests/A.swift",
                "proofs/deep/x.txt",
                "check.bats",
            ],
            (true, false),
        );
    }

    #[test]
    fn configuration_of_runners_is_known() {
        check(
            &[
                "conftest.py",
                "pkg/conftest.py",
                "pytest.ini",
                "Makefile",
                "GNUmakefile",
                ".npmrc",
                "jest.config.cjs",
                ".cargo/config.toml",
                "sub/build.rs",
                "test.sh",
                "scripts/check.sh",
                ".github/workflows/ci.yml",
                "pom.xml",
            ],
            (false, true),
        );
        check(&["tests/conftest.py", "tests/Makefile"], (true, true));
    }

    #[test]
    fn the_work_is_no_check() {
        check(
            &["src/lib.rs", "app.py", "contest.py", "latest.py", "src/attest/x.go", "README.md", "main.go"],
            (false, false),
        );
        check(&["Cargo.toml", "package.json", "Cargo.lock"], (false, false));
    }

    #[test]
    fn a_tools_settings_count_where_a_command_names_it() {
        let files = CheckFiles::new(&[]);
        assert!(!files.is_config("clippy.toml"));
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let with = files.with_tools(&words(&["cargo", "clippy", "node_modules/.bin/eslint"]));
        assert!(with.is_config("crates/a/.clippy.toml") && with.is_config(".eslintrc.json"));
        assert!(!with.is_config("rustfmt.toml"));
    }

    #[test]
    fn modules_that_come_before_the_runners_own_are_known() {
        let files = CheckFiles::new(&[]);
        for (path, expected) in [
            ("unittest/__init__.py", true),
            ("json.py", true),
            ("pytest/x/y.py", true),
            ("src/json.py", false),
            ("src/unittest.py", true),
            ("unittest", true),
            ("unittest.pyc", true),
            ("_opcode.py", true),
            ("app.py", false),
            ("json/data.txt", false),
            ("types.ts", false),
            ("include/assert.h", true),
            ("include/asserts.h", false),
        ] {
            assert_eq!(files.shadows(path), expected, "{path}");
        }
    }

    #[test]
    fn files_are_found_by_the_names_of_modules() {
        for (path, expected) in [
            ("a/b.js", Some("a/b")),
            ("a/b/index.ts", Some("a/b")),
            ("a/b/__init__.py", Some("a/b")),
            ("a/b", Some("a/b")),
            ("a/b.cpython-311-x86_64-linux-gnu.so", Some("a/b")),
            ("b.so", Some("b")),
            ("a/b.txt", None),
        ] {
            assert_eq!(module(path), expected, "{path}");
        }
        assert!(is_standard_module("scripts/json.py") && is_standard_module("src/difflib/__init__.py"));
        assert!(!is_standard_module("scripts/app.py"));
    }

    #[test]
    fn globs_of_the_table_can_be_read() {
        let table = Conventions::get();
        let tools = table.tools.values().flatten();
        for glob in table.tests.iter().chain(&table.config).chain(&table.locks).chain(tools) {
            assert_eq!(check_glob(glob), Ok(()), "{glob}");
        }
        assert!(check_glob("a[").is_err());
        for expressions in [&table.test_code, &table.assertions, &table.suppressions, &table.patches] {
            assert_eq!(super::expressions(expressions).len(), expressions.len());
        }
    }
}
