//! One run of the workflow: begins effects as the session wants them, and applies what happens until it ends.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, UNIX_EPOCH};

use futures_util::future::LocalBoxFuture;
use futures_util::{FutureExt as _, pin_mut};
use rawko_core::Timestamp;
use rawko_core::approval::Approval;
use rawko_core::session::{Effect, EffectAnswer, EffectId, Event, Outcome, Stamped};
use temporalio_common::ActivityCloseTimeouts;
use temporalio_common::error::ActivityExecutionError;
use temporalio_sdk::{
    ContinueAsNewOptions, TimerOptions, WaitConditionOptions, WorkflowCancellationToken, WorkflowResult,
    WorkflowTermination,
};

use super::TaskWorkflowContext;
use super::options::{around, broken, options, summary, why};
use crate::activities::TaskActivities;
use crate::failed::Failing;
use crate::names;
use crate::task::{
    ActivityInput, BegunTask, Carried, EffectQueue, Performed, TaskInput, TaskSpec, TaskStatus, ToLoad,
    ToPerform,
};
use crate::tree::CommitId;

/// The least of history events of a run: below, it would hand over before it has begun an effect.
const LEAST_EVENTS: u32 = 30;

/// An effect that has begun.
pub(super) struct RunningEffect<'a> {
    pub(super) effect: EffectId,
    /// The events that its activity brings into the store; none for a timer or a question.
    events: Option<u64>,
    /// How it is answered if no worker can perform it.
    failing: Option<Failing>,
    pub(super) token: WorkflowCancellationToken,
    pub(super) future: LocalBoxFuture<'a, EffectOutcome>,
}

/// How an effect ended.
pub(super) enum EffectOutcome {
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
pub(super) struct Drive<'a> {
    pub(super) ctx: TaskWorkflowContext<'a>,
    pub(super) spec: TaskSpec,
    pub(super) session: String,
    pub(super) base: CommitId,
    pub(super) head: CommitId,
    /// The effect that made it, of those that were performed in this run of the workflow.
    head_of: EffectId,
    /// Events that are in the store for certain.
    stored: u64,
    /// Those after them.
    tail: Vec<Stamped>,
    /// Effects that have not begun, with the time at which they were issued.
    waiting: VecDeque<(Effect, Timestamp)>,
    pub(super) running: Vec<RunningEffect<'a>>,
    is_cancelled: bool,
    pub(super) outcome: Option<Outcome>,
    pub(super) status: Option<TaskStatus>,
}

impl<'a> Drive<'a> {
    /// Begins the task, or goes on with what is there.
    pub(super) async fn begin(
        ctx: TaskWorkflowContext<'a>,
        input: TaskInput,
    ) -> Result<Self, WorkflowTermination> {
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

    /// Runs until the task has ended, or goes on in another run.
    pub(super) async fn drive(mut self) -> WorkflowResult<Outcome> {
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
    pub(super) fn happened(&mut self, event: Event) {
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

    pub(super) fn place(&self) -> ActivityInput {
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
