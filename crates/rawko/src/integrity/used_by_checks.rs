//! Code that only checks use: tests that runners find by other names than the usual ones, tasks, and helpers.
//!
//! A changed file counts where both hold: it is made of what checks are made of (the table is in `kinds.json`), and no code
//! imports it that is no check itself. Assertions alone are in honest code, too; so a file that has nothing but them counts
//! only if the run changed or removed one. So does a file of data that a check names and other code does not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use regex::Regex;

use super::kinds::{self, Conventions, Expressions};
use super::named;
use crate::checkpoint::{Fate, Trees, Version};

/// Files that are searched for imports.
const SEARCHED: usize = 20_000;
/// Files whose texts are in memory at a time.
const AT_ONCE: usize = 500;
/// Largest text that is searched.
const MAX_TEXT: usize = 1024 * 1024;

/// Adds to `named` the files that only checks use, of those that changed, and of the `data` that git ignores. `is_check`
/// knows the checks by their paths. Returns whether all code was searched.
pub(super) fn find(
    trees: &Trees,
    fates: &BTreeMap<String, Fate>,
    data: &BTreeSet<String>,
    is_check: &dyn Fn(&str) -> bool,
    found: &mut BTreeSet<String>,
) -> bool {
    let mut candidates: Vec<Candidate> = Vec::new();
    let lost = fates.iter().filter(|(_, fate)| matches!(fate, Fate::Changed | Fate::Deleted));
    let lost = lost.map(|(path, _)| path).filter(|path| !is_check(path) && !found.contains(*path));
    for path in lost.chain(data) {
        let Some(family) = family(path) else { continue };
        let needs_importer = match family {
            Family::Data => true,
            _ => {
                let text = |version| String::from_utf8(trees.content(path, &version)?).ok();
                let Some(first) = text(Version::First).filter(|text| text.len() <= MAX_TEXT) else {
                    continue;
                };
                let now = text(Version::Now).unwrap_or_default();
                let is_test = made_of(path, &first, Part::Tests);
                if !is_test && !loses_assertions(path, &first, &now) {
                    continue;
                }
                !is_test
            }
        };
        if let Some(imports) = family.import_of(path) {
            candidates.push(Candidate {
                path: path.clone(),
                family,
                imports,
                needs_importer,
                by: BTreeSet::new(),
            });
        }
    }
    if candidates.is_empty() {
        return true;
    }
    let searches_all = candidates.iter().any(|candidate| candidate.family == Family::Data);
    let is_searched = |path: &String| match family(path) {
        Some(Family::Data) => false,
        Some(_) => true,
        None => searches_all && named::is_source(path),
    };
    let code: Vec<String> = trees.first_paths().filter(is_searched).collect();
    for some in code[..code.len().min(SEARCHED)].chunks(AT_ONCE) {
        for (path, content) in trees.first_contents(some) {
            let text = String::from_utf8_lossy(&content);
            for candidate in candidates.iter_mut().filter(|candidate| candidate.is_imported(&path, &text)) {
                candidate.by.insert(path.clone());
            }
        }
    }
    // Helpers of helpers follow.
    loop {
        let is_theirs = |path: &String| is_check(path) || found.contains(path);
        let next = candidates.iter().position(|candidate| {
            // A script that names data may look whether the work is done in it.
            let is_compared =
                |path: &String| candidate.family == Family::Data && family(path) == Some(Family::Shell);
            !found.contains(&candidate.path)
                && candidate.by.iter().all(|path| is_theirs(path) && !is_compared(path))
                && !(candidate.needs_importer && candidate.by.is_empty())
        });
        match next {
            Some(at) => found.insert(candidates.swap_remove(at).path),
            None => return code.len() <= SEARCHED,
        };
    }
}

/// A file that is made of what checks are made of.
struct Candidate {
    path: String,
    family: Family,
    /// The form of its imports.
    imports: Regex,
    needs_importer: bool,
    /// The files that import it.
    by: BTreeSet<String>,
}

impl Candidate {
    fn is_imported(&self, path: &str, text: &str) -> bool {
        path != self.path
            && (self.family == Family::Data || family(path) == Some(self.family))
            && self.imports.is_match(text)
    }
}

/// Languages whose files import each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Python,
    Script,
    Go,
    Shell,
    /// Any code may name data.
    Data,
}

fn family(path: &str) -> Option<Family> {
    match path.rsplit_once('.')?.1 {
        "py" => Some(Family::Python),
        "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" | "jsx" | "tsx" => Some(Family::Script),
        "go" => Some(Family::Go),
        "sh" | "bash" => Some(Family::Shell),
        _ => named::is_data(path).then_some(Family::Data),
    }
}

