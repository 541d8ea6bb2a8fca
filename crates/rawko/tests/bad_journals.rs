//! Journals as they should not be: cut off, damaged, not the user's own, too new, too long, in use. Each is refused with
//! words that say what and where, nothing of it is changed, and what is sound of it can be copied.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]

mod support;

use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use rawko::journal::{
    JournalError, JournalWriter, Record, SessionInfo, SessionStatus, SessionStore, fold, read,
};
use rawko::provider::{Script, Scripted};
use rawko::{Error, Rawko};
use rawko_core::machine::State;
use serde_json::json;
use support::Play;

const ID: &str = "20250615-120000-000-aaaaa";

/// A project with one session in it.
struct Bench {
    dir: tempfile::TempDir,
    store: SessionStore,
    journal: PathBuf,
}

impl Bench {
    /// With a session as `make` makes it in the directory it is given.
    fn new(make: impl FnOnce(&Path)) -> Self {
        // Thousands of small files are written: in memory where that is possible.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let store = SessionStore::of_project(dir.path());
        let session = store.folder().join(ID);
        std::fs::create_dir_all(store.folder()).unwrap();
        make(&session);
        Self { journal: session.join("journal.jsonl"), store, dir }
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.journal).unwrap()
    }

    fn info(&self) -> SessionInfo {
        let mut listed = self.store.list().unwrap();
        assert_eq!(listed.len(), 1);
        listed.remove(0)
    }

    /// What preparing a resume says.
    fn resume(&self) -> Result<(), Error> {
        let script: Script = serde_json::from_value(json!([])).unwrap();
        let provider = std::sync::Arc::new(Scripted::named("claude", script));
        let rawko = Rawko::builder().project(self.dir.path()).env(|_| None).provider(provider).build();
        rawko.unwrap().resume(Some(ID)).map(|_| ())
    }
}

/// A session that ended, of a few small records.
fn small(directory: &Path) {
    support::long_session(directory, 1, 1);
}

/// A session in mid-run, with a tool output in a blob.
fn with_blob(directory: &Path) {
    let mut play = Play::begin(directory, support::setup(5));
    play.decide(json!({"decision": "SELECT_MODE", "mode": "developer", "reason": "r"}));
    play.reply("reading", &[("Read", json!({"file_path": "big.txt"}))]);
    play.answer(&"0123456789".repeat(7_000));
    play.reply("reading on", &[("Read", json!({"file_path": "other.txt"}))]);
}

fn blob_of(bench: &Bench) -> PathBuf {
    let folder = bench.journal.parent().unwrap().join("blobs");
    let blobs: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(blobs.len(), 1);
    blobs[0].clone()
}

#[test]
fn cut_off_anywhere_it_loses_the_torn_line_and_nothing_else() {
    let whole = Bench::new(small);
    let bytes = whole.bytes();
    let records = read(&whole.journal).unwrap().records;
    let header = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let bench = Bench::new(|directory| std::fs::create_dir(directory).unwrap());
    for length in 0..bytes.len() {
        let cut = &bytes[..length];
        std::fs::write(&bench.journal, cut).unwrap();
        let whole_lines = cut.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let listed = bench.info();
        // Repairs and folds take their time: at the ends of records and at some other places.
        let thorough = length == whole_lines || length % 32 == 0;
        let repaired = thorough.then(|| bench.store.repair(ID).unwrap_err());
        assert_eq!(bench.bytes(), cut, "looking at it changes nothing");
        if length < header {
            assert_eq!(listed.status, SessionStatus::NotBegun, "at {length}");
            assert!(matches!(repaired, None | Some(JournalError::Damaged { seq: 0, .. })), "at {length}");
            let error = JournalWriter::reopen(&bench.journal).unwrap_err();
            assert!(error.to_string().contains("record 0"), "at {length}: {error}");
            assert_eq!(bench.bytes(), cut);
            continue;
        }
        let only_begins = whole_lines == header;
        let status = if only_begins { SessionStatus::NotBegun } else { SessionStatus::Unfinished };
        assert_eq!(listed.status, status, "at {length}");
        assert!(matches!(repaired, None | Some(JournalError::Sound { .. })), "at {length}");
        let (_, journal) = JournalWriter::reopen(&bench.journal).unwrap();
        assert_eq!(journal.torn_bytes, length - whole_lines, "at {length}");
        assert_eq!(journal.records, records[..journal.records.len()]);
        assert!(!thorough || fold(&journal).divergence.is_none(), "at {length}");
        assert_eq!(
            bench.bytes(),
            bytes[..whole_lines],
            "at {length}: it goes on after the last whole record"
        );
    }
    assert_eq!(bench.store.list().unwrap().len(), 1, "nothing else came to be");
}

