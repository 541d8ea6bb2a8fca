//! What servers write a little differently than the protocol says.
//!
//! The protocol library takes a message as a whole or leaves it out, and then its call waits until its time is up. Here an
//! answer whose call is known always reaches it: what is clear is taken, one bad part of a list costs that part, and what
//! cannot be read becomes an error of the call.

use std::borrow::Cow;

use rmcp::model::{ContentBlock, Tool};
use serde_json::{Map, Value, json};

use crate::error::short;

/// The code of an error whose own code cannot be used: an internal error of JSON-RPC.
const INTERNAL: i64 = -32_603;
/// Marks the schema of a listed tool that cannot be used, and says why.
const UNUSABLE: &str = "rawko/unusable";

/// A line as the protocol library reads it; `None` where it can be as it is.
pub(crate) fn line(line: &[u8]) -> Option<Vec<u8>> {
    if !line.trim_ascii_start().starts_with(b"{") {
        // Not a message: programs print such things.
        return None;
    }
    let text = String::from_utf8_lossy(line);
    let is_text = matches!(text, Cow::Borrowed(_));
    let is_strict = is_text && serde_json::from_str::<Value>(&text).is_ok();
    let mended = match rawko_provider::json::parse(&text) {
        Ok(mut message) => (message_mended(&mut message) || !is_strict).then_some(message)?,
        Err(error) => {
            let why = format!("the answer cannot be read: {error}");
            json!({"jsonrpc": "2.0", "id": id_in(&text)?, "error": {"code": INTERNAL, "message": why}})
        }
    };
    let mut mended = mended.to_string().into_bytes();
    mended.push(b'\n');
    Some(mended)
}

/// Mends the answer to a request. Returns whether there was something to mend.
fn message_mended(message: &mut Value) -> bool {
    let Some(message) = message.as_object_mut() else { return false };
    if message.contains_key("method") || message.get("id").is_none_or(Value::is_null) {
        return false;
    }
    let before = message.clone();
    message.insert("jsonrpc".to_owned(), json!("2.0"));
    if let Some(id) = message.get("id").and_then(number) {
        message.insert("id".to_owned(), json!(id));
    }
    match message.get("error").cloned() {
        Some(Value::Null) | None => {
            message.remove("error");
            match message.get_mut("result") {
                Some(Value::Object(result)) => result_mended(result),
                Some(Value::Null) | None => {
                    let error =
                        json!({"code": INTERNAL, "message": "the answer has neither a result nor an error"});
                    message.remove("result");
                    message.insert("error".to_owned(), error);
                }
                Some(_) => {}
            }
        }
        Some(error) => {
            message.remove("result");
            message.insert("error".to_owned(), error_mended(error));
        }
    }
    *message != before
}

/// The number that an id is: ours are numbers.
fn number(id: &Value) -> Option<i64> {
    match id {
        Value::String(text) => text.trim().parse().ok(),
        #[expect(clippy::cast_possible_truncation, reason = "it is whole")]
        Value::Number(number) => {
            number.as_i64().or_else(|| number.as_f64().filter(|n| n.fract() == 0.0).map(|n| n as i64))
        }
        _ => None,
    }
}

/// An error with a number as its code and a text as its message.
fn error_mended(error: Value) -> Value {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let Value::Object(mut error) = error else {
        return json!({"code": INTERNAL, "message": text(&error)});
    };
    let message = error.get("message").map(text).unwrap_or_default();
    let code = error.get("code").cloned().unwrap_or_default();
    let usable = number(&code).filter(|code| i32::try_from(*code).is_ok());
    let message = match (usable, &code) {
        (Some(_), _) | (None, Value::Null) => message,
        (None, code) => format!("{}: {message}", text(code)),
    };
    error.insert("code".to_owned(), json!(usable.unwrap_or(INTERNAL)));
    error.insert("message".to_owned(), json!(message));
    Value::Object(error)
}

fn result_mended(result: &mut Map<String, Value>) {
    if let Some(Value::Array(tools)) = result.get_mut("tools") {
        for (at, tool) in tools.iter_mut().enumerate() {
            tool_mended(at, tool);
        }
    }
    match result.get_mut("content") {
        Some(Value::Array(blocks)) => blocks.iter_mut().for_each(block_mended),
        // A text, or one block that is in no list.
        Some(content @ (Value::String(_) | Value::Object(_))) => {
            block_mended(content);
            *content = Value::Array(vec![content.take()]);
        }
        _ => {}
    }
}

