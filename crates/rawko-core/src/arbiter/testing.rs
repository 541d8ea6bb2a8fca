//! Short ways to build the arbiter's inputs, for tests.

use serde_json::{Value, json};

use super::construct::describe;
use super::input::{AgentDescription, EvaluateProgressInput, ExecutionSummary, SelectAgentInput};
use crate::agent::builtin_agents;

/// The descriptions of the built-in agents.
pub(super) fn builtin() -> Vec<AgentDescription> {
    builtin_agents().iter().map(|agent| describe(agent, None)).collect()
}

/// A successful execution, with the fields of `other` replaced.
pub(super) fn execution(agent: &str, other: Value) -> ExecutionSummary {
    let mut whole = json!({
        "agent": agent, "iteration": 1, "status": "success", "duration_ms": 1,
        "startedAt": "2026-01-01T00:00:00.000Z", "completedAt": "2026-01-01T00:00:00.001Z",
    });
    merge(&mut whole, other);
    serde_json::from_value(whole).unwrap()
}

/// Builds an input for selection or evaluation.
#[derive(Debug, Clone)]
pub(super) struct InputBuilder(Value, Vec<ExecutionSummary>);

impl Default for InputBuilder {
    fn default() -> Self {
        let input = json!({
            "task": "Do it.", "plan": null, "lastError": null, "availableAgents": builtin(),
            "constraints": {
                "maxIterations": 50, "currentIteration": 1, "iterationsRemaining": 49,
                "consecutiveFailures": 0, "maxConsecutiveFailures": 3, "estimatedTokensUsed": 0,
                "timeElapsedMs": 0, "estimatedTimeRemaining": 0,
            },
        });
        Self(input, Vec::new())
    }
}

impl InputBuilder {
    /// Merges these fields into the input.
    pub(super) fn with(mut self, other: Value) -> Self {
        merge(&mut self.0, other);
        self
    }

    /// Adds a plan whose steps have these statuses.
    pub(super) fn plan(self, statuses: &[&str]) -> Self {
        let step = |(at, status): (usize, &&str)| json!({"index": at + 1, "description": "a step", "status": status});
        let steps: Vec<Value> = statuses.iter().enumerate().map(step).collect();
        let settled = |status: &&str| matches!(*status, "complete" | "skipped");
        let open = statuses.iter().position(|status| !settled(status));
        let plan =
            json!({"steps": steps, "currentStepIndex": open.unwrap_or(0), "isComplete": open.is_none()});
        self.with(json!({ "plan": plan }))
    }

    /// Adds an error of that agent.
    pub(super) fn error(self, agent: &str, message: &str) -> Self {
        self.with(json!({"lastError": {
            "agent": agent, "attempted": "it", "message": message, "category": "tool_failure",
            "recoveryOptions": [], "timestamp": "2026-01-01T00:00:00.000Z", "context": {},
        }}))
    }

    /// Adds these executions.
    pub(super) fn history(mut self, entries: impl IntoIterator<Item = ExecutionSummary>) -> Self {
        self.1.extend(entries);
        self
    }

    /// The input for selection.
    pub(super) fn select(&self) -> SelectAgentInput {
        serde_json::from_value(self.clone().with(json!({ "history": self.1 })).0).unwrap()
    }

    /// The input for evaluation.
    pub(super) fn evaluate(&self) -> EvaluateProgressInput {
        let whole = self.clone().with(json!({ "history": self.1, "lastExecution": self.1.last() }));
        serde_json::from_value(whole.0).unwrap()
    }
}

/// Objects are merged, everything else is replaced.
fn merge(into: &mut Value, other: Value) {
    match (into, other) {
        (Value::Object(into), Value::Object(other)) => {
            for (key, value) in other {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, other) => *into = other,
    }
}
