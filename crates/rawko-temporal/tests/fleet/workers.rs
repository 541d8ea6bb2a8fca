//! Workers come and go.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rawko_core::session::Status;
use rawko_temporal::{Carriage, FleetError};
use rustix::process::Signal;
use serde_json::json;

use crate::worker::{WorkerOptions, WorkerProcess};
use crate::world::{World, bash, commands, commands_and, developer};

pub(crate) fn a_worker_killed_between_steps_does_none_of_them_twice() {
    let worker: Arc<Mutex<Option<WorkerProcess>>> = Arc::default();
    let victim = Arc::clone(&worker);
    let steps: Vec<String> = (0..6)
        .map(|number| format!("echo {number} >> MARKS/steps && echo {number} > {number}.txt"))
        .collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    // It dies while it asks, after three steps and before the fourth.
    let kill = move |turn, _: &Path| {
        if turn == 3
            && let Some(worker) = victim.lock().unwrap().take()
        {
            worker.kill();
        }
    };
    let Some(world) = commands_and(&steps, kill) else { return };
    *worker.lock().unwrap() = Some(world.worker("a"));
    let fleet = world.submit("between", "Take six steps.");
    world.until("the first worker dies", || worker.lock().unwrap().is_none());
    let _other = world.worker("b");
    let ended = world.ended(&fleet, "between");
    assert_eq!(ended.status.unwrap().outcome.unwrap().status, Status::Claimed);
    assert_eq!(world.marked("steps"), ["0", "1", "2", "3", "4", "5"]);
    assert_eq!(world.effects("between").len(), 6);
}

/// The attempts that made the commits of a task, oldest first.
fn attempts(world: &World, task: &str) -> Vec<String> {
    let format = "--format=%(trailers:key=Rawko-Attempt,valueonly)";
    let log = world.git(&["log", "--reverse", format, &format!("main..rawko/{task}")]);
    log.split_whitespace().map(str::to_owned).collect()
}

pub(crate) fn a_command_whose_worker_is_killed_is_of_unknown_outcome_and_soon() {
    let Some(world) = commands(&[
        "echo first >> MARKS/first; echo 1 > one.txt",
        "echo begun >> MARKS/begun; sleep 120; echo 2 > two.txt",
        "date +%s%3N >> MARKS/last; echo 3 > three.txt",
    ]) else {
        return;
    };
    let worker = world.worker("a");
    let fleet = world.fleet();
    let mut spec = world.spec("middle", "Take three steps.");
    spec.carriage = Carriage::default();
    world.runtime.block_on(fleet.submit(spec)).unwrap();
    world.until("the second step begins", || !world.marked("begun").is_empty());
    let _other = world.worker("b");
    worker.kill();
    let killed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let ended = world.ended(&fleet, "middle");
    assert_eq!(ended.status.unwrap().outcome.unwrap().status, Status::Claimed);
    assert_eq!((world.marked("first").len(), world.marked("last").len()), (1, 1));
    assert_eq!(world.marked("begun").len(), 1, "a command was begun twice");
    assert!(world.model_received("Outcome unknown"), "the agent does not know");
    assert_eq!(attempts(&world, "middle"), ["1", "1"]);
    let files = world.git(&["ls-tree", "--name-only", "rawko/middle"]);
    assert_eq!(files, "README.md\none.txt\nthree.txt\n");
    let took = world.marked("last")[0].parse::<u64>().unwrap() - killed;
    eprintln!("another worker has taken over after {took} ms");
    // Ten seconds, and what a busy machine needs.
    assert!(took < 25_000, "it took {took} ms until another worker took over");
}

pub(crate) fn a_verification_whose_worker_is_killed_is_done_again() {
    let Some(world) = commands(&["echo 1 > one.txt"]) else { return };
    let worker = world.worker("a");
    let fleet = world.fleet();
    let mut spec = world.spec("again", "Take a step.");
    let marks = world.marks().join("verified");
    let verify = format!("echo >> {0}; [ $(wc -l < {0}) -gt 1 ] || sleep 120", marks.display());
    spec.options.verify = Some(vec![verify]);
    world.runtime.block_on(fleet.submit(spec)).unwrap();
    world.until("the verification begins", || !world.marked("verified").is_empty());
    worker.kill();
    let _other = world.worker("b");
    assert_eq!(world.ended(&fleet, "again").status.unwrap().outcome.unwrap().status, Status::Verified);
}

