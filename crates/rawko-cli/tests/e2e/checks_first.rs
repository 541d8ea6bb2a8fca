//! Checks first: when an agent says that it is done, rawko runs the checks, compares them with what they said before the run,
//! and lets rules decide where they settle it.

use serde_json::{Value, json};
use testkit::{Answer, Asked, ModelServer, Who};

use crate::answers::{bash, call, complete, developer, report, select};
use crate::trial::{Ended, Trial};

const CALC: &str = "def add(a, b):\n    return a - b\n";
const FIX: &str = "sed -i 's/a - b/a + b/' calc.py";
const SUITE: &str = "import unittest\n\nfrom calc import add\n\n\nclass AddTest(unittest.TestCase):\n    def test_add(self):\n        \
                     self.assertEqual(add(1, 2), 3)\n";
const UNITTEST: &str = "python3 -m unittest discover -s tests -t .";

/// A project of Python with a fault, and rules that decide where they are certain. Each agent gives these answers, then
/// reports success; the arbiter's model is content with everything.
fn faulty(answers: impl IntoIterator<Item = Answer>) -> Trial {
    let mut left = answers.into_iter().collect::<Vec<_>>().into_iter();
    let server = ModelServer::start(move |asked: &Asked| match asked.who() {
        Who::Select => select("developer"),
        Who::Evaluate => complete("all done"),
        Who::Agent if is_reviewer(asked) => {
            call("Report", &json!({"verdict": "approved", "summary": "it is right", "findings": []}))
        }
        Who::Agent => left.next().unwrap_or_else(|| report("done")),
    });
    Trial::new(server)
        .user_config("/arbiter/mode", json!("hybrid"))
        .file("calc.py", CALC)
        .file("tests/__init__.py", "")
        .file("tests/test_add.py", SUITE)
        .file(".gitignore", "__pycache__/\n")
        .user_config("/verify", json!([UNITTEST]))
}

fn is_reviewer(asked: &Asked) -> bool {
    asked.system().contains("You are the reviewer")
}

/// How often agents and the arbiter were asked.
fn asked(ended: &Ended) -> (usize, usize) {
    let asked = ended.trial.server.asked();
    let of_agents = asked.iter().filter(|asked| asked.who() == Who::Agent).count();
    (of_agents, asked.len() - of_agents)
}

/// The run is verified without a question to the arbiter, with so many calls of agents.
#[track_caller]
fn check_verified(ended: &Ended, calls: usize, proof: &str) -> Value {
    ended.exits(0);
    let finish = ended.finish();
    assert_eq!((&finish["status"], &finish["proof"]), (&json!("verified"), &json!(proof)), "{finish:#}");
    assert_eq!(asked(ended), (calls, 0), "{}", ended.stdout);
    finish
}

#[test]
fn passing_checks_end_the_run_by_rule() {
    let finish = check_verified(&faulty([bash(FIX), bash(UNITTEST)]).run("Fix add."), 3, "task");
    let summary = finish["summary"].as_str().unwrap();
    assert_eq!(summary, format!("Verified: `{UNITTEST}` passes; `{UNITTEST}` failed before the run."));
    assert_eq!(finish["agentSummary"], "done");
}

/// Also where the model stops without a report, and where rules alone decide.
#[test]
fn an_agent_that_only_stops_has_its_work_checked() {
    for mode in ["hybrid", "rules"] {
        let trial = faulty([bash(FIX), Answer::text("The fault is mended.")]);
        let ended = trial.user_config("/arbiter/mode", json!(mode)).run("Fix add.");
        check_verified(&ended, 2, "task");
    }
}

#[test]
fn a_linter_that_was_red_before_is_a_note() {
    let lint = "lint:\n\t@echo old.py:1: too long; exit 1\n";
    let trial = faulty([bash(FIX), bash("make lint 2>&1 | tail -5")]).file("Makefile", lint);
    let finish = check_verified(&trial.run("Fix add."), 3, "task");
    let summary = finish["summary"].as_str().unwrap();
    assert!(summary.ends_with("`make lint` exited with 2: red before as well."), "{summary}");
}

