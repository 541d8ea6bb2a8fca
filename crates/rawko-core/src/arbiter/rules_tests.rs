//! What the rules decide, situation by situation.

use serde_json::{Value, json};

use super::case::{Ruling, role_of_step};
use super::input::ExecutionSummary;
use super::rules::{rule_on_progress, rule_on_selection};
use super::situation::Label;
use super::testing::{InputBuilder, builtin, execution};
use crate::agent::AgentRole;

fn wrote(agent: &str, iteration: u32, other: Value) -> ExecutionSummary {
    let mut whole = json!({"iteration": iteration, "output": {"summary": "s", "filesModified": ["a.rs"]}});
    whole.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    execution(agent, whole)
}

fn ran(code: i32) -> Value {
    json!({"facts": {"turns": 1, "commands": [{"command": "cargo test", "exitCode": code, "isCheck": true}]}})
}

fn did(agent: &str, iteration: u32, other: Value) -> ExecutionSummary {
    let mut whole = json!({"iteration": iteration, "output": {"summary": "s"}});
    whole.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    execution(agent, whole)
}

/// A report with that verdict.
fn judged(agent: &str, iteration: u32, verdict: &str) -> ExecutionSummary {
    let findings = json!([{"text": "it leaks", "file": "a.rs:3"}]);
    did(agent, iteration, json!({"facts": {"turns": 1, "verdict": verdict, "findings": findings}}))
}

#[track_caller]
fn check_ruling(ruling: Option<Ruling>, expected: &str) {
    let got = ruling.map_or_else(
        || "no rule".to_owned(),
        |Ruling { decision, rule, certain }| {
            format!("{rule}: {}{}", Label::of(&decision), if certain { "" } else { "?" })
        },
    );
    assert_eq!(got, expected);
}

#[track_caller]
fn check(scene: InputBuilder, history: Vec<ExecutionSummary>, expected: &str) {
    check_ruling(rule_on_progress(&scene.history(history).evaluate(), &builtin()), expected);
}

#[track_caller]
fn check_select(scene: InputBuilder, history: Vec<ExecutionSummary>, expected: &str) {
    check_ruling(rule_on_selection(&scene.history(history).select()), expected);
}

fn done() -> InputBuilder {
    InputBuilder::default().plan(&["complete"])
}

fn open() -> InputBuilder {
    InputBuilder::default().plan(&["complete", "pending"])
}

#[test]
fn the_record_decides_not_the_claim() {
    let dev = || wrote("developer", 1, json!({}));
    check(done(), vec![dev()], "changed-not-tested: SELECT_MODE tester");
    check(done(), vec![wrote("developer", 1, ran(101))], "checks-failed: CONTINUE");
    check(done(), vec![dev(), did("tester", 2, ran(0))], "tested-not-reviewed: SELECT_MODE reviewer");
    check(done(), vec![dev(), did("tester", 2, ran(1))], "checks-failed: SELECT_MODE developer");
    check(done(), vec![dev(), did("tester", 2, json!({}))], "tested-nothing: CONTINUE");
    check(
        done(),
        vec![dev(), did("tester", 2, ran(0)), judged("reviewer", 3, "approved")],
        "tested-and-reviewed: COMPLETE",
    );
    check(done(), vec![dev(), did("reviewer", 2, json!({}))], "reviewed-not-tested: SELECT_MODE tester");
    check(
        open(),
        vec![dev(), did("tester", 2, ran(0)), did("reviewer", 3, json!({}))],
        "steps-open: SELECT_MODE developer",
    );
    check(open(), vec![did("planner", 1, json!({}))], "plan-made: SELECT_MODE developer");
}

#[test]
fn an_unknown_failure_leaves_a_completion_in_doubt() {
    let reviewer = |code: i32| {
        let command = json!({"command": "./demo", "exitCode": code, "effect": "unknown"});
        did("reviewer", 3, json!({"facts": {"turns": 1, "verdict": "approved", "commands": [command]}}))
    };
    let history =
        |code: i32| vec![wrote("developer", 1, json!({})), did("tester", 2, ran(0)), reviewer(code)];
    check(done(), history(0), "tested-and-reviewed: COMPLETE");
    check(done(), history(1), "tested-and-reviewed: COMPLETE?");
}

