//! One effect, performed once, whatever happens to the workers.
//!
//! An effect that does not change the tree has its result in the store, and the first one there counts. One that changes it is
//! a commit on the task's branch: its result is in the store before the commit is pushed, and the push is the moment at which
//! it is done. A push says which commit it follows; a worker that is late finds that the branch has moved, and throws
//! its work away.
//!
//! A call of a tool that may change something is begun once, because it may reach beyond the tree. If its worker is lost after that,
//! its outcome is unknown, as it is to a local run that is resumed.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rawko_core::session::{Effect, EffectAnswer, Outcome};
use rawko_core::tool::ToolAccess;
use temporalio_common::ActivityError;

use crate::budget::BudgetClaim;
use crate::failed::{for_good, of_store, once_more};
use crate::shown::EngineState;
use crate::store::Creation;
use crate::task::{ActivityInput, Closed, Performed, TaskStatus};
use crate::tree::{CommitId, PushOutcome, RemoteHead, TaskTree};
use crate::workspace::{Issued, WorkspaceState, Workspaces, blocking};

/// How often a commit is pushed that the repository does not take.
const MOST_PUSHES: u32 = 5;
/// The pause after the first of these pushes. It triples from push to push.
const PUSH_AGAIN: Duration = Duration::from_millis(500);
/// Follows the numbers of all effects: what is pushed after the end belongs to no effect.
const AFTER_ALL: u64 = 9_999_999_999;

/// Which attempt at which effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) effect: u64,
    pub(crate) number: u32,
}

impl Attempt {
    /// The key of this attempt among all that change the task's tree; later ones sort after it.
    fn fence(self, task: &str) -> String {
        format!("tasks/{task}/fence/{:010}-{:06}", self.effect, self.number)
    }

    /// The key whose creation begins a call that is made once. It sorts before all attempts.
    fn beginning(self, task: &str) -> String {
        format!("tasks/{task}/fence/{:010}-{:06}", self.effect, 0)
    }

    fn folder(self, task: &str) -> String {
        format!("tasks/{task}/effects/{:010}", self.effect)
    }
}

/// Performs the effect, or finds what an earlier attempt did.
pub(crate) async fn perform(
    all: &Workspaces,
    place: &ActivityInput,
    attempt: Attempt,
    reservation: Option<BudgetClaim>,
) -> Result<Performed, ActivityError> {
    all.store_tail(place).await?;
    let task = &place.spec.id;
    if let Some(done) = all.store.get(&format!("{}/result", attempt.folder(task))).await.map_err(of_store)? {
        return parsed(&done);
    }
    let workspace = all.of(task);
    let mut inner = workspace.inner.lock().await;
    inner.catch_up(all, place).await?;
    let Issued { effect, request, records } = inner.effect(attempt.effect)?;
    if changes_the_tree(&effect) {
        drop(inner);
        let _gate = workspace.gate.write().await;
        let mut inner = workspace.inner.lock().await;
        return change(all, place, attempt, &mut inner, (effect, records)).await;
    }
    // The gate first, as above: in the other order, two would wait for each other.
    drop(inner);
    let _gate = workspace.gate.read().await;
    let mut inner = workspace.inner.lock().await;
    let marks_the_tree = marks_the_tree(&effect);
    if !matches!(effect, Effect::CallModel { .. }) {
        let tree = all.tree(&place.spec, &mut inner, &place.head).await?;
        if marks_the_tree && inner.has_performer() {
            // Another worker may have made some since.
            all.fetch_marks(place, &tree).await?;
        }
    }
    let performer = inner.performer(all, place).await?;
    inner.check_means(&effect)?;
    let session = reservation.is_some().then(|| inner.session().clone());
    let tree = inner.tree.clone();
    drop(inner);
    if let (Some(reservation), Some(session)) = (&reservation, &session)
        && let Some(refusal) = reservation.reserve(session).await?
    {
        return Ok(Performed { answer: refusal, head: None });
    }
    let answer = performer.perform(effect, request, records, |_| {}).await.ok_or_else(no_answer)?;
    if let (Some(reservation), Some(session)) = (&reservation, &session) {
        reservation.settle(session, &answer).await;
    }
    if let (true, Some(tree)) = (marks_the_tree, tree) {
        share_marks(all, place, tree).await?;
    }
    keep(all, place, attempt, Performed { answer, head: None }).await
}

