//! Where rawko finds no check, the tests that an agent ran with success are run by rawko itself, all of them. They verify the
//! run only if the run did not make what runs them.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use testkit::{Asked, ModelServer};

use crate::answers::{bash, complete, decide, developer, report, select};
use crate::trial::{Ended, Trial};

const CALC: &str = "def add(a, b):\n    return a - b\n";
const FIX: &str = "sed -i 's/a - b/a + b/' lib/calc.py";
const SUITE: &str = "import sys\nimport unittest\n\nsys.path.insert(0, 'lib')\nfrom calc import add\n\n\nclass AddTest(unittest.TestCase):\n    \
                     def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n\n    def test_zero(self):\n        \
                     self.assertEqual(add(0, 0), 0)\n";
const SCRIPT: &str = "#!/bin/sh\nexec python3 -m unittest discover -s proofs -p 'proof_*.py' \"$@\"\n";

/// A project with a fault whose tests rawko does not find, and a developer who runs these commands.
fn hidden(commands: &[&str]) -> Trial {
    Trial::new(developer(commands.iter().map(|command| bash(command))))
        .file("lib/calc.py", CALC)
        .file("proofs/proof_add.py", SUITE)
        .file(".gitignore", "__pycache__/\n.tools/\nnode_modules/\n")
}

fn with_program(trial: Trial, path: &str, text: &str) -> Trial {
    let trial = trial.file(path, text);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(trial.project().join(path), mode).unwrap();
    trial
}

fn with_script(commands: &[&str]) -> Trial {
    with_program(hidden(commands), "run_tests.sh", SCRIPT)
}

/// The run is verified by that command, which is an agent's.
#[track_caller]
fn check_adopted(ended: &Ended, command: &str, tests: u64) {
    ended.exits(0);
    let finish = ended.finish();
    assert_eq!((&finish["status"], &finish["proof"]), (&json!("verified"), &json!("task")), "{finish:#}");
    let verification = &finish["verification"];
    assert_eq!(verification["adopted"], true, "{finish:#}");
    let run = &verification["runs"][0];
    assert_eq!((&run["command"], &run["counts"]["executed"]), (&json!(command), &json!(tests)), "{finish:#}");
    let summary = finish["summary"].as_str().unwrap();
    let words = format!("Verified: `{command}`, which an agent ran and rawko ran again, passes;");
    assert!(summary.starts_with(&words), "{summary}");
}

/// The run is claimed for that reason.
#[track_caller]
fn check_claimed(ended: &Ended, reason: &str) -> Value {
    let finish = ended.finish();
    assert_eq!(
        (&finish["status"], &finish["doubt"]["reason"]),
        (&json!("claimed"), &json!(reason)),
        "{finish:#}"
    );
    finish
}

#[test]
fn all_tests_of_a_runner_verify_where_an_agent_ran_one() {
    let one = "timeout 60 ./run_tests.sh -k test_zero 2>&1 | tail -3";
    check_adopted(&with_script(&[FIX, one]).run("Fix add."), "timeout 60 ./run_tests.sh", 2);
    let one = "cd app && python3 -m unittest tests.test_add.AddTest.test_zero";
    let trial = Trial::new(developer([bash("sed -i 's/a - b/a + b/' app/lib/calc.py"), bash(one)]))
        .file("app/lib/calc.py", CALC)
        .file("app/tests/__init__.py", "")
        .file("app/tests/test_add.py", SUITE)
        .file(".gitignore", "__pycache__/\n");
    check_adopted(&trial.run("Fix add."), "cd app && python3 -m unittest", 2);
}

/// The script may be work, too: the one of the beginning runs on the new code.
#[test]
fn a_changed_script_verifies_where_the_original_one_passes() {
    let change = "sed -i 's/^exec/echo testing\\nexec/' run_tests.sh";
    let ended = with_script(&[FIX, change, "./run_tests.sh"]).run("Fix add.");
    check_adopted(&ended, "./run_tests.sh", 2);
    assert_eq!(ended.finish()["verification"]["integrity"]["result"], "originals_pass");
}

