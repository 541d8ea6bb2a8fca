//! Real signals: SIGKILL as soon as a record is there, at any instant, and again while the run is taken up.

use std::time::{Duration, Instant};

use rawko::journal::Record;
use rawko_core::session::Event;
use testkit::ModelServer;

use crate::baseline::Baseline;
use crate::end::{self, is_over};
use crate::requests;
use crate::script::Script;
use crate::support::{Process, each, is_thorough, sweep};
use crate::world::World;

#[test]
fn killed_when_a_record_is_written() {
    let baseline = Baseline::of(Script::twelve_turns());
    let cases = sweep((1..=baseline.journal.records.len()).collect(), |records| baseline.kind(*records));
    each(&cases, |records| {
        let world = World::copy_of(&baseline.before);
        let server = baseline.script.serve();
        // The header is a record, too.
        world.run(&server).kill_when(|| world.records() > *records);
        let resumed = (!is_over(&world)).then(|| world.resume(&server));
        check(&format!("killed at record {records}"), &baseline, &world, &server, resumed);
    });
}

#[test]
fn a_continued_session_killed_when_a_record_is_written() {
    let baseline = Baseline::of(Script::two_tasks());
    let next = |record: &Record| matches!(record, Record::Event(it) if matches!(it.event, Event::TaskContinued { .. }));
    // The header is a record, too.
    let first = 1 + baseline.journal.records.iter().position(next).unwrap();
    let cases: Vec<usize> = (first..=baseline.journal.records.len()).collect();
    assert!(cases.len() > 30, "{cases:?}");
    let cases = sweep(cases, |records| baseline.kind(*records));
    each(&cases, |records| {
        let world = World::copy_of(&baseline.before);
        let server = baseline.script.serve();
        let ended = world.run(&server).end();
        assert_eq!((ended.code, world.records()), (Some(0), first), "{}", ended.err);
        world.go_on(&server).kill_when(|| world.records() > *records);
        let last = match world.records() {
            // The next task was not recorded.
            now if now == first => Some(world.go_on(&server)),
            _ if is_over(&world) => None,
            _ => Some(world.resume(&server)),
        };
        check(&format!("killed at record {records}"), &baseline, &world, &server, last);
    });
}

#[test]
fn killed_at_any_instant_and_again() {
    let baseline = Baseline::of(Script::long());
    let whole = baseline.took;
    let cases: Vec<u32> = (0..if is_thorough() { 32 } else { 12 }).collect();
    each(&cases, |case| {
        let world = World::copy_of(&baseline.before);
        let server = baseline.script.serve();
        // Spread by the golden section over the whole run, and over what a resume takes at first; what it hits is the
        // machine's to say.
        let share = f64::from(*case) * 0.618_034 % 1.0;
        let patience =
            [whole.mul_f64(share), whole.mul_f64(share * 5.0 % 0.3), whole.mul_f64(share * 3.0 % 0.3)];
        let mut running = world.run(&server);
        let mut kills = 0;
        for patience in patience {
            kills += u32::from(running.kill_when(after(patience)));
            match world.records() {
                // Before the task was recorded there is nothing to take up: then it begins anew.
                0 | 1 => {
                    std::fs::remove_dir_all(world.project().join(".rawko")).unwrap_or_default();
                    running = world.run(&server);
                }
                _ if is_over(&world) => {
                    return check(&format!("case {case}, {kills} kills"), &baseline, &world, &server, None);
                }
                _ => running = world.resume(&server),
            }
        }
        check(&format!("case {case}, {kills} kills"), &baseline, &world, &server, Some(running));
    });
}

fn after(patience: Duration) -> impl FnMut() -> bool {
    let begun = Instant::now();
    move || begun.elapsed() >= patience
}

#[track_caller]
fn check(what: &str, baseline: &Baseline, world: &World, server: &ModelServer, last: Option<Process>) {
    let ended = last.map(Process::end);
    end::check(what, ended.as_ref(), world, baseline);
    requests::check(what, &requests::bodies(server, world), baseline, 0, 0);
}
