//! The bytes on the wire: within one conversation, each request begins with the one before.

use serde_json::json;
use testkit::{Answer, Asked, ModelServer, Say, Who, Wire};

use crate::answers::{bash, call, complete, decide, report, select};
use crate::trial::Trial;

/// Everything of a request up to and with its last message, without what closes the list.
fn up_to_the_last_message(asked: &Asked) -> &[u8] {
    let body = asked.body.as_slice();
    let last = asked.json["messages"].as_array().unwrap().len() - 1;
    // The last message's own bytes stand in the body, wherever the other fields are.
    let raw: Raw<'_> = serde_json::from_slice(body).unwrap();
    let message = raw.messages[last].get();
    let end = message.as_ptr() as usize + message.len() - body.as_ptr() as usize;
    &body[..end]
}

#[derive(serde::Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    messages: Vec<&'a serde_json::value::RawValue>,
}

fn turns() -> Vec<Answer> {
    vec![
        Say { text: "Looking.".into(), thinking: "Hm.".into(), signature: "sig".into(), ..Say::default() }
            .with_call("Glob", &json!({"pattern": "**/*"}))
            .with_call("Read", &json!({"file_path": "a.txt"}))
            .into(),
        bash("echo 'quotes \" and \\ and ümlauts'; exit 3"),
        call("Write", &json!({"file_path": "b.txt", "content": "line\nline\n"})),
        Say::default().with_raw_call("Edit", "{\"file_path\": ").into(),
        call("Nothing", &json!({"deep": {"b": 1, "a": [1.5, null, "x"]}})),
        report("half of it"),
    ]
}

#[track_caller]
fn check(wire: Wire) {
    let begin = [select("developer")];
    // The conversation goes on behind a report, with the same prefix.
    let go_on = [decide(json!({"decision": "CONTINUE", "reason": "the other half"}))];
    let end = [complete("all done")];
    let answers = begin.into_iter().chain(turns()).chain(go_on).chain(turns()).chain(end);
    let ended = Trial::new(ModelServer::sequence(answers)).wire(wire).file("a.txt", "a\n").run("Do it.");
    ended.exits(0);
    let asked = ended.trial.server.asked();
    let agent: Vec<&Asked> = asked.iter().filter(|asked| asked.who() == Who::Agent).collect();
    assert!(agent.len() >= 2 * turns().len(), "{} requests", agent.len());
    for pair in agent.windows(2) {
        let [before, after] = pair else { unreachable!("windows of two") };
        let number = after.number;
        for field in ["system", "tools", "model", "tool_choice", "max_tokens"] {
            assert_eq!(before.json[field], after.json[field], "{field} of request {number}");
        }
        let count = |asked: &Asked| asked.json["messages"].as_array().map_or(0, Vec::len);
        assert!(count(after) > count(before), "the conversation grows");
        let prefix = up_to_the_last_message(before);
        assert!(after.body.starts_with(prefix), "request {number} begins with other bytes");
    }
}

#[test]
fn a_request_begins_with_the_one_before_over_the_messages_api() {
    check(Wire::Claude);
}

#[test]
fn a_request_begins_with_the_one_before_over_chat_completions() {
    check(Wire::OpenAi);
}

#[test]
fn the_same_run_sends_the_same_bytes() {
    let bodies = || {
        let answers = [select("developer")].into_iter().chain(turns()).chain([complete("all done")]);
        let ended = Trial::new(ModelServer::sequence(answers)).file("a.txt", "a\n").run("Do it.");
        let folder = ended.trial.project().canonicalize().unwrap().display().to_string();
        let asked = ended.trial.server.asked();
        let agents = asked.iter().filter(|asked| asked.who() == Who::Agent);
        agents
            .map(|asked| String::from_utf8_lossy(&asked.body).replace(&folder, "PROJECT"))
            .collect::<Vec<_>>()
    };
    assert_eq!(bodies(), bodies());
}
