//! A COMPLETE against the record, verdicts, and the error that a report of failure leaves
//! (`docs/arbiter.md#what-the-decision-rests-on`; `docs/machine.md#transitions`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod session_support;

use rawko_core::ErrorCode;
use rawko_core::agent::AgentRole;
use rawko_core::message::StopReason;
use rawko_core::session::{Effect, Status};
use rawko_core::setup::{ArbiterMode, Setup};
use rawko_core::tool::ToolOutcome;
use serde_json::{Value, json};
use session_support::{Bench, agent, call, setup};

/// A developer and a reviewer.
fn team(mode: ArbiterMode) -> Setup {
    let mut setup = setup();
    let (name, mut reviewer) = agent("reviewer", 6);
    reviewer.config.role = Some(AgentRole::Review);
    reviewer.config.tools.blocked = vec!["Write".into()];
    setup.agents.insert(name, reviewer);
    setup.agents.get_mut("developer").unwrap().config.role = Some(AgentRole::Implement);
    setup.arbiter.mode = mode;
    setup
}

fn complete() -> Value {
    json!({"decision": "COMPLETE", "summary": "all done"})
}

/// The agent's one tool call, with its outcome.
fn tool(bench: &mut Bench, name: &str, input: Value, outcome: ToolOutcome) {
    bench.reply(vec![call("c", name, input)], StopReason::ToolUse);
    let (effect, _) = bench.running().remove(0);
    bench.finish_tool(effect, outcome);
}

fn bash(bench: &mut Bench, command: &str, code: i32, output: &str) {
    let outcome = ToolOutcome { exit_code: Some(code), is_error: code != 0, ..ToolOutcome::ok(output) };
    tool(bench, "Bash", json!({"command": command}), outcome);
}

fn write(bench: &mut Bench, path: &str) {
    let outcome = ToolOutcome { files_modified: vec![path.into()], ..ToolOutcome::ok("written") };
    tool(bench, "Write", json!({"file_path": path, "content": "x"}), outcome);
}

fn verdict(bench: &mut Bench, input: Value) {
    bench.reply(vec![call("r", "Report", input)], StopReason::ToolUse);
}

fn context(bench: &Bench) -> &rawko_core::machine::Context {
    bench.session.context().unwrap()
}

#[test]
fn a_red_check_stands_against_complete_until_it_is_green() {
    let mut bench = Bench::start(team(ArbiterMode::Llm));
    bench.select("developer");
    write(&mut bench, "a.py");
    bash(&mut bench, "pytest -q", 1, "1 failed");
    bench.report("success");
    bench.decide(complete());
    assert!(bench.outcome.is_none());
    let error = &context(&bench).last_error.as_ref().unwrap().error;
    assert_eq!((error.tool.as_deref(), error.exit_code()), (Some("record"), Some(1)));
    assert_eq!(error.message, "The task is not done: the last check was red: `pytest -q` exited with 1.");
    assert_eq!(context(&bench).consecutive_failures, 1);
    assert!(bench.asked().contains("the last check was red"), "{}", bench.asked());
    bench.select("developer");
    write(&mut bench, "b.py");
    bash(&mut bench, "pytest -q", 0, "1 passed");
    bench.report("success");
    bench.decide(complete());
    assert_eq!(bench.outcome.unwrap().status, Status::Claimed);
}

#[test]
fn a_red_check_to_the_end_fails_the_run_and_is_named() {
    let mut bench = Bench::start(team(ArbiterMode::Llm));
    bench.select("developer");
    write(&mut bench, "a.py");
    bash(&mut bench, "pytest -q", 1, "1 failed");
    bench.report("success");
    for _ in 0..3 {
        bench.decide(complete());
    }
    let outcome = bench.outcome.unwrap();
    assert_eq!(outcome.status, Status::Failed);
    assert!(
        outcome.summary.contains("The last check was red: `pytest -q` exited with 1."),
        "{}",
        outcome.summary
    );
    assert_eq!(outcome.agent_summary.as_deref(), Some("success it was"));
}

#[test]
fn a_check_that_was_red_before_the_last_change_is_in_the_summary() {
    let mut bench = Bench::start(team(ArbiterMode::Llm));
    bench.select("developer");
    write(&mut bench, "a.py");
    bash(&mut bench, "pytest -q", 1, "1 failed");
    write(&mut bench, "b.py");
    bench.report("success");
    bench.decide(complete());
    let outcome = bench.outcome.unwrap();
    assert_eq!(outcome.status, Status::Claimed);
    let words = "The last check was red: `pytest -q` exited with 1; files were written since, and no check has passed";
    assert!(outcome.summary.contains(words), "{}", outcome.summary);
}

