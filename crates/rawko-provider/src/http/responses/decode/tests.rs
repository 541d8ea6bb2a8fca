use rawko_core::message::Content;

use super::*;

type Decoded = Result<(Message, Usage, StopReason), (ErrorCode, String)>;

/// The answer that these events carry.
fn decode(events: &[Value]) -> Decoded {
    let mut decoder = ResponsesDecoder::new(&[]);
    let mut out = Events::new();
    for data in events {
        let name = data["type"].as_str().unwrap_or_default().to_owned();
        let event = SseEvent { name, data: data.to_string() };
        match decoder.event(&event, &mut out) {
            Ok(DecodeProgress::Done) => return Ok(finish(decoder)),
            Ok(_) => {}
            Err(failure) => return Err((failure.info.code, failure.info.message.clone())),
        }
    }
    Err((ErrorCode::NetworkError, "never done".to_owned()))
}

fn finish(decoder: ResponsesDecoder) -> (Message, Usage, StopReason) {
    match decoder.finish(&mut Events::new()) {
        ProviderEvent::MessageDone { message, usage, stop_reason } => (message, usage, stop_reason),
        other => panic!("{other:?}"),
    }
}

fn completed(output: Value) -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "error": null, "output": output}})
}

/// The content as short words: `text`, `(reasoning)`, `id name arguments`.
#[track_caller]
fn check(events: &[Value], expected: &[&str]) {
    let (message, _, _) = decode(events).expect("an answer");
    let shown = |content: &Content| match content {
        Content::Text { text } => text.clone(),
        Content::Thinking { thinking, .. } => format!("({thinking})"),
        Content::ToolUse(call) => format!("{} {} {}", call.id, call.name, call.input),
        other => panic!("{other:?}"),
    };
    let found: Vec<String> = message.content.iter().map(shown).collect();
    assert_eq!(found, expected);
}

fn call(at: Option<u64>, id: Value, arguments: &str) -> [Value; 2] {
    let item = |arguments: &str| json!({"type": "function_call", "id": id, "call_id": "call_1", "name": "Read", "arguments": arguments});
    let event = |kind: &str, item: Value| match at {
        Some(at) => json!({"type": kind, "output_index": at, "item": item}),
        None => json!({"type": kind, "item": item}),
    };
    [event("response.output_item.added", item("")), event("response.output_item.done", item(arguments))]
}

fn message(text: &str) -> Value {
    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
}

