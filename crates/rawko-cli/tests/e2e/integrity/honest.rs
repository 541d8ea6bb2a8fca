//! Honest work stays verified.

use serde_json::json;

use super::Project;
use super::python::{FIX_PYTHON, UNIT};
use super::rust::{CRATE, LIBRARY};
use crate::answers::{bash, developer};

#[test]
fn a_fault_that_is_mended_is_verified() {
    let ended = UNIT.verified(&[FIX_PYTHON], "intact");
    let finish = ended.finish();
    assert_eq!(finish["filesModified"], json!(["app.py"]));
    assert_eq!(finish["verification"]["baseline"]["runs"][0]["exitCode"], 1, "{finish:#}");
}

#[test]
fn honest_work_stays_verified() {
    let new_test = "printf 'import unittest\\nfrom app import add\\n\\n\\nclass More(unittest.TestCase):\\n    def test_more(self):\\n        self.assertEqual(add(2, 2), 4)\\n' > tests/test_more.py";
    UNIT.verified(&[FIX_PYTHON, new_test], "intact");
    // Tests that move are put back where they were, and pass there.
    UNIT.verified(
        &[FIX_PYTHON, "mkdir tests/unit", "mv tests/test_app.py tests/unit/", "touch tests/unit/__init__.py"],
        "originals_pass",
    );
    UNIT.verified(
        &[FIX_PYTHON, "mkdir -p .github/workflows", "echo 'on: push' > .github/workflows/ci.yml"],
        "originals_pass",
    );
}

/// Code and its tests move to a module of their own.
#[test]
fn a_refactoring_of_a_crate_stays_verified() {
    let moved = "mkdir -p src; sed 's/a - b/a + b/' src/lib.rs > src/math.rs; \
                 printf 'mod math;\\npub use math::add;\\n' > src/lib.rs";
    let ended = CRATE.verified(&[moved], "originals_pass");
    let finish = ended.finish();
    assert_eq!(finish["verification"]["integrity"]["changed"][0]["path"], "src/lib.rs", "{finish:#}");
}

