//! The client against a server in memory, which speaks as the test says: both eras, tasks, questions, progress, deadlines.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rawko_mcp::{Connection, McpError, Options, Question, Reply};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex, split};

/// What the server was asked: methods in order, with their parameters.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// The messages with which a server answers one request: lines without an id are completed with that of the request.
type Answers = fn(&str, &Value, usize) -> Vec<Value>;

/// A server that answers with `answers(method, params, number of requests of this method before)`.
fn serve(answers: Answers) -> (DuplexStream, Asked) {
    let (ours, theirs) = duplex(1 << 20);
    let asked = Asked::default();
    let log = Arc::clone(&asked);
    tokio::spawn(async move {
        let (reader, mut writer) = split(theirs);
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            let method = message["method"].as_str().unwrap_or("(response)").to_owned();
            let shown = if method == "(response)" { &message["result"] } else { &message["params"] };
            let before = log.lock().unwrap().iter().filter(|(known, _)| *known == method).count();
            log.lock().unwrap().push((method.clone(), shown.clone()));
            for mut answer in answers(&method, &message["params"], before) {
                answer["jsonrpc"] = json!("2.0");
                if answer.get("method").is_none() {
                    answer["id"] = message["id"].clone();
                }
                writer.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
        }
    });
    (ours, asked)
}

async fn connect(stream: DuplexStream, options: Options) -> Result<Connection, McpError> {
    let (reader, writer) = split(stream);
    Connection::over_stream(reader, writer, options).await
}

fn result(value: Value) -> Vec<Value> {
    vec![json!({ "result": value })]
}

fn unknown() -> Vec<Value> {
    vec![json!({"error": {"code": -32601, "message": "Method not found"}})]
}

fn tools() -> Value {
    json!({"tools": [
        {"name": "b", "inputSchema": {"type": "object"}},
        {"name": "a", "description": "First.", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
    ]})
}

fn text(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}], "resultType": "complete"})
}

/// A server of 2025-11-25.
fn stateful(method: &str, params: &Value, before: usize) -> Vec<Value> {
    match method {
        "initialize" => result(json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "old", "version": "1"},
        })),
        "tools/list" => result(tools()),
        "tools/call" if params["name"] == "slow" => {
            let token = &params["_meta"]["progressToken"];
            vec![json!({"method": "notifications/progress", "params": {
                "progressToken": token, "progress": 1, "total": 4, "message": "one of four",
            }})]
        }
        "tools/call" if params["name"] == "refused" => {
            vec![json!({"error": {"code": -32602, "message": "no such tool"}})]
        }
        "tools/call" if params["name"] == "asks" => {
            vec![json!({"method": "elicitation/create", "id": 77, "params": {
                "message": "Which?", "requestedSchema": {"type": "object", "properties": {
                    "colour": {"type": "string", "default": "red"},
                }},
            }})]
        }
        "tools/call" => result(text(&format!("call {before}"))),
        "(response)" | "notifications/initialized" | "notifications/cancelled" => Vec::new(),
        _ => unknown(),
    }
}

/// A server of 2026-07-28.
fn stateless(method: &str, params: &Value, before: usize) -> Vec<Value> {
    let task = |status: &str| {
        json!({
            "taskId": "t", "status": status, "createdAt": "2026-11-23T00:00:00Z", "lastUpdatedAt": "2026-11-23T00:00:00Z",
            "ttlMs": null, "pollIntervalMs": 50,
        })
    };
    let with = |mut task: Value, more: Value| {
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        result(task)
    };
    let question = json!({"q": {"method": "elicitation/create", "params": {
        "mode": "form", "message": "Which?",
        "requestedSchema": {"type": "object", "properties": {"colour": {"type": "string"}}},
    }}});
    match (method, params["name"].as_str().unwrap_or_default()) {
        ("server/discover", _) => result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
            "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "new", "version": "2"}},
        })),
        ("tools/list", _) => {
            with(tools(), json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}))
        }
        ("tools/call", "long") => with(task("working"), json!({"resultType": "task"})),
        ("tools/call", "asks") if params.get("inputResponses").is_none() => {
            result(json!({"resultType": "input_required", "inputRequests": question, "requestState": "s1"}))
        }
        ("tools/call", "asks") => result(text(&format!(
            "{} {}",
            params["requestState"].as_str().unwrap(),
            params["inputResponses"]["q"]["content"]["colour"].as_str().unwrap()
        ))),
        ("tools/call", _) => result(text("done")),
        ("tasks/get", _) if before == 0 => with(task("working"), json!({"resultType": "complete"})),
        ("tasks/get", _) => {
            with(task("completed"), json!({"resultType": "complete", "result": text("after a while")}))
        }
        ("notifications/cancelled", _) => Vec::new(),
        _ => unknown(),
    }
}

fn unwatched(_: &str) {}

fn options() -> Options {
    Options { start: Duration::from_secs(5), call: Duration::from_secs(5), ..Options::default() }
}

fn with_person() -> Options {
    let ask = |question: Question| {
        assert_eq!(question.message, "Which?");
        let mut values = question.defaults();
        values.entry("colour").or_insert_with(|| json!("blue"));
        Reply::Given(values)
    };
    Options {
        person: Some(Arc::new(move |question| Box::pin(std::future::ready(ask(question))))),
        ..options()
    }
}

