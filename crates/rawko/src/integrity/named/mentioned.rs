//! What the text of a check mentions and cannot do without: files with expected values, and helpers of its own.
//!
//! Tests import the code that they test and may read its data. Neither becomes a check by that: of the imported modules
//! only those count whose names or folders say that they belong to checks, of the files only data.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::joined;
use crate::integrity::kinds::module;

/// Words in the names of files that hold what is expected.
const EXPECTATIONS: &[&str] =
    &["want", "expect", "golden", "reference", "snapshot", "baseline", "fixture", "correct"];
/// Endings of files that hold data and nothing else. Data outside of test folders may be the work's own, unless its name
/// says that it is expected.
const DATA: &[&str] = &[
    "txt", "csv", "tsv", "out", "dat", "golden", "want", "expected", "snap", "jsonl", "ndjson", "bin", "db",
    "sqlite", "sqlite3", "lst",
];
/// Endings of source code.
const SOURCE: &[&str] = &[
    "py", "js", "mjs", "cjs", "ts", "mts", "cts", "jsx", "tsx", "rs", "go", "c", "cc", "cpp", "h", "hpp",
    "java", "kt", "rb", "php", "cs", "swift", "sh", "md", "rst",
];
/// Words in the names of data that is the work's own.
const WORK: &[&str] = &["version", "readme", "changelog", "license", "copying", "requirements", "notice"];
/// Words in the names of modules that only tests have a use for.
const HELPERS: &[&str] = &[
    "test",
    "tests",
    "testing",
    "testutil",
    "testutils",
    "testhelper",
    "testhelpers",
    "testlib",
    "assertions",
    "harness",
    "fixture",
    "fixtures",
    "golden",
    "expected",
];
/// Words in the names of folders that hold checks.
const FOLDERS: &[&str] = &[
    "check",
    "checks",
    "verify",
    "verification",
    "proof",
    "proofs",
    "test",
    "tests",
    "e2e",
    "acceptance",
    "ci",
    "qa",
];
/// Settings that name plug-ins of runners: pytest's, and those of mocha, jest and vitest.
const PLUGINS: &str = concat!(
    r#"\b(?:pytest_plugins|require|import|setupFiles\w*|globalSetup|globalTeardown|testEnvironment|testRunner|reporters?)["']?\s*[:=]\s*"#,
    r#"(\[[^\]]*\]|\([^)]*\)|["'][^"']+["'])"#,
);
/// Files in whose texts `-p` names a plug-in.
const OF_PYTEST: &[&str] = &["pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml"];
/// Largest text that is read.
const MAX_TEXT: usize = 256 * 1024;

/// Whether a file's name says that it holds what is expected.
pub(in super::super) fn is_expectation(path: &str) -> bool {
    let name = name(path);
    let begins = |word: &str| EXPECTATIONS.iter().any(|known| word.starts_with(known));
    words(name).iter().any(|word| begins(word)) || name.ends_with(".ref")
}

/// Whether a file's name, or that of its folder, says that it belongs to checks.
pub(super) fn belongs_to_checks(path: &str) -> bool {
    let belongs = |word: &String| HELPERS.contains(&word.as_str()) || FOLDERS.contains(&word.as_str());
    words(path).iter().any(belongs)
}

/// What mentions something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Checker {
    /// A test by convention: what is beside it is what it tests.
    Test,
    /// A file that the commands name, or that such a file mentions.
    Script,
}