/// A block of content that can be read, or a text that says what it was.
fn block_mended(block: &mut Value) {
    if serde_json::from_value::<ContentBlock>(block.clone()).is_ok() {
        return;
    }
    let text = |key: &str| block.get(key).and_then(Value::as_str);
    let shown = match (block.as_str(), text("type"), text("text")) {
        (Some(text), ..) | (None, _, Some(text)) => text.to_owned(),
        (None, Some(kind), None) => format!("[content of the type `{}`, not shown]", short(kind)),
        (None, None, None) => block.to_string(),
    };
    *block = json!({"type": "text", "text": shown});
}

/// A listed tool that can be read. Its errors are in its schema.
fn tool_mended(at: usize, tool: &mut Value) {
    let why = match tool.get("inputSchema") {
        Some(Value::Object(schema)) => match schema.get("type") {
            Some(Value::String(kind)) if kind != "object" => {
                Some(format!("its inputSchema is that of {} `{kind}`, not of an object", article(kind)))
            }
            _ => None,
        },
        None | Some(Value::Null) => Some("it has no inputSchema".to_owned()),
        Some(_) => Some("its inputSchema is no object".to_owned()),
    };
    let name = tool.get("name").and_then(Value::as_str).map(str::to_owned);
    let why = if name.is_none() { Some("it has no name".to_owned()) } else { why };
    if why.is_none() && serde_json::from_value::<Tool>(tool.clone()).is_ok() {
        return;
    }
    // What is of use in it, without parts that cannot be read.
    let mut kept = Map::new();
    kept.insert("name".to_owned(), json!(name.unwrap_or_else(|| format!("number {} of the list", at + 1))));
    for key in ["title", "description"] {
        kept.extend(tool.get(key).filter(|text| text.is_string()).map(|text| (key.to_owned(), text.clone())));
    }
    let reads = tool.pointer("/annotations/readOnlyHint").filter(|hint| hint.is_boolean());
    kept.extend(reads.map(|hint| ("annotations".to_owned(), json!({"readOnlyHint": hint}))));
    let schema = match why {
        Some(why) => json!({ UNUSABLE: why }),
        None => tool.get("inputSchema").cloned().unwrap_or_default(),
    };
    kept.insert("inputSchema".to_owned(), schema);
    *tool = Value::Object(kept);
}

fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

/// Why a listed tool cannot be used, if it cannot.
pub(crate) fn unusable(tool: &Tool) -> Option<&str> {
    tool.input_schema.get(UNUSABLE)?.as_str()
}

