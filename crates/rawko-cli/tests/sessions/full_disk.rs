//! A disk that is full in mid-run: the run stops and says so, what it began is ended, the journal ends in a whole record,
//! and the session goes on once there is room.

use std::collections::BTreeSet;
use std::path::Path;

use rawko::journal::{JournaledEffect, Record, SessionStatus, SessionStore, read};
use rawko_core::session::{EffectAnswer, Event};
use serde_json::{Value, json};

use crate::bench::{Bench, complete, report, select, turn};

/// Turns of the script: far more than the disk has room for.
const TURNS: usize = 36;

/// A long run, each turn of which takes some room.
fn long(mark: &str) -> Value {
    let turns = (0..TURNS).map(|n| {
        // What runs in the background of a command ends with it, and must not be there when the run stops.
        // New words in a file are progress: the run is not stopped for going round in circles.
        let word: String = format!("{n:02}").bytes().map(|digit| char::from(digit + b'a' - b'0')).collect();
        let command = format!("sleep {mark}{n:02} & echo word{word} >> notes; seq 1 1500 | tail -n 900");
        turn(&"I go on. ".repeat(200), "Bash", json!({ "command": command }))
    });
    let mut answers = vec![select()];
    for (n, turn) in turns.enumerate() {
        // An execution has a limit of turns.
        if n > 0 && n % 8 == 0 {
            answers.push(report());
            answers.push(
                json!({"for": "evaluate", "decision": {"decision": "SELECT_MODE", "mode": "developer", "reason": "r"}}),
            );
        }
        answers.push(turn);
    }
    answers.extend([report(), complete()]);
    json!(answers)
}

/// What holds of the sessions in `folder` after the disk was full.
#[track_caller]
fn check(folder: &Path) {
    let store = SessionStore::at(folder.to_owned());
    let sessions = store.list().unwrap();
    assert_eq!((sessions.len(), sessions[0].status), (1, SessionStatus::Unfinished));
    let path = store.find("last").unwrap();
    let journal = read(&path).unwrap();
    assert_eq!(journal.torn_bytes, 0, "it ends in a whole record");
    let answered = journal.records.iter().filter(
        |record| matches!(record, Record::Event(stamped) if matches!(stamped.event, Event::Answered { answer: EffectAnswer::ToolFinished { .. }, .. })),
    );
    let answered = answered.count();
    assert!((1..TURNS).contains(&answered), "it stopped in mid-run: {answered}");
    assert_eq!(rawko::journal::fold(&journal).divergence, None);
    let left = std::fs::read_dir(path.parent().unwrap()).unwrap();
    let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name == "new"), "{names:?}");
}

/// What distinguishes the programs of one test from those of all others.
fn mark(test: u32) -> String {
    format!("{test}{}", std::process::id())
}

/// Programs of the script that outlived the run.
fn left_over(mark: &str) -> usize {
    let start = format!("sleep\0{mark}").into_bytes();
    let of = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).ok();
    let running = std::fs::read_dir("/proc").unwrap().filter_map(|entry| of(entry.unwrap()));
    running.filter(|line| line.starts_with(&start)).count()
}

#[test]
fn a_limit_on_the_size_of_files_stops_the_run_and_a_resume_ends_it() {
    let mark = mark(1);
    let bench = Bench::new(&long(&mark));
    // Blocks of 512 bytes; the signal that goes with the limit would kill, as a full disk does not.
    let said = bench.shell("trap '' XFSZ; ulimit -f 400; exec \"$0\" run 'Do it.'");
    said.check(1, &["cannot write", "journal.jsonl", "File too large", "rawko doctor"]);
    check(bench.store().folder());
    assert_eq!(left_over(&mark), 0);

    bench.rawko(&["resume", "--quiet"]).check(0, &["all done"]);
    let journal = bench.journal();
    // The answer that did not fit is unknown to the resumed run: where it was a command's, it is said to be lost.
    let answered = journal.records.iter().filter(|record| {
        let Record::Event(stamped) = record else { return false };
        matches!(
            stamped.event,
            Event::Answered { answer: EffectAnswer::ToolFinished { .. }, .. }
                | Event::Answered { answer: EffectAnswer::EffectLost, .. }
        )
    });
    let commands = journal.records.iter().filter_map(|record| match record {
        Record::Step(step) => Some(step.effects.iter()),
        Record::Event(_) => None,
    });
    let commands: BTreeSet<_> = commands
        .flatten()
        .filter_map(|effect| match effect {
            JournaledEffect::RunTool { id, .. } => Some(*id),
            JournaledEffect::Whole(_) => None,
        })
        .collect();
    let answered = answered.filter(|record| {
        matches!(record, Record::Event(stamped) if stamped.event.answers().is_some_and(|id| commands.contains(&id)))
    });
    assert_eq!((commands.len(), answered.count()), (TURNS, TURNS), "each command was run and answered once");
}

#[test]
fn a_full_file_system_stops_the_run() {
    let mark = mark(2);
    let bench = Bench::new(&long(&mark));
    let kept = bench.outside().join("kept");
    // A file system of its own that is gone with the shell.
    let script = format!(
        "mkdir .rawko && mount -t tmpfs -o size=256k none .rawko 2>/dev/null || exit 77; \
         \"$0\" run 'Do it.'; code=$?; cp -rp .rawko/sessions '{}'; exit $code",
        kept.display()
    );
    let said = bench.shell(&format!("exec unshare -m sh -c '{}' \"$0\"", script.replace('\'', "'\\''")));
    if said.code == Some(77) || said.err.contains("unshare") {
        testkit::skip("this process may not mount a file system");
        return;
    }
    said.check(1, &["cannot write", "No space left on device", "rawko doctor"]);
    check(&kept);
    assert_eq!(left_over(&mark), 0);
}

#[test]
fn what_could_not_begin_on_a_full_disk_is_in_the_way_of_no_resume() {
    let bench = Bench::new(&long(&mark(3)));
    bench.shell("trap '' XFSZ; ulimit -f 400; exec \"$0\" run 'Do it.'").check(1, &["File too large"]);
    let unfinished = bench.store().list().unwrap().remove(0).id;
    // Not one byte fits, then the header does and the task does not.
    for blocks in [0, 4] {
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" run 'Do more.'");
        bench.shell(&script).check(1, &["File too large"]);
    }
    let sessions = bench.store().list().unwrap();
    let found: Vec<_> = sessions.iter().map(|session| session.status).collect();
    assert_eq!(found, [SessionStatus::Unfinished, SessionStatus::NotBegun]);
    bench.rawko(&["sessions", "list"]).check(0, &["unfinished", "not begun"]);
    // The last session is the last that was begun.
    bench.rawko(&["sessions", "show", "last"]).check(0, &[unfinished.as_str()]);
    bench.rawko(&["resume", "--quiet"]).check(0, &["all done"]);
    assert_eq!(bench.store().info(&unfinished).unwrap().unwrap().status, SessionStatus::Ended);
    // What is removed is the last of the list, not the last that was begun.
    let removed = format!("removed {}", sessions[1].id);
    bench.rawko(&["sessions", "rm", "last", "--yes"]).check(0, &[removed.as_str()]);
    assert_eq!(bench.store().list().unwrap().len(), 1);
}
