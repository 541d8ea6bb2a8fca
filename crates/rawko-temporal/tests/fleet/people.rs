//! What people do to a task: answer, steer, cancel; and what they see.

use rawko_core::session::{Override, Status};
use rawko_temporal::{ApprovalAnswer, EngineState, Fleet, FleetError, FleetTask};
use serde_json::json;

use crate::world::{SECRET, World, bash, commands, developer};

fn answer(question: &str, allowed: bool) -> ApprovalAnswer {
    ApprovalAnswer { question: question.to_owned(), allowed, by: "a test".to_owned() }
}

/// A world in which `touch` has to be asked for.
fn asking(list: &[&str]) -> Option<World> {
    let world = commands(list)?;
    world.config(json!({
        "provider": {
            "default": "claude",
            "claude": {"baseUrl": world.models.claude_url(), "retry": {"maxAttempts": 2, "baseMs": 1, "capMs": 50}},
        },
        "permissions": {"run": ["echo", "sleep"], "ask": ["commands"], "write": [".", world.marks()]},
    }));
    Some(world)
}

fn shown(world: &World, fleet: &Fleet, id: &str) -> FleetTask {
    world.runtime.block_on(fleet.show(id)).unwrap()
}

/// Waits for the question of a task, and gives its digest.
fn question(world: &World, fleet: &Fleet, id: &str) -> String {
    let mut digest = None;
    world.until("a question", || {
        digest =
            shown(world, fleet, id).status.and_then(|status| status.question).map(|question| question.digest);
        digest.is_some()
    });
    digest.unwrap()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, FleetError>, why: &str) {
    match result {
        Err(FleetError::Refused(message)) if message.contains(why) => {}
        other => panic!("expected a refusal that says {why:?}, not {other:?}"),
    }
}

pub(crate) fn an_approval_counts_once_and_only_for_the_question_that_waits() {
    let Some(mut world) = asking(&["touch MARKS/touched", "echo done > done.txt"]) else { return };
    let worker = world.worker("a");
    let fleet = world.submit("approve", "Touch it.");
    let digest = question(&world, &fleet, "approve");
    let approve = |fleet: &Fleet, question: &str, allowed| {
        world.runtime.block_on(fleet.approve("approve", answer(question, allowed)))
    };
    refused(approve(&fleet, "", true), "does not name its question");
    refused(approve(&fleet, "0123456789abcdef", true), "no question");
    assert!(!world.marks().join("touched").exists());

    // The question outlives worker and engine.
    worker.kill();
    world.engine.kill();
    world.engine.start_again();
    let _worker = world.worker("b");
    let fleet = world.fleet();
    assert_eq!(question(&world, &fleet, "approve"), digest);

    let approve =
        |question: &str, allowed| world.runtime.block_on(fleet.approve("approve", answer(question, allowed)));
    assert_eq!(approve(&digest[..12], true).unwrap(), digest);
    // Late: it is answered, or the task has gone on.
    assert!(approve(&digest, false).is_err());
    let ended = world.ended(&fleet, "approve");
    assert_eq!(ended.status.unwrap().outcome.unwrap().status, Status::Claimed);
    assert!(world.marks().join("touched").exists());
    assert!(approve(&digest, true).is_err(), "the task has ended");
}

pub(crate) fn a_denied_call_is_not_made() {
    let Some(world) = asking(&["touch MARKS/touched", "echo done > done.txt"]) else { return };
    let _worker = world.worker("a");
    let fleet = world.submit("deny", "Touch it.");
    let digest = question(&world, &fleet, "deny");
    world.runtime.block_on(fleet.approve("deny", answer(&digest, false))).unwrap();
    world.ended(&fleet, "deny");
    assert!(!world.marks().join("touched").exists());
}

