//! Thinking over the Messages API: how a model is asked to think less, and thinking that the server refuses later.

use std::sync::Arc;

use rawko_core::error::ErrorCode;
use rawko_core::message::{Content, Image, Message, Role};
use rawko_core::request::{ModelRequest, Purpose, ToolChoice};
use rawko_provider::ProviderSession;
use serde_json::{Value, json};
use testkit::{Answer, ModelServer, Say, Wire};

use super::trial::{ask, provider, question, tool};

/// A short request beside the work, to be answered by a call.
fn decision(model: &str) -> ModelRequest {
    ModelRequest {
        purpose: Purpose::Select,
        model: model.into(),
        tools: [tool("decide")].into(),
        tool_choice: ToolChoice::Tool { name: "decide".into() },
        temperature: Some(0.3),
        ..question()
    }
}

/// Checks what is sent about thinking, forced tools and temperature. The server refuses what the real one refuses.
async fn check(model: &str, thinking: Value, effort: Value, choice: &str, temperature: Option<f64>) {
    let server = ModelServer::start(|_| Answer::decision(json!({"decision": "RETRY"})));
    let trial = ask(&mut *provider(&server, Wire::Claude).open(), decision(model)).await;
    assert_eq!(trial.retries, [], "{model}: nothing is refused");
    assert_eq!(trial.message().0.tool_calls().count(), 1, "{model}");
    let body = &server.asked()[0].json;
    assert_eq!(body["thinking"], thinking, "{model}");
    assert_eq!(body["output_config"], effort, "{model}");
    assert_eq!(body["tool_choice"]["type"], choice, "{model}");
    assert_eq!(body["temperature"].as_f64(), temperature, "{model}");
}

#[tokio::test]
async fn no_model_refuses_the_request_for_a_decision() {
    let kind = |kind: &str| json!({"type": kind});
    check("claude-sonnet-5-5", kind("between_tools"), Value::Null, "auto", None).await;
    for model in ["claude-opus-5-5", "claude-fable-5-1"] {
        check(model, Value::Null, json!({"effort": "low"}), "auto", None).await;
    }
    for model in ["claude-sonnet-5", "claude-opus-5", "claude-haiku-5-5"] {
        check(model, kind("disabled"), Value::Null, "tool", None).await;
    }
    check("claude-opus-4-8", Value::Null, Value::Null, "tool", None).await;
    check("claude-haiku-4-5-20251001", Value::Null, Value::Null, "tool", Some(0.3)).await;
    check("a-model-of-ones-own", Value::Null, Value::Null, "tool", Some(0.3)).await;
}

#[tokio::test]
async fn an_agents_own_work_is_thought_about_as_usual() {
    let server = ModelServer::start(|_| Answer::text("ok"));
    let asked = ModelRequest { model: "claude-sonnet-5-5".into(), ..question() };
    let trial = ask(&mut *provider(&server, Wire::Claude).open(), asked).await;
    assert_eq!(trial.retries, []);
    assert_eq!(server.asked()[0].json.get("thinking"), None);
}

/// A gateway that does not know the setting refuses it once.
#[tokio::test]
async fn a_server_that_does_not_know_how_to_think_less_is_asked_without() {
    let server = ModelServer::start(|asked| match asked.json.get("thinking") {
        Some(_) => Answer::refuse(400, "invalid_request_error", "thinking: Extra inputs are not permitted"),
        None => Answer::decision(json!({"decision": "RETRY"})),
    });
    let provider = provider(&server, Wire::Claude);
    for retries in [1, 0] {
        let trial = ask(&mut *provider.open(), decision("claude-sonnet-5-5")).await;
        assert_eq!((trial.retries.len(), trial.message().0.tool_calls().count()), (retries, 1));
    }
}

/// A conversation with a model that thinks, and its session.
struct Talk {
    session: Box<dyn ProviderSession>,
    request: ModelRequest,
    /// The content of the next result.
    pictures: Vec<Image>,
}

impl Talk {
    fn new(session: Box<dyn ProviderSession>, request: ModelRequest) -> Self {
        Self { session, request, pictures: Vec::new() }
    }

    /// Plays one turn; returns how often the server refused it.
    async fn turn(&mut self) -> usize {
        let trial = ask(&mut *self.session, self.request.clone()).await;
        let (message, _, _) = trial.message();
        let signed = message.content.iter().filter(
            |block| matches!(block, Content::Thinking { signature: Some(signature), .. } if !signature.is_empty()),
        );
        assert_eq!(signed.count(), 1, "the server signs what the model thinks");
        Arc::make_mut(&mut self.request.messages).push(Arc::new(message.clone()));
        let results = message.tool_calls().map(|call| Content::ToolResult {
            tool_use_id: call.id.clone(),
            content: "a line".into(),
            is_error: false,
            images: std::mem::take(&mut self.pictures),
        });
        let results = Message { role: Role::User, content: results.collect() };
        Arc::make_mut(&mut self.request.messages).push(Arc::new(results));
        trial.retries.len()
    }
}

fn thinking_server() -> ModelServer {
    ModelServer::start(|_| {
        Say { thinking: "Hm.".into(), ..Say::default() }.with_call("Read", &json!({"path": "x"})).into()
    })
}

