//! No one says what verifies a run: rawko finds the project's own checks and runs them.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{ModelServer, Who};

use crate::answers::{bash, complete, developer, report, select};
use crate::integrity::pytest_programs;
use crate::trial::{Ended, Trial};

const CALC: &str = "def add(a, b):\n    return a - b\n";
const PYTEST: &str = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n";
const UNITTEST: &str = "import unittest\n\nfrom calc import add\n\n\nclass AddTest(unittest.TestCase):\n    def test_add(self):\n        \
                        self.assertEqual(add(1, 2), 3)\n";
const FIX: &str = "sed -i 's/a - b/a + b/' calc.py";

/// A project of Python with a fault, and a developer who mends it.
fn faulty(test: &str) -> Trial {
    Trial::new(developer([bash(FIX)]))
        .file("calc.py", CALC)
        .file("tests/test_x.py", test)
        .file(".gitignore", ".venv/\n__pycache__/\n.pytest_cache/\n")
}

#[track_caller]
fn succeeds(program: &mut Command) {
    let output = program.output().unwrap();
    assert!(output.status.success(), "{program:?}: {output:?}");
}

/// The run is verified by that command, which ran one test.
#[track_caller]
fn verified(ended: &Ended, command: &str) {
    let finish = ended.finish();
    assert_eq!(finish["status"], "verified", "{finish:#}");
    let run = &finish["verification"]["runs"][0];
    assert_eq!(run["command"], command, "{finish:#}");
    assert_eq!(run["counts"]["executed"], 1, "{finish:#}");
}

#[test]
fn pytest_of_the_projects_environment_verifies() {
    let Some(programs) = pytest_programs() else { return };
    let trial = faulty(PYTEST);
    let venv = trial.project().join(".venv");
    succeeds(Command::new(programs.join("python")).args(["-m", "venv", "--without-pip"]).arg(&venv));
    let copy = format!(
        "for package in lib/python3*/site-packages/*; do case $package in */pip*|*/setuptools*) ;; \
         *) cp -r $package '{}'/$package;; esac; done",
        venv.display()
    );
    succeeds(Command::new("bash").args(["-c", &copy]).current_dir(programs.parent().unwrap()));
    let ended = trial.run("Fix add.");
    ended.exits(0);
    verified(&ended, ".venv/bin/python -m pytest -q");
}

/// The interpreter that an environment is made of may be in the user's home, as that of pyenv does.
#[test]
fn unittest_in_the_projects_environment_verifies() {
    let trial = faulty(UNITTEST);
    let version = trial.outside().join("home/.pyenv/versions/3.9.9");
    let real = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    let real = String::from_utf8(real.stdout).unwrap();
    write_program(&version.join("bin/python3"), &format!("#!/bin/sh\nexec {} \"$@\"\n", real.trim()));
    let bin = trial.project().join(".venv/bin");
    std::fs::create_dir_all(&bin).unwrap();
    symlink(version.join("bin/python3"), bin.join("python")).unwrap();
    let ended = trial.run("Fix add.");
    ended.exits(0);
    verified(&ended, ".venv/bin/python -m unittest discover -s tests");
}

fn write_program(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path, mode).unwrap();
}

#[test]
fn tests_for_pytest_are_not_passed_by_unittest() {
    let trial = faulty(PYTEST);
    write_program(&trial.project().join(".venv/bin/python"), "#!/bin/sh\nexit 0\n");
    let ended = trial.run("Fix add.");
    let finish = ended.finish();
    assert_eq!(
        (&finish["status"], &finish["doubt"]["reason"]),
        (&json!("claimed"), &json!("nothing_to_run"))
    );
    let (_, said, _) = ended.trial.rawko(&["doctor"]);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("`.venv/bin/python -m pytest -q`, but pytest is not installed"), "{said}");
}

/// A repository with checks of its own, and a service in it with others.
fn monorepo(server: ModelServer) -> Trial {
    Trial::new(server)
        .file("Makefile", "test:\n\tgrep -q right services/web/out\n")
        .file("services/web/Makefile", "test:\n\tgrep -q right out\n")
        .file("services/web/src/page", "")
}

#[test]
fn a_service_is_verified_by_its_own_checks() {
    let trial = monorepo(developer([bash("echo right > services/web/out")]));
    let ended = trial.args(&["--cwd", "services/web/src"]).run("Make it.");
    ended.exits(0);
    let finish = ended.finish();
    assert_eq!(finish["status"], "verified", "{finish:#}");
    assert_eq!(finish["verification"]["runs"][0]["command"], "cd services/web && make test", "{finish:#}");
    let asked = ended.trial.server.asked();
    let agent = asked.iter().find(|asked| asked.who() == Who::Agent).unwrap();
    assert!(agent.system().contains("The user works in its folder `services/web/src`"), "{}", agent.system());
    let (_, out, _) = ended.trial.rawko(&["--cwd", "services/web", "doctor", "--json"]);
    let doctor: Value = serde_json::from_str(&out).unwrap();
    let found =
        doctor["findings"].as_array().unwrap().iter().find(|finding| finding["name"] == "verification");
    assert_eq!(found.unwrap()["commands"], json!(["cd services/web && make test"]), "{out}");
}

/// Checks found from one folder are known when the run is resumed from another.
#[test]
fn a_run_of_a_service_is_resumed_from_the_root() {
    for (begun_in, resumed_in, command) in
        [("services/web", ".", "cd services/web && make test"), (".", "services/web", "make test")]
    {
        let server = ModelServer::sequence([
            select("developer"),
            bash("echo right > services/web/out"),
            bash("echo on > ../marks/on; sleep 300"),
            report("made"),
            complete("done"),
        ]);
        let running = monorepo(server).with_marks().args(&["--cwd", begun_in]).start("Make it.");
        running.wait_until("the second command", || running.trial.marks().join("on").exists());
        running.signal(Signal::KILL);
        let killed = running.end_unchecked().trial;
        let (code, out, err) = killed.resume_with(&["--cwd", resumed_in]);
        assert_eq!(code, Some(0), "{begun_in}: {out}{err}");
        assert!(out.contains("\"status\":\"verified\""), "{begun_in}: {out}");
        assert!(out.contains(&format!("\"command\":\"{command}\"")), "{begun_in}: {out}");
    }
}