#[test]
fn verdicts_decide_and_not_words() {
    let dev = |n| wrote("developer", n, ran(0));
    check(done(), vec![dev(1), judged("reviewer", 2, "rejected")], "rejected: SELECT_MODE developer");
    check(done(), vec![dev(1), judged("tester", 2, "rejected")], "rejected: SELECT_MODE developer");
    let blocked = ExecutionSummary {
        status: crate::machine::ExecutionStatus::Failure,
        ..judged("tester", 2, "blocked")
    };
    check(done(), vec![dev(1), blocked], "blocked: SELECT_MODE planner?");
    let again = |n| [dev(n), judged("reviewer", n + 1, "rejected")];
    check(done(), [again(1), again(3), again(5)].concat(), "rejected-again: SELECT_MODE planner?");
    // A reviewer that rejects in prose has given no verdict: it is asked for one, and nothing is certain.
    let prose = |n| {
        did(
            "reviewer",
            n,
            json!({"output": {"summary": "I reject this."}, "facts": {"ended": "end_turn", "turns": 1}}),
        )
    };
    check(done(), vec![dev(1), prose(2)], "no-verdict: CONTINUE");
    check(done(), vec![dev(1), prose(2), prose(3)], "tested-and-reviewed: COMPLETE?");
    let reason = rule_on_progress(
        &done().history(vec![dev(1), judged("reviewer", 2, "rejected")]).evaluate(),
        &builtin(),
    );
    assert!(reason.unwrap().decision.reason().contains("a.rs:3: it leaks"));
}

#[test]
fn no_agent_continues_for_ever() {
    let red = |n| wrote("developer", n, ran(101));
    check(done(), vec![red(1), red(2)], "checks-failed: CONTINUE");
    check(done(), vec![red(1), red(2), red(3)], "checks-fail-on: SELECT_MODE planner?");
    let failed = |n| did("developer", n, json!({"status": "failure"}));
    check(open(), vec![failed(1)], "cannot-be-done-so: SELECT_MODE planner");
    check(open(), vec![failed(1), failed(2), failed(3)], "in-circles: SELECT_MODE planner");
    let idle = |n| did("tester", n, json!({}));
    check(
        done(),
        vec![wrote("developer", 1, json!({})), idle(2), idle(3)],
        "tested-not-reviewed: SELECT_MODE reviewer?",
    );
    let reviewer = did("reviewer", 3, json!({}));
    check(done(), vec![wrote("developer", 1, json!({})), idle(2), reviewer], "reviewed-and-last: COMPLETE?");
    // A plan whose steps no agent marks as complete.
    check(
        open(),
        vec![wrote("developer", 1, json!({})), did("developer", 2, json!({}))],
        "changed-not-tested: SELECT_MODE tester?",
    );
    let repetition = json!({"facts": {"repetition": {"what": "x", "times": 3, "changeAt": 5, "stopAt": 7}}});
    check(done().with(repetition), vec![did("reviewer", 1, json!({}))], "in-circles: SELECT_MODE planner");
}

#[test]
fn a_fresh_verification_decides() {
    let verification = |passed: bool| json!({"facts": {"verification": {"passed": passed, "isStale": false, "commands": []}}});
    let history = || vec![wrote("developer", 1, json!({})), judged("reviewer", 2, "approved")];
    check(done().with(verification(true)), history(), "tested-and-reviewed: COMPLETE");
    check(done().with(verification(false)), history(), "checks-failed: SELECT_MODE developer");
}

/// rawko runs the checks, and they ended like this.
fn checked(standing: &str, proof: Option<&str>) -> Value {
    let run = |code: i32| json!({"command": "make test", "exitCode": code, "output": "", "durationMs": 1});
    let passed = standing == "passed";
    let verification = json!({"passed": passed, "isStale": false, "standing": standing, "proof": proof,
        "commands": [run(i32::from(!passed))]});
    json!({"facts": {"checks": ["make test"], "verification": verification}})
}

#[test]
fn checks_that_rawko_ran_decide() {
    let dev = || wrote("developer", 1, json!({"facts": {"turns": 1, "ended": "reported"}}));
    let proven = || done().with(checked("passed", Some("task")));
    check(proven(), vec![dev()], "checks-passed: COMPLETE");
    check(open().with(checked("passed", Some("task"))), vec![dev()], "next-step: CONTINUE");
    check(proven(), vec![dev(), judged("reviewer", 2, "rejected")], "rejected: SELECT_MODE developer");
    // An agent of another runner's red check is none of rawko's.
    check(proven(), vec![wrote("developer", 1, ran(101))], "changed-not-tested: SELECT_MODE tester");
    let regression = || done().with(checked("passed", Some("regression")));
    check(regression(), vec![dev()], "checked-not-reviewed: SELECT_MODE reviewer");
    let approved = ExecutionSummary {
        facts: execution(
            "reviewer",
            json!({"facts": {"turns": 1, "ended": "reported", "verdict": "approved"}}),
        )
        .facts,
        ..judged("reviewer", 2, "approved")
    };
    check(regression(), vec![dev(), approved], "checks-passed: COMPLETE");
    check(done().with(checked("failed", None)), vec![dev()], "checks-failed: CONTINUE");
    check(done().with(checked("red_before", None)), vec![dev()], "red-as-before: CONTINUE?");
    check(
        done().with(checked("unavailable", None)),
        vec![dev()],
        "checks-say-nothing: SELECT_MODE reviewer?",
    );
    // What passed and is in doubt is for the others to judge.
    check(done().with(checked("passed", None)), vec![dev()], "changed-not-tested: SELECT_MODE tester");
}

