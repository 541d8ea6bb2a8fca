//! Repositories inside the project: what is done there is work, and what is weakened there is no proof.

use serde_json::json;
use testkit::Answer;

use super::Project;
use super::python::{FIX_PYTHON, UNITTEST};
use crate::answers::{bash, developer};
use crate::trial::{Ended, Trial};

const TEST: &str = "import unittest\nfrom lib.neg import neg\n\n\nclass Neg(unittest.TestCase):\n    def test_neg(self):\n        \
                    self.assertEqual(neg(1), -1)\n";
const FIX: &str = "sed -i 's/return a/return -a/' lib/neg.py";

/// A project with a submodule `lib` that has the fault, and its test there or in the project.
fn trial(commands: &[&str], test: &str, verify: &str) -> Trial {
    let turns: Vec<Answer> = commands.iter().map(|command| bash(command)).collect();
    let trial = Trial::new(developer(turns));
    let origin = trial.project().with_file_name("origin");
    std::fs::create_dir_all(origin.join("tests")).unwrap();
    let files = [("__init__.py", ""), ("neg.py", "def neg(a):\n    return a\n"), ("tests/__init__.py", "")];
    for (path, text) in files.into_iter().chain([(".gitignore", "__pycache__/\n")]) {
        std::fs::write(origin.join(path), text).unwrap();
    }
    if let Some(inside) = test.strip_prefix("lib/") {
        std::fs::write(origin.join(inside), TEST).unwrap();
    }
    let origin = origin.to_str().unwrap().to_owned();
    trial.git(&["init", "--quiet", &origin]);
    trial.git(&["-C", &origin, "add", "--all"]);
    trial.git(&["-C", &origin, "commit", "--quiet", "-m", "first"]);
    let mut trial = trial.file(".gitignore", "__pycache__/\n").file("tests/__init__.py", "");
    if !test.starts_with("lib/") {
        trial = trial.file(test, TEST);
    }
    trial.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &origin, "lib"]);
    trial.git(&["add", "--all"]);
    trial.git(&["commit", "--quiet", "-m", "first"]);
    trial.user_config("/verify/commands", json!([verify]))
}

const OWN: &str = "lib/tests/test_neg.py";
const OWN_VERIFY: &str = "python3 -m unittest lib.tests.test_neg";

fn run(commands: &[&str], test: &str) -> Ended {
    let verify = if test == OWN { OWN_VERIFY } else { UNITTEST };
    trial(commands, test, verify).args(&["--require-verified"]).run("Fix the fault.")
}

#[test]
fn a_fault_that_is_mended_in_a_submodule_is_verified() {
    let commit = "cd lib && git add neg.py && git -c user.name=a -c user.email=a@b commit -qm fix";
    for (commands, test) in [
        (&[FIX][..], "tests/test_neg.py"),
        (&[FIX][..], OWN),
        (&[FIX, commit][..], "tests/test_neg.py"),
        (&[FIX, commit][..], OWN),
    ] {
        let ended = run(commands, test);
        let finish = ended.finish();
        assert_eq!((&finish["status"], &finish["proof"]), (&json!("verified"), &json!("task")), "{finish:#}");
        assert_eq!(finish["filesModified"], json!(["lib/neg.py"]), "{finish:#}");
        ended.exits(0);
        let (_, diff, _) = ended.trial.rawko(&["diff"]);
        assert!(diff.contains("-    return a\n+    return -a\n"), "{diff}");
        let head = ended.trial.git(&["-C", "lib", "rev-parse", "HEAD"]);
        let (code, said, _) = ended.trial.rawko(&["rewind", "last", "--to", "1"]);
        assert_eq!(code, Some(0), "{said}");
        let neg = std::fs::read_to_string(ended.trial.project().join("lib/neg.py")).unwrap();
        assert_eq!(neg, "def neg(a):\n    return a\n");
        assert_eq!(ended.trial.git(&["-C", "lib", "rev-parse", "HEAD"]), head);
    }
}

#[test]
fn a_test_that_is_weakened_in_a_submodule_is_no_proof() {
    let weaken = "sed -i 's/, -1)/, 1)/' lib/tests/test_neg.py";
    let commit = "cd lib && git -c user.name=a -c user.email=a@b commit -qam weaker";
    for commands in [
        &[weaken][..],
        &[weaken, commit],
        &["rm lib/tests/test_neg.py; mkdir lib/tests/test_neg; touch lib/tests/test_neg/__init__.py"],
    ] {
        let ended = run(commands, OWN);
        let finish = ended.finish();
        assert_eq!(finish["doubt"]["reason"], "checks_changed", "{commands:?}: {finish:#}");
        let changed = &finish["verification"]["integrity"]["changed"];
        assert!(changed.to_string().contains(OWN), "{commands:?}: {finish:#}");
        ended.exits(1);
    }
}

/// Tests of a submodule that change with its code run as they were, in a copy that has the submodule.
#[test]
fn tests_of_a_submodule_may_move() {
    let moved = "mv lib/tests/test_neg.py lib/tests/test_negative.py; touch lib/tests/test_neg.py; \
                 echo 'from lib.tests.test_negative import Neg' > lib/tests/test_neg.py";
    let ended = run(&[FIX, moved], OWN);
    let finish = ended.finish();
    assert_eq!(finish["verification"]["integrity"]["result"], "originals_pass", "{finish:#}");
    ended.exits(0);
}

/// A repository that an agent makes around the tests hides nothing of them.
#[test]
fn a_new_repository_hides_nothing() {
    let project = Project { files: super::python::PYTHON, verify: &[UNITTEST] };
    project.claimed(
        &["git init -q tests", "sed -i 's/, 3)/, -1)/' tests/test_app.py", "echo '*' > tests/.gitignore"],
        "tests/test_app.py",
    );
    project.verified(&[FIX_PYTHON, "git init -q notes; echo done > notes/log.txt"], "intact");
}
