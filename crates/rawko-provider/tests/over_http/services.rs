//! Special requirements of single services. The test server refuses what they refuse (`testkit::service`).

use std::sync::Arc;

use rawko_core::error::ErrorCode;
use rawko_core::message::{Content, Message, Role, ToolCall};
use rawko_core::request::ModelRequest;
use rawko_provider::ProviderEvent;
use serde_json::{Value, json};
use testkit::{Answer, AnswerCall, Asked, Delivery, ErrorResponse, ModelServer, Say, Wire};

use super::trial::{ALL, Trial, ask, provider, question, request, settings, try_answers};

fn calls(ids: &[&str]) -> Arc<Message> {
    let call = |id: &&str| {
        let (id, input) = ((*id).to_owned(), json!({"path": "x"}));
        Content::ToolUse(ToolCall { id, name: "Read".into(), input, invalid_input: None, withheld: None })
    };
    Arc::new(Message { role: Role::Assistant, content: ids.iter().map(call).collect() })
}

fn results(ids: &[&str], remark: Option<&str>) -> Arc<Message> {
    let result = |id: &&str| Content::ToolResult {
        tool_use_id: (*id).to_owned(),
        content: format!("result of {id}"),
        is_error: false,
        images: Vec::new(),
    };
    let content = ids.iter().map(result).chain(remark.map(Content::text)).collect();
    Arc::new(Message { role: Role::User, content })
}

/// A conversation that began with Claude and has a text after its results.
fn from_claude() -> Vec<Arc<Message>> {
    let ids = ["toolu_01A09q90qw90lq917835lq9", "toolu_01B18r81rx81mr826746mr8"];
    vec![Arc::new(Message::user("Fix it.")), calls(&ids), results(&ids, Some("2 turns are left."))]
}

fn of_model(model: &str, messages: Vec<Arc<Message>>) -> ModelRequest {
    ModelRequest { model: model.into(), ..request(messages) }
}

/// A stream of Chat Completions with these chunks.
fn stream(chunks: &[Value]) -> Answer {
    let mut body: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    body.push_str("data: [DONE]\n\n");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length";
    Answer::Raw(format!("{head}: {}\r\n\r\n{body}", body.len()).into_bytes())
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish() -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
}

/// Ids and arguments of the calls in an answer.
fn called(trial: &Trial) -> Vec<(String, Value)> {
    trial.message().0.tool_calls().map(|call| (call.id.clone(), call.input.clone())).collect()
}

#[tokio::test]
async fn arguments_are_not_doubled_where_every_chunk_has_them_in_the_old_form_too() {
    let both = |arguments: &str| {
        let function = json!({"name": "Read", "arguments": arguments});
        delta(json!({
            "tool_calls": [{"index": 0, "id": "call__0_Read", "type": "function", "function": function}],
            "function_call": function,
        }))
    };
    let answer = stream(&[both(""), both("{\"path\""), both(": \"x\"}"), finish()]);
    let (trial, _server) = try_answers(Wire::OpenAi, vec![answer]).await;
    assert_eq!(called(&trial), [("call__0_Read".to_owned(), json!({"path": "x"}))]);
    // An answer that only has the old form is read too.
    let old = delta(json!({"function_call": {"name": "Read", "arguments": "{\"path\": \"y\"}"}}));
    let (trial, _server) = try_answers(Wire::OpenAi, vec![stream(&[old, finish()])]).await;
    assert_eq!(called(&trial), [("call_1_0".to_owned(), json!({"path": "y"}))]);
}

#[tokio::test]
async fn llama_cpp_python_accepts_a_turn_that_only_calls_tools() {
    let server = ModelServer::start(|_| Answer::text("fine"));
    let asked = of_model("llama-cpp-python-functionary", from_claude());
    let trial = ask(&mut *provider(&server, Wire::OpenAi).open(), asked).await;
    assert_eq!((trial.message().0.text().as_str(), trial.retries.len()), ("fine", 0));
    assert_eq!(server.asked()[0].json["messages"][2]["content"], "");
}

