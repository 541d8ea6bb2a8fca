//! Sessions that outlive a process: listed, loaded, resumed and closed.

use serde_json::{Value, json};
use testkit::ModelServer;

use crate::answers::{call, complete, report, select};
use crate::client::Desk;

fn desk() -> Desk {
    let write = call("Write", &json!({"file_path": "one.txt", "content": "text\n"}));
    let more = [select("developer"), report("did more"), complete("more is done")];
    let first = [select("developer"), write, report("wrote one"), complete("one is there")];
    Desk::new(ModelServer::sequence(first.into_iter().chain(more)))
}

#[test]
fn another_process_loads_a_session_and_goes_on() {
    let desk = desk();
    let mut client = desk.client();
    let session = client.session(&desk);
    client.prompt(&session, "Write one.");
    let shown_live = client.updates_of("tool_call").len();
    assert_eq!(client.hang_up().0, Some(0));

    let mut client = desk.client();
    let listed = client.ask("session/list", &json!({"cwd": desk.folder()}));
    let listed = listed["sessions"].as_array().unwrap();
    assert_eq!((listed.len(), &listed[0]["sessionId"]), (1, &json!(session)));
    assert_eq!((&listed[0]["title"], &listed[0]["cwd"]), (&json!("Write one."), &json!(desk.folder())));
    let here = json!({"sessionId": session, "cwd": desk.folder(), "mcpServers": []});
    let loaded = client.ask("session/load", &here);
    assert_eq!(loaded["modes"]["currentModeId"], "team");
    assert_eq!(client.said("user_message_chunk"), "Write one.");
    let said = client.said("agent_message_chunk");
    assert!(said.contains("wrote one") && said.contains("**Claimed"), "{said}");
    assert_eq!(client.updates_of("tool_call").len(), shown_live);
    client.prompt(&session, "Do more.");
    assert!(desk.models.asked().last().unwrap().last_text().contains("Do more."));
    assert_eq!(desk.world.store().list().unwrap().len(), 1);
}

#[test]
fn a_session_is_resumed_without_its_history_and_closed() {
    let desk = desk();
    let (code, _, error) = desk.rawko(&["run", "--quiet", "Write one."]);
    assert_eq!(code, Some(0), "{error}");
    let session = desk.world.store().list().unwrap().pop().unwrap().id;
    let mut client = desk.client();
    client.ask("session/resume", &json!({"sessionId": session, "cwd": desk.folder(), "mcpServers": []}));
    assert_eq!(client.updates, Vec::<Value>::new());
    client.prompt(&session, "Do more.");
    client.ask("session/close", &json!({"sessionId": session}));
    let refused = client.refused("session/prompt", &crate::client::prompt(&session, "And more."));
    assert!(refused.contains("no open session"), "{refused}");
}
