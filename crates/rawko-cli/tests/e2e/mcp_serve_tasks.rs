//! Watching a session as a task, for clients with the Tasks extension of MCP.

use serde_json::{Value, json};
use testkit::ModelServer;

use crate::answers::{bash, complete, developer, report, select};
use crate::approvals::asking;
use crate::mcp_serve_client::Served;
use crate::trial::Trial;

fn capabilities(more: Value) -> Value {
    let mut all = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

/// Watches the session as a task, and gives its id.
#[track_caller]
fn watch(served: &mut Served, session: &str) -> String {
    let answer = served.ask("tools/call", &json!({"name": "watch", "arguments": {"session": session}}));
    let task = &answer["result"];
    assert_eq!(task["status"], "working", "{answer}");
    task["taskId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Polls the task until it has this status.
#[track_caller]
fn poll_until(served: &mut Served, task: &str, status: &str) -> Value {
    for _ in 0..600 {
        let answer = served.ask("tasks/get", &json!({"taskId": task}));
        if answer["result"]["status"] == status {
            return answer["result"].clone();
        }
        assert!(answer.get("error").is_none(), "{answer}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("the task never was {status}");
}

#[test]
fn a_watched_session_is_a_task_that_ends_with_it() {
    let trial = Trial::new(developer([bash("touch made")]));
    let mut served = Served::start_with(trial, &[], &capabilities(json!({})));
    let session = served.begin("Make it.");
    let task = watch(&mut served, &session);
    let done = poll_until(&mut served, &task, "completed");
    let result = &done["result"];
    assert_eq!(result["structuredContent"]["end"]["status"], "claimed", "{done:#}");
    let words = result["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("touch made") && words.contains("the agent says: did it"), "{words}");
    // With a time to wait it is an ordinary answer.
    let (seen, _) = served.call("watch", &json!({"session": session, "waitSeconds": 0}));
    assert_eq!(seen["status"], "ended");
    let unknown = served.ask("tasks/get", &json!({"taskId": "no-such-task"}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    served.leave();
}

#[test]
fn the_clients_user_answers_for_a_call_that_waits() {
    let mut served = Served::start_with(
        asking(Trial::new(developer([bash("echo made >> made")]))),
        &[],
        &capabilities(json!({"elicitation": {}})),
    );
    let session = served.begin("Make it.");
    let task = watch(&mut served, &session);
    let waiting = poll_until(&mut served, &task, "input_required");
    let (key, request) = waiting["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert!(request["params"]["message"].as_str().unwrap().contains("echo made >> made"), "{request:#}");
    let response = json!({"action": "accept", "content": {"allow": true}});
    served.ask("tasks/update", &json!({"taskId": task, "inputResponses": {key: response}}));
    let done = poll_until(&mut served, &task, "completed");
    assert_eq!(done["result"]["structuredContent"]["status"], "ended", "{done:#}");
    assert!(served.trial.project().join("made").exists());
    served.leave();
}

#[test]
fn a_client_that_cannot_ask_its_user_gets_the_question() {
    let mut served = Served::start_with(
        asking(Trial::new(developer([bash("echo made >> made")]))),
        &[],
        &capabilities(json!({})),
    );
    let session = served.begin("Make it.");
    let task = watch(&mut served, &session);
    let done = poll_until(&mut served, &task, "completed");
    let seen = &done["result"]["structuredContent"];
    assert_eq!((&seen["status"], &seen["question"]["tool"]), (&json!("running"), &json!("Bash")), "{done:#}");
    served.call("answer", &json!({"call": seen["question"]["call"], "allow": false}));
    let task = watch(&mut served, &session);
    poll_until(&mut served, &task, "completed");
    assert!(!served.trial.project().join("made").exists());
    served.leave();
}

#[test]
fn the_clients_user_is_not_asked_for_a_call_that_is_not_shown_whole() {
    let hidden = format!("echo {} > made", "x".repeat(11_000));
    let trial = asking(Trial::new(developer([bash(&hidden)])));
    let mut served = Served::start_with(trial, &[], &capabilities(json!({"elicitation": {}})));
    let session = served.begin("Make it.");
    let task = watch(&mut served, &session);
    let done = poll_until(&mut served, &task, "completed");
    let seen = &done["result"]["structuredContent"];
    assert_eq!((&seen["status"], &seen["question"]["whole"]), (&json!("running"), &json!(false)), "{done:#}");
    let words = done["result"]["content"][0]["text"].as_str().unwrap();
    assert!(words.contains(&format!("rawko approve {session}")), "{words}");
    served.leave();
}

#[test]
fn a_task_that_is_cancelled_ends_the_watching_alone() {
    let turns = [select("developer"), bash("sleep 1000"), report("did it"), complete("all done")];
    let trial = Trial::new(ModelServer::sequence(turns));
    let mut served = Served::start_with(trial, &[], &capabilities(json!({})));
    let session = served.begin("Sleep.");
    let task = watch(&mut served, &session);
    served.ask("tasks/cancel", &json!({"taskId": task}));
    poll_until(&mut served, &task, "cancelled");
    let (seen, _) = served.call("watch", &json!({"session": session, "waitSeconds": 0}));
    assert_eq!(seen["status"], "running");
    served.leave();
}

#[test]
fn a_client_without_the_extension_has_no_tasks() {
    let mut served = Served::start(Trial::new(developer([bash("touch made")])));
    let answer = served.ask("tasks/get", &json!({"taskId": "x"}));
    assert_eq!(answer["error"]["code"], -32021, "{answer}");
    served.leave();
}