fn methods(asked: &Asked) -> Vec<String> {
    asked.lock().unwrap().iter().map(|(method, _)| method.clone()).collect()
}

#[tokio::test]
async fn an_older_server_is_found_out_and_used() {
    let (stream, asked) = serve(stateful);
    let connection = connect(stream, options()).await.unwrap();
    assert_eq!(
        (connection.version().0.as_str(), connection.server().as_deref()),
        ("2025-11-25", Some("old 1"))
    );
    assert!(connection.version().is_stateful());
    let tools = connection.tools().await.unwrap().usable;
    let listed: Vec<_> = tools.iter().map(|tool| (tool.name.as_str(), tool.reads_only)).collect();
    assert_eq!(listed, [("a", true), ("b", false)]);
    assert_eq!(connection.call("a", Map::new(), &unwatched).await.unwrap().text, "call 0");
    let expected = ["server/discover", "initialize", "notifications/initialized", "tools/list", "tools/call"];
    assert_eq!(methods(&asked), expected);
    let refused = connection.call("refused", Map::new(), &unwatched).await.unwrap_err();
    assert_eq!(refused, McpError::Refused { code: -32602, message: "no such tool".to_owned() });
}

#[tokio::test]
async fn a_known_revision_is_not_tried_out_again() {
    let (stream, asked) = serve(stateful);
    let known = Some(rawko_mcp::ProtocolRevision("2025-06-18".to_owned()));
    connect(stream, Options { known, ..options() }).await.unwrap();
    assert_eq!(methods(&asked)[0], "initialize");
}

#[tokio::test]
async fn a_newer_server_is_used_without_a_handshake_and_with_tasks() {
    let (stream, asked) = serve(stateless);
    let connection = connect(stream, options()).await.unwrap();
    assert_eq!(
        (connection.version().0.as_str(), connection.server().as_deref()),
        ("2026-07-28", Some("new 2"))
    );
    assert_eq!(connection.tools().await.unwrap().usable.len(), 2);
    assert_eq!(connection.call("a", Map::new(), &unwatched).await.unwrap().text, "done");
    assert_eq!(connection.call("long", Map::new(), &unwatched).await.unwrap().text, "after a while");
    let expected = ["server/discover", "tools/list", "tools/call", "tools/call", "tasks/get", "tasks/get"];
    assert_eq!(methods(&asked), expected);
}

#[tokio::test]
async fn a_person_answers_what_a_server_asks_and_without_one_it_is_declined() {
    let (stream, _) = serve(stateless);
    let connection = connect(stream, with_person()).await.unwrap();
    assert_eq!(connection.call("asks", Map::new(), &unwatched).await.unwrap().text, "s1 blue");
    for (options, action) in [(with_person(), "accept"), (options(), "decline")] {
        let (stream, asked) = serve(stateful);
        let connection =
            connect(stream, Options { call: Duration::from_millis(300), ..options }).await.unwrap();
        connection.call("asks", Map::new(), &unwatched).await.unwrap_err();
        let answers = asked.lock().unwrap().clone();
        let (_, answer) = answers.iter().find(|(method, _)| method == "(response)").unwrap();
        assert_eq!(answer["action"], action);
        assert_eq!(answer["content"]["colour"].as_str(), (action == "accept").then_some("red"));
    }
}

#[tokio::test]
async fn progress_is_seen_and_a_call_without_answer_is_given_up_and_cancelled() {
    let (stream, asked) = serve(stateful);
    let connection =
        connect(stream, Options { call: Duration::from_millis(300), ..options() }).await.unwrap();
    let seen = Mutex::new(Vec::new());
    let watch = |text: &str| seen.lock().unwrap().push(text.to_owned());
    let error = connection.call("slow", Map::new(), &watch).await.unwrap_err();
    assert!(matches!(error, McpError::Timeout { .. }), "{error}");
    assert_eq!(*seen.lock().unwrap(), ["one of four"]);
    for _ in 0..200 {
        if methods(&asked).contains(&"notifications/cancelled".to_owned()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the server got no notification: {:?}", methods(&asked));
}

#[tokio::test]
async fn silence_an_end_and_a_flood_are_distinguished() {
    let (stream, _theirs) = duplex(1 << 10);
    let short = Options { start: Duration::from_millis(100), ..options() };
    let silence = connect(stream, short).await.unwrap_err();
    assert!(matches!(silence, McpError::Timeout { .. }), "{silence}");

    let (stream, theirs) = duplex(1 << 10);
    drop(theirs);
    let end = connect(stream, options()).await.unwrap_err();
    assert!(matches!(end, McpError::Closed { .. } | McpError::Protocol(_)), "{end}");

    let (stream, _) = serve(stateful);
    let connection = connect(stream, Options { most_bytes: 150, ..options() }).await;
    let why = match connection {
        Err(error) => error,
        Ok(connection) => connection.tools().await.unwrap_err(),
    };
    assert!(why.to_string().contains("more than 150 bytes"), "{why}");
}
