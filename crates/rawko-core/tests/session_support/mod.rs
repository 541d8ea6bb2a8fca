//! A minimal driver, for tests of the session.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::default_trait_access,
    dead_code,
    unused_imports
)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use rawko_core::agent::{AgentConfig, AgentLimits, OneOrMany, Transitions, control_tools};
use rawko_core::arbiter::{DECIDE, Templates};
use rawko_core::machine::State;
use rawko_core::message::{Content, Message, Role, StopReason, ToolCall};
use rawko_core::request::ModelRequest;
use rawko_core::session::{
    DecisionSource, Effect, EffectAnswer, EffectId, Event, Note, Outcome, Override, Reaction, Session,
    Stamped, Status, TimerPurpose,
};
use rawko_core::setup::{
    AgentSetup, ArbiterMode, ArbiterSetup, ModelChoice, ProjectContext, RunLimits, Setup,
};
use rawko_core::tool::{ToolAccess, ToolOutcome, ToolSpec};
use rawko_core::{ErrorCode, ErrorInfo, Timestamp, Usage};
use serde_json::{Value, json};

pub(crate) fn model(name: &str) -> ModelChoice {
    ModelChoice {
        provider: "p".into(),
        model: name.into(),
        max_tokens: 1_000,
        context_window: None,
        max_output: None,
        thinking_room: 0,
        bound_thinking: true,
        temperature: None,
        extra: Default::default(),
        search: None,
    }
}

pub(crate) fn agent(name: &str, max_turns: u32) -> (String, AgentSetup) {
    let config = AgentConfig {
        name: name.into(),
        display_name: None,
        when_to_use: OneOrMany::One(format!("for {name} work")),
        role: None,
        system_prompt: format!("You are {name}."),
        tools: Default::default(),
        transitions: Transitions::default(),
        limits: AgentLimits { max_iterations: Some(max_turns), ..Default::default() },
        budget: Default::default(),
        provider: Default::default(),
        acp: None,
        memory: Default::default(),
        skills: None,
        permissions: None,
        metadata: Default::default(),
    };
    (
        name.into(),
        AgentSetup {
            config,
            source: "test".into(),
            model: model("m"),
            permissions: Default::default(),
            confined: false,
        },
    )
}

pub(crate) fn tool(name: &str, access: ToolAccess) -> ToolSpec {
    let input_schema = json!({"type": "object"});
    ToolSpec { name: name.into(), description: name.into(), input_schema, access }
}

pub(crate) fn setup() -> Setup {
    let mut tools = control_tools();
    tools.extend([
        tool("Read", ToolAccess::ReadOnly),
        tool("Grep", ToolAccess::ReadOnly),
        tool("Write", ToolAccess::Mutating),
        tool("Bash", ToolAccess::Mutating),
    ]);
    Setup {
        agents: BTreeMap::from([agent("planner", 4), agent("developer", 6)]),
        default_agent: None,
        first_agent: None,
        fallback: vec![],
        checkpoints: false,
        arbiter: ArbiterSetup {
            mode: ArbiterMode::Llm,
            model: model("judge"),
            templates: Templates::default(),
            cache: Default::default(),
            most_tokens: Some(16_000),
        },
        retry: None,
        limits: RunLimits::default(),
        prices: BTreeMap::new(),
        tools,
        left_out: Vec::new(),
        hooks: Default::default(),
        verify: None,
        memory: None,
        place: ProjectContext {
            directory: "/p".into(),
            platform: "linux".into(),
            git: true,
            ..ProjectContext::default()
        },
        attachments: Vec::new(),
    }
}

/// A minimal driver: keeps the open effects in order and the events given, as a journal would.
pub(crate) struct Bench {
    pub(crate) session: Session,
    pub(crate) clock: u64,
    pub(crate) journal: Vec<Stamped>,
    pub(crate) open: Vec<Effect>,
    pub(crate) notes: Vec<Note>,
    /// Those of all model calls.
    pub(crate) requests: BTreeMap<EffectId, ModelRequest>,
    pub(crate) outcome: Option<Outcome>,
}

impl Bench {
    pub(crate) fn start(setup: Setup) -> Self {
        let mut bench = Self {
            session: Session::new(),
            clock: 1_000,
            journal: vec![],
            open: vec![],
            notes: vec![],
            requests: BTreeMap::new(),
            outcome: None,
        };
        bench.give(Event::TaskStarted {
            task: "make it work".into(),
            setup: Box::new(setup),
            shared_events: 0,
        });
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
        self.requests.extend(reaction.requests.clone());
        reaction
    }

