//! `rawko arbiter eval` against a model server, and the way from past sessions to situations.

use std::sync::atomic::{AtomicUsize, Ordering};

use rawko_core::arbiter::{Situation, parse_situations};
use rawko_core::usage::Usage;
use serde_json::{Value, json};
use testkit::{Answer, Asked, ModelServer, Say, Who};

use crate::answers::{always, complete, decide, report, select};
use crate::trial::Trial;

const SITUATIONS: &str = include_str!("../../../../eval/situations.jsonl");
const FILE: &str = "s.jsonl";

/// The first situations of the repository's own.
fn first(count: usize) -> (String, Vec<Situation>) {
    let lines: Vec<&str> = SITUATIONS.lines().take(count).collect();
    let text = lines.join("\n");
    let read = parse_situations(&text).unwrap();
    (text, read)
}

/// The answer that a situation wants.
fn wanted(situation: &Situation) -> Value {
    serde_json::to_value(&situation.acceptable[0]).unwrap()
}

fn said(decision: Value) -> Answer {
    let usage = Usage { input_tokens: 1_000, output_tokens: 100, ..Usage::default() };
    Say { decision: Some(decision), usage, ..Say::default() }.into()
}

/// A trial with the first `count` situations in its file.
fn trial(server: ModelServer, count: usize) -> Trial {
    Trial::new(server).file(FILE, &first(count).0)
}

#[track_caller]
fn evaluated(trial: &Trial, arguments: &[&str]) -> Value {
    let (code, out, err) = trial.ask(&[&["arbiter", "eval", FILE, "--json"], arguments].concat());
    assert_eq!(code, Some(0), "{out}{err}");
    serde_json::from_str(&out).expect(&out)
}

#[track_caller]
fn fails(trial: &Trial, arguments: &[&str], code: i32, part: &str) {
    let (got, out, err) = trial.ask(&[&["arbiter", "eval"], arguments].concat());
    assert_eq!(got, Some(code), "{out}{err}");
    assert!(err.contains(part), "{part} is missing in {err}");
}

#[test]
fn good_answers_are_right_and_have_a_price() {
    let answers = first(12).1.iter().map(|situation| said(wanted(situation))).collect::<Vec<_>>();
    let trial = trial(ModelServer::sequence(answers), 12);
    let report = evaluated(&trial, &["--mode", "llm", "--concurrency", "1", "--model", "claude-haiku-4-5"]);
    assert_eq!(report["accuracy"], json!({"of": 12, "right": 12}), "{report}");
    assert_eq!(report["bySource"], json!({"llm": {"of": 12, "right": 12}}));
    assert_eq!(
        (&report["wrong"], &report["failed"], &report["repaired"]),
        (&json!([]), &json!([]), &json!(0))
    );
    assert_eq!((&report["mode"], &report["model"]), (&json!("llm"), &json!("claude-haiku-4-5")));
    assert_eq!(report["usage"]["inputTokens"], 12_000);
    let cost = report["costUsd"].as_f64().unwrap();
    assert!((cost - 12.0 * (0.001 + 0.0005)).abs() < 1e-9, "{cost}");
    let asked = trial.server.asked();
    assert_eq!(asked.len(), 12);
    assert!(asked.iter().all(|asked| asked.forced_tool() == Some("decide")));
}

#[test]
fn wrong_answers_are_reported_with_their_reason() {
    let wrong = json!({"decision": "SELECT_MODE", "mode": "tester", "reason": "I feel like testing"});
    let trial = trial(ModelServer::start(move |_: &Asked| said(wrong.clone())), 1);
    let (code, out, err) = trial.ask(&["arbiter", "eval", FILE, "--mode", "llm"]);
    assert_eq!(code, Some(0), "{err}");
    for part in [
        "wrong start-large-feature: SELECT_MODE tester",
        "expected SELECT_MODE planner",
        "I feel like testing",
    ] {
        assert!(out.contains(part), "{part} is missing in {out}");
    }
    let arguments = ["arbiter", "eval", FILE, "--mode", "llm", "--min-accuracy", "0.9"];
    assert_eq!(trial.ask(&arguments).0, Some(1));
}