pub(crate) fn a_worker_that_thaws_overwrites_nothing() {
    let Some(world) = commands(&[
        "echo begun >> MARKS/begun; while [ ! -e MARKS/go ]; do sleep 0.1; done; echo late > late.txt; echo >> MARKS/wrote",
        "echo next > next.txt",
    ]) else {
        return;
    };
    let frozen = world.worker("a");
    let fleet = world.submit("frozen", "Take two steps.");
    world.until("the step begins", || !world.marked("begun").is_empty());
    frozen.signal(Signal::STOP);
    let _other = world.worker("b");
    let ended = world.ended(&fleet, "frozen");
    let head = world.git(&["rev-parse", "rawko/frozen"]);
    assert_eq!(ended.status.unwrap().head.unwrap().as_str(), head.trim());
    assert_eq!(world.git(&["ls-tree", "--name-only", "rawko/frozen"]), "README.md\nnext.txt\n");
    // Its command is not frozen, and ends. When the worker goes on, it finds a result that it would push.
    std::fs::write(world.marks().join("go"), "").unwrap();
    world.until("the command of the frozen worker ends", || !world.marked("wrote").is_empty());
    frozen.signal(Signal::CONT);
    // Nothing is to happen, so there is nothing to wait for.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(world.git(&["rev-parse", "rawko/frozen"]), head);
}

pub(crate) fn an_untrusting_worker_ends_no_task() {
    let Some(world) = commands(&["echo 1 > one.txt"]) else { return };
    world.claim();
    let distrusts = WorkerOptions { is_trusting: false, slots: (0, 4, 1), ..world.options("a") };
    let _distrusts = WorkerProcess::start(&distrusts).ready();
    let fleet = world.fleet();
    let ids: Vec<String> = (0..4).map(|number| format!("claims-{number}")).collect();
    for id in &ids {
        world.runtime.block_on(fleet.submit(world.spec(id, "Take a step."))).unwrap();
    }
    for id in &ids {
        world.until("it says why it waits", || {
            let shown = world.runtime.block_on(fleet.show(id)).unwrap();
            assert_eq!(shown.ended_at, None, "{shown:?}");
            shown.failure.is_some_and(|why| why.contains("handed back") && why.contains("rawko worker --yes"))
        });
    }
    assert_eq!(world.notices().len(), 1, "the worker says it once: {:?}", world.notices());
    let _trusts = world.worker("b");
    for id in &ids {
        assert_eq!(world.ended(&fleet, id).status.unwrap().outcome.unwrap().status, Status::Verified, "{id}");
    }
    // Once for each kind of work that it would have done.
    assert!(world.notices().len() <= 2, "{:?}", world.notices());
}

pub(crate) fn a_worker_without_a_key_hands_model_calls_back() {
    let Some(world) = commands(&["echo 1 > one.txt"]) else { return };
    let server = json!({"baseUrl": world.models.claude_url(), "apiKeyEnv": "ANTHROPIC_API_KEY"});
    world.config(json!({"provider": {"default": "claude", "claude": server}}));
    let _keyless = WorkerProcess::start(&WorkerOptions { is_keyless: true, ..world.options("a") }).ready();
    let fleet = world.submit("call", "Take a step.");
    world.until("it says why it waits", || {
        let shown = world.runtime.block_on(fleet.show("call")).unwrap();
        assert_eq!(shown.ended_at, None, "{shown:?}\n{}", world.logs());
        shown.failure.is_some_and(|why| why.contains("handed back") && why.contains("ANTHROPIC_API_KEY"))
    });
    assert_eq!(world.models.asked().len(), 0);
    let _keyed = world.worker("b");
    assert_eq!(world.ended(&fleet, "call").status.unwrap().outcome.unwrap().status, Status::Claimed);
}

