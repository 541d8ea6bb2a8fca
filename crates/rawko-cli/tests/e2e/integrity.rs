//! A run that changes what checks it is not verified by that: tricks that were tried, and honest work beside them.
//!
//! Each trick makes the project's checks pass without doing the work. The developer is scripted; python, node, make and
//! cargo are real.

use serde_json::{Value, json};
use testkit::Answer;

use crate::answers::{bash, call, developer};
use crate::trial::{Ended, Trial};

/// A module with a fault, and a test that shows it.
const PYTHON: &[(&str, &str)] = &[
    ("app.py", "def add(a, b):\n    return a - b\n"),
    ("tests/__init__.py", ""),
    (
        "tests/test_app.py",
        "import unittest\nfrom app import add\n\n\nclass Add(unittest.TestCase):\n    def test_add(self):\n        \
         self.assertEqual(add(1, 2), 3)\n",
    ),
    (".gitignore", "__pycache__/\nlocal/\n*.local\nbuild/\n"),
];

const UNITTEST: &str = "python3 -m unittest discover";
const FIX_PYTHON: &str = "sed -i 's/a - b/a + b/' app.py";

struct Project {
    files: &'static [(&'static str, &'static str)],
    verify: &'static [&'static str],
}

const UNIT: Project = Project { files: PYTHON, verify: &[UNITTEST] };

impl Project {
    fn run_with(&self, turns: Vec<Answer>, arguments: &[&str], config: &[(&str, Value)]) -> Ended {
        let mut trial = Trial::new(developer(turns));
        for (path, text) in self.files {
            trial = trial.file(path, text);
        }
        trial.git(&["add", "--all"]);
        trial.git(&["commit", "--quiet", "-m", "first"]);
        trial = trial.user_config("/verify/commands", json!(self.verify));
        // Cargo finds its toolchain by the real home.
        for (variable, folder) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
            let real = std::env::var(variable);
            let default = || format!("{}/{folder}", std::env::var("HOME").unwrap_or_default());
            trial = trial.env(variable, real.unwrap_or_else(|_| default()));
        }
        trial = trial.user_config("/permissions/env", json!(["RUSTUP_HOME", "CARGO_HOME"]));
        for (pointer, value) in config {
            trial = trial.user_config(pointer, value.clone());
        }
        trial.args(arguments).run("Fix the fault.")
    }

    fn run(&self, commands: &[&str]) -> Ended {
        self.run_with(commands.iter().map(|command| bash(command)).collect(), &["--require-verified"], &[])
    }

    /// The run ends as claimed, because of `path` among the changed checks.
    #[track_caller]
    fn claimed(&self, commands: &[&str], path: &str) {
        let ended = self.run(commands);
        let finish = ended.finish();
        assert_eq!(finish["status"], "claimed", "{commands:?}: {finish:#}");
        assert_eq!(finish["doubt"]["reason"], "checks_changed", "{commands:?}: {finish:#}");
        let changed = finish["verification"]["integrity"]["changed"].as_array().unwrap();
        let named = changed.iter().any(|change| change["path"].as_str().unwrap().contains(path));
        assert!(named, "{commands:?}: {finish:#}");
        ended.exits(1);
    }

    #[track_caller]
    fn verified(&self, commands: &[&str], integrity: &str) -> Ended {
        let ended = self.run(commands);
        let finish = ended.finish();
        assert_eq!(finish["status"], "verified", "{commands:?}: {finish:#}");
        assert_eq!(finish["verification"]["integrity"]["result"], integrity, "{commands:?}: {finish:#}");
        ended.exits(0);
        ended
    }
}

#[test]
fn a_fault_that_is_mended_is_verified() {
    let ended = UNIT.verified(&[FIX_PYTHON], "intact");
    let finish = ended.finish();
    assert_eq!(finish["filesModified"], json!(["app.py"]));
    assert_eq!(finish["verification"]["baseline"]["runs"][0]["exitCode"], 1, "{finish:#}");
}

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
    let ended = trial.env("PATH", path).user_config("/verify", json!([UNITTEST])).run("Fix it.");
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

const SCRIPTS: Project = Project {
    files: &[
        ("value", "wrong\n"),
        ("test.sh", "#!/bin/sh\ngrep -q right value\n"),
        ("tools/proof.sh", "grep -q right value\n"),
        ("Makefile", "test:\n\t@grep -q right value\n"),
        (".gitignore", "*.local\n"),
    ],
    verify: &["sh ./test.sh", "bash tools/proof.sh", "make test"],
};

#[test]
fn scripts_and_recipes_are_checks() {
    for (commands, path) in [
        (
            &[
                "printf 'exit 0\\n' | tee test.sh tools/proof.sh Makefile.sh && printf 'test:\\n\\t@true\\n' > Makefile",
            ][..],
            "test.sh",
        ),
        (
            &[
                "echo right > value",
                "printf 'exit 0\\n' > tools/proof.sh",
                "echo wrong > value",
                "echo 'exit 0' > test.sh",
                "printf 'SHELL=/bin/true\\n' > GNUmakefile; printf 'test:\\n\\ttrue\\n' >> GNUmakefile",
            ],
            "GNUmakefile",
        ),
        (
            &["sed -i '1i SHELL := /bin/true' Makefile", "echo 'exit 0' | tee test.sh tools/proof.sh"],
            "Makefile",
        ),
    ] {
        SCRIPTS.claimed(commands, path);
    }
    SCRIPTS.verified(&["echo right > value"], "intact");
    let ended = SCRIPTS.verified(&["echo right > value", "echo '# more' >> Makefile"], "originals_pass");
    assert_eq!(ended.finish()["verification"]["integrity"]["changed"][0]["path"], "Makefile");
}

