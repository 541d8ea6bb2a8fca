//! The workflow of one task: it holds the pure session and the queue of its effects. Activities perform the effects; timers
//! and questions to people are the workflow's own.
//!
//! It is deterministic: time is the workflow's, what happens comes in the order of the engine's history, and every command
//! follows from the session. Large data passes through [`codec`](crate::codec), so the history has references only.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, UNIX_EPOCH};

use futures_util::future::LocalBoxFuture;
use futures_util::{FutureExt as _, pin_mut};
use rawko_core::Timestamp;
use rawko_core::approval::Approval;
use rawko_core::session::{
    Effect, EffectAnswer, EffectId, Event, Outcome, Override, Session, Stamped, Status,
};
use rawko_core::text::truncate;
use temporalio_common::error::ActivityExecutionError;
use temporalio_common::{ActivityCloseTimeouts, MemoValue, Priority, RetryPolicy};
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{
    ActivityCancellationType, ActivityOptions, ApplicationFailure, ContinueAsNewOptions, SyncWorkflowContext,
    TimerOptions, WaitConditionOptions, WorkflowCancellationToken, WorkflowContext, WorkflowContextView,
    WorkflowResult, WorkflowTermination,
};

use crate::activities::TaskActivities;
use crate::failed::{FOR_GOOD, Failing};
use crate::names;
use crate::task::{
    ActivityInput, ApprovalAnswer, BegunTask, Carried, Closed, EffectQueue, KeepInput, Performed, TaskInput,
    TaskSpec, TaskStatus, ToClose, ToLoad, ToPerform,
};
use crate::tree::CommitId;

/// Characters of a task in its status.
const TASK_CHARS: usize = 200;
/// The least of a question's digest that names it.
const LEAST_DIGEST: usize = 8;
/// The longest key for equal shares that the engine takes, in bytes.
const LONGEST_KEY: usize = 64;
/// The least of history events of a run: below, it would hand over before it has begun an effect.
const LEAST_EVENTS: u32 = 30;

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

/// An effect that has begun.
struct RunningEffect<'a> {
    effect: EffectId,
    /// The events that its activity brings into the store; none for a timer or a question.
    events: Option<u64>,
    /// How it is answered if no worker can perform it.
    failing: Option<Failing>,
    token: WorkflowCancellationToken,
    future: LocalBoxFuture<'a, EffectOutcome>,
}

/// How an effect ended.
enum EffectOutcome {
    Performed(Box<Result<Performed, ActivityExecutionError>>),
    /// The workflow did it itself.
    Here(Box<EffectAnswer>),
    /// Its answer is no longer wanted.
    Dropped,
}

/// What the workflow waits for.
enum Wakeup {
    Ended(EffectId, EffectOutcome),
    Inbox,
    Cancelled(String),
}

/// One run of the workflow.
struct Drive<'a> {
    ctx: TaskWorkflowContext<'a>,
    spec: TaskSpec,
    session: String,
    base: CommitId,
    head: CommitId,
    /// The effect that made it, of those that were performed in this run of the workflow.
    head_of: EffectId,
    /// Events that are in the store for certain.
    stored: u64,
    /// Those after them.
    tail: Vec<Stamped>,
    /// Effects that have not begun, with the time at which they were issued.
    waiting: VecDeque<(Effect, Timestamp)>,
    running: Vec<RunningEffect<'a>>,
    is_cancelled: bool,
    outcome: Option<Outcome>,
    status: Option<TaskStatus>,
}

