//! New sessions made of old ones: what a fork takes over, what it does itself, and what it says that it cost.

use rawko::journal::{Journal, Record, SessionStore, read};
use rawko_core::session::{EffectAnswer, Event};
use rawko_core::{Usage, cost::PriceTable};
use serde_json::{Value, json};
use testkit::{Answer, ModelServer};

use crate::answers::{bash, call, complete, report, select};
use crate::journal::events;
use crate::trial::{Ended, Trial};

const OLD: &str = "Paint the fence green.";
const NEW: &str = "Oil the gate.";

/// Verifies whatever was done, and is counted outside of the project.
const CHECK: &str = "echo checked >> ../marks/log; test -d .";

/// An answer that costs something.
fn paid(answer: Answer) -> Answer {
    match answer {
        Answer::Say(mut say) => {
            say.usage = Usage { input_tokens: 1_000, output_tokens: 100, ..Usage::default() };
            Answer::Say(say)
        }
        other => other,
    }
}

/// The arbiter chooses the developer, who plans and runs `command`; then the arbiter is content.
fn work(command: &str) -> [Answer; 5] {
    let plan = json!({"steps": [{"description": format!("run {command}")}]});
    let summary = format!("{command} is done");
    [select("developer"), call("UpdatePlan", &plan), bash(command), report("did it"), complete(&summary)]
        .map(paid)
}

/// A finished, verified session about the old task; `more` is what the model says afterwards.
#[track_caller]
fn finished(more: impl IntoIterator<Item = Answer>) -> Ended {
    let server = ModelServer::sequence(work("touch fence").into_iter().chain(more));
    let ended = Trial::new(server).with_marks().user_config("/verify", json!([CHECK])).run(OLD);
    ended.exits(0);
    assert_eq!(ended.finish()["status"], "verified", "{}", ended.stdout);
    ended
}

fn checks(trial: &Trial) -> usize {
    std::fs::read_to_string(trial.marks().join("log")).unwrap_or_default().lines().count()
}

#[track_caller]
fn journal(trial: &Trial, id: &str) -> Journal {
    read(&SessionStore::of_project(&trial.project()).find(id).unwrap()).unwrap()
}

/// A command's output, as JSON.
#[track_caller]
fn asked(trial: &Trial, arguments: &[&str]) -> Value {
    let (code, out, err) = trial.ask(arguments);
    assert_eq!(code, Some(0), "{out}{err}");
    serde_json::from_str(&out).unwrap()
}

/// Tokens and dollars of the model calls among the journal's events from the event `from` on.
fn used(journal: &Journal, from: usize) -> (Usage, f64) {
    let prices = PriceTable::default();
    let model = journal_model(journal);
    let mut total = (Usage::default(), 0.0);
    for event in events(journal).skip(from) {
        if let Event::Answered { answer: EffectAnswer::ModelReplied { usage, .. }, .. } = event {
            total.0 += *usage;
            total.1 += prices.price(&model).unwrap().cost(usage);
        }
    }
    total
}

fn journal_model(journal: &Journal) -> String {
    let Some(Event::TaskStarted { setup, .. }) = events(journal).next() else { panic!("no task") };
    setup.arbiter.model.model.clone()
}

#[track_caller]
fn costs(finish: &Value, (usage, dollars): (Usage, f64)) {
    assert_eq!(finish["usage"], serde_json::to_value(usage).unwrap(), "{finish}");
    let reported = finish["costUsd"].as_f64().unwrap();
    assert!((reported - dollars).abs() < 1e-9, "{reported} is reported, {dollars} was used: {finish}");
}

