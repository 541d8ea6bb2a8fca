//! The activities: what a worker does for a task. Each can be done by any worker, any number of times, with one result.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rawko_core::session::{EffectId, Stamped};
use temporalio_common::ActivityError;
use temporalio_macros::activities;
use temporalio_sdk::activities::ActivityContext;

use crate::budget::{self, BudgetClaim};
use crate::codec::MOST_BYTES;
use crate::failed::{for_good, hand_back_for, why_handed_back};
use crate::faults::FaultDomain;
use crate::perform::{self, Attempt};
use crate::shown::EngineState;
use crate::task::{BegunTask, Closed, KeepInput, Performed, TaskSpec, ToClose, ToLoad, ToPerform};
use crate::workspace::Workspaces;

/// The longest time between two heartbeats that are sent: they carry cancellations. Several of them pass before a worker counts as
/// lost, so that one may be late.
pub(crate) const HEARTBEATS: Duration = Duration::from_secs(2);

/// Attempts at one activity that count: with the pauses between them, about three quarters of an hour of trying.
const MOST_ATTEMPTS: u32 = 100;

/// The pause before what was handed back is offered again. It grows by as much each time.
const FIRST_OFFER: Duration = Duration::from_secs(1);
/// The longest of these pauses.
const LONGEST_OFFER: Duration = Duration::from_secs(10);

/// What one worker process needs for its activities.
pub(crate) struct TaskActivities {
    pub(crate) workspaces: Arc<Workspaces>,
}

#[activities]
impl TaskActivities {
    /// Begins a task: resolves the commit, reads the project's configuration there, makes the first event.
    #[activity(name = "rawko.begin")]
    pub(crate) async fn begin(
        self: Arc<Self>,
        ctx: ActivityContext,
        spec: TaskSpec,
    ) -> Result<BegunTask, ActivityError> {
        let (all, begun) = (Arc::clone(&self.workspaces), spec.clone());
        self.carry(ctx, &begun, async move { all.begin(&spec).await }).await
    }

    /// Events of a session so far: as many as fit into one answer, at least one.
    #[activity(name = "rawko.load")]
    pub(crate) async fn load(
        self: Arc<Self>,
        ctx: ActivityContext,
        input: ToLoad,
    ) -> Result<Vec<Stamped>, ActivityError> {
        let (all, spec) = (Arc::clone(&self.workspaces), input.place.spec.clone());
        let load = async move {
            let ToLoad { place, from } = input;
            all.store_tail(&place).await?;
            all.page(&place.spec.id, from, place.events()).await
        };
        self.carry(ctx, &spec, load).await
    }

    /// Keeps the events that are not in the store yet, of a session that goes on elsewhere.
    #[activity(name = "rawko.keep")]
    pub(crate) async fn keep(
        self: Arc<Self>,
        ctx: ActivityContext,
        input: KeepInput,
    ) -> Result<(), ActivityError> {
        let (all, client, spec) = (Arc::clone(&self.workspaces), ctx.client(), input.place.spec.clone());
        let keep = async move {
            let KeepInput { place, status } = input;
            all.store_tail(&place).await?;
            perform::restore(&all, &place).await?;
            budget::leave(&client, &place.spec).await?;
            all.close(&place.spec, EngineState::Cancelled, status).await
        };
        self.carry(ctx, &spec, keep).await
    }

    /// Asks a model.
    #[activity(name = "rawko.model")]
    pub(crate) async fn model(
        self: Arc<Self>,
        ctx: ActivityContext,
        input: ToPerform,
    ) -> Result<Performed, ActivityError> {
        let reservation = BudgetClaim::of(&ctx, &input.place.spec, EffectId(input.effect));
        self.perform(ctx, input, reservation).await
    }

    /// Runs a tool, takes a checkpoint, recalls or keeps memories.
    #[activity(name = "rawko.step")]
    pub(crate) async fn step(
        self: Arc<Self>,
        ctx: ActivityContext,
        input: ToPerform,
    ) -> Result<Performed, ActivityError> {
        self.perform(ctx, input, None).await
    }

    /// Runs the verification commands.
    #[activity(name = "rawko.verify")]
    pub(crate) async fn verify(
        self: Arc<Self>,
        ctx: ActivityContext,
        input: ToPerform,
    ) -> Result<Performed, ActivityError> {
        self.perform(ctx, input, None).await
    }

    /// Ends a task: its journal is complete in the store, its branch on the remote.
    #[activity(name = "rawko.close")]
    pub(crate) async fn close(
        self: Arc<Self>,
        ctx: ActivityContext,
        input: ToClose,
    ) -> Result<Closed, ActivityError> {
        let (all, client, spec) = (Arc::clone(&self.workspaces), ctx.client(), input.place.spec.clone());
        let close = async move {
            let ToClose { place, unseen_tree, outcome, status } = input;
            let closed = perform::close(&all, &place, unseen_tree, &outcome, status).await?;
            if closed.inspection.is_none() {
                budget::leave(&client, &place.spec).await?;
            }
            Ok(closed)
        };
        self.carry(ctx, &spec, close).await
    }
}