/// Performs what changes the tree.
async fn change(
    all: &Workspaces,
    place: &ActivityInput,
    attempt: Attempt,
    inner: &mut WorkspaceState,
    (effect, records): (Effect, Vec<u64>),
) -> Result<Performed, ActivityError> {
    let task = &place.spec.id;
    let is_made_once = matches!(effect, Effect::RunTool { .. } | Effect::RunOutsideAgent { .. });
    if attempt.number > 1 {
        // What an attempt before this one left in the tree is not the branch's.
        inner.at = None;
    }
    let tree = all.tree(&place.spec, inner, &place.head).await?;
    if marks_the_tree(&effect) && inner.has_performer() {
        all.fetch_marks(place, &tree).await?;
    }
    let performer = inner.performer(all, place).await?;
    inner.check_means(&effect)?;
    let mut fence = attempt.fence(task);
    if attempt.number > 1 || !is_made_once {
        all.store.create(&fence, Bytes::new()).await.map_err(of_store)?;
    }
    if attempt.number > 1 {
        let there = Arc::clone(&tree);
        if let Some(done) =
            done_before(all, place, attempt, blocking(move || there.remote_head()).await?).await?
        {
            return Ok(done);
        }
    }
    if is_made_once {
        match begin(all, task, attempt).await? {
            Claimant::Ours if attempt.number == 1 => fence = attempt.beginning(task),
            Claimant::Ours => {}
            Claimant::Earlier => {
                let answer = EffectAnswer::EffectLost;
                return keep(all, place, attempt, Performed { answer, head: None }).await;
            }
        }
    }
    inner.at = None;
    let (summary, marks_the_tree) = (summary(&effect), marks_the_tree(&effect));
    let answer = performer.perform(effect, None, records, |_| {}).await.ok_or_else(no_answer)?;
    // They would change the tree while others work on it.
    performer.end_jobs().await;
    if marks_the_tree {
        share_marks(all, place, Arc::clone(&tree)).await?;
    }
    let there = Arc::clone(&tree);
    let made = blocking(move || there.commit(attempt.effect, attempt.number, &summary)).await?;
    let Some(commit) = made else {
        inner.at = Some(place.head.clone());
        return keep(all, place, attempt, Performed { answer, head: None }).await;
    };
    let performed = Performed { answer, head: Some(commit.clone()) };
    let bytes = serde_json::to_vec(&performed).map_err(for_good)?;
    let key = format!("{}/{commit}", attempt.folder(task));
    all.store.create(&key, bytes.into()).await.map_err(of_store)?;
    let pushed = push_in_time(all, &tree, place, attempt, &commit, &fence).await?;
    match pushed {
        None => {
            inner.at = Some(commit);
            keep(all, place, attempt, performed).await
        }
        Some(there) => match done_before(all, place, attempt, Some(there.clone())).await? {
            Some(done) => Ok(done),
            None => Err(for_good(format!(
                "the branch {} was moved to {} by somebody else: nothing of theirs is overwritten",
                place.spec.branch(),
                there.commit
            ))),
        },
    }
}

/// Which attempt begins a call that is made once.
enum Claimant {
    Ours,
    /// An attempt before this one; how far it came is not known.
    Earlier,
}

/// Begins a call that is made once. Of all attempts at it, one does.
async fn begin(all: &Workspaces, task: &str, attempt: Attempt) -> Result<Claimant, ActivityError> {
    let ours = attempt.number.to_string();
    match all.store.create(&attempt.beginning(task), ours.into()).await.map_err(of_store)? {
        Creation::Created => Ok(Claimant::Ours),
        Creation::Existing(theirs) => {
            let theirs = std::str::from_utf8(&theirs).ok().and_then(|number| number.parse::<u32>().ok());
            match theirs.unwrap_or_default().cmp(&attempt.number) {
                // The store took it, and its answer was lost.
                Ordering::Equal => Ok(Claimant::Ours),
                Ordering::Less => Ok(Claimant::Earlier),
                Ordering::Greater => Err(once_more("another attempt has begun it: this one comes too late")),
            }
        }
    }
}

