//! `rawko usage`: what sessions used, each call counted once.

use std::path::PathBuf;

use rawko::journal::SessionStore;
use rawko_core::Usage;
use rawko_core::cost::PriceTable;
use serde_json::{Value, json};
use testkit::{Answer, ModelServer, Wire};

use crate::answers::{bash, complete, report, select};
use crate::trial::Trial;

const USED: Usage = Usage {
    input_tokens: 1_000,
    output_tokens: 100,
    cache_read_tokens: 3_000,
    cache_write_tokens: 200,
    web_searches: 0,
    estimated: false,
};

/// Four calls of a task.
fn work(command: &str) -> impl Iterator<Item = Answer> + use<> {
    let paid = |answer| match answer {
        Answer::Say(mut say) => {
            say.usage = USED;
            Answer::Say(say)
        }
        other => other,
    };
    [select("developer"), bash(command), report("did it"), complete("done")].into_iter().map(paid)
}

#[track_caller]
fn usage(trial: &Trial, arguments: &[&str]) -> Value {
    let (code, out, err) = trial.rawko(&[&["usage", "--json"], arguments].concat());
    assert_eq!(code, Some(0), "{out}{err}");
    serde_json::from_str(&out).unwrap()
}

#[track_caller]
fn ask(trial: &Trial, arguments: &[&str]) {
    let (code, out, err) = trial.ask(arguments);
    assert_eq!(code, Some(0), "{out}{err}");
}

/// A session of two tasks, a fork of it that did nothing itself, and one with a task of its own.
fn three_sessions() -> Trial {
    let answers = ["touch one", "touch two", "touch three"].into_iter().flat_map(work);
    let ended = Trial::new(ModelServer::sequence(answers)).run("Touch one.");
    ended.exits(0);
    let trial = ended.trial;
    ask(&trial, &["-c", "Now", "touch", "two."]);
    ask(&trial, &["fork", "last", "--no-run"]);
    ask(&trial, &["fork", "last", "--task", "Touch three."]);
    assert_eq!(trial.server.asked().len(), 12);
    trial
}

fn calls_of(report: &Value, what: &str) -> Vec<(String, u64)> {
    let groups = report["groups"].as_array().unwrap().iter();
    groups.map(|sum| (sum[what].as_str().unwrap().to_owned(), sum["calls"].as_u64().unwrap())).collect()
}

