//! What sessions cost as they grow: appending a turn, opening a long journal, listing many sessions.
//!
//! `cargo bench -p rawko --bench journal`. Figures and their limits are in `docs/performance.md`; the program fails where
//! one is missed (`--no-limits` for a machine that is busy with something else).

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use rawko::journal::{JournalWriter, SessionStore, fold, read};
use rawko::{ForkOptions, Rawko};
use rawko_core::Timestamp;
use rawko_core::machine::State;
use rawko_core::session::{EffectAnswer, EffectId, Event, Stamped};

/// Turns of the long session: executions of twenty turns each.
const EXECUTIONS: u32 = 500;
const TURNS: u32 = 20;
/// Sessions in the list.
const SESSIONS: u32 = 1_000;

fn main() -> ExitCode {
    let limits = !std::env::args().any(|argument| argument == "--no-limits");
    let dir = tempfile::tempdir().unwrap();
    let mut missed = false;
    let mut say = |what: &str, took: Duration, limit: Option<Duration>| {
        let over = limit.is_some_and(|limit| took > limit);
        missed |= over;
        let limit = limit.map(|limit| format!(" (limit {limit:?})")).unwrap_or_default();
        println!("{what:<58} {took:>12.3?}{limit}{}", if over { "  MISSED" } else { "" });
    };

    // Ten times the turns must cost ten times as much, not more.
    let begun = Instant::now();
    drop(support::long_session(&dir.path().join("tenth"), EXECUTIONS / 10, TURNS));
    let tenth = EXECUTIONS / 10 * TURNS;
    say(&format!("append and fold, one turn of {tenth}"), begun.elapsed() / tenth, None);
    let begun = Instant::now();
    let long = dir.path().join(".rawko/sessions/20261122-090000-000-abcde");
    std::fs::create_dir_all(long.parent().unwrap()).unwrap();
    let play = support::long_session(&long, EXECUTIONS, TURNS);
    let turns = EXECUTIONS * TURNS;
    say(&format!("append and fold, one turn of {turns}"), begun.elapsed() / turns, None);
    let path = play.writer.path().to_owned();
    println!("{:<58} {:>9} kB", "  its journal", play.writer.length() / 1_000);
    drop(play);

    let (took, journal) = best(5, || read(&path).unwrap());
    say(&format!("read and verify {} records", journal.records.len()), took, None);
    let (took, folded) = best(5, || fold(&journal));
    assert!(folded.divergence.is_none() && folded.session.state() == State::Complete);
    say("fold them and compare every step", took, None);
    let (took, _) = best(5, || {
        let (writer, journal) = JournalWriter::reopen(&path).unwrap();
        (writer, fold(&journal))
    });
    say(&format!("open a session of {turns} turns"), took, Some(Duration::from_secs(1)));

    let rawko = Rawko::builder().project(dir.path()).trusted(true).build().unwrap();
    let (took, _) = best(2, || rawko.fork("20261122-090000-000-abcde", &ForkOptions::default()).unwrap());
    say(&format!("fork a session of {turns} turns"), took, Some(Duration::from_secs(1)));

    let short = dir.path().join("short");
    let play = support::long_session(&short, 1, 20);
    let mut writer = JournalWriter::create(&dir.path().join("durable"), &support::header("durable")).unwrap();
    let stamped = Stamped {
        at: Timestamp(1),
        event: Event::Answered { effect: EffectId(1), answer: EffectAnswer::TimerFired },
    };
    let begun = Instant::now();
    for _ in 0..100 {
        writer.event(&stamped).unwrap();
        writer.commit().unwrap();
    }
    say("append one small record and make it durable", begun.elapsed() / 100, None);
    let length = play.writer.length();
    drop(play);

    let sessions = dir.path().join("sessions");
    for number in 0..SESSIONS {
        let at = sessions.join(format!("session-{number:04}"));
        std::fs::create_dir_all(&at).unwrap();
        // Each is of some length, because a list must not depend on it.
        std::fs::copy(short.join("journal.jsonl"), at.join("journal.jsonl")).unwrap();
    }
    let store = SessionStore::at(sessions);
    let (took, listed) = best(5, || store.list().unwrap());
    assert!(listed.iter().all(|session| session.outcome.is_some()));
    let what = format!("list {} sessions of {} kB each", listed.len(), length / 1_000);
    say(&what, took, Some(Duration::from_millis(100)));

    ExitCode::from(u8::from(missed && limits))
}

/// The shortest of several times, and the last result.
fn best<T>(times: u32, work: impl Fn() -> T) -> (Duration, T) {
    let mut shortest = Duration::MAX;
    let mut last = None;
    for _ in 0..times {
        // The session of the last round is dropped first: a session is open once only.
        drop(last.take());
        let begun = Instant::now();
        last = Some(std::hint::black_box(work()));
        shortest = shortest.min(begun.elapsed());
    }
    (shortest, last.expect("it ran"))
}
