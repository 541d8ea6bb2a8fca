//! Requests as the server receives them.

use std::sync::Arc;

use rawko_core::message::{Content, Image, Message, Role, ToolCall};
use rawko_core::request::ToolChoice;
use serde_json::{Value, json};
use testkit::{Answer, ModelServer, Wire};

use super::trial::{ALL, CANARY, ask, provider, question, request, tool};

fn call(id: &str, input: Value) -> Content {
    Content::ToolUse(ToolCall {
        id: id.into(),
        name: "Read".into(),
        input,
        invalid_input: None,
        withheld: None,
    })
}

fn result(id: &str, content: &str, is_error: bool, images: Vec<Image>) -> Content {
    Content::ToolResult { tool_use_id: id.into(), content: content.into(), is_error, images }
}

fn picture() -> Image {
    Image { media_type: "image/png".into(), data: data() }
}

/// A valid picture in base64: the server decodes it.
fn data() -> String {
    testkit::in_base64(&testkit::png(2, 3))
}

/// A conversation with every kind of content.
fn conversation() -> Vec<Arc<Message>> {
    let assistant = |content| Arc::new(Message { role: Role::Assistant, content });
    let user = |content| Arc::new(Message { role: Role::User, content });
    vec![
        Arc::new(Message::user("Fix “it”.\n")),
        assistant(vec![
            Content::Thinking { thinking: "hm".into(), signature: Some("proof".into()) },
            Content::RedactedThinking { data: "sealed".into() },
            Content::text("Reading."),
            call("a.1", json!({"path": "x"})),
            call("b", json!([1])),
        ]),
        user(vec![
            Content::text("Go on."),
            result("a.1", "text of x", false, vec![picture()]),
            result("b", "no such file", true, Vec::new()),
        ]),
        assistant(vec![Content::Thinking { thinking: "unsigned".into(), signature: None }]),
        assistant(vec![Content::text(" ")]),
        Arc::new(Message::assistant("Done.")),
        Arc::new(Message::user("Thanks, and now the other.")),
    ]
}

/// The body of a request with these messages, as received.
async fn sent(wire: Wire, messages: Vec<Arc<Message>>) -> Value {
    let server = ModelServer::start(|_| Answer::text("ok"));
    ask(&mut *provider(&server, wire).open(), request(messages)).await;
    server.asked()[0].json.clone()
}

#[tokio::test]
async fn claude_is_asked_in_its_words() {
    let body = sent(Wire::Claude, conversation()).await;
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    assert_eq!(
        body,
        json!({
            "model": "test-large", "max_tokens": 1000, "stream": true, "temperature": 0.5,
            "cache_control": {"type": "ephemeral"},
            "tools": [
                {"name": "Read", "description": "The tool Read.", "input_schema": schema},
                {"name": "Write", "description": "The tool Write.", "input_schema": schema},
            ],
            "system": [{"type": "text", "text": "You are the developer.", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Fix “it”.\n"}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "proof"},
                    {"type": "redacted_thinking", "data": "sealed"},
                    {"type": "text", "text": "Reading."},
                    {"type": "tool_use", "id": "a_1", "name": "Read", "input": {"path": "x"}},
                    {"type": "tool_use", "id": "b", "name": "Read", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a_1", "content": [
                        {"type": "text", "text": "text of x"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data()}},
                    ]},
                    {"type": "tool_result", "tool_use_id": "b", "content": "no such file", "is_error": true},
                    {"type": "text", "text": "Go on."},
                ]},
                {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
                {"role": "user", "content": [{"type": "text", "text": "Thanks, and now the other."}]},
            ],
        })
    );
}

