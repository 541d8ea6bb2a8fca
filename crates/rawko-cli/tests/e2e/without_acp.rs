//! A rawko that was built without ACP.

use serde_json::json;
use testkit::ModelServer;

use crate::answers::{complete, select};
use crate::trial::Trial;

#[test]
fn an_acp_agent_is_a_clear_error() {
    let agent = json!({"name": "coder", "whenToUse": "for all work", "systemPrompt": "You write code.",
        "acp": {"command": ["true"]}});
    let trial = Trial::new(ModelServer::sequence([select("coder"), complete("all done")]));
    let ended = trial.agent(&agent).trusted().run("Fix add.");
    ended.says(&["`coder`", "built without ACP", "--features acp"]);
    assert!(ended.trial.server.asked().is_empty(), "nothing began");
}
