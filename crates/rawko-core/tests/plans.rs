//! The plan through a whole session: finished steps stay when an agent plans again, fails or is cancelled.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod session_bench;

use rawko_core::ErrorCode;
use rawko_core::agent::control_tools;
use rawko_core::arbiter::DECIDE;
use rawko_core::machine::State;
use rawko_core::message::Role;
use rawko_core::session::{EffectAnswer, Event, Note, Override};
use rawko_core::tool::ToolOutcome;
use serde_json::json;
use session_bench::{Bench, call, plan, report, setup};

/// The machine's plan: text, status and agent of each step.
fn steps(bench: &Bench) -> Vec<String> {
    let plan = bench.session.context().unwrap().plan.as_ref().expect("a plan");
    let one = |step: &rawko_core::machine::PlanStep| {
        let status = serde_json::to_value(step.status).unwrap();
        let by = step.agent_used.as_deref().unwrap_or("-");
        format!("{} {} {by}", step.description, status.as_str().unwrap())
    };
    plan.steps.iter().map(one).collect()
}

/// The planner has made a plan of three steps, and the developer does the first.
fn first_step_done() -> Bench {
    let mut bench = Bench::start(setup(None));
    bench.select("planner");
    bench.reply(vec![
        plan(&[("one", "pending"), ("two", "pending"), ("three", "pending")]),
        report("success"),
    ]);
    bench.select("developer");
    assert!(bench.text().contains("The next step: 1. one"), "{}", bench.text());
    bench.reply(vec![plan(&[("one", "complete"), ("two", "in_progress"), ("three", "pending")])]);
    bench
}

#[test]
fn the_step_at_hand_is_named_beside_the_whole_plan() {
    let mut bench = first_step_done();
    let text = bench.text();
    assert!(text.contains("1. [complete] one (developer)") && text.contains("3. [pending] three"), "{text}");
    bench.reply(vec![report("success")]);
    bench.reply(vec![call("d", DECIDE, json!({"decision": "CONTINUE", "reason": "two is next"}))]);
    let text = bench.text();
    assert!(text.contains("The next step: 2. two"), "{text}");
    assert!(text.matches("1. [complete] one (developer)").count() >= 2, "the whole plan again: {text}");
    bench.reply(vec![
        plan(&[("one", "complete"), ("two", "complete"), ("three", "complete")]),
        report("success"),
    ]);
    bench.select("tester");
    assert!(!bench.text().contains("The next step:"), "nothing is left to do");
    bench.check_fold();
}

#[test]
fn planning_anew_keeps_finished_steps() {
    let mut bench = first_step_done();
    bench.reply(vec![report("success")]);
    bench.select("planner");
    bench.reply(vec![plan(&[("four", "pending"), ("TWO", "pending")])]);
    let text = bench.text();
    assert!(text.contains("Kept, because they are finished: 1"), "{text}");
    bench.reply(vec![report("success")]);
    assert_eq!(steps(&bench), ["one complete developer", "four pending -", "TWO pending -"]);
    bench.select("tester");
    bench.reply(vec![plan(&[("one", "failed"), ("four", "pending"), ("two", "pending")])]);
    assert!(bench.text().contains("Open again, although they were finished: 1"), "{}", bench.text());
    bench.reply(vec![report("failure")]);
    assert_eq!(steps(&bench), ["one failed tester", "four pending -", "two pending -"]);
    bench.check_fold();
}

#[test]
fn a_list_that_cannot_be_taken_changes_nothing() {
    let mut bench = first_step_done();
    bench.reply(vec![plan(&[("two", "complete"), ("Two ", "pending")])]);
    let text = bench.text();
    assert!(text.contains("UpdatePlan: listed twice: step 2 (Two)"), "{text}");
    bench.reply(vec![report("success")]);
    assert_eq!(steps(&bench), ["one complete developer", "two in_progress developer", "three pending -"]);
}

#[test]
fn a_status_is_changed_by_number_alone() {
    let mut bench = first_step_done();
    let change = |steps: serde_json::Value| vec![call("p", "UpdatePlan", json!({ "steps": steps }))];
    bench.reply(change(json!([{"index": 2, "status": "complete"}, {"index": 3, "status": "in_progress"}])));
    let text = bench.text();
    assert!(text.contains("2. [complete] two (developer)"), "{text}");
    assert!(text.contains("3. [in progress] three (developer) <- current"), "{text}");
    bench.reply(change(json!([{"index": 4, "status": "complete"}])));
    let text = bench.text();
    assert!(text.contains("UpdatePlan: there is no step 4; the plan has the steps 1 to 3"), "{text}");
    bench.reply(vec![report("success")]);
    assert_eq!(
        steps(&bench),
        ["one complete developer", "two complete developer", "three in_progress developer"]
    );
    bench.check_fold();
}

