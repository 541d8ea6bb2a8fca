//! The journal's stored form: the files in `golden/` are what this rawko writes, byte for byte, and what it reads.
//!
//! A change that fails `what_is_written_is_the_golden_form` changes the stored form. If it is meant: raise
//! `journal::FORMAT`, so that no journal of another form looks like a current one, write the files anew with
//! `RAWKO_WRITE_GOLDEN=1`, and give the changelog a line. A new variant of an event, effect or note is such a change; a new
//! field that is left out where it is empty, and that may be missing, is not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]

#[path = "golden/every_record.rs"]
mod every_record;
mod support;

use std::path::{Path, PathBuf};

use rawko::journal::{FORMAT, Journal, JournalWriter, Record, StepRecord, differences, read};
use rawko_core::machine::State;
use rawko_core::session::{Effect, EffectAnswer, Event, Session, Status};
use serde_json::json;
use support::Play;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// A whole session: plan, tools, a denial, a failure, a long output in a blob, a resume, an end.
fn session(directory: &Path) {
    let mut play = Play::begin(directory, support::setup(9));
    play.decide(json!({"decision": "SELECT_MODE", "mode": "developer", "reason": "somebody must"}));
    play.reply(
        "I begin. – Ünïcode \u{1b}[31m \"quoted\" \\ <b>",
        &[("Read", json!({"file_path": "big.txt"})), ("Read", json!({"file_path": "two.txt"}))],
    );
    play.answer(&"0123456789abcdef\n".repeat(5_000));
    play.answer("two\n");
    let effect = play.open();
    let error = rawko_core::ErrorInfo::new(rawko_core::ErrorCode::NetworkError, "the line broke");
    play.give(Event::Answered {
        effect,
        answer: EffectAnswer::ModelFailed { error, duration_ms: 7, usage: None },
    });
    let effect = play.open();
    play.give(Event::Answered { effect, answer: EffectAnswer::TimerFired });
    play.decide(json!({"decision": "SELECT_MODE", "mode": "developer", "reason": "once more"}));
    play.give(Event::SessionResumed {
        changed_files: vec!["two.txt".into()],
        verify: None,
        limits: None,
        lost: rawko_core::session::Lost::default(),
    });
    // A value that looks like a reference to a blob is text like any other.
    let posing = json!({"at": "/outcome/content", "sha256": "0".repeat(64), "bytes": 1});
    play.reply("", &[("Read", json!({"file_path": "x", "blobs": [posing]}))]);
    play.answer("{\"blobs\":[]}");
    play.report("did it");
    play.decide(json!({"decision": "COMPLETE", "summary": "all done", "reason": "it works"}));
}

/// Every kind of record, with every field that it can have.
fn records(directory: &Path) {
    let mut writer = JournalWriter::create(directory, &every_record::header()).unwrap();
    for event in every_record::events() {
        writer.event(&event).unwrap();
    }
    writer.step(&every_record::step()).unwrap();
}

fn files_of(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files =
        vec![("journal.jsonl".to_owned(), std::fs::read(directory.join("journal.jsonl")).unwrap())];
    for entry in std::fs::read_dir(directory.join("blobs")).into_iter().flatten() {
        let entry = entry.unwrap();
        files.push((entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()));
    }
    files.sort();
    files
}

#[track_caller]
fn same_files(written: &Path, golden: &Path) {
    if std::env::var_os("RAWKO_WRITE_GOLDEN").is_some() {
        let _ = std::fs::remove_dir_all(golden);
        std::fs::create_dir_all(golden.join("blobs")).unwrap();
        for (name, bytes) in files_of(written) {
            let folder = if name == "journal.jsonl" { golden.to_owned() } else { golden.join("blobs") };
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
    let (written, golden) = (files_of(written), files_of(golden));
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&written), names(&golden), "other files than the golden ones");
    for ((name, written), (_, golden)) in written.iter().zip(&golden) {
        let lines =
            |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect::<Vec<_>>();
        for (number, (written, golden)) in lines(written).iter().zip(&lines(golden)).enumerate() {
            assert_eq!(
                written,
                golden,
                "{name}, line {}: something else is written. If the form is to change, do what the head of this file says",
                number + 1
            );
        }
        assert_eq!(written.len(), golden.len(), "{name}");
    }
}

/// The journal as today's writer writes it.
fn rewritten(directory: &Path, journal: &Journal) {
    let mut writer = JournalWriter::create(directory, &journal.header).unwrap();
    for record in &journal.records {
        match record {
            Record::Event(event) => writer.event(event).unwrap(),
            Record::Step(step) => writer.step(step).unwrap(),
        }
    }
}

