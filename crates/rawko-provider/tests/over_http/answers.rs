//! Valid answers, in every form in which servers send them.

use rawko_core::error::ErrorCode;
use rawko_core::message::{Content, Message, Role, StopReason, ToolCall};
use rawko_core::request::ToolChoice;
use rawko_core::usage::Usage;
use rawko_provider::ProviderEvent;
use serde_json::json;
use testkit::{Answer, Chunking, Delivery, Framing, LineEnd, ModelServer, Say, Wire};

use super::trial::{ALL, ask, provider, question, tool, try_answers, try_with};

const USAGE: Usage = Usage {
    input_tokens: 100,
    output_tokens: 20,
    cache_read_tokens: 50,
    cache_write_tokens: 7,
    web_searches: 0,
    estimated: false,
};

/// An answer with everything that all wires can express.
fn rich() -> Say {
    Say {
        thinking: "Let me see … 日本語".into(),
        signature: "proof".into(),
        text: "I will read “naïve.rs” 🦀 first.".into(),
        usage: USAGE,
        ..Say::default()
    }
    .with_call("Read", &json!({"path": "src/naïve.rs"}))
    .with_call("Write", &json!({"path": "b"}))
}

fn rich_message(wire: Wire) -> Message {
    let call = |id: &str, name: &str, path: &str| {
        Content::ToolUse(ToolCall {
            id: id.into(),
            name: name.into(),
            input: json!({"path": path}),
            invalid_input: None,
            withheld: None,
        })
    };
    let signature = match wire {
        Wire::Claude => Some("proof".to_owned()),
        Wire::OpenAi => None,
        Wire::Responses => Some(reasoning_item(&["Let me see … 日本語"])),
    };
    Message {
        role: Role::Assistant,
        content: vec![
            Content::Thinking { thinking: "Let me see … 日本語".into(), signature },
            Content::text("I will read “naïve.rs” 🦀 first."),
            call("call_0_0", "Read", "src/naïve.rs"),
            call("call_0_1", "Write", "b"),
        ],
    }
}

/// The item that goes back with the next request.
fn reasoning_item(summary: &[&str]) -> String {
    let part = |text: &&str| json!({"type": "summary_text", "text": text});
    let summary: Vec<_> = summary.iter().map(part).collect();
    json!({"type": "reasoning", "summary": summary, "encrypted_content": "proof"}).to_string()
}

async fn check(delivery: Delivery) {
    for wire in ALL {
        let said = format!("{wire:?} {delivery:?}");
        let (trial, server) = try_answers(wire, vec![Answer::from(rich()).delivered(delivery.clone())]).await;
        let expected = rich_message(wire);
        assert_eq!(trial.message(), &(expected, USAGE, StopReason::ToolUse), "{said}");
        assert_eq!(trial.text, "I will read “naïve.rs” 🦀 first.", "{said}");
        assert_eq!(trial.thinking, "Let me see … 日本語", "{said}");
        assert_eq!(trial.retries, [], "{said}");
        assert_eq!(server.exchanges().len(), 1, "{said}");
    }
}

#[tokio::test]
async fn every_event_arrives_in_order() {
    for wire in ALL {
        let (trial, _server) = try_answers(wire, vec![rich().into()]).await;
        let mut kinds: Vec<String> = Vec::new();
        for event in &trial.events {
            let kind = match event {
                ProviderEvent::TextDelta(_) => "text".to_owned(),
                ProviderEvent::ThinkingDelta(_) => "thinking".to_owned(),
                ProviderEvent::ToolUseStart { id, name } => format!("start {id} {name}"),
                ProviderEvent::ToolUseInput { id, .. } => format!("input {id}"),
                ProviderEvent::ToolUseEnd { id, input } => format!("end {id} {input}"),
                other => panic!("{other:?}"),
            };
            if kinds.last() != Some(&kind) {
                kinds.push(kind);
            }
        }
        let first = r#"end call_0_0 {"path":"src/naïve.rs"}"#;
        let second = r#"end call_0_1 {"path":"b"}"#;
        let expected = match wire {
            Wire::Claude | Wire::Responses => vec![
                "thinking",
                "text",
                "start call_0_0 Read",
                "input call_0_0",
                first,
                "start call_0_1 Write",
                "input call_0_1",
                second,
            ],
            // This wire does not mark the end of a call: it is known at the end of the message.
            Wire::OpenAi => vec![
                "thinking",
                "text",
                "start call_0_0 Read",
                "input call_0_0",
                "start call_0_1 Write",
                "input call_0_1",
                first,
                second,
            ],
        };
        assert_eq!(kinds, expected, "{wire:?}");
    }
}