#[test]
fn each_call_is_counted_once_over_forks_and_continued_sessions() {
    let trial = three_sessions();
    let report = usage(&trial, &[]);
    let total = &report["total"];
    assert_eq!((&total["calls"], &total["sessions"]), (&json!(12), &json!(2)), "{report}");
    let expected = json!({
        "inputTokens": 12_000, "outputTokens": 1_200, "cacheReadTokens": 36_000, "cacheWriteTokens": 2_400,
    });
    assert_eq!(total["usage"], expected);
    let model = report["groups"][0]["model"].as_str().unwrap().strip_prefix("claude/").unwrap();
    let cost = 12.0 * PriceTable::default().cost(model, &USED).unwrap();
    assert!((total["costUsd"].as_f64().unwrap() - cost).abs() < 1e-9, "{total} is not {cost}");
    assert_eq!((&total["unpricedCalls"], &report["unread"]), (&json!(0), &json!([])));

    let by_agent = calls_of(&usage(&trial, &["--by", "agent"]), "agent");
    let expected = [("developer", 6), ("evaluate", 3), ("select", 3)];
    assert_eq!(by_agent, expected.map(|(name, calls)| (name.to_owned(), calls)));
    let by_day = usage(&trial, &["--by", "day", "--since", "1h"]);
    assert_eq!((by_day["total"]["calls"].as_u64(), by_day["by"].as_str()), (Some(12), Some("day")));
    assert_eq!(usage(&trial, &["--since", "2999-01-01"])["total"]["calls"], 0);

    let (code, out, err) = trial.rawko(&["usage"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("MODEL") && out.contains("50.4k") && out.contains("36.0k"), "{out}");
    let (code, _, err) = trial.rawko(&["usage", "--since", "soon"]);
    assert_eq!((code, err.contains("like 7d or 12h")), (Some(2), true), "{err}");
}

#[test]
fn projects_are_named() {
    let trial = three_sessions();
    let project = trial.project().canonicalize().unwrap().display().to_string();
    let empty = trial.outside().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let both = [empty.to_str().unwrap(), &project];
    let named = usage(&trial, &["--cwd", both[0], "--by", "project", "--project", both[0], both[1], both[1]]);
    assert_eq!(calls_of(&named, "project"), [(project.clone(), 12)], "{named}");
    assert_eq!(usage(&trial, &["--project", both[0]])["total"]["calls"], 0);
    // `--project ~/work/*` names what else is there, too.
    let file = trial.outside().join("notes.txt");
    std::fs::write(&file, "").unwrap();
    let (code, out, err) = trial.rawko(&["usage", "--json", "--project", file.to_str().unwrap(), &project]);
    assert!(code == Some(0) && err.contains("notes.txt: this is not a folder"), "{err}");
    assert!(out.contains("\"calls\": 12"), "{out}");
    let (code, _, err) = trial.rawko(&["usage", "--project", "/nowhere/at/all"]);
    assert_eq!((code, err.contains("/nowhere/at/all")), (Some(2), true), "{err}");
}

#[test]
fn a_damaged_journal_is_named_and_the_others_are_counted() {
    let trial = three_sessions();
    let journals: Vec<(String, PathBuf)> = SessionStore::of_project(&trial.project()).journals().unwrap();
    let (first, path) = &journals[0];
    // The last answer of the second task is changed: what is before it was paid for.
    let text = std::fs::read_to_string(path).unwrap();
    let at = text.rfind("\"ModelReplied\"").unwrap() + 1;
    std::fs::write(path, format!("{}X{}", &text[..at], &text[at + 1..])).unwrap();
    let report = usage(&trial, &[]);
    assert_eq!(report["total"]["calls"], 11, "{report}");
    let unread = &report["unread"][0];
    assert_eq!((&unread["session"], &unread["isCountedInPart"]), (&json!(first), &json!(true)));
    // Nothing of the second fork's can be read.
    let (last, path) = &journals[2];
    std::fs::write(path, "no journal\n").unwrap();
    let report = usage(&trial, &[]);
    assert_eq!(report["total"]["calls"], 7, "{report}");
    assert_eq!(report["unread"].as_array().unwrap().len(), 2);
    let (code, _, err) = trial.rawko(&["usage"]);
    assert_eq!(code, Some(0), "{err}");
    for part in [first.as_str(), last, "counted up to its damage", "not counted"] {
        assert!(err.contains(part), "{part} is missing in {err}");
    }
}

#[test]
fn a_price_that_is_not_known_is_no_price_of_0() {
    let trial = Trial::new(ModelServer::sequence(work("true").chain(work("false"))))
        .wire(Wire::OpenAi)
        .user_config("/provider/openai/model", json!("mystery-1"));
    let ended = trial.run("Do it.");
    ended.exits(0);
    let report = usage(&ended.trial, &[]);
    let total = &report["total"];
    assert_eq!((&total["costUsd"], &total["unpricedCalls"]), (&Value::Null, &json!(4)), "{report}");
    let (_, out, _) = ended.trial.rawko(&["usage"]);
    assert!(out.contains("openai/mystery-1") && out.contains("unknown") && !out.contains("$0.00"), "{out}");
    // A price that the configuration gives is used for the runs after that.
    let trial = ended.trial.user_config("/prices", json!({"mystery": {"input": 1.0, "output": 10.0}}));
    ask(&trial, &["run", "--no-cache", "Do it again."]);
    let (_, out, _) = trial.rawko(&["usage"]);
    assert!(out.contains("+ unknown"), "{out}");
}