/// A target without `.PHONY` is up to date where a file has its name.
#[test]
fn a_file_named_like_a_target_is_no_proof() {
    let make = Project { files: SCRIPTS.files, verify: &["make test"] };
    make.claimed(&["touch test"], "test");
}

const NODE: Project = Project {
    files: &[
        (
            "package.json",
            r#"{"name": "a", "version": "1.0.0", "scripts": {"test": "node --test checks.js"}}"#,
        ),
        ("app.js", "exports.add = (a, b) => a - b;\n"),
        (
            "checks.js",
            "const test = require('node:test');\nconst assert = require('node:assert');\nconst { add } = \
             require('./app.js');\ntest('adds', () => assert.strictEqual(add(1, 2), 3));\n",
        ),
        (".gitignore", "node_modules/\n"),
    ],
    verify: &["npm test --silent"],
};

#[test]
fn the_checks_of_a_package_are_its_scripts_and_what_they_name() {
    for (commands, path) in [
        (&["sed -i 's/node --test checks.js/true/' package.json"][..], "package.json"),
        (&["sed -i 's/, 3)/, -1)/' checks.js"], "checks.js"),
        (&["echo 'script-shell=/bin/true' > .npmrc"], ".npmrc"),
        (&["printf '{\"name\":\"a\",\"scripts\":{\"test\":\"exit 0\"}}' > package.json"], "package.json"),
    ] {
        NODE.claimed(commands, path);
    }
    let fix = "sed -i 's/a - b/a + b/' app.js";
    NODE.verified(&[fix], "intact");
    NODE.verified(&[fix, "sed -i 's/1.0.0/1.1.0/' package.json"], "intact");
}

const CRATE: Project = Project {
    files: &[
        ("Cargo.toml", "[package]\nname = \"a\"\nversion = \"1.0.0\"\nedition = \"2021\"\n"),
        ("Cargo.lock", "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n"),
        (
            "src/lib.rs",
            "pub fn add(a: i32, b: i32) -> i32 {\n    a - b\n}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n    \
             #[test]\n    fn adds() {\n        assert_eq!(add(1, 2), 3);\n    }\n}\n",
        ),
        (".gitignore", "target/\n"),
    ],
    verify: &["cargo test --quiet --offline --lib"],
};

#[test]
fn tests_inside_the_code_are_checks() {
    CRATE.claimed(&["sed -i 's/, 3)/, -1)/' src/lib.rs"], "src/lib.rs");
    CRATE.claimed(&["sed -i '/cfg(test)/,$d' src/lib.rs"], "src/lib.rs");
    CRATE.claimed(
        &[
            "mkdir .cargo",
            "printf '[target.\\x27cfg(all())\\x27]\\nrunner = \"true\"\\n' > .cargo/config.toml",
        ],
        ".cargo/config.toml",
    );
    let fix = "sed -i 's/a - b/a + b/' src/lib.rs";
    CRATE.verified(
        &[fix, "sed -i 's/    #\\[test\\]/    #[test]\\n    fn more() {}\\n\\n    #[test]/' src/lib.rs"],
        "intact",
    );
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

#[test]
fn what_may_happen_to_checks_is_configured() {
    let weaken = || vec![bash("sed -i 's/, 3)/, -1)/' tests/test_app.py")];
    let allowed = UNIT.run_with(weaken(), &["--require-verified", "--allow-changed-checks"], &[]);
    let finish = allowed.finish();
    assert_eq!(finish["status"], "verified", "{finish:#}");
    assert_eq!(finish["verification"]["integrity"]["result"], "allowed");
    assert_eq!(finish["verification"]["integrity"]["changed"][0]["path"], "tests/test_app.py");
    let denied =
        UNIT.run_with(weaken(), &["--max-iterations", "1"], &[("/verify/changedChecks", json!("deny"))]);
    let finish = denied.finish();
    assert_eq!(finish["status"], "limited", "{finish:#}");
    let own = UNIT.run_with(
        vec![bash("sed -i 's/a - b/a + b/' app.py")],
        &[],
        &[("/verify/tests", json!(["app.*"]))],
    );
    assert_eq!(own.finish()["verification"]["integrity"]["changed"][0]["path"], "app.py");
}

#[test]
fn a_run_that_changed_nothing_proves_nothing() {
    let green = Project { files: &[("a", "1\n")], verify: &["true"] };
    for commands in [&["ls"][..], &["touch b", "rm b"], &["true"]] {
        let finish = green.run(commands).finish();
        assert_eq!(finish["status"], "claimed", "{finish:#}");
        assert_eq!(finish["doubt"]["reason"], "unchanged", "{finish:#}");
    }
}

/// The same tree, another exit status: the second run decides, and both are reported.
#[test]
fn flaky_checks_are_run_again() {
    let flaky = "n=$(cat ../count 2>/dev/null || echo 0); echo $((n + 1)) > ../count; test $n -ge 1";
    let server = crate::answers::always(
        crate::answers::select("developer"),
        crate::answers::complete("done"),
        crate::answers::report("did it"),
    );
    let trial = Trial::new(server).file("a", "1\n").user_config("/verify", json!([flaky]));
    let finish = trial.args(&["--max-iterations", "4"]).run("Do it.").finish();
    assert_eq!(finish["verification"]["flaky"][0]["exitCode"], 0, "{finish:#}");
}