#[test]
fn a_fork_with_another_task_does_it_instead_of_reporting_the_old_one_as_verified() {
    let Ended { trial, .. } = finished(work("touch gate"));
    let before = trial.server.asked().len();
    let finish = asked(&trial, &["fork", "last", "--task", NEW, "--output", "json"]);
    assert!(trial.project().join("gate").exists(), "the new task was not done: {finish}");
    assert_eq!((&finish["status"], &finish["iterations"]), (&json!("verified"), &json!(1)), "{finish}");
    assert_eq!(finish["agentSummary"], "touch gate is done");
    assert_eq!(checks(&trial), 2, "the new work is verified, not the old");
    // The arbiter was asked who is to begin, and no model got the old task.
    let requests = &trial.server.asked()[before..];
    assert_eq!(requests.len(), 5);
    for request in requests {
        let text = request.json.to_string();
        assert!(text.contains(NEW) && !text.contains(OLD) && !text.contains("fence"), "{text}");
    }
    // It is charged for what it did, and the old session's cost is not counted again.
    let made = journal(&trial, "last");
    costs(&finish, used(&made, 0));
    assert!(finish.get("shared").is_none(), "{finish}");
    assert!(finish["durationMs"].as_u64().unwrap() < 60_000, "{finish}");
}

#[test]
fn a_fork_with_another_task_shares_no_record_but_the_setup() {
    let Ended { trial, .. } = finished([]);
    let old = journal(&trial, "last");
    let (id, records) = (old.header.session.clone(), old.records.len());
    for at in [None, Some(1), Some(records / 2), Some(records)] {
        let at = at.map(|at| at.to_string());
        let mut arguments = vec!["fork", &id, "--task", NEW, "--no-run", "--output", "json"];
        arguments.extend(at.iter().flat_map(|at| ["--at", at]));
        let made = asked(&trial, &arguments);
        assert_eq!((&made["from"]["session"], &made["from"]["record"]), (&json!(id), &json!(1)), "{made}");
        assert!(made.get("shared").is_none(), "{made}");
        let made = journal(&trial, made["session"].as_str().unwrap());
        assert_eq!((made.records.len(), made.header.task.as_str()), (1, NEW));
        assert!(rawko::explain(&made).is_empty(), "a decision is shared");
    }
    let (code, _, err) = trial.ask(&["fork", &id, "--task", NEW, "--at", "0"]);
    assert!(code == Some(2) && err.contains("would share nothing"), "{err}");
    let (code, _, err) = trial.ask(&["fork", &id, "--task", " "]);
    assert!(code == Some(2) && err.contains("task"), "{err}");
    assert_eq!(journal(&trial, &id), old, "the old session is as it was");
}

