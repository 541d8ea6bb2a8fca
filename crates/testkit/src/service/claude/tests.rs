use std::time::Instant;

use serde_json::{Value, json};

use super::{refusal, sign};
use crate::answer::Answer;
use crate::exchange::{Asked, Wire};

fn asked(json: Value) -> Asked {
    Asked {
        method: "POST".into(),
        path: "/v1/messages".into(),
        headers: Vec::new(),
        body: Vec::new(),
        json,
        wire: Wire::Claude,
        arrived: Instant::now(),
        connection: 1,
        number: 0,
    }
}

/// A valid request with these fields.
fn request(model: &str, fields: Value) -> Value {
    let mut body =
        json!({"model": model, "max_tokens": 1_000, "messages": [{"role": "user", "content": "Hello."}]});
    for (name, value) in fields.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    body
}

#[track_caller]
fn check(model: &str, fields: Value, expected: Option<&str>) {
    let asked = asked(request(model, fields));
    let message = match refusal(&asked) {
        None => None,
        Some(Answer::Refuse(refusal)) => {
            assert_eq!((refusal.status, refusal.kind.as_str()), (400, "invalid_request_error"));
            Some(refusal.message)
        }
        Some(other) => unreachable!("{other:?}"),
    };
    match (&message, expected) {
        (None, None) => {}
        (Some(message), Some(part)) => assert!(message.contains(part), "{message:?} lacks {part:?}"),
        _ => panic!("{model}: {message:?} instead of {expected:?}: {}", asked.json),
    }
}

#[test]
fn forced_tools_are_refused_where_the_model_thinks() {
    let forced = |thinking: Value| json!({"tool_choice": {"type": "tool", "name": "x"}, "tools": [{"name": "x"}], "thinking": thinking});
    let bare = json!({"tool_choice": {"type": "any"}, "tools": [{"name": "x"}]});
    for model in ["claude-sonnet-5-5", "claude-opus-5-5", "claude-fable-5-1"] {
        check(model, bare.clone(), Some("tool_choice: type"));
    }
    check("claude-sonnet-5-5", forced(json!({"type": "between_tools"})), Some("tool_choice: type"));
    for model in ["claude-sonnet-5", "claude-opus-5", "claude-haiku-5-5"] {
        check(model, bare.clone(), Some("Thinking may not be enabled"));
        check(model, forced(json!({"type": "disabled"})), None);
    }
    check("claude-sonnet-4-5", bare.clone(), None);
    check(
        "claude-opus-4-6",
        forced(json!({"type": "enabled", "budget_tokens": 0})),
        Some("greater than or equal to 1024"),
    );
    check("mystery", bare, None);
}

#[test]
fn each_model_takes_its_own_kinds_of_thinking() {
    let kind = |kind: &str| json!({"thinking": {"type": kind}});
    let cases = [
        ("claude-sonnet-5-5", "disabled", false),
        ("claude-sonnet-5-5", "between_tools", true),
        ("claude-sonnet-5-5", "adaptive", true),
        ("claude-opus-5-5", "between_tools", false),
        ("claude-opus-5-5", "disabled", false),
        ("claude-sonnet-5", "disabled", true),
        ("claude-haiku-5-5", "disabled", true),
        ("claude-opus-4-8", "disabled", true),
        ("claude-opus-4-8", "enabled", false),
        ("claude-haiku-4-5", "adaptive", false),
    ];
    for (model, name, takes) in cases {
        check(model, kind(name), (!takes).then_some("is not supported for this model"));
    }
    let high = |kind: &str| json!({"thinking": {"type": kind}, "output_config": {"effort": "max"}});
    check("claude-sonnet-5-5", high("between_tools"), Some("is not supported"));
    check("claude-opus-5", high("disabled"), Some("is not supported"));
}

#[test]
fn numbers_are_within_what_the_model_takes() {
    check("claude-sonnet-5-5", json!({"temperature": 0.3}), Some("`temperature` is deprecated"));
    check("claude-sonnet-5-5", json!({"temperature": 1.0}), None);
    check("claude-sonnet-4-5", json!({"temperature": 0.3}), None);
    check("claude-sonnet-4-5", json!({"temperature": 1.5}), Some("range: 0..1"));
    let budget =
        |budget: u64| json!({"max_tokens": 4_000, "thinking": {"type": "enabled", "budget_tokens": budget}});
    check("claude-sonnet-4-5", budget(2_000), None);
    check("claude-sonnet-4-5", budget(4_000), Some("must be greater than `thinking.budget_tokens`"));
    let mut warm = budget(2_000);
    warm["temperature"] = json!(0.3);
    check("claude-sonnet-4-5", warm, Some("only be set to 1 when thinking"));
    check("claude-haiku-4-5", json!({"max_tokens": 64_001}), Some("64001 > 64000"));
    check("claude-sonnet-5-5", json!({"max_tokens": 128_000}), None);
    check("claude-sonnet-5-5", json!({"reasoning_effort": "low"}), Some("Extra inputs are not permitted"));
    let marked = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    check("mystery", json!({"system": vec![marked; 5]}), Some("Found 5"));
}

#[track_caller]
fn check_messages(messages: Value, expected: Option<&str>) {
    for model in ["mystery", "claude-sonnet-4-5"] {
        check(model, json!({"messages": messages}), expected);
    }
}