/// Golden files are copied out: git does not keep that they are their owner's alone, and a checkout may link them.
fn copied(name: &str) -> (tempfile::TempDir, Journal) {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join(name);
    std::fs::create_dir_all(at.join("blobs")).unwrap();
    for (name, bytes) in files_of(&golden(name)) {
        let folder = if name == "journal.jsonl" { at.clone() } else { at.join("blobs") };
        std::fs::write(folder.join(name), bytes).unwrap();
    }
    let journal = read(&at.join("journal.jsonl")).unwrap();
    (dir, journal)
}

#[test]
fn the_golden_session_is_read_and_leads_to_its_end() {
    let (_dir, journal) = copied("session");
    assert_eq!((journal.header.format, journal.header.session.as_str()), (FORMAT, "session"));
    assert_eq!((journal.records.len(), journal.torn_bytes), (25, 0));
    let (mut session, mut outcome, mut longest) = (Session::new(), None, 0);
    let mut records = journal.records.iter().peekable();
    while let Some(Record::Event(stamped)) = records.next() {
        if let Event::Answered { answer: EffectAnswer::ToolFinished { outcome, .. }, .. } = &stamped.event {
            longest = longest.max(outcome.content.len());
        }
        let reaction = session.apply(stamped);
        assert!(!reaction.ignored, "{stamped:?}");
        let derived = StepRecord::of(&reaction.effects, &reaction.notes);
        if let Some(Record::Step(recorded)) = records.next_if(|record| matches!(record, Record::Step(_))) {
            let mut differences = differences(recorded, &derived);
            // Requests to models may change from version to version; `rawko replay` says so.
            differences.retain(|difference| !difference.field.ends_with(".digest"));
            assert_eq!(differences, [], "{stamped:?}");
        }
        outcome = reaction.effects.into_iter().find_map(|effect| match effect {
            Effect::Finish { outcome } => Some(*outcome),
            _ => None,
        });
    }
    assert_eq!(longest, 85_000, "the blob is resolved");
    assert_eq!(session.state(), State::Complete);
    let outcome = outcome.unwrap();
    assert_eq!((outcome.status, outcome.agent_summary.as_deref()), (Status::Claimed, Some("all done")));
    assert_eq!((outcome.iterations, outcome.usage.total_tokens()), (2, 720));
}

#[test]
fn what_is_written_is_the_golden_form() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("records");
    records(&at);
    same_files(&at, &golden("records"));
    if std::env::var_os("RAWKO_WRITE_GOLDEN").is_some() {
        let at = dir.path().join("session");
        session(&at);
        same_files(&at, &golden("session"));
    }
    // The session's prompts may differ from today's: its records are written again, not made again.
    let (_dir, journal) = copied("session");
    let at = dir.path().join("again");
    rewritten(&at, &journal);
    same_files(&at, &golden("session"));
}

#[test]
fn what_is_read_is_what_was_written() {
    let (_dir, journal) = copied("records");
    assert_eq!(journal.header, every_record::header());
    let mut records = journal.records.into_iter();
    for event in every_record::events() {
        assert_eq!(records.next(), Some(Record::Event(Box::new(event))));
    }
    assert_eq!(records.next(), Some(Record::Step(every_record::step())));
}

#[test]
fn fields_of_a_later_version_are_passed_over() {
    // A field is put at the head of every object, and the checks are made anew.
    let (dir, journal) = copied("records");
    let path = dir.path().join("records/journal.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut check = String::new();
    let mut changed = String::new();
    for line in text.lines() {
        let body = line.split_once(",\"check\"").unwrap().0;
        let body = with_new_fields(body);
        let digest = sha256_of(&[check.as_bytes(), body.as_bytes()]);
        check = digest[..16].to_owned();
        changed.push_str(&format!("{body},\"check\":\"{check}\"}}\n"));
    }
    std::fs::write(&path, changed).unwrap();
    assert_eq!(read(&path).unwrap().records, journal.records);
}

/// Adds a field to every object of ours. Tool inputs, schemas and similar values are the data of others: there the
/// field would be data.
fn with_new_fields(body: &str) -> String {
    use serde_json::Value;
    fn add(value: &mut Value) {
        const DATA: [&str; 8] =
            ["input", "extra", "metadata", "inputSchema", "prices", "permissions", "agents", "config"];
        match value {
            Value::Object(fields) => {
                for (name, field) in fields.iter_mut() {
                    match (name.as_str(), field) {
                        ("agents" | "prices", Value::Object(named)) => named.values_mut().for_each(add),
                        ("config" | "permissions", field) => add(field),
                        (name, _) if DATA.contains(&name) => {}
                        (_, field) => add(field),
                    }
                }
                fields.insert("aLaterField".into(), json!({"with": ["anything"]}));
            }
            Value::Array(items) => items.iter_mut().for_each(add),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut line: Value = serde_json::from_str(&format!("{body}}}")).unwrap();
    add(&mut line);
    let mut text = line.to_string();
    text.pop();
    text
}

fn sha256_of(parts: &[&[u8]]) -> String {
    use sha2::{Digest as _, Sha256};
    let hash = parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part)).finalize();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
