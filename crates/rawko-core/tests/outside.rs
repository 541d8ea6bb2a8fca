//! The execution of an agent whose work another program does: one effect in the place of turns.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod session_bench;

use rawko_core::agent::outside::{OutsideAct, OutsideAsked, OutsideEnd, OutsideStop, OutsideWork};
use rawko_core::agent::{AcpProgram, AgentRole};
use rawko_core::facts::TreeInspection;
use rawko_core::machine::State;
use rawko_core::session::{Effect, EffectAnswer, Event, Note, Reaction};
use rawko_core::setup::Setup;
use rawko_core::tool::ToolAccess;
use rawko_core::{ErrorCode, ErrorInfo, Usage};
use session_bench::{Bench, setup};

fn with_program() -> Setup {
    let mut setup = setup(None);
    setup.checkpoints = true;
    let developer = setup.agents.get_mut("developer").unwrap();
    let command = vec!["its-program".to_owned()];
    developer.config.acp = Some(AcpProgram { command, ..AcpProgram::default() });
    setup
}

/// The developer's program runs: what it was given, and what it may do.
#[track_caller]
fn begun(setup: Setup) -> (Bench, String, ToolAccess) {
    let mut bench = Bench::start(setup);
    bench.select("developer");
    let checkpoint = bench.take(|effect| matches!(effect, Effect::TakeCheckpoint { .. }));
    let answer = EffectAnswer::CheckpointTaken { checkpoint: "c".to_owned() };
    bench.give(Event::answered(checkpoint.awaits_answer().unwrap(), answer));
    let run = bench.open.iter().find_map(|effect| match effect {
        Effect::RunOutsideAgent { prompt, access, .. } => Some((prompt.clone(), *access)),
        _ => None,
    });
    let (prompt, access) = run.expect("its program runs");
    (bench, prompt, access)
}

fn stopped(text: &str) -> OutsideWork {
    OutsideWork {
        end: OutsideEnd::Stopped { reason: OutsideStop::EndTurn },
        text: text.to_owned(),
        asked: Vec::new(),
        usage: None,
        cost_usd: None,
        duration_ms: 5,
    }
}

/// Its program ends, and the tree is inspected.
#[track_caller]
fn end(bench: &mut Bench, work: OutsideWork) -> Reaction {
    let run = bench.take(|effect| matches!(effect, Effect::RunOutsideAgent { .. }));
    let answer = EffectAnswer::OutsideAgentEnded { work: Box::new(work) };
    let reaction = bench.give(Event::answered(run.awaits_answer().unwrap(), answer));
    inspect(bench);
    reaction
}

#[track_caller]
fn inspect(bench: &mut Bench) {
    let look = bench.take(|effect| matches!(effect, Effect::InspectTree { .. }));
    let answer = EffectAnswer::TreeInspected { inspection: TreeInspection::default() };
    bench.give(Event::answered(look.awaits_answer().unwrap(), answer));
    assert_eq!(bench.session.state(), State::Evaluating);
}

#[test]
fn its_program_gets_one_prompt_and_its_last_words_are_its_report() {
    let (mut bench, prompt, _) = begun(with_program());
    assert!(prompt.starts_with("You are developer.\n\n## How rawko works\n"), "{prompt}");
    assert!(prompt.contains("# Task\n"), "{prompt}");
    assert!(
        !prompt.contains("UpdatePlan") && !prompt.contains("`Report`"),
        "it has no tools of rawko: {prompt}"
    );
    let reaction = end(
        &mut bench,
        OutsideWork {
            usage: Some(Usage { output_tokens: 7, ..Usage::default() }),
            asked: vec![OutsideAsked {
                act: OutsideAct::Edit,
                title: "Edit a".to_owned(),
                allowed: false,
                rule: "r".to_owned(),
            }],
            ..stopped("It is done.")
        },
    );
    let denied =
        |note: &Note| matches!(note, Note::ToolCalled { call, allowed: false, .. } if call.name == "edit");
    assert!(reaction.notes.iter().any(denied), "{:?}", reaction.notes);
    let text = bench.text();
    assert!(text.contains("It is done.") && text.contains("the agent reported"), "{text}");
    bench.check_fold();
}

#[test]
fn it_may_change_files_where_a_tool_of_the_run_may() {
    assert_eq!(begun(with_program()).2, ToolAccess::ReadOnly, "this run has no Write");
    let mut with_write = with_program();
    with_write.tools.extend(session_bench_tools());
    assert_eq!(begun(with_write.clone()).2, ToolAccess::Mutating);
    with_write.agents.get_mut("developer").unwrap().config.tools.blocked = vec!["Write".to_owned()];
    assert_eq!(begun(with_write).2, ToolAccess::ReadOnly);
}

fn session_bench_tools() -> Vec<rawko_core::tool::ToolSpec> {
    let mut write = setup(None).tools.first().cloned().unwrap();
    write.name = "Write".to_owned();
    vec![write]
}

#[test]
fn what_was_lost_is_not_begun_again() {
    let (mut bench, ..) = begun(with_program());
    bench.lose_everything();
    assert!(!bench.open.iter().any(|effect| matches!(effect, Effect::RunOutsideAgent { .. })));
    inspect(&mut bench);
    assert!(bench.text().contains("Outcome unknown: rawko was interrupted"), "{}", bench.text());
    bench.check_fold();
}

#[test]
fn a_program_that_fails_is_a_failed_execution() {
    let (mut bench, ..) = begun(with_program());
    let error = ErrorInfo::new(ErrorCode::ToolFailure, "it printed garbage");
    end(&mut bench, OutsideWork::failed(error));
    assert!(bench.text().contains("it printed garbage"), "{}", bench.text());
    let (mut bench, ..) = begun(with_program());
    end(&mut bench, stopped(" "));
    assert!(bench.text().contains("The agent ended without a word."), "{}", bench.text());
    bench.check_fold();
}

#[test]
fn who_judges_says_the_verdict_in_the_last_line() {
    let mut reviewed = with_program();
    reviewed.agents.get_mut("developer").unwrap().config.role = Some(AgentRole::Review);
    let (mut bench, prompt, _) = begun(reviewed);
    assert!(prompt.contains("`Verdict: approved`"), "{prompt}");
    end(&mut bench, stopped("I read it.\nFinding: it subtracts\nVerdict: rejected"));
    let text = bench.text();
    assert!(text.contains("rejected") && text.contains("it subtracts"), "{text}");
    bench.check_fold();
}