#[tokio::test]
async fn bytes_may_be_split_anywhere() {
    for size in [1, 2, 3, 5, 7, 64] {
        check(Delivery { pieces: Chunking::Every(size), ..Delivery::default() }).await;
    }
    check(Delivery { pieces: Chunking::Whole, ..Delivery::default() }).await;
}

#[tokio::test]
async fn lines_may_end_in_any_way() {
    for line_end in [LineEnd::CrLf, LineEnd::Cr] {
        check(Delivery { line_end, ..Delivery::default() }).await;
        check(Delivery { line_end, pieces: Chunking::Every(1), ..Delivery::default() }).await;
    }
    check(Delivery { byte_order_mark: true, ..Delivery::default() }).await;
}

#[tokio::test]
async fn what_is_not_part_of_the_answer_is_read_over() {
    let noise =
        [": keep-alive\n\n", "event: ping\ndata: {\"type\": \"ping\"}\n\n", "\n\n", "id: 4\nretry: 9\n\n"];
    check(Delivery { noise: noise.map(str::to_owned).to_vec(), ..Delivery::default() }).await;
    for wire in [Wire::Claude, Wire::Responses] {
        let noise =
            ["event: vendor_news\ndata: not json\n\n", "data: {\"type\":\"novelty\"}\n\n"].map(str::to_owned);
        let delivery = Delivery { noise: noise.to_vec(), ..Delivery::default() };
        let (trial, _server) = try_answers(wire, vec![Answer::text("hi").delivered(delivery)]).await;
        assert_eq!(trial.message().0.text(), "hi");
    }
}

#[tokio::test]
async fn content_type_framing_and_end_mark_are_not_needed() {
    check(Delivery { content_type: Some("text/plain".into()), ..Delivery::default() }).await;
    check(Delivery { content_type: Some("application/json".into()), ..Delivery::default() }).await;
    check(Delivery { no_end_mark: true, ..Delivery::default() }).await;
    check(Delivery { no_end_mark: true, framing: Framing::UntilClose, ..Delivery::default() }).await;
    check(Delivery { framing: Framing::UntilClose, ..Delivery::default() }).await;
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    check(Delivery { whole: true, ..Delivery::default() }).await;
    check(Delivery { whole: true, content_type: Some("text/event-stream".into()), ..Delivery::default() })
        .await;
}

#[tokio::test]
async fn reasoning_keeps_what_proves_it() {
    let say = Say {
        thinking: String::new(),
        signature: "proof".into(),
        redacted: "sealed".into(),
        text: "done".into(),
        ..Say::default()
    };
    let (trial, _server) = try_answers(Wire::Responses, vec![say.clone().into()]).await;
    assert_eq!(
        trial.message().0.content,
        [
            Content::Thinking { thinking: String::new(), signature: Some(reasoning_item(&[])) },
            Content::text("done"),
        ]
    );
    let (trial, _server) = try_answers(Wire::Claude, vec![say.into()]).await;
    assert_eq!(
        trial.message().0.content,
        [
            Content::Thinking { thinking: String::new(), signature: Some("proof".into()) },
            Content::RedactedThinking { data: "sealed".into() },
            Content::text("done"),
        ]
    );
}

