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