#[test]
fn a_rejection_that_was_not_judged_again_is_named_in_the_summary() {
    let mut bench = Bench::start(team(ArbiterMode::Llm));
    bench.select("developer");
    write(&mut bench, "a.py");
    bench.report("success");
    bench.select("reviewer");
    verdict(
        &mut bench,
        json!({"verdict": "rejected", "summary": "no", "findings": [{"text": "it loses data"}]}),
    );
    bench.select("developer");
    write(&mut bench, "NOTES.txt");
    bench.report("success");
    bench.decide(complete());
    let outcome = bench.outcome.unwrap();
    let words = "reviewer rejected the work; it was changed since, and reviewer did not judge it again.";
    assert!(outcome.summary.contains(words), "{}", outcome.summary);
}

/// A pass of the same command on the same tree may be luck.
#[test]
fn a_verification_command_that_an_agent_saw_fail_is_marked() {
    for (command, expected) in [("pytest -q", true), ("pytest tests", false)] {
        let mut setup = team(ArbiterMode::Llm);
        setup.verify =
            serde_json::from_value(json!({"commands": ["pytest -q"], "timeoutMs": 1_000})).unwrap();
        let mut bench = Bench::start(setup);
        bench.select("developer");
        write(&mut bench, "a.py");
        bash(&mut bench, command, 1, "1 failed");
        bench.report("success");
        let seen = bench.open.iter().find_map(|effect| match effect {
            Effect::Verify { seen_red, .. } => Some(*seen_red),
            _ => None,
        });
        assert_eq!(seen, Some(expected), "{command}");
    }
}

#[track_caller]
fn check_rejection(mode: ArbiterMode) {
    let mut bench = Bench::start(team(mode));
    let asks = mode == ArbiterMode::Llm;
    if asks {
        bench.select("developer");
    }
    write(&mut bench, "a.py");
    bash(&mut bench, "pytest -q", 0, "1 passed");
    bench.report("success");
    if asks {
        bench.select("reviewer");
    }
    assert!(bench.asked().contains("You are reviewer."), "{mode:?}");
    verdict(
        &mut bench,
        json!({"verdict": "rejected", "summary": "no", "findings": [{"severity": "blocking", "file": "a.py:1", "text": "it loses data"}]}),
    );
    assert_eq!(context(&bench).consecutive_failures, 0, "the review itself was done");
    if asks {
        assert!(bench.asked().contains("Verdict: rejected"), "{}", bench.asked());
        bench.decide(complete());
        assert!(bench.outcome.is_none());
        assert!(bench.asked().contains("reviewer rejected the work"), "{}", bench.asked());
        bench.select("developer");
    }
    assert!(bench.asked().contains("You are developer."), "{mode:?}");
    assert!(bench.asked().contains("blocking: a.py:1: it loses data"), "{}", bench.asked());
}

#[test]
fn a_rejection_goes_back_with_its_findings_in_every_mode() {
    check_rejection(ArbiterMode::Llm);
    check_rejection(ArbiterMode::Rules);
}

#[test]
fn the_last_report_is_handed_over_whole_and_older_ones_in_short() {
    let mut bench = Bench::start(team(ArbiterMode::Llm));
    let report = |start: &str, length: usize| format!("{start}{} the end", "ö".repeat(length));
    let claim = |summary: String| json!({"outcome": "success", "summary": summary});
    bench.select("developer");
    verdict(&mut bench, claim(report("first", 1_000)));
    bench.select("developer");
    assert!(bench.asked().contains("the end"), "{}", bench.asked());
    verdict(&mut bench, claim(report("second", 2_500)));
    bench.select("reviewer");
    let asked = bench.asked();
    assert!(asked.contains(&format!("first{}...", "ö".repeat(295))), "{asked}");
    assert!(asked.contains(&format!("second{}...", "ö".repeat(1_994))), "{asked}");
    assert!(asked.contains("[514 more characters are cut]") && !asked.contains("the end"), "{asked}");
    let findings: Vec<Value> = (1..=7).map(|n| json!({"text": format!("finding {n}.")})).collect();
    verdict(&mut bench, json!({"verdict": "rejected", "summary": "no", "findings": findings}));
    let reason = "r".repeat(1_900);
    bench.decide(json!({"decision": "SELECT_MODE", "mode": "developer", "reason": reason}));
    let asked = bench.asked();
    assert!(asked.contains("finding 7.") && asked.contains(&reason), "{asked}");
    assert!(!asked.contains("more characters are cut"), "{asked}");
}

#[test]
fn a_report_of_success_with_a_rejection_is_refused() {
    let mut bench = Bench::start(team(ArbiterMode::Llm));
    bench.select("reviewer");
    verdict(&mut bench, json!({"outcome": "success", "verdict": "rejected", "summary": "s"}));
    assert!(bench.asked().contains("contradicts the verdict `rejected`"), "{}", bench.asked());
    verdict(&mut bench, json!({"verdict": "blocked", "summary": "no git"}));
    let error = &context(&bench).last_error.as_ref().unwrap().error;
    assert_eq!((error.code, context(&bench).consecutive_failures), (ErrorCode::ValidationError, 1));
}

