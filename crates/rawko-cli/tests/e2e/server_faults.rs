//! Servers that fail: a run survives faults that pass; it reports those that last, and exits with 4.

use serde_json::json;
use testkit::{Answer, Asked, Cut, Delivery, Framing, ModelServer, Say, Wire};

use crate::answers::{complete, report, select};
use crate::support::each;
use crate::trial::{Ended, Trial};

/// A message of which only the first events arrive.
fn cut(events: usize, framing: Framing) -> Answer {
    Answer::text("This sentence will never be finished, whatever it was about to say.").delivered(Delivery {
        cut: Some(Cut::Events(events)),
        framing,
        ..Delivery::default()
    })
}

/// Ends with exit status 4, and the error has this code and these words.
#[track_caller]
fn check_given_up(trial: Trial, code: &str, words: &[&str]) -> Ended {
    let ended = trial.env("RAWKO_MAX_CONSECUTIVE_FAILURES", "2").run("Do it.");
    ended.exits(4);
    let finish = ended.finish();
    assert_eq!((&finish["status"], &finish["error"]["code"]), (&json!("failed"), &json!(code)), "{finish}");
    let summary = finish["summary"].as_str().unwrap();
    for word in words {
        assert!(summary.contains(word), "{word:?} is missing in {summary:?}");
    }
    assert!(!ended.events_of("error").is_empty());
    ended
}

/// The first answers are these; then all goes well, and the run ends as if nothing had been.
#[track_caller]
fn check_lived_through(wire: Wire, faults: Vec<Answer>) -> Ended {
    let well = [select("developer"), report("did it"), complete("all done")];
    let ended = Trial::new(ModelServer::sequence(faults.into_iter().chain(well))).wire(wire).run("Do it.");
    ended.exits(0);
    assert_eq!(ended.finish()["agentSummary"], "all done");
    ended
}

#[test]
fn a_wrong_key() {
    for wire in Wire::ALL {
        let trial = Trial::new(ModelServer::start(|_: &Asked| Answer::unauthorized())).wire(wire);
        let ended = check_given_up(trial, "authentication_failed", &["invalid key"]);
        assert_eq!(ended.trial.server.asked().len(), 1, "a wrong key is not tried twice");
    }
}

#[test]
fn a_wrong_key_says_what_to_do() {
    let trial = Trial::new(ModelServer::start(|_: &Asked| Answer::unauthorized())).output("text");
    let ended = trial.run("Do it.");
    ended.exits(4);
    for part in ["invalid key", "check the key", "rawko doctor"] {
        assert!(ended.stdout.contains(part), "{part:?} is missing in:\n{}", ended.stdout);
    }
}

#[test]
fn a_stream_that_dies_once() {
    for wire in [Wire::Claude, Wire::OpenAi] {
        for framing in [Framing::Chunked, Framing::UntilClose] {
            let ended = check_lived_through(wire, vec![cut(4, framing)]);
            let waits = ended.events_of("waiting");
            assert!(waits[0]["message"].as_str().unwrap().contains("cut off"), "{waits:?}");
        }
    }
}

#[test]
fn an_agents_stream_that_dies_once() {
    let answers = [select("developer"), cut(4, Framing::Chunked), report("did it"), complete("all done")];
    let ended = Trial::new(ModelServer::sequence(answers)).run("Do it.");
    ended.exits(0);
    assert_eq!(ended.finish()["iterations"], 1, "the turn is repeated, not the execution");
}

#[test]
fn a_stream_that_always_dies() {
    // They mostly wait: a turn that was cut off is repeated after a second, and again after two.
    each(&[Wire::Claude, Wire::OpenAi], |wire| {
        let trial = Trial::new(ModelServer::start(|_: &Asked| cut(4, Framing::Chunked))).wire(*wire);
        check_given_up(trial, "network_error", &["cut off"]);
    });
}

