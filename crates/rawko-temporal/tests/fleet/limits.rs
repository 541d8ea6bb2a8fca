//! What a fleet limits: money, rates, sizes.

use std::time::Instant;

use rawko_core::session::Status;
use rawko_temporal::{EngineState, FleetError};
use serde_json::json;

use crate::worker::{WorkerOptions, WorkerProcess};
use crate::world::{World, bash, commands, developer};

pub(crate) fn tasks_of_a_submission_share_its_budget() {
    let Some(world) = World::new(developer(vec![bash("echo 1 > one.txt"); 20])) else { return };
    world.config(json!({
        "provider": {
            "default": "claude",
            "claude": {"baseUrl": world.models.claude_url(), "maxTokens": 1000},
        },
    }));
    let _workers = [world.worker("a"), world.worker("b")];
    let fleet = world.fleet();
    let ids: Vec<String> = (0..4).map(|number| format!("paid-{number}")).collect();
    world.runtime.block_on(fleet.open_budget("night", 0.2, &ids)).unwrap();
    for id in &ids {
        let mut spec = world.spec(id, "Take many steps.");
        spec.submission = Some("night".to_owned());
        spec.has_budget = true;
        world.runtime.block_on(fleet.submit(spec)).unwrap();
    }
    let mut spent = 0.0;
    let mut stopped = 0;
    for id in &ids {
        let outcome = world.ended(&fleet, id).status.unwrap().outcome.unwrap();
        spent += outcome.cost_usd.unwrap();
        let error = outcome.error.map(|error| error.message).unwrap_or_default();
        stopped += usize::from(error.contains("submission's budget"));
    }
    assert!(stopped >= 1, "no task was stopped by the budget, which is {spent} of 0.2");
    assert!(spent <= 0.2, "{spent} US dollars were spent of 0.2");
    assert!(spent > 0.0);
}

pub(crate) fn further_tasks_share_the_budget_of_their_submission() {
    let Some(world) = commands(&["[ -e MARKS/go ] || sleep 1; echo 1 > one.txt"]) else { return };
    let _worker = world.worker("a");
    let fleet = world.fleet();
    let submit = |id: &str| {
        let mut spec = world.spec(id, "Take a step.");
        spec.submission = Some("day".to_owned());
        spec.has_budget = true;
        world.runtime.block_on(fleet.submit(spec)).unwrap();
    };
    let open = |usd: f64, id: &str| {
        let opened = world.runtime.block_on(fleet.open_budget("day", usd, &[id.to_owned()]));
        opened.map_err(|error| error.to_string())
    };
    open(5.0, "early").unwrap();
    submit("early");
    assert!(open(6.0, "late").unwrap_err().contains("has a budget of 5 US dollars"));
    open(5.0, "late").unwrap();
    world.ended(&fleet, "early");
    // The budget waits for it.
    submit("late");
    assert_eq!(world.ended(&fleet, "late").status.unwrap().outcome.unwrap().status, Status::Claimed);
    open(5.0, "late").unwrap();
    world.until("the budget has ended", || {
        open(5.0, "too-late").is_err_and(|error| error.contains("has ended with the last of its tasks"))
    });
}

pub(crate) fn a_submission_has_a_name_without_a_budget() {
    let Some(world) = commands(&["echo 1 > one.txt"]) else { return };
    let _worker = world.worker("a");
    let fleet = world.fleet();
    let mut spec = world.spec("named", "Take a step.");
    spec.submission = Some("night".to_owned());
    world.runtime.block_on(fleet.submit(spec)).unwrap();
    let status = world.ended(&fleet, "named").status.unwrap();
    assert_eq!(status.outcome.unwrap().status, Status::Claimed);
    assert_eq!(status.submission.as_deref(), Some("night"));
}

pub(crate) fn a_call_without_a_price_is_not_made_on_a_budget() {
    let Some(world) = World::new(developer(Vec::new())) else { return };
    world.config(json!({
        "provider": {"default": "claude", "claude": {"baseUrl": world.models.claude_url(), "model": "unknown-model"}},
    }));
    let _worker = world.worker("a");
    let fleet = world.fleet();
    world.runtime.block_on(fleet.open_budget("dear", 100.0, &["dear".to_owned()])).unwrap();
    let mut spec = world.spec("dear", "Begin.");
    (spec.submission, spec.has_budget) = (Some("dear".to_owned()), true);
    world.runtime.block_on(fleet.submit(spec)).unwrap();
    let outcome = world.ended(&fleet, "dear").status.unwrap().outcome.unwrap();
    assert!(outcome.error.unwrap().message.contains("price of this model is not known"));
    assert_eq!(world.models.asked().len(), 0);
}

pub(crate) fn a_worker_without_keys_does_all_but_model_calls() {
    let Some(world) = commands(&["echo 1 > one.txt"]) else { return };
    let hands = WorkerOptions { is_keyless: true, slots: (0, 4, 1), ..world.options("a") };
    let mouth = WorkerOptions { slots: (20, 0, 0), ..world.options("b") };
    let _workers = [WorkerProcess::start(&hands).ready(), WorkerProcess::start(&mouth).ready()];
    let fleet = world.fleet();
    let mut spec = world.spec("keyless-hands", "Take a step.");
    spec.options.verify = Some(vec!["test -e one.txt".to_owned()]);
    world.runtime.block_on(fleet.submit(spec)).unwrap();
    let outcome = world.ended(&fleet, "keyless-hands").status.unwrap().outcome.unwrap();
    assert_eq!(outcome.status, Status::Verified, "{outcome:?}");
}

