//! Python: which tests a folder has, and which interpreter runs them.
//!
//! The interpreter is the project's own where there is one. The installed packages are known by their files.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rawko_core::text::shell_word;

use super::place::{ProjectFolder, UserEnvironment, is_executable, is_file, read};
use super::table::{CheckRow, CheckTable, PythonLock};

/// Most test files that are read.
const MAX_FILES: usize = 500;
/// Most folders that unittest begins in.
const MAX_STARTS: usize = 8;
/// Folders whose files are tests.
const TEST_FOLDERS: [&str; 2] = ["tests", "test"];
/// What the program of pytest is called.
const PYTEST: [&str; 3] = ["pytest", "pytest-3", "py.test"];
/// Names of the interpreter.
const INTERPRETERS: [&str; 2] = ["python3", "python"];

/// What a place has of Python. Looked for once, when it is needed.
pub(super) struct Tests<'a> {
    place: &'a ProjectFolder<'a>,
    found: OnceCell<Option<TestFiles>>,
    environments: OnceCell<Vec<PythonEnvironment>>,
}

/// The tests of a folder.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TestFiles {
    /// One of them.
    pub(super) first: String,
    /// Whether pytest finds them.
    pub(super) is_for_pytest: bool,
    /// Whether they are tests of unittest, and none is written for pytest.
    pub(super) is_unittest: bool,
    /// What unittest is given to find them, once for each folder that it begins in.
    starts: Vec<String>,
}

/// An interpreter and what is installed for it.
struct PythonEnvironment {
    /// How it is called.
    python: String,
    /// How its pytest is called.
    pytest: String,
    packages: Packages,
}

/// What is installed.
enum Packages {
    /// The contents of these folders, and the programs beside the interpreter.
    In { sites: Vec<PathBuf>, programs: PathBuf },
    /// What a lock file names.
    Locked { text: String, lock: &'static PythonLock },
    /// That of the machine.
    OfMachine { sites: Vec<PathBuf>, has_pytest: bool },
}

impl<'a> Tests<'a> {
    pub(super) fn new(place: &'a ProjectFolder<'a>) -> Self {
        Self { place, found: OnceCell::new(), environments: OnceCell::new() }
    }

    /// The tests of the folder. Where a folder above is the project of Python, they are that one's.
    pub(super) fn found(&self) -> Option<&TestFiles> {
        self.found.get_or_init(|| self.look()).as_ref()
    }

    fn look(&self) -> Option<TestFiles> {
        let place = self.place;
        let is_project = is_python(place.folder);
        if !is_project && place.ancestors().skip(1).any(is_python) {
            return None;
        }
        let inside = place.in_project(place.folder)?;
        if !is_project && inside.split('/').any(|name| TEST_FOLDERS.contains(&name)) {
            return None;
        }
        let in_test_folder =
            |path: &str| path.split_once('/').is_some_and(|(top, _)| TEST_FOLDERS.contains(&top));
        let is_candidate = |path: &&String| is_project || in_test_folder(path) || !path.contains('/');
        let mut paths =
            place.below().iter().filter(is_candidate).filter(|path| PythonFileKind::of(path).is_some());
        let is_package = |folder: &str| is_file(&place.folder.join(folder).join("__init__.py"));
        classify(
            &mut paths.by_ref().take(MAX_FILES).map(|path| (path.as_str(), read(&place.folder.join(path)))),
            &|path| is_project || in_test_folder(path),
            &is_package,
        )
    }

