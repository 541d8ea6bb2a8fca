//! The built-in providers obey the contract, and the kit finds providers that do not.

use std::sync::Arc;

use futures_util::stream;
use rawko_core::message::{Message, StopReason};
use rawko_core::request::ModelRequest;
use rawko_core::retry::RetryPolicy;
use rawko_core::usage::Usage;
use rawko_provider::conformance::{Subject, check};
use rawko_provider::{
    EventStream, Provider, ProviderEvent, ProviderSession, ProviderSettings, Script, Scripted, connect,
};
use testkit::{ModelServer, ScriptedBehaviour, Wire};

use super::trial::{ALL, settings};

fn over_http(wire: Wire, script: Script) -> Subject {
    let mut behaviour = ScriptedBehaviour::new(script);
    let server = Arc::new(ModelServer::start(move |asked| behaviour.answer(asked)));
    let settings = ProviderSettings { retry: RetryPolicy::never(), ..settings(&server, wire) };
    let seen = Arc::clone(&server);
    let requests = move || seen.asked().into_iter().map(|asked| asked.body).collect();
    Subject::shared(connect(settings)).with_requests(requests).with_peer(server)
}

#[tokio::test]
async fn every_wire_conforms() {
    for wire in ALL {
        assert_eq!(check(|script| over_http(wire, script)).await, [], "{wire:?}");
    }
}

#[tokio::test]
async fn the_scripted_provider_conforms() {
    assert_eq!(check(|script| Subject::new(Scripted::new(script))).await, []);
}

/// Streams these events as every answer.
struct Fixed(Vec<ProviderEvent>);

impl Provider for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn default_model(&self) -> &'static str {
        "fixed-1"
    }

    fn open(&self) -> Box<dyn ProviderSession> {
        Box::new(Self(self.0.clone()))
    }
}

impl ProviderSession for Fixed {
    fn send(&mut self, _: ModelRequest) -> EventStream<'_> {
        Box::pin(stream::iter(self.0.clone()))
    }
}

/// Checks that the first rule is broken by these events, and how.
async fn check_broken(events: Vec<ProviderEvent>, words: &str) {
    let broken = check(|_| Subject::new(Fixed(events.clone()))).await;
    let found = broken.first().map(ToString::to_string).unwrap_or_default();
    assert!(found.starts_with("a text arrives whole") && found.contains(words), "{found}");
}

#[tokio::test]
async fn a_provider_that_breaks_the_contract_is_found() {
    let text = || ProviderEvent::TextDelta("half".into());
    let done = || ProviderEvent::MessageDone {
        message: Message::assistant("whole"),
        usage: Usage::default(),
        stop_reason: StopReason::EndTurn,
    };
    let input = ProviderEvent::ToolUseInput { id: "a".into(), delta: "{}".into() };
    let start = || ProviderEvent::ToolUseStart { id: "a".into(), name: "Read".into() };
    check_broken(vec![], "ended without `MessageDone`").await;
    check_broken(vec![done(), text()], "came after the last event").await;
    check_broken(vec![done(), done()], "came after the last event").await;
    check_broken(vec![text(), done()], "the message has \"whole\"").await;
    check_broken(vec![input, done()], "a call that is not open").await;
    check_broken(vec![start(), start(), done()], "two calls have the id `a`").await;
    check_broken(vec![start(), done()], "1 calls were streamed, the message has 0").await;
    check_broken(vec![done()], "\"whole\", EndTurn").await;
}