pub(crate) fn a_store_that_is_gone_is_not_made_anew_and_tasks_wait_for_it() {
    let Some(world) = commands(&[
        "echo 1 > one.txt; echo >> MARKS/begun; while [ ! -e MARKS/go ]; do sleep 0.1; done",
        "echo 2 > two.txt",
    ]) else {
        return;
    };
    let _worker = world.worker("a");
    let fleet = world.submit("lost", "Take two steps.");
    world.until("the first step begins", || !world.marked("begun").is_empty());
    let (store, kept) = (world.path("store"), world.path("kept"));
    std::fs::rename(&store, &kept).unwrap();
    std::fs::write(world.marks().join("go"), "").unwrap();
    world.until("the worker says so", || world.notices().iter().any(|notice| notice.contains("the store ")));
    assert!(!store.exists(), "it was made anew");
    let refused = |error: FleetError| {
        let text = error.to_string();
        assert!(text.contains("has no mark") && text.contains("--store"), "{text}");
    };
    refused(world.runtime.block_on(fleet.show("lost")).unwrap_err());
    // A worker that begins now makes an empty folder, and does not take it for the store.
    let anew = world.fleet();
    refused(world.runtime.block_on(anew.submit(world.spec("next", "Begin."))).unwrap_err());
    let mut late = WorkerProcess::start(&world.options("b"));
    world.until("a new worker ends", || late.is_gone());
    assert!(world.logs().contains("has no mark"), "{}", world.logs());
    // Another one is none either.
    std::fs::write(store.join("rawko-store"), "0123456789abcdef").unwrap();
    let other = world.runtime.block_on(fleet.show("lost")).unwrap_err();
    assert!(other.to_string().contains("has the mark 0123456789abcdef"), "{other}");

    std::fs::remove_dir_all(&store).unwrap();
    std::fs::rename(&kept, &store).unwrap();
    assert_eq!(world.ended(&fleet, "lost").status.unwrap().outcome.unwrap().status, Status::Claimed);
    assert_eq!(world.git(&["show", "rawko/lost:two.txt"]), "2\n");
}

pub(crate) fn a_worker_that_is_asked_to_end_finishes_its_step_and_another_one_takes_over_at_once() {
    let Some(world) = commands(&[
        "echo begun >> MARKS/begun; sleep 3; echo 1 > one.txt; date +%s%3N >> MARKS/times",
        "date +%s%3N >> MARKS/times; echo 2 > two.txt",
    ]) else {
        return;
    };
    let leaving = world.worker("a");
    let fleet = world.submit("drain", "Take two steps.");
    world.until("the step begins", || !world.marked("begun").is_empty());
    let _other = world.worker("b");
    leaving.signal(Signal::TERM);
    leaving.ends(Duration::from_secs(30));
    let ended = world.ended(&fleet, "drain");
    assert_eq!(ended.status.unwrap().outcome.unwrap().status, Status::Claimed);
    assert_eq!(world.marked("begun").len(), 1, "the step was finished, not begun again");
    let attempts =
        world.git(&["log", "--format=%(trailers:key=Rawko-Attempt,valueonly)", "main..rawko/drain"]);
    assert_eq!(attempts.split_whitespace().collect::<Vec<_>>(), ["1", "1"]);
    // The other one did not wait until it was noticed that the first one is gone.
    assert_eq!(world.decisions_in_vain("drain"), 0);
    let times: Vec<u64> = world.marked("times").iter().map(|time| time.parse().unwrap()).collect();
    eprintln!(
        "from the end of the first command to the beginning of the second, on the other worker: {} ms",
        times[1] - times[0]
    );
}

pub(crate) fn two_workers_share_the_work_and_keep_their_slots() {
    let Some(world) = commands(&[
        "W=$(pwd | grep -o '/[ab]/trees' | head -1); echo \"begin $W\" >> MARKS/log; sleep 1; echo \"end $W\" >> MARKS/log; echo 1 > one.txt",
    ]) else {
        return;
    };
    let options = |name| WorkerOptions { slots: (20, 2, 1), ..world.options(name) };
    let _workers = [WorkerProcess::start(&options("a")).ready(), WorkerProcess::start(&options("b")).ready()];
    let fleet = world.fleet();
    let ids: Vec<String> = (0..8).map(|number| format!("share-{number}")).collect();
    for id in &ids {
        world.runtime.block_on(fleet.submit(world.spec(id, "Take a step."))).unwrap();
    }
    for id in &ids {
        world.ended(&fleet, id);
    }
    let log = world.marked("log");
    for worker in ["/a/trees", "/b/trees"] {
        let (mut now, mut most, mut all) = (0, 0, 0);
        for line in log.iter().filter(|line| line.ends_with(worker)) {
            if line.starts_with("begin") {
                now += 1;
                all += 1;
            } else {
                now -= 1;
            }
            most = most.max(now);
        }
        assert!((1..=2).contains(&most), "{worker}: {most} steps at once\n{log:?}");
        assert!(all >= 2, "{worker} did {all} of 8 steps");
    }
}