    /// A row's command as the interpreter is called here, and what is not installed for it.
    pub(super) fn spelt(&self, row: &CheckRow) -> (String, Option<String>) {
        if !["{python}", "{pytest}", "{unittest}"].iter().any(|name| row.command.contains(name)) {
            return (row.command.clone(), None);
        }
        let environments = self.environments.get_or_init(|| environments(self.place));
        let lacks = |environment: &PythonEnvironment| {
            row.modules.iter().find(|module| !environment.has(module)).cloned()
        };
        let chosen = environments.iter().find(|environment| lacks(environment).is_none());
        let chosen = chosen.or_else(|| environments.first());
        let missing = chosen.map_or_else(|| Some("python3".to_owned()), lacks);
        let (python, pytest) = chosen.map_or(("python3", "python3 -m pytest"), |chosen| {
            (chosen.python.as_str(), chosen.pytest.as_str())
        });
        let starts = self.found().map(|found| found.starts.as_slice()).unwrap_or_default();
        let unittest: Vec<String> =
            starts.iter().map(|start| format!("{python} -m unittest discover{start}")).collect();
        let command = row.command.replace("{python}", python).replace("{pytest}", pytest);
        (command.replace("{unittest}", &unittest.join(" && ")), missing)
    }
}

/// Whether a folder is a project of Python: by its files, or because it has an interpreter of its own.
fn is_python(folder: &Path) -> bool {
    let table = CheckTable::get();
    table.python_files.iter().any(|name| is_file(&folder.join(name)))
        || table.python_folders.iter().any(|name| interpreter(&folder.join(name)).is_some())
}

/// What the name of a file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PythonFileKind {
    /// pytest and unittest take it for a test.
    ForBoth,
    /// Only one of them does.
    ForPytest,
    ForUnittest,
    /// It belongs to pytest and holds no tests.
    Conftest,
}

impl PythonFileKind {
    fn of(path: &str) -> Option<Self> {
        let stem = path.rsplit('/').next()?.strip_suffix(".py")?;
        match stem {
            "conftest" => Some(Self::Conftest),
            _ if stem.starts_with("test_") => Some(Self::ForBoth),
            _ if stem.ends_with("_test") => Some(Self::ForPytest),
            _ if stem.starts_with("test") => Some(Self::ForUnittest),
            _ => None,
        }
    }
}

/// Whether a file is written for pytest: it imports it, or has tests that are no methods of unittest's classes.
fn is_written_for_pytest(text: &str) -> bool {
    text.lines().any(|line| {
        let is_bare_class = line.strip_prefix("class Test").is_some_and(|rest| {
            let rest = rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').trim_start();
            rest.starts_with(':') || rest.starts_with("()") || rest.starts_with("(object)")
        });
        let import = line.strip_prefix("import ").or_else(|| line.strip_prefix("from ")).map(str::trim_start);
        let imports = import.and_then(|rest| rest.strip_prefix("pytest"));
        is_bare_class
            || imports.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
            || line.starts_with("def test")
            || line.starts_with("async def test")
    })
}

/// Whether a file has tests of unittest.
fn is_written_for_unittest(text: &str) -> bool {
    text.lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .any(|line| line.contains("unittest") || line.contains("TestCase"))
}

/// Which tests these files are. `counts`: whether a file of that path is a test although its text does not show it.
fn classify(
    files: &mut dyn Iterator<Item = (&str, Option<String>)>,
    counts: &dyn Fn(&str) -> bool,
    is_package: &dyn Fn(&str) -> bool,
) -> Option<TestFiles> {
    let (mut has_conftest, mut unknown) = (false, None);
    let mut of_unittest: Vec<(&str, PythonFileKind)> = Vec::new();
    let for_pytest = |first: &str| TestFiles {
        first: first.to_owned(),
        is_for_pytest: true,
        is_unittest: false,
        starts: Vec::new(),
    };
    for (path, text) in files {
        let (Some(named), Some(text)) = (PythonFileKind::of(path), text) else { continue };
        match named {
            PythonFileKind::Conftest => has_conftest = true,
            PythonFileKind::ForBoth | PythonFileKind::ForPytest if is_written_for_pytest(&text) => {
                return Some(for_pytest(path));
            }
            _ if is_written_for_unittest(&text) => of_unittest.push((path, named)),
            PythonFileKind::ForBoth | PythonFileKind::ForPytest if counts(path) => {
                unknown = unknown.or(Some(path));
            }
            PythonFileKind::ForBoth | PythonFileKind::ForPytest | PythonFileKind::ForUnittest => {}
        }
    }
    let Some((first, _)) = of_unittest.first() else { return unknown.map(for_pytest) };
    let is_for_pytest = of_unittest.iter().any(|(_, named)| *named != PythonFileKind::ForUnittest);
    if has_conftest && is_for_pytest {
        return Some(for_pytest(first));
    }
    let files = |is_wanted: fn(PythonFileKind) -> bool| {
        of_unittest.iter().filter(move |(_, named)| is_wanted(*named)).map(|(path, _)| *path)
    };
    let mut starts = starts(files(|named| named != PythonFileKind::ForPytest), is_package);
    // Its own pattern does not have these.
    let others = self::starts(files(|named| named == PythonFileKind::ForPytest), is_package);
    starts.extend(others.into_iter().map(|start| format!("{start} -p '*_test.py'")));
    starts.truncate(MAX_STARTS);
    Some(TestFiles { first: (*first).to_owned(), is_for_pytest, is_unittest: true, starts })
}