pub(crate) fn a_rate_limit_holds_for_all_workers_together() {
    let Some(world) = World::new(developer(vec![bash("echo 1 > one.txt"); 3])) else { return };
    let options =
        |name: &str| WorkerOptions { rates: [("claude".to_owned(), 2.0)].into(), ..world.options(name) };
    let _workers = [WorkerProcess::start(&options("a")).ready(), WorkerProcess::start(&options("b")).ready()];
    let begun = Instant::now();
    let fleet = world.fleet();
    let ids: Vec<String> = (0..4).map(|number| format!("slow-{number}")).collect();
    for id in &ids {
        world.runtime.block_on(fleet.submit(world.spec(id, "Take three steps."))).unwrap();
    }
    for id in &ids {
        world.ended(&fleet, id);
    }
    let calls = world.models.asked().len();
    let seconds = begun.elapsed().as_secs_f64();
    // The engine lets a second's worth pass at once.
    assert!(calls as f64 / seconds < 3.0, "{calls} calls in {seconds} s");
}

pub(crate) fn a_result_that_is_too_large_is_a_clear_error_and_not_the_end() {
    // A tool's own bound is far below: the memory of one call is the only way to come near the fleet's.
    let Some(world) = commands(&["head -c 200000000 /dev/zero | tr '\\0' x", "echo done > done.txt"]) else {
        return;
    };
    let _worker = world.worker("a");
    let fleet = world.submit("huge", "Print far too much.");
    let ended = world.ended(&fleet, "huge");
    assert_eq!(ended.status.unwrap().outcome.unwrap().status, Status::Claimed);
    assert!(world.largest_payload("huge") <= 64 * 1024);
}

pub(crate) fn a_task_that_cannot_begin_says_why() {
    let Some(world) = World::new(developer(Vec::new())) else { return };
    let _worker = world.worker("a");
    let fleet = world.fleet();
    let mut spec = world.spec("nowhere", "Begin.");
    spec.revision = Some("no-such-branch".to_owned());
    world.runtime.block_on(fleet.submit(spec)).unwrap();
    let ended = world.ended(&fleet, "nowhere");
    assert_eq!(ended.engine, EngineState::Failed);
    let history = world.failure("nowhere");
    assert!(history.contains("no-such-branch"), "{history}");
    // It never began: another task may have its id.
    let begun = world.runtime.block_on(fleet.submit(world.spec("nowhere", "Begin."))).unwrap();
    assert!(begun.is_new);
    assert_eq!(world.ended(&fleet, "nowhere").engine, EngineState::Completed);
    let again = world.runtime.block_on(fleet.submit(world.spec("nowhere", "Begin."))).unwrap();
    assert!(!again.is_new);
}

pub(crate) fn a_task_that_the_engine_has_forgotten_is_in_the_store() {
    let Some(world) = commands(&["echo 1 > one.txt"]) else { return };
    let _worker = world.worker("a");
    let fleet = world.submit("old", "Take a step.");
    let ended = world.ended(&fleet, "old");
    world.forget(&fleet, "old");
    let shown = world.runtime.block_on(fleet.show("old")).unwrap();
    assert_eq!((shown.engine, &shown.status), (ended.engine, &ended.status));
    assert!(shown.submitted_at.is_some() && shown.ended_at.is_some());
    assert_eq!(world.ended(&fleet, "old").status, ended.status, "a wait for it ends at once");
    // What an export writes.
    assert!(world.runtime.block_on(fleet.header("old")).unwrap().is_some());
    assert!(!world.events(&fleet, "old").is_empty());
    let again = world.runtime.block_on(fleet.submit(world.spec("old", "Take a step."))).unwrap();
    assert!(!again.is_new, "it is the same task");
    let other = world.runtime.block_on(fleet.submit(world.spec("old", "Do something else.")));
    assert!(matches!(other, Err(FleetError::OtherTask(_))), "{other:?}");
    let no_task = world.runtime.block_on(fleet.show("no_task"));
    assert!(matches!(no_task, Err(FleetError::NoTask(_))), "{no_task:?}");
}

