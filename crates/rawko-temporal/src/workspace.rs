//! What one worker keeps of the tasks that it works on: their folded events, their trees, their performers. All of it can be
//! made again from the store and the repository.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rawko::journal::{Applied, Folding, JournalHeader};
use rawko::{EffectPerformer, Opening, Rawko, RawkoBuilder};
use rawko_core::request::ModelRequest;
use rawko_core::session::{Effect, EffectId, Session, Stamped};
use temporalio_common::ActivityError;
use tokio::sync::{Mutex as AsyncMutex, RwLock};

use crate::failed::{for_good, hand_back, of_store, of_tree, once_more};
use crate::faults::Faults;
use crate::kept::{FinishedTask, closed, digest};
use crate::project::{is_of_project, no_commands, setup_failed, with_options};
use crate::records::Records;
use crate::shown::EngineState;
use crate::store::{Creation, EventLog, SharedStore};
use crate::task::{ActivityInput, BegunTask, TaskSpec, TaskStatus};
use crate::tree::{self, CommitId, TaskTree, TreeError, WorkPlace};

/// Tasks that a worker keeps ready at once.
const MOST_OPEN: usize = 50;
/// Bytes of events in one answer.
const PAGE: usize = 8 * 1024 * 1024;
/// A worker removes what was not worked on for this long. It can be made again.
const UNUSED: Duration = Duration::from_secs(14 * 24 * 3_600);
/// How long a collector may take.
const LONGEST_SENDING: Duration = Duration::from_secs(30);
/// The project's folder, as agents see it: its path is another one on each worker.
const DIRECTORY: &str = ".";

/// How a worker makes the builder for a project in this folder.
pub type MakeBuilder = Arc<dyn Fn(&Path) -> RawkoBuilder + Send + Sync>;

/// The tasks of one worker.
pub(crate) struct Workspaces {
    pub(crate) store: SharedStore,
    pub(crate) place: WorkPlace,
    pub(crate) folder: PathBuf,
    pub(crate) builder: MakeBuilder,
    /// A command line that makes a merge request, run in the tree of a task that ended well.
    pub(crate) merge_request: Option<String>,
    pub(crate) open: Mutex<BTreeMap<String, Arc<TaskWorkspace>>>,
    pub(crate) faults: Faults,
}

/// One task on one worker.
pub(crate) struct TaskWorkspace {
    /// Held for writing by what changes the tree.
    pub(crate) gate: RwLock<()>,
    pub(crate) inner: AsyncMutex<WorkspaceState>,
}

#[derive(Default)]
pub(crate) struct WorkspaceState {
    folding: Folding,
    events: u64,
    issued: BTreeMap<EffectId, Issued>,
    pub(crate) tree: Option<Arc<TaskTree>>,
    /// Where the tree is.
    pub(crate) at: Option<CommitId>,
    performer: Option<Arc<EffectPerformer>>,
    /// Why no command runs here.
    no_commands: Option<String>,
    /// The folder that it performs in.
    performs_in: PathBuf,
    /// How many of the files that agents saw were reported to the performer.
    reported: usize,
}

/// An effect that is open.
#[derive(Clone)]
pub(crate) struct Issued {
    pub(crate) effect: Effect,
    /// The request, if it is a model call.
    pub(crate) request: Option<ModelRequest>,
    /// The journal's records that a memory is learned from.
    pub(crate) records: Vec<u64>,
}