#[tokio::test]
async fn every_stop_reason_is_reported() {
    for wire in ALL {
        for stop in
            [StopReason::EndTurn, StopReason::MaxTokens, StopReason::Refusal, StopReason::ContextWindow]
        {
            let say = Say { text: "so far".into(), stop: Some(stop), ..Say::default() };
            let (trial, _server) = try_answers(wire, vec![say.into()]).await;
            if (wire, stop) == (Wire::Responses, StopReason::ContextWindow) {
                // This wire reports it as a failure.
                assert_eq!(trial.error().code, ErrorCode::ContextLengthExceeded);
            } else {
                assert_eq!(trial.message().2, stop, "{wire:?}");
            }
        }
    }
}

#[tokio::test]
async fn arguments_that_are_no_json_are_handed_on_as_written() {
    for wire in ALL {
        let say = Say::default().with_raw_call("Read", "{\"path\": \"src/");
        let (trial, _server) = try_answers(wire, vec![say.into()]).await;
        let (message, _, stop) = trial.message();
        let calls: Vec<_> = message.tool_calls().collect();
        assert_eq!((calls[0].input.clone(), *stop), (json!({}), StopReason::ToolUse), "{wire:?}");
        assert_eq!(calls[0].invalid_input.as_deref(), Some("{\"path\": \"src/"), "{wire:?}");
    }
}

#[tokio::test]
async fn a_limit_that_is_reached_inside_a_call_leaves_no_call_to_run() {
    for wire in ALL {
        for whole in [false, true] {
            let say = Say { text: "I write.".into(), stop: Some(StopReason::MaxTokens), ..Say::default() };
            let say = say.with_raw_call("Write", "{\"path\": \"a\", \"content\": \"half");
            let cut = Answer::from(say).delivered(Delivery { whole, ..Delivery::default() });
            let (trial, _server) = try_answers(wire, vec![cut]).await;
            let (message, _, stop) = trial.message();
            let call = message.tool_calls().next().expect("the call");
            assert_eq!((*stop, &call.input), (StopReason::MaxTokens, &json!({})), "{wire:?} whole: {whole}");
            // A whole answer of the Messages API has no room for a half object.
            if !(whole && wire == Wire::Claude) {
                assert!(call.invalid_input.as_deref().is_some_and(|raw| raw.ends_with("half")), "{wire:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_without_a_word_is_a_refusal() {
    for wire in [Wire::Claude, Wire::OpenAi] {
        let say = Say { stop: Some(StopReason::Refusal), ..Say::default() };
        let (trial, _server) = try_answers(wire, vec![say.into()]).await;
        assert_eq!(
            (trial.message().0.content.len(), trial.message().2),
            (0, StopReason::Refusal),
            "{wire:?}"
        );
    }
}

#[tokio::test]
async fn a_decision_is_a_call_of_the_forced_tool() {
    for wire in ALL {
        let mut asked = question();
        asked.tools = [tool("decide")].into();
        asked.tool_choice = ToolChoice::Tool { name: "decide".into() };
        let answers = vec![Answer::decision(json!({"decision": "COMPLETE"}))];
        let (trial, server) = try_with(wire, answers, asked, |s| s).await;
        let call = trial.message().0.tool_calls().next().cloned().expect("a call");
        assert_eq!((call.name.as_str(), call.input), ("decide", json!({"decision": "COMPLETE"})));
        assert_eq!(server.asked()[0].forced_tool(), Some("decide"), "{wire:?}");
    }
}

#[tokio::test]
async fn an_empty_answer_is_an_answer() {
    for wire in ALL {
        let (trial, _server) = try_answers(wire, vec![Answer::text("")]).await;
        assert_eq!(trial.message().0.content, []);
        assert_eq!(trial.message().2, StopReason::EndTurn);
    }
}

#[tokio::test]
async fn one_connection_carries_a_whole_conversation() {
    for wire in ALL {
        let server = ModelServer::start(|_| rich().into());
        let provider = provider(&server, wire);
        let mut session = provider.open();
        for _ in 0..4 {
            ask(&mut *session, question()).await;
        }
        let connections: Vec<u64> = server.asked().iter().map(|a| a.connection).collect();
        assert_eq!(connections, [1, 1, 1, 1], "{wire:?}");
    }
}

/// Tool calls as single servers send them, in bytes.
async fn check_calls(chunks: &[&str], expected: &[(&str, &str, &str)]) {
    let mut body = String::new();
    for calls in chunks {
        body.push_str(&format!("data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":{calls}}}}}]}}\n\n"));
    }
    body.push_str("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
    let response = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let (trial, _server) = try_answers(Wire::OpenAi, vec![Answer::Raw(response.into_bytes())]).await;
    let (message, _, stop) = trial.message();
    let calls: Vec<_> =
        message.tool_calls().map(|c| (c.id.clone(), c.name.clone(), c.input.to_string())).collect();
    let expected: Vec<_> =
        expected.iter().map(|(i, n, a)| ((*i).to_owned(), (*n).to_owned(), (*a).to_owned())).collect();
    assert_eq!(calls, expected, "{chunks:?}");
    assert_eq!(*stop, StopReason::ToolUse);
    let starts = trial.events.iter().filter(|e| matches!(e, ProviderEvent::ToolUseStart { .. })).count();
    assert_eq!(starts, expected.len(), "{chunks:?}");
}