/// Where unittest has to begin to find these files. It enters only packages, and has to start in the folder that a
/// package is imported from.
fn starts<'f>(files: impl Iterator<Item = &'f str>, is_package: &dyn Fn(&str) -> bool) -> Vec<String> {
    let (mut at_top, mut elsewhere) = (BTreeSet::new(), BTreeSet::new());
    for file in files {
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut top = folder;
        while !top.is_empty() && is_package(top) {
            top = top.rsplit_once('/').map_or("", |(above, _)| above);
        }
        if top.is_empty() {
            at_top.insert(folder.split('/').next().unwrap_or(""));
        } else {
            elsewhere.insert(top);
        }
    }
    let only = at_top.first().filter(|only| at_top.len() == 1 && !only.is_empty());
    let at_top = match only {
        Some(package) => Some(format!(" -s {} -t .", shell_word(package))),
        None => (!at_top.is_empty()).then(String::new),
    };
    let elsewhere = elsewhere.into_iter().map(|folder| format!(" -s {}", shell_word(folder)));
    at_top.into_iter().chain(elsewhere).collect()
}

/// The interpreters of a place, the one to prefer first. That of the machine is the project's only where it has no other.
fn environments(place: &ProjectFolder<'_>) -> Vec<PythonEnvironment> {
    let table = CheckTable::get();
    let mut found = Vec::new();
    for above in place.ancestors() {
        for name in &table.python_folders {
            found.extend(own(place, &above.join(name)));
        }
    }
    // An active environment elsewhere is on `PATH`.
    let active = place.machine.virtual_env.as_deref().and_then(|folder| folder.canonicalize().ok());
    found.extend(active.and_then(|folder| own(place, &folder)));
    for above in place.ancestors() {
        for lock in &table.python_locks {
            let Some(text) = read(&above.join(&lock.file)) else { continue };
            if place.has_program(&lock.program) {
                found.push(PythonEnvironment {
                    python: format!("{} python", lock.run),
                    pytest: format!("{} pytest", lock.run),
                    packages: Packages::Locked { text, lock },
                });
            }
        }
    }
    if found.is_empty() {
        found.extend(of_machine(place.machine));
    }
    found
}

/// The interpreter in a folder.
fn interpreter(folder: &Path) -> Option<PathBuf> {
    let paths = ["bin/python", "bin/python3"].map(|name| folder.join(name));
    paths.into_iter().find(|path| is_executable(path))
}

/// An environment in the project.
fn own(place: &ProjectFolder<'_>, folder: &Path) -> Option<PythonEnvironment> {
    let program = interpreter(folder)?;
    let above = place.ancestors().find(|above| folder.starts_with(above))?;
    let up = "../".repeat(place.folder.strip_prefix(above).ok()?.components().count());
    let python = shell_word(&format!("{up}{}", program.strip_prefix(above).ok()?.to_str()?));
    let mut sites = sites(folder);
    sites.extend(inherited(folder).iter().flat_map(|prefix| self::sites(prefix)));
    let packages = Packages::In { sites, programs: folder.join("bin") };
    Some(PythonEnvironment { pytest: format!("{python} -m pytest"), python, packages })
}