/// The id in a text that is no JSON: that of an answer, which is near its beginning or its end.
fn id_in(text: &str) -> Option<Value> {
    let is_request = text.contains("\"method\"");
    let ids = text.match_indices("\"id\"").filter_map(|(at, key)| {
        let value = text[at + key.len()..].trim_start().strip_prefix(':')?.trim_start();
        let quoted = value.strip_prefix('"').and_then(|rest| rest.split('"').next());
        let digits = value.find(|c: char| !c.is_ascii_digit()).map_or(value, |end| &value[..end]);
        number(&json!(quoted.unwrap_or(digits)))
    });
    let ids: Vec<i64> = ids.take(2).collect();
    match ids.as_slice() {
        [id] if !is_request => Some(json!(id)),
        [first, _] if !is_request && text.find("\"id\"") < text.find("\"result\"") => Some(json!(first)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &Value) {
        let mended = line(text.as_bytes()).unwrap_or_else(|| text.as_bytes().to_vec());
        let mended: Value = serde_json::from_slice(&mended).unwrap();
        assert_eq!(&mended, expected, "{text}");
    }

    #[track_caller]
    fn check_as_it_is(text: &str) {
        assert_eq!(line(text.as_bytes()), None, "{text}");
    }

    fn failed(message: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": 7, "error": {"code": INTERNAL, "message": message}})
    }

    #[test]
    fn a_message_that_follows_the_protocol_stays_as_it_is() {
        check_as_it_is(r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"a"}]}}"#);
        check_as_it_is(
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no such tool","data":1}}"#,
        );
        check_as_it_is(
            r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}}"#,
        );
        // Requests and notifications of the server are not ours to mend.
        check_as_it_is(r#"{"jsonrpc":"2.0","id":"x","method":"ping","error":null}"#);
        check_as_it_is(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#);
        check_as_it_is("listening on 8080");
        check_as_it_is("{starting}");
    }

    #[test]
    fn an_answer_that_is_clear_is_taken() {
        let good = json!({"jsonrpc": "2.0", "id": 7, "result": {"content": []}});
        check(r#"{"jsonrpc":"2.0","id":7,"result":{"content":[]},"error":null}"#, &good);
        check(r#"{"id":"7","result":{"content":[]}}"#, &good);
        check(r#"{"jsonrpc":"1.0","id":7.0,"result":{"content":[]}}"#, &good);
        let text = |text: &str| json!({"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": text}]}});
        check(
            r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"a \ud83d"}]}}"#,
            &text("a \u{FFFD}"),
        );
        check(r#"{"jsonrpc":"2.0","id":7,"result":{"content":"a"}}"#, &text("a"));
        check(r#"{"jsonrpc":"2.0","id":7,"result":{"content":["a"]}}"#, &text("a"));
        check(
            r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"hologram","data":1}]}}"#,
            &text("[content of the type `hologram`, not shown]"),
        );
        let latin1 = line(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"caf\xe9\"}]}}\n");
        assert_eq!(serde_json::from_slice::<Value>(&latin1.unwrap()).unwrap(), text("caf\u{FFFD}"));
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_an_error_of_its_call() {
        check(r#"{"jsonrpc":"2.0","id":7,"error":"boom"}"#, &failed("boom"));
        check(r#"{"jsonrpc":"2.0","id":7,"error":{"code":"E1","message":"boom"}}"#, &failed("E1: boom"));
        check(r#"{"jsonrpc":"2.0","id":7,"error":{"message":"boom"},"result":null}"#, &failed("boom"));
        check(r#"{"jsonrpc":"2.0","id":7}"#, &failed("the answer has neither a result nor an error"));
        for text in [
            r#"{"jsonrpc":"2.0","id":7,"result":{"a":NaN}}"#,
            r#"{"result":{"a":1,},"id":7}"#,
            r#"{"id": "7", "result":{"#,
        ] {
            let mended: Value = serde_json::from_slice(&line(text.as_bytes()).unwrap()).unwrap();
            assert_eq!(mended["id"], 7, "{text}");
            assert!(
                mended["error"]["message"].as_str().unwrap().starts_with("the answer cannot be read: "),
                "{mended}"
            );
        }
        // Whose answer it is must be known.
        check_as_it_is(r#"{"result":{"id":8,},"id":7}"#);
        check_as_it_is(r#"{"method":"ping","id":7,}"#);
    }

    #[test]
    fn one_bad_tool_costs_itself() {
        let tools = |text: &str| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"tools":[{text}]}}}}"#);
            let mended = line(text.as_bytes()).unwrap_or(text.into_bytes());
            let mended: Value = serde_json::from_slice(&mended).unwrap();
            serde_json::from_value::<Vec<Tool>>(mended["result"]["tools"].clone()).unwrap()
        };
        let good = r#"{"name":"good","inputSchema":{"type":"object"}}"#;
        for (bad, name, why) in [
            (r#"{"name":"bad"}"#, "bad", Some("it has no inputSchema")),
            (r#"{"name":"bad","inputSchema":null}"#, "bad", Some("it has no inputSchema")),
            (r#"{"name":"bad","inputSchema":[]}"#, "bad", Some("its inputSchema is no object")),
            (
                r#"{"name":"bad","inputSchema":{"type":"array"}}"#,
                "bad",
                Some("its inputSchema is that of an `array`, not of an object"),
            ),
            (r#"{"inputSchema":{}}"#, "number 2 of the list", Some("it has no name")),
            ("3", "number 2 of the list", Some("it has no name")),
            // Errors in these parts do not matter.
            (
                r#"{"name":"odd","description":3,"annotations":[],"outputSchema":"x","inputSchema":{}}"#,
                "odd",
                None,
            ),
        ] {
            let listed = tools(&format!("{good},{bad}"));
            let found: Vec<_> = listed.iter().map(|tool| (tool.name.as_ref(), unusable(tool))).collect();
            assert_eq!(found, [("good", None), (name, why)], "{bad}");
        }
    }
}
