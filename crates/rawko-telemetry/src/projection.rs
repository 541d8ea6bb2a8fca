//! From the events of a session to spans. The same events give the same spans, in a live run, in a resumed one and in an export
//! years later.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue};
use opentelemetry_proto::tonic::trace::v1::span::{Event, SpanKind};
use opentelemetry_proto::tonic::trace::v1::{Span, SpanFlags};
use rawko_core::approval::Approval;
use rawko_core::facts::Standing;
use rawko_core::machine::State;
use rawko_core::request::{ModelRequest, Purpose};
use rawko_core::session::{
    DecisionPoint, DecisionRecord, DecisionSource, EffectAnswer, EffectId, Note, Outcome, Session, Status,
};
use rawko_core::timeline::{Fact, ModelCall, ModelReply, TimelineEntry};
use rawko_core::{Timestamp, Usage};

use crate::content;
use crate::conventions::{self as name, SemanticConventions};
use crate::ids::{SpanId, TraceId, TraceParent, span_of, trace_of};
use crate::span::{SpanExt, nanos, text};

/// The flag of a span whose trace is recorded.
const SAMPLED: u32 = 1;

/// What a session's events have begun so far.
#[derive(Debug)]
pub struct Projection {
    session: String,
    trace: TraceId,
    caller: Option<TraceParent>,
    /// Whether spans hold what models and tools said.
    content: bool,
    conventions: SemanticConventions,
    task: Option<OpenTask>,
    plan: Option<Timestamp>,
    agent: Option<OpenAgent>,
    work: BTreeMap<EffectId, Span>,
    tasks: u64,
    decisions: u64,
    executions: u64,
}

#[derive(Debug)]
struct OpenTask {
    span: Span,
    usage: Usage,
}

#[derive(Debug)]
struct OpenAgent {
    span: Span,
    usage: Usage,
    last_error: Option<(String, String)>,
}

impl Projection {
    /// The projection of a session, of which nothing has happened. With `caller` its trace is that of a caller, which the
    /// journal's header names.
    #[must_use]
    pub fn new(
        session: &str,
        caller: Option<TraceParent>,
        content: bool,
        conventions: SemanticConventions,
    ) -> Self {
        Self {
            session: session.to_owned(),
            trace: caller.map_or_else(|| trace_of(session), |caller| caller.trace),
            caller,
            content,
            conventions,
            task: None,
            plan: None,
            agent: None,
            work: BTreeMap::new(),
            tasks: 0,
            decisions: 0,
            executions: 0,
        }
    }

    /// The place in the trace of what performs this effect.
    #[must_use]
    pub fn place_of(&self, effect: EffectId) -> TraceParent {
        let sampled = self.is_sampled();
        TraceParent { trace: self.trace, span: span_of(&self.session, "effect", effect.0), sampled }
    }