#[tokio::test]
async fn a_500_that_says_what_is_wrong_with_the_request_is_not_asked_again() {
    let words = "[{'type': 'missing', 'loc': ('body', 'messages', 0, 'content'), 'msg': 'Field required'}]";
    let body = json!({"error": {"message": words, "type": "internal_server_error"}}).to_string();
    let refusal = Answer::Refuse(ErrorResponse { status: 500, body: Some(body), ..ErrorResponse::default() });
    let (trial, server) = try_answers(Wire::OpenAi, vec![refusal, Answer::text("not this")]).await;
    assert_eq!(trial.error().code, ErrorCode::InvalidRequest);
    assert!(trial.error().message.contains("Field required"), "{}", trial.error().message);
    assert_eq!(server.exchanges().len(), 1);
}

/// The messages of a request, each with its role, its id and the ids of its calls.
fn shape(asked: &Asked) -> Vec<(String, Option<String>, Vec<String>)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let of_message = |message: &&Value| {
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let ids = calls.filter_map(|call| text(&call["id"])).collect();
        (text(&message["role"]).unwrap_or_default(), text(&message["tool_call_id"]), ids)
    };
    asked.messages().iter().map(of_message).collect()
}

#[tokio::test]
async fn mistral_takes_a_conversation_over_from_claude() {
    let server = ModelServer::start(|_| Answer::text("fine"));
    let provider = provider(&server, Wire::OpenAi);
    let mut session = provider.open();
    let mut messages = from_claude();
    for _ in 0..2 {
        let trial = ask(&mut *session, of_model("mistralai/devstral-small-2507", messages.clone())).await;
        assert_eq!(trial.retries, []);
        messages.extend([Arc::new(trial.message().0.clone()), Arc::new(Message::user("Go on."))]);
    }
    let asked = server.asked();
    let shapes = shape(&asked[0]);
    let roles: Vec<&str> = shapes.iter().map(|(role, ..)| role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "assistant", "user"]);
    let results: Vec<String> = shapes.iter().filter_map(|(_, id, _)| id.clone()).collect();
    assert_eq!(results, shapes[1].2, "results have the ids of their calls");
    assert_ne!(results[0], results[1]);
    let before = asked[0].body.strip_suffix(b"]}").expect("the end of a request");
    assert!(asked[1].body.starts_with(before), "the next request begins with this one");
}

#[tokio::test]
async fn a_server_that_turns_out_to_be_mistrals_is_asked_in_its_way_from_then_on() {
    // Under a name that does not tell the vendor.
    let server = ModelServer::start(|asked| {
        let mut disguised = asked.clone();
        disguised.json["model"] = json!("mistral-large");
        testkit::service::refusal(&disguised).unwrap_or_else(|| Answer::text("fine"))
    });
    let provider = provider(&server, Wire::OpenAi);
    let trial = ask(&mut *provider.open(), of_model("house-model", from_claude())).await;
    assert_eq!(trial.message().0.text(), "fine");
    assert_eq!(trial.retry_codes(), [ErrorCode::InvalidRequest; 2], "one for the order, one for the ids");
    let trial = ask(&mut *provider.open(), of_model("house-model", from_claude())).await;
    assert_eq!((trial.message().0.text().as_str(), trial.retries.len()), ("fine", 0));
}

