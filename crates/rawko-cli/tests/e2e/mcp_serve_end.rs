//! The end of rawko's own MCP server, and of its runs: what is answered, what is suspended, and what has ended.

use rawko::journal::SessionStatus;
use serde_json::{Value, json};
use testkit::ModelServer;

use crate::answers::{bash, complete, developer, report, select};
use crate::mcp_serve::{at_work, check_resumable, has_ended, sleeping};
use crate::mcp_serve_client::Served;
use crate::signals::{nothing_is_left, sleepers};
use crate::trial::Trial;

/// A project whose sessions end with this hook.
fn with_last_hook(server: ModelServer, command: &str) -> Trial {
    let hooks = json!([{"matcher": "*", "hooks": [{"type": "command", "command": command}]}]);
    Trial::new(server).user_config("/hooks/sandbox", json!("off")).user_config("/hooks/SessionEnd", hooks)
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
    let mut served = Served::start(with_last_hook(developer([bash("touch made")]), "sleep 1000"));
    let session = served.begin("Make it.");
    served.watch_until(&session, has_ended);
    served.wait_until("the hook", |trial| sleepers(trial) > 0);
    let (said, trial) = served.leave();
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(!said.err.contains("rawko resume"), "{}", said.err);
    assert!(nothing_is_left(&trial));
    assert_eq!(trial.store().info(&session).unwrap().unwrap().status, SessionStatus::Ended);
}

#[test]
fn a_client_that_saw_the_end_goes_on_although_the_last_hooks_still_run() {
    let waits = "while ! test -f go-on; do sleep 0.1; done";
    for (tool, arguments) in [("start", json!({"task": "Another."})), ("continue", json!({"task": "Next."}))]
    {
        let turns = [select("developer"), report("made it"), complete("made")];
        let next = [select("developer"), report("did it"), complete("done")];
        let server = ModelServer::sequence(turns.into_iter().chain(next));
        let mut served = Served::start(with_last_hook(server, waits));
        let session = served.begin("Make it.");
        served.watch_until(&session, has_ended);
        let id = served.send("tools/call", &json!({"name": tool, "arguments": arguments}));
        served.wait_until("the hook", |trial| sleepers(trial) > 0);
        served.ask("tools/list", &json!({}));
        assert!(served.messages().iter().all(|message| message["id"] != id), "it waits for the hook");
        std::fs::write(served.trial.project().join("go-on"), "").unwrap();
        let answer = served.answer(id);
        assert_eq!(answer["result"]["isError"], false, "{tool}: {answer}");
        let next = answer["result"]["structuredContent"]["session"].as_str().unwrap().to_owned();
        assert_eq!(next == session, tool == "continue");
        let (seen, _) = served.watch_until(&next, has_ended);
        assert_eq!(seen["end"]["answer"], "did it", "{seen:#}");
        let (said, _) = served.leave();
        assert_eq!(said.code, Some(0), "{}", said.err);
    }
}
