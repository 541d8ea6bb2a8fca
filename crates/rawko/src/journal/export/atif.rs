//! A session in the Agent Trajectory Interchange Format, version 1.8, for tools that compare, judge or train agents.
//!
//! A turn of an agent is a step of the source `agent`, with its tool calls and their results. A decision of the arbiter is one,
//! too. Tasks come from the `user`; what rawko itself did is of the `system`. What a fork shares is marked as copied.

use std::collections::BTreeMap;

use rawko_core::cost::PriceTable;
use rawko_core::message::Content;
use rawko_core::request::Purpose;
use rawko_core::session::{DecisionRecord, Note, Status};
use rawko_core::setup::Setup;
use rawko_core::timeline::{Fact, ModelCall, ModelReply, Timeline, TimelineEntry};
use rawko_core::tool::ToolOutcome;
use rawko_core::{Timestamp, Usage};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::journal::Journal;

/// The version of the format.
const VERSION: &str = "ATIF-v1.8";

/// A session as a trajectory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trajectory {
    schema_version: &'static str,
    session_id: String,
    trajectory_id: String,
    agent: System,
    steps: Vec<TrajectoryStep>,
    final_metrics: FinalMetrics,
    extra: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct System {
    name: &'static str,
    version: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_definitions: Vec<Value>,
    extra: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct TrajectoryStep {
    step_id: usize,
    timestamp: String,
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_name: Option<String>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<TrajectoryCall>,
    #[serde(skip_serializing_if = "Observation::is_empty")]
    observation: Observation,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<StepMetrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    llm_call_count: Option<usize>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_copied_context: bool,
    extra: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct TrajectoryCall {
    tool_call_id: String,
    function_name: String,
    arguments: Map<String, Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct Observation {
    results: Vec<ObservationResult>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ObservationResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    source_call_id: Option<String>,
    content: String,
    extra: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct StepMetrics {
    prompt_tokens: u64,
    completion_tokens: u64,
    cached_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct FinalMetrics {
    total_prompt_tokens: u64,
    total_completion_tokens: u64,
    total_cached_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_cost_usd: Option<f64>,
    total_steps: usize,
}

impl Observation {
    fn is_empty(&self) -> bool {
        self.results.is_empty()
    }
}

impl Trajectory {
    /// The trajectory of `journal`.
    #[must_use]
    pub fn of(journal: &Journal) -> Self {
        let mut timeline = Timeline::default();
        let mut writer = TrajectoryWriter::default();
        for (record, stamped) in journal.events() {
            for entry in timeline.apply(record, stamped) {
                writer.entry(entry);
            }
        }
        let session = timeline.session();
        let (used, cost) = (writer.total, writer.cost);
        Self {
            schema_version: VERSION,
            session_id: journal.header.session.clone(),
            trajectory_id: journal.header.session.clone(),
            agent: system(&journal.header.rawko, session.setup()),
            final_metrics: FinalMetrics {
                total_prompt_tokens: used.prompt_tokens(),
                total_completion_tokens: used.output_tokens,
                total_cached_tokens: used.cache_read_tokens,
                total_cost_usd: cost.filter(|_| session.setup().is_some()),
                total_steps: writer.steps.len(),
            },
            steps: writer.steps,
            extra: json!({ "status": writer.status }),
        }
    }
}

fn system(version: &str, setup: Option<&Setup>) -> System {
    let tools = setup.map(|setup| setup.tools.as_slice()).unwrap_or_default().iter();
    let definition = |name: &str, description: &str, parameters: &Value| {
        json!({
            "type": "function",
            "function": { "name": name, "description": description, "parameters": parameters },
        })
    };
    let agents = setup.map(|setup| &setup.agents).into_iter().flatten();
    let models: BTreeMap<&String, &String> = agents.map(|(name, agent)| (name, &agent.model.model)).collect();
    System {
        name: "rawko",
        version: version.to_owned(),
        tool_definitions: tools
            .map(|tool| definition(&tool.name, &tool.description, &tool.input_schema))
            .collect(),
        extra: json!({ "agents": models }),
    }
}

struct TrajectoryWriter {
    /// Of the entry that is being written.
    at: Timestamp,
    record: u64,
    shared: bool,
    steps: Vec<TrajectoryStep>,
    /// The arbiter's calls since its last decision.
    deciding: Vec<(String, StepMetrics)>,
    prices: PriceTable,
    total: Usage,
    cost: Option<f64>,
    status: Option<Status>,
}

impl Default for TrajectoryWriter {
    fn default() -> Self {
        Self {
            at: Timestamp::default(),
            record: 0,
            shared: false,
            steps: Vec::new(),
            deciding: Vec::new(),
            prices: PriceTable::default(),
            total: Usage::default(),
            cost: Some(0.0),
            status: None,
        }
    }
}

impl TrajectoryWriter {
    fn step(&mut self, source: &'static str, message: String) -> &mut TrajectoryStep {
        self.steps.push(TrajectoryStep {
            step_id: self.steps.len() + 1,
            timestamp: self.at.to_rfc3339(),
            source,
            model_name: None,
            message,
            reasoning_content: None,
            tool_calls: Vec::new(),
            observation: Observation::default(),
            metrics: None,
            llm_call_count: None,
            is_copied_context: self.shared,
            extra: json!({ "record": self.record }),
        });
        let last = self.steps.len() - 1;
        &mut self.steps[last]
    }

    fn entry(&mut self, entry: TimelineEntry) {
        (self.at, self.record, self.shared) = (entry.at, entry.record, entry.shared);
        match entry.fact {
            Fact::TaskStarted { task } | Fact::TaskContinued { task } => {
                self.step("user", task);
            }
            Fact::SessionResumed => {
                self.step("system", "The session was resumed.".to_owned());
            }
            Fact::TaskTakenUp => {
                self.step("system", "The task was taken up again.".to_owned());
            }
            Fact::CancelRequested { reason } => {
                self.step("system", format!("Cancelled: {reason}"));
            }
            Fact::ModelReplied(reply) if !reply.cached => self.replied(*reply),
            Fact::ModelFailed { error, call, usage, .. } => {
                let metrics = usage.map(|usage| self.metrics(&call.model, &usage));
                let step = self.step("system", format!("A call of {} failed: {}", call.model, error.message));
                step.extra["error"] = json!(error.code);
                if let Some(metrics) = metrics {
                    step.extra["usage"] = json!(metrics);
                }
            }
            Fact::Note(note) => self.note(&note),
            Fact::Ended(outcome) => self.status = Some(outcome.status),
            _ => {}
        }
    }

    fn metrics(&mut self, model: &str, usage: &Usage) -> StepMetrics {
        let cost_usd = self.prices.cost(model, usage);
        if !self.shared {
            self.total += *usage;
            self.cost = self.cost.zip(cost_usd).map(|(sum, cost)| sum + cost);
        }
        StepMetrics {
            prompt_tokens: usage.prompt_tokens(),
            completion_tokens: usage.output_tokens,
            cached_tokens: usage.cache_read_tokens,
            cost_usd,
        }
    }

    fn replied(&mut self, reply: ModelReply) {
        let ModelReply { call: ModelCall { purpose, model, .. }, message, usage, .. } = reply;
        let metrics = self.metrics(&model, &usage);
        let (agent, what) = match purpose {
            // Their answers are reported with the decision.
            Purpose::Select | Purpose::Evaluate => {
                self.deciding.push((model, metrics));
                return;
            }
            Purpose::Agent { name } => (name, "turn"),
            Purpose::Remember { agent } => (agent, "memory"),
            Purpose::Summarize { agent } => (agent, "summary"),
        };
        let thinking: Vec<&str> = message
            .content
            .iter()
            .filter_map(|content| match content {
                Content::Thinking { thinking, .. } if !thinking.is_empty() => Some(thinking.as_str()),
                _ => None,
            })
            .collect();
        let calls = message.tool_calls().map(|call| TrajectoryCall {
            tool_call_id: call.id.clone(),
            function_name: call.name.clone(),
            arguments: call.input.as_object().cloned().unwrap_or_default(),
        });
        let calls = calls.collect();
        let step = self.step("agent", message.text());
        step.model_name = Some(model);
        step.reasoning_content = (!thinking.is_empty()).then(|| thinking.join("\n"));
        step.tool_calls = calls;
        step.metrics = Some(metrics);
        step.llm_call_count = Some(1);
        step.extra["agent"] = json!(agent);
        step.extra["purpose"] = json!(what);
    }

    fn note(&mut self, note: &Note) {
        match note {
            Note::DecisionMade(decision) => self.decided(decision),
            Note::ToolFinished { call_id, outcome, .. } => self.finished(call_id, outcome),
            Note::VerificationFinished { verification } => {
                let passed = verification.passed();
                let results = verification.runs.iter().map(|run| ObservationResult {
                    source_call_id: None,
                    content: run.output.clone(),
                    extra: json!({ "command": run.command, "exit_code": run.exit_code }),
                });
                let results = results.collect();
                let word = if passed { "passed" } else { "failed" };
                self.step("system", format!("The verification {word}.")).observation =
                    Observation { results };
            }
            _ => {}
        }
    }

    fn decided(&mut self, decision: &DecisionRecord) {
        let calls = std::mem::take(&mut self.deciding);
        let chosen = &decision.decision;
        let step = self.step("agent", format!("{}: {}", chosen.kind(), chosen.reason()));
        step.extra["agent"] = json!("arbiter");
        step.extra["decision"] = json!(chosen);
        step.extra["decision_source"] = json!(decision.source);
        step.llm_call_count = Some(calls.len());
        step.model_name = calls.last().map(|(model, _)| model.clone());
        step.metrics = calls.into_iter().map(|(_, metrics)| metrics).reduce(|sum, next| StepMetrics {
            prompt_tokens: sum.prompt_tokens + next.prompt_tokens,
            completion_tokens: sum.completion_tokens + next.completion_tokens,
            cached_tokens: sum.cached_tokens + next.cached_tokens,
            cost_usd: sum.cost_usd.zip(next.cost_usd).map(|(sum, next)| sum + next),
        });
    }

    /// Puts a result beside its call: the latest with this id that has none yet, for providers may use an id again.
    fn finished(&mut self, call_id: &str, outcome: &ToolOutcome) {
        let waits = |step: &&mut TrajectoryStep| {
            let is_it = |id: Option<&str>| id == Some(call_id);
            step.tool_calls.iter().any(|call| is_it(Some(&call.tool_call_id)))
                && !step.observation.results.iter().any(|result| is_it(result.source_call_id.as_deref()))
        };
        let Some(step) = self.steps.iter_mut().rev().find(waits) else { return };
        let mut extra = json!({ "is_error": outcome.is_error, "duration_ms": outcome.duration_ms });
        if let Some(code) = outcome.exit_code {
            extra["exit_code"] = json!(code);
        }
        if let Some(code) = outcome.error_code {
            extra["error"] = json!(code);
        }
        let (source_call_id, content) = (Some(call_id.to_owned()), outcome.content.clone());
        step.observation.results.push(ObservationResult { source_call_id, content, extra });
    }
}