#[tokio::test]
async fn two_calls_with_one_id_both_get_their_results() {
    for wire in ALL {
        for whole in [false, true] {
            let call = |path: &str| AnswerCall {
                id: Some("call_7".into()),
                name: "Read".into(),
                input: json!({"path": path}).to_string(),
            };
            let twice = Answer::from(Say { calls: vec![call("a"), call("b")], ..Say::default() })
                .delivered(Delivery { whole, ..Delivery::default() });
            let server = ModelServer::sequence([twice.clone(), twice, Answer::text("fine")]);
            let provider = provider(&server, wire);
            let mut session = provider.open();
            let mut messages = question().messages.to_vec();
            for expected in [["call_7", "call_7_2"], ["call_7_3", "call_7_4"]] {
                let trial = ask(&mut *session, request(messages.clone())).await;
                let shown = format!("{wire:?} whole: {whole} {:?}", trial.events);
                let found = called(&trial);
                let ids: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
                assert_eq!(ids, expected, "{shown}");
                let paths: Vec<&Value> = found.iter().map(|(_, input)| &input["path"]).collect();
                assert_eq!(paths, [&json!("a"), &json!("b")], "{shown}");
                let starts = trial.events.iter().filter_map(|event| match event {
                    ProviderEvent::ToolUseStart { id, .. } => Some(id.as_str()),
                    _ => None,
                });
                assert_eq!(starts.collect::<Vec<_>>(), expected, "{shown}");
                messages.extend([Arc::new(trial.message().0.clone()), results(&expected, None)]);
            }
            let trial = ask(&mut *session, request(messages)).await;
            assert_eq!((trial.message().0.text().as_str(), trial.retries.len()), ("fine", 0));
        }
    }
}

#[tokio::test]
async fn calls_that_share_an_id_and_have_no_index_are_kept_apart() {
    let call = |path: &str| {
        let arguments = json!({"path": path}).to_string();
        json!({"id": "c", "function": {"name": "Read", "arguments": arguments}})
    };
    let piece = |arguments: &str| json!({"id": "c", "function": {"name": "Read", "arguments": arguments}});
    let chunk = |calls: &[Value]| delta(json!({"tool_calls": calls}));
    let together = [chunk(&[call("a"), call("b")]), finish()];
    let apart = [chunk(&[call("a")]), chunk(&[call("b")]), finish()];
    // The second one in pieces, each with id and name.
    let in_pieces = [
        chunk(&[call("a")]),
        chunk(&[piece("{\"path\": ")]),
        chunk(&[piece("\"b\"")]),
        chunk(&[piece("}")]),
        chunk(&[piece("")]),
        finish(),
    ];
    for chunks in [&together[..], &apart[..], &in_pieces[..]] {
        let (trial, _server) = try_answers(Wire::OpenAi, vec![stream(chunks)]).await;
        let expected = [("c", json!({"path": "a"})), ("c_2", json!({"path": "b"}))];
        assert_eq!(called(&trial), expected.map(|(id, input)| (id.to_owned(), input)), "{chunks:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_count_is_counted_by_estimate() {
    let uncounted = || stream(&[delta(json!({"content": "twelve bytes"})), finish()]);
    let (trial, server) = try_answers(Wire::OpenAi, vec![uncounted()]).await;
    let usage = trial.message().1;
    assert!(usage.estimated);
    assert_eq!(usage.output_tokens, 3);
    let sent = server.asked()[0].body.len() as u64;
    assert_eq!(usage.input_tokens, sent / 4);

    let counted = json!({"choices": [], "usage": {"prompt_tokens": 90, "completion_tokens": 4}});
    let answer = stream(&[delta(json!({"content": "twelve bytes"})), finish(), counted]);
    let (trial, _server) = try_answers(Wire::OpenAi, vec![answer]).await;
    let usage = trial.message().1;
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.estimated), (90, 4, false));

    // A server that does not know the option, and so reports no usage.
    let server = ModelServer::start(move |asked| match asked.json.get("stream_options") {
        Some(_) => {
            Answer::refuse(400, "invalid_request_error", "Unrecognized request argument: stream_options")
        }
        None => uncounted(),
    });
    let trial = ask(&mut *rawko_provider::connect(settings(&server, Wire::OpenAi)).open(), question()).await;
    assert!(trial.message().1.estimated && trial.message().1.input_tokens > 0);
}
