//! The refusals of the services: each rule refuses its own violation, and a valid request passes them all.

#![allow(clippy::expect_used, clippy::panic)]

use std::time::Instant;

use serde_json::{Value, json};
use testkit::{Answer, Asked, Wire, in_base64, jpeg, png, service};

fn asked(wire: Wire, model: &str, messages: Value) -> Asked {
    let limit = if wire == Wire::Responses { "max_output_tokens" } else { "max_tokens" };
    let json = json!({"model": model, limit: 16, wire.messages_field(): messages});
    let path = match wire {
        Wire::Claude => "/v1/messages",
        Wire::OpenAi => "/v1/chat/completions",
        Wire::Responses => "/v1/responses",
    };
    Asked {
        method: "POST".into(),
        path: path.into(),
        headers: Vec::new(),
        body: json.to_string().into_bytes(),
        json,
        wire,
        arrived: Instant::now(),
        connection: 1,
        number: 0,
    }
}

/// Checks that the refusal has this status and contains this text; or that there is none.
#[track_caller]
fn check(wire: Wire, model: &str, messages: Value, expected: Option<(u16, &str)>) {
    let shown = messages.to_string();
    let refusal = service::refusal(&asked(wire, model, messages));
    let found = refusal.map(|answer| match answer {
        Answer::Refuse(refusal) => (refusal.status, refusal.body.unwrap_or(refusal.message)),
        other => panic!("no refusal but {other:?}"),
    });
    match (&found, expected) {
        (Some((status, words)), Some((expected, part))) => {
            assert_eq!(*status, expected, "{words}");
            assert!(words.contains(part), "{words:?} lacks {part:?}");
        }
        (None, None) => {}
        _ => panic!("{found:?} is not {expected:?} for {}", &shown[..shown.len().min(1_000)]),
    }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn calls(ids: &[&str]) -> Value {
    let call =
        |id: &&str| json!({"id": id, "type": "function", "function": {"name": "Read", "arguments": "{}"}});
    json!({"role": "assistant", "content": "", "tool_calls": ids.iter().map(call).collect::<Vec<_>>()})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "x"})
}

#[test]
fn chat_completions_wants_every_call_answered_once_and_nothing_else() {
    let check = |messages, expected: Option<&str>| {
        check(Wire::OpenAi, "gpt-5.4", messages, expected.map(|words| (400, words)));
    };
    check(json!([user("a"), calls(&["x", "y"]), result("y"), result("x"), user("b")]), None);
    check(json!([user("a"), calls(&["x", "y"]), result("x")]), Some("did not have response messages: y"));
    check(json!([user("a"), calls(&["x", "x"]), result("x")]), Some("did not have response messages: x, x"));
    check(json!([user("a"), result("x")]), Some("must be a response to a preceeding message"));
    check(json!([user("a"), calls(&["x"]), result("z")]), Some("did not have response messages: x"));
    check(
        json!([user("a"), calls(&["x"]), result("x"), result("x")]),
        Some("Duplicate value for 'tool_call_id' of 'x', in messages[2] and messages[3]"),
    );
    check(json!([{"role": "machine", "content": "a"}]), Some("Invalid value: 'machine'"));
    let long = "x".repeat(41);
    check(json!([user("a"), calls(&[&long]), result(&long)]), Some("got a string with length 41 instead"));
}

/// A call over Responses.
fn call(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "Read", "arguments": "{}"})
}

#[test]
fn responses_wants_items_in_order_and_reasoning_of_its_own() {
    let check = |items, expected: Option<(u16, &str)>| check(Wire::Responses, "test-large", items, expected);
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "x"});
    let said = |role: &str, kind: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": "a"}]});
    let user = || said("user", "input_text");
    check(json!([user(), call("x"), call("y"), output("y"), output("x"), user()]), None);
    check(
        json!([user(), call("x"), call("y"), output("x")]),
        Some((400, "No tool output found for function call y.")),
    );
    check(
        json!([user(), output("x")]),
        Some((400, "No tool call found for function call output with call_id x.")),
    );
    check(json!([call("x"), call("x"), output("x")]), Some((400, "Duplicate function_call for call_id x")));
    check(json!([call("x"), output("x"), output("x")]), Some((400, "Duplicate function_call_output")));
    let long = "x".repeat(65);
    check(json!([call(&long), output(&long)]), Some((400, "got a string with length 65 instead")));
    check(json!([said("user", "output_text")]), Some((400, "Invalid value: 'output_text'")));
    check(json!([said("assistant", "input_text")]), Some((400, "Invalid value: 'input_text'")));
    check(json!([said("machine", "input_text")]), Some((400, "Invalid value: 'machine'")));
    check(json!([{"role": "user", "content": "a"}]), Some((400, "Invalid value: ''")));

    let reasoning = |fields: Value| {
        let mut item = json!({"type": "reasoning", "summary": []});
        for (name, value) in fields.as_object().into_iter().flatten() {
            item[name] = value.clone();
        }
        json!([user(), item, said("assistant", "output_text"), user()])
    };
    check(reasoning(json!({"encrypted_content": "gAAAAfake"})), Some((400, "could not be verified")));
    check(reasoning(json!({"id": "rs_1"})), Some((404, "Item with id 'rs_1' not found")));
    check(reasoning(json!({"status": "completed"})), Some((400, "Unknown parameter: 'input[1].status'")));
    check(reasoning(json!({"summary": null})), Some((400, "Missing required parameter: 'input[1].summary'")));
}

