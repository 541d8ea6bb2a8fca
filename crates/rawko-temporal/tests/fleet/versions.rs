//! Versions of rawko beside each other, and panics.

use std::os::unix::fs::PermissionsExt as _;

use rawko_core::session::Status;
use rawko_temporal::replay;
use rawko_temporal::store::SharedStore;

use crate::worker::{WorkerOptions, WorkerProcess};
use crate::world::commands;

#[track_caller]
fn replays(folder: &std::path::Path) {
    // A checkout is for everybody to read, and a store is not.
    let own = tempfile::tempdir().unwrap();
    let copied =
        std::process::Command::new("cp").arg("-r").arg(folder.join("store")).arg(own.path()).status();
    assert!(copied.unwrap().success());
    let store = own.path().join("store");
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o700)).unwrap();
    let store = SharedStore::open(store.to_str().unwrap()).unwrap();
    let history = std::fs::read(folder.join("history.json")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime
        .block_on(replay(&history, &store))
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
}

pub(crate) fn a_history_of_today_is_replayed_and_a_changed_one_is_not() {
    let Some(world) = commands(&["echo 1 > one.txt", "exit 3", "echo 2 > two.txt"]) else { return };
    let _worker = world.worker("a");
    let fleet = world.submit("history", "Take three steps.");
    assert_eq!(world.ended(&fleet, "history").status.unwrap().outcome.unwrap().status, Status::Claimed);
    let history = world.runtime.block_on(fleet.history("history")).unwrap();
    let folder = world.path("kept");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("history.json"), &history).unwrap();
    std::fs::rename(world.path("store"), folder.join("store")).unwrap();
    replays(&folder);
    // A version that asks for something else is found out.
    let text = String::from_utf8(history).unwrap();
    let changed = text.replace("rawko.verify", "rawko.step").replace("\"rawko.model\"", "\"rawko.step\"");
    assert_ne!(text, changed);
    let store = SharedStore::open(folder.join("store").to_str().unwrap()).unwrap();
    let refused = world.runtime.block_on(replay(changed.as_bytes(), &store));
    assert!(refused.is_err(), "a changed history was replayed");
}

pub(crate) fn a_task_stays_with_the_version_that_began_it() {
    let Some(world) = commands(&[
        "echo begun >> MARKS/begun; while [ ! -e MARKS/go ]; do sleep 0.1; done; pwd >> MARKS/where; echo 1 > one.txt",
        "pwd >> MARKS/where; echo 2 > two.txt",
    ]) else {
        return;
    };
    let options = |name: &str, build: &str| WorkerOptions {
        deployment: Some(("rawko".to_owned(), build.to_owned())),
        ..world.options(name)
    };
    let _first = WorkerProcess::start(&options("a", "1")).ready();
    world.current_version("rawko", "1");
    let fleet = world.submit("old", "Take two steps.");
    world.until("the task begins", || !world.marked("begun").is_empty());
    let _second = WorkerProcess::start(&options("b", "2")).ready();
    world.current_version("rawko", "2");
    std::fs::write(world.marks().join("go"), "").unwrap();
    world.ended(&fleet, "old");
    let of = |worker: &str| world.marked("where").iter().filter(|path| path.contains(worker)).count();
    assert_eq!((of("/a/trees"), of("/b/trees")), (2, 0), "{:?}", world.marked("where"));
    // A new task begins with the new version.
    let fleet = world.submit("new", "Take two steps.");
    world.ended(&fleet, "new");
    assert_eq!((of("/a/trees"), of("/b/trees")), (2, 2), "{:?}", world.marked("where"));
}

pub(crate) fn a_panic_in_an_activity_is_an_attempt_that_failed() {
    let Some(world) = commands(&["echo 1 > one.txt"]) else { return };
    std::fs::write(world.path("user/panic"), "").unwrap();
    let _worker = world.worker("a");
    let fleet = world.submit("panic", "Take a step.");
    let ended = world.ended(&fleet, "panic");
    assert_eq!(ended.status.unwrap().outcome.unwrap().status, Status::Claimed);
    assert!(!world.path("user/panic").exists(), "it did not panic");
    assert!(world.logs().contains("a fault of the test"), "{}", world.logs());
}

pub(crate) fn a_panic_in_a_workflow_is_a_try_of_the_engine_and_not_the_end() {
    let Some(world) = commands(&["echo 1 > one.txt"]) else { return };
    std::fs::write(world.path("user/panic-in-workflow"), "").unwrap();
    let mut worker = world.worker("a");
    let fleet = world.submit("sick", "Take a step.");
    let ended = world.ended(&fleet, "sick");
    assert_eq!(ended.status.unwrap().outcome.unwrap().status, Status::Claimed);
    assert!(!world.path("user/panic-in-workflow").exists(), "it did not panic");
    let history = world.history("sick");
    assert!(history.contains("WORKFLOW_TASK_FAILED") && history.contains("a fault of the test"), "{history}");
    assert!(!worker.is_gone(), "the worker died of it");
}