/// It is all that is known of the tree, so its result is the run's.
#[test]
fn a_red_linter_is_the_result_where_there_is_no_other_check() {
    let lint = "lint:\n\t@echo old.py:1: too long; exit 1\n";
    let server = developer([bash("echo 2 > a"), bash("make lint")]);
    let ended = Trial::new(server).file("a", "1\n").file("Makefile", lint).run("Write 2.");
    ended.exits(1);
    let finish = ended.finish();
    assert_eq!(
        (&finish["status"], &finish["doubt"]["reason"]),
        (&json!("claimed"), &json!("red_before")),
        "{finish:#}"
    );
    let words = "Not verified: `make lint` exited with 2, as it did before the run.";
    assert_eq!(finish["summary"], words, "{finish:#}");
}

#[test]
fn a_linter_that_is_worse_than_before_goes_back_to_the_developer() {
    let lint = "lint:\n\t@! grep -n TODO calc.py | sed s/^/calc.py:/ | grep .\n";
    let worse = format!("{FIX}; echo '# TODO' >> calc.py");
    let answers = [bash(&worse), bash("make lint"), report("done"), bash("sed -i /TODO/d calc.py")];
    let ended = faulty(answers).file("Makefile", lint).run("Fix add.");
    check_verified(&ended, 5, "task");
    let requests = ended.trial.server.asked();
    let text = requests[3].last_text();
    assert!(
        text.contains("`make lint` exited with 2: it passed before, so it is worse than before"),
        "{text}"
    );
}

#[test]
fn a_linter_that_is_not_there_is_a_note() {
    let ended = faulty([bash(FIX), bash("python3 -m no_such_linter calc.py")]).run("Fix add.");
    let finish = check_verified(&ended, 3, "task");
    let other = "python3 -m ruff check";
    assert!(!finish.to_string().contains(other));
    let ended = faulty([bash(FIX), bash("python3 -m flake8_of_nobody || python3 -S -m flake8 calc.py")]);
    check_verified(&ended.run("Fix add."), 3, "task");
}

/// Staleness goes by the tree and not by what a command may do.
#[test]
fn a_scratch_file_outside_makes_nothing_stale() {
    let scratch = "mkdir -p /tmp/scratch && echo x > /tmp/scratch/a.txt";
    check_verified(&faulty([bash(FIX), bash(UNITTEST), bash(scratch)]).run("Fix add."), 4, "task");
}

/// Nor does one that could have changed the environment, and did not.
#[test]
fn an_installation_that_fails_makes_nothing_stale() {
    let install = "pip install --no-index nobody-has-this";
    check_verified(&faulty([bash(FIX), bash(UNITTEST), bash(install)]).run("Fix add."), 4, "task");
}

#[test]
fn what_failed_before_as_well_is_not_called_done() {
    let other = SUITE.replace("add(1, 2), 3", "1, 2").replace("test_add", "test_other");
    let trial = faulty([bash(FIX)]).file("tests/test_other.py", &other).output("text");
    let ended = trial.run("Fix add.");
    ended.exits(1);
    let words = format!("Not verified: `{UNITTEST}` exited with 1, as it did before the run.");
    assert!(ended.stdout.contains(&words) && !ended.stdout.contains("Claimed done"), "{}", ended.stdout);
    assert!(ended.stdout.contains("have what failed before the run mended"), "{}", ended.stdout);
    let (_, explained, _) = ended.trial.rawko(&["explain"]);
    assert!(explained.contains("\nEnded: claimed\n  Not verified: "), "{explained}");
    assert!(
        explained.ends_with(&format!("`{UNITTEST}` exited with 1; before the run: exited with 1\n")),
        "{explained}"
    );
}

/// The agent goes on in its conversation, and is shown what fails.
#[test]
fn a_new_failure_goes_back_with_its_output() {
    let broken = "sed -i 's/a - b/0/' calc.py; echo 'import nothing' > tests/test_new.py";
    let ended = faulty([
        bash(broken),
        report("done"),
        bash("rm tests/test_new.py; sed -i 's/return 0/return a + b/' calc.py"),
    ]);
    let ended = ended.run("Fix add.");
    check_verified(&ended, 4, "task");
    let requests = ended.trial.server.asked();
    let opening = requests[0].last_text();
    assert!(opening.contains("# Checks\nrawko runs these") && opening.contains(UNITTEST), "{opening}");
    let text = requests[2].last_text();
    for words in ["What fails: test_add (tests.test_add.AddTest.test_add)", "AssertionError: 0 != 3"] {
        assert!(text.contains(words), "{words:?} is missing in {text}");
    }
    assert!(requests[2].messages().len() > requests[0].messages().len(), "the conversation goes on");
}