#[test]
fn mistrals_models_want_roles_in_order_and_ids_of_nine_characters() {
    for model in ["mistral-large-latest", "mistralai/Devstral-Small", "codestral:22b"] {
        let check = |messages, expected: Option<&str>| {
            check(Wire::OpenAi, model, messages, expected.map(|words| (400, words)));
        };
        let (call, answer) = (calls(&["abcDEF123"]), result("abcDEF123"));
        check(json!([user("a"), call, answer, {"role": "assistant", "content": "b"}, user("c")]), None);
        check(json!([user("a"), call, answer, user("b")]), Some("Unexpected role 'user' after role 'tool'"));
        check(json!([user("a"), call]), Some("Not the same number of function calls and responses"));
        check(json!([user("a"), calls(&["call_1"]), result("call_1")]), Some("with a length of 9"));
    }
    check(Wire::OpenAi, "gpt-5.4", json!([user("a"), calls(&["c"]), result("c"), user("b")]), None);
}

#[test]
fn llama_cpp_python_wants_a_text_beside_calls() {
    let mut call = calls(&["c"]);
    call["content"] = Value::Null;
    let messages = json!([user("a"), call, result("c")]);
    check(Wire::OpenAi, "gpt-5.4", messages.clone(), None);
    check(Wire::OpenAi, "llama-cpp-python", messages, Some((500, "Input should be a valid string")));
    check(Wire::OpenAi, "llama-cpp-python", json!([user("a"), calls(&["c"]), result("c")]), None);
}

/// Messages with these pictures in a tool result.
fn pictures(wire: Wire, pictures: &[(&str, Vec<u8>)]) -> Value {
    let data = pictures.iter().map(|(media_type, bytes)| (media_type, in_base64(bytes)));
    match wire {
        Wire::Claude => {
            let image = |(media_type, data)| json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}});
            let parts: Vec<Value> =
                std::iter::once(json!({"type": "text", "text": "x"})).chain(data.map(image)).collect();
            let result = json!({"type": "tool_result", "tool_use_id": "x", "content": parts});
            let call = json!({"type": "tool_use", "id": "x", "name": "Read", "input": {}});
            json!([user("a"), {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}])
        }
        Wire::OpenAi => {
            let image = |(media_type, data)| json!({"type": "image_url", "image_url": {"url": format!("data:{media_type};base64,{data}")}});
            json!([{"role": "user", "content": data.map(image).collect::<Vec<_>>()}])
        }
        Wire::Responses => {
            let image = |(media_type, data)| json!({"type": "input_image", "image_url": format!("data:{media_type};base64,{data}")});
            let output: Vec<Value> = data.map(image).collect();
            json!([call("x"), {"type": "function_call_output", "call_id": "x", "output": output}])
        }
    }
}

#[test]
fn pictures_are_refused_that_cannot_be_used_or_are_too_many() {
    let wide = |side| ("image/png", png(side, 1));
    let broken = || ("image/png", b"\x89PNG\r\n\x1a\nrest".to_vec());
    let check = |wire, shown: &[_], expected| check(wire, "test-large", pictures(wire, shown), expected);
    for wire in Wire::ALL {
        check(wire, &[wide(9), ("image/jpeg", jpeg(3, 3))], None);
        check(wire, &vec![wide(9); 100], None);
    }
    let place = "messages.2.content.0.tool_result.content.2.image.source.base64";
    let invalid = |words: &'static str| Some((400, words));
    check(Wire::Claude, &[broken()], invalid("Could not process image"));
    check(Wire::Claude, &[wide(9), wide(8_001)], invalid(place));
    check(Wire::Claude, &[wide(9), wide(8_001)], invalid("max allowed size: 8000 pixels"));
    check(Wire::Claude, &[("image/gif", png(3, 3))], invalid("appears to be a image/png image"));
    check(Wire::Claude, &vec![wide(9); 101], invalid("too many images and documents: 101 + 0 > 100"));
    let mut many = vec![wide(9); 20];
    check(Wire::Claude, &[many.clone(), vec![wide(2_000)]].concat(), None);
    many.push(wide(2_001));
    check(Wire::Claude, &many, invalid("for many-image requests: 2000 pixels"));
    check(
        Wire::Claude,
        &[("image/png", vec![0; 4_000_000])],
        invalid("image exceeds 5 MB maximum: 5333336 bytes"),
    );
    check(Wire::OpenAi, &[broken()], invalid("You uploaded an unsupported image"));
    check(Wire::Responses, &[broken()], invalid("You uploaded an unsupported image"));
}