impl TaskActivities {
    async fn perform(
        self: Arc<Self>,
        ctx: ActivityContext,
        input: ToPerform,
        reservation: Option<BudgetClaim>,
    ) -> Result<Performed, ActivityError> {
        let attempt = Attempt { effect: input.effect, number: ctx.info().attempt };
        let (all, spec) = (Arc::clone(&self.workspaces), input.place.spec.clone());
        let work = async move { perform::perform(&all, &input.place, attempt, reservation).await };
        let performed = self.carry(ctx, &spec, work).await?;
        check_size(&performed, MOST_BYTES)?;
        Ok(performed)
    }

    /// Does `work` for a task, unless this worker is not the one for it. Then the task is handed back: that attempt does not count.
    async fn carry<T: Send + 'static>(
        &self,
        ctx: ActivityContext,
        spec: &TaskSpec,
        work: impl Future<Output = Result<T, ActivityError>> + Send + 'static,
    ) -> Result<T, ActivityError> {
        let (all, kind) = (Arc::clone(&self.workspaces), FaultDomain::of(&ctx.info().task_queue, spec));
        // An attempt says how many before it were handed back.
        let handed_back: u32 = ctx.heartbeat_details().deserialize().ok().flatten().unwrap_or_default();
        let counted = ctx.info().attempt.saturating_sub(handed_back);
        if counted > MOST_ATTEMPTS {
            return Err(for_good(format!("its worker was lost {MOST_ATTEMPTS} times")));
        }
        let (pause, mark) = (all.faults.pause(&kind), spec.carriage.store.clone());
        let checked = async move {
            tokio::time::sleep(pause).await;
            all.check_store(mark.as_deref()).await?;
            work.await
        };
        let done = alive(&ctx, handed_back, checked.boxed()).await;
        match done {
            Ok(done) => {
                self.workspaces.faults.gone(&kind);
                Ok(done)
            }
            Err(error) => {
                if let Some(why) = why_handed_back(&error) {
                    self.workspaces.faults.found(&kind, &spec.id, &why);
                    let _ = ctx.record_heartbeat(handed_back + 1).await;
                    // The engine's own pauses would soon be long, and the worker that can do it may be free.
                    let pause = FIRST_OFFER.saturating_mul(handed_back + 1).min(LONGEST_OFFER);
                    return Err(hand_back_for(why, pause));
                }
                match error {
                    ActivityError::Application(failure) if counted >= MOST_ATTEMPTS => {
                        Err(for_good(failure.to_string()))
                    }
                    error => Err(error),
                }
            }
        }
    }
}

/// Refuses a result that is larger than `most` bytes: no other attempt would make it smaller.
fn check_size(performed: &Performed, most: usize) -> Result<(), ActivityError> {
    match serde_json::to_vec(performed) {
        Ok(bytes) if bytes.len() > most => Err(for_good(format!(
            "the result has {} bytes, and a fleet carries {most}: let the tool give less",
            bytes.len()
        ))),
        Ok(_) => Ok(()),
        Err(error) => Err(for_good(error)),
    }
}

/// Does `work`, and sends the engine heartbeats meanwhile. When the engine cancels it, or this worker ends, it is
/// dropped, and its child processes with it.
async fn alive<T>(
    ctx: &ActivityContext,
    handed_back: u32,
    mut work: BoxFuture<'static, Result<T, ActivityError>>,
) -> Result<T, ActivityError> {
    let every = ctx.info().heartbeat_timeout.map_or(HEARTBEATS, |timeout| timeout / 5);
    let mut beat = tokio::time::interval(every.clamp(Duration::from_millis(50), HEARTBEATS));
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = ctx.cancelled() => break,
            _ = beat.tick() => {
                let _ = ctx.record_heartbeat(handed_back).await;
            }
        }
    }
    drop(work);
    // The engine is informed of the cancellation when the child processes are dead.
    let _ = tokio::task::spawn_blocking(rawko_tools::settle).await;
    Err(ActivityError::cancelled())
}

#[cfg(test)]
mod tests {
    use rawko_core::session::EffectAnswer;
    use rawko_core::tool::ToolOutcome;

    use super::*;
    use crate::failed::Failing;

    #[test]
    fn a_result_that_is_too_large_is_an_error_for_the_agent() {
        let outcome = ToolOutcome { content: "x".repeat(2_000), ..ToolOutcome::default() };
        let performed = Performed { answer: EffectAnswer::ToolFinished { outcome }, head: None };
        assert!(check_size(&performed, 4_000).is_ok());
        let Err(ActivityError::Application(failure)) = check_size(&performed, 1_000) else {
            panic!("it is not refused")
        };
        assert!(failure.is_non_retryable());
        let EffectAnswer::ToolFinished { outcome } = Failing::Tool.answer(&failure.to_string()) else {
            panic!("no answer of a tool")
        };
        let text = format!("{:?}", outcome.content);
        assert!(outcome.is_error && text.contains("bytes, and a fleet carries 1000"), "{text}");
    }
}
