//! The events are those of CLI 1.0.102, shortened.

use rawko_core::message::{Content, Role};
use rawko_core::tool::ToolAccess;
use serde_json::json;

use super::*;

fn play(events: &[(&str, Value)]) -> (Vec<ProviderEvent>, Option<End>) {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: String::new(),
        input_schema: json!({"type": "object"}),
        access: ToolAccess::ReadOnly,
    };
    let mut turn = Turn::answer_to(&[], &["Read", "Bash"].map(tool));
    let mut out = Events::new();
    let end = events.iter().find_map(|(kind, data)| turn.take(kind, data, &mut out));
    (out.into(), end)
}

fn requests(calls: &[(&str, &str, Value)]) -> (&'static str, Value) {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(id, name, arguments)| json!({"toolCallId": id, "name": name, "arguments": arguments}))
        .collect();
    ("assistant.message", json!({"content": "I look.", "toolRequests": calls}))
}

fn requested(id: &str) -> (&'static str, Value) {
    ("external_tool.requested", json!({"requestId": format!("r-{id}"), "toolCallId": id}))
}

fn delta(text: &str) -> (&'static str, Value) {
    ("assistant.message_delta", json!({"messageId": "m", "deltaContent": text}))
}

#[track_caller]
fn done(end: Option<End>) -> (Message, Usage, StopReason, Option<Vec<PendingCall>>) {
    match end {
        Some(End::Done { event: ProviderEvent::MessageDone { message, usage, stop_reason }, pending }) => {
            (message, usage, stop_reason, pending)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_turn_with_calls_ends_when_all_of_them_wait() {
    let usage =
        json!({"inputTokens": 100, "outputTokens": 20, "cacheReadTokens": 40, "finishReason": "tool_calls"});
    let calls = [("a", "Read", json!({"path": "x"})), ("b", "Bash", json!({"command": "ls"}))];
    let mut events = vec![
        ("assistant.reasoning_delta", json!({"deltaContent": "Hm."})),
        delta("I "),
        delta("look."),
        (
            "assistant.tool_call_delta",
            json!({"toolCallId": "a", "toolName": "Read", "inputDelta": "{\"path\": \"x\"}"}),
        ),
        ("assistant.usage", usage),
        requests(&calls),
        ("tool.execution_start", json!({"toolCallId": "a"})),
        requested("b"),
    ];
    assert_eq!(play(&events).1, None, "one call is not handed out yet");
    events.push(requested("a"));
    let (out, end) = play(&events);
    assert_eq!(
        out[..3],
        [
            ProviderEvent::ThinkingDelta("Hm.".into()),
            ProviderEvent::TextDelta("I ".into()),
            ProviderEvent::TextDelta("look.".into()),
        ]
    );
    assert!(
        matches!(&out[3], ProviderEvent::ToolUseStart { id, name } if id == "a" && name == "Read"),
        "{out:?}"
    );
    let (message, usage, stop, pending) = done(end);
    assert_eq!(
        (message.role, message.text().as_str(), stop),
        (Role::Assistant, "I look.", StopReason::ToolUse)
    );
    assert_eq!(
        usage,
        Usage { input_tokens: 60, output_tokens: 20, cache_read_tokens: 40, ..Usage::default() }
    );
    let pending: Vec<_> = pending.unwrap().into_iter().map(|one| (one.call, one.request)).collect();
    assert_eq!(pending, [("a".into(), "r-a".into()), ("b".into(), "r-b".into())]);
}

#[test]
fn a_turn_without_calls_ends_when_the_session_is_idle() {
    let events = [
        ("assistant.message", json!({"content": "Done.", "toolRequests": []})),
        // Reported for an empty answer too.
        ("session.error", json!({"errorType": "query", "message": "No response was returned."})),
        ("session.idle", json!({})),
    ];
    let (out, end) = play(&events);
    assert_eq!(out, [ProviderEvent::TextDelta("Done.".into())], "text that was not streamed is not lost");
    let (message, _, stop, pending) = done(end);
    assert_eq!((message.text().as_str(), stop, pending), ("Done.", StopReason::EndTurn, Some(Vec::new())));
}

/// Where the CLI goes on by itself, rawko ends the turn and the session.
#[track_caller]
fn check_ended(events: &[(&str, Value)], stop: StopReason, call: Option<(&str, Value, Option<&str>)>) {
    let (message, _, found, pending) = done(play(events).1);
    assert_eq!((found, pending), (stop, None));
    let calls: Vec<_> = message.tool_calls().collect();
    match call {
        Some((name, input, invalid)) => {
            let found = calls.last().unwrap();
            assert_eq!(
                (found.name.as_str(), &found.input, found.invalid_input.as_deref()),
                (name, &input, invalid)
            );
        }
        None => assert_eq!(calls.len(), 0),
    }
}

#[test]
fn what_the_cli_would_settle_itself_is_left_to_rawko() {
    let settled = |id: &str| ("tool.execution_complete", json!({"toolCallId": id, "success": false}));
    let nope = requests(&[("x", "Nope", json!({"a": 1}))]);
    check_ended(&[nope, settled("x")], StopReason::ToolUse, Some(("Nope", json!({"a": 1}), None)));
    let broken =
        ("assistant.tool_call_delta", json!({"toolCallId": "x", "toolName": "Read", "inputDelta": "{\"pa"}));
    check_ended(
        &[broken.clone(), requests(&[("x", "Read", json!({}))]), settled("x")],
        StopReason::ToolUse,
        Some(("Read", json!({}), Some("{\"pa"))),
    );
    let cut = ("assistant.usage", json!({"outputTokens": 9, "finishReason": "length"}));
    check_ended(&[delta("half"), cut.clone()], StopReason::MaxTokens, None);
    check_ended(&[broken, cut], StopReason::MaxTokens, Some(("Read", json!({}), Some("{\"pa"))));
    // Results of an earlier turn are none of this one's business.
    assert_eq!(play(&[settled("x")]).1, None);
}

#[test]
fn two_calls_with_one_id_get_two_and_end_the_session() {
    let twice = requests(&[("x", "Read", json!({"path": "f"})), ("x", "Read", json!({"path": "g"}))]);
    let (message, _, _, pending) = done(play(&[twice, requested("x")]).1);
    let calls: Vec<_> =
        message.tool_calls().map(|call| (call.id.as_str(), call.input["path"].clone())).collect();
    assert_eq!(calls, [("x", json!("f")), ("x_2", json!("g"))]);
    assert_eq!(pending, None, "the CLI cannot tell their results apart");
}

#[test]
fn a_refusal_is_one() {
    let filtered = ("assistant.usage", json!({"finishReason": "content_filter"}));
    let events =
        [delta("no"), filtered, ("assistant.message", json!({"content": "no"})), ("session.idle", json!({}))];
    assert_eq!(done(play(&events).1).2, StopReason::Refusal);
}

#[test]
fn a_second_attempt_begins_again_and_is_reported() {
    let failed =
        json!({"statusCode": 429, "errorType": "rate_limit_error", "errorMessage": "{\"message\":\"slow\"}"});
    let events = [
        delta("hal"),
        ("model.call_failure", failed),
        ("assistant.turn_retry", json!({"reason": "rate_limit"})),
        delta("whole"),
        ("assistant.message", json!({"content": "whole"})),
        ("session.idle", json!({})),
    ];
    let (out, end) = play(&events);
    let retrying = out.iter().find_map(|event| match event {
        ProviderEvent::Retrying { error, attempt, .. } => {
            Some((error.code, error.message.as_str(), *attempt))
        }
        _ => None,
    });
    assert_eq!(retrying, Some((ErrorCode::RateLimited, "slow", 2)));
    assert_eq!(done(end).0.content, [Content::text("whole")]);
}

#[test]
fn a_failed_turn_says_what_it_consumed() {
    let events = [
        delta("four"),
        ("session.error", json!({"errorType": "query", "statusCode": 500, "message": "Failed: 500 boom"})),
    ];
    let Some(End::Failed { error, usage }) = play(&events).1 else { panic!("no failure") };
    assert_eq!(
        (error.code, error.status, error.message.as_str()),
        (ErrorCode::Overloaded, Some(500), "Failed: 500 boom")
    );
    assert_eq!(usage.map(|usage| (usage.output_tokens, usage.estimated)), Some((1, true)));
    let Some(End::Failed { error, usage: None }) = play(&[("session.idle", json!({"aborted": true}))]).1
    else {
        panic!("no failure")
    };
    assert!(error.message.contains("broke the answer off"), "{}", error.message);
}