/// What has kept something was begun, whatever its journal says.
#[test]
fn a_session_that_has_worked_is_not_taken_for_one_that_has_not() {
    let bench = Bench::new(small);
    for folder in ["blobs", "checkpoints"] {
        let folder = bench.journal.parent().unwrap().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("kept"), "x").unwrap();
        std::fs::write(&bench.journal, "").unwrap();
        assert_eq!(bench.info().status, SessionStatus::Unreadable, "{}", folder.display());
        std::fs::remove_dir_all(folder).unwrap();
        assert_eq!(bench.info().status, SessionStatus::NotBegun);
    }
}

#[test]
fn every_damaged_byte_is_found_and_what_is_before_it_can_be_copied() {
    let whole = Bench::new(small);
    let bytes = whole.bytes();
    let records = read(&whole.journal).unwrap().records;
    let bench = Bench::new(|directory| std::fs::create_dir(directory).unwrap());
    let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    let mut repairs = 0;
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&bench.journal, &damaged).unwrap();
        let found = read(&bench.journal);
        if at + 1 == bytes.len() {
            // Without its line break the last record is torn, and that is said.
            assert!(found.is_ok_and(|journal| journal.torn_bytes > 0));
            continue;
        }
        let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        let error = found.unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains(&format!("(line {line})")) || message.contains("written in format"),
            "byte {at}: {message}"
        );
        if line == 1 || at >= last {
            let listed = bench.info().status;
            assert_ne!(listed, SessionStatus::Ended, "byte {at}: a list believes no damaged record");
        }
        // A repair writes files and waits for the disk: some will do, spread over all records.
        if at % 211 != 0 || line == 1 {
            continue;
        }
        if line == 2 {
            // The task was recorded there: a copy of nothing would only be in the way.
            assert!(matches!(bench.store.repair(ID), Err(JournalError::NothingSound { .. })), "byte {at}");
            continue;
        }
        let repaired = bench.store.repair(ID).unwrap();
        repairs += 1;
        assert_eq!(bench.bytes(), damaged, "the damaged one is as it was");
        assert!(repaired.lost_bytes > 0 && repaired.lost_lines > 0);
        assert!(repaired.damage.starts_with(&format!("record {}", line - 1)), "{}", repaired.damage);
        let copy = read(&repaired.journal).unwrap();
        // What the last intact event leads to counts as begun: it is in the copy, as it was in the damaged record.
        let announced = usize::from(matches!(records[line - 2], Record::Step(_)));
        assert_eq!(copy.records, records[..line - 2 + announced], "byte {at}");
        assert_eq!(copy.header.session, repaired.session);
        assert_eq!(copy.header.forked_from.unwrap().session, ID);
        bench.store.remove(&repaired.session, |_| ()).unwrap();
    }
    assert!(repairs > 5, "{repairs}");
}

