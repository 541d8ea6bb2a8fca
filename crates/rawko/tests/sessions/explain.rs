//! Decisions with everything that explains them.

use rawko::{CallAnswer, explain};
use rawko_core::machine::{Decision, State};
use rawko_core::session::{DecisionPoint, DecisionSource};
use serde_json::json;

use crate::trial::{Trial, calls, complete, report, select};

#[tokio::test]
async fn each_decision_is_explained_by_what_was_seen_and_said() {
    let trial = Trial::new();
    trial.run().await;
    let decisions = explain(&trial.journal());
    assert_eq!(decisions.len(), 3);
    let first = &decisions[0];
    assert_eq!((first.number, first.state, first.point), (1, State::Selecting, DecisionPoint::Select));
    assert_eq!(first.source, DecisionSource::Llm);
    assert!(matches!(&first.decision, Decision::SelectMode { mode, .. } if mode == "worker"));
    assert_eq!(first.input.as_ref().unwrap()["task"], "do it");
    // Two attempts: the first answer named an agent that is not there.
    assert_eq!((first.calls.len(), first.rejected.len()), (2, 1));
    assert!(first.calls[0].rejected.as_ref().unwrap().contains("no agent `nobody`"));
    assert_eq!(first.calls[1].rejected, None);
    assert!(first.calls[0].system.contains("You are the arbiter"));
    assert_eq!((first.calls[0].messages.len(), first.calls[1].messages.len()), (1, 3));
    assert!(matches!(&first.calls[1].answer, CallAnswer::Replied { message, .. }
        if message.tool_calls().any(|call| call.input["mode"] == "worker")));
    // No agent had worked yet, so no agent could go on, and nothing could be complete.
    assert_eq!(first.alternatives.kinds, ["BLOCKED"]);
    assert!(first.alternatives.agents.iter().any(|agent| agent.name == "checker"));
    assert!(first.alternatives.agents.iter().all(|agent| agent.name != "worker"));
    assert!(
        matches!(&first.alternatives.rules, Some(Decision::SelectMode { mode, .. }) if mode == "planner")
    );

    let last = &decisions[2];
    assert_eq!((last.state, last.iteration), (State::Evaluating, 2));
    assert_eq!(last.alternatives.kinds, ["SELECT_MODE", "CONTINUE", "RETRY", "BLOCKED"]);
    assert_eq!(
        last.alternatives.rules,
        Some(Decision::Continue { reason: "The next step of the plan is open".into() })
    );
    assert_eq!(last.cost_usd, None, "the price of a scripted model is not known");
}

#[tokio::test]
async fn rules_and_people_decide_without_a_model() {
    let trial = Trial::with(json!([calls("worker", &[]), report("worker"), report("worker"), complete()]));
    trial.write(".rawko/config.yaml", "arbiter: {mode: rules}\nconstraints: {maxIterations: 2}\n");
    trial.builder().first_agent("worker").build().unwrap().run("do it").unwrap().await.unwrap();
    let decisions = explain(&trial.journal());
    let sources: Vec<DecisionSource> = decisions.iter().map(|one| one.source).collect();
    assert_eq!(sources[..2], [DecisionSource::Human, DecisionSource::Rule]);
    for one in &decisions {
        assert!(one.calls.is_empty());
        assert_eq!(one.cost_usd, Some(0.0));
    }
    assert_eq!(decisions[1].state, State::Evaluating);
    assert_eq!(decisions[1].alternatives.rules.as_ref(), Some(&decisions[1].decision));
}

#[tokio::test]
async fn an_answer_that_never_came_is_explained_as_missing() {
    let whole = Trial::with(json!([select("worker"), report("worker"), complete()]));
    whole.run().await;
    // Cut between the question and its answer.
    let cut = whole.cut(2);
    cut.rawko().resume(None).unwrap().await.unwrap();
    let decisions = explain(&cut.journal());
    let answers: Vec<&CallAnswer> = decisions[0].calls.iter().map(|call| &call.answer).collect();
    assert!(matches!(answers[..], [CallAnswer::Lost, CallAnswer::Replied { .. }]), "{answers:?}");
    assert_eq!(decisions[0].calls[0].messages, decisions[0].calls[1].messages, "the question is the same");
}
