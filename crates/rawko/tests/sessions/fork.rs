//! New sessions with the beginning of another.

use std::sync::Arc;

use rawko::journal::{ForkedFrom, Journal, JournalWriter, JournaledEffect, Record, fold};
use rawko::{Error, ForkOptions};
use rawko_core::Timestamp;
use rawko_core::machine::State;
use rawko_core::session::{DecisionSource, Effect, EffectAnswer, Event, Stamped, Status};
use serde_json::json;

use crate::trial::{
    Trial, answers_of_models, calls, check_replay, complete, evaluate, events, finish, report, select,
    side_by_side,
};

fn at(records: u64) -> ForkOptions {
    ForkOptions { at: Some(records), task: None }
}

#[tokio::test]
async fn every_beginning_can_be_gone_on_from_or_says_why_not() {
    let trial = Arc::new(Trial::new());
    trial.run().await;
    let old = trial.journal();
    let (id, records) = (old.header.session.clone(), old.records.len() as u64);
    let rawko = trial.rawko();
    let before = trial.logged().len();
    let mut forks = Vec::new();
    for n in 0..=records {
        let fork = match rawko.fork(&id, &at(n)) {
            Ok(fork) => fork,
            Err(error) if n == 0 => {
                assert!(error.to_string().contains("would share nothing"), "{error}");
                continue;
            }
            Err(error) => {
                assert!(n >= records - 1, "at {n}: {error}");
                assert!(error.to_string().contains("has ended"), "{error}");
                continue;
            }
        };
        assert_eq!((fork.from.record, &fork.from.session, &fork.stopped), (n, &id, &None));
        let shared = trial.journal_of(&fork.session);
        assert_eq!(
            shared.header.forked_from,
            Some(ForkedFrom { session: id.clone(), record: n, lost: None })
        );
        let (first, rest) = shared.records.split_first().unwrap();
        assert_eq!(rest, &old.records[1..usize::try_from(n).unwrap()], "at {n}");
        assert_eq!(*first, sharing(&old.records[0], events(&shared).count() as u64));
        assert_eq!(fork.shared, fold(&shared).session.shared(), "at {n}");
        forks.push((n, fork.session));
    }
    assert_eq!(trial.logged().len(), before, "making a fork does nothing");
    assert_eq!(forks.len() as u64, records - 2);
    let mut runs = Vec::new();
    for (n, session) in forks {
        let (trial, answers) = (Arc::clone(&trial), answers_of_models(&old));
        runs.push(async move {
            let rawko = trial.builder().beside_others(true).build().unwrap();
            let (outcome, _) = finish(rawko.resume(Some(&session)).unwrap()).await;
            assert_eq!(outcome.status, Status::Claimed, "at {n}");
            let ended = trial.journal_of(&session);
            check_replay(&ended);
            assert_eq!(answers_of_models(&ended), answers, "at {n}");
        });
    }
    side_by_side(runs);
    let error = rawko.fork(&id, &at(records + 1)).unwrap_err().to_string();
    assert!(error.contains(&format!("has {records} records")), "{error}");
    // If no number is given, as many as the fork can go on from.
    let fork = rawko.fork(&id, &ForkOptions::default()).unwrap();
    assert_eq!(fork.from.record, records - 2);
    assert_eq!(trial.journal_of(&id), old, "the old session is as it was");
}

/// The task that goes on shares what the one before it used, whose end has cost the fork nothing.
#[tokio::test]
async fn a_session_of_two_tasks_is_shared_at_every_record() {
    let mut trial = Trial::new();
    trial.run().await;
    let id = trial.journal().header.session;
    trial.script = json!([select("worker"), report("worker"), complete()]);
    trial.rawko().continue_session(Some(&id), "do more").unwrap().await.unwrap();
    let old = trial.journal_of(&id);
    for n in 1..=old.records.len() as u64 {
        let Ok(fork) = trial.rawko().fork(&id, &at(n)) else { continue };
        let journal = trial.journal_of(&fork.session);
        check_replay(&journal);
        assert_eq!(fork.shared, fold(&journal).session.shared(), "at {n}");
    }
}

/// The first record as a fork has it that shares so many events.
fn sharing(first: &Record, events: u64) -> Record {
    let mut first = first.clone();
    if let Record::Event(stamped) = &mut first
        && let Event::TaskStarted { shared_events, .. } = &mut stamped.event
    {
        *shared_events = events;
    }
    first
}

fn another(at: Option<u64>, task: &str) -> ForkOptions {
    ForkOptions { at, task: Some(task.into()) }
}