#[test]
fn a_blob_that_is_gone_or_damaged_is_named_and_what_is_before_it_can_be_copied() {
    let check = |harm: &dyn Fn(&Path), part: &str| {
        let bench = Bench::new(with_blob);
        let blob = blob_of(&bench);
        let name = blob.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(bench.bytes().len() < 20_000, "the journal itself stays small");
        harm(&blob);
        let before = bench.bytes();
        let read = read(&bench.journal).unwrap_err();
        for error in [read, JournalWriter::reopen(&bench.journal).unwrap_err()] {
            let message = error.to_string();
            assert!(matches!(error, JournalError::Blob { seq: 7, .. }), "{message}");
            for part in ["record 7", &name, part] {
                assert!(message.contains(part), "{part} is missing in: {message}");
            }
            let hint = error.hint().unwrap();
            assert!(hint.contains("rawko sessions repair"), "{hint}");
        }
        assert!(bench.resume().unwrap_err().to_string().contains(&name));
        assert_eq!(bench.info().status, SessionStatus::Unfinished);
        let repaired = bench.store.repair(ID).unwrap();
        assert_eq!((repaired.kept, repaired.state), (7, State::Executing));
        assert_eq!(repaired.lost, ["ToolFinished", "step", "ModelReplied", "step"]);
        assert!(rawko::journal::read(&repaired.journal).is_ok());
        assert_eq!(bench.bytes(), before);
    };
    check(&|blob| std::fs::remove_file(blob).unwrap(), "is missing");
    check(
        &|blob| std::fs::write(blob, "0123456789".repeat(6_999) + "012345678!").unwrap(),
        "content does not match",
    );
    check(&|blob| std::fs::write(blob, "short").unwrap(), "5 bytes instead of 70000");
    check(
        &|blob| {
            let elsewhere = blob.with_file_name("elsewhere");
            std::fs::rename(blob, &elsewhere).unwrap();
            symlink(elsewhere, blob).unwrap();
        },
        "symbolic link",
    );
}

/// Every way to a session refuses what `make` makes, with `part` in its words, and leaves it as it was.
#[track_caller]
fn refused(make: impl FnOnce(&Path), part: &str) {
    let bench = Bench::new(make);
    let look = |path: &Path| {
        std::fs::symlink_metadata(path)
            .ok()
            .map(|data| (data.mode(), data.len(), data.ino(), data.mtime_nsec()))
    };
    let before = look(&bench.journal);
    let listed = bench.info();
    assert_eq!((listed.status, listed.id.as_str()), (SessionStatus::Unreadable, ID));
    let texts = [
        listed.problem.unwrap(),
        read(&bench.journal).unwrap_err().to_string(),
        JournalWriter::reopen(&bench.journal).unwrap_err().to_string(),
        bench.store.repair(ID).unwrap_err().to_string(),
        bench.resume().unwrap_err().to_string(),
    ];
    for text in texts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
        assert!(text.contains("journal.jsonl"), "it does not say where: {text}");
    }
    assert_eq!(look(&bench.journal), before, "it is as it was");
    assert_eq!(bench.store.list().unwrap().len(), 1, "nothing else came to be");
    // It can be got rid of, and what it leads to stays.
    let target =
        std::fs::canonicalize(&bench.journal).ok().filter(|target| !target.starts_with(bench.store.folder()));
    bench.store.remove(ID, |_| ()).unwrap();
    assert!(bench.store.list().unwrap().is_empty());
    assert!(target.is_none_or(|target| target.exists()));
}

/// A small session made elsewhere, to be linked to.
fn elsewhere(directory: &Path) -> PathBuf {
    std::fs::create_dir(directory).unwrap();
    let other = directory.parent().unwrap().parent().unwrap().join("other");
    small(&other);
    other.join("journal.jsonl")
}

#[test]
fn what_is_no_regular_file_of_the_users_own_is_refused() {
    refused(
        |directory| symlink(elsewhere(directory), directory.join("journal.jsonl")).unwrap(),
        "symbolic link",
    );
    refused(
        |directory| std::fs::hard_link(elsewhere(directory), directory.join("journal.jsonl")).unwrap(),
        "hard link",
    );
    refused(
        |directory| std::fs::create_dir_all(directory.join("journal.jsonl")).unwrap(),
        "not a regular file",
    );
    refused(|directory| std::fs::create_dir(directory).unwrap(), "no journal");
    refused(
        |directory| {
            std::fs::create_dir(directory).unwrap();
            let status = std::process::Command::new("mkfifo").arg(directory.join("journal.jsonl")).status();
            assert!(status.unwrap().success());
        },
        "not a regular file",
    );
}

