//! A test bench for one agent's work: that of the session, with models that do not count and tools that answer at once.

#![allow(dead_code)]

#[path = "../session_support/mod.rs"]
mod session_support;

use rawko_core::arbiter::DECIDE;
use rawko_core::message::{Content, Message, Role, StopReason};
use rawko_core::request::ModelRequest;
use rawko_core::session::{Effect, EffectAnswer, EffectId, Event, Reaction, Session};
use rawko_core::setup::{ModelChoice, Setup};
use rawko_core::tool::ToolOutcome;
use rawko_core::{ErrorCode, ErrorInfo, Usage};
use serde_json::{Value, json};
pub(crate) use session_support::call;

pub(crate) fn model(name: &str, context_window: Option<u32>) -> ModelChoice {
    ModelChoice { context_window, ..session_support::model(name) }
}

/// Three agents with many turns and this context window, two tools, and high limits.
pub(crate) fn setup(window: Option<u32>) -> Setup {
    let mut setup = session_support::setup();
    setup.agents = ["planner", "developer", "tester"].map(|name| session_support::agent(name, 60)).into();
    for agent in setup.agents.values_mut() {
        agent.model = model("m", window);
    }
    // Other tools are denied.
    setup.tools.retain(|tool| !["Grep", "Write"].contains(&tool.name.as_str()));
    setup.limits.max_consecutive_failures = 9;
    setup
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
    bench: session_support::Bench,
    calls: usize,
}

impl std::ops::Deref for Bench {
    type Target = session_support::Bench;

    fn deref(&self) -> &Self::Target {
        &self.bench
    }
}

impl std::ops::DerefMut for Bench {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.bench
    }
}

impl Bench {
    pub(crate) fn start(setup: Setup) -> Self {
        Self { bench: session_support::Bench::start(setup), calls: 0 }
    }

    /// The call of a model that is open.
    #[track_caller]
    pub(crate) fn asked(&self) -> (EffectId, ModelRequest) {
        let id = self.open.iter().find_map(|effect| match effect {
            Effect::CallModel { id, .. } => Some(*id),
            _ => None,
        });
        let id = id.unwrap_or_else(|| panic!("no model is asked: {:?} {:?}", self.open, self.outcome));
        (id, self.requests[&id].clone())
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
        self.give(Event::Answered {
            effect,
            answer: EffectAnswer::ModelReplied { message, usage, stop_reason, duration_ms: 5, cached: false },
        })
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
        self.give(Event::Answered {
            effect,
            answer: EffectAnswer::ModelFailed { error, duration_ms: 5, usage: None },
        });
    }

    #[track_caller]
    pub(crate) fn select(&mut self, mode: &str) {
        let input = json!({"decision": "SELECT_MODE", "mode": mode, "reason": "r"});
        self.reply(vec![call("d", DECIDE, input)]);
    }

    /// One turn that calls a tool, and the tool's result.
    #[track_caller]
    pub(crate) fn turn(&mut self, tool: &str, result: &str) {
        self.turn_with_words("I look.", tool, result);
    }

    /// The same with text before the call.
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
            self.give(Event::Answered {
                effect: id,
                answer: EffectAnswer::ToolFinished { outcome: outcome.clone() },
            });
        }
    }

    /// The process is gone: everything open is lost, and the run is resumed.
    pub(crate) fn lose_everything(&mut self) {
        for effect in std::mem::take(&mut self.open) {
            self.give(Event::Answered {
                effect: effect.awaits_answer().unwrap(),
                answer: EffectAnswer::EffectLost,
            });
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
