//! The next task of a session is not verified by checks that the one before it weakened.

use serde_json::Value;
use testkit::{Answer, ModelServer};

use super::python::{FIX_PYTHON, UNIT};
use crate::answers::{bash, complete, report, select};

fn two_tasks(first: &str, second: &str) -> ModelServer {
    let task = |command: &str| -> [Answer; 4] {
        [select("developer"), bash(command), report("did it"), complete("all done")]
    };
    ModelServer::sequence(task(first).into_iter().chain(task(second)))
}

/// How the second task ends.
#[track_caller]
fn second(first: &str, second: &str, arguments: &[&str]) -> Value {
    let ended = UNIT.trial(two_tasks(first, second)).run("Fix the fault.");
    let arguments: Vec<&str> =
        ["continue", "--output", "stream-json"].iter().chain(arguments).copied().collect();
    let (_, out, err) = ended.trial.ask(&[&arguments[..], &["last", "Tidy up."]].concat());
    serde_json::from_str(out.lines().last().unwrap_or_else(|| panic!("{err}"))).unwrap()
}

const WEAKEN: &str = "sed -i 's/, 3)/, -1)/' tests/test_app.py";

#[test]
fn weakened_checks_stay_weakened_in_the_next_task() {
    let end = second(WEAKEN, "echo '# tidy' >> app.py", &[]);
    assert_eq!(end["status"], "claimed", "{end:#}");
    assert_eq!(end["doubt"]["reason"], "checks_changed", "{end:#}");
    assert_eq!(end["verification"]["integrity"]["changed"][0]["path"], "tests/test_app.py", "{end:#}");
    // It changed nothing, whatever the task before it did.
    let end = second(WEAKEN, "true", &[]);
    assert_eq!(end["doubt"]["reason"], "unchanged", "{end:#}");
}

#[test]
fn what_brings_the_checks_back_or_has_leave_is_verified() {
    let end = second(WEAKEN, &format!("git checkout -q tests; {FIX_PYTHON}"), &[]);
    assert_eq!(end["status"], "verified", "{end:#}");
    let end = second(WEAKEN, "echo '# tidy' >> app.py", &["--allow-changed-checks"]);
    assert_eq!(end["status"], "verified", "{end:#}");
    assert_eq!(end["verification"]["integrity"]["result"], "allowed", "{end:#}");
}

/// After a task that left no doubt, the next one is compared with its own beginning.
#[test]
fn verified_work_is_the_measure_of_the_next_task() {
    let test = "printf 'import unittest\\nfrom app import add\\n\\n\\nclass More(unittest.TestCase):\\n    def test_more(self):\\n        self.assertEqual(add(2, 2), 4)\\n' > tests/test_more.py";
    let end = second(&format!("{FIX_PYTHON}; {test}"), "rm tests/test_more.py", &[]);
    assert_eq!(end["verification"]["integrity"]["changed"][0]["path"], "tests/test_more.py", "{end:#}");
}
