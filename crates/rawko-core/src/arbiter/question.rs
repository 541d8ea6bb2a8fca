//! A question to the arbiter as data: its input and the agents that can be chosen.
//!
//! Prompt, rules and fallback all start from it, so that a question of a run, one from a journal and a labelled
//! situation are the same type. The session sends it to a model.

use super::case::{Case, Ruling};
use super::fallback::Fallback;
use super::input::{AgentDescription, EvaluateProgressInput, SelectAgentInput};
use super::prompt::{Prompt, Templates};
use super::rules::{rule_on_progress, rule_on_selection};
use crate::machine::Decision;

/// A question to the arbiter.
#[derive(Debug, Clone, PartialEq)]
pub enum ArbiterQuestion {
    /// Which agent works next?
    Select(Box<SelectAgentInput>),
    /// What follows the last execution?
    Evaluate {
        /// The input.
        input: Box<EvaluateProgressInput>,
        /// The agents that can be chosen; the input for evaluation has no field for them.
        agents: Vec<AgentDescription>,
    },
}

impl ArbiterQuestion {
    /// The agents that can be chosen.
    #[must_use]
    pub fn agents(&self) -> &[AgentDescription] {
        match self {
            Self::Select(input) => &input.available_agents,
            Self::Evaluate { input: _, agents } => agents,
        }
    }

    /// The names of these agents.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.agents().iter().map(|agent| agent.name.clone()).collect()
    }

    /// Whether some agent has already run, so that CONTINUE and RETRY are possible.
    #[must_use]
    pub fn some_agent_ran(&self) -> bool {
        match self {
            Self::Select(input) => input.some_agent_ran(),
            Self::Evaluate { .. } => true,
        }
    }

    /// The prompt for a model.
    #[must_use]
    pub fn prompt(&self, templates: &Templates) -> Prompt {
        match self {
            Self::Select(input) => templates.select(input),
            Self::Evaluate { input, agents } => templates.evaluate(input, agents),
        }
    }

    /// The ruling of the rules, if one fits.
    #[must_use]
    pub fn rule(&self) -> Option<Ruling> {
        match self {
            Self::Select(input) => rule_on_selection(input),
            Self::Evaluate { input, agents } => rule_on_progress(input, agents),
        }
    }

    /// A decision as a run follows it.
    ///
    /// # Errors
    /// The ruling that replaces the decision, if that is a COMPLETE against the record, or against a verification that
    /// failed on this tree and would fail again.
    pub fn checked(&self, decision: Decision) -> Result<Decision, Ruling> {
        let case = match self {
            Self::Select(input) => Case::of_selection(input),
            Self::Evaluate { input, agents } => Case::of_progress(input, agents),
        };
        // In a run, the verification is done again for each COMPLETE.
        let red = || {
            let is_red =
                case.facts.verification.as_ref().is_some_and(|facts| !facts.passed && !facts.is_stale);
            let is_done = matches!(decision, Decision::Complete { .. });
            (is_red && is_done).then(|| case.back_to_work("The verification commands failed on this tree"))
        };
        match case.against_record(&decision).or_else(red) {
            Some(ruling) => Err(ruling),
            None => Ok(decision),
        }
    }

    /// The ruling of the rules, or the fallback if none fits. `None` only if there are no agents.
    #[must_use]
    pub fn rule_or_fallback(&self, default: Option<&str>) -> Option<Ruling> {
        let fallback = || {
            let decision = self.fallback(default)?;
            Some(Ruling { decision, rule: "fallback", certain: false })
        };
        self.rule().or_else(fallback)
    }

    /// The fallback without a usable answer. `None` only if there are no agents.
    #[must_use]
    pub fn fallback(&self, default: Option<&str>) -> Option<Decision> {
        let fallback = Fallback { agents: self.agents(), default };
        match self {
            Self::Select(input) => fallback.select(input),
            Self::Evaluate { input, .. } => Some(fallback.evaluate(input)),
        }
    }
}
