//! What the model says, in few words.

use serde_json::{Value, json};
use testkit::{Answer, Asked, ModelServer, Say, Who};

/// The arbiter chooses `agent`.
pub(crate) fn select(agent: &str) -> Answer {
    decide(json!({"decision": "SELECT_MODE", "mode": agent, "reason": format!("{agent} is next")}))
}

/// The arbiter says that the task is done.
pub(crate) fn complete(summary: &str) -> Answer {
    decide(json!({"decision": "COMPLETE", "summary": summary, "reason": "nothing is left"}))
}

/// The arbiter answers `input`, of whatever form.
pub(crate) fn decide(input: Value) -> Answer {
    Answer::decision(input)
}

/// The agent calls a tool.
pub(crate) fn call(tool: &str, input: &Value) -> Answer {
    Answer::call(tool, input)
}

/// The agent runs a command.
pub(crate) fn bash(command: &str) -> Answer {
    call("Bash", &json!({ "command": command }))
}

/// The agent ends its work well.
pub(crate) fn report(summary: &str) -> Answer {
    call("Report", &json!({"outcome": "success", "summary": summary}))
}

/// A run in which the developer makes the calls of `turns`, reports, and the arbiter is content.
pub(crate) fn developer(turns: impl IntoIterator<Item = Answer>) -> ModelServer {
    let begin = [select("developer")];
    let end = [report("did it"), complete("all done")];
    ModelServer::sequence(begin.into_iter().chain(turns).chain(end))
}

/// A server that always answers the same to each of the three who ask.
pub(crate) fn always(select: Answer, evaluate: Answer, agent: Answer) -> ModelServer {
    ModelServer::start(move |asked: &Asked| match asked.who() {
        Who::Select => select.clone(),
        Who::Evaluate => evaluate.clone(),
        Who::Agent => agent.clone(),
    })
}

/// Several calls in one turn.
pub(crate) fn calls(calls: &[(&str, Value)]) -> Answer {
    calls.iter().fold(Say::default(), |say, (tool, input)| say.with_call(*tool, input)).into()
}
