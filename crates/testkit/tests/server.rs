//! The model server itself: what it sends, what it records, and that it stops.

#![allow(clippy::expect_used)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::{Answer, Cut, Delivery, Framing, ModelServer, Say, ScriptedBehaviour, Who, Wire};

/// Posts a body and returns the whole response.
fn post(address: &str, path: &str, body: &Value) -> String {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).expect("a connection");
    let length = body.len();
    write!(stream, "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}")
        .expect("sent");
    stream.shutdown(std::net::Shutdown::Write).expect("half closed");
    let mut response = String::new();
    let _ = stream.read_to_string(&mut response);
    response
}

fn ask(server: &ModelServer, path: &str, body: &Value) -> String {
    post(&server.address().to_string(), path, body)
}

#[test]
fn both_wires_are_spoken_from_one_answer() {
    let server = ModelServer::start(|_| Say { text: "hello".into(), ..Say::default() }.into());
    let claude = ask(&server, "/v1/messages", &json!({"model": "m"}));
    assert!(claude.contains("event: message_start") && claude.contains("\"text\":\"hello\""), "{claude}");
    for path in ["/v1/chat/completions", "/chat/completions"] {
        let openai = ask(&server, path, &json!({"model": "m"}));
        assert!(openai.contains("\"content\":\"hello\"") && openai.contains("data: [DONE]"), "{openai}");
    }
    let wires: Vec<Wire> = server.asked().iter().map(|a| a.wire).collect();
    assert_eq!(wires, [Wire::Claude, Wire::OpenAi, Wire::OpenAi]);
    assert!(server.exchanges().iter().all(|e| e.answered.is_some()));
}

#[test]
fn cuts_are_exact() {
    let delivery =
        Delivery { cut: Some(Cut::Bytes(20)), framing: Framing::UntilClose, ..Delivery::default() };
    let server = ModelServer::start(move |_| Answer::text("hello").delivered(delivery.clone()));
    let response = ask(&server, "/v1/messages", &json!({}));
    let body = response.split_once("\r\n\r\n").map(|(_, body)| body);
    assert_eq!(body, Some("event: message_start"), "{response}");
}

#[test]
fn who_asks_is_read_from_the_request() {
    let decide = json!({"name": "decide", "input_schema": {}});
    let cases = [
        (json!({"tools": [decide], "messages": [{"role": "user", "content": "## Task\nx"}]}), Who::Select),
        (
            json!({"tools": [decide], "tool_choice": {"type": "tool", "name": "decide"},
                "messages": [{"role": "user", "content": [{"type": "text", "text": "## Last execution\nx"}]}]}),
            Who::Evaluate,
        ),
        (
            json!({"tools": [{"name": "Read"}], "system": [{"type": "text", "text": "You are the Tester."}]}),
            Who::Agent,
        ),
    ];
    let server = ModelServer::start(|_| Answer::text("ok"));
    for (body, expected) in &cases {
        ask(&server, "/v1/messages", body);
        let asked = server.asked().pop().expect("a request");
        assert_eq!(asked.who(), *expected, "{body}");
    }
    let agent = server.asked().pop().expect("a request");
    assert!(agent.is_for("tester") && !agent.is_for("developer") && !agent.is_for("select"));
}

#[test]
fn a_server_that_is_dropped_is_gone() {
    let server = ModelServer::start(|_| Answer::Silence);
    let address = server.address();
    let mut waiting = TcpStream::connect(address).expect("a connection");
    write!(waiting, "POST /v1/messages HTTP/1.1\r\ncontent-length: 2\r\n\r\n{{}}").expect("sent");
    assert!(server.wait_until(std::time::Duration::from_secs(20), |e| e.len() == 1));
    drop(server);
    assert_eq!(waiting.read(&mut [0; 8]).unwrap_or(0), 0, "the connection was closed");
    assert!(TcpStream::connect(address).is_err(), "somebody still listens");
}

