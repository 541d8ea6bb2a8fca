//! The bytes on the wire: within one conversation, each request begins with the one before.

use serde_json::json;
use testkit::{Answer, Asked, ModelServer, Say, Who, Wire};

use crate::answers::{bash, call, complete, decide, report, select};
use crate::trial::Trial;

/// Everything of a request up to and with its last message, without what closes the list.
fn up_to_the_last_message(asked: &Asked) -> &[u8] {
    let body = asked.body.as_slice();
    let last = asked.json[asked.wire.messages_field()].as_array().unwrap().len() - 1;
    // The last message's own bytes are in the body, wherever the other fields are.
    let raw: Raw<'_> = serde_json::from_slice(body).unwrap();
    let message = raw.messages[last].get();
    let end = message.as_ptr() as usize + message.len() - body.as_ptr() as usize;
    &body[..end]
}

#[derive(serde::Deserialize)]
struct Raw<'a> {
    #[serde(borrow, alias = "input")]
    messages: Vec<&'a serde_json::value::RawValue>,
}

fn turns() -> Vec<Answer> {
    vec![
        Say { text: "Looking.".into(), thinking: "Hm.".into(), ..Say::default() }
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
    // The conversation goes on after a report, with the same prefix.
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
        for field in
            ["system", "instructions", "tools", "model", "tool_choice", "max_tokens", "max_output_tokens"]
        {
            assert_eq!(before.json[field], after.json[field], "{field} of request {number}");
        }
        let count = |asked: &Asked| asked.json[wire.messages_field()].as_array().map_or(0, Vec::len);
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
fn a_request_begins_with_the_one_before_over_responses() {
    check(Wire::Responses);
}

/// The first request of an agent that gets a memory with this body.
fn first_request(wire: Wire, memory: Option<&str>) -> Asked {
    let answers = [select("developer"), report("done"), complete("all done")];
    let mut trial = Trial::new(ModelServer::sequence(answers)).wire(wire).file("a.txt", "a\n");
    trial = trial.user_config("/memory/extract", json!(false));
    if let Some(body) = memory {
        let front = "title: The port\nwhenToUse: it\nimportance: high";
        trial = trial.file(".rawko/memories/port.md", &format!("---\n{front}\n---\n\n{body}\n")).trusted();
    }
    let ended = trial.run("Do it.");
    ended.exits(0);
    let folder = ended.trial.project().canonicalize().unwrap().display().to_string();
    let asked = ended.trial.server.asked().iter().find(|asked| asked.who() == Who::Agent).unwrap().clone();
    let body = String::from_utf8(asked.body.clone()).unwrap().replace(&folder, "PROJECT");
    Asked { json: serde_json::from_str(&body).unwrap(), body: body.into_bytes(), ..asked }
}

/// What a provider keeps of the requests of one agent does not depend on the memories that it gets.
#[test]
fn another_memory_leaves_the_prefix_and_its_breakpoint_alone() {
    let none = first_request(Wire::Claude, None);
    let stable = none.json["system"].as_array().unwrap().clone();
    assert_eq!((stable.len(), &stable[0]["cache_control"]), (1, &json!({"type": "ephemeral"})));
    // Up to and with the breakpoint: all that a server's cache goes by.
    let body = String::from_utf8_lossy(&none.body);
    let end = body.find("\"messages\"").unwrap();
    let prefix = body[..end].trim_end_matches([',', ']']).to_owned();
    assert!(prefix.ends_with("\"cache_control\":{\"type\":\"ephemeral\"}}"), "{prefix}");
    for memory in ["It is 7070.", "It is 8080, and that is a longer story."] {
        let request = first_request(Wire::Claude, Some(memory));
        let blocks = request.json["system"].as_array().unwrap();
        assert_eq!((blocks.len(), &blocks[0]), (2, &stable[0]));
        assert!(blocks[1]["text"].as_str().unwrap().contains(memory), "{}", blocks[1]);
        assert_eq!(blocks[1]["cache_control"], json!({"type": "ephemeral"}));
        assert!(request.body.starts_with(prefix.as_bytes()), "{}", String::from_utf8_lossy(&request.body));
        // The same text, in one message, where the provider finds the common prefix by itself.
        let other = first_request(Wire::OpenAi, Some(memory));
        let whole: String = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        assert_eq!(other.json["messages"][0], json!({"role": "system", "content": whole}));
    }
}

/// The text without what the server signed: it digests the folder's name too.
fn without_signatures(text: &str) -> String {
    let mut parts = text.split("\"signature\":\"");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('"').map_or("", |(_, rest)| rest))
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
            .map(|asked| {
                without_signatures(&String::from_utf8_lossy(&asked.body)).replace(&folder, "PROJECT")
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(bodies(), bodies());
}
