//! Copies in which the original checks run.

use rustix::process::Signal;
use serde_json::json;

use super::python::{FIX_PYTHON, PYTHON, UNIT};
use crate::answers::{bash, developer};
use crate::trial::Trial;

/// The project is a folder of a repository, because it has settings of its own; its tests read what is beside it, and
/// ask git.
#[test]
fn a_part_of_a_repository_is_checked_in_its_place() {
    let test = "import json, subprocess, unittest\nfrom app import add\n\n\nclass Add(unittest.TestCase):\n    def test_add(self):\n        \
                self.assertEqual(add(1, 2), json.load(open('../shared/data.json')))\n        \
                top = subprocess.check_output(['git', 'rev-parse', '--show-prefix'], text=True)\n        \
                self.assertEqual(top.strip(), 'part/')\n";
    let mut trial = Trial::new(developer([bash(FIX_PYTHON), bash("echo '# more' >> tests/__init__.py")]));
    for (path, text) in PYTHON {
        trial = trial.file(&format!("part/{path}"), text);
    }
    trial = trial.file("part/tests/test_app.py", test).file("shared/data.json", "3\n");
    trial.git(&["add", "--all"]);
    trial.git(&["commit", "--quiet", "-m", "first"]);
    std::fs::create_dir(trial.project().join("part/.rawko")).unwrap();
    trial = trial.user_config("/verify", json!(["python3 -m unittest discover"]));
    let ended = trial.args(&["--cwd", "part"]).start("Fix it.").end_unchecked();
    let finish = ended.finish();
    assert_eq!(finish["status"], "verified", "{finish:#}");
    assert_eq!(finish["verification"]["integrity"]["result"], "originals_pass", "{finish:#}");
    assert_eq!(finish["verification"]["baseline"]["runs"][0]["exitCode"], 1, "{finish:#}");
}

/// Tests read what is beside the repository, by its name or through a link.
#[test]
fn a_copy_has_the_neighbours_of_the_project() {
    let mut trial = Trial::new(developer([bash("echo right > value; echo '# more' >> tests/run.sh")]));
    let test = "cat ../shared/data.txt linked/data.txt && grep -q right value\n";
    for (path, text) in [("value", "wrong\n"), ("tests/run.sh", test)] {
        trial = trial.file(path, text);
    }
    let shared = trial.project().parent().unwrap().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(shared.join("data.txt"), "3\n").unwrap();
    std::os::unix::fs::symlink("../shared", trial.project().join("linked")).unwrap();
    trial.git(&["add", "--all"]);
    trial.git(&["commit", "--quiet", "-m", "first"]);
    // In the sandbox a neighbour is there where it is granted.
    let trial = trial.user_config("/permissions/read", json!([".", shared]));
    let finish = trial.user_config("/verify", json!(["sh tests/run.sh"])).run("Do it.").finish();
    assert_eq!(finish["status"], "verified", "{finish:#}");
    assert_eq!(finish["verification"]["integrity"]["result"], "originals_pass", "{finish:#}");
}

/// What an agent's own build writes is no part of the copy, and a setting that git ignores is.
#[test]
fn copies_have_local_settings_and_no_builds() {
    let verify = "case $PWD in */rawko-verify-*) test ! -e build || exit 1;; esac; test -f local.env";
    let mut trial = Trial::new(developer([bash("echo 2 > work; touch tests/test_more.sh")]));
    for (path, text) in
        [("work", "1\n"), ("tests/test_a.sh", "true\n"), (".gitignore", "local.env\nbuild/\n")]
    {
        trial = trial.file(path, text);
    }
    trial.git(&["add", "--all"]);
    trial.git(&["commit", "--quiet", "-m", "first"]);
    let trial =
        trial.file("local.env", "A=1\n").file("build/stamp", "").user_config("/verify", json!([verify]));
    let finish = trial.run("Do it.").finish();
    assert_eq!(finish["verification"]["baseline"]["runs"][0]["exitCode"], 0, "{finish:#}");
}

fn copies(trial: &Trial) -> usize {
    let names = std::fs::read_dir(trial.outside()).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("rawko-verify-")).count()
}

/// A kill leaves the copy of the baseline; the next verification removes it.
#[test]
fn a_copy_that_a_killed_run_left_is_removed() {
    let verify = "sleep 30";
    let running = UNIT
        .trial(developer([bash("touch a; sleep 30")]))
        .user_config("/verify", json!([verify]))
        .start("Do it.");
    running.wait_until("the baseline", || copies(&running.trial) > 0);
    running.signal(Signal::KILL);
    let killed = running.end_unchecked().trial;
    assert_eq!(copies(&killed), 1);
    let (code, out, err) = killed.resume_with(&["--verify", "true"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(copies(&killed), 0, "{out}{err}");
}

/// The second run on the same tree takes the result of the first one over.
#[test]
fn a_baseline_is_run_once_for_a_tree() {
    let turns = || {
        [
            crate::answers::select("developer"),
            bash("echo '# one' >> app.py"),
            crate::answers::report("did it"),
            crate::answers::complete("done"),
        ]
    };
    let mut trial =
        UNIT.trial(testkit::ModelServer::sequence(turns().into_iter().chain(turns()))).with_marks();
    let log = trial.marks().join("baselines");
    let command = format!("case \"$PWD\" in */rawko-verify-*) echo run >> '{}';; esac", log.display());
    // In the sandbox a copy writes nothing outside itself.
    trial = trial.user_config("/verify", json!([command])).user_config("/permissions/sandbox", json!("off"));
    let ended = trial.run("Do it.");
    ended.trial.git(&["checkout", "-q", "app.py"]);
    let (code, out, err) = ended.trial.ask(&["run", "--output", "stream-json", "Do it again."]);
    assert_eq!(code, Some(0), "{out}{err}");
    let end: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(end["verification"]["baseline"]["runs"][0]["exitCode"], 0, "{end:#}");
    assert_eq!(std::fs::read_to_string(log).unwrap(), "run\n");
}
