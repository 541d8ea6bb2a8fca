//! Answers of an agent's model that are no work: refusals, silence, and what was cut off.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod session_bench;

use rawko_core::Usage;
use rawko_core::machine::State;
use rawko_core::message::{Content, StopReason, ToolCall};
use serde_json::json;
use session_bench::{Bench, report, setup};

fn developer() -> Bench {
    let mut bench = Bench::start(setup(None));
    bench.select("developer");
    bench
}

fn answer(bench: &mut Bench, content: Vec<Content>, stop: StopReason) {
    bench.answer(content, stop, Usage::default());
}

#[test]
fn a_refusal_ends_the_execution_and_the_arbiter_reads_it() {
    let mut bench = developer();
    answer(&mut bench, vec![Content::text("I will not.")], StopReason::Refusal);
    assert_eq!(bench.session.state(), State::Evaluating);
    let text = bench.text();
    assert!(text.contains("the model declined") && text.contains("I will not."), "{text}");
    // The same without a word.
    let mut bench = developer();
    answer(&mut bench, vec![], StopReason::Refusal);
    assert!(bench.text().contains("The model declined to answer."), "{}", bench.text());
    bench.check_fold();
}

#[test]
fn an_empty_answer_is_asked_about_once() {
    let mut bench = developer();
    answer(&mut bench, vec![], StopReason::EndTurn);
    assert_eq!(bench.session.state(), State::Executing);
    let (_, request) = bench.asked();
    let roles: Vec<_> = request.messages.iter().rev().take(2).map(|message| message.role).collect();
    assert_ne!(roles[0], roles[1], "no two messages of one side follow each other");
    answer(&mut bench, vec![Content::text(" \n")], StopReason::EndTurn);
    assert_eq!(bench.session.state(), State::Evaluating);
    assert!(bench.text().contains("The agent ended without a word."), "{}", bench.text());
    bench.check_fold();
}

#[test]
fn a_call_that_was_written_as_text_is_answered_once_with_how_to_call() {
    let written = || {
        vec![Content::text(
            "<tool_call>{\"name\": \"Read\", \"arguments\": {\"file_path\": \"a\"}}</tool_call>",
        )]
    };
    let mut bench = developer();
    answer(&mut bench, written(), StopReason::EndTurn);
    assert_eq!(bench.session.state(), State::Executing);
    assert!(!bench.open.iter().any(|effect| matches!(effect, rawko_core::session::Effect::RunTool { .. })));
    assert!(
        bench.text().contains("You wrote a call of `Read` as text: nothing was run."),
        "{}",
        bench.text()
    );
    answer(&mut bench, written(), StopReason::EndTurn);
    assert_eq!(bench.session.state(), State::Evaluating);
    bench.check_fold();
    // Words that name a tool are the agent's answer.
    let mut bench = developer();
    answer(&mut bench, vec![Content::text("I used Read.")], StopReason::EndTurn);
    assert_eq!(bench.session.state(), State::Evaluating);
}

#[test]
fn a_text_that_was_cut_off_goes_on() {
    let mut bench = developer();
    answer(&mut bench, vec![Content::text("First I")], StopReason::MaxTokens);
    assert_eq!(bench.session.state(), State::Executing);
    assert!(bench.text().ends_with("Go on from there, in smaller pieces."), "{}", bench.text());
    bench.reply(vec![report("success")]);
    assert_eq!(bench.session.state(), State::Evaluating);
}

/// What the model reads about a call whose arguments end in the middle.
fn answer_to_half_a_call(stop: StopReason) -> String {
    let mut bench = developer();
    let half = ToolCall {
        id: "c".into(),
        name: "Read".into(),
        input: json!({}),
        invalid_input: Some("{\"file_path\": \"a".into()),
        withheld: None,
    };
    answer(&mut bench, vec![Content::ToolUse(half)], stop);
    assert!(!bench.open.iter().any(|effect| matches!(effect, rawko_core::session::Effect::RunTool { .. })));
    bench.check_fold();
    bench.text()
}

#[test]
fn a_call_that_was_cut_off_is_not_run_and_is_to_be_smaller() {
    let cut = answer_to_half_a_call(StopReason::MaxTokens);
    assert!(cut.contains("cut off at the response limit") && cut.contains("in smaller pieces"), "{cut}");
    assert!(cut.contains("What arrived: {\"file_path\": \"a"), "{cut}");
    let broken = answer_to_half_a_call(StopReason::ToolUse);
    assert!(broken.contains("not valid JSON") && !broken.contains("cut off"), "{broken}");
}