impl<'a> Drive<'a> {
    /// Begins the task, or goes on with what is there.
    async fn begin(ctx: TaskWorkflowContext<'a>, input: TaskInput) -> Result<Self, WorkflowTermination> {
        let TaskInput { spec, carried } = input;
        let Some(carried) = carried else {
            let token = WorkflowCancellationToken::new();
            let options = around(&spec, "begin", &token);
            let begun = ctx.execute_activity(TaskActivities::begin, spec.clone(), options);
            let begun = unless_stopped(ctx, begun, &token)
                .await
                .ok_or_else(WorkflowTermination::cancelled)?
                .map_err(|error| broken("the task cannot begin", &error))?;
            let BegunTask { session, base, event } = begun;
            let mut drive = Self::of(ctx, spec, session, base.clone(), base, 0, Vec::new());
            drive.happened(event);
            return Ok(drive);
        };
        let Carried { session, base, head, stored, tail, inbox: _, from_elsewhere } = carried;
        let place = ActivityInput {
            spec: spec.clone(),
            session: session.clone(),
            base: base.clone(),
            head: head.clone(),
            stored,
            tail: tail.clone(),
        };
        let (all, mut events) = (place.events(), Vec::new());
        while (events.len() as u64) < all {
            let input = ToLoad { place: place.clone(), from: events.len() as u64 };
            let page: Vec<Stamped> = ctx
                .execute_activity(
                    TaskActivities::load,
                    input,
                    around(&spec, "load", &WorkflowCancellationToken::new()),
                )
                .await
                .map_err(|error| broken("the task cannot go on", &error))?;
            events.extend(page);
        }
        let mut drive = Self::of(ctx, spec, session, base, head, stored, tail);
        let mut issued = BTreeMap::new();
        ctx.state_mut(|state| {
            for stamped in &events {
                let reaction = state.session.apply(stamped);
                issued.extend(reaction.effects.into_iter().filter_map(|effect| {
                    let id = effect.awaits_answer()?;
                    Some((id, (effect, stamped.at)))
                }));
            }
        });
        let open: Vec<EffectId> = ctx.state(|state| state.session.open_effects().collect());
        if from_elsewhere {
            // Its inbox says how it goes on. Effects that were under way there are lost.
            while let Some(event) = ctx.state_mut(|state| state.inbox.pop_front()) {
                drive.happened(event);
            }
            for effect in open {
                drive.happened(Event::answered(effect, EffectAnswer::EffectLost));
            }
        } else {
            drive.waiting.extend(open.into_iter().filter_map(|id| issued.remove(&id)));
        }
        Ok(drive)
    }

    fn of(
        ctx: TaskWorkflowContext<'a>,
        spec: TaskSpec,
        session: String,
        base: CommitId,
        head: CommitId,
        stored: u64,
        tail: Vec<Stamped>,
    ) -> Self {
        let (waiting, running) = (VecDeque::new(), Vec::new());
        let (head_of, is_cancelled, outcome, status) = (EffectId(0), false, None, None);
        Self {
            ctx,
            spec,
            session,
            base,
            head,
            head_of,
            stored,
            tail,
            waiting,
            running,
            is_cancelled,
            outcome,
            status,
        }
    }

    async fn drive(mut self) -> WorkflowResult<Outcome> {
        self.ctx.state_mut(|state| state.is_ready = true);
        loop {
            if self.outcome.is_some() && self.running.is_empty() {
                return self.close().await;
            }
            if self.ctx.state(|state| state.has_ended) && self.outcome.is_none() {
                return self.release().await;
            }
            if !self.is_full() {
                while let Some((effect, at)) = self.waiting.pop_front() {
                    self.start(effect, at);
                }
            } else if self.outcome.is_none() && self.running.iter().all(|one| one.events.is_none()) {
                return self.go_on_anew();
            }
            self.tell();
            match self.next().await {
                Wakeup::Ended(effect, ended) => self.ended(effect, ended),
                Wakeup::Inbox => {
                    while let Some(event) = self.ctx.state_mut(|state| state.inbox.pop_front()) {
                        // The question's timer, if it answers one.
                        if let Some(effect) = event.answers() {
                            self.abandon(effect);
                        }
                        self.happened(event);
                    }
                }
                Wakeup::Cancelled(reason) => {
                    self.is_cancelled = true;
                    self.happened(Event::CancelRequested { reason });
                }
            }
        }
    }

