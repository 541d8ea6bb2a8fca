//! Adds answers and notes to a view.

use rawko_core::approval::Approval;
use rawko_core::facts::{CommandRun, Verification};
use rawko_core::machine::{Decision, Plan, State};
use rawko_core::message::{Content, ToolCall};
use rawko_core::policy::is_control_tool;
use rawko_core::session::{Compaction, DecisionRecord, EffectAnswer, EffectId, KeptMemory, Note, Override};
use rawko_core::timeline::{ModelCall, ModelReply};
use rawko_core::tool::ToolOutcome;
use rawko_core::{ErrorInfo, Usage};
use serde_json::Value;

use super::PathStep;
use super::builder::ViewBuilder;
use super::entry::{CallState, EntryKind, ModelAnswer, ToolResult, VerificationView};
use crate::text::{line, plain};

/// Characters of a call's title.
const TITLE_CHARS: usize = 160;

impl ViewBuilder {
    /// An effect was answered that is neither a model call nor a tool call, or an answer is lost.
    pub(super) fn answer(&mut self, effect: EffectId, answer: &EffectAnswer) {
        let number = self.open.remove(&effect);
        match answer {
            EffectAnswer::ApprovalAnswered { approval } => {
                let words = match approval {
                    Approval::Allowed { by } => format!("allowed ({})", plain(by)),
                    Approval::Denied { by } => format!("denied ({})", plain(by)),
                    Approval::Expired => "denied, no answer in time".to_owned(),
                    Approval::Unattended => "denied, no person to ask".to_owned(),
                };
                let kind = number.and_then(|number| self.change(number));
                if let Some(EntryKind::Approval { answer, .. }) = kind {
                    *answer = Some(words);
                }
            }
            EffectAnswer::VerificationFinished { verification } => {
                let kind = number.and_then(|number| self.change(number));
                if let Some(EntryKind::Verification { result, .. }) = kind {
                    *result = Some(Box::new(verified(verification)));
                }
            }
            EffectAnswer::CheckpointFailed { message } => {
                let problem = Some(self.text(message));
                self.add(EntryKind::Checkpoint { checkpoint: None, problem });
            }
            EffectAnswer::TreeInspectionFailed { message } => {
                self.notice(true, &format!("the tree could not be compared: {message}"));
            }
            EffectAnswer::EffectLost => {
                if let Some(number) = number {
                    self.close(number, CallState::Lost);
                }
            }
            // Notes report the others.
            _ => {}
        }
    }

    pub(super) fn failed(&mut self, call: &ModelCall, error: &ErrorInfo, ms: u64) {
        let Some(number) = self.open.remove(&call.effect) else { return };
        let text = self.text_of(number, &format!("{}: {}", error.code, error.message));
        if let Some(EntryKind::ModelCall { state, error, duration_ms, .. }) = self.change(number) {
            (*state, *error, *duration_ms) = (CallState::Failed, Some(text), Some(ms));
        }
    }

    pub(super) fn replied(&mut self, reply: &ModelReply) {
        let Some(number) = self.open.remove(&reply.call.effect) else { return };
        let message = &reply.message;
        let thinking: Vec<&str> = message
            .content
            .iter()
            .filter_map(|block| match block {
                Content::Thinking { thinking, .. } if !thinking.trim().is_empty() => Some(thinking.as_str()),
                _ => None,
            })
            .collect();
        let thinking = (!thinking.is_empty()).then(|| self.text_of(number, &thinking.join("\n")));
        let made = ModelAnswer {
            text: self.text_of(number, &message.text()),
            thinking,
            tools: message.tool_calls().map(|call| plain(&call.name)).collect(),
            stop_reason: reply.stop_reason,
            cached: reply.cached,
        };
        if let Some(EntryKind::ModelCall { state, answer, duration_ms, .. }) = self.change(number) {
            (*state, *answer, *duration_ms) = (CallState::Done, Some(made), Some(reply.duration_ms));
        }
    }

