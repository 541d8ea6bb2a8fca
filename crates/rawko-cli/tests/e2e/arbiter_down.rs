//! An arbiter whose provider is down while the agents' one is well: the rules decide, and say so, until it is back.

use serde_json::{Value, json};
use testkit::{Answer, Asked, ModelServer, Who};

use crate::answers::{complete, select};
use crate::hybrid::{LONG, agents, tested};
use crate::trial::{Ended, Trial};

/// Agents that do their part. The arbiter is asked elsewhere.
fn agents_alone() -> ModelServer {
    ModelServer::start(|asked: &Asked| match asked.who() {
        Who::Agent => agents(asked),
        Who::Select | Who::Evaluate => Answer::unauthorized(),
    })
}

/// A user who waits for an outage as everybody does, and whose arbiter has a provider of its own.
fn judged_at(url: &str) -> Trial {
    let judge = json!({"type": "openai", "baseUrl": url, "apiKeyEnv": null, "retry": {"maxAttempts": 2, "baseMs": 1}});
    patient(Trial::new(agents_alone()))
        .user_config("/provider/judge", judge)
        .user_config("/arbiter", json!({"mode": "llm", "provider": "judge", "model": "m"}))
}

fn patient(trial: Trial) -> Trial {
    tested(trial)
        .user_config("/provider/retry/patience", json!("30m"))
        .user_config("/verify", json!(["./test.sh"]))
}

/// A server that gives the arbiter these answers.
fn judge(answers: impl IntoIterator<Item = Answer>) -> ModelServer {
    ModelServer::sequence(answers)
}

fn sources(ended: &Ended) -> Vec<Value> {
    ended.events_of("decision_made").into_iter().map(|event| event["source"].clone()).collect()
}

/// What the user was warned of, besides the provider's own attempts.
fn warnings(ended: &Ended) -> Vec<String> {
    let all = ended.events_of("warned").into_iter();
    let all = all.map(|event| event["message"].as_str().unwrap().to_owned());
    all.filter(|message| !message.ends_with("; attempt 2 follows")).collect()
}

/// The rules made all decisions of a verified run, and the user, the journal and `explain` know why.
#[track_caller]
fn check_ruled(ended: &Ended, provider: &str, error: &str) -> usize {
    ended.exits(0);
    assert_eq!(ended.finish()["status"], "verified", "{}", ended.stdout);
    let decisions = ended.events_of("decision_made");
    let by_rules = |decision: &Value| {
        let why = decision["rejected"][0].as_str().unwrap_or_default();
        decision["source"] == "fallback"
            && why.starts_with(&format!("{provider} did not answer ("))
            && why.contains(error)
    };
    assert!(decisions.len() >= 2 && decisions.iter().all(by_rules), "{decisions:#?}");
    let warnings = warnings(ended);
    let [warning] = warnings.as_slice() else { panic!("it is said once: {warnings:?}") };
    assert!(
        warning.starts_with(&format!("the arbiter's provider {provider} does not answer (")),
        "{warning}"
    );
    assert!(warning.contains(error) && warning.ends_with("the rules decide until it does"), "{warning}");
    assert_eq!(ended.events_of("waiting"), Vec::<Value>::new());
    assert_eq!(ended.events_of("error").len(), decisions.len(), "each call that failed");

    let (_, explained, _) = ended.trial.rawko(&["explain", "last", "1"]);
    for words in ["rules, no usable answer", &format!("{provider} did not answer ("), error] {
        assert!(explained.contains(words), "{words:?} is missing in {explained}");
    }
    let (_, replayed, _) = ended.trial.rawko(&["replay", "last"]);
    assert!(replayed.contains("everything matches the record"), "{replayed}");
    decisions.len()
}

#[test]
fn a_dead_provider_of_the_arbiter_does_not_stop_healthy_agents() {
    for (status, kind) in [(529, "overloaded_error"), (503, "api_error")] {
        let judge = ModelServer::start(move |_| Answer::refuse(status, kind, "no capacity"));
        let ended = judged_at(&judge.openai_url()).run(LONG);
        let decisions = check_ruled(&ended, "judge", "no capacity");
        assert_eq!(judge.asked().len(), 2 + decisions - 1, "its own attempts, then one for each decision");
    }
}

#[test]
fn no_server_listens_where_the_arbiter_asks() {
    let gone = ModelServer::sequence([]).openai_url();
    check_ruled(&judged_at(&gone).run(LONG), "judge", "network_error");
}

#[test]
fn only_the_arbiters_questions_fail_at_the_provider_of_all() {
    let server = ModelServer::start(|asked: &Asked| match asked.who() {
        Who::Agent => agents(asked),
        Who::Select | Who::Evaluate => Answer::overloaded(),
    });
    check_ruled(&patient(Trial::new(server)).run(LONG), "claude", "overloaded");
}

#[test]
fn an_arbiter_that_is_back_decides_again_and_has_its_attempts() {
    let down = Answer::overloaded;
    let judge = judge([down(), down(), down(), select("tester"), down(), complete("all done")]);
    // Without checks more is left to decide.
    let ended = judged_at(&judge.openai_url()).user_config("/verify", json!([])).run(LONG);
    ended.exits(0);
    assert_eq!(sources(&ended), ["fallback", "fallback", "llm", "llm"], "{}", ended.stdout);
    assert_eq!(ended.finish()["status"], "claimed");
    assert_eq!(judge.asked().len(), 6);
}

#[test]
fn a_healthy_arbiter_with_one_fault_is_asked_again_and_not_replaced() {
    let judge = judge([Answer::overloaded(), select("developer"), complete("all done")]);
    let ended = judged_at(&judge.openai_url()).run(LONG);
    ended.exits(0);
    assert_eq!(sources(&ended), ["llm", "llm"], "{}", ended.stdout);
    assert_eq!(warnings(&ended), Vec::<String>::new());
    assert_eq!(judge.asked().len(), 3);
}

#[test]
fn the_rules_complete_nothing_whose_checks_fail() {
    let gone = ModelServer::sequence([]).openai_url();
    let ended = judged_at(&gone)
        .user_config("/verify", json!(["exit 7"]))
        .env("RAWKO_MAX_CONSECUTIVE_FAILURES", "1")
        .run(LONG);
    let decisions = ended.events_of("decision_made");
    assert!(decisions.iter().all(|it| it["decision"]["type"] != "COMPLETE"), "{decisions:#?}");
    let status = ended.finish()["status"].clone();
    assert!(status != "verified" && status != "claimed", "{}", ended.stdout);
}

#[test]
fn rules_that_always_decide_ask_no_provider() {
    let judge = ModelServer::start(|_| Answer::overloaded());
    for mode in ["rules", "hybrid"] {
        let ended = judged_at(&judge.openai_url()).user_config("/arbiter/mode", json!(mode)).run(LONG);
        ended.exits(0);
        assert!(sources(&ended).iter().all(|source| source == "rule"), "{}", ended.stdout);
        assert_eq!(warnings(&ended), Vec::<String>::new());
    }
    assert_eq!(judge.asked().len(), 0);
}

#[test]
fn a_wrong_key_of_the_arbiter_is_said_at_once() {
    let judge = ModelServer::start(|_| Answer::unauthorized());
    let ended = judged_at(&judge.openai_url()).run(LONG);
    ended.exits(4);
    assert_eq!(ended.finish()["error"]["code"], "authentication_failed");
    assert_eq!(judge.asked().len(), 1);
}