pub(crate) fn what_a_worker_keeps_of_a_task_that_ended_elsewhere_is_removed() {
    let Some(world) =
        commands(&["echo 1 > one.txt", "echo >> MARKS/begun; [ $(wc -l < MARKS/begun) -gt 1 ] || sleep 120"])
    else {
        return;
    };
    let worker = world.worker("a");
    let fleet = world.submit("elsewhere", "Take two steps.");
    world.until("the second step begins", || !world.marked("begun").is_empty());
    worker.kill();
    let other = world.worker("b");
    world.ended(&fleet, "elsewhere");
    let kept = |worker: &str| world.path(worker).join("trees/elsewhere").exists();
    assert!(kept("a"), "a killed worker removes nothing");
    drop(other);
    let _again = world.worker("a");
    world.until("it is removed", || !kept("a"));
    assert!(!kept("b"));
}

pub(crate) fn a_worker_may_begin_before_the_engine() {
    let Some(mut world) = World::new(developer(vec![bash("echo 1 > one.txt")])) else { return };
    world.engine.kill();
    let worker = WorkerProcess::start(&world.options("a"));
    std::thread::sleep(Duration::from_secs(2));
    world.engine.start_again();
    let _worker = worker.ready();
    let fleet = world.submit("early", "Take a step.");
    assert_eq!(world.ended(&fleet, "early").status.unwrap().outcome.unwrap().status, Status::Claimed);
}

pub(crate) fn an_engine_killed_under_load_loses_no_task_and_repeats_no_commit() {
    let Some(mut world) =
        commands(&["echo 1 > one.txt", "sleep 0.5; echo 2 > two.txt", "echo 3 > three.txt"])
    else {
        return;
    };
    let _workers = [world.worker("a"), world.worker("b")];
    let fleet = world.fleet();
    let ids: Vec<String> = (0..10).map(|number| format!("load-{number}")).collect();
    for id in &ids {
        world.runtime.block_on(fleet.submit(world.spec(id, "Take three steps."))).unwrap();
    }
    std::thread::sleep(Duration::from_secs(2));
    world.engine.kill();
    std::thread::sleep(Duration::from_secs(1));
    world.engine.start_again();
    let fleet = world.fleet();
    for id in &ids {
        let ended = world.ended(&fleet, id);
        assert_eq!(ended.status.unwrap().outcome.unwrap().status, Status::Claimed, "{id}");
        let effects = world.effects(id);
        let once: std::collections::BTreeSet<_> = effects.iter().collect();
        assert_eq!((effects.len(), once.len()), (3, 3), "{id}: {effects:?}");
    }
}

pub(crate) fn a_result_is_single_after_an_outage_that_is_longer_than_a_heartbeat() {
    let Some(mut world) =
        commands(&["echo begun >> MARKS/begun; sleep 4; echo 1 > one.txt", "echo 2 > two.txt"])
    else {
        return;
    };
    let _worker = world.worker("a");
    let fleet = world.submit("outage", "Take two steps.");
    world.until("the step begins", || !world.marked("begun").is_empty());
    world.engine.kill();
    // The step ends in the meantime, and there is no engine to report it to.
    std::thread::sleep(Duration::from_secs(6));
    world.engine.start_again();
    let fleet_again = world.fleet();
    drop(fleet);
    let ended = world.ended(&fleet_again, "outage");
    assert_eq!(ended.status.unwrap().outcome.unwrap().status, Status::Claimed);
    assert_eq!(world.effects("outage").len(), 2);
    assert_eq!(world.marked("begun").len(), 1, "what was done was not done again");
}