impl Workspaces {
    pub(crate) fn of(&self, task: &str) -> Arc<TaskWorkspace> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= MOST_OPEN && !open.contains_key(task) {
            // Those that are not worked on at the moment are made again when they are needed.
            open.retain(|_, workspace| Arc::strong_count(workspace) > 1);
        }
        let new = || Arc::new(TaskWorkspace { gate: RwLock::default(), inner: AsyncMutex::default() });
        Arc::clone(open.entry(task.to_owned()).or_insert_with(new))
    }

    fn forget(&self, task: &str) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(task);
    }

    /// Makes sure that the store is the one that the task was submitted with.
    pub(crate) async fn check_store(&self, mark: Option<&str>) -> Result<(), ActivityError> {
        match mark {
            Some(mark) => self.store.check_mark(mark).await.map_err(of_store),
            None => Ok(()),
        }
    }

    fn log(&self, task: &str) -> Result<EventLog, ActivityError> {
        self.store.events(task).map_err(for_good)
    }

    /// Makes sure that the events are in the store that an activity follows from.
    pub(crate) async fn store_tail(&self, place: &ActivityInput) -> Result<(), ActivityError> {
        if place.tail.is_empty() {
            return Ok(());
        }
        let lines: Vec<Bytes> = place.tail.iter().map(line).collect::<Result<_, _>>()?;
        self.log(&place.spec.id)?.append(place.stored, &lines).await.map_err(of_store)
    }

    /// Events of the store, from number `from`, as far as `to`.
    pub(crate) async fn events(&self, task: &str, from: u64, to: u64) -> Result<Vec<Stamped>, ActivityError> {
        let lines = self.log(task)?.read(from).await.map_err(of_store)?;
        let missing =
            |found: u64| once_more(format!("the store has {found} events of task {task}, not {to}"));
        let until = lines.last().map_or(from, |(number, _)| number + 1);
        if until < to {
            return Err(missing(until));
        }
        lines.iter().map(|(_, line)| event(line)).collect()
    }

    /// Begins a task.
    pub(crate) async fn begin(&self, spec: &TaskSpec) -> Result<BegunTask, ActivityError> {
        let (place, repository) = (self.place.clone(), spec.repository.clone());
        let revision = spec.revision.clone();
        let base = blocking(move || tree::resolve(&place, &repository, revision.as_deref())).await?;
        let workspace = self.of(&spec.id);
        let mut inner = workspace.inner.lock().await;
        let tree = self.tree(spec, &mut inner, &base).await?;
        let moved = Arc::clone(&tree);
        if let Some(there) = blocking(move || moved.remote_head()).await?
            && there.commit != base
        {
            return Err(for_good(format!(
                "the branch {} is in the repository already, at {}: submit the task with another id, or remove the branch",
                spec.branch(),
                there.commit
            )));
        }
        let key = format!("tasks/{}/header", spec.id);
        let (builder, path) = (Arc::clone(&self.builder), tree.path().to_owned());
        let (options, task) = (spec.options.clone(), spec.task.clone());
        let known = self.store.get(&key).await.map_err(of_store)?;
        let known: Option<JournalHeader> =
            known.map(|bytes| serde_json::from_slice(&bytes)).transpose().map_err(for_good)?;
        let session = known.map(|header| header.session);
        let opening = tokio::task::spawn_blocking(move || {
            let rawko = with_options(builder(&path), &options).build()?;
            let digest = rawko.config().project_digest.clone().unwrap_or_default();
            let opening = rawko.opening(session.as_deref(), &task, DIRECTORY)?;
            Ok((opening, digest, no_commands(&rawko)))
        });
        let (Opening { event, header }, digest, no_commands) =
            opening.await.map_err(once_more)?.map_err(|error: rawko::Error| match is_of_project(&error) {
                true => for_good(setup_failed(&error)),
                false => hand_back(setup_failed(&error)),
            })?;
        // The task would begin without commands, and stay so.
        if let Some(why) = no_commands {
            return Err(hand_back(why));
        }
        let configuration = format!("tasks/{}/configuration", spec.id);
        self.store.create(&configuration, digest.into()).await.map_err(of_store)?;
        let bytes = serde_json::to_vec(&header).map_err(for_good)?;
        let session = match self.store.create(&key, bytes.into()).await.map_err(of_store)? {
            Creation::Created => header.session,
            // Another attempt was first.
            Creation::Existing(bytes) => {
                serde_json::from_slice::<JournalHeader>(&bytes).map_err(for_good)?.session
            }
        };
        Ok(BegunTask { session, base, event })
    }

    /// The header of a task's journal.
    pub(crate) async fn header(&self, task: &str) -> Result<JournalHeader, ActivityError> {
        let found = self.store.get(&format!("tasks/{task}/header")).await.map_err(of_store)?;
        let bytes = found.ok_or_else(|| once_more(format!("the store has no header of task {task}")))?;
        serde_json::from_slice(&bytes).map_err(for_good)
    }

    /// The project of a task, with the configuration that the task began with: what an agent has made of it since does not count.
    pub(crate) async fn rawko(
        &self,
        place: &ActivityInput,
        tree: &Arc<TaskTree>,
    ) -> Result<Rawko, ActivityError> {
        let key = format!("tasks/{}/configuration", place.spec.id);
        let build = |project: PathBuf, tree: Option<PathBuf>| {
            let (builder, options) = (Arc::clone(&self.builder), place.spec.options.clone());
            tokio::task::spawn_blocking(move || {
                let builder = with_options(builder(&project), &options);
                tree.into_iter().fold(builder, RawkoBuilder::tree).build()
            })
        };
        let path = tree.path().to_owned();
        let known = self.store.get(&key).await.map_err(of_store)?;
        if let Ok(rawko) = build(path.clone(), None).await.map_err(once_more)? {
            let now = Bytes::from(rawko.config().project_digest.clone().unwrap_or_default());
            let began_with = match known {
                Some(known) => known,
                None => match self.store.create(&key, now.clone()).await.map_err(of_store)? {
                    Creation::Created => now.clone(),
                    Creation::Existing(known) => known,
                },
            };
            if began_with == now {
                return Ok(rawko);
            }
        }
        let (work, repository, base) =
            (self.place.clone(), place.spec.repository.clone(), place.base.clone());
        let name = configuration_tree(&place.spec.id);
        let project = blocking(move || TaskTree::open(&work, &name, &repository, &base)).await?;
        let built = build(project.path().to_owned(), Some(path)).await.map_err(once_more)?;
        built.map_err(|error| hand_back(setup_failed(&error)))
    }

    /// Sends the session's spans, if this worker has a collector. Nothing waits for it.
    pub(crate) async fn send_trace(&self, place: &ActivityInput) -> Result<(), ActivityError> {
        let header = self.header(&place.spec.id).await?;
        let events = self.events(&place.spec.id, 0, place.events()).await?;
        let workspace = self.of(&place.spec.id);
        let mut inner = workspace.inner.lock().await;
        let tree = self.tree(&place.spec, &mut inner, &place.head).await?;
        let rawko = self.rawko(place, &tree).await?;
        tokio::task::spawn_blocking(move || match rawko.send_events(&header, &events, LONGEST_SENDING) {
            Ok(Some((spans, to))) => tracing::info!(spans, to, session = header.session, "trace sent"),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, session = header.session, "trace not sent"),
        });
        Ok(())
    }

    /// The tree of a task, at `head`.
    pub(crate) async fn tree(
        &self,
        spec: &TaskSpec,
        inner: &mut WorkspaceState,
        head: &CommitId,
    ) -> Result<Arc<TaskTree>, ActivityError> {
        if let Some(tree) = inner.tree.as_ref().filter(|_| inner.at.as_ref() == Some(head)) {
            return Ok(Arc::clone(tree));
        }
        // It holds the tree's lock.
        inner.tree = None;
        let (place, spec, head_of) = (self.place.clone(), spec.clone(), head.clone());
        let tree = blocking(move || TaskTree::open(&place, &spec.id, &spec.repository, &head_of)).await?;
        let tree = Arc::new(tree);
        // A further tree of the task has another folder.
        if inner.performs_in != tree.path() {
            inner.performer = None;
        }
        inner.tree = Some(Arc::clone(&tree));
        inner.at = Some(head.clone());
        Ok(tree)
    }

    /// Where files of the session are kept on this worker.
    pub(crate) fn records(&self, task: &str) -> Records {
        Records::new(&self.store, &self.folder.join("records").join(task), task)
    }

    /// Brings the kept trees and records of the session that other workers made.
    pub(crate) async fn fetch_marks(
        &self,
        place: &ActivityInput,
        tree: &Arc<TaskTree>,
    ) -> Result<Records, ActivityError> {
        let records = self.records(&place.spec.id);
        records.fetch().await?;
        let (tree, session) = (Arc::clone(tree), place.session.clone());
        blocking(move || tree.fetch_session_refs(&session)).await?;
        Ok(records)
    }

    /// Events of a task as far as one answer holds them, from number `from` of `to`; at least one.
    pub(crate) async fn page(&self, task: &str, from: u64, to: u64) -> Result<Vec<Stamped>, ActivityError> {
        let lines = self.log(task)?.read(from).await.map_err(of_store)?;
        let mut bytes = 0;
        let fits = |(_, line): &&(u64, Bytes)| {
            let is_first = bytes == 0;
            bytes += line.len();
            is_first || bytes <= PAGE
        };
        let page: Vec<Stamped> = lines
            .iter()
            .take_while(|(number, _)| *number < to)
            .take_while(fits)
            .map(|(_, line)| event(line))
            .collect::<Result<_, _>>()?;
        if page.is_empty() {
            return Err(once_more(format!("the store has {from} events of task {task}, not {to}")));
        }
        Ok(page)
    }

    /// Notes that a task is over, and how, and removes what this worker keeps of it.
    pub(crate) async fn close(
        &self,
        spec: &TaskSpec,
        engine: EngineState,
        status: TaskStatus,
    ) -> Result<(), ActivityError> {
        let ended = FinishedTask { digest: digest(spec), at: SystemTime::now(), engine, status };
        let bytes = serde_json::to_vec(&ended).map_err(for_good)?;
        self.store.create(&closed(&spec.id), bytes.into()).await.map_err(of_store)?;
        self.remove(&spec.id).await;
        Ok(())
    }

    /// Removes what this worker still keeps of tasks that ended elsewhere, or that were not worked on for two weeks;
    /// and mirrors that are not needed.
    pub(crate) async fn sweep(&self) {
        let names = |folder: PathBuf| {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let changed = entry.metadata().and_then(|found| found.modified()).ok()?;
                let task = name.split_once('~').map_or(name.as_str(), |(task, _)| task).to_owned();
                Some((task, changed.elapsed().unwrap_or_default()))
            })
        };
        let found: BTreeMap<String, Duration> =
            names(self.folder.join("trees")).chain(names(self.folder.join("records"))).collect();
        for (task, age) in found {
            if age > UNUSED || matches!(self.store.get(&closed(&task)).await, Ok(Some(_))) {
                self.remove(&task).await;
            }
        }
        let place = self.place.clone();
        let _ = tokio::task::spawn_blocking(move || tree::forget_unused_mirrors(&place, UNUSED)).await;
    }

    /// Ends what this worker keeps of a task that is over.
    pub(crate) async fn remove(&self, task: &str) {
        // It becomes a path, and comes from any program that can reach the engine.
        if tree::branch_of(task).is_err() {
            return;
        }
        self.forget(task);
        let (place, name) = (self.place.clone(), task.to_owned());
        let records = self.folder.join("records").join(task);
        let _ = tokio::task::spawn_blocking(move || {
            let _ = std::fs::remove_dir_all(records);
            let _ = tree::forget(&place, &configuration_tree(&name));
            tree::forget(&place, &name)
        })
        .await;
    }
}