/// The interpreter that is found by its name.
fn of_machine(machine: &UserEnvironment) -> Option<PythonEnvironment> {
    let (name, program) = INTERPRETERS.iter().find_map(|name| Some((*name, machine.program(name)?)))?;
    let prefix = |program: &Path| Some(program.parent()?.parent()?.to_owned());
    let own = prefix(&program)?;
    let mut prefixes = vec![own.clone()];
    if is_file(&own.join("pyvenv.cfg")) {
        prefixes.extend(inherited(&own));
    } else {
        prefixes.extend(program.canonicalize().ok().as_deref().and_then(prefix));
        prefixes.extend(machine.home.as_ref().map(|home| home.join(".local")));
    }
    let sites: Vec<PathBuf> = prefixes.iter().flat_map(|prefix| sites(prefix)).collect();
    let pytest = PYTEST.iter().find_map(|name| Some((*name, machine.program(name)?)));
    let is_elsewhere =
        |path: &Path| path.parent() != program.parent() && !sites.is_empty() && !is_in(&sites, "pytest");
    let called = match &pytest {
        // It has an interpreter of its own.
        Some((name, path)) if is_elsewhere(path) => (*name).to_owned(),
        // As a module, so that the project's own packages are found.
        Some(_) | None => format!("{name} -m pytest"),
    };
    let packages = Packages::OfMachine { has_pytest: pytest.is_some(), sites };
    Some(PythonEnvironment { python: name.to_owned(), pytest: called, packages })
}

/// What an environment takes over from the interpreter that it was made with.
fn inherited(folder: &Path) -> Option<PathBuf> {
    let settings = read(&folder.join("pyvenv.cfg"))?;
    let get = |key: &str| {
        let mut pairs = settings.lines().filter_map(|line| line.split_once('='));
        pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
    };
    get("include-system-site-packages").filter(|value| value.eq_ignore_ascii_case("true"))?;
    Path::new(get("home")?).parent().map(Path::to_owned)
}

/// Where packages are below a prefix.
fn sites(prefix: &Path) -> Vec<PathBuf> {
    let libraries = ["lib", "lib64", "local/lib"].map(|name| prefix.join(name));
    let versions =
        libraries.iter().flat_map(|library| std::fs::read_dir(library).into_iter().flatten().flatten());
    let versions = versions.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"python3"));
    let folders =
        versions.flat_map(|entry| ["site-packages", "dist-packages"].map(|name| entry.path().join(name)));
    folders.filter(|folder| folder.is_dir()).collect()
}

fn is_in(sites: &[PathBuf], module: &str) -> bool {
    sites.iter().any(|site| is_file(&site.join(module).join("__init__.py")))
}