#[test]
fn a_rate_limit_that_passes() {
    let ended = check_lived_through(Wire::Claude, vec![Answer::rate_limited("0.05")]);
    let warnings = ended.events_of("warned");
    assert!(warnings[0]["message"].as_str().unwrap().contains("rate_limited"), "{warnings:?}");
    let exchanges = ended.trial.server.exchanges();
    let waited = exchanges[1].asked.arrived.duration_since(exchanges[0].asked.arrived);
    assert!(waited.as_millis() >= 50, "the server asked for 50 ms and got {waited:?}");
}

#[test]
fn an_overload_for_ever() {
    let overloaded = |_: &Asked| Answer::overloaded().header("retry-after-ms", "5");
    let ended = check_given_up(
        Trial::new(ModelServer::start(overloaded)),
        "overloaded",
        &["Overloaded", "2 attempts"],
    );
    // The arbiter's two attempts and the agent's, which fail; then one of the arbiter, whose provider is down, and two.
    assert_eq!(ended.trial.server.asked().len(), 2 + 2 + 1 + 2);
}

#[test]
fn a_server_that_says_nothing() {
    let trial = Trial::new(ModelServer::start(|_: &Asked| Answer::Silence))
        .user_config("/provider/claude/timeouts/idle", json!("150ms"));
    check_given_up(trial, "timeout", &["sent nothing"]);
}

#[test]
fn a_server_that_stops_sending_in_the_middle() {
    let stall = |_: &Asked| {
        let delivery = Delivery { cut: Some(Cut::Events(4)), stall: true, ..Delivery::default() };
        Answer::text("This sentence will never be finished.").delivered(delivery)
    };
    let trial =
        Trial::new(ModelServer::start(stall)).user_config("/provider/claude/timeouts/idle", json!("150ms"));
    check_given_up(trial, "timeout", &["sent nothing", "cut off"]);
}

#[test]
fn a_server_that_is_not_there() {
    // The port was free a moment ago and nothing listens on it.
    let gone = ModelServer::sequence([]).claude_url();
    let trial = Trial::new(ModelServer::sequence([])).env("ANTHROPIC_BASE_URL", gone);
    check_given_up(trial, "network_error", &["127.0.0.1"]);
}

#[test]
fn a_name_without_an_address() {
    let trial = Trial::new(ModelServer::sequence([])).env("ANTHROPIC_BASE_URL", "http://nowhere.invalid");
    check_given_up(trial, "network_error", &["no connection to nowhere.invalid", "dns error"]);
}

#[test]
fn spent_credit_says_what_to_do() {
    let spent = "Your credit balance is too low to access the Anthropic API.";
    let server = ModelServer::start(move |_: &Asked| Answer::refuse(400, "invalid_request_error", spent));
    let ended = Trial::new(server).output("text").run("Do it.");
    ended.exits(4);
    for part in ["the account's credit is used up", spent, "add credit to the account"] {
        assert!(ended.stdout.contains(part), "{part:?} is missing in:\n{}", ended.stdout);
    }
    assert_eq!(ended.trial.server.asked().len(), 1);
}

#[test]
fn a_web_page_instead_of_an_api() {
    let page = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<html><title>Welcome</title></html>";
    let trial = Trial::new(ModelServer::start(|_: &Asked| Answer::Raw(page.to_vec())));
    let ended = trial.env("RAWKO_MAX_CONSECUTIVE_FAILURES", "1").run("Do it.");
    assert!(ended.finish()["summary"].as_str().unwrap().contains("web page"), "{}", ended.stdout);
}

#[test]
fn arguments_that_are_no_json_are_the_models_business() {
    let broken = Say::default().with_raw_call("Write", "{\"file_path\": \"a.txt\", \"cont");
    let answers = [select("developer"), broken.into(), report("did it"), complete("all done")];
    let ended = Trial::new(ModelServer::sequence(answers)).run("Do it.");
    ended.exits(0);
    assert!(ended.results("Write")[0].1);
    let text = ended.trial.server.asked()[2].last_text();
    assert!(text.contains("JSON"), "{text}");
}
