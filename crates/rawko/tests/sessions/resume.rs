//! Taking a session up wherever its journal ends.

use rawko::journal::{Journal, JournalError, JournaledEffect, Record};
use rawko::{Error, RunEvent};
use rawko_core::machine::State;
use rawko_core::session::{Note, Status};
use serde_json::json;

use crate::trial::{
    Trial, answers_of_models, calls, check_replay, complete, finish, report, select, side_by_side, state,
};

/// Changes that were begun within the first `records` records: none of them is begun again.
fn begun(journal: &Journal, records: usize) -> Vec<String> {
    let steps = journal.records.iter().take(records).filter_map(|record| match record {
        Record::Step(step) => Some(step),
        Record::Event(_) => None,
    });
    let calls = steps.flat_map(|step| &step.effects).filter_map(|effect| match effect {
        JournaledEffect::RunTool { call, .. } if call.name == "Append" => {
            Some(format!("Append {}", call.input.as_ref().unwrap()["line"].as_str().unwrap()))
        }
        _ => None,
    });
    calls.collect()
}

/// Only appends to the log are changes.
fn appended(log: Vec<String>) -> Vec<String> {
    log.into_iter().filter(|line| line.starts_with("Append")).collect()
}

#[tokio::test]
async fn cut_after_any_record_it_ends_the_same_and_nothing_is_done_twice() {
    let whole = Trial::new();
    let outcome = whole.run().await;
    assert_eq!((outcome.status, outcome.agent_summary.as_deref()), (Status::Claimed, Some("all done")));
    let journal = whole.journal();
    check_replay(&journal);
    assert_eq!(appended(whole.logged()), ["Append 3", "Append 5", "Append 7"]);
    let mut cuts = Vec::new();
    for at in 1..journal.records.len() {
        let (cut, journal, outcome) = (whole.cut(at), journal.clone(), outcome.clone());
        cuts.push(async move {
            let (end, events) = finish(cut.rawko().resume(None).unwrap()).await;
            assert_eq!((end.status, &end.summary), (outcome.status, &outcome.summary), "cut at {at}");
            assert!(matches!(events.first(), Some(RunEvent::SessionStarted { resumed: true, .. })));
            let resumed = cut.journal();
            assert_eq!(state(&resumed), State::Complete);
            check_replay(&resumed);
            assert_eq!(answers_of_models(&resumed), answers_of_models(&journal), "cut at {at}");
            // The records stay, and everything that followed from them follows again, to the byte, including requests.
            assert_eq!(resumed.records[..at], journal.records[..at], "cut at {at}");
            if let (Record::Event(_), Record::Step(step)) = (&journal.records[at - 1], &journal.records[at]) {
                assert_eq!(resumed.records[at], Record::Step(step.clone()), "cut at {at}");
            }
            let mut all = begun(&journal, at);
            all.extend(appended(cut.logged()));
            assert_eq!(all, ["Append 3", "Append 5", "Append 7"], "cut at {at}");
        });
    }
    side_by_side(cuts);
}