#[test]
fn an_author_who_names_more_work_is_followed() {
    let mut team = builtin();
    team.iter_mut().find(|agent| agent.name == "developer").unwrap().transitions.on_success =
        Some("planner".into());
    let dev = wrote("developer", 1, json!({"facts": {"turns": 1, "ended": "reported"}}));
    let input = done().with(checked("passed", Some("task"))).history(vec![dev]).evaluate();
    check_ruling(rule_on_progress(&input, &team), "changed-not-tested: SELECT_MODE planner");
}

#[test]
fn a_task_with_checks_begins_with_the_developer() {
    let first = |task: &str, checks: Value| {
        let scene = InputBuilder::default().with(json!({"task": task, "facts": {"checks": checks}}));
        let ruling = rule_on_selection(&scene.history(vec![]).select());
        ruling.map(|ruling| (Label::of(&ruling.decision).to_string(), ruling.certain)).unwrap()
    };
    let developer = ("SELECT_MODE developer".to_owned(), true);
    assert_eq!(first("Fix the date parser", json!(["cargo test"])), developer);
    for (task, checks) in [
        ("Fix the date parser", json!([])),
        ("Plan how to fix the date parser", json!(["cargo test"])),
        ("What does the date parser do?", json!(["cargo test"])),
        ("Do not change anything: explain the parser", json!(["cargo test"])),
        ("Do these:\n- a\n- b\n- c\n- d", json!(["cargo test"])),
    ] {
        assert_ne!(first(task, checks), developer, "{task}");
    }
}

#[test]
fn the_last_iteration_ends_with_what_is_proven() {
    let last = || done().with(json!({"constraints": {"iterationsRemaining": 0}}));
    check(last(), vec![wrote("developer", 1, ran(0))], "proven-at-the-last-iteration: COMPLETE");
    check(last(), vec![wrote("developer", 1, ran(1))], "checks-failed: CONTINUE");
    check(last(), vec![wrote("developer", 1, json!({}))], "changed-not-tested: SELECT_MODE tester");
}

fn error(category: &str, tool: Option<&str>, options: &[&str]) -> Value {
    let options: Vec<Value> =
        options.iter().map(|action| json!({"action": action, "description": "", "reason": ""})).collect();
    json!({"lastError": {"category": category, "tool": tool, "recoveryOptions": options}})
}

#[test]
fn errors_are_handled_by_their_category() {
    let met = |category: &str, tool: Option<&str>, options: &[&str]| {
        open().error("tester", "it failed").with(error(category, tool, options))
    };
    let history = || vec![did("tester", 1, json!({"status": "failure"}))];
    check_select(met("provider_error", None, &["retry"]), history(), "provider-trouble: RETRY");
    check_select(met("tool_failure", Some("Bash"), &["retry", "skip"]), history(), "tool-failed-once: RETRY");
    check_select(met("validation_error", None, &["retry"]), history(), "malformed-once: RETRY");
    check_select(met("timeout", None, &["retry", "abort"]), history(), "took-too-long: RETRY");
    check_select(met("unknown", None, &["retry", "abort"]), history(), "unknown-error: RETRY?");
    check_select(
        met("permission_error", Some("Bash"), &["skip"]),
        history(),
        "not-allowed: SELECT_MODE planner?",
    );
    check_select(
        met("tool_failure", Some("verify"), &["retry"]),
        history(),
        "verification-failed: SELECT_MODE developer",
    );
    let twice = || {
        vec![did("tester", 1, json!({"status": "failure"})), did("tester", 2, json!({"status": "failure"}))]
    };
    check_select(met("timeout", None, &["retry"]), twice(), "same-error-again: SELECT_MODE planner");
    check_select(met("tool_failure", None, &["retry"]), twice(), "same-error-again: SELECT_MODE planner?");
    let denied = open().error("reviewer", "Write is not among the tools").with(error(
        "permission_error",
        Some("Write"),
        &["skip"],
    ));
    check_select(
        denied,
        vec![did("reviewer", 1, json!({"status": "failure"}))],
        "tool-not-allowed: SELECT_MODE developer",
    );
    // The arbiter's own error says nothing about the work.
    check_select(InputBuilder::default().error("arbiter", "x"), vec![], "beginning: SELECT_MODE planner?");
}

#[test]
fn without_agents_there_is_no_ruling() {
    let alone = InputBuilder::default().with(json!({"availableAgents": []}));
    check_select(alone, vec![], "no rule");
    let input = done().history([wrote("developer", 1, json!({}))]).evaluate();
    check_ruling(rule_on_progress(&input, &[]), "no rule");
}

#[test]
fn the_first_word_of_a_step_names_a_role() {
    for (step, expected) in [
        ("Review the diff", Some(AgentRole::Review)),
        ("Run the test suite", Some(AgentRole::Test)),
        ("Run the migration", None),
        ("Verify that it works", Some(AgentRole::Test)),
        ("Write tests for the parser", None),
        ("", None),
    ] {
        assert_eq!(role_of_step(step), expected, "{step}");
    }
}
