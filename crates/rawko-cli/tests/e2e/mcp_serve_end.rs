//! The end of rawko's own MCP server, and of its runs: what is answered, what is suspended, and what has ended.

use serde_json::{Value, json};

use crate::mcp_serve::{at_work, check_resumable, sleeping};
use crate::trial::Trial;

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