#[tokio::test]
async fn what_has_ended_or_never_began_says_so() {
    let trial = Trial::new();
    trial.run().await;
    let check = |trial: &Trial, id: Option<&str>, part: &str| {
        let error = trial.rawko().resume(id).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    check(&trial, Some("last"), "it has ended");
    check(&trial, None, "no unfinished session");
    check(&trial, Some("1999"), "there is no session `1999`");
    check(&trial.cut(0), Some("last"), "before its task was recorded");
}

#[tokio::test]
async fn of_two_at_once_the_second_is_refused() {
    let whole = Trial::new();
    whole.run().await;
    let cut = whole.cut(6);
    let rawko = cut.rawko();
    let first = rawko.resume(Some("last")).unwrap();
    let before = std::fs::read(crate::trial::last_path(&cut)).unwrap();
    let error = rawko.resume(Some("last")).unwrap_err();
    assert!(matches!(error, Error::Journal(JournalError::Locked { .. })), "{error}");
    // Without an id it is named, and no other session is looked for.
    let error = rawko.resume(None).unwrap_err();
    let Error::NewestNotResumed { source, .. } = error else { panic!("{error}") };
    assert!(matches!(*source, JournalError::Locked { .. }), "{source}");
    assert_eq!(std::fs::read(crate::trial::last_path(&cut)).unwrap(), before);
    drop(first);
    assert_eq!(rawko.resume(None).unwrap().await.unwrap().status, Status::Claimed);
}

#[tokio::test]
async fn files_that_changed_meanwhile_are_named() {
    let read = calls("worker", &[("Read", json!({"file_path": "a.txt"}))]);
    let write =
        calls("worker", &[("Edit", json!({"file_path": "a.txt", "old_string": "first", "new_string": "x"}))]);
    let script = json!([select("worker"), read, write, report("worker"), complete()]);
    let whole = Trial::with(script);
    whole.run().await;
    let journal = whole.journal();
    let answered = journal.records.iter().position(
        |record| matches!(record, Record::Event(stamped) if stamped.event.name() == "ToolFinished"),
    );
    for (text, changed) in [("first\n", false), ("first, by somebody\n", true)] {
        let cut = whole.cut(answered.unwrap() + 1);
        cut.write("a.txt", text);
        let (outcome, events) = finish(cut.rawko().resume(None).unwrap()).await;
        assert_eq!(outcome.status, Status::Claimed);
        let warned = events.iter().any(
            |event| matches!(event, RunEvent::Note(Note::Warned { message }) if message.contains("changed") && message.contains("a.txt")),
        );
        assert_eq!(warned, changed, "{events:?}");
        // The agent saw the file before the cut; it may edit it only as it saw it.
        let failed = events.iter().any(
            |event| matches!(event, RunEvent::Note(Note::ToolFinished { tool, outcome, .. }) if tool == "Edit" && outcome.is_error),
        );
        assert_eq!(failed, changed, "{events:?}");
    }
}

#[tokio::test]
async fn a_journal_grants_nothing_by_itself() {
    use rawko_core::agent::Permissions;
    let folder = tempfile::tempdir().unwrap();
    let script = json!([select("developer"), report("developer"), complete()]);
    let builder = |run: Option<&[&str]>| {
        let run = run.map(|programs| programs.iter().map(|name| (*name).to_owned()).collect());
        crate::scripted::builder(folder.path(), &script)
            .permissions(Permissions { run, ..Permissions::default() })
    };
    // A header without a task, as a process leaves it that was killed at once; a run that is dropped leaves nothing.
    let begin = |run: Option<&[&str]>| {
        let rawko = builder(run).build().unwrap();
        let run = rawko.run("do it").unwrap();
        let id = run.session_id().to_owned();
        let path = rawko.sessions().find(&id).unwrap();
        let header = std::fs::read(&path).unwrap();
        drop(run);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, header).unwrap();
        id
    };
    let check = |recorded: Option<&[&str]>, today: Option<&[&str]>, resumes: bool| {
        // One record more is a task.
        let id = begin(recorded);
        let rawko = builder(recorded).build().unwrap();
        let path = rawko.sessions().find(&id).unwrap();
        let (mut writer, _) = rawko::journal::JournalWriter::reopen(&path).unwrap();
        let setup = Box::new(rawko.setup().unwrap());
        let event = rawko_core::session::Event::TaskStarted { task: "do it".into(), setup, shared_events: 0 };
        writer.event(&rawko_core::session::Stamped { at: rawko_core::Timestamp(1), event }).unwrap();
        drop(writer);
        let resumed = builder(today).build().unwrap().resume(Some(&id));
        assert_eq!(resumed.is_ok(), resumes, "{recorded:?} {today:?}: {:?}", resumed.err());
        match resumed {
            Ok(run) => drop(run),
            Err(error) => {
                assert!(
                    matches!(&error, Error::UntrustedJournal { reasons, .. } if !reasons.is_empty()),
                    "{error}"
                );
            }
        }
        assert!(builder(today).trusted(true).build().unwrap().resume(Some(&id)).is_ok());
    };
    check(None, None, true);
    check(Some(&["curl"]), None, false);
    check(Some(&["curl"]), Some(&["curl", "wget"]), true);
    check(Some(&["curl", "wget"]), Some(&["curl"]), false);
    check(None, Some(&["curl"]), false);
}

#[tokio::test]
async fn a_journal_that_leads_elsewhere_is_not_taken_up() {
    let whole = Trial::new();
    whole.run().await;
    let journal = whole.journal();
    let other = Trial::new();
    let folder = other.store().folder().join("20200101-000000-000-aaaaa");
    let header = rawko::journal::JournalHeader {
        session: "20200101-000000-000-aaaaa".into(),
        ..journal.header.clone()
    };
    let mut writer = rawko::journal::JournalWriter::create(&folder, &header).unwrap();
    for record in journal.records.iter().take(4) {
        match record {
            Record::Event(event) => writer.event(event).unwrap(),
            Record::Step(step) => {
                let mut step = step.clone();
                step.notes.clear();
                writer.step(&step).unwrap();
            }
        }
    }
    drop(writer);
    let error = other.rawko().resume(None).unwrap_err();
    assert!(matches!(&error, Error::Diverged { divergence, .. } if divergence.seq == 2), "{error}");
    assert!(error.to_string().contains("record 2 differs in notes"), "{error}");
}