/// Pushes the commit of an effect, unless a later attempt or effect has begun. The step is not done anew for a push that fails: it
/// is pushed again, some times.
async fn push_in_time(
    all: &Workspaces,
    tree: &Arc<TaskTree>,
    place: &ActivityInput,
    attempt: Attempt,
    commit: &CommitId,
    fence: &str,
) -> Result<Option<RemoteHead>, ActivityError> {
    let (mut pause, mut pushes) = (PUSH_AGAIN, 0);
    loop {
        if let Some(later) = all.store.last_after(fence).await.map_err(of_store)? {
            return Err(once_more(format!(
                "another attempt has begun ({later}): the work of this one is dropped"
            )));
        }
        pushes += 1;
        match push(tree, place, attempt, commit).await {
            Err(ActivityError::Application(failure)) if pushes >= MOST_PUSHES => {
                return Err(for_good(format!(
                    "its commit could not be pushed, in {pushes} tries: {failure}"
                )));
            }
            Err(ActivityError::Application(_)) => tokio::time::sleep(pause).await,
            pushed => return pushed,
        }
        pause *= 3;
    }
}

/// Pushes the commit of an effect. Gives what is on the branch instead if that is not the place's head.
async fn push(
    tree: &Arc<TaskTree>,
    place: &ActivityInput,
    attempt: Attempt,
    commit: &CommitId,
) -> Result<Option<RemoteHead>, ActivityError> {
    // Before the first commit there is no branch.
    let mut expected = (place.head != place.base).then(|| place.head.clone());
    for _ in 0..2 {
        let (there, commit, from) = (Arc::clone(tree), commit.clone(), expected.clone());
        match blocking(move || there.push(&commit, from.as_ref(), &[])).await? {
            PushOutcome::Pushed => return Ok(None),
            // The work of an effect that was no longer waited for, pushed by a worker that came too late.
            PushOutcome::Moved(Some(there)) if is_left_over(&there, place, attempt) => {
                expected = Some(there.commit);
            }
            PushOutcome::Moved(Some(there)) => return Ok(Some(there)),
            // The branch was removed; what it was is in this clone.
            PushOutcome::Moved(None) => expected = None,
        }
    }
    Err(once_more("the branch moves all the time"))
}

/// Whether what is on the branch is of an earlier effect of this task whose result was not taken: those that were taken
/// are part of the place's head.
fn is_left_over(there: &RemoteHead, place: &ActivityInput, attempt: Attempt) -> bool {
    made_by(there, place).is_some_and(|effect| effect < attempt.effect)
}

/// The effect of this task that made what is on the branch.
fn made_by(there: &RemoteHead, place: &ActivityInput) -> Option<u64> {
    let made_by = there.made_by.as_ref().filter(|made_by| made_by.task == place.spec.id)?;
    Some(made_by.effect)
}

/// The result of an earlier attempt at the same effect, if its commit is on the branch.
async fn done_before(
    all: &Workspaces,
    place: &ActivityInput,
    attempt: Attempt,
    there: Option<RemoteHead>,
) -> Result<Option<Performed>, ActivityError> {
    let task = &place.spec.id;
    let Some(there) = there.filter(|there| made_by(there, place) == Some(attempt.effect)) else {
        return Ok(None);
    };
    let key = format!("{}/{}", attempt.folder(task), there.commit);
    match all.store.get(&key).await.map_err(of_store)? {
        Some(bytes) => keep(all, place, attempt, parsed(&bytes)?).await.map(Some),
        None => Ok(None),
    }
}

/// Gives other workers the trees and records that were kept.
async fn share_marks(
    all: &Workspaces,
    place: &ActivityInput,
    tree: Arc<TaskTree>,
) -> Result<(), ActivityError> {
    all.records(&place.spec.id).share().await?;
    let session = place.session.clone();
    blocking(move || tree.push_session_refs(&session)).await
}

/// Keeps the result. The first one that is kept is the effect's.
async fn keep(
    all: &Workspaces,
    place: &ActivityInput,
    attempt: Attempt,
    performed: Performed,
) -> Result<Performed, ActivityError> {
    let key = format!("{}/result", attempt.folder(&place.spec.id));
    let bytes = serde_json::to_vec(&performed).map_err(for_good)?;
    match all.store.create(&key, bytes.into()).await.map_err(of_store)? {
        Creation::Created => Ok(performed),
        Creation::Existing(theirs) => parsed(&theirs),
    }
}

