//! How a task stands, and how it ends: with its journal complete in the store, or left to a process that drives the session
//! itself.

use rawko_core::session::{Event, Outcome, Status};
use rawko_core::text::truncate;
use temporalio_common::MemoValue;
use temporalio_sdk::{ApplicationFailure, WorkflowCancellationToken, WorkflowResult, WorkflowTermination};

use super::drive::{Drive, EffectOutcome};
use super::options::{around, broken};
use crate::activities::TaskActivities;
use crate::names;
use crate::task::{Closed, KeepInput, Performed, TaskStatus, ToClose};
use crate::tree::CommitId;

/// Characters of a task in its status.
const TASK_CHARS: usize = 200;

impl Drive<'_> {
    /// Puts the status into the memo, if it changed.
    pub(super) fn tell(&mut self) {
        let status = self.standing();
        if self.status.as_ref() != Some(&status) {
            self.remember(status);
        }
    }

    /// How the task stands.
    fn standing(&self) -> TaskStatus {
        self.ctx.state(|state| {
            let session = &state.session;
            let context = session.context();
            let agent = context.map(|context| context.current_mode.clone()).filter(|agent| !agent.is_empty());
            TaskStatus {
                task: truncate(&self.spec.task, TASK_CHARS),
                repository: self.spec.repository.clone(),
                branch: self.spec.branch(),
                submitter: self.spec.submitter.clone(),
                submission: self.spec.submission.clone(),
                session: Some(self.session.clone()),
                state: session.state(),
                agent,
                iterations: session.executions().saturating_sub(session.earlier_executions()),
                head: None,
                is_paused: session.paused_since().is_some(),
                question: session.open_question().map(|(_, question)| question.clone()),
                outcome: None,
                merge_request: None,
            }
        })
    }

    /// The head of the task's branch, if it has one.
    fn made(&self) -> Option<CommitId> {
        (self.head != self.base).then(|| self.head.clone())
    }

    fn remember(&mut self, status: TaskStatus) {
        // A status that cannot be converted is missing; the task itself does not depend on it.
        let _ = self.ctx.upsert_memo([(names::STATUS, Some(MemoValue::new(status.clone())))]);
        self.status = Some(status);
    }

    /// Ends the task: the journal is complete in the store, and the branch is there.
    pub(super) async fn close(mut self) -> WorkflowResult<Outcome> {
        self.ctx.state_mut(|state| state.has_ended = true);
        let mut unseen_tree = self.ctx.state(|state| state.session.unseen_tree());
        let merge_request = loop {
            let Some(outcome) = self.outcome.clone() else { break None };
            let status = TaskStatus { head: self.made(), outcome: Some(outcome.clone()), ..self.standing() };
            let input = ToClose { place: self.place(), unseen_tree: unseen_tree.take(), outcome, status };
            let closed: Closed = self
                .ctx
                .execute_activity(
                    TaskActivities::close,
                    input,
                    around(&self.spec, "close", &WorkflowCancellationToken::new()),
                )
                .await
                .map_err(|error| broken("the end of the task cannot be kept", &error))?;
            match closed.inspection {
                Some(inspection) => {
                    self.happened(inspection);
                    self.outcome = self.ctx.state(|state| state.session.outcome()).or(self.outcome);
                }
                None => break closed.merge_request,
            }
        };
        self.tell();
        let status = self.status.take();
        if let Some(status) = status {
            let (head, outcome) = (self.made(), self.outcome.clone());
            self.remember(TaskStatus { head, outcome, merge_request, ..status });
        }
        let Some(outcome) = self.outcome else { return Err(WorkflowTermination::cancelled()) };
        match outcome.status {
            Status::Verified | Status::Claimed => Ok(outcome),
            Status::Cancelled => Err(WorkflowTermination::cancelled_with_details(outcome)),
            Status::Failed | Status::Limited => {
                let failure = ApplicationFailure::builder(outcome.summary.clone())
                    .type_name(outcome.status.as_str().to_owned())
                    .non_retryable(true)
                    .build();
                Err(failure.into())
            }
        }
    }

    /// Stops what is under way, and leaves the session to a process that drives it itself.
    pub(super) async fn release(mut self) -> WorkflowResult<Outcome> {
        for running in &self.running {
            running.token.cancel();
        }
        for running in std::mem::take(&mut self.running) {
            if let EffectOutcome::Performed(performed) = running.future.await
                && let Ok(Performed { answer, head }) = *performed
            {
                // It was done before it could be stopped.
                self.head = head.unwrap_or_else(|| self.head.clone());
                self.happened(Event::answered(running.effect, answer));
            }
        }
        self.ctx
            .execute_activity(
                TaskActivities::keep,
                KeepInput {
                    place: self.place(),
                    status: TaskStatus { head: self.made(), ..self.standing() },
                },
                around(&self.spec, "keep", &WorkflowCancellationToken::new()),
            )
            .await
            .map_err(|error| broken("the session cannot be kept", &error))?;
        self.tell();
        if let Some(status) = self.status.take() {
            let head = self.made();
            self.remember(TaskStatus { head, ..status });
        }
        Err(WorkflowTermination::cancelled())
    }
}