fn thoughts(body: &Value) -> usize {
    body.to_string().matches("\"type\":\"thinking\"").count()
}

/// Something before the thinking has changed: the server refuses it once, and the session goes on.
#[tokio::test]
async fn thinking_bound_to_another_conversation_is_left_out_from_then_on() {
    let server = thinking_server();
    let request = ModelRequest { model: "claude-sonnet-5-5".into(), ..question() };
    let provider = provider(&server, Wire::Claude);
    let mut talk = Talk::new(provider.open(), request);
    assert_eq!((talk.turn().await, talk.turn().await), (0, 0));
    // As when a fork continues with other instructions.
    talk.request.system = Arc::from("You are another developer.");
    let before = server.asked().len();
    assert_eq!(talk.turn().await, 1, "one refusal");
    assert_eq!((talk.turn().await, talk.turn().await), (0, 0), "and never again");
    let bodies = server.asked();
    let counts: Vec<usize> = bodies[before..].iter().map(|asked| thoughts(&asked.json)).collect();
    assert_eq!(counts, [2, 0, 1, 2], "new thinking is kept");
    // Each request remains a prefix of the next.
    for pair in bodies[before + 1..].windows(2) {
        let messages = |at: usize| pair[at].json["messages"].as_array().expect("messages").clone();
        assert!(messages(1).starts_with(&messages(0)));
    }
    // Another process knows nothing of it, and succeeds all the same.
    let mut resumed = Talk::new(provider.open(), talk.request);
    assert_eq!((resumed.turn().await, resumed.turn().await), (1, 0));
}

/// A picture of an earlier request is left out, so the thinking after it is left out too, before the server refuses it.
#[tokio::test]
async fn thinking_bound_to_a_picture_that_is_left_out_provokes_no_refusal() {
    let picture =
        |width| Image { media_type: "image/png".into(), data: testkit::in_base64(&testkit::png(width, 1)) };
    let server = thinking_server();
    let request = ModelRequest { model: "claude-sonnet-5-5".into(), ..question() };
    let mut talk = Talk::new(provider(&server, Wire::Claude).open(), request);
    talk.pictures = vec![picture(2_001)];
    assert_eq!(talk.turn().await, 0);
    // Too large for a request of more than twenty.
    talk.pictures = vec![picture(3); 20];
    for _ in 0..4 {
        assert_eq!(talk.turn().await, 0);
    }
    let asked = server.asked();
    let counts = |what: &str| -> Vec<usize> {
        asked.iter().map(|asked| asked.json.to_string().matches(what).count()).collect()
    };
    assert_eq!(counts("A picture is left out here"), [0, 0, 1, 1, 1]);
    assert_eq!(counts("\"type\":\"thinking\""), [0, 1, 0, 1, 2], "new thinking is kept");
}

/// New messages that replace old ones keep their thinking.
#[tokio::test]
async fn thinking_in_a_conversation_that_was_shortened_is_kept() {
    let server = thinking_server();
    let request = ModelRequest { model: "claude-sonnet-5-5".into(), ..question() };
    let mut talk = Talk::new(provider(&server, Wire::Claude).open(), request);
    assert_eq!((talk.turn().await, talk.turn().await), (0, 0));
    talk.request.system = Arc::from("You are another developer.");
    assert_eq!(talk.turn().await, 1, "one refusal");
    let before = server.asked().len();
    Arc::make_mut(&mut talk.request.messages).truncate(1);
    assert_eq!((talk.turn().await, talk.turn().await, talk.turn().await), (0, 0, 0));
    let counts: Vec<usize> = server.asked()[before..].iter().map(|asked| thoughts(&asked.json)).collect();
    assert_eq!(counts, [0, 1, 2]);
}

#[tokio::test]
async fn thinking_that_somebody_else_signed_is_left_out() {
    let server = thinking_server();
    let mut request = ModelRequest { model: "claude-opus-4-8".into(), ..question() };
    let thinking = Content::Thinking { thinking: "Hm.".into(), signature: Some("another account's".into()) };
    let said = Message { role: Role::Assistant, content: vec![thinking, Content::text("Hello.")] };
    Arc::make_mut(&mut request.messages).extend([Arc::new(said), Arc::new(Message::user("Go on."))]);
    let mut talk = Talk::new(provider(&server, Wire::Claude).open(), request);
    assert_eq!(talk.turn().await, 1);
    assert_eq!(thoughts(&server.asked()[1].json), 0);
}

/// If there is no thinking to leave out, the refusal is final: no endless retries.
#[tokio::test]
async fn a_refusal_that_leaving_it_out_does_not_help_against_stands() {
    let message = "messages.1.content.0: Invalid `signature` in `thinking` block";
    let server = ModelServer::start(move |_| Answer::refuse(400, "invalid_request_error", message));
    let mut request = question();
    let thinking = Content::Thinking { thinking: "Hm.".into(), signature: Some("signed".into()) };
    let said = Message { role: Role::Assistant, content: vec![thinking, Content::text("Hello.")] };
    Arc::make_mut(&mut request.messages).extend([Arc::new(said), Arc::new(Message::user("Go on."))]);
    let trial = ask(&mut *provider(&server, Wire::Claude).open(), request).await;
    assert_eq!((trial.error().code, server.asked().len()), (ErrorCode::InvalidRequest, 2));
}
