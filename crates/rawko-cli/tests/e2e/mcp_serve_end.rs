//! The end of rawko's own MCP server, and of its runs: what is answered, what is suspended, and what has ended.

use rawko::journal::SessionStatus;
use serde_json::{Value, json};

use crate::answers::{bash, developer};
use crate::mcp_serve::{at_work, check_resumable, has_ended, sleeping};
use crate::mcp_serve_client::Served;
use crate::signals::{nothing_is_left, sleepers};
use crate::trial::Trial;

/// A run that makes a file, and then has this hook.
fn with_last_hook(command: &str) -> Trial {
    let hooks = json!([{"matcher": "*", "hooks": [{"type": "command", "command": command}]}]);
    Trial::new(developer([bash("touch made")]))
        .user_config("/hooks/sandbox", json!("off"))
        .user_config("/hooks/SessionEnd", hooks)
}

#[test]
fn a_call_that_waits_when_the_client_goes_away_is_answered() {
    let (mut served, session) = at_work(Trial::new(sleeping()));
    let (seen, _) = served.call("watch", &json!({"session": session, "waitSeconds": 0}));
    let arguments = json!({"session": session, "after": seen["cursor"], "waitSeconds": 45});
    let id = served.send("tools/call", &json!({"name": "watch", "arguments": arguments}));
    let (said, trial) = served.leave();
    assert_eq!(said.code, Some(0), "{}", said.err);
    let mut lines = said.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let answer = lines.find(|message| message["id"] == id).expect("the wait ends with the input");
    assert_eq!(answer["result"]["structuredContent"]["session"], session, "{answer}");
    check_resumable(&trial, &session, &said);
}

#[test]
fn a_session_that_has_ended_is_not_called_interrupted() {
    let mut served = Served::start(with_last_hook("sleep 1000"));
    let session = served.begin("Make it.");
    served.watch_until(&session, has_ended);
    served.wait_until("the hook", |trial| sleepers(trial) > 0);
    let (said, trial) = served.leave();
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(!said.err.contains("rawko resume"), "{}", said.err);
    assert!(nothing_is_left(&trial));
    assert_eq!(trial.store().info(&session).unwrap().unwrap().status, SessionStatus::Ended);
}
