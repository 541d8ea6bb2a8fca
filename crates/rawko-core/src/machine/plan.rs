//! The plan: steps, statuses, and how updates are merged into it (SPEC-0003).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A structured plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Plan {
    /// The steps, in order.
    pub steps: Vec<PlanStep>,
    /// Position in `steps` of the step being worked on, from 0.
    pub current_step_index: usize,
    /// Whether nothing is left to do.
    pub is_complete: bool,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanStep {
    /// Number for people, from 1.
    pub index: usize,
    /// What is to be done.
    pub description: String,
    /// How far it is.
    pub status: StepStatus,
    /// Which agent did it, once one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_used: Option<String>,
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not begun.
    Pending,
    /// Being worked on.
    InProgress,
    /// Done.
    Complete,
    /// Tried without success.
    Failed,
    /// Left out on request.
    Skipped,
}

/// Fields of a plan that an agent changed. Those given replace the plan's (shallow merge, SPEC-0003).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanUpdates {
    /// New steps, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<PlanStep>>,
    /// New position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_step_index: Option<usize>,
    /// New completeness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_complete: Option<bool>,
}
