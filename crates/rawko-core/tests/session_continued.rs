//! What follows the end of a task: the next one in the same session, or the same one under higher limits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod session_support;

use rawko_core::ErrorCode;
use rawko_core::attachment::Attachment;
use rawko_core::machine::State;
use rawko_core::message::{Content, Image, StopReason};
use rawko_core::session::{Effect, Event, Note, Outcome, Status, TimerPurpose};
use rawko_core::setup::{RunLimits, Setup};
use rawko_core::tool::ToolOutcome;
use serde_json::json;

use session_support::{Bench, call, model, setup};

fn complete(bench: &mut Bench, summary: &str) {
    bench.decide(json!({"decision": "COMPLETE", "summary": summary, "reason": "r"}));
}

/// A session whose first task has ended after one execution.
fn claimed() -> Bench {
    let mut bench = Bench::start(setup());
    bench.select("developer");
    bench.reply(vec![call("1", "Write", json!({"file_path": "a"}))], StopReason::ToolUse);
    let (write, _) = bench.running()[0].clone();
    bench.finish_tool(write, ToolOutcome { files_modified: vec!["a".into()], ..ToolOutcome::ok("done") });
    bench.report("success");
    complete(&mut bench, "the parser works");
    bench.ended(Status::Claimed);
    bench
}

fn next(bench: &mut Bench, setup: Setup) {
    bench.outcome = None;
    bench.clock += 1_000_000;
    let event = Event::TaskContinued {
        task: "now document it".into(),
        setup: Box::new(setup),
        changed_files: vec!["a".into()],
        lost: rawko_core::session::Lost::default(),
        ended: vec![],
    };
    assert!(!bench.give(event).ignored);
}

/// Ends the next task, in the conversation of the developer or in a new one, and gives its outcome.
#[track_caller]
fn end(mut bench: Bench, in_its_conversation: bool) -> Outcome {
    bench.select("developer");
    let asked = bench.asked();
    assert!(asked.contains("now document it"));
    assert_eq!(asked.contains("The task that you worked on has ended"), in_its_conversation, "{asked}");
    assert_eq!(asked.contains("# Earlier tasks of this session"), !in_its_conversation);
    bench.report("success");
    complete(&mut bench, "documented");
    bench.ended(Status::Claimed).clone()
}

#[test]
fn an_agent_that_goes_on_in_its_conversation_gets_the_reports_of_this_task() {
    let mut bench = claimed();
    next(&mut bench, setup());
    bench.select("planner");
    let words = format!("{} the end", "x".repeat(400));
    let report = json!({"outcome": "success", "summary": words});
    bench.reply(vec![call("r", "Report", report)], StopReason::ToolUse);
    bench.select("developer");
    let asked = bench.asked();
    assert!(asked.contains("The task that you worked on has ended") && asked.contains(&words), "{asked}");
}

#[test]
fn the_next_task_begins_afresh_in_the_same_conversations() {
    let mut bench = claimed();
    let first = bench.outcome.clone().unwrap();
    next(&mut bench, setup());
    let asked = bench.asked();
    for part in ["now document it", "An earlier task of this session", "ended as claimed", "the parser works"]
    {
        assert!(asked.contains(part), "{part} is missing in {asked}");
    }
    let context = bench.session.context().unwrap();
    assert_eq!((context.history.len(), context.total_failures), (0, 0));
    assert!(
        bench
            .notes
            .iter()
            .any(|note| matches!(note, Note::StateChanged { from: State::Complete, to: State::Idle, .. }))
    );
    let outcome = end(bench, true);
    assert_eq!((first.iterations, outcome.iterations), (1, 1));
    assert_eq!((first.usage.total_tokens(), outcome.usage.total_tokens()), (4 * 110, 3 * 110));
    assert_eq!(outcome.files_modified, Vec::<String>::new());
    assert!(outcome.duration_ms < 1_000, "{}", outcome.duration_ms);
}

#[test]
fn executions_and_effects_keep_counting() {
    let mut bench = claimed();
    let last = bench.journal.iter().filter_map(|stamped| stamped.event.answers()).max().unwrap();
    next(&mut bench, setup());
    bench.select("developer");
    assert_eq!(bench.session.context().unwrap().iteration_count, 2);
    let open = bench.open.iter().filter_map(Effect::awaits_answer).min().unwrap();
    assert!(open > last, "{open} after {last}");
}

#[test]
fn the_iteration_limit_is_the_new_tasks() {
    let mut bench = claimed();
    let limits = RunLimits { max_iterations: 1, ..RunLimits::default() };
    next(&mut bench, Setup { limits, ..setup() });
    bench.select("developer");
    bench.report("success");
    bench.select("planner");
    let outcome = bench.ended(Status::Limited);
    assert!(outcome.summary.contains("all 1 iterations"), "{}", outcome.summary);
}