impl Family {
    /// The form of a file's imports. A name too many makes rawko take a check for work, but no work for a check.
    fn import_of(self, path: &str) -> Option<Regex> {
        let name = |path: &str| regex::escape(path.rsplit('/').next().unwrap_or(path));
        let text = match self {
            Self::Python => {
                let module = name(kinds::module(path)?);
                format!(
                    r#"(?m)^[ \t]*from[ \t]+[.\w]*\b{module}\b|^[ \t]*from[ \t]+[.\w]+[ \t]+import[ \t]+(?:\([^)]*|[^#\n(]*)\b{module}\b|^[ \t]*import[ \t][^#\n]*\b{module}\b|["'][\w.]*\b{module}\b[\w.]*["']"#
                )
            }
            Self::Script => {
                format!(r#"["'`](?:[\w./@-]*/)?{}(?:\.[cm]?[jt]sx?)?/?["'`]"#, name(kinds::module(path)?))
            }
            // A package is a folder.
            Self::Go => {
                format!(r#""(?:[\w./-]*/)?{}""#, name(path.rsplit_once('/').map_or("", |(folder, _)| folder)))
            }
            Self::Data => format!(r"(?:^|[^\w.-]){}(?:[^\w.]|$)", name(path)),
            Self::Shell => format!(r"(?m)(?:^|[;&|({{]|\bthen|\bdo)\s*(?:\.|source)\s+[^\n;]*{}", name(path)),
        };
        Regex::new(&text).ok()
    }
}

/// What a file is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// Tests, tasks, or a library that only tests use.
    Tests,
    /// Assertions.
    Assertions,
}

fn patterns(part: Part) -> &'static [(Vec<String>, Regex)] {
    static TABLE: OnceLock<BTreeMap<Part, Expressions>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let parts = [
            (Part::Tests, &Conventions::get().test_code),
            (Part::Assertions, &Conventions::get().assertions),
        ];
        parts.into_iter().map(|(part, table)| (part, kinds::expressions(table))).collect()
    });
    table.get(&part).map(Vec::as_slice).unwrap_or_default()
}

fn expressions(path: &str, part: Part) -> impl Iterator<Item = &'static Regex> {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending).to_owned();
    patterns(part).iter().filter(move |(endings, _)| endings.contains(&ending)).map(|(_, regex)| regex)
}

fn made_of(path: &str, text: &str, part: Part) -> bool {
    expressions(path, part).any(|regex| regex.is_match(text))
}

/// Whether a line with an assertion is not there any more as it was.
fn loses_assertions(path: &str, first: &str, now: &str) -> bool {
    let asserting = |line: &&str| made_of(path, line, Part::Assertions);
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for line in now.lines().map(str::trim) {
        *left.entry(line).or_default() += 1;
    }
    first.lines().map(str::trim).filter(asserting).any(|line| match left.get_mut(line) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: bool) {
        assert_eq!(made_of(path, text, Part::Tests), expected, "{path}: {text}");
    }

    #[test]
    fn tests_are_known_by_what_they_are_made_of() {
        check("a.py", "from calc import add\n\n\ndef test_add():\n    pass\n", true);
        check("tasks.py", "from invoke import task\n", true);
        check("a.js", "const { add } = require('../calc');\nit('adds', () => {});\n", true);
        check("a.ts", "import { test } from 'vitest';\n", true);
        check("util/must.go", "package util\n\nimport \"testing\"\n", true);
        check("util/must.go", "package util\n\nimport (\n\t\"fmt\"\n\t\"testing\"\n)\n", true);
        for (path, text) in [
            ("a.py", "class Connection:\n    def test_connection(self):\n        assert self.open\n"),
            ("a.py", "import testing\nlatest = 1\n"),
            ("a.js", "const it = edit('x');\nsubmit('y');\nconst assert = require('assert');\n"),
            ("a.go", "package a\n\n// See \"testing\".\nfunc A() {}\n"),
        ] {
            check(path, text, false);
        }
    }

    #[test]
    fn an_assertion_that_is_changed_or_removed_is_lost() {
        let first = "def expect(a, b):\n    assert a == b\n    return a\n";
        assert!(loses_assertions("a.py", first, "def expect(a, b):\n    return a\n"));
        assert!(loses_assertions("a.py", first, "def expect(a, b):\n    assert a or b\n    return a\n"));
        assert!(!loses_assertions(
            "a.py",
            first,
            "def expect(a, b):\n  if b:\n    assert a == b\n  return b\n"
        ));
        assert!(loses_assertions("a.sh", "[ $1 = $2 ] || exit 1\n", ":\n"));
        assert!(!loses_assertions(
            "a.sh",
            "add() { echo $(($1 - $2)); }\n",
            "add() { echo $(($1 + $2)); }\n"
        ));
    }

    #[track_caller]
    fn check_import(path: &str, text: &str, expected: bool) {
        let imports = family(path).unwrap().import_of(path).unwrap();
        assert_eq!(imports.is_match(text), expected, "{path}: {text}");
    }

    #[test]
    fn imports_are_read_as_text() {
        for text in [
            "from common.compare import expect",
            "from common import compare",
            "from common import (\n    other,\n    compare,\n)",
            "import os, common.compare",
            "importlib.import_module('common.compare')",
        ] {
            check_import("common/compare.py", text, true);
        }
        check_import("common/compare.py", "from common import other\n# compare", false);
        check_import("common/__init__.py", "import common", true);
        for text in
            ["require('./compare')", "import x from '../common/compare.js'", "export * from \"./compare\""]
        {
            check_import("common/compare.ts", text, true);
        }
        check_import("common/compare.js", "const compare = require('./other')", false);
        check_import("internal/testutil/must.go", "import \"example.com/a/internal/testutil\"", true);
        check_import("internal/testutil/must.go", "import \"example.com/a/internal\"", false);
        check_import("lib.sh", "set -e\n. ./lib.sh\n", true);
        check_import("lib.sh", "sh lib.sh", false);
    }
}
