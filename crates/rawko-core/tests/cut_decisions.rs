//! Decisions that the model could not finish, because thinking used up the tokens of its answer.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod session_bench;

use rawko_core::arbiter::DECIDE;
use rawko_core::message::{Content, StopReason};
use rawko_core::request::ModelRequest;
use rawko_core::session::{DecisionRecord, DecisionSource, Note};
use rawko_core::setup::Setup;
use rawko_core::{ErrorCode, Usage};
use serde_json::json;
use session_bench::{Bench, call, setup};

/// An arbiter whose decisions have 1,000 tokens at first, and at most `most`.
fn arbiter(most: Option<u32>) -> Setup {
    let mut setup = setup(None);
    setup.arbiter.most_tokens = most;
    setup
}

fn usage(output_tokens: u64) -> Usage {
    Usage { input_tokens: 500, output_tokens, ..Usage::default() }
}

/// The answer ends before its first word.
#[track_caller]
fn cut(bench: &mut Bench) -> ModelRequest {
    let (_, request) = bench.asked();
    let thinking = Content::Thinking { thinking: "Let me see.".into(), signature: None };
    bench.answer(vec![thinking], StopReason::MaxTokens, usage(request.max_tokens.into()));
    request
}

#[track_caller]
fn decisions(bench: &Bench) -> Vec<&DecisionRecord> {
    let decided = bench.notes.iter().filter_map(|note| match note {
        Note::DecisionMade(record) => Some(&**record),
        _ => None,
    });
    decided.collect()
}

fn warnings(bench: &Bench) -> Vec<&str> {
    let reported = bench.notes.iter().filter_map(|note| match note {
        Note::Warned { message } => Some(message.as_str()),
        _ => None,
    });
    reported.collect()
}

#[test]
fn a_decision_cut_off_by_its_token_limit_is_asked_again_with_more_room() {
    let mut bench = Bench::start(arbiter(Some(16_000)));
    let first = cut(&mut bench);
    let (_, second) = bench.asked();
    assert_eq!((first.max_tokens, second.max_tokens), (1_000, 4_000));
    assert_eq!(second.messages, first.messages, "the same question: the model did nothing wrong");
    cut(&mut bench);
    assert_eq!(bench.asked().1.max_tokens, 16_000);
    bench.select("developer");
    let decision = decisions(&bench)[0];
    assert_eq!(decision.source, DecisionSource::Llm);
    assert_eq!(
        decision.rejected,
        ["cut off by its token limit of 1000", "cut off by its token limit of 4000"]
    );
    assert_eq!((decision.calls.len(), decision.usage.output_tokens), (3, 5_000));
    assert_eq!(
        warnings(&bench),
        [
            "the arbiter's answer was cut off by its token limit of 1000 (arbiter.maxTokens, and room for thinking); asking again with 4000",
            "the arbiter's answer was cut off by its token limit of 4000 (arbiter.maxTokens, and room for thinking); asking again with 16000",
        ]
    );
    bench.check_fold();
}

/// The rules decide, and the reason is reported.
#[track_caller]
fn check_fallback(bench: &Bench, why: &str) {
    assert_eq!(decisions(bench)[0].source, DecisionSource::Fallback);
    let last = warnings(bench).pop().unwrap().to_owned();
    assert!(last.contains(why) && last.contains("the rules decide"), "{last}");
    bench.check_fold();
}

#[test]
fn where_there_is_no_more_room_the_rules_decide_and_name_the_limit() {
    let mut bench = Bench::start(arbiter(Some(3_000)));
    cut(&mut bench);
    assert_eq!(bench.asked().1.max_tokens, 3_000, "never more than the most");
    cut(&mut bench);
    check_fallback(&bench, "cut off by its token limit of 3000");
}

#[test]
fn the_model_may_give_less_than_is_allowed() {
    let mut setup = arbiter(Some(16_000));
    setup.arbiter.model.max_output = Some(2_500);
    let mut bench = Bench::start(setup);
    cut(&mut bench);
    assert_eq!(bench.asked().1.max_tokens, 2_500);
    cut(&mut bench);
    check_fallback(&bench, "cut off by its token limit of 2500");
}

#[test]
fn the_budget_may_allow_less() {
    let mut setup = arbiter(Some(16_000));
    setup.limits.max_tokens = Some(6_000);
    let mut bench = Bench::start(setup);
    let first = cut(&mut bench).max_tokens;
    let (_, second) = bench.asked();
    assert!((first + 1..4_000).contains(&second.max_tokens), "what is left of it: {}", second.max_tokens);
    cut(&mut bench);
    check_fallback(&bench, &format!("cut off by its token limit of {}", second.max_tokens));
}

#[test]
fn a_server_that_refuses_the_larger_limit_leaves_it_to_the_rules() {
    for code in [ErrorCode::InvalidRequest, ErrorCode::ContextLengthExceeded] {
        let mut bench = Bench::start(arbiter(Some(16_000)));
        cut(&mut bench);
        bench.fail(code);
        check_fallback(&bench, "cut off by its token limit of 1000");
    }
}

#[test]
fn a_decision_that_was_whole_before_the_cut_counts() {
    let mut bench = Bench::start(arbiter(Some(16_000)));
    let input = json!({"decision": "SELECT_MODE", "mode": "developer", "reason": "r"});
    bench.answer(vec![call("d", DECIDE, input)], StopReason::MaxTokens, usage(1_000));
    assert_eq!((decisions(&bench)[0].source, warnings(&bench).len()), (DecisionSource::Llm, 0));
}

/// A whole but unusable answer still gets its one repair, however often others were cut off.
#[test]
fn a_cut_is_no_objection() {
    let mut bench = Bench::start(arbiter(Some(16_000)));
    cut(&mut bench);
    bench.reply(vec![Content::text("I would go on.")]);
    assert!(bench.text().contains("That cannot be used"));
    bench.select("developer");
    assert_eq!(decisions(&bench)[0].source, DecisionSource::Llm);
    assert_eq!(decisions(&bench)[0].rejected.len(), 2);
}

#[test]
fn a_lost_question_keeps_its_room() {
    let mut bench = Bench::start(arbiter(Some(16_000)));
    cut(&mut bench);
    bench.lose_everything();
    assert_eq!(bench.asked().1.max_tokens, 4_000);
}

#[test]
fn a_session_begun_without_a_larger_limit_goes_on_without_it() {
    let mut bench = Bench::start(arbiter(None));
    cut(&mut bench);
    assert_eq!(bench.asked().1.max_tokens, 1_000);
    assert!(bench.text().contains("neither a call of `decide`"), "{}", bench.text());
}