    /// Applies what happened.
    fn happened(&mut self, event: Event) {
        let stamped = Stamped { at: self.now(), event };
        let reaction = self.ctx.state_mut(|state| state.session.apply(&stamped));
        self.tail.push(stamped);
        let at = self.now();
        for effect in reaction.effects {
            match effect {
                Effect::Finish { outcome } => self.outcome = Some(*outcome),
                Effect::Abandon { id } => self.abandon(id),
                effect => self.waiting.push_back((effect, at)),
            }
        }
    }

    /// Stops an effect. Where it has begun, the workflow still waits until it has stopped.
    fn abandon(&mut self, effect: EffectId) {
        self.waiting.retain(|(waiting, _)| waiting.awaits_answer() != Some(effect));
        for running in self.running.iter().filter(|running| running.effect == effect) {
            running.token.cancel();
        }
    }

    fn ended(&mut self, effect: EffectId, ended: EffectOutcome) {
        let Some(at) = self.running.iter().position(|running| running.effect == effect) else { return };
        let running = self.running.remove(at);
        let answer = match ended {
            EffectOutcome::Here(answer) => *answer,
            EffectOutcome::Dropped => return,
            EffectOutcome::Performed(performed) => match *performed {
                Ok(Performed { answer, head }) => {
                    if let Some(events) = running.events {
                        self.is_stored(events);
                    }
                    // Also that of an abandoned effect: it is in the branch, unless a later one has replaced it there.
                    if let Some(head) = head
                        && effect >= self.head_of
                    {
                        (self.head, self.head_of) = (head, effect);
                    }
                    answer
                }
                Err(ActivityExecutionError::Cancelled(_)) if running.token.is_cancelled() => return,
                Err(error) => match running.failing {
                    Some(failing) => failing.answer(&why(&error)),
                    None => return,
                },
            },
        };
        if !running.token.is_cancelled() {
            self.happened(Event::answered(effect, answer));
        }
    }

    /// Notes that so many events are in the store.
    fn is_stored(&mut self, events: u64) {
        let new = usize::try_from(events.saturating_sub(self.stored)).unwrap_or(usize::MAX);
        self.tail.drain(..new.min(self.tail.len()));
        self.stored = self.stored.max(events);
    }

    fn start(&mut self, effect: Effect, issued: Timestamp) {
        let Some(id) = effect.awaits_answer() else { return };
        let token = WorkflowCancellationToken::new();
        let events = self.place().events();
        let failing = Failing::of(&effect);
        let (events, future) = match EffectQueue::of(&effect) {
            Some(kind) => (Some(events), self.activity(&effect, kind, id, &token)),
            None => (None, self.here(effect, issued, &token)),
        };
        self.running.push(RunningEffect { effect: id, events, failing, token, future });
    }