fn script() -> Value {
    json!([
        {"for": "select", "decision": {"decision": "SELECT_MODE", "mode": "developer"}},
        {"for": "developer", "text": "done"},
        {"error": {"code": "rate_limited", "message": "slow", "retryAfterMs": 7}},
    ])
}

#[test]
fn scripts_are_played() {
    let mut behaviour = ScriptedBehaviour::new(serde_json::from_value(script()).expect("a script"));
    let server = ModelServer::start(move |asked| behaviour.answer(asked));
    let developer = json!({"system": "You are the developer."});
    assert!(ask(&server, "/v1/messages", &developer).contains("done"));
    let select = json!({"tools": [{"type": "function", "function": {"name": "decide"}}]});
    let decision = ask(&server, "/v1/chat/completions", &select);
    assert!(decision.contains("\"name\":\"decide\""), "{decision}");
    let refused = ask(&server, "/v1/messages", &developer);
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("retry-after-ms: 7"), "{refused}");
    let out = ask(&server, "/v1/messages", &developer);
    assert!(out.starts_with("HTTP/1.1 400") && out.contains("no reply for an agent"), "{out}");
}

#[test]
fn the_program_prints_its_address_and_serves() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    write!(file, "{}", script()).expect("a script in it");
    let mut child = Command::new(env!("CARGO_BIN_EXE_testkit-server"))
        .arg(file.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("http://").unwrap_or_default().to_owned();
    let response = post(&address, "/v1/messages", &json!({"system": "developer"}));
    child.kill().expect("killed");
    child.wait().expect("gone");
    assert!(response.contains("done"), "{line} {response}");
}

#[test]
fn thinking_takes_its_tokens_from_the_room_of_the_answer() {
    let server = ModelServer::start(|_| {
        let say = Say { thinking: "hm".into(), thinking_tokens: 2_000, ..Say::default() };
        Say { decision: Some(json!({"decision": "COMPLETE"})), ..say }.into()
    });
    let tools = json!([{"name": "decide", "type": "function", "function": {"name": "decide"}, "input_schema": {"type": "object"}}]);
    let cases = [
        (
            "/v1/messages",
            "max_tokens",
            json!({}),
            ["\"stop_reason\":\"max_tokens\"", "\"stop_reason\":\"tool_use\""],
        ),
        (
            "/v1/chat/completions",
            "max_completion_tokens",
            json!({"reasoning_effort": "low"}),
            ["\"finish_reason\":\"length\"", "\"finish_reason\":\"tool_calls\""],
        ),
    ];
    for (path, limit, extra, [cut, whole]) in cases {
        let mut body = json!({"model": "m", "tools": tools, "messages": [{"role": "user", "content": "x"}]});
        for (name, value) in extra.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        body[limit] = json!(2_000);
        let answer = ask(&server, path, &body);
        assert!(answer.contains(cut) && !answer.contains(whole), "{answer}");
        body[limit] = json!(2_001);
        let answer = ask(&server, path, &body);
        assert!(!answer.contains(cut) && answer.contains(whole), "{answer}");
    }
    let mut body = json!({"model": "m", "max_tokens": 100, "tools": tools, "messages": [{"role": "user", "content": "x"}]});
    body["thinking"] = json!({"type": "between_tools"});
    let answer = ask(&server, "/v1/messages", &body);
    assert!(
        answer.contains("\"stop_reason\":\"tool_use\""),
        "thinking that is turned off takes nothing: {answer}"
    );
}

#[test]
fn what_a_service_refuses_never_reaches_the_script() {
    let server = ModelServer::start(|_| Answer::text("fine"));
    let mut body = json!({"model": "claude-sonnet-5-5", "max_tokens": 10, "tools": [{"name": "x"}],
        "messages": [{"role": "user", "content": "x"}]});
    assert!(ask(&server, "/v1/messages", &body).contains("fine"));
    body["tool_choice"] = json!({"type": "tool", "name": "x"});
    let answer = ask(&server, "/v1/messages", &body);
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("tool_choice"), "{answer}");
}