/// What git ignores and was there before the run counts as it is.
#[test]
fn a_program_that_was_not_recorded_is_no_change() {
    let script = SCRIPT.replace("python3", ".tools/python");
    let trial = with_program(hidden(&[FIX, "./run_tests.sh -k test_zero"]), "run_tests.sh", &script);
    let trial = with_program(trial, ".tools/python", "#!/bin/sh\nexec python3 \"$@\"\n");
    check_adopted(&trial.run("Fix add."), "./run_tests.sh", 2);
}

#[test]
fn what_the_run_made_does_not_verify_it() {
    let makes = "printf '#!/bin/sh\\necho Ran 2 tests in 0.1s; echo; echo OK\\n' >";
    for (path, runs) in [
        ("run_tests.sh", "./run_tests.sh"),
        ("bin/run-tests", "bin/run-tests"),
        // Git does not see it.
        (".tools/run-tests", ".tools/run-tests --fast"),
    ] {
        let make = format!("echo >> lib/calc.py; mkdir -p bin .tools; {makes} {path}; chmod +x {path}");
        let ended = hidden(&[&make, runs]).file("tests/want.txt", "3\n").run("Fix add.");
        let finish = check_claimed(&ended, "checks_changed");
        let changed = finish["verification"]["integrity"]["changed"].to_string();
        assert!(changed.contains(path), "{finish:#}");
    }
}

#[test]
fn a_script_that_the_run_changed_does_not_verify_it() {
    let weaken = "printf '#!/bin/sh\\nexit 0\\n' > run_tests.sh";
    let ended = with_script(&["echo >> lib/calc.py", weaken, "./run_tests.sh"]).run("Fix add.");
    check_claimed(&ended, "checks_changed");
}

/// They have names of their own, which the script says.
#[test]
fn tests_that_the_run_weakened_do_not_verify_it() {
    let weaken = "echo >> lib/calc.py; sed -i 's/add(1, 2), 3/add(1, 2), -1/' proofs/proof_add.py";
    let finish = check_claimed(&with_script(&[weaken, "./run_tests.sh"]).run("Fix add."), "checks_changed");
    let changed = finish["verification"]["integrity"]["changed"].to_string();
    assert!(changed.contains("proofs/proof_add.py"), "{finish:#}");
}

/// Tests of the run alone are its agents' word.
#[test]
fn tests_that_the_run_made_do_not_verify_it() {
    let test = format!(
        "{FIX}; printf 'import unittest\\nclass A(unittest.TestCase):\\n    def test_a(self): pass\\n' > test_a.py"
    );
    let ended = Trial::new(developer([bash(&test), bash("python3 -m unittest test_a")]))
        .file("lib/calc.py", CALC)
        .file(".gitignore", "__pycache__/\n")
        .run("Fix add.");
    let finish = check_claimed(&ended, "nothing_to_run");
    assert_eq!(finish["verification"]["adopted"], Value::Null, "{finish:#}");
}

/// How all tests are run is a guess, and a wrong guess is in no one's way.
#[test]
fn a_runner_that_finds_no_test_by_itself_says_nothing() {
    let ended = hidden(&[FIX, "python3 -m unittest proofs/proof_add.py"]).file("tests/want.txt", "3\n");
    let ended = ended.run("Fix add.");
    ended.exits(0);
    let finish = check_claimed(&ended, "nothing_to_run");
    assert_eq!(finish["verification"]["runs"], json!([]), "{finish:#}");
}

/// What rawko found needs a program that is not there.
#[test]
fn a_check_that_cannot_run_gives_way_to_one_that_an_agent_ran() {
    let makefile = "test:\n\tno-such-tox\n";
    let trial = with_script(&[FIX, "./run_tests.sh -k test_zero"]).file("Makefile", makefile);
    let ended = trial.run("Fix add.");
    check_adopted(&ended, "./run_tests.sh", 2);
    let begun = ended.events_of("verification_started");
    let commands: Vec<&Value> = begun.iter().map(|event| &event["commands"][0]).collect();
    assert_eq!(commands, ["make test", "./run_tests.sh"]);
}