    /// What the core reports.
    pub(super) fn note(&mut self, note: Note) {
        match note {
            Note::StateChanged { from, to, .. } => {
                if to == State::Idle {
                    self.head.plan = None;
                }
                let (record, at) = (self.now.record, self.now.at);
                self.step(PathStep { record, at, from, to });
            }
            Note::DecisionMade(record) => self.decided(&record),
            Note::AgentStarted { agent, iteration, continued } => {
                self.begin_execution(&agent, iteration);
                let again = if continued { " and continues its conversation" } else { "" };
                self.notice(false, &format!("{agent} begins execution {iteration}{again}"));
            }
            Note::ToolCalled { agent, call, allowed, rule } => self.called(agent, &call, allowed, &rule),
            Note::ToolFinished { agent, call_id, outcome, .. } => self.finished(agent, call_id, &outcome),
            Note::CheckpointTaken { iteration, checkpoint } => {
                if let Some(execution) =
                    self.head.executions.iter_mut().rev().find(|execution| execution.number == iteration)
                {
                    execution.has_checkpoint = true;
                }
                self.add(EntryKind::Checkpoint { checkpoint: Some(plain(&checkpoint)), problem: None });
            }
            Note::MemoriesRecalled { agent, iteration, memories, .. } if !memories.is_empty() => {
                let mut memories = memories;
                for memory in &mut memories {
                    memory.title = line(&memory.title, TITLE_CHARS);
                    memory.path = plain(&memory.path);
                }
                self.add(EntryKind::MemoriesTold { agent: plain(&agent), iteration, memories });
            }
            Note::MemoriesUsed { agent, iteration, uses, .. } if !uses.is_empty() => {
                self.add(EntryKind::MemoriesUsed { agent: plain(&agent), iteration, uses });
            }
            Note::MemoriesRecalled { .. } | Note::MemoriesUsed { .. } => {}
            Note::MemoryKept { agent, title, kept } => {
                let kept = match kept {
                    KeptMemory::Written { path } => KeptMemory::Written { path: plain(&path) },
                    KeptMemory::NotedOn { path } => KeptMemory::NotedOn { path: plain(&path) },
                    KeptMemory::Refused { message } => KeptMemory::Refused { message: plain(&message) },
                };
                let (agent, title) = (plain(&agent), line(&title, TITLE_CHARS));
                self.add(EntryKind::MemoryKept { agent, title, kept });
            }
            Note::ConversationCompacted { agent, how, before, after } => {
                let how = match how {
                    Compaction::ResultsCut => "old tool results were cut",
                    Compaction::Summarized => "its middle was summarized",
                };
                let text = format!(
                    "the conversation of {agent} was shortened, from about {before} to {after} tokens: {how}"
                );
                self.notice(false, &text);
            }
            Note::PlanUpdated { agent, plan } => {
                let plan = clean_plan(plan);
                self.head.plan = Some(plan.clone());
                self.add(EntryKind::Plan { agent: plain(&agent), plan });
            }
            Note::Steered { command, ignored, .. } => self.steered(&command, ignored.as_deref()),
            Note::RunPaused => self.notice(false, "the run is paused"),
            Note::RunUnpaused { .. } => self.notice(false, "the run goes on"),
            Note::Warned { message } => self.notice(true, &message),
            // The first is a fact of its own, and the effects report the next four.
            Note::TokensUsed { .. }
            | Note::ApprovalRequested(_)
            | Note::ApprovalAnswered { .. }
            | Note::VerificationStarted { .. }
            | Note::VerificationFinished { .. }
            | Note::CachePrefixChanged { .. } => {}
        }
    }

    fn steered(&mut self, command: &Override, ignored: Option<&str>) {
        let what = match command {
            Override::ForceAgent { agent } => format!("force {agent}"),
            Override::Say { text } => format!("say: {text}"),
            other => other.word().to_owned(),
        };
        let ignored = ignored.map(|reason| format!(" (ignored: {reason})")).unwrap_or_default();
        self.notice(false, &format!("the user: {what}{ignored}"));
    }

    fn decided(&mut self, record: &DecisionRecord) {
        self.decisions += 1;
        let costs = record.calls.iter().map(|call| self.costs.get(call).copied().unwrap_or(Some(0.0)));
        let cost_usd = costs.sum();
        let agent = match &record.decision {
            Decision::SelectMode { mode, .. } => Some(plain(mode)),
            Decision::Continue { .. }
            | Decision::Complete { .. }
            | Decision::Retry { .. }
            | Decision::Blocked { .. } => None,
        };
        self.add(EntryKind::Decision {
            decision: self.decisions,
            point: record.point,
            kind: record.decision.kind(),
            agent,
            reason: self.text(record.decision.reason()),
            source: record.source,
            rule: record.rule.as_deref().map(plain),
            instead_of: record.instead_of.as_ref().map(Decision::kind),
            rejected: record.rejected.len(),
            duration_ms: record.latency_ms,
            usage: record.usage,
            cost_usd,
        });
    }