    /// Whether the caller wants the trace recorded. Without a caller it is.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.caller.is_none_or(|caller| caller.sampled)
    }

    /// Takes the entries of an event, and gives the spans that have ended with it. `session` is the one to which the event was
    /// applied.
    pub fn step(&mut self, entries: &[TimelineEntry], session: &Session) -> Vec<Span> {
        let mut ended = Vec::new();
        for TimelineEntry { at, fact, .. } in entries {
            self.fact(fact, *at, session, &mut ended);
        }
        if let Some(TimelineEntry { at, .. }) = entries.last().filter(|entry| entry.shared) {
            // The other session has reported these, and what goes on here begins where this one does.
            ended.clear();
            if let Some(task) = &mut self.task {
                (task.span.start_time_unix_nano, task.usage) = (nanos(*at), Usage::default());
            }
            if let Some(agent) = &mut self.agent {
                (agent.span.start_time_unix_nano, agent.usage) = (nanos(*at), Usage::default());
            }
            self.work.values_mut().for_each(|span| span.start_time_unix_nano = nanos(*at));
        }
        ended
    }

    fn fact(&mut self, fact: &Fact, at: Timestamp, session: &Session, ended: &mut Vec<Span>) {
        match fact {
            Fact::TaskStarted { task } | Fact::TaskContinued { task } => self.begin_task(at, Some(task)),
            Fact::TaskTakenUp => self.begin_task(at, None),
            Fact::Note(note) => self.note(note, at, session, ended),
            Fact::ModelCalled { call, request } => self.begin_call(call, request.as_deref(), at),
            Fact::ModelReplied(reply) => ended.extend(self.replied(reply, at)),
            Fact::ModelFailed { error, call, usage, .. } => {
                let Some(mut span) = self.end_work(call.effect, at) else { return };
                if let Some(usage) = usage {
                    self.used(&mut span, usage);
                }
                let why = self.readable(&error.message);
                span.fail(error.code.as_str(), why.clone());
                if let Some(agent) = &mut self.agent {
                    agent.last_error = Some((error.code.as_str().to_owned(), why));
                }
                ended.push(span);
            }
            Fact::ToolBegun { effect, agent, call, rule } => {
                let named = format!("{} {}", name::EXECUTE_TOOL, call.name);
                let mut span = self.work(*effect, self.agent_id(), named, at);
                span.set_text(name::OPERATION, name::EXECUTE_TOOL);
                span.set_text(name::TOOL_NAME, call.name.as_str());
                span.set_text(name::TOOL_CALL_ID, call.id.as_str());
                let kind = if call.name.starts_with("mcp__") { "extension" } else { "function" };
                span.set_text(name::TOOL_TYPE, kind);
                span.set_text(name::AGENT_NAME, agent.as_str());
                span.set_text("rawko.rule", rule.as_str());
                if self.content {
                    span.set_text(name::TOOL_ARGUMENTS, content::bounded(&call.input.to_string()));
                }
                self.work.insert(*effect, span);
            }
            Fact::ToolEnded(end) => {
                let Some(mut span) = self.end_work(end.effect, at) else { return };
                let outcome = &end.outcome;
                if let Some(code) = outcome.exit_code {
                    span.set_number(name::EXIT_CODE, code);
                }
                if self.content {
                    span.set_text(name::TOOL_RESULT, content::bounded(&outcome.content));
                }
                if outcome.is_error {
                    let kind = outcome.error_code.map_or("_OTHER", |code| code.as_str());
                    span.fail(kind, self.readable(&outcome.content));
                }
                ended.push(span);
            }
            Fact::WorkBegun(effect) => {
                if let Some(id) = effect.awaits_answer() {
                    let span = self.work(id, self.agent_id(), format!("rawko.{}", effect.word()), at);
                    self.work.insert(id, span);
                }
            }
            Fact::WorkEnded { effect, answer } => {
                let Some(span) = self.end_work(*effect, at) else { return };
                ended.push(self.answered(span, answer));
            }
            Fact::Abandoned { effect } => {
                let Some(mut span) = self.end_work(*effect, at) else { return };
                span.fail("cancelled", String::new());
                ended.push(span);
            }
            Fact::Ended(outcome) => self.finish(outcome, at, ended),
            _ => {}
        }
    }

    /// A span that begins. Without a `parent` it is the first of its trace.
    fn span(&self, id: SpanId, parent: Vec<u8>, named: String, at: Timestamp) -> Span {
        Span {
            trace_id: self.trace.to_vec(),
            span_id: id.to_vec(),
            parent_span_id: parent,
            flags: SAMPLED | SpanFlags::ContextHasIsRemoteMask as u32,
            name: named,
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: nanos(at),
            end_time_unix_nano: nanos(at),
            attributes: vec![text(name::CONVERSATION, &self.session)],
            ..Span::default()
        }
    }

    fn begin_task(&mut self, at: Timestamp, task: Option<&str>) {
        self.tasks += 1;
        let id = span_of(&self.session, "task", self.tasks);
        let caller = self.caller.map(|caller| caller.span.to_vec()).unwrap_or_default();
        let named = format!("{} {}", name::INVOKE_WORKFLOW, name::WORKFLOW);
        let mut span = self.span(id, caller, named, at);
        if self.caller.is_some() {
            span.flags |= SpanFlags::ContextIsRemoteMask as u32;
        }
        span.set_text(name::OPERATION, name::INVOKE_WORKFLOW);
        span.set_text(self.conventions.workflow_name(), name::WORKFLOW);
        if let Some(task) = task.filter(|_| self.content) {
            span.set_text(name::INPUT_MESSAGES, content::message("user", task));
        }
        if task.is_none() {
            span.set("rawko.taken_up", Value::BoolValue(true));
        }
        self.task = Some(OpenTask { span, usage: Usage::default() });
    }

    fn task_id(&self) -> Vec<u8> {
        self.task.as_ref().map(|task| task.span.span_id.clone()).unwrap_or_default()
    }

    /// Where work of an agent belongs.
    fn agent_id(&self) -> Vec<u8> {
        self.agent.as_ref().map_or_else(|| self.task_id(), |agent| agent.span.span_id.clone())
    }

    /// The decision that is being made, or comes next.
    fn plan_id(&self) -> SpanId {
        span_of(&self.session, "decision", self.decisions + 1)
    }

    fn note(&mut self, note: &Note, at: Timestamp, session: &Session, ended: &mut Vec<Span>) {
        match note {
            Note::DecisionMade(decision) => ended.push(self.decided(decision, at)),
            Note::AgentStarted { agent, iteration, continued } => {
                ended.extend(self.end_agent(at, None));
                self.begin_agent(agent, *iteration, *continued, at, session);
            }
            Note::StateChanged { from: State::Executing, to, .. } => {
                ended.extend(self.end_agent(at, Some(*to)));
            }
            Note::ToolCalled { call, allowed: false, rule, .. } => {
                if let Some(agent) = &mut self.agent {
                    agent.span.events.push(Event {
                        time_unix_nano: nanos(at),
                        name: "rawko.tool_call.denied".to_owned(),
                        attributes: vec![
                            text(name::TOOL_NAME, &call.name),
                            text(name::TOOL_CALL_ID, &call.id),
                            text("rawko.rule", rule.as_str()),
                        ],
                        ..Event::default()
                    });
                }
            }
            _ => {}
        }
    }

    fn decided(&mut self, decision: &DecisionRecord, at: Timestamp) -> Span {
        let start = self.plan.take().unwrap_or(Timestamp(at.0.saturating_sub(decision.latency_ms)));
        let mut span = self.begin_plan(start);
        self.decisions += 1;
        span.end(at);
        let point = match decision.point {
            DecisionPoint::Select => "select",
            DecisionPoint::Evaluate => "evaluate",
        };
        let source = match decision.source {
            DecisionSource::Llm => "llm",
            DecisionSource::Rule => "rule",
            DecisionSource::Cache => "cache",
            DecisionSource::Fallback => "fallback",
            DecisionSource::Human => "human",
        };
        span.set_text("rawko.decision.point", point);
        span.set_text("rawko.decision", decision.decision.kind());
        span.set_text("rawko.decision.source", source);
        if let Some(rule) = &decision.rule {
            span.set_text("rawko.rule", rule.as_str());
        }
        span
    }

    fn begin_plan(&self, at: Timestamp) -> Span {
        let named = format!("{} {}", name::PLAN, name::ARBITER);
        let mut span = self.span(self.plan_id(), self.task_id(), named, at);
        span.set_text(name::OPERATION, name::PLAN);
        span.set_text(name::AGENT_NAME, name::ARBITER);
        span
    }

    fn begin_agent(
        &mut self,
        agent: &str,
        iteration: u32,
        continued: bool,
        at: Timestamp,
        session: &Session,
    ) {
        self.executions += 1;
        let id = span_of(&self.session, "execution", self.executions);
        let mut span = self.span(id, self.task_id(), format!("{} {agent}", name::INVOKE_AGENT), at);
        span.set_text(name::OPERATION, name::INVOKE_AGENT);
        span.set_text(name::AGENT_NAME, agent);
        span.set_number("rawko.iteration", iteration);
        span.set("rawko.continued", Value::BoolValue(continued));
        if let Some(setup) = session.setup().and_then(|setup| setup.agents.get(agent)) {
            if self.conventions == SemanticConventions::V1_42 {
                span.set_text(name::PROVIDER, name::provider(&setup.model.provider));
            }
            span.set_text(name::MODEL, setup.model.model.as_str());
        }
        self.agent = Some(OpenAgent { span, usage: Usage::default(), last_error: None });
    }

    fn end_agent(&mut self, at: Timestamp, to: Option<State>) -> Option<Span> {
        let OpenAgent { mut span, usage, last_error } = self.agent.take()?;
        span.end(at);
        self.set_usage(&mut span, &usage);
        match to {
            Some(State::ErrorHandling | State::Failed) => {
                let (kind, why) = last_error.unwrap_or_else(|| ("_OTHER".to_owned(), String::new()));
                span.fail(&kind, why);
            }
            Some(State::Cancelled) => span.fail("cancelled", String::new()),
            _ => {}
        }
        Some(span)
    }

    fn begin_call(&mut self, call: &ModelCall, request: Option<&ModelRequest>, at: Timestamp) {
        let ModelCall { effect, purpose, provider, model } = call;
        let is_arbiter = matches!(purpose, Purpose::Select | Purpose::Evaluate);
        if is_arbiter && self.plan.is_none() {
            self.plan = Some(at);
        }
        let parent = if is_arbiter { self.plan_id().to_vec() } else { self.agent_id() };
        let mut span = self.work(*effect, parent, format!("{} {model}", name::CHAT), at);
        span.kind = SpanKind::Client.into();
        span.set_text(name::OPERATION, name::CHAT);
        span.set_text(name::PROVIDER, name::provider(provider));
        span.set_text(name::MODEL, model.as_str());
        span.set_text("rawko.purpose", purpose_word(purpose));
        if let Some(request) = request {
            span.set_number(name::MAX_TOKENS, request.max_tokens);
            if let Some(temperature) = request.temperature {
                span.set(name::TEMPERATURE, Value::DoubleValue(temperature));
            }
            if self.content {
                span.set_text(name::INPUT_MESSAGES, content::input(request));
                if let Some(system) = content::system(request) {
                    span.set_text(name::SYSTEM_INSTRUCTIONS, system);
                }
            }
        }
        self.work.insert(*effect, span);
    }

    fn replied(&mut self, reply: &ModelReply, at: Timestamp) -> Option<Span> {
        // No model was asked where the cache answered.
        let mut span = self.end_work(reply.call.effect, at).filter(|_| !reply.cached)?;
        let reason = name::finish_reason(reply.stop_reason);
        let values = vec![AnyValue { value: Some(Value::StringValue(reason.to_owned())) }];
        span.set(name::FINISH_REASONS, Value::ArrayValue(ArrayValue { values }));
        self.used(&mut span, &reply.usage);
        if self.content {
            span.set_text(name::OUTPUT_MESSAGES, content::output(&reply.message, reason));
        }
        Some(span)
    }

    fn work(&self, id: EffectId, parent: Vec<u8>, named: String, at: Timestamp) -> Span {
        self.span(self.place_of(id).span, parent, named, at)
    }

    fn end_work(&mut self, id: EffectId, at: Timestamp) -> Option<Span> {
        let mut span = self.work.remove(&id)?;
        span.end(at);
        Some(span)
    }

    /// Says on the span of an effect that is neither a model call nor a tool call how it ended, or that an answer is lost.
    fn answered(&self, mut span: Span, answer: &EffectAnswer) -> Span {
        match answer {
            EffectAnswer::ApprovalAnswered { approval } => {
                let word = match approval {
                    Approval::Allowed { .. } => "allowed",
                    Approval::Denied { .. } => "denied",
                    Approval::Expired => "expired",
                    Approval::Unattended => "unattended",
                };
                span.set_text("rawko.approval", word);
            }
            EffectAnswer::VerificationFinished { verification } => {
                span.set("rawko.verification.passed", Value::BoolValue(verification.passed()));
                if verification.standing() == Standing::Failed {
                    span.fail("checks_failed", String::new());
                }
            }
            EffectAnswer::CheckpointFailed { message } | EffectAnswer::TreeInspectionFailed { message } => {
                span.fail("_OTHER", self.readable(message));
            }
            EffectAnswer::EffectLost => span.fail("lost", String::new()),
            _ => {}
        }
        span
    }

    /// Messages of errors may quote what was sent.
    fn readable(&self, message: &str) -> String {
        if self.content { content::bounded(message) } else { String::new() }
    }

    fn used(&mut self, span: &mut Span, usage: &Usage) {
        self.set_usage(span, usage);
        if let Some(agent) = self.agent.as_mut().filter(|agent| span.parent_span_id == agent.span.span_id) {
            agent.usage += *usage;
        }
        if let Some(task) = &mut self.task {
            task.usage += *usage;
        }
    }

    fn finish(&mut self, outcome: &Outcome, at: Timestamp, ended: &mut Vec<Span>) {
        // A second end only completes the outcome of the first.
        let Some(OpenTask { mut span, usage }) = self.task.take() else { return };
        for (_, mut work) in std::mem::take(&mut self.work) {
            work.end(at);
            work.fail("cancelled", String::new());
            ended.push(work);
        }
        if let Some(start) = self.plan.take() {
            // Its id is that of the decision that never came.
            let mut plan = self.begin_plan(start);
            plan.parent_span_id = span.span_id.clone();
            plan.end(at);
            plan.fail("cancelled", String::new());
            self.decisions += 1;
            ended.push(plan);
        }
        ended.extend(self.end_agent(at, Some(State::Cancelled)));
        span.end(at);
        span.set_text("rawko.status", outcome.status.as_str());
        span.set_number("rawko.iterations", outcome.iterations);
        if let Some(cost) = outcome.cost_usd {
            span.set("rawko.cost_usd", Value::DoubleValue(cost));
        }
        self.set_usage(&mut span, &usage);
        if self.content {
            span.set_text(
                name::OUTPUT_MESSAGES,
                content::message("assistant", outcome.agent_summary.as_ref().unwrap_or(&outcome.summary)),
            );
        }
        match outcome.status {
            Status::Verified | Status::Claimed => {}
            Status::Cancelled => span.fail("cancelled", String::new()),
            Status::Failed | Status::Limited => {
                let kind =
                    outcome.error.as_ref().map_or(outcome.status.as_str(), |error| error.code.as_str());
                span.fail(kind, self.readable(&outcome.summary));
            }
        }
        ended.push(span);
    }

    fn set_usage(&self, span: &mut Span, usage: &Usage) {
        span.set_number(name::INPUT_TOKENS, usage.prompt_tokens());
        span.set_number(name::OUTPUT_TOKENS, usage.output_tokens);
        // Since 0.1 only model calls say what the cache did.
        if self.conventions == SemanticConventions::V1_42 || span.operation() == Some(name::CHAT) {
            span.set_number(name::CACHE_READ_TOKENS, usage.cache_read_tokens);
            span.set_number(self.conventions.cache_write_tokens(), usage.cache_write_tokens);
        }
    }
}

fn purpose_word(purpose: &Purpose) -> &'static str {
    match purpose {
        Purpose::Select => "select",
        Purpose::Evaluate => "evaluate",
        Purpose::Agent { .. } => "agent",
        Purpose::Remember { .. } => "remember",
        Purpose::Summarize { .. } => "summarize",
    }
}