#[tokio::test]
async fn tool_calls_are_put_together_however_they_come() {
    // Id and name again with every chunk.
    check_calls(
        &[
            r#"[{"index":0,"id":"a","function":{"name":"Read","arguments":""}}]"#,
            r#"[{"index":0,"id":"a","function":{"name":"Read","arguments":"{\"x\""}}]"#,
            r#"[{"index":0,"id":"a","function":{"name":"Read","arguments":":1}"}}]"#,
        ],
        &[("a", "Read", r#"{"x":1}"#)],
    )
    .await;
    // Names in pieces.
    check_calls(
        &[
            r#"[{"index":0,"id":"a","function":{"name":"Re"}}]"#,
            r#"[{"index":0,"function":{"name":"ad"}}]"#,
            r#"[{"index":0,"function":{"arguments":"{}"}}]"#,
        ],
        &[("a", "Read", "{}")],
    )
    .await;
    // No ids and no indexes, whole calls.
    check_calls(
        &[
            r#"[{"function":{"name":"Read","arguments":"{}"}}]"#,
            r#"[{"function":{"name":"Write","arguments":{"y":2}}}]"#,
        ],
        &[("call_1_0", "Read", "{}"), ("call_1_1", "Write", r#"{"y":2}"#)],
    )
    .await;
    // Several calls under one index.
    check_calls(
        &[
            r#"[{"index":0,"id":"a","function":{"name":"Read","arguments":"{}"}}]"#,
            r#"[{"index":0,"id":"b","function":{"name":"Read","arguments":"{\"z\":3}"}}]"#,
        ],
        &[("a", "Read", "{}"), ("b", "Read", r#"{"z":3}"#)],
    )
    .await;
    // Interleaved, and a call without arguments.
    check_calls(
        &[
            r#"[{"index":0,"id":"a","function":{"name":"Read","arguments":"{"}},{"index":1,"id":"b","function":{"name":"List"}}]"#,
            r#"[{"index":0,"function":{"arguments":"}"}}]"#,
        ],
        &[("a", "Read", "{}"), ("b", "List", "{}")],
    )
    .await;
}

#[tokio::test]
async fn models_are_listed() {
    for wire in ALL {
        let server = ModelServer::sequence([]);
        let models = provider(&server, wire).list_models().await.expect("a list");
        let models: Vec<_> = models.iter().map(|m| (m.id.as_str(), m.display_name.as_deref())).collect();
        assert_eq!(models, [("test-large", Some("Test Large")), ("test-small", None)]);
    }
}