fn turn(role: &str, content: Value) -> Value {
    json!({"role": role, "content": content})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Read", "input": {}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "x"})
}

#[test]
fn conversations_have_their_order() {
    let hello = turn("user", json!("Hello."));
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    check_messages(json!([]), Some("at least one message"));
    check_messages(json!([turn("assistant", text("Hi."))]), Some("first message must use the \"user\" role"));
    check_messages(json!([turn("system", text("Hi."))]), Some("\"user\" role"));
    check_messages(json!([hello, turn("tool", text("Hi."))]), Some("Input should be 'user' or 'assistant'"));
    check_messages(json!([turn("user", text(" \n"))]), Some("non-whitespace"));
    check_messages(json!([turn("user", json!([]))]), Some("non-empty content"));
    let called = |ids: &[&str]| turn("assistant", ids.iter().map(|id| call(id)).collect());
    let answered = |ids: &[&str]| turn("user", ids.iter().map(|id| result(id)).collect());
    check_messages(json!([hello, called(&["a", "b"]), answered(&["b", "a"])]), None);
    check_messages(
        json!([hello, called(&["a", "b"]), answered(&["a"])]),
        Some("without `tool_result` blocks"),
    );
    check_messages(json!([hello, called(&["a"])]), Some("without `tool_result` blocks"));
    check_messages(json!([hello, called(&["a"]), hello, answered(&["a"])]), Some("without `tool_result`"));
    check_messages(json!([hello, answered(&["a"])]), Some("unexpected `tool_use_id`"));
    check_messages(json!([hello, called(&["a"]), answered(&["a", "a"])]), Some("a single result"));
    check_messages(json!([hello, called(&["a", "a"]), answered(&["a"])]), Some("ids must be unique"));
    check_messages(
        json!([hello, called(&["a"]), answered(&["a"]), called(&["a"]), answered(&["a"])]),
        Some("ids must be unique"),
    );
    check_messages(json!([hello, called(&["a.1"]), answered(&["a.1"])]), Some("should match pattern"));
    let prefill = json!({"messages": [hello, turn("assistant", text("Hi."))]});
    check("claude-sonnet-4-5", prefill.clone(), None);
    check("claude-sonnet-5-5", prefill, Some("prefill"));
}

#[test]
fn manual_thinking_comes_back_with_the_calls_it_led_to() {
    let messages = json!([
        turn("user", json!("Hi.")),
        turn("assistant", json!([call("a")])),
        turn("user", json!([result("a")]))
    ]);
    let thinking = json!({"type": "enabled", "budget_tokens": 2_000});
    let fields = json!({"max_tokens": 4_000, "thinking": thinking, "messages": messages});
    check("claude-sonnet-4-5", fields, Some("must start with a thinking block"));
}

/// Two turns of one conversation, each with thinking, as a client sends them back unchanged.
fn thoughtful(model: &str) -> Value {
    let mut body = request(model, json!({"system": "Be short.", "tools": [{"name": "Read"}]}));
    for id in ["a", "b"] {
        let signature = sign(&asked(body.clone()));
        let messages = body["messages"].as_array_mut().expect("messages");
        let thought = json!({"type": "thinking", "thinking": "", "signature": signature});
        messages.push(turn("assistant", json!([thought, call(id)])));
        messages.push(turn("user", json!([result(id)])));
    }
    body
}

#[track_caller]
fn check_bound(model: &str, change: impl Fn(&mut Value), expected: Option<&str>) {
    let mut body = thoughtful(model);
    change(&mut body);
    check(model, body, expected);
}

#[test]
fn thinking_is_bound_to_all_that_came_before_it() {
    const BOUND: Option<&str> = Some("The block is bound to a different conversation");
    for model in ["claude-sonnet-5-5", "claude-opus-5-5", "claude-fable-5-1", "claude-haiku-5-5"] {
        check_bound(model, |_| {}, None);
        check_bound(model, |body| body["system"] = json!("Be long."), BOUND);
        check_bound(model, |body| body["tools"][0]["name"] = json!("Write"), BOUND);
        check_bound(model, |body| body["messages"][0]["content"] = json!("Bye."), BOUND);
        check_bound(model, |body| body["messages"][2]["content"][0]["content"] = json!("cut"), BOUND);
        // No thinking follows the last result yet.
        check_bound(model, |body| body["messages"][4]["content"][0]["content"] = json!("cut"), None);
        let drop = |body: &mut Value, at: usize| {
            let blocks = body["messages"][at]["content"].as_array_mut().expect("blocks");
            blocks.retain(|block| block["type"] != "thinking");
        };
        check_bound(model, |body| drop(body, 1), BOUND);
        check_bound(model, |body| drop(body, 3), None);
        check_bound(
            model,
            |body| {
                body["system"] = json!("Be long.");
                drop(body, 1);
                drop(body, 3);
            },
            None,
        );
        let mark = |body: &mut Value| body["tools"][0]["cache_control"] = json!({"type": "ephemeral"});
        check_bound(model, mark, None);
        // Thinking of another model is dropped silently.
        check_bound(model, |body| body["model"] = json!("claude-opus-5"), None);
        let forge = |body: &mut Value| body["messages"][1]["content"][0]["signature"] = json!("forged");
        check_bound(model, forge, Some("Invalid `signature` in `thinking` block"));
    }
    check_bound("claude-sonnet-5", |body| body["system"] = json!("Be long."), None);
}