#[test]
fn a_fork_with_another_task_is_replayed_explained_and_taken_back_by_itself() {
    let Ended { trial, .. } = finished(work("touch gate"));
    let made = asked(&trial, &["fork", "last", "--task", NEW, "--no-run", "--output", "json"]);
    let id = made["session"].as_str().unwrap();
    let (code, out, err) = trial.ask(&["resume"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains(id) && out.contains("Verified"), "{out}");
    let (code, out, err) = trial.ask(&["replay", id]);
    assert_eq!(code, Some(0), "{out}{err}");
    let explained = asked(&trial, &["explain", id, "1", "--json"]);
    assert_eq!(explained["input"]["task"], NEW, "{explained}");
    assert!(explained["input"]["plan"].is_null(), "{explained}");
    // What the old session left is where this one began.
    let (code, patch, _) = trial.ask(&["diff", id]);
    assert!(code == Some(0) && patch.contains("gate") && !patch.contains("fence"), "{patch}");
    let (code, out, err) = trial.ask(&["rewind", id, "--to", "1"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(trial.project().join("fence").exists() && !trial.project().join("gate").exists());
}

#[test]
fn a_fork_of_a_fork_has_nothing_of_the_tasks_before_it() {
    let third = "Sweep the path.";
    let Ended { trial, .. } = finished(work("touch gate").into_iter().chain(work("touch path")));
    asked(&trial, &["fork", "last", "--task", NEW, "--output", "json"]);
    let finish = asked(&trial, &["fork", "last", "--task", third, "--output", "json"]);
    assert_eq!(
        (&finish["status"], &finish["agentSummary"]),
        (&json!("verified"), &json!("touch path is done"))
    );
    assert!(trial.project().join("path").exists());
    let made = journal(&trial, "last");
    costs(&finish, used(&made, 0));
    let all = format!("{:?}", made.records);
    assert!(all.contains(third) && !all.contains(NEW) && !all.contains(OLD));
}

/// How many records of the old session lead up to the result of its command, consequences included.
fn after_the_command(old: &Journal) -> usize {
    let finished = |record: &Record| matches!(record, Record::Event(it) if matches!(it.event, Event::Answered { answer: EffectAnswer::ToolFinished { .. }, .. }));
    old.records.iter().rposition(finished).unwrap() + 2
}

#[test]
fn a_fork_that_shares_records_is_charged_for_its_own_calls_alone() {
    let rest = || [report("did it"), complete("done another way")].map(paid);
    let Ended { trial, .. } = finished(rest().into_iter().chain(rest()));
    let old = journal(&trial, "last");
    let at = after_the_command(&old).to_string();
    let finish = asked(&trial, &["fork", "last", "--at", &at, "--output", "json"]);
    assert_eq!((&finish["status"], &finish["iterations"]), (&json!("verified"), &json!(1)), "{finish}");
    let made = journal(&trial, "last");
    let shared = events(&made).position(|event| matches!(event, Event::SessionResumed { .. })).unwrap();
    costs(&finish, used(&made, shared));
    assert_eq!(finish["usage"]["inputTokens"], 2_000);
    let before = &finish["shared"];
    assert_eq!(
        (&before["iterations"], &before["usage"]["inputTokens"]),
        (&json!(1), &json!(3_000)),
        "{finish}"
    );
    let (all, reported) =
        (used(&made, 0).1, before["costUsd"].as_f64().unwrap() + finish["costUsd"].as_f64().unwrap());
    assert!((all - reported).abs() < 1e-9, "{finish}");
    let (code, out, err) = trial.ask(&["replay"]);
    assert_eq!(code, Some(0), "{out}{err}");
    // The fork of that fork shares what both did, and is charged for neither.
    let at = (made.records.len() - 2).to_string();
    let made = asked(&trial, &["fork", "last", "--at", &at, "--no-run", "--output", "json"]);
    assert!(made["shared"]["usage"]["inputTokens"].as_u64().unwrap() >= 4_000, "{made}");
}

#[test]
fn every_form_of_output_says_what_a_fork_shares() {
    let rest = || [report("did it"), complete("done another way")].map(paid);
    let Ended { trial, .. } = finished(rest().into_iter().chain(rest()));
    let old = journal(&trial, "last");
    let (id, records) = (old.header.session.clone(), after_the_command(&old));
    let at = records.to_string();
    let has = |text: &str, words: &[&str]| {
        for word in words {
            assert!(text.contains(word), "{word:?} is missing in:\n{text}");
        }
    };
    let (code, out, err) = trial.ask(&["fork", &id, "--at", &at]);
    assert_eq!(code, Some(0), "{out}{err}");
    has(
        &err,
        &[&format!("shares {records} records with {id}"), "1 iteration, 3.3k tokens, $", "not counted again"],
    );
    has(&out, &["Iterations:    1 (1 shared)", "Tokens:        2.2k", "Shared:        3.3k tokens, $"]);
    let (code, out, err) = trial.ask(&["fork", &id, "--at", &at, "--output", "stream-json"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let stream: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let forked_from = json!({"session": id, "record": records});
    assert_eq!(stream[0]["forkedFrom"], forked_from);
    let usage = stream.iter().find(|event| event["type"] == "tokens_used").unwrap();
    assert_eq!(usage["total"], usage["usage"], "the first own call is the first that counts");
    assert_eq!(stream.last().unwrap()["shared"]["usage"]["inputTokens"], 3_000);
    let listed = asked(&trial, &["sessions", "list", "--json"]);
    let (first, last) = (&listed[0], &listed[2]);
    assert_eq!((first.get("forkedFrom"), &last["forkedFrom"]), (None, &forked_from));
    assert_eq!(last["outcome"]["usage"]["inputTokens"], 2_000);
    assert_eq!(last["outcome"]["shared"]["usage"]["inputTokens"], 3_000);
    let (_, list, _) = trial.ask(&["sessions", "list"]);
    let dollars = |session: &Value| format!("${:.4}", session["outcome"]["costUsd"].as_f64().unwrap());
    has(&list, &[&dollars(first), &dollars(last)]);
    assert_ne!(dollars(first), dollars(last));
    let (_, shown, _) = trial.ask(&["sessions", "show"]);
    has(&shown, &[&format!("(forked from {id})"), "1 (1 shared)", "Shared:        3.3k tokens, $"]);
    let shown = asked(&trial, &["sessions", "show", "--json"]);
    assert_eq!(shown["header"]["forkedFrom"], forked_from);
    assert_eq!(shown["outcome"]["shared"]["iterations"], 1);
    let (_, document, _) = trial.ask(&["sessions", "export", "--format", "markdown"]);
    has(&document, &["Forked from", &id, "Shared", "3300 tokens and $"]);
    let (_, page, _) = trial.ask(&["sessions", "export", "--format", "html"]);
    has(&page, &["\"sharedRecords\":", &format!("\"parent\":{{\"format\":1,\"head\":{{\"id\":\"{id}\"")]);
    let document = asked(&trial, &["sessions", "export", "--format", "json"]);
    assert_eq!(document["outcome"]["shared"]["usage"]["inputTokens"], 3_000);
}

#[test]
fn a_fork_with_another_task_says_that_it_shares_nothing_else() {
    let Ended { trial, .. } = finished(work("touch gate"));
    let id = journal(&trial, "last").header.session;
    let (code, out, err) = trial.ask(&["fork", &id, "--task", NEW]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(
        err.contains(&format!("with the setup of {id}")) && err.contains("nothing else is shared"),
        "{err}"
    );
    assert!(!out.contains("Shared:") && out.contains("Tokens:        5.5k"), "{out}");
}

#[test]
fn what_has_ended_says_what_a_fork_of_it_would_be() {
    let Ended { trial, .. } = finished([]);
    let (code, _, err) = trial.ask(&["resume", "last"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("it has ended") && err.contains("--at N") && err.contains("--task"), "{err}");
    assert!(err.contains("remembers nothing"), "{err}");
}

#[test]
fn a_fork_in_the_second_task_is_charged_for_its_own_calls_alone() {
    let rest = || [report("did it"), complete("done another way")].map(paid);
    let Ended { trial, .. } = finished(work("touch gate").into_iter().chain(rest()));
    let (code, out, err) = trial.ask(&["continue", NEW, "--output", "json"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let second: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(second["usage"]["inputTokens"], 5_000, "{second}");
    let old = journal(&trial, "last");
    let at = after_the_command(&old).to_string();
    let finish = asked(&trial, &["fork", "last", "--at", &at, "--output", "json"]);
    let made = journal(&trial, "last");
    let shared = events(&made).position(|event| matches!(event, Event::SessionResumed { .. })).unwrap();
    costs(&finish, used(&made, shared));
    assert_eq!(finish["usage"]["inputTokens"], 2_000);
    // Of the task that it goes on with: the first one was the old session's, from beginning to end.
    assert_eq!(finish["shared"]["usage"]["inputTokens"], 3_000, "{finish}");
    let (code, out, err) = trial.ask(&["replay"]);
    assert_eq!(code, Some(0), "{out}{err}");
    // A checkpoint of either task can be gone back to.
    let (code, out, err) = trial.ask(&["rewind", "last", "--to", "1", "--dry-run"]);
    assert!(out.contains("would remove fence"), "{code:?} {out}{err}");
}

/// How many records a fork shares, and why no more.
#[track_caller]
fn shares(trial: &Trial, id: &str, more: &[&str]) -> (u64, String) {
    let made = asked(trial, &[&["fork", id, "--no-run", "--output", "json"], more].concat());
    (made["from"]["record"].as_u64().unwrap(), made["stopped"]["why"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_fork_with_other_verification_commands_shares_what_came_before_the_verification() {
    let Ended { trial, .. } = finished([]);
    let old = journal(&trial, "last");
    let id = old.header.session.clone();
    let verified = |record: &Record| matches!(record, Record::Event(it) if matches!(it.event, Event::Answered { answer: EffectAnswer::VerificationFinished { .. }, .. }));
    let verified = u64::try_from(old.records.iter().position(verified).unwrap()).unwrap() + 1;
    let (same, why) = shares(&trial, &id, &["--verify", CHECK]);
    assert_eq!((same, why.as_str()), (shares(&trial, &id, &[]).0, ""), "the same commands are the same");
    let (other, why) = shares(&trial, &id, &["--verify", "true"]);
    assert!(other == verified - 1 && why.contains("verification commands"), "{other} of {verified}: {why}");
}