/// The files that the check `path` mentions in `text`, of those that `is_file` knows.
pub(in super::super) fn mentioned(
    path: &str,
    of: Checker,
    text: &str,
    is_file: &dyn Fn(&str) -> bool,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let Some(patterns) = PATTERNS.as_ref().filter(|_| text.len() <= MAX_TEXT) else { return found };
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    // `"data" / "want.txt"` and `join("data", "want.txt")` name one path.
    let pieced = patterns.pieces.replace_all(text, "/");
    for literal in [text, &pieced].iter().flat_map(|text| patterns.literal.captures_iter(text)) {
        let Some(literal) = literal.get(1) else { continue };
        let places = ancestors(folder).map(|place| joined(place, literal.as_str()));
        found.extend(places.filter(|place| is_its_data(place, folder) && is_file(place)));
    }
    for import in patterns.python.captures_iter(text).filter(|_| path.ends_with(".py")) {
        for module in import.iter().skip(1).flatten() {
            let module = module.as_str().trim_start_matches('.').replace('.', "/");
            for place in [folder, ""] {
                let place = joined(place, &module);
                let files = [format!("{place}.py"), format!("{place}/__init__.py")];
                found.extend(files.into_iter().filter(|file| is_helper(file, folder, of) && is_file(file)));
            }
        }
    }
    for import in patterns.script.captures_iter(text) {
        let Some(module) = import.get(1) else { continue };
        let place = joined(folder, module.as_str());
        let files = ["", ".js", ".mjs", ".cjs", ".ts", ".rb", ".json", "/index.js"]
            .map(|end| format!("{place}{end}"));
        found.extend(files.into_iter().filter(|file| is_helper(file, folder, of) && is_file(file)));
    }
    // Plug-ins of a runner affect all tests, whatever their names.
    let lists = patterns.plugins.captures_iter(text).filter_map(|list| list.get(1));
    let quoted = lists.flat_map(|list| patterns.quoted.captures_iter(list.as_str()));
    let of_pytest = patterns.option.captures_iter(text).filter(|_| OF_PYTEST.contains(&name(path)));
    for plugin in quoted.chain(of_pytest).filter_map(|plugin| plugin.get(1)) {
        let plugin = plugin.as_str();
        let modules = [plugin.to_owned(), plugin.replace('.', "/")];
        let files = modules.iter().flat_map(|module| {
            ["", ".js", ".mjs", ".cjs", ".ts", ".py", "/__init__.py"].map(|end| format!("{module}{end}"))
        });
        let places = files.flat_map(|file| [joined(folder, &file), joined("", &file)]);
        found.extend(places.filter(|file| is_file(file)));
    }
    found.remove(path);
    found
}

/// The texts that a file of Rust takes into its documentation.
pub(in super::super) fn documents(path: &str, content: &[u8]) -> BTreeSet<String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let text = String::from_utf8_lossy(content);
    let Some(patterns) = PATTERNS.as_ref().filter(|_| text.len() <= MAX_TEXT) else { return BTreeSet::new() };
    let names = patterns.documents.captures_iter(&text).filter_map(|found| found.get(1));
    names.map(|name| joined(folder, name.as_str())).collect()
}

static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    Some(Patterns {
        literal: Regex::new("[\"'`]([^\"'`\\s]{3,200})[\"'`]").ok()?,
        pieces: Regex::new("[\"']\\s*[/,]\\s*[\"']").ok()?,
        python: Regex::new(r"(?m)^\s*(?:from\s+([.\w]+)\s+import\s+(\w+)|import\s+([.\w]+))").ok()?,
        plugins: Regex::new(PLUGINS).ok()?,
        quoted: Regex::new(r#"["']([^"'\s]+)["']"#).ok()?,
        option: Regex::new(r"(?:^|\s|\x22|')-p[ =]?([A-Za-z_][\w.]*)").ok()?,
        documents: Regex::new(r#"\bdoc\s*=\s*include_str!\(\s*"([^"]+)""#).ok()?,
        script: Regex::new(
            "(?:require(?:_relative)?\\(?|from|import)\\s*\\(?[\"'](\\.{0,2}/?[\\w./-]+)[\"']",
        )
        .ok()?,
    })
});

struct Patterns {
    literal: Regex,
    pieces: Regex,
    python: Regex,
    documents: Regex,
    script: Regex,
    plugins: Regex,
    quoted: Regex,
    option: Regex,
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A folder and those above it, to the project's own.
fn ancestors(folder: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(folder), |folder| {
        (!folder.is_empty()).then(|| folder.rsplit_once('/').map_or("", |(above, _)| above))
    })
}

/// Whether it belongs to the check in `folder` which names it.
fn is_its_data(path: &str, folder: &str) -> bool {
    let is_beside = !folder.is_empty() && path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    let is_source = SOURCE.contains(&ending(path));
    !is_the_works(path) && !is_source && ((is_beside && is_data(path)) || is_expectation(path))
}

/// Whether a file holds data and nothing else.
pub(in super::super) fn is_data(path: &str) -> bool {
    DATA.contains(&ending(path).to_lowercase().as_str()) && !is_the_works(path)
}

/// Whether it holds source code.
pub(in super::super) fn is_source(path: &str) -> bool {
    SOURCE.contains(&ending(path))
}

fn is_the_works(path: &str) -> bool {
    let name = name(path).to_lowercase();
    WORK.iter().any(|word| name.contains(word))
}

fn ending(path: &str) -> &str {
    name(path).rsplit_once('.').map_or("", |(_, ending)| ending)
}

/// The words of a name: `testUtil-a.py` has four.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (was_lower && c.is_uppercase()) {
            words.push(String::new());
        }
        was_lower = c.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words
}