/// What the arbiter is shown of iterations in the second task.
#[test]
fn the_arbiter_counts_the_iterations_of_its_task() {
    let mut bench = claimed();
    next(&mut bench, setup());
    assert!(bench.asked().contains("Iteration 0 of 50. Which"), "{}", bench.asked());
    bench.select("developer");
    bench.report("success");
    let asked = bench.asked();
    assert!(asked.contains("Iteration 1 of 50. How"), "{asked}");
    assert!(asked.contains("- **developer** (iteration 1)"), "{asked}");
}

#[test]
fn another_model_or_prompt_begins_a_new_conversation() {
    let mut bench = claimed();
    let mut changed = setup();
    changed.agents.get_mut("developer").unwrap().model = model("other");
    next(&mut bench, changed);
    end(bench, false);

    let mut bench = claimed();
    let mut changed = setup();
    changed.agents.get_mut("developer").unwrap().config.system_prompt = "Be brief.".into();
    next(&mut bench, changed);
    end(bench, false);
}

#[test]
fn a_task_follows_every_ending() {
    // Failed by its provider, in the middle of a conversation.
    let mut bench = Bench::start(setup());
    bench.select("developer");
    bench.fail_model(ErrorCode::AuthenticationFailed);
    bench.ended(Status::Failed);
    next(&mut bench, setup());
    assert_eq!(end(bench, true).error, None);

    // Cancelled while a tool ran.
    let mut bench = Bench::start(setup());
    bench.select("developer");
    bench.reply(vec![call("1", "Bash", json!({"command": "make"}))], StopReason::ToolUse);
    bench.give(Event::CancelRequested { reason: "enough".into() });
    bench.ended(Status::Cancelled);
    next(&mut bench, setup());
    bench.select("developer");
    assert!(bench.asked().contains("Outcome unknown"), "the open call is answered: {}", bench.asked());

    // Limited.
    let mut bench =
        Bench::start(Setup { limits: RunLimits { max_iterations: 1, ..RunLimits::default() }, ..setup() });
    bench.select("developer");
    bench.report("success");
    bench.select("planner");
    bench.ended(Status::Limited);
    next(&mut bench, setup());
    end(bench, true);
}

#[test]
fn no_task_follows_one_that_has_not_ended() {
    let mut bench = Bench::start(setup());
    let event = Event::TaskContinued {
        task: "t".into(),
        setup: Box::new(setup()),
        changed_files: vec![],
        lost: rawko_core::session::Lost::default(),
        ended: vec![],
    };
    assert!(bench.give(event).ignored);
    assert_eq!(bench.session.context().unwrap().task, "make it work");
}

#[test]
fn the_last_five_tasks_are_remembered() {
    let mut bench = claimed();
    for _ in 0..7 {
        next(&mut bench, setup());
        bench.select("developer");
        bench.report("success");
        complete(&mut bench, "s");
    }
    next(&mut bench, setup());
    let times = bench.asked().matches("An earlier task of this session").count();
    assert_eq!(times, 5);
}

fn take_up(bench: &mut Bench, limits: RunLimits) -> bool {
    bench.outcome = None;
    bench.clock += 1_000_000;
    !bench
        .give(Event::TaskTakenUp {
            limits,
            changed_files: vec![],
            verify: None,
            lost: rawko_core::session::Lost::default(),
        })
        .ignored
}

#[test]
fn a_raised_limit_goes_on_in_the_same_conversation() {
    let limits = RunLimits { max_tokens: Some(1_500), ..RunLimits::default() };
    let mut bench = Bench::start(Setup { limits, ..setup() });
    bench.select("developer");
    let spent = |bench: &mut Bench| {
        for turn in 0..20 {
            if bench.outcome.is_some() {
                return;
            }
            bench.reply(vec![call(&turn.to_string(), "Read", json!({"n": turn}))], StopReason::ToolUse);
            let (read, _) = bench.running()[0].clone();
            bench.finish_tool(read, ToolOutcome::ok(format!("text {turn}")));
        }
    };
    spent(&mut bench);
    let before = bench.ended(Status::Limited).clone();
    assert!(before.can_be_taken_up());
    let limits =
        RunLimits { max_tokens: Some(90_000), max_duration_ms: Some(60_000), ..RunLimits::default() };
    assert!(take_up(&mut bench, limits));
    assert!(bench.asked().contains("text 0"), "the conversation is the same: {}", bench.asked());
    let timer = bench.open.iter().find_map(|effect| match effect {
        Effect::StartTimer { after_ms, purpose: TimerPurpose::RunDeadline, .. } => Some(*after_ms),
        _ => None,
    });
    assert!(
        timer.is_some_and(|left| (59_000..60_000).contains(&left)),
        "{timer:?}: the pause does not count"
    );
    bench.report("success");
    complete(&mut bench, "done");
    let outcome = bench.ended(Status::Claimed);
    assert!(outcome.usage.total_tokens() > before.usage.total_tokens(), "what was spent counts");
    assert_eq!(outcome.iterations, 2);
}