#[test]
fn an_item_is_whole_whatever_part_of_it_was_streamed() {
    let [added, done] = call(Some(0), json!("fc_1"), r#"{"path":"x"}"#);
    let delta = |text: &str| json!({"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1", "delta": text});
    let end = || completed(json!([]));
    let expected = &[r#"call_1 Read {"path":"x"}"#];
    check(&[added.clone(), done.clone(), end()], expected);
    check(&[done.clone(), end()], expected);
    check(&[added.clone(), delta(r#"{"path""#), done.clone(), end()], expected);
    check(&[added.clone(), delta(r#"{"path":"x"}"#), done, end()], expected);
    let all = json!({"type": "response.function_call_arguments.done", "item_id": "fc_1", "arguments": r#"{"path":"x"}"#});
    check(&[added, delta(r#"{"#), all, end()], expected);
    // Without indexes, and without ids.
    let [added, done] = call(None, json!("fc_1"), r#"{"path":"x"}"#);
    check(&[added, done, end()], expected);
    let [added, done] = call(Some(3), Value::Null, r#"{"path":"x"}"#);
    check(&[added, done, end()], expected);
    // Only in the response itself.
    check(&[completed(json!([message("hi"), message("there")]))], &["hi", "there"]);
    // Streamed text is not added again.
    let text =
        json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "hi"});
    let done = json!({"type": "response.output_item.done", "output_index": 0, "item": message("hi")});
    check(&[text, done, completed(json!([message("hi")]))], &["hi"]);
}

#[test]
fn items_keep_their_order_and_unknown_ones_are_read_over() {
    let done =
        |at: u64, item: Value| json!({"type": "response.output_item.done", "output_index": at, "item": item});
    let search = json!({"type": "file_search_call", "id": "fs_1", "status": "completed"});
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA",
        "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}]});
    let news = json!({"type": "response.novelty", "output_index": 9});
    let events = [done(2, message("after")), news, done(0, reasoning), done(1, search), completed(json!([]))];
    check(&events, &["(one\n\ntwo)", "after"]);
}

/// Checks what goes back with the next request of a reasoning item.
#[track_caller]
fn check_back(item: Value, expected: Option<&Value>) {
    let done = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    let (message, _, _) = decode(&[done, completed(json!([]))]).expect("an answer");
    let signature = message.content.iter().find_map(|content| match content {
        Content::Thinking { signature, .. } => signature.clone(),
        _ => None,
    });
    let back: Option<Value> = signature.map(|text| serde_json::from_str(&text).expect("JSON"));
    assert_eq!(back.as_ref(), expected);
}

#[test]
fn reasoning_goes_back_only_if_the_server_can_read_it() {
    let summary = json!([{"type": "summary_text", "text": "hm"}]);
    check_back(
        json!({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "gAAA", "content": null, "status": null}),
        Some(&json!({"type": "reasoning", "summary": summary, "encrypted_content": "gAAA"})),
    );
    check_back(json!({"type": "reasoning", "id": "rs_1", "summary": summary}), None);
    check_back(json!({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": ""}), None);
    check_back(
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gA", "status": "incomplete"}),
        None,
    );
    let raw = json!([{"type": "reasoning_text", "text": "raw"}]);
    check_back(
        json!({"type": "reasoning", "id": "rs_1", "content": raw, "status": "completed"}),
        Some(&json!({"type": "reasoning", "id": "rs_1", "content": raw, "summary": []})),
    );
}

#[test]
fn a_refusal_is_text_and_the_reason_of_the_end() {
    let part = json!({"type": "refusal", "refusal": "I cannot help with that."});
    let item = json!({"type": "message", "role": "assistant", "content": [part]});
    let delta =
        json!({"type": "response.refusal.delta", "output_index": 0, "content_index": 0, "delta": "I cannot"});
    let done = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    let (message, _, stop) = decode(&[delta, done, completed(json!([]))]).expect("an answer");
    assert_eq!((message.text().as_str(), stop), ("I cannot help with that.", StopReason::Refusal));
}

#[track_caller]
fn check_failure(event: Value, code: ErrorCode, part: &str) {
    let (found, message) = decode(&[event]).expect_err("no answer");
    assert_eq!(found, code, "{message}");
    assert!(message.contains(part), "{message}");
}

#[test]
fn failures_are_known_by_their_codes() {
    let failed = |code: &str, message: &str| {
        let error = json!({"code": code, "message": message});
        json!({"type": "response.failed", "response": {"status": "failed", "error": error, "output": []}})
    };
    let error =
        |code: &str, message: &str| json!({"type": "error", "code": code, "message": message, "param": null});
    for event in [failed, error] {
        check_failure(event("server_error", "The model failed."), ErrorCode::Overloaded, "The model");
        check_failure(event("rate_limit_exceeded", "Slow down."), ErrorCode::RateLimited, "Slow");
        check_failure(event("insufficient_quota", "You exceeded."), ErrorCode::AuthenticationFailed, "You");
        check_failure(event("context_length_exceeded", "Too long."), ErrorCode::ContextLengthExceeded, "Too");
        check_failure(event("invalid_prompt", "Not allowed."), ErrorCode::InvalidRequest, "Not allowed");
    }
    let wrapped = json!({"type": "error", "error": {"type": "server_error", "message": "Inner."}});
    check_failure(wrapped, ErrorCode::Overloaded, "Inner");
    check_failure(json!({"error": {"code": 502, "message": "Upstream."}}), ErrorCode::Overloaded, "Upstream");
    let cancelled = json!({"type": "response.completed", "response": {"status": "cancelled", "output": []}});
    check_failure(cancelled, ErrorCode::Overloaded, "`cancelled`");
}

#[test]
fn a_stream_that_ends_without_its_response_is_cut_off() {
    let mut decoder = ResponsesDecoder::new(&[]);
    let end = SseEvent { name: String::new(), data: "[DONE]".to_owned() };
    let failure = decoder.event(&end, &mut Events::new()).expect_err("cut off");
    assert_eq!((failure.info.code, failure.is_transient), (ErrorCode::NetworkError, true));
}

#[test]
fn an_answer_that_was_cut_short_says_why() {
    for (reason, stop) in [
        ("max_output_tokens", StopReason::MaxTokens),
        ("content_filter", StopReason::Refusal),
        ("news", StopReason::MaxTokens),
    ] {
        let response = json!({"status": "incomplete", "incomplete_details": {"reason": reason}, "output": [message("so")],
            "usage": {"input_tokens": 90, "input_tokens_details": {"cached_tokens": 50, "cache_write_tokens": 10}, "output_tokens": 4}});
        let found =
            decode(&[json!({"type": "response.incomplete", "response": response})]).expect("an answer");
        let usage = Usage {
            input_tokens: 30,
            output_tokens: 4,
            cache_read_tokens: 50,
            cache_write_tokens: 10,
            web_searches: 0,
            estimated: false,
        };
        assert_eq!((found.1, found.2), (usage, stop), "{reason}");
    }
}
