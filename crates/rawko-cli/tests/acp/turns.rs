//! Prompts: what a client is shown while agents work, what it is asked, and how a prompt ends.

use serde_json::{Value, json};
use testkit::ModelServer;

use crate::answers::{bash, call, calls, complete, developer, report, select};
use crate::client::Desk;

/// One red pixel.
const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

fn write(path: &str) -> testkit::Answer {
    call("Write", &json!({"file_path": path, "content": "text\n"}))
}

#[test]
fn a_prompt_is_carried_out_and_shown() {
    let plan = json!({"steps": [{"description": "write it", "status": "in_progress"}]});
    let desk =
        Desk::new(developer([calls(&[("UpdatePlan", plan)]), write("one.txt"), bash("cat one.txt; exit 3")]));
    let mut client = desk.client();
    let session = client.session(&desk);
    let end = client.prompt(&session, "Write one.");
    assert_eq!(
        (&end["stopReason"], &end["_meta"]["rawko"]["status"]),
        (&json!("end_turn"), &json!("claimed"))
    );
    assert_eq!(end["_meta"]["rawko"]["filesModified"], json!(["one.txt"]));

    let calls = client.updates_of("tool_call");
    assert_eq!(calls[0]["title"], "Write one.txt");
    let diff = &calls[0]["content"][0];
    let path = format!("{}/one.txt", desk.folder());
    assert_eq!(
        (&diff["type"], &diff["path"], &diff["newText"]),
        (&json!("diff"), &json!(path), &json!("text\n"))
    );
    assert_eq!((&calls[1]["kind"], &calls[1]["title"]), (&json!("execute"), &json!("cat one.txt; exit 3")));
    let ended = client.updates_of("tool_call_update");
    let of = |id: &Value| ended.iter().rev().find(|update| update["toolCallId"] == *id).unwrap();
    assert_eq!(of(&calls[0]["toolCallId"])["status"], "completed");
    let output = of(&calls[1]["toolCallId"]);
    assert_eq!(output["status"], "failed");
    assert!(output["content"][0]["content"]["text"].as_str().unwrap().contains("text"), "{output}");
    assert_eq!(client.updates_of("plan")[0]["entries"][0]["content"], "write it");
    let usage = client.updates_of("usage_update");
    assert!(usage.last().unwrap()["size"].as_u64().unwrap() > 1_000, "{usage:?}");
    let said = client.said("agent_message_chunk");
    assert!(said.contains("did it") && said.contains("**Claimed, not verified**"), "{said}");
    assert!(client.said("agent_thought_chunk").contains("SELECT_MODE: developer is next"));

    // It is an ordinary session, with the same id.
    let (code, shown, error) = desk.rawko(&["sessions", "show", &session]);
    assert_eq!(code, Some(0), "{error}");
    assert!(shown.contains("Write one."), "{shown}");
    let (_, replayed, _) = desk.rawko(&["replay", &session]);
    assert!(replayed.contains("everything matches the record"), "{replayed}");
    assert_eq!(client.hang_up().0, Some(0));
}

#[test]
fn the_next_prompt_is_the_next_task_of_the_session() {
    let two = [write("one.txt"), report("wrote one"), complete("one"), select("developer"), write("two.txt")];
    let desk = Desk::new(ModelServer::sequence(
        [select("developer")].into_iter().chain(two).chain([report("wrote two"), complete("two")]),
    ));
    let mut client = desk.client();
    let session = client.session(&desk);
    client.prompt(&session, "Write one.");
    client.prompt(&session, "Now write two.");
    let asked = desk.models.asked();
    assert!(asked[4].last_text().contains("Now write two.") && asked[4].last_text().contains("Write one."));
    let turns = |at: usize| asked[at].json["messages"].as_array().unwrap().len();
    assert!(turns(5) > turns(2), "the conversation goes on");
    assert_eq!(desk.world.store().list().unwrap().len(), 1);
    assert!(desk.world.project().join("two.txt").exists());
}

#[test]
fn files_and_pictures_are_given_with_the_task() {
    let desk = Desk::new(developer([]));
    desk.world.write("notes.md", "Remember the milk.\n");
    let mut client = desk.client();
    let session = client.session(&desk);
    let uri = format!("file://{}/notes.md", desk.folder());
    let blocks = json!([
        {"type": "text", "text": "Do what is in "},
        {"type": "resource_link", "name": "notes.md", "uri": uri},
        {"type": "resource", "resource": {"uri": "untitled:1", "text": "An unsaved text."}},
        {"type": "image", "mimeType": "image/png", "data": PICTURE},
    ]);
    client.ask("session/prompt", &json!({"sessionId": session, "prompt": blocks}));
    let asked = desk.models.asked();
    let request = asked[1].json["messages"].to_string();
    for part in ["Do what is in `notes.md`", "Remember the milk.", "An unsaved text.", "image/png"] {
        assert!(request.contains(part), "{part} is missing in {request}");
    }
}