#[test]
fn prose_is_repaired_once_and_then_the_fallback_decides() {
    let trial = trial(always(Answer::text("Hm."), Answer::text("Hm."), Answer::text("Hm.")), 5);
    let report = evaluated(&trial, &["--mode", "llm"]);
    assert_eq!(report["bySource"]["fallback"]["of"], 5, "{report}");
    assert_eq!(trial.server.asked().len(), 10, "one repair for each");
    let rules = evaluated(&trial, &["--mode", "fallback"]);
    assert_eq!(rules["accuracy"], report["accuracy"], "the same fallback");
    assert_eq!(trial.server.asked().len(), 10, "which asks no model");
}

#[test]
fn a_usable_second_answer_counts_as_repaired() {
    let (_, situations) = first(1);
    let trial = trial(ModelServer::sequence([Answer::text("Hm."), said(wanted(&situations[0]))]), 1);
    let report = evaluated(&trial, &["--mode", "llm"]);
    assert_eq!((&report["repaired"], &report["accuracy"]["right"]), (&json!(1), &json!(1)), "{report}");
}

#[test]
fn repetitions_that_differ_do_not_agree() {
    let count = AtomicUsize::new(0);
    let server = ModelServer::start(move |_: &Asked| {
        let agents = ["planner", "developer"];
        select(agents[count.fetch_add(1, Ordering::Relaxed) % 2])
    });
    let trial = trial(server, 1);
    let report = evaluated(&trial, &["--mode", "llm", "--repeat", "4", "--concurrency", "1"]);
    assert_eq!(report["accuracy"], json!({"of": 4, "right": 2}), "{report}");
    assert_eq!(report["agreement"]["repeats"], json!({"of": 1, "right": 0}));
}

#[test]
fn a_provider_that_is_not_there_ends_in_4() {
    let mode: &[&str] = &[FILE, "--mode", "llm", "--concurrency", "1"];
    let down = trial(ModelServer::start(|_: &Asked| Answer::HangUp), 2);
    fails(&down, mode, 4, "provider `claude`");
    let refusing = trial(ModelServer::start(|_: &Asked| Answer::unauthorized()), 20);
    fails(&refusing, mode, 4, "authentication_failed");
    assert_eq!(refusing.server.asked().len(), 1, "no question after a key was refused");
    fails(&trial(ModelServer::sequence([]), 2).without_key(), mode, 4, "ANTHROPIC_API_KEY");
}

#[test]
fn one_failure_among_answers_is_reported_and_counts_as_wrong() {
    let (_, situations) = first(2);
    let answers = [said(wanted(&situations[0])), Answer::refuse(400, "invalid_request_error", "no")];
    let trial = trial(ModelServer::sequence(answers), 2);
    let report = evaluated(&trial, &["--mode", "llm", "--concurrency", "1"]);
    assert_eq!(report["accuracy"], json!({"of": 2, "right": 1}), "{report}");
    assert_eq!(report["failed"][0]["id"], situations[1].id.as_str());
}

#[test]
fn money_is_reserved_before_it_is_spent() {
    let planner =
        || ModelServer::start(|_: &Asked| said(json!({"decision": "SELECT_MODE", "mode": "planner"})));
    let trial = trial(planner(), 10);
    let model = ["--mode", "llm", "--concurrency", "1", "--model", "claude-haiku-4-5"];
    let report = evaluated(&trial, &[&model[..], &["--max-cost", "0.015"]].concat());
    let (tried, not_tried) =
        (report["accuracy"]["of"].as_u64().unwrap(), report["notTried"].as_u64().unwrap());
    assert!(tried > 1 && not_tried > 1 && tried + not_tried == 10, "{report}");
    assert!(report["costUsd"].as_f64().unwrap() <= 0.015, "{report}");
    let unknown = [FILE, "--mode", "llm", "--model", "nobody-knows", "--max-cost", "1"];
    fails(&trial, &unknown, 2, "the price of the model `nobody-knows` is not known");
}

