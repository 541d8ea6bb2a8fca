//! A driver in miniature for tests of one agent's work: keeps what is open, answers it, and folds it all again.

#![allow(dead_code)]

use std::collections::BTreeMap;

use rawko_core::agent::{AgentConfig, AgentLimits, OneOrMany, Transitions, control_tools};
use rawko_core::arbiter::{DECIDE, Templates};
use rawko_core::message::{Content, Message, Role, StopReason, ToolCall};
use rawko_core::request::ModelRequest;
use rawko_core::session::{Effect, EffectId, Event, Note, Outcome, Reaction, Session, Stamped};
use rawko_core::setup::{AgentSetup, ArbiterMode, ArbiterSetup, ModelChoice, Place, RunLimits, Setup};
use rawko_core::tool::{ToolAccess, ToolOutcome, ToolSpec};
use rawko_core::{ErrorCode, ErrorInfo, Timestamp, Usage};
use serde_json::{Value, json};

pub(crate) fn model(name: &str, context_window: Option<u32>) -> ModelChoice {
    ModelChoice {
        provider: "p".into(),
        model: name.into(),
        max_tokens: 1_000,
        context_window,
        temperature: None,
        extra: Default::default(),
    }
}

fn agent(name: &str, window: Option<u32>) -> (String, AgentSetup) {
    let config = AgentConfig {
        name: name.into(),
        display_name: None,
        when_to_use: OneOrMany::One(format!("for {name} work")),
        system_prompt: format!("You are {name}."),
        tools: Default::default(),
        transitions: Transitions::default(),
        limits: AgentLimits { max_iterations: Some(60), ..Default::default() },
        provider: Default::default(),
        memory: Default::default(),
        permissions: None,
        budget: Default::default(),
        metadata: Default::default(),
    };
    let model = model("m", window);
    (name.into(), AgentSetup { config, source: "test".into(), model, permissions: Default::default() })
}

pub(crate) fn setup(window: Option<u32>) -> Setup {
    let tool = |name: &str, access| ToolSpec {
        name: name.into(),
        description: name.into(),
        input_schema: json!({"type": "object"}),
        access,
    };
    let mut tools = control_tools();
    tools.extend([tool("Read", ToolAccess::ReadOnly), tool("Bash", ToolAccess::Mutating)]);
    Setup {
        agents: BTreeMap::from([
            agent("planner", window),
            agent("developer", window),
            agent("tester", window),
        ]),
        default_agent: None,
        first_agent: None,
        fallback: vec![],
        checkpoints: false,
        arbiter: ArbiterSetup {
            mode: ArbiterMode::Llm,
            model: model("judge", None),
            templates: Templates::default(),
            cache: Default::default(),
        },
        limits: RunLimits { max_consecutive_failures: 9, ..RunLimits::default() },
        prices: BTreeMap::new(),
        tools,
        verify: None,
        memory: None,
        place: Place { directory: "/p".into(), platform: "linux".into(), git: true, instructions: None },
    }
}

pub(crate) fn call(id: &str, name: &str, input: Value) -> Content {
    Content::ToolUse(ToolCall { id: id.into(), name: name.into(), input, invalid_input: None })
}

pub(crate) fn report(outcome: &str) -> Content {
    call("report", "Report", json!({"outcome": outcome, "summary": format!("{outcome} it was")}))
}

/// A call of `UpdatePlan` with these steps.
pub(crate) fn plan(steps: &[(&str, &str)]) -> Content {
    let steps: Vec<Value> =
        steps.iter().map(|(text, status)| json!({"description": text, "status": status})).collect();
    call("plan", "UpdatePlan", json!({ "steps": steps }))
}

pub(crate) struct Bench {
    pub(crate) session: Session,
    pub(crate) open: Vec<Effect>,
    pub(crate) notes: Vec<Note>,
    pub(crate) outcome: Option<Outcome>,
    clock: u64,
    journal: Vec<Stamped>,
    calls: usize,
}

impl Bench {
    pub(crate) fn start(setup: Setup) -> Self {
        let mut bench = Self {
            session: Session::new(),
            open: vec![],
            notes: vec![],
            outcome: None,
            clock: 1_000,
            journal: vec![],
            calls: 0,
        };
        bench.give(Event::TaskStarted { task: "make it work".into(), setup: Box::new(setup) });
        bench
    }

