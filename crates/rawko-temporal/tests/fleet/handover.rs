//! A session goes from a process of its own to the fleet, and back.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rawko::Rawko;
use rawko::journal::{JournalWriter, Record, read};
use rawko_core::session::{Event, Status};
use rawko_temporal::EngineState;
use serde::{Deserialize, Serialize};

use crate::world::commands;

const LOCAL: &str = "RAWKO_TEST_LOCAL";

/// A run in a process of its own, that can be killed.
#[derive(Serialize, Deserialize)]
struct Local {
    project: PathBuf,
    user: PathBuf,
    task: String,
}

fn rawko(project: &Path, user: &Path) -> Rawko {
    Rawko::builder().project(project).user_config_dir(user.join("config")).trusted(true).build().unwrap()
}

/// What the process does, if this is one. Says whether it was.
pub(crate) fn run_if_asked() -> bool {
    let Ok(local) = std::env::var(LOCAL) else { return false };
    let Local { project, user, task } = serde_json::from_str(&local).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async { rawko(&project, &user).run(&task).unwrap().await }).unwrap();
    true
}

pub(crate) fn a_session_begun_by_a_process_that_was_killed_goes_on_in_the_fleet() {
    let Some(world) = commands(&[
        "echo 1 >> MARKS/steps; echo 1 > one.txt",
        "echo begun >> MARKS/begun; if [ $(wc -l < MARKS/begun) -eq 1 ]; then sleep 100; fi",
        "echo 3 >> MARKS/steps; cat one.txt > three.txt",
    ]) else {
        return;
    };
    world.git(&["clone", "--quiet", ".", world.path("project").to_str().unwrap()]);
    let project = world.path("project").canonicalize().unwrap();
    let local =
        Local { project: project.clone(), user: world.path("user"), task: "Take three steps.".to_owned() };
    let mut process = Command::new(std::env::current_exe().unwrap())
        .env(LOCAL, serde_json::to_string(&local).unwrap())
        .env("ANTHROPIC_API_KEY", "sk-test")
        .env("HOME", world.path("user"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    world.until("the second step begins", || !world.marked("begun").is_empty());
    process.kill().unwrap();
    process.wait().unwrap();

    // A key is needed to know the providers, as in any process of the user's.
    let builder = Rawko::builder().env(|name| (name == "ANTHROPIC_API_KEY").then(|| "sk-test".to_owned()));
    let here =
        builder.project(&project).user_config_dir(world.path("user/config")).trusted(true).build().unwrap();
    let session = here.sessions().list().unwrap().pop().unwrap().id;
    let _worker = world.worker("a");
    let fleet = world.fleet();
    let spec = world.spec("moved", "Take three steps.");
    world.runtime.block_on(fleet.submit_session(&here, &session, spec)).unwrap();
    let ended = world.ended(&fleet, "moved");
    let outcome = ended.status.unwrap().outcome.unwrap();
    assert_eq!(outcome.status, Status::Claimed, "{outcome:?}\n{}", world.logs());
    assert_eq!(world.marked("steps"), ["1", "3"], "no step was done again");
    assert_eq!(world.git(&["show", "rawko/moved:three.txt"]), "1\n");
    // Where the test leaves its marks is granted too, and lies outside the project.
    let (outside, inside): (Vec<_>, Vec<_>) =
        outcome.files_modified.iter().partition(|file| file.starts_with('/'));
    assert_eq!(inside, ["one.txt", "three.txt"]);
    assert!(outside.iter().all(|file| file.contains("/marks/")), "{outside:?}");

    // Its journal begins with what the process wrote.
    let path = here.sessions().find(&session).unwrap();
    let local: Vec<Event> = read(&path)
        .unwrap()
        .records
        .into_iter()
        .filter_map(|record| match record {
            Record::Event(stamped) => Some(stamped.event),
            Record::Step(_) => None,
        })
        .collect();
    let of_fleet: Vec<Event> =
        world.events(&fleet, "moved").into_iter().map(|stamped| stamped.event).collect();
    assert_eq!(of_fleet[..local.len()], local);
    assert!(matches!(of_fleet[local.len()], Event::SessionResumed { .. }));
}

pub(crate) fn a_released_task_leaves_its_session_unfinished_and_its_work_on_the_branch() {
    let Some(world) =
        commands(&["echo 1 > one.txt", "echo begun >> MARKS/begun; sleep 100", "echo 3 > three.txt"])
    else {
        return;
    };
    let _worker = world.worker("a");
    let fleet = world.submit("released", "Take three steps.");
    world.until("the second step begins", || !world.marked("begun").is_empty());
    let released = world.runtime.block_on(fleet.release("released")).unwrap();
    assert_eq!(released.engine, EngineState::Cancelled);
    assert!(released.status.unwrap().outcome.is_none(), "the session has not ended");
    assert_eq!(world.git(&["show", "rawko/released:one.txt"]), "1\n");
    // What the store has is a whole session, which another process can take up.
    let header = world.runtime.block_on(fleet.header("released")).unwrap().unwrap();
    let events = world.events(&fleet, "released");
    let folder = world.path("sessions").join(&header.session);
    let mut journal = JournalWriter::create(&folder, &header).unwrap();
    let mut folding = rawko::journal::Folding::default();
    for event in &events {
        let applied = folding.apply(event);
        journal.event(event).unwrap();
        if !applied.step.is_empty() {
            journal.step(&applied.step).unwrap();
        }
    }
    journal.commit().unwrap();
    let session = &folding.folded().session;
    assert!(session.outcome().is_none() && session.open_effects().count() > 0);
}
