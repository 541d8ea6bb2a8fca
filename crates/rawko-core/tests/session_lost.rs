//! Work that was lost with a process or with the damaged end of a journal: who is informed, and that nothing else
//! changes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod session_support;

use rawko_core::message::{Role, StopReason};
use rawko_core::session::{Effect, EffectAnswer, EndedTask, Event, Lost, LostJob, LostWork, Note, Status};
use rawko_core::tool::ToolOutcome;
use serde_json::json;

use session_support::{Bench, call, setup};

fn jobs() -> Lost {
    let job = |agent: &str, job| LostJob { agent: agent.into(), job, command: format!("serve {agent}") };
    Lost { jobs: vec![job("developer", 1), job("planner", 2)], work: None }
}

fn work() -> Lost {
    let calls = vec!["Write: a.txt".to_owned(), "Bash: make".to_owned()];
    Lost { jobs: vec![], work: Some(LostWork { after_record: 12, calls, more_calls: 3 }) }
}

/// Takes the session up: the answers to everything that was begun are lost.
fn resume(bench: &mut Bench, lost: Lost) {
    bench.give(Event::SessionResumed { changed_files: vec![], verify: None, limits: None, lost });
    for effect in std::mem::take(&mut bench.open) {
        let effect = effect.awaits_answer().unwrap();
        bench.give(Event::Answered { effect, answer: EffectAnswer::EffectLost });
    }
}

fn warnings(bench: &Bench) -> Vec<String> {
    let warned = |note: &Note| match note {
        Note::Warned { message } => Some(message.clone()),
        _ => None,
    };
    bench.notes.iter().filter_map(warned).collect()
}

fn roles(bench: &Bench) -> Vec<Role> {
    let effect = bench.open.iter().find(|effect| matches!(effect, Effect::CallModel { .. })).unwrap();
    let request = &bench.requests[&effect.awaits_answer().unwrap()];
    request.messages.iter().map(|message| message.role).collect()
}

#[test]
fn without_losses_the_same_question_is_put_again() {
    let mut bench = Bench::start(setup());
    bench.select("developer");
    let before = bench.asked();
    resume(&mut bench, Lost::default());
    assert_eq!((bench.asked(), warnings(&bench)), (before, vec![]));
}

#[test]
fn the_agent_of_a_lost_job_hears_of_it_at_once_and_only_once() {
    let mut bench = Bench::start(setup());
    bench.select("developer");
    resume(&mut bench, jobs());
    let asked = bench.asked();
    assert!(asked.contains("[background job 1: lost with") && asked.contains("serve developer"), "{asked}");
    assert!(!asked.contains("job 2"), "that is the planner's: {asked}");
    assert_eq!(roles(&bench), [Role::User, Role::Assistant, Role::User]);
    assert_eq!(warnings(&bench).len(), 2, "people hear of both");
    resume(&mut bench, Lost::default());
    assert_eq!(bench.asked(), asked);
}

#[test]
fn an_agent_whose_tool_ran_hears_of_it_with_the_result() {
    let mut bench = Bench::start(setup());
    bench.select("developer");
    bench.reply(vec![call("1", "Bash", json!({"command": "make"}))], StopReason::ToolUse);
    resume(&mut bench, jobs());
    let asked = bench.asked();
    assert!(asked.contains("Outcome unknown") && asked.contains("[background job 1: lost with"), "{asked}");
    assert_eq!(roles(&bench), [Role::User, Role::Assistant, Role::User]);
}

#[test]
fn an_agent_that_begins_anew_hears_of_its_jobs_in_the_opening_and_once() {
    let mut bench = Bench::start(setup());
    resume(&mut bench, jobs());
    for _ in 0..2 {
        bench.select("developer");
        let asked = bench.asked();
        let is_first = !asked.contains("What went before");
        assert_eq!(asked.contains("[background job 1: lost with"), is_first, "{asked}");
        assert!(!asked.contains("background job 2"), "{asked}");
        bench.report("success");
    }
}

#[test]
fn lost_work_is_reported_to_the_arbiter_and_to_each_new_conversation() {
    let mut bench = Bench::start(setup());
    resume(&mut bench, work());
    let is_reported = |bench: &Bench| {
        let asked = bench.asked();
        ["after its record 12", "Write: a.txt", "Bash: make", "and 3 more"]
            .iter()
            .all(|words| asked.contains(words))
    };
    assert!(is_reported(&bench), "{}", bench.asked());
    bench.select("planner");
    assert!(is_reported(&bench), "{}", bench.asked());
    bench.report("success");
    assert!(is_reported(&bench), "{}", bench.asked());
    bench.select("developer");
    assert!(is_reported(&bench), "{}", bench.asked());
    assert!(warnings(&bench)[0].contains("the work after record 12 was lost"), "{:?}", warnings(&bench));
    bench.report("success");
    bench.decide(json!({"decision": "COMPLETE", "summary": "done", "reason": "r"}));
    bench.ended(Status::Claimed);
}

#[test]
fn lost_work_is_reported_in_the_middle_of_a_conversation() {
    let mut bench = Bench::start(setup());
    bench.select("developer");
    bench.reply(vec![call("1", "Read", json!({"file_path": "a"}))], StopReason::ToolUse);
    let (read, _) = bench.running()[0].clone();
    bench.finish_tool(read, ToolOutcome::ok("a"));
    resume(&mut bench, work());
    let asked = bench.asked();
    assert_eq!(asked.matches("damaged and repaired").count(), 1, "{asked}");
    assert_eq!(roles(&bench).last(), Some(&Role::User));
}

#[test]
fn jobs_that_ended_with_a_task_are_reported_in_the_next_whose_outcome_has_the_earlier_tasks() {
    let mut bench = Bench::start(setup());
    bench.select("developer");
    bench.report("success");
    bench.decide(json!({"decision": "COMPLETE", "summary": "done", "reason": "r"}));
    let first = bench.ended(Status::Claimed).clone();
    assert_eq!(first.earlier_tasks, []);
    bench.outcome = None;
    bench.give(Event::TaskContinued {
        task: "document it".into(),
        setup: Box::new(setup()),
        changed_files: vec![],
        lost: jobs(),
        ended: vec![EndedTask::of("make it work", &first)],
    });
    bench.select("developer");
    let asked = bench.asked();
    assert!(asked.contains("document it") && asked.contains("[background job 1: lost with"), "{asked}");
    bench.report("success");
    bench.decide(json!({"decision": "COMPLETE", "summary": "done", "reason": "r"}));
    let outcome = bench.ended(Status::Claimed);
    assert_eq!(outcome.earlier_tasks.len(), 1);
    assert_eq!(outcome.earlier_tasks[0].usage, first.usage);
    let sum = first.cost_usd.zip(outcome.cost_usd).map(|(first, second)| first + second);
    assert_eq!(outcome.session_cost_usd(), sum);
}