pub(crate) fn a_task_is_cancelled_while_it_waits_for_an_answer() {
    let Some(world) = asking(&["touch MARKS/touched"]) else { return };
    let _worker = world.worker("a");
    let fleet = world.submit("waits", "Touch it.");
    question(&world, &fleet, "waits");
    world.runtime.block_on(fleet.cancel("waits", "not needed any more")).unwrap();
    let ended = world.ended(&fleet, "waits");
    let outcome = ended.status.unwrap().outcome.unwrap();
    assert_eq!((ended.engine, outcome.status), (EngineState::Cancelled, Status::Cancelled));
    assert!(!world.marks().join("touched").exists());
}

pub(crate) fn a_cancelled_agents_child_is_dead_when_the_task_has_ended() {
    let Some(world) = commands(&[
        "echo before > before.txt",
        "echo $$ >> MARKS/pid; sleep 300 & echo $! >> MARKS/pid; wait",
    ]) else {
        return;
    };
    let _worker = world.worker("a");
    let fleet = world.submit("cancel", "Sleep.");
    world.until("the command begins", || world.marked("pid").len() == 2);
    let mark = world.marks().to_str().unwrap().to_owned();
    let children = || {
        let found =
            std::process::Command::new("pgrep").args(["-f", &format!("sleep 300|{mark}/pid")]).output();
        String::from_utf8(found.unwrap().stdout).unwrap()
    };
    assert!(!children().is_empty());
    world.runtime.block_on(fleet.cancel("cancel", "enough")).unwrap();
    let ended = world.ended(&fleet, "cancel");
    let outcome = ended.status.unwrap().outcome.unwrap();
    assert_eq!((ended.engine, outcome.status), (EngineState::Cancelled, Status::Cancelled));
    assert_eq!(children(), "", "something of it still runs");
    // Earlier work is kept, and known.
    assert_eq!(world.git(&["show", "rawko/cancel:before.txt"]), "before\n");
    assert!(outcome.files_modified.contains(&"before.txt".to_owned()), "{outcome:?}");
}

pub(crate) fn a_task_is_steered_and_what_would_change_nothing_is_refused() {
    let Some(world) = commands(&["echo begun >> MARKS/begun; sleep 2", "echo 1 > one.txt"]) else { return };
    let _worker = world.worker("a");
    let fleet = world.submit("steer", "Take two steps.");
    world.until("the command begins", || !world.marked("begun").is_empty());
    let steer = |command| world.runtime.block_on(fleet.steer("steer", command));
    steer(Override::Pause).unwrap();
    refused(steer(Override::Pause), "pause");
    refused(steer(Override::ForceAgent { agent: "unknown".to_owned() }), "unknown");
    world.until("the pause is seen", || shown(&world, &fleet, "steer").status.unwrap().is_paused);
    steer(Override::Say { text: "Use tabs.".to_owned() }).unwrap();
    steer(Override::Go).unwrap();
    let ended = world.ended(&fleet, "steer");
    assert_eq!(ended.status.unwrap().outcome.unwrap().status, Status::Claimed);
    let heard = world.models.asked().iter().any(|asked| asked.last_text().contains("Use tabs."));
    assert!(heard, "the agent did not receive it");
}

pub(crate) fn a_task_can_be_seen_without_a_worker_and_begins_once() {
    let Some(world) = World::new(developer(vec![bash("echo 1 > one.txt")])) else { return };
    let fleet = world.submit("alone", "Take a step.");
    let before = shown(&world, &fleet, "alone");
    assert_eq!((before.engine, before.status.unwrap().task.as_str()), (EngineState::Running, "Take a step."));
    // The same again is no second task; another one under the same id is refused.
    let again = world.runtime.block_on(fleet.submit(world.spec("alone", "Take a step."))).unwrap();
    assert!(!again.is_new);
    let mut by_another = world.spec("alone", "Take a step.");
    by_another.submitter = "somebody else".to_owned();
    assert!(!world.runtime.block_on(fleet.submit(by_another)).unwrap().is_new);
    let other = world.runtime.block_on(fleet.submit(world.spec("alone", "Do something else.")));
    assert!(matches!(other, Err(FleetError::OtherTask(_))), "{other:?}");

    let worker = world.worker("a");
    world.ended(&fleet, "alone");
    worker.kill();
    let after = shown(&world, &fleet, "alone");
    assert_eq!(after.status.unwrap().outcome.unwrap().status, Status::Claimed);
    assert_eq!(world.runtime.block_on(fleet.list()).unwrap().len(), 1);
    // Also once it has ended.
    let again = world.runtime.block_on(fleet.submit(world.spec("alone", "Take a step."))).unwrap();
    assert!(!again.is_new);
    let no_task = world.runtime.block_on(fleet.show("no_task"));
    assert!(matches!(no_task, Err(FleetError::NoTask(_))), "{no_task:?}");
}