#[tokio::test]
async fn another_task_has_the_setup_and_nothing_that_came_of_the_old_one() {
    let trial = Trial::new();
    trial.run().await;
    let old = trial.journal();
    let id = old.header.session.clone();
    for at in (1..=old.records.len() as u64).map(Some).chain([None]) {
        let fork = trial.rawko().fork(&id, &another(at, "do that instead")).unwrap();
        assert_eq!((fork.from.record, fork.stopped, fork.shared), (1, None, None), "at {at:?}");
        let journal = trial.journal_of(&fork.session);
        assert_eq!((journal.header.task.as_str(), journal.records.len()), ("do that instead", 1));
        let made = fold(&journal).session;
        assert_eq!(made.context().unwrap().task, "do that instead");
        assert_eq!(made.setup(), fold(&old).session.setup());
        assert_eq!(made.state(), State::Selecting);
    }
    let outcome = trial.rawko().resume(Some("last")).unwrap().await.unwrap();
    assert_eq!((outcome.status, outcome.iterations, outcome.shared), (Status::Claimed, 2, None));
    let journal = trial.journal();
    check_replay(&journal);
    assert_eq!(answers_of_models(&journal), answers_of_models(&old));
    for one in rawko::explain(&journal) {
        let asked = serde_json::to_string(&one.calls[0].messages).unwrap();
        assert!(asked.contains("do that instead") && !asked.contains("do it"), "{asked}");
    }
    assert!(matches!(trial.rawko().fork(&id, &another(None, "  ")), Err(Error::EmptyTask)));
    assert!(trial.rawko().fork(&id, &another(Some(0), "x")).is_err());
    // A fork of the fork without another task shares its records, as of any other session.
    let records = journal.records.len() as u64;
    let fork = trial.rawko().fork(&journal.header.session, &at(records - 2)).unwrap();
    let shared = trial.journal_of(&fork.session);
    assert_eq!(shared.records[1..], journal.records[1..journal.records.len() - 2]);
    assert_eq!(fork.shared.unwrap().iterations, 2);
}

/// The agent that was to begin with the old task was chosen for that task.
#[tokio::test]
async fn another_task_begins_with_the_arbiters_choice() {
    let mut trial = Trial::with(json!([report("checker"), complete()]));
    let rawko = trial.builder().first_agent("checker").build().unwrap();
    rawko.run("do it").unwrap().await.unwrap();
    let id = trial.journal().header.session;
    trial.script = json!([select("worker"), report("worker"), complete()]);
    let fork = trial.rawko().fork(&id, &another(None, "do that instead")).unwrap();
    let outcome = trial.rawko().resume(Some(&fork.session)).unwrap().await.unwrap();
    assert_eq!(outcome.status, Status::Claimed);
    let decided: Vec<DecisionSource> =
        rawko::explain(&trial.journal()).into_iter().map(|one| one.source).collect();
    assert_eq!(decided, [DecisionSource::Llm, DecisionSource::Llm]);
}

/// A configuration that was read again belongs to the setup, from its record on.
#[tokio::test]
async fn another_task_has_the_agents_as_they_were_at_the_record() {
    let trial = Trial::new();
    trial.run().await;
    let path = trial.store().find("last").unwrap();
    let mut agents = fold(&trial.journal()).session.setup().unwrap().agents.clone();
    agents.get_mut("worker").unwrap().config.system_prompt = "You work better.".into();
    let (mut writer, before) = JournalWriter::reopen(&path).unwrap();
    let event = Event::AgentsReloaded { agents: agents.clone() };
    writer.event(&Stamped { at: Timestamp(u64::MAX / 2), event }).unwrap();
    drop(writer);
    let reloaded = before.records.len() as u64 + 1;
    let id = before.header.session;
    for (at, record, prompt) in [
        (None, reloaded, "You work better."),
        (Some(reloaded), reloaded, "You work better."),
        (Some(reloaded - 1), 1, "You work."),
    ] {
        let fork = trial.rawko().fork(&id, &another(at, "do that instead")).unwrap();
        assert_eq!(fork.from.record, record);
        let made = fold(&trial.journal_of(&fork.session)).session;
        assert_eq!(made.setup().unwrap().agents["worker"].config.system_prompt, prompt);
    }
}

/// Which providers were asked.
fn providers(journal: &Journal) -> Vec<String> {
    let steps = journal.records.iter().filter_map(|record| match record {
        Record::Step(step) => Some(step),
        Record::Event(_) => None,
    });
    let asked = steps.flat_map(|step| &step.effects).filter_map(|effect| match effect {
        JournaledEffect::Whole(Effect::CallModel { provider, .. }) => Some(provider.clone()),
        _ => None,
    });
    asked.collect()
}