/// A newer release of a dependency, which is in a folder beside it.
#[test]
fn a_dependency_may_be_upgraded() {
    let project = Project {
        files: &[
            (
                "package.json",
                r#"{"name": "a", "version": "1.0.0", "scripts": {"test": "node --test checks.js"}, "dependencies": {"sum": "file:vendor/sum-1"}}"#,
            ),
            ("package-lock.json", "{\"lockfileVersion\": 3}\n"),
            ("vendor/sum-1/package.json", r#"{"name": "sum", "version": "1.0.0", "main": "index.js"}"#),
            ("vendor/sum-1/index.js", "module.exports = (a, b) => a - b;\n"),
            ("vendor/sum-2/package.json", r#"{"name": "sum", "version": "2.0.0", "main": "index.js"}"#),
            ("vendor/sum-2/index.js", "module.exports = (a, b) => a + b;\n"),
            ("node_modules/sum/package.json", r#"{"name": "sum", "version": "1.0.0", "main": "index.js"}"#),
            ("node_modules/sum/index.js", "module.exports = (a, b) => a - b;\n"),
            (
                "checks.js",
                "const test = require('node:test');\ntest('adds', () => require('node:assert').strictEqual(require('sum')(1, 2), 3));\n",
            ),
            (".gitignore", "node_modules/\n"),
        ],
        verify: &["npm test --silent"],
    };
    let upgrade = "sed -i s/sum-1/sum-2/ package.json; echo '{\"lockfileVersion\": 3, \"name\": \"a\"}' > package-lock.json; \
                   rm -r node_modules/sum; cp -r vendor/sum-2 node_modules/sum";
    project.verified(&[upgrade], "intact");
}

/// The feature goes, and its tests with it: a person has to say so.
#[test]
fn a_removed_feature_needs_leave() {
    let remove = "printf 'def sub(a, b):\\n    return a - b\\n' > app.py; rm tests/test_app.py; \
                  printf 'import unittest\\nfrom app import sub\\n\\n\\nclass Sub(unittest.TestCase):\\n    def test_sub(self):\\n        self.assertEqual(sub(3, 2), 1)\\n' > tests/test_sub.py";
    let finish = UNIT.run(&[remove]).finish();
    assert_eq!(finish["status"], "claimed", "{finish:#}");
    let message = finish["doubt"]["message"].as_str().unwrap();
    assert!(
        message.contains("tests/test_app.py deleted") && message.contains("--allow-changed-checks"),
        "{message}"
    );
    let ended = UNIT.run_with(vec![bash(remove)], &["--require-verified", "--allow-changed-checks"], &[]);
    assert_eq!(ended.finish()["status"], "verified", "{}", ended.stdout);
}

/// In a workspace the first test program fails, so that ignored tests of the second one appear only when it is mended.
#[test]
fn a_workspace_that_stopped_at_its_first_failure_stays_verified() {
    let project = Project {
        files: &[
            ("Cargo.toml", "[workspace]\nmembers = [\"a\", \"b\"]\nresolver = \"2\"\n"),
            (
                "Cargo.lock",
                "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"b\"\nversion = \"1.0.0\"\n",
            ),
            ("a/Cargo.toml", "[package]\nname = \"a\"\nversion = \"1.0.0\"\nedition = \"2021\"\n"),
            ("a/src/lib.rs", LIBRARY),
            ("b/Cargo.toml", "[package]\nname = \"b\"\nversion = \"1.0.0\"\nedition = \"2021\"\n"),
            ("b/src/lib.rs", "#[test]\n#[ignore]\nfn slow() {}\n\n#[test]\nfn quick() {}\n"),
            (".gitignore", "target/\n"),
        ],
        verify: &["cargo test --quiet --offline --lib"],
    };
    let finish = project.verified(&["sed -i 's/a - b/a + b/' a/src/lib.rs"], "intact").finish();
    assert_eq!(finish["verification"]["baseline"]["runs"][0]["exitCode"], 101, "{finish:#}");
}

/// A test writes a file that git ignores, and that was there before: rawko's own run of the commands writes it anew.
#[test]
fn what_tests_write_is_no_changed_check() {
    let project = Project {
        files: &[
            ("value", "wrong\n"),
            ("tests/run.sh", "#!/bin/sh\ndate +%N > tests/output/last.txt\ngrep -q right value\n"),
            (".gitignore", "output/\n"),
        ],
        verify: &["tests/run.sh"],
    };
    let trial = project.trial(developer([bash("echo right > value")])).file("tests/output/last.txt", "1\n");
    let finish = trial.run("Fix the fault.").finish();
    assert_eq!(finish["status"], "verified", "{finish:#}");
    assert_eq!(finish["verification"]["integrity"]["result"], "intact", "{finish:#}");
}

/// As `npm ci` does: the same files, written anew.
#[test]
fn packages_that_are_installed_anew_are_the_same() {
    let project = Project {
        files: &[
            ("value", "wrong\n"),
            ("tests/run.sh", "#!/bin/sh\n. node_modules/judge/judge.sh\njudge\n"),
            (".gitignore", "node_modules/\n"),
        ],
        verify: &["tests/run.sh"],
    };
    let run = |command: &str| {
        let trial = project.trial(developer([bash(command), bash("echo right > value")]));
        let trial = trial.file("node_modules/judge/judge.sh", "judge() { grep -q right value; }\n");
        trial.run("Fix the fault.").finish()
    };
    let finish = run("cp -r node_modules new; rm -r node_modules; mv new node_modules");
    assert_eq!(finish["status"], "verified", "{finish:#}");
    assert_eq!(finish["verification"]["integrity"]["result"], "intact", "{finish:#}");
    let finish = run("echo 'judge() { true; }' > node_modules/judge/judge.sh");
    assert_eq!(finish["doubt"]["reason"], "checks_changed", "{finish:#}");
}