#[tokio::test]
async fn openai_is_asked_in_its_words() {
    let body = sent(Wire::OpenAi, conversation()).await;
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let function = |name: &str| {
        json!({"type": "function", "function":
            {"name": name, "description": format!("The tool {name}."), "parameters": schema}})
    };
    assert_eq!(
        body,
        json!({
            "model": "test-large", "max_tokens": 1000, "stream": true, "temperature": 0.5,
            "stream_options": {"include_usage": true},
            "tools": [function("Read"), function("Write")],
            "messages": [
                {"role": "system", "content": "You are the developer."},
                {"role": "user", "content": "Fix “it”.\n"},
                {"role": "assistant", "content": "Reading.", "tool_calls": [
                    {"id": "a.1", "type": "function", "function": {"name": "Read", "arguments": "{\"path\":\"x\"}"}},
                    {"id": "b", "type": "function", "function": {"name": "Read", "arguments": "[1]"}},
                ]},
                {"role": "tool", "tool_call_id": "a.1", "content": "text of x"},
                {"role": "tool", "tool_call_id": "b", "content": "no such file"},
                {"role": "user", "content": [
                    {"type": "text", "text": "The pictures of the tool results above:"},
                    {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{}", data())}},
                    {"type": "text", "text": "Go on."},
                ]},
                {"role": "assistant", "content": " "},
                {"role": "assistant", "content": "Done."},
                {"role": "user", "content": "Thanks, and now the other."},
            ],
        })
    );
}

#[tokio::test]
async fn responses_is_asked_in_its_words() {
    let body = sent(Wire::Responses, conversation()).await;
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let function = |name: &str| {
        json!({"type": "function", "name": name, "description": format!("The tool {name}."), "parameters": schema,
            "strict": false})
    };
    let said = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
    let call = |id: &str, arguments: &str| json!({"type": "function_call", "call_id": id, "name": "Read", "arguments": arguments});
    assert_eq!(
        body,
        json!({
            "model": "test-large", "max_output_tokens": 1000, "stream": true, "store": false,
            "include": ["reasoning.encrypted_content"], "temperature": 0.5,
            "tools": [function("Read"), function("Write")],
            "instructions": "You are the developer.",
            "input": [
                said("user", "input_text", "Fix “it”.\n"),
                said("assistant", "output_text", "Reading."),
                call("a.1", "{\"path\":\"x\"}"),
                call("b", "[1]"),
                {"type": "function_call_output", "call_id": "a.1", "output": [
                    {"type": "input_text", "text": "text of x"},
                    {"type": "input_image", "image_url": format!("data:image/png;base64,{}", data()), "detail": "auto"},
                ]},
                {"type": "function_call_output", "call_id": "b", "output": "no such file"},
                said("user", "input_text", "Go on."),
                said("assistant", "output_text", " "),
                said("assistant", "output_text", "Done."),
                said("user", "input_text", "Thanks, and now the other."),
            ],
        })
    );
}

#[tokio::test]
async fn the_next_request_begins_with_this_one() {
    for wire in ALL {
        let server = ModelServer::start(|_| Answer::text("ok"));
        let provider = provider(&server, wire);
        let mut session = provider.open();
        let all = conversation();
        let mut whole = request(all.clone());
        for end in 1..=all.len() {
            whole.messages = all[..end].to_vec().into();
            ask(&mut *session, whole.clone()).await;
        }
        let bodies: Vec<Vec<u8>> = server.asked().into_iter().map(|a| a.body).collect();
        for pair in bodies.windows(2) {
            let open = pair[0].strip_suffix(b"]}").expect("the array of messages is last");
            assert!(pair[1].starts_with(open), "{wire:?}: {}", String::from_utf8_lossy(&pair[1]));
        }
        // A session that begins in the middle sends the same bytes.
        ask(&mut *provider.open(), whole).await;
        assert_eq!(server.asked().last().map(|a| a.body.clone()).as_ref(), bodies.last(), "{wire:?}");
        let length = server.asked()[0].header("content-length").map(str::to_owned);
        assert_eq!(length, Some(bodies[0].len().to_string()), "{wire:?}: sent with a length, not in chunks");
    }
}

#[tokio::test]
async fn headers_are_those_of_the_wire() {
    for wire in ALL {
        let server = ModelServer::start(|_| Answer::text("ok"));
        ask(&mut *provider(&server, wire).open(), question()).await;
        let asked = &server.asked()[0];
        match wire {
            Wire::Claude => {
                assert_eq!(asked.path, "/v1/messages");
                assert_eq!(asked.header("x-api-key"), Some(CANARY));
                assert_eq!(asked.header("anthropic-version"), Some("2023-06-01"));
                assert_eq!(asked.header("authorization"), None);
            }
            Wire::OpenAi | Wire::Responses => {
                let is_chat = wire == Wire::OpenAi;
                assert_eq!(asked.path, if is_chat { "/v1/chat/completions" } else { "/v1/responses" });
                assert_eq!(asked.header("authorization"), Some(format!("Bearer {CANARY}").as_str()));
                assert_eq!(asked.header("x-api-key"), None);
            }
        }
        assert_eq!(asked.header("content-type"), Some("application/json"));
        assert!(asked.header("user-agent").is_some_and(|agent| agent.starts_with("rawko/")));
        assert_eq!(asked.header("accept-encoding"), None);
    }
}

#[tokio::test]
async fn a_forced_tool_is_forced() {
    for wire in ALL {
        let server = ModelServer::start(|_| Answer::text("ok"));
        let mut asked = question();
        asked.tools = [tool("decide")].into();
        asked.tool_choice = ToolChoice::Tool { name: "decide".into() };
        ask(&mut *provider(&server, wire).open(), asked).await;
        let choice = server.asked()[0].json["tool_choice"].clone();
        let expected = match wire {
            Wire::Claude => json!({"type": "tool", "name": "decide", "disable_parallel_tool_use": true}),
            Wire::OpenAi => json!({"type": "function", "function": {"name": "decide"}}),
            Wire::Responses => json!({"type": "function", "name": "decide"}),
        };
        assert_eq!(choice, expected);
    }
}

/// The fields of a request to `model` with `extra` and a forced tool.
async fn fields(wire: Wire, model: &str, extra: Value) -> Value {
    let server = ModelServer::start(|_| Answer::text("ok"));
    let mut asked = question();
    asked.model = model.into();
    asked.tool_choice = ToolChoice::Tool { name: "Read".into() };
    asked.max_tokens = 4_000;
    asked.extra = extra.as_object().cloned().expect("an object");
    let trial = ask(&mut *provider(&server, wire).open(), asked).await;
    assert_eq!((trial.retries.as_slice(), trial.message().0.text().as_str()), (&[][..], "ok"));
    server.asked()[0].json.clone()
}

#[tokio::test]
async fn what_a_model_is_known_not_to_take_is_not_sent() {
    let body = fields(Wire::Claude, "claude-opus-5-5", json!({})).await;
    assert_eq!((body.get("temperature"), &body["tool_choice"]["type"]), (None, &json!("auto")));
    let body = fields(Wire::Claude, "claude-sonnet-4-5", json!({})).await;
    assert_eq!((&body["temperature"], &body["tool_choice"]["type"]), (&json!(0.5), &json!("tool")));
    let thinking = json!({"thinking": {"type": "enabled", "budget_tokens": 2000}});
    let body = fields(Wire::Claude, "claude-sonnet-4-5", thinking).await;
    assert_eq!((body.get("temperature"), &body["tool_choice"]["type"]), (None, &json!("auto")));
    assert_eq!(body["thinking"]["budget_tokens"], 2000);
}

#[tokio::test]
async fn extra_fields_are_passed_on_and_cannot_break_the_request() {
    for wire in ALL {
        let messages = wire.messages_field();
        let extra =
            json!({"top_p": 0.9, "temperature": 0.1, messages: [], "stream": false, "model": "other"});
        let body = fields(wire, "test-large", extra).await;
        assert_eq!(
            (&body["top_p"], &body["temperature"], &body["stream"]),
            (&json!(0.9), &json!(0.1), &json!(true))
        );
        assert_eq!(body["model"], "test-large");
        assert!(body[messages].as_array().is_some_and(|m| !m.is_empty()));
    }
}

/// Checks the system prompt over both wires: as blocks with these texts, each with a breakpoint, and as a whole.
async fn check_system(system: &str, stable: Option<usize>, blocks: &[&str]) {
    let mut asked = question();
    asked.system = Arc::from(system);
    asked.stable = stable;
    let server = ModelServer::start(|_| Answer::text("ok"));
    ask(&mut *provider(&server, Wire::Claude).open(), asked.clone()).await;
    ask(&mut *provider(&server, Wire::OpenAi).open(), asked).await;
    let bodies = server.asked();
    let block = |text| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}});
    let expected: Vec<Value> = blocks.iter().map(block).collect();
    assert_eq!(bodies[0].json["system"], json!(expected), "{system:?} {stable:?}");
    assert_eq!(blocks.concat(), system);
    // Including the one that moves with the conversation, there are never more than the API allows.
    let marks = String::from_utf8_lossy(&bodies[0].body).matches("cache_control").count();
    assert!(marks == blocks.len() + 1 && marks <= 4, "{marks} breakpoints");
    assert_eq!(bodies[1].json["messages"][0], json!({"role": "system", "content": system}));
}