pub(crate) fn a_worker_leaves_alone_what_it_is_not_for() {
    let Some(world) = commands(&["echo 1 > one.txt"]) else { return };
    let allowed = vec![world.path("*").to_str().unwrap().to_owned()];
    let options = WorkerOptions { repositories: Some(allowed), ..world.options("a") };
    let _worker = WorkerProcess::start(&options).ready();
    let fleet = world.submit("allowed", "Take a step.");
    assert_eq!(world.ended(&fleet, "allowed").engine, EngineState::Completed);
    // Readable for the worker, and not what it is for.
    let private = world.path("user/private.git");
    testkit::git(&world.remote(), &["clone", "--quiet", "--bare", ".", private.to_str().unwrap()]);
    let mut spec = world.spec("private", "Take a step.");
    spec.repository = private.to_str().unwrap().parse().unwrap();
    world.runtime.block_on(fleet.submit(spec)).unwrap();
    world.until("it says why it waits", || {
        let shown = world.runtime.block_on(fleet.show("private")).unwrap();
        shown.failure.is_some_and(|why| why.contains("handed back") && why.contains("--allow-repo"))
    });
    assert_eq!(testkit::git(&private, &["branch", "--list", "rawko/private"]), "");
    let _for_all = world.worker("b");
    assert_eq!(world.ended(&fleet, "private").engine, EngineState::Completed);
}

pub(crate) fn a_problem_that_holds_a_task_up_is_shown() {
    let Some(world) = World::new(developer(Vec::new())) else { return };
    let _worker = world.worker("a");
    let fleet = world.fleet();
    let mut spec = world.spec("lost", "Begin.");
    spec.repository = world.path("no-such-repository").to_str().unwrap().parse().unwrap();
    world.runtime.block_on(fleet.submit(spec)).unwrap();
    world.until("its problem is shown", || {
        let shown = world.runtime.block_on(fleet.show("lost")).unwrap();
        shown.failure.is_some_and(|failure| failure.contains("no-such-repository"))
    });
}

pub(crate) fn a_model_call_that_no_worker_makes_is_shown() {
    let Some(world) = World::new(developer(Vec::new())) else { return };
    // It begins tasks, and has no key.
    let _worker = WorkerProcess::start(&WorkerOptions { slots: (0, 4, 1), ..world.options("a") }).ready();
    let fleet = world.submit("keyless", "Begin.");
    world.until("it is shown", || {
        let shown = world.runtime.block_on(fleet.show("keyless")).unwrap();
        shown.waits_for.is_some_and(|waiting| waiting.queue == "test.models.claude")
    });
}

pub(crate) fn a_merge_request_is_made_once_at_a_good_end() {
    let Some(world) = commands(&["echo 1 > one.txt"]) else { return };
    let marks = world.marks();
    let command = format!(
        "echo \"$RAWKO_BRANCH $RAWKO_STATUS\" >> {}/merge; echo https://example.test/1",
        marks.display()
    );
    let options = WorkerOptions { merge_request: Some(command), ..world.options("a") };
    let _worker = WorkerProcess::start(&options).ready();
    let fleet = world.fleet();
    let mut spec = world.spec("merge", "Take a step.");
    spec.options.merge_request = true;
    world.runtime.block_on(fleet.submit(spec)).unwrap();
    let ended = world.ended(&fleet, "merge");
    assert_eq!(ended.status.unwrap().merge_request.as_deref(), Some("https://example.test/1"));
    assert_eq!(world.marked("merge"), ["rawko/merge claimed"]);
}

pub(crate) fn an_urgent_task_is_served_first() {
    let Some(world) = commands(&["echo 1 > one.txt"]) else {
        return;
    };
    let fleet = world.fleet();
    let submit = |id: &str, priority| {
        let mut spec = world.spec(id, "Take a step.");
        spec.carriage.priority = priority;
        world.runtime.block_on(fleet.submit(spec)).unwrap();
    };
    let patient: Vec<String> = (0..8).map(|number| format!("patient-{number}")).collect();
    patient.iter().for_each(|id| submit(id, 5));
    submit("urgent", 1);
    let options = WorkerOptions { slots: (1, 1, 1), ..world.options("a") };
    let _worker = WorkerProcess::start(&options).ready();
    let urgent = world.ended(&fleet, "urgent").ended_at.unwrap();
    let after = patient.iter().filter(|id| world.ended(&fleet, id).ended_at.unwrap() > urgent).count();
    assert!(after >= 5, "only {after} of 8 patient tasks ended after the urgent one");
}

pub(crate) fn a_submitter_of_few_tasks_does_not_wait_for_one_of_many() {
    // Off in an engine of one's own unless this says otherwise.
    let fair = ["matching.enableFairness=true"];
    let Some(world) = World::with_engine(developer(vec![bash("echo 1 > one.txt")]), &fair) else { return };
    let fleet = world.fleet();
    let submit = |submitter: &str, number: usize| {
        let mut spec = world.spec(&format!("{submitter}-{number}"), "Take a step.");
        spec.submitter = submitter.to_owned();
        world.runtime.block_on(fleet.submit(spec.clone())).unwrap();
        spec.id
    };
    let many: Vec<String> = (0..12).map(|number| submit("many", number)).collect();
    let few: Vec<String> = (0..2).map(|number| submit("few", number)).collect();
    let options = WorkerOptions { slots: (1, 1, 1), ..world.options("a") };
    let _worker = WorkerProcess::start(&options).ready();
    let ended = |id: &String| world.ended(&fleet, id).ended_at.unwrap();
    let few = few.iter().map(ended).max().unwrap();
    let after = many.iter().filter(|id| ended(id) > few).count();
    assert!(after >= 6, "only {after} of the 12 tasks ended after the two that were submitted last");
}