#[test]
fn unusable_files_are_reported_with_line_and_field() {
    let (one, _) = first(1);
    let trial = Trial::new(ModelServer::sequence([]))
        .file("bad.jsonl", &format!("{one}\n{{\"id\": \"x\", \"point\": \"choose\", \"input\": {{}}}}\nhm\n"))
        .file("empty.jsonl", "\n")
        .file("prompts/other.md", "");
    fails(&trial, &["bad.jsonl", "--mode", "rules"], 2, "line 2 (x): point: is \"choose\"");
    fails(&trial, &["bad.jsonl", "--mode", "rules"], 2, "line 3: not a JSON object");
    fails(&trial, &["empty.jsonl", "--mode", "rules"], 2, "no situation");
    fails(&trial, &["none.jsonl", "--mode", "rules"], 2, "cannot read none.jsonl");
    fails(&trial, &[], 2, "FILE");
    let trial = trial.file(FILE, &one);
    fails(&trial, &[FILE, "--prompts", "prompts"], 2, "neither arbiter-select.md nor");
    fails(&trial, &[FILE, "--min-accuracy", "2"], 2, "a share from 0 to 1");
}

#[test]
fn another_prompt_can_be_tried() {
    let (_, situations) = first(1);
    let trial = trial(ModelServer::sequence([said(wanted(&situations[0]))]), 1)
        .file("prompts/arbiter-select.md", "You choose.\n<!-- volatile -->\nBriefly: {task}");
    let report = evaluated(&trial, &["--mode", "llm", "--prompts", "prompts"]);
    assert_eq!(report["accuracy"]["right"], 1, "{report}");
    let asked = trial.server.asked();
    assert!(asked[0].last_text().starts_with("Briefly: Add login"), "{}", asked[0].last_text());
}

/// A run, its decisions as situations, and the same questions put again to the same model.
#[test]
fn past_sessions_become_situations() {
    let behaviour = |asked: &Asked| match asked.who() {
        Who::Select => select("developer"),
        Who::Agent => report("did it"),
        Who::Evaluate if asked.last_text().contains("Iteration 1 ") => {
            decide(json!({"decision": "SELECT_MODE", "mode": "reviewer", "reason": "it has to be read"}))
        }
        Who::Evaluate => complete("all done"),
    };
    let ended = Trial::new(ModelServer::start(behaviour)).run("Do it.");
    ended.exits(0);
    let trial = &ended.trial;
    let of_arbiter = |asked: &&Asked| asked.who() != Who::Agent;
    let questions = |from: usize| -> Vec<String> {
        trial.server.asked().iter().skip(from).filter(of_arbiter).map(Asked::last_text).collect()
    };
    let (in_run, asked_in_run) = (questions(0), trial.server.asked().len());
    let (code, lines, err) = trial.ask(&["sessions", "export", "--situations"]);
    assert_eq!(code, Some(0), "{err}");
    let situations = parse_situations(&lines).unwrap();
    assert_eq!(situations.len(), in_run.len());
    let recorded = situations[0].recorded.as_ref().unwrap();
    assert_eq!((recorded.source.as_str(), recorded.model.is_some()), ("llm", true));
    std::fs::write(trial.project().join(FILE), &lines).unwrap();
    let report = evaluated(trial, &["--mode", "llm", "--concurrency", "1"]);
    assert_eq!(report["accuracy"], json!({"of": 3, "right": 3}), "{report}");
    assert_eq!(report["agreement"]["recorded"], json!({"of": 3, "right": 3}));
    assert_eq!(questions(asked_in_run), in_run, "the same questions to the letter");
}

#[test]
fn a_humans_decision_is_a_label_too() {
    let server = always(select("planner"), complete("all done"), report("did it"));
    let ended = Trial::new(server).args(&["--agent", "developer"]).run("Do it.");
    let (_, lines, _) = ended.trial.ask(&["sessions", "export", "last", "--situations"]);
    let first = parse_situations(&lines).unwrap().remove(0);
    assert_eq!(first.acceptable[0].to_string(), "SELECT_MODE developer");
    assert_eq!(first.recorded.unwrap().source, "human");
    let (code, _, err) = ended.trial.ask(&["sessions", "export", "a", "b"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("only --situations takes several"), "{err}");
}
