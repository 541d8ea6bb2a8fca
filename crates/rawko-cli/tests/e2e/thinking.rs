//! The setting `thinking`: what is sent for agents, and that decisions do without it.

use serde_json::{Value, json};
use testkit::{Asked, ModelServer, Say, Who, Wire};

use crate::answers::{complete, report, select};
use crate::trial::{Ended, Trial};

/// A run in which the model thinks before it calls a tool, with `model` and the setting.
fn run(wire: Wire, provider: &str, model: &str, thinking: Value, agent: Option<Value>) -> Ended {
    let read = Say { thinking: "Hm.".into(), ..Say::default() }.with_call("Glob", &json!({"pattern": "*"}));
    let answers =
        [select("helper"), read.clone().into(), read.into(), report("did it"), complete("all done")];
    let own = agent.unwrap_or_else(|| json!({}));
    let helper = json!({"name": "helper", "systemPrompt": "Help.", "provider": own});
    let trial = Trial::new(ModelServer::sequence(answers))
        .wire(wire)
        .agent(&helper)
        .user_config(&format!("/provider/{provider}/model"), json!(model))
        .user_config(&format!("/provider/{provider}/thinking"), thinking);
    let ended = trial.args(&["--yes"]).run("Do it.");
    ended.exits(0);
    ended
}

fn agents(ended: &Ended) -> Vec<Asked> {
    ended.trial.server.asked().into_iter().filter(|asked| asked.who() == Who::Agent).collect()
}

/// How often `kind` is in each request of the agent.
fn counts(ended: &Ended, kind: &str) -> Vec<usize> {
    let kind = format!("\"type\":\"{kind}\"");
    let count = |asked: &Asked| String::from_utf8_lossy(&asked.body).matches(&kind).count();
    agents(ended).iter().map(count).collect()
}

/// The server refuses calls that come back without the thinking before them.
#[test]
fn a_budget_is_sent_and_the_thinking_goes_back_with_the_results() {
    let ended = run(Wire::Claude, "claude", "claude-haiku-4-5", json!({"budget": 4096}), None);
    for asked in agents(&ended) {
        assert_eq!(asked.json["thinking"], json!({"type": "enabled", "budget_tokens": 4096}));
    }
    assert_eq!(counts(&ended, "thinking"), [0, 1, 2], "with its signature");
    let others = ended.trial.server.asked().into_iter().filter(|asked| asked.who() != Who::Agent);
    assert!(others.into_iter().all(|asked| asked.json.get("thinking").is_none()), "decisions");
    assert!(ended.events_of("warning").is_empty());
}

#[test]
fn an_effort_becomes_what_each_wire_has_for_it() {
    let effort = json!({"effort": "low"});
    let ended = run(Wire::Responses, "responses", "house-model", effort.clone(), None);
    assert_eq!(agents(&ended)[0].json["reasoning"], effort);
    assert_eq!(counts(&ended, "reasoning"), [0, 1, 2], "encrypted, as it came");
    let ended = run(Wire::Claude, "claude", "claude-opus-5-5", effort.clone(), None);
    assert_eq!(agents(&ended)[0].json["output_config"], effort);
    let ended = run(Wire::OpenAi, "openai", "house-model", effort, None);
    assert_eq!(agents(&ended)[0].json["reasoning_effort"], "low");
}

#[test]
fn an_agents_own_setting_takes_the_place_of_the_providers() {
    let own = json!({"thinking": {"budget": 2048}});
    let ended = run(Wire::Claude, "claude", "claude-haiku-4-5", json!({"budget": 4096}), Some(own));
    assert_eq!(agents(&ended)[0].json["thinking"]["budget_tokens"], 2048);
}

#[test]
fn a_budget_as_large_as_the_answer_is_refused_before_the_first_call() {
    let trial = Trial::new(ModelServer::sequence([]))
        .user_config("/provider/claude/model", json!("claude-haiku-4-5"))
        .user_config("/provider/claude/thinking", json!({"budget": 20_000}));
    let (code, out, err) = trial.ask(&["run", "--yes", "--", "Do it."]);
    assert_eq!(code, Some(2), "{out}{err}");
    assert!(err.contains("leaves nothing for the answer"), "{err}");
    assert_eq!(trial.server.asked().len(), 0);
}
