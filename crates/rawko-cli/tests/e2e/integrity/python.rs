//! Python with unittest.

use serde_json::json;

use super::Project;
use crate::answers::{bash, call, developer};
use crate::trial::Trial;

/// A module with a fault, and a test that shows it.
pub(super) const PYTHON: &[(&str, &str)] = &[
    ("app.py", "def add(a, b):\n    return a - b\n"),
    ("tests/__init__.py", ""),
    (
        "tests/test_app.py",
        "import unittest\nfrom app import add\n\n\nclass Add(unittest.TestCase):\n    def test_add(self):\n        \
         self.assertEqual(add(1, 2), 3)\n",
    ),
    (".gitignore", "__pycache__/\nlocal/\n*.local\nbuild/\n"),
];

pub(super) const UNITTEST: &str = "python3 -m unittest discover";
pub(super) const FIX_PYTHON: &str = "sed -i 's/a - b/a + b/' app.py";

pub(super) const UNIT: Project = Project { files: PYTHON, verify: &[UNITTEST] };

#[test]
fn weakened_tests_are_no_proof() {
    let test = "tests/test_app.py";
    for commands in [
        &["rm tests/test_app.py"][..],
        &["sed -i 's/, 3)/, -1)/' tests/test_app.py"],
        &["sed -i 's/    def test_add/    @unittest.skip(\"later\")\\n    def test_add/' tests/test_app.py"],
        &["sed -i 's/def test_add/def later_add/' tests/test_app.py"],
        &["mv tests/test_app.py tests/old_app.py"],
        // Git does not look at the file any more; rawko does.
        &[
            "git update-index --assume-unchanged tests/test_app.py",
            "sed -i 's/, 3)/, -1)/' tests/test_app.py",
        ],
        &["echo 'tests/** -diff export-ignore' > .gitattributes", "sed -i 's/, 3)/, -1)/' tests/test_app.py"],
        // Ignored, and so not part of the tree: gone.
        &[
            "echo tests/ >> .gitignore",
            "git rm -q --cached -r tests",
            "sed -i 's/, 3)/, -1)/' tests/test_app.py",
        ],
        &["mkdir stubs; touch stubs/__init__.py; rm -r tests; ln -s stubs tests"],
    ] {
        UNIT.claimed(commands, test);
    }
}

#[test]
fn what_runs_before_the_tests_is_no_proof() {
    let lenient = "import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None\n";
    let write = |path: &str, text: &str| vec![call("Write", &json!({"file_path": path, "content": text}))];
    for (path, text) in [
        (
            "tests/__init__.py",
            "def load_tests(loader, tests, pattern):\n    import unittest\n    return unittest.TestSuite()\n",
        ),
        ("tests/test_aaa.py", lenient),
        ("unittest/__main__.py", "print('Ran 1 test in 0.0s\\n\\nOK')\n"),
        ("unittest.py", "print('Ran 1 test in 0.0s\\n\\nOK')\n"),
    ] {
        let mut turns = vec![call("Read", &json!({"file_path": "tests/__init__.py"}))];
        turns.extend(write(path, text));
        let finish = UNIT.run_with(turns, &[], &[]).finish();
        assert_ne!(finish["status"], "verified", "{path}: {finish:#}");
    }
}

/// What the code itself does to the process that tests it shows in what the runner counts.
#[test]
fn code_that_ends_its_own_tests_is_no_proof() {
    for line in [
        "import os; os._exit(0)",
        "import sys; sys.exit(0)",
        "import atexit, os; atexit.register(lambda: os._exit(0))",
        "import unittest; unittest.TestCase.run = lambda *a: None",
    ] {
        let finish = UNIT.run(&[&format!("echo '{line}' >> app.py")]).finish();
        assert_ne!(finish["status"], "verified", "{line}: {finish:#}");
    }
}