#[test]
fn skipping_counts_for_what_the_agent_at_work_has_drafted() {
    let mut bench = first_step_done();
    bench.give(Event::OverrideRequested { command: Override::SkipStep, request: None });
    assert_eq!(bench.session.state(), State::Selecting);
    let text = bench.text();
    assert!(text.contains("1. [complete] one (developer)"), "the arbiter is shown the draft: {text}");
    assert!(text.contains("2. [skipped] two") && text.contains("3. [pending] three <- current"), "{text}");
    bench.select("developer");
    assert!(bench.text().contains("The next step: 3. three"), "{}", bench.text());
    bench.reply(vec![report("success")]);
    assert_eq!(steps(&bench), ["one complete developer", "two skipped developer", "three pending -"]);
    // During an evaluation, the machine's plan counts.
    bench.give(Event::OverrideRequested { command: Override::SkipStep, request: None });
    bench.select("developer");
    bench.reply(vec![report("success")]);
    assert_eq!(
        steps(&bench),
        ["one complete developer", "two skipped developer", "three skipped -"],
        "what a finished execution had drafted does not come back"
    );
    bench.check_fold();
}

#[test]
fn whatever_ends_an_execution_its_plan_stays() {
    let force = || Event::OverrideRequested {
        command: Override::ForceAgent { agent: "tester".into() },
        request: None,
    };
    let retry = || Event::OverrideRequested { command: Override::Retry, request: None };
    for (what, ends) in
        [("forced", vec![force()]), ("again", vec![retry()]), ("twice", vec![force(), retry()])]
    {
        let mut bench = first_step_done();
        for end in ends {
            bench.give(end);
        }
        assert!(bench.text().contains("1. [complete] one (developer)"), "{what}: {}", bench.text());
        bench.reply(vec![report("success")]);
        assert_eq!(steps(&bench)[0], "one complete developer", "{what}");
        bench.check_fold();
    }
    let mut bench = first_step_done();
    bench.fail(ErrorCode::NetworkError);
    let timer = bench.open.iter().find_map(rawko_core::session::Effect::awaits_answer).unwrap();
    bench.open.clear();
    bench.give(Event::Answered { effect: timer, answer: EffectAnswer::TimerFired });
    assert!(bench.text().contains("1. [complete] one (developer)"), "the arbiter: {}", bench.text());
    bench.select("developer");
    assert!(bench.text().contains("The next step: 2. two"), "{}", bench.text());
}

#[test]
fn a_report_beside_a_call_that_failed_does_not_count() {
    let failed = |code: Option<i32>, is_error: bool| ToolOutcome {
        is_error,
        exit_code: code,
        ..ToolOutcome::ok("it says")
    };
    let bash = || call("b", "Bash", json!({"command": "make test"}));
    for (outcome, words) in [
        (failed(Some(2), true), "Bash (exit 2)"),
        (failed(Some(1), false), "Bash (exit 1)"),
        (failed(None, true), "Bash (failed)"),
    ] {
        let mut bench = first_step_done();
        bench.reply(vec![bash(), report("success")]);
        bench.finish_tools(&outcome);
        assert_eq!(bench.session.state(), State::Executing, "{words}");
        let (_, request) = bench.asked();
        let last = request.messages.last().unwrap();
        let answer = format!("{:?}", last.content);
        assert!(answer.contains("does not count") && answer.contains(words), "{answer}");
        let answers = |note: &&Note| matches!(note, Note::ToolFinished { tool, .. } if tool == "Report");
        assert_eq!(bench.notes.iter().filter(answers).count(), 2, "the planner's and this one, each once");
        bench.reply(vec![report("success")]);
        assert_eq!(bench.session.state(), State::Evaluating);
        bench.check_fold();
    }
}

#[test]
fn a_report_beside_a_denied_call_does_not_count() {
    let mut bench = first_step_done();
    bench.reply(vec![call("w", "Write", json!({})), report("success")]);
    assert_eq!(bench.session.state(), State::Executing);
    assert!(bench.text().contains("does not count"), "{}", bench.text());
    assert_eq!(bench.asked().1.messages.last().unwrap().role, Role::User);
}

#[test]
fn a_report_of_failure_and_one_beside_what_went_well_count() {
    for (outcome, result) in
        [("failure", ToolOutcome::error(ErrorCode::ToolFailure, "no")), ("success", ToolOutcome::ok("yes"))]
    {
        let mut bench = first_step_done();
        bench.reply(vec![call("b", "Bash", json!({"command": "make"})), report(outcome)]);
        bench.finish_tools(&result);
        assert_eq!(bench.session.state(), State::Evaluating, "{outcome}");
    }
    // An invalid plan is not a failed call.
    let mut bench = first_step_done();
    bench.reply(vec![plan(&[("a", "pending"), ("a", "pending")]), report("success")]);
    assert_eq!(bench.session.state(), State::Evaluating);
}

#[test]
fn the_tools_say_what_stays() {
    let update = control_tools().into_iter().find(|tool| tool.name == "UpdatePlan").unwrap();
    assert!(update.description.contains("stays, also where you leave it out"), "{}", update.description);
    let step = &update.input_schema["$defs"]["StepInput"];
    assert!(step["properties"]["index"].is_object() && step["required"].is_null(), "{}", update.input_schema);
}