    pub(crate) fn take(&mut self, which: impl Fn(&Effect) -> bool) -> Effect {
        let at = self.open.iter().position(which).unwrap_or_else(|| panic!("not open: {:#?}", self.open));
        self.open.remove(at)
    }

    #[track_caller]
    pub(crate) fn reply(&mut self, content: Vec<Content>, stop_reason: StopReason) -> Reaction {
        let effect = self.take(|effect| matches!(effect, Effect::CallModel { .. }));
        let effect = effect.awaits_answer().unwrap();
        assert!(self.requests.contains_key(&effect));
        let usage = Usage { input_tokens: 100, output_tokens: 10, ..Usage::default() };
        let message = Message { role: Role::Assistant, content };
        self.give(Event::Answered {
            effect,
            answer: EffectAnswer::ModelReplied { message, usage, stop_reason, duration_ms: 5, cached: false },
        })
    }

    #[track_caller]
    pub(crate) fn decide(&mut self, input: Value) -> Reaction {
        self.reply(vec![call("d", DECIDE, input)], StopReason::ToolUse)
    }

    #[track_caller]
    pub(crate) fn select(&mut self, mode: &str) {
        self.decide(json!({"decision": "SELECT_MODE", "mode": mode, "reason": "r"}));
    }

    #[track_caller]
    pub(crate) fn report(&mut self, outcome: &str) {
        let input = json!({"outcome": outcome, "summary": format!("{outcome} it was")});
        self.reply(vec![call("r", "Report", input)], StopReason::ToolUse);
    }

    #[track_caller]
    pub(crate) fn fail_model(&mut self, code: ErrorCode) {
        let effect = self.take(|effect| matches!(effect, Effect::CallModel { .. }));
        let effect = effect.awaits_answer().unwrap();
        self.give(Event::Answered {
            effect,
            answer: EffectAnswer::ModelFailed {
                error: ErrorInfo::new(code, "m"),
                duration_ms: 5,
                usage: None,
            },
        });
    }

    #[track_caller]
    pub(crate) fn fire(&mut self, wanted: TimerPurpose) {
        let timer =
            self.take(|effect| matches!(effect, Effect::StartTimer { purpose, .. } if *purpose == wanted));
        self.give(Event::Answered {
            effect: timer.awaits_answer().unwrap(),
            answer: EffectAnswer::TimerFired,
        });
    }

    pub(crate) fn running(&self) -> Vec<(EffectId, String)> {
        self.open
            .iter()
            .filter_map(|effect| match effect {
                Effect::RunTool { id, call, .. } => Some((*id, call.name.clone())),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn finish_tool(&mut self, effect: EffectId, outcome: ToolOutcome) {
        self.open.retain(|open| open.awaits_answer() != Some(effect));
        self.give(Event::Answered { effect, answer: EffectAnswer::ToolFinished { outcome } });
    }

    /// Answers the open effect of that kind with what `event` makes of its id.
    #[track_caller]
    pub(crate) fn answer(
        &mut self,
        which: impl Fn(&Effect) -> bool,
        event: impl FnOnce(EffectId) -> Event,
    ) -> Reaction {
        let effect = self.take(which).awaits_answer().unwrap();
        self.give(event(effect))
    }

    /// The request that is open, as text.
    #[track_caller]
    pub(crate) fn asked(&self) -> String {
        let effect = self.open.iter().find(|effect| matches!(effect, Effect::CallModel { .. }));
        let request = &self.requests[&effect.unwrap().awaits_answer().unwrap()];
        format!("{}\n{:#?}", request.system, request.messages)
    }

    #[track_caller]
    pub(crate) fn ended(&self, status: Status) -> &Outcome {
        let outcome = self.outcome.as_ref().expect("the run should be over");
        assert_eq!(outcome.status, status, "{outcome:?}");
        assert!(self.open.is_empty(), "{:?}", self.open);
        assert_eq!(self.session.open_effects().count(), 0);
        // Folding the journal gives the state.
        let mut folded = Session::new();
        for stamped in &self.journal {
            let _ = folded.apply(stamped);
        }
        assert_eq!(folded, self.session);
        outcome
    }
}

pub(crate) fn call(id: &str, name: &str, input: Value) -> Content {
    Content::ToolUse(ToolCall {
        id: id.into(),
        name: name.into(),
        input,
        invalid_input: None,
        withheld: None,
    })
}