impl WorkspaceState {
    /// The session, as far as this worker has folded it.
    pub(crate) fn session(&self) -> &Session {
        &self.folding.folded().session
    }

    /// Folds what the store has beyond what is folded, at least up to `place`.
    pub(crate) async fn catch_up(
        &mut self,
        all: &Workspaces,
        place: &ActivityInput,
    ) -> Result<(), ActivityError> {
        if self.events >= place.events() {
            return Ok(());
        }
        // Events at hand need no question to the store.
        let at_hand = usize::try_from(self.events.saturating_sub(place.stored)).unwrap_or(usize::MAX);
        let events = match place.tail.get(at_hand..) {
            Some(tail) if self.events >= place.stored => tail.to_vec(),
            _ => all.events(&place.spec.id, self.events, place.events()).await?,
        };
        for stamped in events {
            // Before it is applied: a conversation that shares its messages with a request copies the list when it grows.
            if let Some(effect) = stamped.event.answers() {
                self.issued.remove(&effect);
            }
            let Applied { mut reaction, step, seq } = self.folding.apply(&stamped);
            self.events += 1;
            let begun = self.folding.folded().execution_begun;
            let last = if step.is_empty() { seq } else { seq + 1 };
            for effect in reaction.effects {
                match effect.awaits_answer() {
                    Some(id) => {
                        let records = begun.into_iter().chain([last]).collect();
                        let request = reaction.requests.remove(&id);
                        self.issued.insert(id, Issued { effect, request, records });
                    }
                    None => {
                        if let Effect::Abandon { id } = effect {
                            self.issued.remove(&id);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    pub(crate) fn has_performer(&self) -> bool {
        self.performer.is_some()
    }

    /// The open effect of that number.
    pub(crate) fn effect(&self, number: u64) -> Result<Issued, ActivityError> {
        let id = EffectId(number);
        match self.issued.get(&id) {
            Some(issued) => Ok(issued.clone()),
            None => Err(for_good(format!("effect {id} is not open any more: nothing waits for its answer"))),
        }
    }

    /// Hands back what this worker lacks something for: a key, or a sandbox for commands.
    pub(crate) fn check_means(&self, effect: &Effect) -> Result<(), ActivityError> {
        let missing = match effect {
            Effect::CallModel { provider, .. } => {
                self.performer.as_ref().and_then(|performer| performer.missing_key(provider))
            }
            Effect::RunTool { .. } | Effect::RunOutsideAgent { .. } | Effect::Verify { .. } => {
                self.no_commands.as_deref()
            }
            _ => None,
        };
        missing.map_or(Ok(()), |why| Err(hand_back(why)))
    }

    /// What performs the effects, on the tree that is open.
    pub(crate) async fn performer(
        &mut self,
        all: &Workspaces,
        place: &ActivityInput,
    ) -> Result<Arc<EffectPerformer>, ActivityError> {
        let folded = self.folding.folded();
        if let Some(performer) = &self.performer {
            performer.saw(folded.seen.get(self.reported..).unwrap_or_default());
            self.reported = folded.seen.len();
            return Ok(Arc::clone(performer));
        }
        let tree = match &self.tree {
            Some(tree) => Arc::clone(tree),
            None => all.tree(&place.spec, self, &place.head).await?,
        };
        let records = all.fetch_marks(place, &tree).await?;
        let header = all.header(&place.spec.id).await?;
        let (folded, folder) = (self.folding.folded().clone(), records.folder().to_owned());
        let reported = folded.seen.len();
        let rawko = all.rawko(place, &tree).await?;
        self.no_commands = no_commands(&rawko);
        let made = tokio::task::spawn_blocking(move || rawko.effect_performer(&header, &folded, &folder));
        // It began elsewhere: what is missing is missing here.
        let performer = made.await.map_err(once_more)?.map_err(|error| hand_back(setup_failed(&error)))?;
        let performer = Arc::new(performer);
        self.performer = Some(Arc::clone(&performer));
        self.performs_in = tree.path().to_owned();
        self.reported = reported;
        Ok(performer)
    }
}

/// Ends the name of the tree that has a task's configuration as it began.
const CONFIGURATION: &str = ".configuration";

fn configuration_tree(task: &str) -> String {
    format!("{task}{CONFIGURATION}")
}

/// Whether a task of that id would share a tree with another one.
pub(crate) fn is_reserved(task: &str) -> bool {
    task.ends_with(CONFIGURATION)
}

/// One event as the store keeps it.
fn line(stamped: &Stamped) -> Result<Bytes, ActivityError> {
    serde_json::to_vec(stamped).map(Bytes::from).map_err(for_good)
}

/// An event of the store.
fn event(line: &Bytes) -> Result<Stamped, ActivityError> {
    serde_json::from_slice(line).map_err(once_more)
}

/// Runs what waits for git or the disk.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TreeError> + Send + 'static,
) -> Result<T, ActivityError> {
    tokio::task::spawn_blocking(work).await.map_err(once_more)?.map_err(of_tree)
}