#[test]
fn what_is_adopted_in_vain_does_not_hide_why_the_check_could_not_run() {
    let commands = [FIX, "python3 -m unittest proofs/proof_add.py"];
    let ended = hidden(&commands).file("Makefile", "test:\n\tno-such-tox\n").run("Fix add.");
    ended.exits(0);
    let finish = check_claimed(&ended, "unavailable");
    let message = "`make test` could not run: `no-such-tox` is missing";
    assert_eq!(finish["doubt"]["message"], message, "{finish:#}");
}

/// The code of the beginning fails with a package that the run replaced, which is no proof of the work.
#[test]
fn what_fails_with_other_packages_is_no_proof() {
    let calc = "import sys\nsys.path.insert(0, 'node_modules/sum')\nimport sums\n\n\ndef add(a, b):\n    return sums.add(a, b)\n";
    let suite = SUITE.replace("from calc", "sys.path.insert(0, '.')\nfrom calc");
    let proof = |replace: &str| {
        let commands = ["sed -i 's/sums.add/sums.plus/' lib/calc.py", replace, "./run_tests.sh"];
        let trial = with_script(&commands).file("lib/calc.py", calc).file("proofs/proof_add.py", &suite);
        let trial =
            trial.file("node_modules/sum/sums.py", "def add(a, b):\n    return a + b\n\n\nplus = add\n");
        let ended = trial.args(&["--allow-changed-checks"]).run("Call plus.");
        ended.exits(0);
        ended.finish()["proof"].clone()
    };
    assert_eq!(proof("true"), "regression");
    assert_eq!(
        proof("printf 'def plus(a, b):\n    return a + b\n' > node_modules/sum/sums.py"),
        "regression"
    );
}

/// Each adopted command is compared with itself on the first tree.
#[test]
fn another_runner_may_be_adopted_later() {
    let server = ModelServer::sequence([
        select("developer"),
        bash("sed -i 's/a - b/a + b + 0/' lib/calc.py"),
        bash("./run_tests.sh"),
        report("did it"),
        decide(json!({"decision": "CONTINUE", "input": "tidy up", "reason": "it is ugly"})),
        bash("sed -i 's/ + 0//' lib/calc.py"),
        bash("sh scripts/test -k test_add"),
        report("did it"),
        complete("all done"),
    ]);
    let trial = Trial::new(server).file("lib/calc.py", CALC).file("proofs/proof_add.py", SUITE);
    let trial = with_program(trial, "run_tests.sh", SCRIPT).file(".gitignore", "__pycache__/\n");
    let ended = with_program(trial, "scripts/test", SCRIPT).run("Fix add.");
    check_adopted(&ended, "sh scripts/test", 2);
    let begun = ended.events_of("verification_started");
    let first = begun.first().map(|event| event["commands"][0].clone());
    assert_eq!(first, Some(json!("./run_tests.sh")), "{begun:?}");
    let requests = ended.trial.server.asked();
    let goes_on = requests.iter().map(Asked::last_text).find(|text| text.contains("it is ugly")).unwrap();
    assert!(goes_on.contains("# Checks\n") && goes_on.contains("`./run_tests.sh`"), "{goes_on}");
}

#[test]
fn a_red_run_of_an_agent_is_not_adopted() {
    let ended = with_script(&["echo >> lib/calc.py", "./run_tests.sh"]).run("Fix add.");
    let finish = ended.finish();
    assert_ne!(finish["status"], "verified", "{finish:#}");
    assert_eq!(finish["verification"]["runs"], json!([]), "{finish:#}");
    assert_eq!(finish["verification"]["others"][0]["now"]["command"], "./run_tests.sh", "{finish:#}");
}

/// One test passes, and another one that passed before does not.
#[test]
fn a_green_selection_does_not_hide_what_the_run_broke() {
    let broken = "sed -i 's/return a - b/return 3/' lib/calc.py";
    let ended = with_script(&[broken, "./run_tests.sh -k test_add"]).run("Fix add.");
    let finish = ended.finish();
    assert_eq!(finish["status"], "failed", "{finish:#}");
    assert!(
        finish["summary"].as_str().unwrap().ends_with("The check `./run_tests.sh` exited with 1."),
        "{finish:#}"
    );
    let failures = &finish["verification"]["runs"][0]["failures"];
    assert_eq!(*failures, json!(["test_zero (proof_add.AddTest.test_zero)"]), "{finish:#}");
}