    pub(crate) fn give(&mut self, event: Event) -> Reaction {
        self.clock += 10;
        let stamped = Stamped { at: Timestamp(self.clock), event };
        let reaction = self.session.apply(&stamped);
        self.journal.push(stamped);
        for effect in &reaction.effects {
            match effect {
                Effect::Abandon { id } => self.open.retain(|open| open.awaits_answer() != Some(*id)),
                Effect::Finish { outcome } => self.outcome = Some(*outcome.clone()),
                other => self.open.push(other.clone()),
            }
        }
        self.notes.extend(reaction.notes.clone());
        reaction
    }

    /// The call of a model that is open.
    #[track_caller]
    pub(crate) fn asked(&self) -> (EffectId, ModelRequest) {
        let id = self.open.iter().find_map(|effect| match effect {
            Effect::CallModel { id, .. } => Some(*id),
            _ => None,
        });
        let id = id.unwrap_or_else(|| panic!("nobody is asked: {:?} {:?}", self.open, self.outcome));
        (id, self.session.request(id).expect("an open call has a request"))
    }

    /// What is asked, as text.
    #[track_caller]
    pub(crate) fn text(&self) -> String {
        let (_, request) = self.asked();
        let texts =
            request.messages.iter().flat_map(|message| &message.content).map(|content| match content {
                Content::Text { text } => text.clone(),
                Content::ToolResult { content, .. } => content.clone(),
                other => format!("{other:?}"),
            });
        texts.collect::<Vec<_>>().join("\n")
    }

    #[track_caller]
    pub(crate) fn answer(
        &mut self,
        content: Vec<Content>,
        stop_reason: StopReason,
        usage: Usage,
    ) -> Reaction {
        let (effect, _) = self.asked();
        self.open.retain(|open| open.awaits_answer() != Some(effect));
        let message = Message { role: Role::Assistant, content };
        self.give(Event::ModelReplied { effect, message, usage, stop_reason, duration_ms: 5, cached: false })
    }

    /// Answers as a provider that does not count.
    #[track_caller]
    pub(crate) fn reply(&mut self, content: Vec<Content>) -> Reaction {
        let calls = content.iter().any(|content| matches!(content, Content::ToolUse(_)));
        let stop = if calls { StopReason::ToolUse } else { StopReason::EndTurn };
        self.answer(content, stop, Usage::default())
    }

    #[track_caller]
    pub(crate) fn fail(&mut self, code: ErrorCode) {
        let (effect, _) = self.asked();
        self.open.retain(|open| open.awaits_answer() != Some(effect));
        let error = ErrorInfo::new(code, "the provider's words");
        self.give(Event::ModelFailed { effect, error, duration_ms: 5, usage: None });
    }

    #[track_caller]
    pub(crate) fn select(&mut self, mode: &str) {
        let input = json!({"decision": "SELECT_MODE", "mode": mode, "reason": "r"});
        self.reply(vec![call("d", DECIDE, input)]);
    }

    /// One turn that calls a tool, and what the tool says.
    #[track_caller]
    pub(crate) fn turn(&mut self, tool: &str, result: &str) {
        self.turn_with_words("I look.", tool, result);
    }

    /// The same with something said before.
    #[track_caller]
    pub(crate) fn turn_with_words(&mut self, words: &str, tool: &str, result: &str) {
        self.calls += 1;
        let call = call(&format!("c{}", self.calls), tool, json!({"n": self.calls}));
        self.reply(vec![Content::text(words), call]);
        self.finish_tools(&ToolOutcome::ok(result));
    }

    /// Answers all tools that run, and those that begin then.
    pub(crate) fn finish_tools(&mut self, outcome: &ToolOutcome) {
        while let Some(id) = self.open.iter().find_map(|effect| match effect {
            Effect::RunTool { id, .. } => Some(*id),
            _ => None,
        }) {
            self.open.retain(|open| open.awaits_answer() != Some(id));
            self.give(Event::ToolFinished { effect: id, outcome: outcome.clone() });
        }
    }

    /// The process is gone: everything open is lost, and the run is taken up again.
    pub(crate) fn lose_everything(&mut self) {
        for effect in std::mem::take(&mut self.open) {
            self.give(Event::EffectLost { effect: effect.awaits_answer().unwrap() });
        }
    }

    /// The fold of the events is the state.
    #[track_caller]
    pub(crate) fn check_fold(&self) {
        let mut folded = Session::new();
        for stamped in &self.journal {
            let text = serde_json::to_string(stamped).unwrap();
            let _ = folded.apply(&serde_json::from_str(&text).unwrap());
        }
        assert_eq!(folded, self.session);
    }
}
