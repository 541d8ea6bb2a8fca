//! The workflow of one task: it holds the pure session and the queue of its effects. Activities perform the effects; timers
//! and questions to people are the workflow's own.
//!
//! It is deterministic: time is the workflow's, what happens comes in the order of the engine's history, and every command
//! follows from the session. Large data passes through [`codec`](crate::codec), so the history has references only.

mod drive;
mod end;
mod options;

use std::collections::VecDeque;

use rawko_core::approval::Approval;
use rawko_core::session::{EffectAnswer, EffectId, Event, Outcome, Override, Session};
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{SyncWorkflowContext, WorkflowContext, WorkflowContextView, WorkflowResult};

use crate::task::{ApprovalAnswer, TaskInput};
use drive::Drive;
pub(crate) use options::priority;

/// The least of a question's digest that names it.
const LEAST_DIGEST: usize = 8;

/// Why an update is refused that comes before the session is there. The client tries it again.
pub(crate) const NOT_READY: &str = "the task is being taken up";

/// The workflow of one task.
#[workflow]
pub(crate) struct TaskWorkflow {
    input: TaskInput,
    session: Session,
    /// What people did, in order, until it is applied.
    inbox: VecDeque<Event>,
    /// Whether the session is there: before that, it is not known what would change something.
    is_ready: bool,
    /// Whether the task has ended: nothing is taken any more.
    has_ended: bool,
}

#[workflow_methods]
impl TaskWorkflow {
    #[init]
    pub(crate) fn new(_: &WorkflowContextView, input: TaskInput) -> Self {
        let inbox = input.carried.iter().flat_map(|carried| carried.inbox.clone()).collect();
        Self { input, session: Session::new(), inbox, is_ready: false, has_ended: false }
    }

    #[run(name = "rawko.task")]
    pub(crate) async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<Outcome> {
        let input = ctx.state(|state| state.input.clone());
        Drive::begin(ctx, input).await?.drive().await
    }

    /// A person answers a question.
    #[update(name = "approve")]
    pub(crate) fn approve(&mut self, _: &mut SyncWorkflowContext<Self>, answer: ApprovalAnswer) -> String {
        let ApprovalAnswer { question, allowed, by } = answer;
        // The validator has found it.
        let Some((effect, digest)) = self.open_question(&question) else { return question };
        let approval = if allowed { Approval::Allowed { by } } else { Approval::Denied { by } };
        self.inbox.push_back(Event::answered(effect, EffectAnswer::ApprovalAnswered { approval }));
        digest
    }

    #[update_validator(approve)]
    fn may_approve(
        &self,
        _: &WorkflowContextView,
        answer: &ApprovalAnswer,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        if self.has_ended {
            return Err("the task has ended: there is nothing to answer any more".into());
        }
        if !self.is_ready {
            return Err(NOT_READY.into());
        }
        if answer.question.len() < LEAST_DIGEST {
            return Err(format!(
                "the answer does not name its question: give the first {LEAST_DIGEST} characters of its digest, or more"
            )
            .into());
        }
        match self.open_question(&answer.question) {
            Some(_) => Ok(()),
            None => Err(format!(
                "no question `{}` waits: it has not been asked, or it was answered, or its time was up",
                answer.question
            )
            .into()),
        }
    }

    /// The user intervenes.
    #[update(name = "steer")]
    pub(crate) fn steer(&mut self, _: &mut SyncWorkflowContext<Self>, command: Override) {
        self.inbox.push_back(Event::OverrideRequested { command, request: None });
    }

    #[update_validator(steer)]
    fn may_steer(
        &self,
        _: &WorkflowContextView,
        command: &Override,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        if self.has_ended {
            return Err("the task has ended".into());
        }
        if !self.is_ready {
            return Err(NOT_READY.into());
        }
        match self.session.refusal(command) {
            Some(why) => Err(format!("`{}` would change nothing: {why}", command.word()).into()),
            None => Ok(()),
        }
    }

    /// Leaves the session as it is, for a process that drives it itself.
    #[signal(name = "release")]
    pub(crate) fn release(&mut self, _: &mut SyncWorkflowContext<Self>) {
        self.has_ended = true;
    }
}

impl TaskWorkflow {
    /// The open question that `digest` begins the name of, unless an answer to it waits already.
    fn open_question(&self, digest: &str) -> Option<(EffectId, String)> {
        let (effect, question) = self.session.open_question()?;
        let is_answered = self.inbox.iter().any(|event| event.answers() == Some(effect));
        let is_named = digest.len() >= LEAST_DIGEST && question.digest.starts_with(digest);
        (is_named && !is_answered).then(|| (effect, question.digest.clone()))
    }
}

type TaskWorkflowContext<'a> = &'a WorkflowContext<TaskWorkflow>;