fn asking() -> Desk {
    let user = json!({"permissions": {"ask": ["commands"], "run": ["cat"]}});
    Desk::with(developer([bash("echo made >> made")]), &user)
}

#[test]
fn the_person_at_the_client_is_asked_for_what_is_not_granted() {
    let desk = asking();
    let mut client = desk.client();
    client.permits = true;
    let session = client.session(&desk);
    client.prompt(&session, "Make it.");
    assert_eq!(client.asked.len(), 1);
    let call = &client.asked[0]["toolCall"];
    assert_eq!(call["title"], "echo made >> made");
    assert!(call["content"].to_string().contains("developer wants to run this command"), "{call}");
    assert_eq!(client.updates_of("tool_call")[0]["toolCallId"], call["toolCallId"]);
    assert!(desk.world.project().join("made").exists());

    let desk = asking();
    let mut client = desk.client();
    let session = client.session(&desk);
    client.prompt(&session, "Make it.");
    assert_eq!(client.asked.len(), 1);
    assert!(!desk.world.project().join("made").exists());
}

#[test]
fn a_mode_is_the_agent_that_works_first() {
    let desk = Desk::new(ModelServer::sequence([report("looked at it"), complete("fine")]));
    let mut client = desk.client();
    let new = client.ask("session/new", &json!({"cwd": desk.folder(), "mcpServers": []}));
    let modes: Vec<&str> = new["modes"]["availableModes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].as_str().unwrap())
        .collect();
    assert!(new["modes"]["currentModeId"] == "team" && modes.contains(&"developer"), "{new}");
    let session = new["sessionId"].as_str().unwrap();
    client.ask("session/set_mode", &json!({"sessionId": session, "modeId": "developer"}));
    client.wait_for(|update| update["currentModeId"] == "developer");
    let refused = client.refused("session/set_mode", &json!({"sessionId": session, "modeId": "nobody"}));
    assert!(refused.contains("the modes: team, "), "{refused}");
    client.prompt(session, "Look at it.");
    assert!(client.said("agent_thought_chunk").contains("developer begins (execution 1)"));
}

#[test]
fn a_prompt_is_cancelled_and_the_session_goes_on() {
    let begin = [select("developer"), bash("sleep 300")];
    let after = [select("developer"), report("did it"), complete("done")];
    let desk = Desk::new(ModelServer::sequence(begin.into_iter().chain(after)));
    let mut client = desk.client();
    let session = client.session(&desk);
    let id = client.begin(&session, "Wait.");
    client.wait_for(|update| update["status"] == "in_progress");
    // A second prompt meanwhile is refused, and disturbs nothing.
    let refused = client.refused("session/prompt", &crate::client::prompt(&session, "Hurry."));
    assert!(refused.contains("works on a prompt"), "{refused}");
    client.notify("session/cancel", &json!({"sessionId": session}));
    assert_eq!(client.answer(id).unwrap()["stopReason"], "cancelled");
    let end = client.prompt(&session, "Go on.");
    assert_eq!(end["stopReason"], "end_turn");
    let tasks = rawko::journal::tasks(&desk.world.journal());
    assert_eq!(tasks.iter().map(|task| task.task.as_str()).collect::<Vec<_>>(), ["Wait.", "Go on."]);
}

#[test]
fn a_server_of_the_client_is_used_once_the_person_approves_its_tools() {
    for permits in [true, false] {
        let desk = Desk::new(developer([]));
        desk.world.write("server.py", include_str!("../e2e/mcp_server.py"));
        let server = format!("{}/server.py", desk.folder());
        let servers = json!([{"name": "My tools", "command": "python3", "args": [server], "env": []}]);
        let mut client = desk.client();
        client.permits = permits;
        let new = client.ask("session/new", &json!({"cwd": desk.folder(), "mcpServers": servers}));
        client.prompt(new["sessionId"].as_str().unwrap(), "Use them.");
        assert_eq!(client.asked.len(), 1, "{:?}", client.said("agent_thought_chunk"));
        let title = client.asked[0]["toolCall"]["title"].as_str().unwrap();
        assert!(title.contains("tools of the MCP server `My-tools`"), "{title}");
        let tools = desk.models.asked()[1].json["tools"].to_string();
        assert_eq!(tools.contains("mcp__My-tools__"), permits, "{tools}");
        let thoughts = client.said("agent_thought_chunk");
        assert_eq!(thoughts.contains("not approved"), !permits, "{thoughts}");
    }
}
