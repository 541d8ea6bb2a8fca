//! A kill right after each record, exactly: the journal's first records, with and without half of the next one, in a
//! world in which nothing of what they announce was done, or all of it.

use crate::baseline::{Baseline, effects, replies};
use crate::script::Script;
use crate::support::{copy, each, sweep};
use crate::world::World;
use crate::{end, requests};

use rawko::journal::{JournaledEffect, Record};
use rawko_core::session::{Effect, EffectAnswer, Event};

/// One state of the world.
#[derive(Debug, Clone, Copy)]
struct Case {
    /// Records after the header.
    records: usize,
    /// The change that the last record announces was made, and its answer not recorded.
    done: bool,
    /// The next record was being written.
    torn: bool,
}

#[test]
fn a_run_killed_after_any_record_ends_like_one_that_was_not_killed() {
    let baseline = Baseline::of(Script::twelve_turns());
    let all = baseline.journal.records.len();
    assert!(all > 60, "a run of twelve turns has more records: {all}");
    let mut cases = Vec::new();
    for records in 1..all {
        let running = baseline.changes_begun(records) > baseline.changes_answered(records);
        let torn = records % 2 == 0;
        cases.push(Case { records, done: false, torn });
        cases.extend(running.then_some(Case { records, done: true, torn: !torn }));
    }
    assert!(cases.iter().filter(|case| case.done).count() >= baseline.script.changes().len());
    let cases = sweep(cases, |case| (baseline.kind(case.records), case.done));
    each(&cases, |case| check(&baseline, *case));
}

#[test]
fn where_there_is_nothing_to_take_up_it_is_said() {
    let baseline = Baseline::of(Script::twelve_turns());
    let all = baseline.journal.records.len();
    for (records, words) in [(0, "before its task was recorded"), (all, "no unfinished session")] {
        let case = Case { records, done: true, torn: false };
        let world = state(&baseline, case);
        let before = world.records();
        let server = baseline.script.serve();
        let ended = world.resume_at_its_word(&server).end();
        assert_eq!(ended.code, Some(2), "{}", ended.err);
        assert!(ended.err.contains(words) && ended.err.contains("hint:"), "{}", ended.err);
        assert_eq!((world.records(), server.asked().len()), (before, 0));
    }
}

/// A clone may bring a journal along whose next step is a command: nothing of it is done unasked.
#[test]
fn a_journal_from_elsewhere_is_not_taken_at_its_word() {
    let baseline = Baseline::of(Script::twelve_turns());
    let records = baseline.journal.records.len() / 2;
    let world = state(&baseline, Case { records, done: false, torn: false });
    let before = (world.records(), world.lines());
    let server = baseline.script.serve();
    let ended = world.resume(&server).end();
    assert_eq!(ended.code, Some(5), "{}", ended.err);
    assert!(ended.err.contains("not begun by you") && ended.err.contains("--yes"), "{}", ended.err);
    assert_eq!(((world.records(), world.lines()), server.asked().len()), (before, 0));
}

#[track_caller]
fn check(baseline: &Baseline, case: Case) {
    let what = format!("{case:?}");
    let world = state(baseline, case);
    let server = baseline.script.serve();
    let ended = world.resume_at_its_word(&server).end();
    let lost = end::check(&what, Some(&ended), &world, baseline);
    let begun = baseline.changes_begun(case.records);
    assert_eq!(lost, begun - baseline.changes_answered(case.records), "{what}: changes lost");

    let records = baseline.records(case.records);
    let asked = requests::bodies(&server, &baseline.after);
    let opened = effects(records).filter_map(conversation).max().unwrap_or(0);
    requests::check(&what, &asked, baseline, replies(records), opened);
    // Questions that were answered before the kill were not asked again, and none was asked twice after it.
    let resumed = world.journal();
    assert_eq!(asked.len(), replies(&resumed.records) - replies(records), "{what}");
}

fn conversation(effect: &JournaledEffect) -> Option<u64> {
    match effect {
        JournaledEffect::Whole(Effect::CallModel { conversation, .. }) => Some(*conversation),
        _ => None,
    }
}

/// The world as the kill leaves it.
fn state(baseline: &Baseline, case: Case) -> World {
    let world = World::copy_of(&baseline.before);
    // What the journal says was kept is there. In every second world so is what the run had kept of the tree by its
    // end: more than it had by then, which must do no harm.
    let kept = |record: &Record| matches!(record, Record::Event(it) if matches!(it.event, Event::Answered { answer: EffectAnswer::CheckpointTaken { .. }, .. }));
    if case.torn || baseline.records(case.records).iter().any(kept) {
        std::fs::remove_dir_all(world.project().join(".git")).unwrap();
        copy(&baseline.after.project().join(".git"), &world.project().join(".git"));
    }
    copy(&baseline.after.project().join(".rawko"), &world.project().join(".rawko"));
    let path = world.journal_path().unwrap();
    let journal = std::fs::read(&path).unwrap();
    let ends: Vec<usize> = (1..=journal.len()).filter(|at| journal[at - 1] == b'\n').collect();
    let whole = ends[case.records];
    let next = ends.get(case.records + 1).map_or(0, |end| end - whole);
    let length = if case.torn { whole + next / 2 } else { whole };
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length as u64).unwrap();

    let done = if case.done {
        baseline.changes_begun(case.records)
    } else {
        baseline.changes_answered(case.records)
    };
    for command in &baseline.script.changes()[..done] {
        world.shell(command);
    }
    world
}