#[tokio::test]
async fn another_provider_is_asked_and_the_old_answers_stay() {
    let trial = Trial::new();
    trial.run().await;
    let old = trial.journal();
    // Only the answers that are not shared come from it.
    let script: rawko::provider::Script = serde_json::from_value(trial.script.clone()).unwrap();
    let other = Arc::new(rawko::provider::Scripted::named("other", script));
    let overrides = rawko::config::Overrides { provider: Some("other".into()), ..Default::default() };
    let rawko = trial.builder().overrides(overrides).provider(other).build().unwrap();
    let fork = rawko.fork(&old.header.session, &at(16)).unwrap();
    assert_eq!(fork.stopped, None);
    let journal = trial.journal_of(&fork.session);
    check_replay(&journal);
    assert!(providers(&old).iter().all(|name| name == "scripted"));
    assert!(providers(&journal).iter().all(|name| name == "other") && providers(&journal).len() > 3);
    let answers = |journal: &Journal| -> Vec<Event> {
        events(journal)
            .filter(|event| {
                matches!(event, Event::Answered { answer: EffectAnswer::ModelReplied { .. }, .. })
            })
            .cloned()
            .collect()
    };
    assert!(answers(&old).starts_with(&answers(&journal)));
    let outcome = rawko.resume(Some(&fork.session)).unwrap().await.unwrap();
    assert_eq!(outcome.status, Status::Claimed);
}

#[tokio::test]
async fn with_a_higher_limit_it_goes_on_where_it_was_stopped() {
    let again = evaluate(json!({"decision": "SELECT_MODE", "mode": "worker", "reason": "r"}));
    let script = json!([select("worker"), report("worker"), again, report("worker"), complete()]);
    let trial = Trial::with(script);
    trial.write(".rawko/config.yaml", "constraints: {maxIterations: 1}\n");
    assert_eq!(trial.run().await.status, Status::Limited);
    let old = trial.journal();
    let overrides = rawko::config::Overrides { max_iterations: Some(5), ..Default::default() };
    let rawko = trial.builder().overrides(overrides).build().unwrap();
    let fork = rawko.fork(&old.header.session, &ForkOptions::default()).unwrap();
    assert_eq!(fork.from.record, old.records.len() as u64, "no answer is lost");
    let outcome = rawko.resume(Some(&fork.session)).unwrap().await.unwrap();
    assert_eq!((outcome.status, outcome.iterations), (Status::Claimed, 2));
    check_replay(&trial.journal_of(&fork.session));
}

#[tokio::test]
async fn an_answer_that_nothing_asks_for_ends_what_is_shared() {
    // In the old run another provider fell in; in the fork there is none.
    let failing = json!({"for": "select", "error": {"code": "overloaded"}});
    let trial = Trial::with(json!([failing, select("worker"), report("worker"), complete()]));
    let other: rawko::provider::Script = serde_json::from_value(json!([select("worker")])).unwrap();
    let second = || Arc::new(rawko::provider::Scripted::named("second", other.clone()));
    trial.write(".rawko/config.yaml", "provider: {default: scripted, fallback: [second]}\n");
    let outcome = trial.builder().provider(second()).build().unwrap().run("do it").unwrap().await.unwrap();
    assert_eq!(outcome.status, Status::Claimed);
    let old = trial.journal();
    trial.write(".rawko/config.yaml", "provider: {default: scripted}\n");
    let overrides = rawko::config::Overrides { model: Some("other".into()), ..Default::default() };
    let rawko = trial.builder().overrides(overrides).provider(second()).build().unwrap();
    let fork = rawko.fork(&old.header.session, &at(6)).unwrap();
    let stopped = fork.stopped.unwrap();
    assert!(stopped.why.contains("ModelReplied answers a request for `select`"), "{stopped:?}");
    assert_eq!((stopped.record, fork.from.record), (5, 4));
    let journal = trial.journal_of(&fork.session);
    check_replay(&journal);
    // What the fork does instead was never begun, and is begun now.
    assert!(matches!(journal.records.last(), Some(Record::Event(_))), "{:?}", journal.records.last());
}

#[tokio::test]
async fn what_was_begun_is_of_unknown_outcome_and_what_was_not_is_begun() {
    let append = calls("worker", &[("Append", json!({"line": "1"}))]);
    let trial = Trial::with(json!([select("worker"), append, report("worker"), complete()]));
    trial.write(".rawko/config.yaml", "");
    trial.run().await;
    let old = trial.journal();
    let begun = old.records.iter().position(|record| {
        matches!(record, Record::Step(step) if step.effects.iter().any(|e| matches!(e, JournaledEffect::RunTool { .. })))
    });
    let begun = begun.unwrap() as u64 + 1;
    for (records, times) in [(begun - 1, 2), (begun, 1)] {
        trial.log.lock().unwrap().truncate(1);
        let fork = trial.rawko().fork(&old.header.session, &at(records)).unwrap();
        let outcome = trial.rawko().resume(Some(&fork.session)).unwrap().await.unwrap();
        assert_eq!(outcome.status, Status::Claimed);
        assert_eq!(trial.logged(), vec!["Append 1"; times], "shared {records} records");
    }
}