/// Whether a module belongs to checks by its own name, or is with the script `of` in a folder that does.
fn is_helper(path: &str, folder: &str, of: Checker) -> bool {
    let belongs = |text: &str, known: &[&str]| words(text).iter().any(|word| known.contains(&word.as_str()));
    let own = path.rsplit_once('/').map_or("", |(own, _)| own);
    let is_with = own == folder || own.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    // A folder is imported by its own name, and not by that of the file in it.
    let module = module(path).unwrap_or(path);
    belongs(name(module), HELPERS) || (of == Checker::Script && is_with && belongs(name(folder), FOLDERS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[&str] = &[
        "data/want.txt",
        "tests/in.csv",
        "config/app.json",
        "data/expected.json",
        "VERSION.txt",
        "app.py",
        "src/testutil.py",
        "src/util.py",
        "proofs/lib.py",
        "js/assertions.js",
        "js/app.js",
        "ts/assertions/index.js",
        "README.md",
        "shop/checkout.py",
        "proofs/test_lib.py",
        "improve.py",
    ];

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let of = if path.contains("test") { Checker::Test } else { Checker::Script };
        let found = mentioned(path, of, text, &|path| FILES.contains(&path));
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{path}: {text}");
    }

    #[test]
    fn data_that_tests_read_is_a_check() {
        check("tests/test_a.py", "open(\"data/want.txt\")", &["data/want.txt"]);
        check("tests/test_a.py", "Path(__file__).parent.parent / 'data' / 'want.txt'", &["data/want.txt"]);
        check("tests/a.rs", "include_str!(\"../data/want.txt\")", &["data/want.txt"]);
        check("js/a.test.js", "path.join(__dirname, '..', 'data', 'expected.json')", &["data/expected.json"]);
        check("tests/test_a.py", "open('in.csv')", &["tests/in.csv"]);
    }

    #[test]
    fn texts_in_the_documentation_of_a_crate_are_known() {
        let check = |text: &str, expected: &[&str]| {
            let found = documents("a/src/lib.rs", text.as_bytes());
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{text}");
        };
        check("#![doc = include_str!(\"../README.md\")]", &["a/README.md"]);
        check("#[cfg_attr(doctest, doc = include_str!( \"../../B.md\"))]\nstruct A;", &["B.md"]);
        check("const A: &str = include_str!(\"../README.md\");", &[]);
    }

    #[test]
    fn what_is_tested_is_no_check() {
        check("tests/test_a.py", "load('config/app.json', 'VERSION.txt', 'README.md', 'app.py')", &[]);
        check("shop/test_a.py", "import checkout", &[]);
        check("proofs/test_lib.py", "import lib, improve", &[]);
        check("test_a.py", "import app\nfrom src import util", &[]);
        check("js/a.test.js", "const app = require('./app');\nimport x from './app.js'", &[]);
    }

    #[test]
    fn plugins_of_runners_are_checks() {
        let check = |path: &str, text: &str, expected: &[&str]| {
            let found = mentioned(path, Checker::Test, text, &|path| {
                ["support.py", "a/boot.js", "app.py", "src/main.ts"].contains(&path)
            });
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{path}: {text}");
        };
        check("conftest.py", "import app\npytest_plugins = ['support', 'xdist']\n", &["support.py"]);
        check("pytest.ini", "[pytest]\naddopts = -q -p support -p no:app\n", &["support.py"]);
        check("pyproject.toml", "addopts = \"-p support\"", &["support.py"]);
        check("a/.mocharc.json", "{\"require\": [\"ts-node\", \"./boot.js\"]}", &["a/boot.js"]);
        check("jest.config.js", "module.exports = { setupFilesAfterEnv: ['./a/boot'] };", &["a/boot.js"]);
        check("vite.config.ts", "build: { entry: 'src/main.ts' }", &[]);
        check("run.sh", "mkdir -p app", &[]);
    }

    #[test]
    fn helpers_of_checks_are_checks() {
        check("src/test_a.py", "import testutil, os\nfrom . import util", &["src/testutil.py"]);
        check("proofs/all.py", "import lib\nimport app", &["proofs/lib.py"]);
        check("js/a.test.js", "const { same } = require('./assertions')", &["js/assertions.js"]);
        check("ts/a.test.js", "require('./assertions')", &["ts/assertions/index.js"]);
        check("js/a.test.mjs", "import { same } from './assertions.js'", &["js/assertions.js"]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in "\\PC{0,120}") {
            let _ = mentioned("tests/test_a.py", Checker::Test, &text, &|_| true);
        }
    }
}