/// Ends a task.
pub(crate) async fn close(
    all: &Workspaces,
    place: &ActivityInput,
    unseen_tree: Option<u32>,
    outcome: &Outcome,
    status: TaskStatus,
) -> Result<Closed, ActivityError> {
    all.store_tail(place).await?;
    if let Some(iteration) = unseen_tree {
        let workspace = all.of(&place.spec.id);
        let _gate = workspace.gate.write().await;
        let mut inner = workspace.inner.lock().await;
        inner.catch_up(all, place).await?;
        all.tree(&place.spec, &mut inner, &place.head).await?;
        let inspection = inner.performer(all, place).await?.final_inspection(iteration).await;
        if inspection.is_some() {
            return Ok(Closed { inspection, merge_request: None });
        }
    }
    keep_end(all, place).await?;
    restore(all, place).await?;
    let merge_request = crate::merge_request::make(all, place, outcome).await?;
    // A trace is not worth an attempt more.
    if let Err(error) = all.send_trace(place).await {
        tracing::warn!(?error, task = place.spec.id, "trace not sent");
    }
    let engine = EngineState::of_outcome(outcome);
    let status = TaskStatus { merge_request: merge_request.clone(), ..status };
    all.close(&place.spec, engine, status).await?;
    Ok(Closed { inspection: None, merge_request })
}

/// Keeps the tree of the end beside the checkpoints, for `rawko diff`, if the task changed anything.
async fn keep_end(all: &Workspaces, place: &ActivityInput) -> Result<(), ActivityError> {
    if place.head == place.base {
        return Ok(());
    }
    let workspace = all.of(&place.spec.id);
    let _gate = workspace.gate.write().await;
    let mut inner = workspace.inner.lock().await;
    inner.catch_up(all, place).await?;
    let tree = all.tree(&place.spec, &mut inner, &place.head).await?;
    inner.performer(all, place).await?.keep_end().await;
    share_marks(all, place, tree).await
}

/// Makes sure that the branch is what the task ended with. A worker that was given up may have pushed the work of an
/// effect that was not waited for; from here on no worker does.
pub(crate) async fn restore(all: &Workspaces, place: &ActivityInput) -> Result<(), ActivityError> {
    let attempt = Attempt { effect: AFTER_ALL, number: 1 };
    all.store.create(&attempt.fence(&place.spec.id), Bytes::new()).await.map_err(of_store)?;
    let workspace = all.of(&place.spec.id);
    let mut inner = workspace.inner.lock().await;
    let tree = all.tree(&place.spec, &mut inner, &place.head).await?;
    let asked = Arc::clone(&tree);
    match blocking(move || asked.remote_head()).await? {
        Some(there) if there.commit != place.head && is_left_over(&there, place, attempt) => {
            let head = place.head.clone();
            blocking(move || tree.push(&head, Some(&there.commit), &[])).await.map(drop)
        }
        // It was removed.
        None if place.head != place.base => {
            let head = place.head.clone();
            blocking(move || tree.push(&head, None, &[])).await.map(drop)
        }
        // As it should be, or someone else's, which stays.
        _ => Ok(()),
    }
}

fn changes_the_tree(effect: &Effect) -> bool {
    match effect {
        Effect::RunTool { access, .. } | Effect::RunOutsideAgent { access, .. } => {
            *access == ToolAccess::Mutating
        }
        Effect::Remember { .. } => true,
        // The proven tree may be the one that the commands left: a lock file that was missing, for example.
        Effect::Verify { .. } => true,
        _ => false,
    }
}

/// Whether it keeps trees or records that other workers need.
fn marks_the_tree(effect: &Effect) -> bool {
    matches!(effect, Effect::TakeCheckpoint { .. } | Effect::InspectTree { .. } | Effect::Verify { .. })
}

/// The first line of an effect's commit.
fn summary(effect: &Effect) -> String {
    match effect {
        Effect::RunTool { agent, call, .. } => {
            let what = ["file_path", "path", "command"].iter().find_map(|key| call.input.get(key)?.as_str());
            let what = what.and_then(|what| what.lines().next()).unwrap_or_default();
            rawko_core::text::truncate(&format!("{agent}: {} {what}", call.name), 72)
        }
        Effect::RunOutsideAgent { agent, .. } => format!("{agent}: its own program"),
        Effect::Remember { agent, .. } => format!("{agent}: remember"),
        Effect::Verify { .. } => "verify".to_owned(),
        _ => "rawko".to_owned(),
    }
}

fn parsed(bytes: &[u8]) -> Result<Performed, ActivityError> {
    serde_json::from_slice(bytes).map_err(for_good)
}

fn no_answer() -> ActivityError {
    for_good("the effect has no answer")
}