#[test]
fn a_blocked_task_is_taken_up_and_says_that_the_obstacle_should_be_gone() {
    let blocked = || json!({"decision": "BLOCKED", "reason": "there is no key"});
    let mut bench = Bench::start(setup());
    bench.select("developer");
    bench.report("success");
    bench.decide(blocked());
    let outcome = bench.ended(Status::Failed).clone();
    assert!(outcome.can_be_taken_up());
    assert!(outcome.summary.starts_with("Blocked: there is no key."), "{}", outcome.summary);
    let error = outcome.error.unwrap();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::Blocked, "there is no key"));
    assert!(take_up(&mut bench, RunLimits::default()));
    let asked = bench.asked();
    assert!(asked.contains("there is no key (The user has taken the task up again since"), "{asked}");
    assert!(asked.contains("- RETRY: Try again (The user has taken the task up again since)"), "{asked}");
    // It is blocked again, and a success clears the obstacle.
    bench.decide(blocked());
    bench.ended(Status::Failed);
    assert!(take_up(&mut bench, RunLimits::default()));
    assert_eq!(bench.asked().matches("taken the task up again since: ").count(), 1, "{}", bench.asked());
    bench.select("developer");
    bench.report("success");
    assert!(bench.session.context().unwrap().last_error.is_none());
    complete(&mut bench, "done");
    bench.ended(Status::Claimed);
}

#[test]
fn a_failure_of_the_provider_is_taken_up() {
    let mut bench = Bench::start(setup());
    bench.select("developer");
    bench.reply(vec![call("1", "Read", json!({"n": 1}))], StopReason::ToolUse);
    let (read, _) = bench.running()[0].clone();
    bench.finish_tool(read, ToolOutcome::ok("what it read"));
    bench.fail_model(ErrorCode::AuthenticationFailed);
    bench.ended(Status::Failed);
    assert!(take_up(&mut bench, RunLimits::default()));
    assert!(bench.asked().contains("what it read"));
    bench.report("success");
    complete(&mut bench, "done");
    bench.ended(Status::Claimed);
}

#[test]
fn an_iteration_limit_is_raised_and_the_arbiter_asked() {
    let limits = RunLimits { max_iterations: 1, ..RunLimits::default() };
    let mut bench = Bench::start(Setup { limits, ..setup() });
    bench.select("developer");
    bench.report("success");
    bench.select("planner");
    bench.ended(Status::Limited);
    assert!(take_up(&mut bench, RunLimits { max_iterations: 2, ..limits }));
    bench.select("planner");
    bench.report("success");
    complete(&mut bench, "done");
    assert_eq!(bench.ended(Status::Claimed).iterations, 2);
}

#[test]
fn a_task_that_ended_otherwise_is_not_taken_up() {
    let mut bench = claimed();
    assert!(!take_up(&mut bench, RunLimits::default()));
}

/// The next task has its own attachments: an agent that goes on in its conversation gets them with the task, and the old ones
/// are not given again.
#[test]
fn each_task_has_what_was_given_with_it() {
    let given = |text: &str| Attachment { name: "notes.md".into(), text: text.into(), image: None };
    let image = Image { media_type: "image/png".into(), data: "AA==".into() };
    let mut bench = Bench::start(Setup { attachments: vec![given("Remember the milk.")], ..setup() });
    assert!(bench.asked().contains("| Remember the milk."), "the arbiter sees a beginning");
    bench.select("developer");
    assert!(bench.asked().contains("| Remember the milk."), "the agent sees all of it");
    bench.report("success");
    complete(&mut bench, "done");
    let picture = Attachment { image: Some(image), ..given("`shot.png`: 1x1 pixels") };
    next(&mut bench, Setup { attachments: vec![picture], ..setup() });
    assert!(!bench.asked().contains("milk"));
    bench.select("developer");
    let effect = bench.open.iter().find_map(|effect| match effect {
        Effect::CallModel { id, .. } => Some(*id),
        _ => None,
    });
    let request = &bench.requests[&effect.unwrap()];
    let last = request.messages.last().unwrap();
    assert!(last.text().contains("| `shot.png`: 1x1 pixels") && !last.text().contains("milk"));
    assert!(last.content.iter().any(|block| matches!(block, Content::Image(_))), "{last:?}");
    bench.report("success");
    complete(&mut bench, "done");
    bench.ended(Status::Claimed);
}

#[test]
fn a_session_in_the_same_folder_is_reported_once_and_named_in_the_outcome() {
    let mut bench = Bench::start(setup());
    let beside = || Event::RanBeside { sessions: vec!["other".into()] };
    let reaction = bench.give(beside());
    assert!(matches!(reaction.notes.as_slice(), [Note::Warned { message }] if message.contains("other")));
    assert!(bench.give(beside()).ignored, "it is known");
    bench.select("developer");
    bench.report("success");
    complete(&mut bench, "done");
    assert_eq!(bench.ended(Status::Claimed).beside, ["other"]);
    assert!(bench.give(Event::RanBeside { sessions: vec!["late".into()] }).ignored, "it has ended");
    next(&mut bench, setup());
    bench.select("developer");
    bench.report("success");
    complete(&mut bench, "done");
    assert_eq!(bench.ended(Status::Claimed).beside, [""; 0]);
}
