//! The key is sent to the server and nowhere else.

use rawko_provider::{ProviderSettings, REDACTED, Secret, connect};
use testkit::{Answer, ModelServer};

use super::trial::{ALL, CANARY, Trial, ask, question, settings, try_answers};

/// Everything that a trial exposes.
fn shown(trial: &Trial) -> String {
    format!("{trial:?} {}", trial.error())
}

#[tokio::test]
async fn a_server_that_repeats_the_key_is_not_quoted() {
    for wire in ALL {
        let echo = format!("the key {CANARY} is wrong");
        for answer in [
            Answer::refuse(401, "authentication_error", echo.clone()),
            Answer::refuse(400, "invalid_request_error", echo.clone()),
            Answer::refuse(500, "api_error", echo.clone()).header("request-id", CANARY),
            Answer::refuse(307, "", "").header("location", format!("http://elsewhere/{CANARY}")),
        ] {
            let (trial, server) = try_answers(wire, vec![answer.clone(), answer.clone(), answer]).await;
            assert!(!shown(&trial).contains(CANARY), "{}", shown(&trial));
            assert!(shown(&trial).contains(REDACTED), "{}", shown(&trial));
            let arrived = format!("{:?}", server.asked()[0].headers);
            assert!(arrived.contains(CANARY), "the server did not get the key");
        }
    }
}

#[tokio::test]
async fn a_password_in_the_base_url_is_sent_and_not_shown() {
    // Even if it is short or consists of words.
    for (wire, password) in ALL.into_iter().zip(["hunter-canary-41f0", "hunter2", "hunter3"]) {
        let says = format!("{password} is no password");
        let server = ModelServer::start(move |_| Answer::refuse(500, "api_error", says.as_str()));
        let base_url = server.url(wire).replace("http://", &format!("http://user:{password}@"));
        let settings = ProviderSettings { base_url, api_key: None, ..settings(&server, wire) };
        let provider = connect(settings.clone());
        let trial = ask(&mut *provider.open(), question()).await;
        assert!(!shown(&trial).contains(password), "{}", shown(&trial));
        assert!(!format!("{settings:?}").contains(password));
        assert!(
            server.asked()[0].header("authorization").is_some_and(|v| v.starts_with("Basic ")),
            "{wire:?}"
        );

        drop(server);
        let trial = ask(&mut *provider.open(), question()).await;
        assert!(!shown(&trial).contains(password), "{}", shown(&trial));
    }
}

#[tokio::test]
async fn a_key_that_no_header_can_carry_is_refused_unseen() {
    for wire in ALL {
        let server = ModelServer::sequence([]);
        let broken = Secret::new("sk-canary\n-broken");
        let provider = connect(settings(&server, wire).with_key(Some(broken)));
        let trial = ask(&mut *provider.open(), question()).await;
        assert!(trial.error().message.contains("characters"), "{}", trial.error().message);
        assert!(!shown(&trial).contains("canary"), "{}", shown(&trial));
        assert_eq!(server.exchanges().len(), 0);
    }
}