/// Where nothing shows that the task itself is done, a reviewer looks once.
#[test]
fn checks_that_passed_before_are_no_proof_of_the_task() {
    let green = CALC.replace('-', "+");
    let trial = faulty([bash("echo '# documented' >> calc.py")]).file("calc.py", &green);
    let ended = trial.run("Document add.");
    let finish = check_verified(&ended, 3, "regression");
    let requests = ended.trial.server.asked();
    let review = requests.iter().find(|asked| is_reviewer(asked)).unwrap().last_text();
    assert!(review.contains("# The change\n") && review.contains("| +# documented\n"), "{review}");
    let summary = finish["summary"].as_str().unwrap();
    assert!(summary.ends_with("as before the run; that the task is done is the agents' word."), "{summary}");
    let trial = faulty([bash("echo '# documented' >> calc.py")]).file("calc.py", &green);
    let ended = trial.args(&["--require-proof"]).run("Document add.");
    ended.exits(1);
    assert!(ended.stderr.contains("--require-proof was given: no check shows that"), "{}", ended.stderr);
}

/// The new test fails on the code of the beginning.
#[test]
fn a_new_test_proves_the_task() {
    let green = CALC.replace('-', "+");
    let test = "sed 's/add/sub/g; s/, 3)/, -1)/; s/AddTest/SubTest/' tests/test_add.py > tests/test_sub.py";
    let code = "printf '\\n\\ndef sub(a, b):\\n    return a - b\\n' >> calc.py";
    let trial = faulty([bash(code), bash(test)]).file("calc.py", &green);
    let ended = trial.args(&["--require-proof"]).run("Add sub.");
    let finish = check_verified(&ended, 3, "task");
    let new = finish["verification"]["newTests"].to_string();
    assert!(new.contains("test_sub"), "{new}");
}

#[test]
fn a_command_of_the_user_that_is_missing_fails_the_run_by_name() {
    for iterations in ["9", "1"] {
        let trial = faulty([bash(FIX)]).user_config("/verify", json!(["no-such-runner --all"]));
        let ended = trial.args(&["--max-iterations", iterations]).run("Fix add.");
        ended.exits(1);
        assert_eq!(asked(&ended), (2, 1), "no one tries again");
        let finish = ended.finish();
        let message = finish["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("`no-such-runner --all` could not run: `no-such-runner` is missing"),
            "{message}"
        );
        let summary = finish["summary"].as_str().unwrap();
        assert_eq!(summary.matches("could not run").count(), 1, "{summary}");
    }
}

/// A script that is not there, as it was not before the run, is no work of the agents.
#[test]
fn a_script_of_the_user_that_is_missing_fails_the_run_at_once() {
    let ended = faulty([bash(FIX)]).user_config("/verify", json!(["./ci/verify.sh"])).run("Fix add.");
    ended.exits(1);
    assert_eq!(asked(&ended), (2, 1), "no one tries again");
    assert_eq!(ended.finish()["error"]["code"], "config_error", "{}", ended.stdout);
}

/// It says what the checks found on the tree that it leaves.
#[test]
fn a_run_that_a_limit_ends_has_its_checks_run() {
    let turns = (0..9).map(|turn| bash(&format!("{FIX}; echo '# {turn}' > notes{turn}.txt")));
    let ended = faulty(turns).args(&["--max-tokens", "14000"]).run("Fix add.");
    ended.exits(3);
    let finish = ended.finish();
    assert_eq!(finish["status"], "limited", "{finish:#}");
    assert_eq!(finish["verification"]["runs"][0]["exitCode"], 0, "{finish:#}");
    assert!(finish["summary"].as_str().unwrap().contains("The checks passed."), "{finish:#}");
}