    fn activity(
        &self,
        effect: &Effect,
        kind: EffectQueue,
        id: EffectId,
        token: &WorkflowCancellationToken,
    ) -> LocalBoxFuture<'a, EffectOutcome> {
        let Self { ctx, spec, .. } = self;
        let carriage = &spec.carriage;
        let step = ActivityCloseTimeouts::StartToClose(Duration::from_millis(carriage.step_ms));
        let model = ActivityCloseTimeouts::StartToClose(Duration::from_millis(carriage.model_ms));
        let summary = summary(effect);
        let (queue, timeouts) = match &kind {
            EffectQueue::Model { provider } => (names::models(&spec.queue, provider), model),
            EffectQueue::Step => (names::steps(&spec.queue), step),
            EffectQueue::Verify => (names::verify(&spec.queue), step),
        };
        let options = options(spec, queue, timeouts, &summary, token.clone());
        let input = ToPerform { place: self.place(), effect: id.0 };
        let performed = |result| EffectOutcome::Performed(Box::new(result));
        match kind {
            EffectQueue::Model { .. } => {
                ctx.execute_activity(TaskActivities::model, input, options).map(performed).boxed_local()
            }
            EffectQueue::Step => {
                ctx.execute_activity(TaskActivities::step, input, options).map(performed).boxed_local()
            }
            EffectQueue::Verify => {
                ctx.execute_activity(TaskActivities::verify, input, options).map(performed).boxed_local()
            }
        }
    }

    /// A timer, or a question's time.
    fn here(
        &self,
        effect: Effect,
        issued: Timestamp,
        token: &WorkflowCancellationToken,
    ) -> LocalBoxFuture<'a, EffectOutcome> {
        let (until, answer) = match effect {
            Effect::StartTimer { after_ms, .. } => {
                (Timestamp(issued.0.saturating_add(after_ms)), EffectAnswer::TimerFired)
            }
            Effect::AskUser { question, .. } => {
                (question.until, EffectAnswer::ApprovalAnswered { approval: Approval::Expired })
            }
            _ => return std::future::ready(EffectOutcome::Dropped).boxed_local(),
        };
        let left = Duration::from_millis(until.since(self.now()));
        let timer = TimerOptions::builder(left).cancellation_token(token.clone()).build();
        let token = token.clone();
        let fired = move |_| {
            if token.is_cancelled() { EffectOutcome::Dropped } else { EffectOutcome::Here(Box::new(answer)) }
        };
        self.ctx.timer(timer).map(fired).boxed_local()
    }

    /// Waits for whatever comes first; of what is there at once, effects first, in the order in which they began.
    async fn next(&mut self) -> Wakeup {
        // An end that came first is not given up for another process: what is under way is waited for.
        let may_release = self.outcome.is_none();
        let Self { ctx, running, is_cancelled, .. } = self;
        // The inbox is read also after a cancellation.
        let inbox = ctx.wait_condition_with_options(
            |state| !state.inbox.is_empty() || may_release && state.has_ended,
            detached(),
        );
        let cancelled = ctx.cancelled();
        pin_mut!(inbox, cancelled);
        poll_fn(|cx| {
            for one in running.iter_mut() {
                if let Poll::Ready(ended) = one.future.poll_unpin(cx) {
                    return Poll::Ready(Wakeup::Ended(one.effect, ended));
                }
            }
            if inbox.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Wakeup::Inbox);
            }
            if !*is_cancelled && let Poll::Ready(reason) = cancelled.as_mut().poll(cx) {
                let reason = reason.filter(|reason| !reason.is_empty());
                return Poll::Ready(Wakeup::Cancelled(
                    reason.unwrap_or_else(|| "cancelled by the user".to_owned()),
                ));
            }
            Poll::Pending
        })
        .await
    }

    fn now(&self) -> Timestamp {
        let time = self.ctx.workflow_time().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Timestamp(time.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
    }

    fn place(&self) -> ActivityInput {
        ActivityInput {
            spec: self.spec.clone(),
            session: self.session.clone(),
            base: self.base.clone(),
            head: self.head.clone(),
            stored: self.stored,
            tail: self.tail.clone(),
        }
    }

    /// Whether this run of the workflow should hand over to the next one.
    fn is_full(&self) -> bool {
        let most = self.spec.carriage.history_events.max(LEAST_EVENTS);
        self.ctx.history_length() >= most || self.ctx.continue_as_new_suggested()
    }

    fn go_on_anew(self) -> WorkflowResult<Outcome> {
        let inbox = self.ctx.state_mut(|state| std::mem::take(&mut state.inbox));
        let carried = Carried {
            session: self.session,
            base: self.base,
            head: self.head,
            stored: self.stored,
            tail: self.tail,
            inbox: inbox.into(),
            from_elsewhere: false,
        };
        let input = TaskInput { spec: self.spec, carried: Some(carried) };
        match self.ctx.continue_as_new(input, ContinueAsNewOptions::builder().build())? {}
    }

    /// Puts the status into the memo, if it changed.
    fn tell(&mut self) {
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
    async fn close(mut self) -> WorkflowResult<Outcome> {
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
    async fn release(mut self) -> WorkflowResult<Outcome> {
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

/// The options of an activity. A wait for a free worker is not counted. How many attempts there are, the activity decides: those that
/// were handed back do not count.
fn options(
    spec: &TaskSpec,
    queue: String,
    timeouts: ActivityCloseTimeouts,
    summary: &str,
    token: WorkflowCancellationToken,
) -> ActivityOptions {
    let retry = RetryPolicy::builder()
        .initial_interval(Duration::from_millis(500))
        .maximum_interval(Duration::from_secs(30))
        .non_retryable_error_types(FOR_GOOD)
        .build();
    ActivityOptions::with_close_timeouts(timeouts)
        .task_queue(queue)
        .heartbeat_timeout(spec.carriage.heartbeat())
        .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
        .cancellation_token(token)
        .retry_policy(retry)
        .summary(summary.to_owned())
        .priority(priority(spec))
        .build()
}

/// The options of an activity around the session: it is cancelled by its token alone, and not with the task, whose end is kept all
/// the same.
fn around(spec: &TaskSpec, summary: &str, token: &WorkflowCancellationToken) -> ActivityOptions {
    let timeouts = ActivityCloseTimeouts::StartToClose(Duration::from_millis(spec.carriage.step_ms));
    options(spec, names::steps(&spec.queue), timeouts, summary, token.clone())
}

/// What an activity gives before there is a session. `None` where the task is cancelled or released meanwhile: the activity has
/// stopped then.
async fn unless_stopped<T>(
    ctx: TaskWorkflowContext<'_>,
    activity: impl Future<Output = T>,
    token: &WorkflowCancellationToken,
) -> Option<T> {
    let is_released = ctx.wait_condition_with_options(|state| state.has_ended, detached());
    let is_cancelled = ctx.cancelled();
    pin_mut!(activity, is_released, is_cancelled);
    let first = poll_fn(|cx| {
        if let Poll::Ready(given) = activity.as_mut().poll(cx) {
            return Poll::Ready(Some(given));
        }
        let is_stopped =
            is_released.as_mut().poll(cx).is_ready() || is_cancelled.as_mut().poll(cx).is_ready();
        if is_stopped { Poll::Ready(None) } else { Poll::Pending }
    })
    .await;
    if first.is_none() {
        token.cancel();
        activity.await;
    }
    first
}

/// For a wait that goes on after a cancellation.
fn detached() -> WaitConditionOptions {
    WaitConditionOptions::builder().cancellation_token(WorkflowCancellationToken::new()).build()
}

/// Whose turn it is: the priority of the task, and equal shares for those who submit.
pub(crate) fn priority(spec: &TaskSpec) -> Priority {
    let key = &spec.submitter[..spec.submitter.floor_char_boundary(LONGEST_KEY)];
    Priority::builder().priority_key(spec.carriage.priority).fairness_key(key.to_owned()).build()
}

/// What a person reads beside the activity on the engine's own page, which takes some hundred bytes.
fn summary(effect: &Effect) -> String {
    let Some(id) = effect.awaits_answer() else { return String::new() };
    let mut text = format!("{id} {}", effect.in_words());
    text.truncate(text.floor_char_boundary(200));
    text
}

/// The end of a workflow that cannot do what it needs.
fn broken(what: &str, error: &ActivityExecutionError) -> WorkflowTermination {
    ApplicationFailure::builder(format!("{what}: {}", why(error)))
        .type_name("broken".to_owned())
        .non_retryable(true)
        .build()
        .into()
}

/// The innermost reason of an activity's failure.
fn why(error: &ActivityExecutionError) -> String {
    match error.cause() {
        Some(cause) => cause.to_string(),
        None => error.to_string(),
    }
}