#[test]
fn what_belongs_to_somebody_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    if std::os::unix::fs::chown(dir.path(), Some(12_345), None).is_err() {
        testkit::skip("only root can give a file away");
        return;
    }
    refused(
        |directory| {
            small(directory);
            std::os::unix::fs::chown(directory.join("journal.jsonl"), Some(12_345), None).unwrap();
        },
        "belongs to another user",
    );
}

#[test]
fn another_format_is_refused_whatever_else_differs() {
    for line in [
        r#"{"seq":0,"kind":"header","data":{"format":4000},"check":"0000000000000000"}"#,
        r#"{"v":[],"data":{"format":4000000,"other":{}}}"#,
        r#"{"seq":0,"kind":"header","data":{"format":1},"check":"0000000000000000"}"#,
    ] {
        refused(
            |directory| {
                std::fs::create_dir(directory).unwrap();
                std::fs::write(directory.join("journal.jsonl"), format!("{line}\n\u{0}\u{1}more\n")).unwrap();
            },
            "and this rawko reads format",
        );
    }
}

#[test]
fn a_file_that_is_too_long_for_a_journal_is_refused_unread() {
    refused(
        |directory| {
            small(directory);
            let file = std::fs::OpenOptions::new().write(true).open(directory.join("journal.jsonl")).unwrap();
            // Sparse: it takes no room.
            file.set_len(1 << 30).unwrap();
        },
        "more than a journal can have (512 MiB)",
    );
}

#[test]
fn zeros_after_the_last_record_are_torn_and_a_line_without_end_is_damage() {
    let bench = Bench::new(small);
    let bytes = bench.bytes();
    let file = std::fs::OpenOptions::new().write(true).open(&bench.journal).unwrap();
    // A file system may leave this after a power cut.
    file.set_len(bytes.len() as u64 + (100 << 20)).unwrap();
    assert_eq!(read(&bench.journal).unwrap().torn_bytes, 100 << 20);
    assert_eq!(bench.info().status, SessionStatus::Unfinished);
    let (_, journal) = JournalWriter::reopen(&bench.journal).unwrap();
    assert_eq!(journal.torn_bytes, 100 << 20);
    assert_eq!(bench.bytes(), bytes);

    file.set_len(bytes.len() as u64 + (40 << 20)).unwrap();
    use std::io::Write as _;
    std::fs::OpenOptions::new().append(true).open(&bench.journal).unwrap().write_all(b"\n").unwrap();
    let error = read(&bench.journal).unwrap_err().to_string();
    assert!(error.contains("longer than any record"), "{error}");
    assert_eq!(bench.store.repair(ID).unwrap().lost_lines, 1);
}

#[test]
fn a_session_is_written_and_removed_by_one_process_alone() {
    let bench = Bench::new(with_blob);
    let (writer, _) = JournalWriter::reopen(&bench.journal).unwrap();
    assert_eq!(bench.info().status, SessionStatus::Running);
    let locked = |result: Result<(), JournalError>| {
        let error = result.unwrap_err();
        assert!(matches!(error, JournalError::Locked { .. }), "{error}");
        assert!(error.to_string().contains("another rawko process"));
    };
    locked(JournalWriter::reopen(&bench.journal).map(|_| ()));
    locked(bench.store.repair(ID).map(|_| ()));
    locked(bench.store.remove(ID, |_| panic!("nothing is touched before the lock is held")));
    assert!(read(&bench.journal).is_ok(), "it can be looked at while it is written");
    drop(writer);
    assert_eq!(bench.info().status, SessionStatus::Unfinished);
    assert!(JournalWriter::reopen(&bench.journal).is_ok());
}

#[test]
fn a_folder_of_sessions_that_is_a_link_is_not_written_through() {
    let dir = tempfile::tempdir().unwrap();
    let (project, target) = (dir.path().join("p"), dir.path().join("t"));
    for folder in [project.join(".rawko"), target.clone()] {
        std::fs::create_dir_all(folder).unwrap();
    }
    symlink(&target, project.join(".rawko/sessions")).unwrap();
    let store = SessionStore::of_project(&project);
    let error = store.create(&support::header("s")).unwrap_err().to_string();
    assert!(error.contains("symbolic link"), "{error}");
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
}
