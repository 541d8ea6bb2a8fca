//! The budget of a submission, which all workers share: a workflow keeps it, and a model call is made once its cost is
//! reserved there. When the call is over, its consumption replaces the reservation.

use std::collections::BTreeMap;

use rawko_core::session::{EffectAnswer, EffectId, Session};
use rawko_core::{ErrorCode, ErrorInfo};
use serde::{Deserialize, Serialize};
use temporalio_client::errors::{WorkflowInteractionError, WorkflowUpdateError};
use temporalio_client::{Client, WorkflowExecuteUpdateOptions};
use temporalio_common::ActivityError;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::activities::ActivityContext;
use temporalio_sdk::{
    ContinueAsNewOptions, SyncWorkflowContext, WorkflowContext, WorkflowContextView, WorkflowResult,
};

use crate::failed::{for_good, once_more};
use crate::names::BUDGET_PREFIX;
use crate::task::TaskSpec;

/// The history events after which the workflow goes on in a new run.
const HISTORY_EVENTS: u32 = 8_000;

/// What a submission may spend and has spent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SharedBudget {
    /// Most US dollars of all its tasks together.
    limit_usd: f64,
    spent_usd: f64,
    /// What calls under way may cost, by task and effect.
    reserved: BTreeMap<String, f64>,
    /// Its tasks that have not ended; with the last of them it ends.
    tasks: Vec<String>,
}

/// One call of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Charge {
    call: String,
    usd: f64,
}

impl SharedBudget {
    pub(crate) fn new(limit_usd: f64, tasks: Vec<String>) -> Self {
        Self { limit_usd, tasks, ..Self::default() }
    }

    fn used(&self) -> f64 {
        self.spent_usd + self.reserved.values().sum::<f64>()
    }

    fn refusal(&self, charge: &Charge) -> Option<String> {
        let used = self.used() - self.reserved.get(&charge.call).copied().unwrap_or_default();
        (used + charge.usd > self.limit_usd).then(|| {
            format!(
                "the submission's budget of {} US dollars has no room for a call of up to {:.4}: {used:.4} are spent or reserved",
                self.limit_usd, charge.usd
            )
        })
    }

    fn join(&mut self, tasks: Vec<String>) {
        let is_new = |task: &String| !self.tasks.contains(task);
        let new: Vec<String> = tasks.into_iter().filter(is_new).collect();
        self.tasks.extend(new);
    }

    fn settle(&mut self, charge: Charge) {
        if self.reserved.remove(&charge.call).is_some() {
            self.spent_usd += charge.usd;
        }
    }
}

/// Keeps the budget of one submission.
#[workflow]
pub(crate) struct BudgetWorkflow {
    budget: SharedBudget,
}

#[workflow_methods]
impl BudgetWorkflow {
    #[init]
    fn new(_: &WorkflowContextView, budget: SharedBudget) -> Self {
        Self { budget }
    }

    /// Gives what was spent, once all tasks have ended.
    #[run(name = "rawko.budget")]
    pub(crate) async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<f64> {
        let is_full = || ctx.history_length() >= HISTORY_EVENTS || ctx.continue_as_new_suggested();
        ctx.wait_condition(|state| state.budget.tasks.is_empty() || is_full()).await?;
        let budget = ctx.state(|state| state.budget.clone());
        if budget.tasks.is_empty() {
            return Ok(budget.spent_usd);
        }
        match ctx.continue_as_new(budget, ContinueAsNewOptions::builder().build())? {}
    }

    /// Reserves what a call may cost.
    #[update(name = "reserve")]
    pub(crate) fn reserve(&mut self, _: &mut SyncWorkflowContext<Self>, charge: Charge) {
        self.budget.reserved.insert(charge.call, charge.usd);
    }

    #[update_validator(reserve)]
    fn may_reserve(
        &self,
        _: &WorkflowContextView,
        charge: &Charge,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        match self.budget.refusal(charge) {
            Some(why) => Err(why.into()),
            None => Ok(()),
        }
    }

    /// Replaces a reservation by what the call cost.
    #[signal(name = "settle")]
    pub(crate) fn settle(&mut self, _: &mut SyncWorkflowContext<Self>, charge: Charge) {
        self.budget.settle(charge);
    }