    fn called(&mut self, agent: String, call: &ToolCall, allowed: bool, rule: &str) {
        let input = match &call.invalid_input {
            Some(text) => self.text(text),
            None => self.text(&serde_json::to_string_pretty(&call.input).unwrap_or_default()),
        };
        let number = self.add(EntryKind::ToolCall {
            agent: plain(&agent),
            tool: plain(&call.name),
            title: title(call),
            input,
            state: if allowed { CallState::Open } else { CallState::Denied },
            allowed,
            rule: plain(rule),
            result: None,
            duration_ms: None,
        });
        let counts = !(allowed && is_control_tool(&call.name));
        if let Some(execution) = self.head.executions.last_mut().filter(|_| counts) {
            execution.tool_calls += 1;
        }
        self.calls.insert((agent, call.id.clone()), number);
    }

    fn finished(&mut self, agent: String, call_id: String, outcome: &ToolOutcome) {
        let Some(number) = self.calls.get(&(agent, call_id)).copied() else { return };
        let made = ToolResult {
            content: self.text_of(number, &outcome.content),
            is_error: outcome.is_error,
            exit_code: outcome.exit_code,
            files_modified: outcome.files_modified.iter().map(|path| plain(path)).collect(),
            pictures: outcome.images.len(),
        };
        if let Some(EntryKind::ToolCall { state, result, duration_ms, .. }) = self.change(number) {
            if *state == CallState::Open {
                *state = if outcome.is_error { CallState::Failed } else { CallState::Done };
            }
            (*result, *duration_ms) = (Some(made), Some(outcome.duration_ms));
        }
    }

    /// The tokens of a model call were counted.
    pub(super) fn paid(&mut self, call: &ModelCall, tokens: Usage, cost: Option<f64>) {
        let Some(number) = self.asked.remove(&call.effect) else { return };
        self.costs.insert(call.effect, cost);
        if let Some(EntryKind::ModelCall { usage, cost_usd, .. }) = self.change(number) {
            (*usage, *cost_usd) = (Some(tokens), cost);
        }
        let add = |sum: &mut Option<f64>| *sum = sum.zip(cost).map(|(sum, cost)| sum + cost);
        if !self.now.shared {
            self.head.usage += tokens;
            add(&mut self.head.cost_usd);
        }
        let agent = plain(&call.purpose.to_string());
        let of_agent = self.head.executions.last_mut().filter(|execution| execution.agent == agent);
        if let Some(execution) = of_agent {
            execution.model_calls += 1;
            execution.usage += tokens;
            add(&mut execution.cost_usd);
        }
    }
}

/// A call in one line.
fn title(call: &ToolCall) -> String {
    const NAMES: [&str; 9] =
        ["command", "file_path", "path", "pattern", "url", "query", "name", "status", "summary"];
    let named = NAMES.iter().find_map(|name| call.input.get(name).and_then(Value::as_str));
    let steps = call.input.get("steps").and_then(Value::as_array);
    match named {
        None if let Some(steps) = steps => format!("{} steps", steps.len()),
        Some(text) => line(text, TITLE_CHARS),
        None if call.input.as_object().is_some_and(serde_json::Map::is_empty) => String::new(),
        None => line(&call.input.to_string(), TITLE_CHARS),
    }
}

fn clean_plan(mut plan: Plan) -> Plan {
    for step in &mut plan.steps {
        step.description = plain(&step.description);
    }
    plan
}

fn verified(verification: &Verification) -> VerificationView {
    let passed = verification.passed();
    let doubt = verification.doubt().filter(|_| passed);
    let mut verification = verification.clone();
    let clean = |runs: &mut Vec<CommandRun>| {
        for run in runs {
            run.output = plain(&run.output);
            run.command = plain(&run.command);
        }
    };
    clean(&mut verification.runs);
    clean(&mut verification.flaky);
    if let Some(original) = &mut verification.original {
        clean(&mut original.runs);
    }
    if let Some(baseline) = &mut verification.baseline {
        clean(&mut baseline.runs);
    }
    VerificationView { passed, proves: passed && doubt.is_none(), doubt, verification }
}