#[tokio::test]
async fn text_of_one_conversation_follows_a_breakpoint() {
    check_system("Stable.\n\nMemories.\n", Some(8), &["Stable.\n", "\nMemories.\n"]).await;
    check_system("Stable.", None, &["Stable."]).await;
    // Blank text would be refused, and a position at the edge must not cost anything.
    check_system("Stable.\n \n", Some(8), &["Stable.\n \n"]).await;
    check_system(" Memories.", Some(1), &[" Memories."]).await;
    check_system("Stable.", Some(7), &["Stable."]).await;
    check_system("Stable.", Some(8), &["Stable."]).await;
    check_system("für alle", Some(2), &["für alle"]).await;
}

#[tokio::test]
async fn another_place_in_the_same_prompt_is_another_request() {
    let server = ModelServer::start(|_| Answer::text("ok"));
    let provider = provider(&server, Wire::Claude);
    let mut session = provider.open();
    for stable in [None, Some(8)] {
        let asked = question();
        ask(&mut *session, rawko_core::request::ModelRequest { stable, ..asked }).await;
    }
    let counts: Vec<usize> =
        server.asked().iter().map(|asked| asked.json["system"].as_array().map_or(0, Vec::len)).collect();
    assert_eq!(counts, [1, 2]);
}

#[tokio::test]
async fn without_a_system_prompt_the_last_tool_carries_the_breakpoint() {
    for wire in ALL {
        let server = ModelServer::start(|_| Answer::text("ok"));
        let mut asked = question();
        asked.system = Arc::from("");
        ask(&mut *provider(&server, wire).open(), asked).await;
        let body = server.asked()[0].json.clone();
        assert_eq!((body.get("system"), body.get("instructions")), (None, None));
        assert_eq!(body[wire.messages_field()][0]["role"], "user");
        let marks: Vec<bool> = body["tools"]
            .as_array()
            .expect("tools")
            .iter()
            .map(|t| t.get("cache_control").is_some())
            .collect();
        assert_eq!(marks, [false, wire == Wire::Claude]);
    }
}