/// What a failed execution leaves as the last error: code, tool, command, exit status, message, attempts.
#[track_caller]
fn check_failure(work: impl Fn(&mut Bench), expected: Value) {
    let mut bench = Bench::start(team(ArbiterMode::Llm));
    bench.select("developer");
    work(&mut bench);
    bench.report("failure");
    let last = context(&bench).history.last().unwrap();
    assert_eq!(last.error, context(&bench).last_error.as_ref().map(|failure| failure.error.clone()));
    assert_eq!(serde_json::to_value(&last.error).unwrap(), expected);
}

#[test]
fn a_report_of_failure_leaves_what_failed() {
    check_failure(
        |bench| bash(bench, "npm install jsonwebtoken", 1, "npm ERR! network"),
        json!({"code": "tool_failure", "tool": "Bash", "work": {"command": "npm install jsonwebtoken", "exitCode": 1, "attempts": 1},
            "message": "Command failed with exit code 1\nnpm ERR! network"}),
    );
    check_failure(
        |bench| {
            bash(bench, "make test", 2, "red");
            tool(bench, "Read", json!({}), ToolOutcome::error(ErrorCode::ToolFailure, "no such file"));
        },
        json!({"code": "tool_failure", "tool": "Bash", "work": {"command": "make test", "exitCode": 2, "attempts": 1},
            "message": "Command failed with exit code 2"}),
    );
    check_failure(
        |bench| {
            bench.reply(vec![call("c", "WebFetch", json!({}))], StopReason::ToolUse);
        },
        json!({"code": "permission_error", "tool": "WebFetch", "work": {"attempts": 1},
            "message": "There is no tool `WebFetch`. Call one of the tools that this conversation offers."}),
    );
    check_failure(
        |bench| {
            bench.reply(vec![call("c", "UpdatePlan", json!({"steps": []}))], StopReason::ToolUse);
        },
        json!({"code": "validation_error", "tool": "UpdatePlan", "work": {"attempts": 1},
            "message": "UpdatePlan: `steps` is empty; give the whole plan, one step at least"}),
    );
    check_failure(
        |bench| {
            bash(bench, "grep x y", 1, "");
            bash(bench, "ls", 0, "y");
        },
        json!({"code": "unknown", "work": {"attempts": 1}, "message": "failure it was"}),
    );
}

/// SPEC-0006, Example 2, from a run.
#[test]
fn the_arbiter_is_shown_the_failure_as_in_the_specifications_example() {
    let mut bench = Bench::start(team(ArbiterMode::Llm));
    bench.select("developer");
    let steps = json!([{"description": "Create middleware", "status": "complete"}, {"description": "Login endpoint", "status": "in_progress"}]);
    bench.reply(vec![call("p", "UpdatePlan", json!({"steps": steps}))], StopReason::ToolUse);
    bash(&mut bench, "npm install jsonwebtoken", 1, "Cannot find module 'jsonwebtoken'");
    bench.report("failure");
    bench.decide(json!({"decision": "RETRY", "reason": "again"}));
    let input =
        serde_json::to_value(bench.session.arbiter_question(rawko_core::session::DecisionPoint::Select).map(
            |question| match question {
                rawko_core::arbiter::ArbiterQuestion::Select(input) => input,
                other => panic!("{other:?}"),
            },
        ))
        .unwrap();
    let error = &input["lastError"];
    assert_eq!(
        (&error["agent"], &error["tool"], &error["planStep"], &error["attempted"], &error["category"]),
        (
            &json!("developer"),
            &json!("Bash"),
            &json!(2),
            &json!("npm install jsonwebtoken"),
            &json!("tool_failure")
        )
    );
    assert_eq!((&error["exitCode"], &error["attempts"]), (&json!(1), &json!(1)));
    assert_eq!(error["message"], "Command failed with exit code 1\nCannot find module 'jsonwebtoken'");
    let actions: Vec<&Value> =
        error["recoveryOptions"].as_array().unwrap().iter().map(|option| &option["action"]).collect();
    assert_eq!(actions, ["retry", "skip", "fallback"]);
    let entry = &input["history"][0];
    assert_eq!((&entry["status"], &entry["error"]["category"]), (&json!("failure"), &json!("tool_failure")));
    assert_eq!(
        (&entry["error"]["command"], &entry["error"]["exitCode"]),
        (&json!("npm install jsonwebtoken"), &json!(1))
    );
    assert_eq!(input["constraints"]["consecutiveFailures"], 1);
}

#[test]
fn a_run_that_fails_says_what_failed_and_how_often_it_was_tried() {
    let mut bench = Bench::start(team(ArbiterMode::Llm));
    bench.select("developer");
    for attempt in 0..3 {
        bash(&mut bench, "make", 2, "no rule to make target");
        bench.report("failure");
        if attempt < 2 {
            bench.decide(json!({"decision": "RETRY", "reason": "again"}));
            bench.select("developer");
        }
    }
    let outcome = bench.outcome.unwrap();
    assert_eq!(outcome.status, Status::Failed);
    assert_eq!(
        outcome.summary,
        "Failed after 3 failures in a row: Command failed with exit code 2\nno rule to make target. \
         developer was tried 3 times in a row."
    );
    assert_eq!(outcome.error.unwrap().attempts(), Some(3));
}
