//! The scripted answers of the demo. Only text and decisions are scripted: real tools run every call, and every test result
//! is real.

use rawko::provider::Script;
use rawko_core::ErrorInfo;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::failure::Failure;

/// The task of the demonstration.
pub(crate) const TASK: &str = "The tests of slugify.sh fail. Find out why and fix it.";

/// The answers, each after a delay of `delay_ms`.
pub(crate) fn script(delay_ms: u64) -> Result<Script, Failure> {
    let mut replies = answers();
    for reply in &mut replies {
        if let Value::Object(reply) = reply {
            reply.insert("delayMs".to_owned(), Value::from(delay_ms));
        }
    }
    serde_json::from_value(Value::Array(replies)).map_err(|error| {
        let error = ErrorInfo::new(rawko_core::ErrorCode::ConfigError, error.to_string());
        Failure::new(Exit::Failed, format!("the demonstration's script is broken: {error}"))
    })
}

fn answers() -> Vec<Value> {
    [arbiter(), planner(), developer(), tester(), reviewer()].concat()
}

fn decide(point: &str, decision: Value) -> Value {
    json!({ "for": point, "decision": decision })
}

fn says(agent: &str, text: &str, calls: Value) -> Value {
    json!({ "for": agent, "text": text, "tools": calls })
}

fn call(name: &str, input: Value) -> Value {
    json!([{ "name": name, "input": input }])
}

fn bash(command: &str) -> Value {
    call("Bash", json!({ "command": command }))
}

fn plan(statuses: [&str; 3]) -> Value {
    let steps = [
        "Let slugify.sh join words by single dashes",
        "Cover what was missed by a test",
        "Review the change",
    ];
    let steps: Vec<Value> = steps
        .iter()
        .zip(statuses)
        .map(|(text, status)| json!({ "description": text, "status": status }))
        .collect();
    call("UpdatePlan", json!({ "steps": steps }))
}

fn report(summary: &str, files: Value) -> Value {
    call("Report", json!({ "outcome": "success", "summary": summary, "files": files }))
}

fn approve(summary: &str, files: Value) -> Value {
    call("Report", json!({ "verdict": "approved", "summary": summary, "files": files }))
}

fn arbiter() -> Vec<Value> {
    let next =
        |mode: &str, reason: &str| json!({ "decision": "SELECT_MODE", "mode": mode, "reason": reason });
    vec![
        decide("select", next("planner", "There is no plan yet.")),
        decide("evaluate", next("developer", "The plan stands; its first step is a change of the code.")),
        decide("evaluate", next("tester", "The change is made; now it has to be seen to work.")),
        decide("evaluate", next("reviewer", "All tests pass; another agent should review the change.")),
        decide(
            "evaluate",
            json!({
                "decision": "COMPLETE",
                "reason": "The tests pass and the review found nothing.",
                "summary": "slugify.sh put a dash in the place of every single odd character, so that runs of them \
                            became runs of dashes, and dashes were left at both ends. It now joins words by one dash \
                            and trims the ends. A test for text that is odd from end to end was added; all tests pass.",
            }),
        ),
    ]
}

fn planner() -> Vec<Value> {
    vec![
        says(
            "planner",
            "I look at the script and at what its tests expect.",
            json!([
                { "name": "Read", "input": { "file_path": "slugify.sh" } },
                { "name": "Read", "input": { "file_path": "tests/run.sh" } },
            ]),
        ),
        says(
            "planner",
            "Every character that is no letter or digit becomes a dash of its own: \"Rock & Roll!\" gets three in a \
             row and one at the end. The substitution has to take runs of them, and the ends have to be trimmed.",
            plan(["pending", "pending", "pending"]),
        ),
        says(
            "planner",
            "",
            report(
                "slugify.sh replaces single characters where it should replace runs, and does not trim the ends. The plan \
             has three steps; only slugify.sh and tests/run.sh need to be touched.",
                json!([]),
            ),
        ),
    ]
}

fn developer() -> Vec<Value> {
    vec![
        says("developer", "First I see it fail.", bash("bash tests/run.sh")),
        says(
            "developer",
            "As expected. I read the script once more before I change it.",
            call("Read", json!({ "file_path": "slugify.sh" })),
        ),
        says(
            "developer",
            "One `+` for the runs, and two substitutions for the ends.",
            call(
                "Edit",
                json!({
                    "file_path": "slugify.sh",
                    "old_string": "sed -E 's/[^a-z0-9]/-/g'",
                    "new_string": "sed -E 's/[^a-z0-9]+/-/g; s/^-//; s/-$//'",
                }),
            ),
        ),
        says("developer", "Now the tests again.", bash("bash tests/run.sh")),
        says("developer", "", plan(["complete", "pending", "pending"])),
        says(
            "developer",
            "",
            report(
                "slugify.sh takes runs of odd characters as one and trims the ends. `bash tests/run.sh` failed before the \
             change and exits with 0 after it.",
                json!(["slugify.sh"]),
            ),
        ),
    ]
}

fn tester() -> Vec<Value> {
    vec![
        says(
            "tester",
            "I try what the tests do not cover: text that is odd from end to end.",
            json!([
                { "name": "Bash", "input": { "command": "bash slugify.sh '--C++ & Rust--'" } },
                { "name": "Read", "input": { "file_path": "tests/run.sh" } },
            ]),
        ),
        says(
            "tester",
            "That is right, and worth keeping as a test.",
            call(
                "Edit",
                json!({
                    "file_path": "tests/run.sh",
                    "old_string": "check \"  around  \" \"around\"\n",
                    "new_string": "check \"  around  \" \"around\"\ncheck \"--C++ & Rust--\" \"c-rust\"\n",
                }),
            ),
        ),
        says("tester", "", bash("bash tests/run.sh")),
        says("tester", "", plan(["complete", "complete", "pending"])),
        says(
            "tester",
            "",
            approve(
                "All four cases pass, the new one included: `bash tests/run.sh` exits with 0.",
                json!(["tests/run.sh"]),
            ),
        ),
    ]
}

fn reviewer() -> Vec<Value> {
    vec![
        says("reviewer", "I read the change as a whole.", bash("git diff")),
        says(
            "reviewer",
            "Two small changes, both to the point: the expression says what the comment above it promises, and the new \
             test would have failed before. Nothing else was touched.",
            plan(["complete", "complete", "complete"]),
        ),
        says(
            "reviewer",
            "",
            approve("The change does what the task asks for, and no more. I have no objections.", json!([])),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_one() {
        let script = script(7).unwrap();
        assert_eq!(script.0.len(), answers().len());
        assert!(script.0.iter().all(|reply| reply.delay_ms == 7 && reply.whom.is_some()));
    }
}