    /// Further tasks of the submission.
    #[signal(name = "join")]
    pub(crate) fn join(&mut self, _: &mut SyncWorkflowContext<Self>, tasks: Vec<String>) {
        self.budget.join(tasks);
    }

    /// A task has ended.
    #[signal(name = "leave")]
    pub(crate) fn leave(&mut self, _: &mut SyncWorkflowContext<Self>, task: String) {
        let begin = format!("{task}/");
        // An unsettled amount may have been spent: the budget should be too narrow rather than too wide.
        let (unsettled, others) = std::mem::take(&mut self.budget.reserved)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(call, _)| call.starts_with(&begin));
        self.budget.reserved = others;
        self.budget.spent_usd += unsettled.values().sum::<f64>();
        self.budget.tasks.retain(|other| *other != task);
    }
}

/// The id of the workflow that keeps a submission's budget.
pub(crate) fn workflow_id(submission: &str) -> String {
    format!("{BUDGET_PREFIX}{submission}")
}

/// A model call whose cost a shared budget has to cover.
pub(crate) struct BudgetClaim {
    client: Client,
    submission: String,
    call: String,
    effect: EffectId,
}

impl BudgetClaim {
    /// That of a call of `spec`; `None` if its submission has no budget.
    pub(crate) fn of(ctx: &ActivityContext, spec: &TaskSpec, effect: EffectId) -> Option<Self> {
        let submission = spec.budget()?.to_owned();
        let call = format!("{}/{effect}", spec.id);
        Some(Self { client: ctx.client(), submission, call, effect })
    }

    /// Reserves the call's cost. Gives the answer in its place if the budget has no room for it.
    pub(crate) async fn reserve(&self, session: &Session) -> Result<Option<EffectAnswer>, ActivityError> {
        let refused = |why: String| {
            let error = ErrorInfo::new(ErrorCode::BudgetExceeded, why);
            Ok(Some(EffectAnswer::ModelFailed { error, duration_ms: 0, usage: None }))
        };
        let Some(usd) = session.reserved_cost(self.effect) else {
            return refused(format!(
                "the submission {} has a budget, but the price of this model is not known: give it under `prices` in the configuration",
                self.submission
            ));
        };
        let handle = self.client.get_workflow_handle::<BudgetWorkflow>(workflow_id(&self.submission));
        let charge = Charge { call: self.call.clone(), usd };
        let options = WorkflowExecuteUpdateOptions::default();
        match handle.execute_update(BudgetWorkflow::reserve, charge, options).await {
            Ok(()) => Ok(None),
            Err(WorkflowUpdateError::Failed(failure)) => refused(failure.message),
            // No other attempt would find it.
            Err(WorkflowUpdateError::NotFound(_)) => Err(for_good(format!(
                "the budget of submission {} was never opened, or has ended with the last of its tasks",
                self.submission
            ))),
            Err(error) => Err(once_more(error)),
        }
    }

    /// Replaces the reservation by what the call cost.
    pub(crate) async fn settle(&self, session: &Session, answer: &EffectAnswer) {
        let usage = match answer {
            EffectAnswer::ModelReplied { usage, cached: false, .. } => Some(*usage),
            EffectAnswer::ModelFailed { usage, .. } => *usage,
            _ => None,
        };
        let usd = usage.and_then(|usage| session.call_cost(self.effect, &usage)).unwrap_or_default();
        let handle = self.client.get_workflow_handle::<BudgetWorkflow>(workflow_id(&self.submission));
        let charge = Charge { call: self.call.clone(), usd };
        if let Err(error) = handle.signal(BudgetWorkflow::settle, charge, Default::default()).await {
            // The reservation stands: the budget is rather too narrow than too wide.
            tracing::warn!(%error, call = self.call, "the cost of a call could not be settled");
        }
    }
}

/// A task has ended: what it still has reserved counts as spent.
pub(crate) async fn leave(client: &Client, spec: &TaskSpec) -> Result<(), ActivityError> {
    let Some(submission) = spec.budget() else { return Ok(()) };
    let handle = client.get_workflow_handle::<BudgetWorkflow>(workflow_id(submission));
    match handle.signal(BudgetWorkflow::leave, spec.id.clone(), Default::default()).await {
        Ok(()) | Err(WorkflowInteractionError::NotFound(_)) => Ok(()),
        Err(error) => Err(once_more(error)),
    }
}