impl PythonEnvironment {
    fn has(&self, module: &str) -> bool {
        match &self.packages {
            Packages::In { sites, programs } => is_in(sites, module) || is_executable(&programs.join(module)),
            Packages::Locked { text, lock } => {
                // One that names nothing yet says nothing.
                text.to_lowercase().contains(&lock.package.replace("{}", module))
                    || !text.contains(
                        lock.package.split("{}").next().filter(|part| !part.is_empty()).unwrap_or(" = "),
                    )
            }
            Packages::OfMachine { sites, has_pytest } => {
                is_in(sites, module) || if module == "pytest" { *has_pytest } else { sites.is_empty() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests among these files, as `kind first: starts`. Files that end with `/` are packages.
    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &str) {
        let packages: Vec<&str> =
            files.iter().filter_map(|(path, _)| path.strip_suffix("/__init__.py")).collect();
        let found = classify(
            &mut files.iter().map(|(path, text)| (*path, Some((*text).to_owned()))),
            &|path| path.starts_with("tests/"),
            &|folder| packages.contains(&folder),
        );
        let shown = found.map_or_else(
            || "none".to_owned(),
            |found| {
                let kind = match (found.is_for_pytest, found.is_unittest) {
                    (true, true) => "both",
                    (true, false) => "pytest",
                    (false, _) => "unittest",
                };
                format!("{kind} {}:{}", found.first, found.starts.join(" &&"))
            },
        );
        assert_eq!(shown, expected, "{files:?}");
    }

    const UNITTEST: &str =
        "import unittest\n\n\nclass TestA(unittest.TestCase):\n    def test_a(self):\n        pass\n";

    #[test]
    fn tests_are_distinguished_by_their_text() {
        check(&[("tests/test_a.py", "def test_a():\n    pass\n")], "pytest tests/test_a.py:");
        check(&[("tests/test_a.py", "import pytest\n")], "pytest tests/test_a.py:");
        check(&[("test_a.py", "from pytest import mark\n")], "pytest test_a.py:");
        check(&[("test_a.py", "class TestA:\n    def test(self): pass\n")], "pytest test_a.py:");
        check(&[("test_a.py", "async def test_a():\n")], "pytest test_a.py:");
        check(&[("a_test.py", "def test_a():\n")], "pytest a_test.py:");
        check(&[("tests/test_a.py", UNITTEST)], "both tests/test_a.py: -s tests");
        check(
            &[("tests/test_a.py", UNITTEST), ("tests/test_b.py", "def test_b(): pass\n")],
            "pytest tests/test_b.py:",
        );
        check(&[("tests/conftest.py", ""), ("tests/test_a.py", UNITTEST)], "pytest tests/test_a.py:");
        check(&[("tests/testing.py", UNITTEST)], "unittest tests/testing.py: -s tests");
        check(&[("tests/test_a.py", "")], "pytest tests/test_a.py:");
        // Neither says that it is a test.
        check(&[("test_connection.py", "print(1)\n")], "none");
        check(&[("test_a.py", "# import pytest\nimport pytester\n    def test_a():\n")], "none");
        check(&[("tests/conftest.py", "import pytest\n")], "none");
        check(&[("testdata.py", "def test_a(): pass\n"), ("a.py", UNITTEST)], "none");
    }

    #[test]
    fn unittest_gets_the_folder_to_begin_in() {
        let package = |path: &'static str| (path, "");
        let test = |path: &'static str| (path, UNITTEST);
        check(&[test("test_a.py")], "both test_a.py:");
        check(
            &[package("tests/__init__.py"), test("tests/test_a.py")],
            "both tests/test_a.py: -s tests -t .",
        );
        check(
            &[package("tests/__init__.py"), package("tests/u/__init__.py"), test("tests/u/test_a.py")],
            "both tests/u/test_a.py: -s tests -t .",
        );
        check(
            &[package("tests/u/__init__.py"), test("tests/u/test_a.py")],
            "both tests/u/test_a.py: -s tests",
        );
        check(
            &[test("tests/u/test_a.py"), test("tests/v/test_b.py")],
            "both tests/u/test_a.py: -s tests/u && -s tests/v",
        );
        check(&[test("test_a.py"), package("b/__init__.py"), test("b/test_b.py")], "both test_a.py:");
        check(&[test("test_a.py"), test("tests/test_b.py")], "both test_a.py: && -s tests");
        check(&[test("tests/a_test.py")], "both tests/a_test.py: -s tests -p '*_test.py'");
        check(&[test("a b/test_a.py")], "both a b/test_a.py: -s 'a b'");
    }

    proptest::proptest! {
        #[test]
        fn any_file_is_read_without_harm(path in "(\\PC|/|test_|[.]py){0,12}", text in "(\\PC|\n|class Test|def test){0,40}") {
            let mut files = [(path.as_str(), Some(text))].into_iter();
            let _ = classify(&mut files, &|_| true, &|folder| folder.len() % 2 == 0);
        }
    }
}