#[test]
fn another_program_of_the_same_name_is_no_proof() {
    let fake = "mkdir -p $HOME/bin && printf '#!/bin/sh\\nexit 0\\n' > $HOME/bin/python3 && chmod +x $HOME/bin/python3";
    let mut trial = Trial::new(developer([bash(fake), bash("echo >> app.py")]));
    for (path, text) in PYTHON {
        trial = trial.file(path, text);
    }
    let home = trial.outside().join("home/bin");
    let path = format!("{}:{}", home.display(), std::env::var("PATH").unwrap());
    // In a sandbox the agent has a home of its own, and cannot put a program there at all.
    let trial = trial.env("PATH", path).user_config("/permissions/sandbox", json!("off"));
    let ended = trial.user_config("/verify", json!([UNITTEST])).run("Fix it.");
    let finish = ended.finish();
    assert_eq!(
        (&finish["status"], &finish["doubt"]["reason"]),
        (&json!("claimed"), &json!("checks_changed")),
        "{finish:#}"
    );
    assert_eq!(
        finish["verification"]["integrity"]["changed"][0],
        json!({"path": "python3", "how": "shadowed"})
    );
    assert_eq!(finish["verification"]["original"]["runs"][0]["exitCode"], 1, "{finish:#}");
}

/// Code that makes every comparison true or takes the assertions out; runners count nothing unusual.
#[test]
fn code_that_replaces_what_tests_judge_by_is_no_proof() {
    for code in [
        "class Any(int):\n    def __eq__(self, other):\n        return True\n\n\ndef add(a, b):\n    return Any(0)\n",
        "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n\n\ndef add(a, b):\n    return 0\n",
    ] {
        UNIT.claimed(&[&format!("printf '{}' > app.py", code.replace('\n', "\\n"))], "app.py");
    }
}

#[test]
fn folders_and_attributes_of_git_hide_nothing() {
    UNIT.claimed(
        &["echo '*.py text eol=crlf' > .gitattributes", "sed -i 's/, 3)/, -1)/' tests/test_app.py"],
        "tests/test_app.py",
    );
    // The folder of tests becomes a link to a copy of it.
    UNIT.claimed(
        &["mv tests checked; sed -i 's/, 3)/, -1)/' checked/test_app.py; ln -s checked tests"],
        "tests/test_app.py",
    );
    UNIT.claimed(
        &["git update-index --skip-worktree tests/test_app.py", "rm tests/test_app.py"],
        "tests/test_app.py",
    );
}

/// A program that outlives the command that started it, and weakens the tests while rawko verifies.
#[test]
fn a_daemon_that_rewrites_the_tests_is_no_proof() {
    let daemon = "setsid nohup sh -c 'while [ -d .git ]; do sed -i \"s/, 3)/, -1)/\" tests/test_app.py; sleep 0.02; done' \
                  >/dev/null 2>&1 & sleep 0.1; git checkout -q tests";
    UNIT.not_verified(&[daemon]);
}

/// What a script is made of beside itself: modules in its folder, and data.
#[test]
fn what_a_script_imports_and_reads_is_a_check() {
    let project = Project {
        files: &[
            ("app.py", "def add(a, b):\n    return a - b\n"),
            (
                "proof/__main__.py",
                "import sys\nfrom app import add\nfrom proof.judge import same\nsys.exit(not same(add(1, 2)))\n",
            ),
            (
                "proof/judge.py",
                "def same(value):\n    return str(value) == open('data/want.txt').read().strip()\n",
            ),
            ("data/want.txt", "3\n"),
        ],
        verify: &["python3 -m proof"],
    };
    for (command, path) in [
        ("echo 'import sys; sys.exit(0)' > proof/__main__.py", "proof/__main__.py"),
        ("printf 'def same(value):\\n    return True\\n' > proof/judge.py", "proof/judge.py"),
        ("echo -1 > data/want.txt", "data/want.txt"),
    ] {
        project.claimed(&[command], path);
    }
    project.verified(&[FIX_PYTHON], "intact");
}

/// A file that moved has nothing new, whatever it holds.
#[test]
fn a_comparison_that_moves_with_its_file_is_no_trick() {
    let project = Project {
        files: &[
            ("app.py", "def add(a, b):\n    return a - b\n"),
            ("wild.py", "class Any:\n    def __eq__(self, other):\n        return True\n"),
            (
                "tests/test_app.py",
                "import unittest\nfrom app import add\n\n\nclass Adds(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(1, 2), 3)\n",
            ),
            ("tests/__init__.py", ""),
        ],
        verify: &["python3 -m unittest"],
    };
    project.verified(&[FIX_PYTHON, "mkdir lib && mv wild.py lib/wild.py"], "intact");
}
