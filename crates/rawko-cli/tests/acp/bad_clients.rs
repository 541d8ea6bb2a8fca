//! Clients that die, hurry, or say what makes no sense; and folders in which nothing may be done.

use rawko::journal::SessionStatus;
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{Asked, ModelServer, Who};

use crate::answers::{bash, complete, developer, report, select};
use crate::client::{AcpClient, Desk, prompt};

/// A developer who waits at first, and is quick after that.
fn waiting() -> Desk {
    let mut is_first = true;
    Desk::new(ModelServer::start(move |asked: &Asked| match asked.who() {
        Who::Select => select("developer"),
        Who::Evaluate => complete("done"),
        Who::Agent if std::mem::take(&mut is_first) => bash("sleep 300"),
        Who::Agent => report("did it"),
    }))
}

fn begin(desk: &Desk) -> (AcpClient, String, u64) {
    let mut client = desk.client();
    let session = client.session(desk);
    let prompt = client.begin(&session, "Wait.");
    client.wait_for(|update| update["status"] == "in_progress");
    (client, session, prompt)
}

/// Its journal is whole, its command is gone, and the next client goes on with its task.
#[track_caller]
fn goes_on(desk: &Desk, session: &str) {
    let listed = desk.world.store().list().unwrap();
    assert_eq!(listed[0].status, SessionStatus::Unfinished, "{listed:?}");
    goes_on_with(&mut desk.client(), desk, session);
}

#[track_caller]
fn goes_on_with(client: &mut AcpClient, desk: &Desk, session: &str) {
    client.ask("session/load", &json!({"sessionId": session, "cwd": desk.folder(), "mcpServers": []}));
    assert!(client.said("user_message_chunk").starts_with("Wait."));
    // More than agents are shown is refused, and nothing is lost by that.
    let refused = client.refused("session/prompt", &prompt(session, &"long ".repeat(10_000)));
    assert!(refused.contains("at most 16 KiB"), "{refused}");
    let end = client.prompt(session, "Go on.");
    assert_eq!(end["stopReason"], "end_turn", "{end}");
    let tasks = rawko::journal::tasks(&desk.world.journal());
    assert_eq!(
        tasks.iter().map(|task| task.task.as_str()).collect::<Vec<_>>(),
        ["Wait."],
        "it is the same task"
    );
    let asked = desk.models.asked();
    assert!(asked.iter().any(|asked| asked.json["messages"].to_string().contains("Go on.")));
}

#[test]
fn a_client_that_dies_in_a_prompt_leaves_a_session_that_goes_on() {
    let desk = waiting();
    let (client, session, _) = begin(&desk);
    let (code, error) = client.hang_up();
    assert_eq!(code, Some(0), "{error}");
    goes_on(&desk, &session);
}

#[test]
fn so_does_a_process_that_is_asked_to_end() {
    let desk = waiting();
    let (mut client, session, _) = begin(&desk);
    client.signal(Signal::TERM);
    assert_eq!(client.wait().0, Some(0));
    goes_on(&desk, &session);
}

#[test]
fn so_does_a_process_that_is_killed() {
    let desk = waiting();
    let (mut client, session, _) = begin(&desk);
    client.signal(Signal::KILL);
    client.wait();
    goes_on(&desk, &session);
}

#[test]
fn a_session_that_is_closed_in_a_prompt_goes_on_when_it_is_loaded() {
    let desk = waiting();
    let (mut client, session, begun) = begin(&desk);
    let close = client.send("session/close", &json!({"sessionId": session}));
    let end = client.answer(begun).unwrap();
    assert_eq!(
        (&end["stopReason"], &end["_meta"]["rawko"]["status"]),
        (&json!("cancelled"), &json!("suspended"))
    );
    client.answer(close).unwrap();
    client.updates.clear();
    goes_on_with(&mut client, &desk, &session);
}

#[test]
fn garbage_is_answered_and_disturbs_nothing() {
    let desk = Desk::new(developer([]));
    let mut client = desk.client();
    for line in ["garbage", "{\"jsonrpc\": \"2.0\"", "[]", "7", "\u{fffd}\u{0}", ""] {
        client.write(line);
    }
    client.write(&format!("\"{}\"", "x".repeat(49 * 1024 * 1024)));
    let unknown = client.send("session/dance", &json!({}));
    let mut errors = 0;
    let error = loop {
        let message = client.next();
        assert!(message["error"].is_object(), "{message}");
        if message["id"] == unknown {
            break message["error"].clone();
        }
        errors += 1;
    };
    assert_eq!((errors, &error["code"]), (6, &json!(-32601)), "{error}");
    let session = client.session(&desk);
    assert_eq!(client.prompt(&session, "Do it.")["stopReason"], "end_turn");
}

#[track_caller]
fn check_refused(client: &mut AcpClient, method: &str, params: &Value, part: &str) {
    let message = client.refused(method, params);
    assert!(message.contains(part), "{message}");
}

#[test]
fn what_makes_no_sense_is_refused_and_says_why() {
    let desk = Desk::new(developer([]));
    let mut client = desk.client();
    let new = |cwd: &str| json!({"cwd": cwd, "mcpServers": []});
    check_refused(&mut client, "session/new", &new("src"), "absolute path");
    check_refused(&mut client, "session/new", &new("/nowhere/at/all"), "no such folder");
    let home = desk.world.outside().join("home").canonicalize().unwrap();
    check_refused(&mut client, "session/new", &new(home.to_str().unwrap()), "read and change everything");
    let unknown = |id: &str| json!({"sessionId": id, "cwd": desk.folder(), "mcpServers": []});
    for id in ["20200101-000000-000-abcde", "last", "", "../../etc"] {
        for method in ["session/load", "session/resume"] {
            check_refused(&mut client, method, &unknown(id), "no open session");
        }
        check_refused(&mut client, "session/prompt", &prompt(id, "x"), "no open session");
    }
    let session = client.session(&desk);
    check_refused(&mut client, "session/prompt", &prompt(&session, " "), "has no text");
    client.notify("session/cancel", &json!({"sessionId": "nobody"}));
    assert_eq!(client.prompt(&session, "Do it.")["stopReason"], "end_turn");
}

#[test]
fn an_untrusted_folder_says_what_to_do() {
    let desk = Desk::new(developer([]));
    desk.world.write(".rawko/config.yaml", "verify: [\"touch owned\"]\n");
    let mut client = desk.client();
    let here = json!({"cwd": desk.folder(), "mcpServers": []});
    let refused = client.refused("session/new", &here);
    assert!(refused.contains("touch owned"), "{refused}");
    let command = refused.lines().find_map(|line| line.split_once("in a terminal: rawko ")).unwrap().1;
    let words: Vec<&str> = command.split(' ').collect();
    let (code, _, error) = desk.rawko(&words);
    assert_eq!(code, Some(0), "{command}: {error}");
    client.ask("session/new", &here);
}

#[test]
fn a_second_session_in_the_folder_waits_for_the_first() {
    let desk = waiting();
    let (mut client, session, first) = begin(&desk);
    let other = client.session(&desk);
    check_refused(&mut client, "session/prompt", &prompt(&other, "Too."), "is busy");
    client.notify("session/cancel", &json!({"sessionId": session}));
    assert_eq!(client.answer(first).unwrap()["stopReason"], "cancelled");
    client.ask("session/close", &json!({"sessionId": session}));
    assert_eq!(client.prompt(&other, "Now.")["stopReason"], "end_turn");
}
