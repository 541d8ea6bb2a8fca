//! A question to the arbiter as data: what is known, who can be chosen, and what either point asks for.
//!
//! Owns what a prompt, the rules and the fallback are made from, so that a question of a run, one of a journal and a
//! labelled situation are the same thing. How it is put to a model is the session's.

use super::fallback::Fallback;
use super::input::{AgentDescription, EvaluateProgressInput, SelectAgentInput};
use super::prompt::{Prompt, Templates};
use super::rules::{Ruling, rule_on_progress, rule_on_selection};
use crate::machine::Decision;

/// A question to the arbiter.
#[derive(Debug, Clone, PartialEq)]
pub enum Inquiry {
    /// Who works next?
    Select(Box<SelectAgentInput>),
    /// How does it go on?
    Evaluate {
        /// What is known.
        input: Box<EvaluateProgressInput>,
        /// Who could work next; SPEC-0006 has no place for them in the input.
        agents: Vec<AgentDescription>,
    },
}

impl Inquiry {
    /// The agents that can be chosen.
    #[must_use]
    pub fn agents(&self) -> &[AgentDescription] {
        match self {
            Self::Select(input) => &input.available_agents,
            Self::Evaluate { input: _, agents } => agents,
        }
    }

    /// Their names.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.agents().iter().map(|agent| agent.name.clone()).collect()
    }

    /// Whether there is an agent that could go on or try again.
    #[must_use]
    pub fn some_agent_ran(&self) -> bool {
        match self {
            Self::Select(input) => some_agent_ran(input),
            Self::Evaluate { .. } => true,
        }
    }

    /// The words in which a model is asked.
    #[must_use]
    pub fn prompt(&self, templates: &Templates) -> Prompt {
        match self {
            Self::Select(input) => templates.select(input),
            Self::Evaluate { input, agents } => templates.evaluate(input, agents),
        }
    }

    /// What the rules say, where they say anything.
    #[must_use]
    pub fn rule(&self) -> Option<Ruling> {
        match self {
            Self::Select(input) => rule_on_selection(input),
            Self::Evaluate { input, agents } => rule_on_progress(input, agents),
        }
    }

    /// What the rules say, and the fallback where they say nothing. `None` only where there is no agent at all.
    #[must_use]
    pub fn rule_or_fallback(&self, default: Option<&str>) -> Option<Ruling> {
        let fallback = || {
            let decision = self.fallback(default)?;
            Some(Ruling { decision, rule: "fallback", certain: false })
        };
        self.rule().or_else(fallback)
    }

    /// What holds without a usable answer (ADR-0005). `None` only where there is no agent at all.
    #[must_use]
    pub fn fallback(&self, default: Option<&str>) -> Option<Decision> {
        let fallback = Fallback { agents: self.agents(), default };
        match self {
            Self::Select(input) => fallback.select(input),
            Self::Evaluate { input, .. } => Some(fallback.evaluate(input)),
        }
    }
}

/// An error before the first agent is the arbiter's own.
pub(super) fn some_agent_ran(input: &SelectAgentInput) -> bool {
    let met = |name: &str| name != super::construct::NOBODY;
    !input.history.is_empty() || input.last_error.as_ref().is_some_and(|error| met(&error.agent))
}
