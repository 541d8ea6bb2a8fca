//! Where a run must stop: it stops, says by which limit, and exits with 3.

use std::time::Duration;

use rawko_core::Usage;
use serde_json::json;
use testkit::{Answer, Delivery, Say};

use crate::answers::{always, bash, decide, report, select};
use crate::trial::{Ended, Trial};

#[track_caller]
fn limited(trial: Trial, words: &[&str]) -> Ended {
    let ended = trial.run("Do it.");
    ended.exits(3);
    let finish = ended.finish();
    assert_eq!(finish["status"], "limited");
    let summary = finish["summary"].as_str().unwrap();
    for word in words {
        assert!(summary.contains(word), "{word:?} is missing in {summary:?}");
    }
    ended
}

/// An arbiter that never finds an end is stopped by the iterations.
#[track_caller]
fn check_endless(evaluate: &Answer) {
    let server = always(select("developer"), evaluate.clone(), report("did something"));
    let ended = limited(Trial::new(server).args(&["--max-iterations", "4"]), &["4 iterations"]);
    assert_eq!(ended.finish()["agentSummary"], "did something");
    assert_eq!(ended.finish()["iterations"], 4);
    assert_eq!(ended.events_of("agent_started").len(), 4);
}

#[test]
fn an_arbiter_that_always_wants_to_go_on() {
    check_endless(&decide(json!({"decision": "CONTINUE", "reason": "more"})));
}

#[test]
fn an_arbiter_that_always_wants_to_try_again() {
    check_endless(&decide(json!({"decision": "RETRY", "reason": "again"})));
}

#[test]
fn an_arbiter_that_always_selects() {
    check_endless(&select("tester"));
}

#[test]
fn time() {
    // The agent's model is asked, and never answers.
    let server = always(select("developer"), report(""), Answer::Silence);
    let ended = limited(Trial::new(server).args(&["--timeout", "300ms"]), &["time is up"]);
    assert!(ended.finish()["durationMs"].as_u64().unwrap() >= 300);
}

#[test]
fn a_timeout_without_a_unit_is_seconds() {
    let server = always(select("developer"), report(""), Answer::Silence);
    let ended = limited(Trial::new(server).args(&["--timeout", "1"]), &["time is up"]);
    assert!(ended.finish()["durationMs"].as_u64().unwrap() >= 1_000, "{}", ended.finish());
}

#[test]
fn time_while_a_command_runs() {
    let server = always(select("developer"), report(""), bash("echo here > begun; sleep 1000"));
    let ended = limited(Trial::new(server).args(&["--timeout", "3s"]), &["time is up"]);
    assert!(ended.trial.project().join("begun").exists());
    assert!(crate::signals::nothing_is_left(&ended.trial), "the command outlived the run");
}

#[test]
fn cost() {
    let usage = Usage { input_tokens: 100_000, output_tokens: 10_000, ..Usage::default() };
    let dear = Say { usage, ..Say::default() }.with_call("Glob", &json!({"pattern": "*"}));
    let mut cheap = select("developer");
    if let Answer::Say(say) = &mut cheap {
        say.usage = Usage { input_tokens: 10_000, output_tokens: 100, ..Usage::default() };
    }
    let server = always(cheap, report(""), dear.into());
    let trial = Trial::new(server).args(&["--max-cost", "0.52", "--model", "claude-sonnet-4-5"]);
    // 0.0315 dollars for the choice and 0.45 a turn: the second one is begun, and nothing after it.
    let ended = limited(trial, &["cost budget", "0.5"]);
    assert_eq!(ended.trial.server.asked().len(), 3);
    assert!((ended.finish()["costUsd"].as_f64().unwrap() - 0.9315).abs() < 1e-9);
}

#[test]
fn cost_of_an_unknown_model() {
    let trial = Trial::new(always(select("developer"), report(""), report("")));
    let ended = trial.args(&["--max-cost", "1", "--model", "mystery"]).run("Do it.");
    ended.exits(2).says(&["price", "mystery", "prices.mystery"]);
    assert!(ended.trial.server.asked().is_empty());
}

#[test]
fn turns_of_an_agent_are_not_the_end_of_the_run() {
    let turn = |asked: &testkit::Asked| match asked.who() {
        testkit::Who::Select => select("looker"),
        testkit::Who::Agent => crate::answers::call("Glob", &json!({"pattern": "*"})),
        testkit::Who::Evaluate => crate::answers::complete("enough"),
    };
    let agent = json!({"name": "looker", "systemPrompt": "Look.", "tools": {"allowed": ["Glob"]}, "limits": {"maxIterations": 3}});
    let ended = Trial::new(testkit::ModelServer::start(turn)).agent(&agent).run("Look.");
    ended.exits(0);
    assert_eq!(ended.events_of("tool_called").len(), 3);
    let question = ended.trial.server.asked().pop().unwrap();
    assert!(question.last_text().contains("used up its turns"), "{}", question.last_text());
}

#[test]
fn the_time_of_one_execution() {
    let slow = Answer::text("too late")
        .delivered(Delivery { delay: Duration::from_secs(600), ..Delivery::default() });
    let server = always(select("slow"), report(""), slow);
    let agent = json!({"name": "slow", "systemPrompt": "Be slow.", "tools": {"allowed": ["Read"]}, "limits": {"timeout": 200}});
    let trial = Trial::new(server).agent(&agent).env("RAWKO_MAX_CONSECUTIVE_FAILURES", "1");
    let ended = trial.run("Do it.");
    ended.exits(1);
    assert_eq!(ended.finish()["error"]["code"], "timeout");
    assert!(ended.finish()["summary"].as_str().unwrap().contains("limits.timeout"));
}