pub(crate) fn a_task_that_cannot_begin_is_cancelled_and_released() {
    let Some(world) = World::new(developer(Vec::new())) else { return };
    let _worker = world.worker("a");
    let fleet = world.fleet();
    for id in ["cancelled", "released"] {
        let mut spec = world.spec(id, "Begin.");
        spec.repository = world.path("no-such-repository").to_str().unwrap().parse().unwrap();
        world.runtime.block_on(fleet.submit(spec)).unwrap();
        world.until("it is tried", || world.runtime.block_on(fleet.show(id)).unwrap().failure.is_some());
    }
    world.runtime.block_on(fleet.cancel("cancelled", "enough")).unwrap();
    assert_eq!(world.ended(&fleet, "cancelled").engine, EngineState::Cancelled);
    assert_eq!(world.runtime.block_on(fleet.release("released")).unwrap().engine, EngineState::Cancelled);
    let error = world.runtime.block_on(fleet.steer("cancelled", Override::Pause)).unwrap_err();
    assert!(error.to_string().contains("has ended"), "{error}");
}

pub(crate) fn a_secret_that_is_said_to_a_task_is_kept_nowhere() {
    let Some(world) = commands(&["echo begun >> MARKS/begun; sleep 2", "echo 1 > one.txt"]) else { return };
    let secret = SECRET;
    let _worker = world.worker("a");
    let task = format!("Take two steps, with {secret}.");
    let fleet = world.submit("says", &task);
    world.until("the command begins", || !world.marked("begun").is_empty());
    let text = format!("Use tabs, and {secret} to log in.");
    world.runtime.block_on(fleet.steer("says", Override::Say { text })).unwrap();
    world.ended(&fleet, "says");
    let heard = world.models.asked().iter().any(|asked| asked.last_text().contains("Use tabs, and "));
    assert!(heard, "the agent did not receive it");
    let everywhere = ["store", "temporal.db", "temporal.db-wal", "a/log"];
    assert_eq!(world.files_with(&everywhere, secret), Vec::<std::path::PathBuf>::new());
    // The rest of it is in both.
    let found = world.files_with(&everywhere, "Use tabs, and ");
    assert!(found.iter().any(|path| path.starts_with(world.path("store"))), "{found:?}");
    assert!(found.iter().any(|path| path.to_string_lossy().contains("temporal.db")), "{found:?}");
}

pub(crate) fn a_question_waits_as_long_as_the_configuration_says() {
    let Some(world) = asking(&["touch MARKS/touched", "echo done > done.txt"]) else { return };
    let mut config: serde_json::Value =
        serde_json::from_slice(&std::fs::read(world.path("user/config/config.yaml")).unwrap()).unwrap();
    config["permissions"]["askTimeout"] = json!("3s");
    world.config(config);
    let _worker = world.worker("a");
    let fleet = world.submit("late", "Touch it.");
    question(&world, &fleet, "late");
    // No one answers.
    let ended = world.ended(&fleet, "late");
    assert_eq!(ended.status.unwrap().outcome.unwrap().status, Status::Claimed);
    assert!(!world.marks().join("touched").exists());
}