#[test]
fn tokens() {
    let usage = Usage { input_tokens: 3_000, output_tokens: 200, ..Usage::default() };
    let looks = Say { usage, ..Say::default() }.with_call("Glob", &json!({"pattern": "*"}));
    let server = always(select("developer"), report(""), looks.into());
    let ended = limited(Trial::new(server).args(&["--max-tokens", "10000"]), &["token budget", "of 10000"]);
    assert_eq!(ended.finish()["limit"], "tokens");
    // The last answers may only be as long as what is left.
    let asked = ended.trial.server.asked();
    let answers: Vec<u64> = asked.iter().map(|asked| asked.json["max_tokens"].as_u64().unwrap()).collect();
    assert!(answers.windows(2).skip(1).all(|pair| pair[1] < pair[0]), "{answers:?}");
    assert!(answers.iter().all(|tokens| (256..10_000).contains(tokens)), "{answers:?}");
}

#[test]
fn what_was_cut_off_is_paid_for() {
    let usage = Usage { input_tokens: 100_000, output_tokens: 10_000, ..Usage::default() };
    let say = Say { text: "a word and another word".to_owned(), usage, ..Say::default() };
    let cut = Delivery { cut: Some(testkit::Cut::Events(4)), ..Delivery::default() };
    let cut = Answer::from(say).delivered(cut);
    let trial = Trial::new(always(select("developer"), report(""), cut));
    let trial = trial.env("RAWKO_MAX_CONSECUTIVE_FAILURES", "1").args(&["--model", "claude-sonnet-4-5"]);
    let ended = trial.run("Do it.");
    ended.exits(4);
    let cost = ended.finish()["costUsd"].as_f64().unwrap();
    assert!((0.90..0.93).contains(&cost), "the prompt of 100,000 tokens costs $0.30, three times: {cost}");
}

#[test]
fn the_budget_of_an_agent_ends_its_work_and_not_the_run() {
    let server = testkit::ModelServer::start(|asked: &testkit::Asked| match asked.who() {
        testkit::Who::Select => select("looker"),
        testkit::Who::Agent => {
            let usage = Usage { input_tokens: 3_000, output_tokens: 200, ..Usage::default() };
            Say { usage, ..Say::default() }.with_call("Glob", &json!({"pattern": "*"})).into()
        }
        testkit::Who::Evaluate => crate::answers::complete("enough"),
    });
    let agent = json!({"name": "looker", "systemPrompt": "Look.", "tools": {"allowed": ["Glob"]}, "limits": {"maxIterations": 50}, "budget": {"maxTokens": 9_000, "maxDuration": "10m"}});
    let ended = Trial::new(server).agent(&agent).args(&["--yes"]).run("Look.");
    ended.exits(0);
    assert_eq!(ended.events_of("tool_called").len(), 3);
    let question = ended.trial.server.asked().pop().unwrap();
    assert!(question.last_text().contains("budget.maxTokens"), "{}", question.last_text());
    assert!(question.last_text().contains("own budget is used up"), "{}", question.last_text());
}

#[test]
fn the_budget_of_an_agent_needs_a_price() {
    let trial = Trial::new(always(select("developer"), report(""), report("")));
    let agent = json!({"name": "looker", "systemPrompt": "Look.", "tools": {"allowed": ["Read"]}, "provider": {"model": "mystery"}, "budget": {"maxCostUsd": 1}});
    let ended = trial.agent(&agent).args(&["--yes"]).run("Do it.");
    ended.exits(2).says(&["price", "mystery", "prices.mystery"]);
}

/// Limits that the user did not choose: on where the price is known, said at the start, and lifted by 0.
#[track_caller]
fn check_default(arguments: &[&str], cost: Option<f64>, ms: Option<u64>) {
    let trial = Trial::new(crate::answers::developer([])).args(arguments);
    let ended = trial.run("Do it.");
    ended.exits(0);
    let limits = &ended.events_of("session_started")[0]["limits"];
    assert_eq!(limits["maxCostUsd"].as_f64(), cost, "{arguments:?}: {limits}");
    assert_eq!(limits["maxDurationMs"].as_u64(), ms, "{arguments:?}: {limits}");
}

#[test]
fn limits_by_default() {
    const FOUR_HOURS: u64 = 4 * 3_600_000;
    let known = ["--model", "claude-sonnet-4-5"];
    check_default(&known, Some(10.0), Some(FOUR_HOURS));
    check_default(&["--model", "mystery"], None, Some(FOUR_HOURS));
    check_default(&[&known[..], &["--max-cost", "0", "--timeout", "0"]].concat(), None, None);
    check_default(&[&known[..], &["--max-cost", "2", "--timeout", "5m"]].concat(), Some(2.0), Some(300_000));
}

/// One execution that solves the task costs one selection and one evaluation beside the agent's own calls.
#[test]
fn a_simple_task_stays_cheap() {
    let write = crate::answers::call("Write", &json!({"file_path": "a.txt", "content": "done\n"}));
    let server = testkit::ModelServer::sequence([
        select("developer"),
        write,
        report("wrote it"),
        crate::answers::complete("all done"),
    ]);
    let ended = Trial::new(server).args(&["--verify", "test -s a.txt"]).run("Write a.txt.");
    ended.exits(0);
    assert_eq!(ended.finish()["status"], "verified");
    let asked = ended.trial.server.asked();
    let count = |who| asked.iter().filter(|asked| asked.who() == who).count();
    assert_eq!((count(testkit::Who::Select), count(testkit::Who::Evaluate), asked.len()), (1, 1, 4));
}
