//! All commands of this process that are alive, so that it can wait for their end or kill them at once.
//!
//! There is one registry for the process, not one for each run: a process that ends must leave no command running,
//! whichever run started it.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::run::GRACE;
use super::scope::{self, RunScope};
use super::tree::{KILL_PATIENCE, ProcessTree};

/// How long the end of commands and other work is waited for.
const PATIENCE: Duration = GRACE.saturating_add(KILL_PATIENCE).saturating_add(Duration::from_secs(1));

static REGISTRY: ProcessRegistry =
    ProcessRegistry { commands: Mutex::new(RegisteredCommands::new()), removed: Condvar::new() };

struct ProcessRegistry {
    commands: Mutex<RegisteredCommands>,
    removed: Condvar,
}

struct RegisteredCommands {
    last_id: u64,
    alive: BTreeMap<u64, RegisteredCommand>,
    /// Other work of calls that were cancelled, by their runs where they are known.
    left_works: BTreeMap<Option<RunScope>, usize>,
    /// The process ends now, so other work is not waited for any more.
    ends_now: bool,
}

struct RegisteredCommand {
    /// `None` once the command is about to be reaped: its process id may then belong to another process.
    tree: Option<ProcessTree>,
    /// Its call was cancelled: nothing waits for its result.
    is_cancelled: bool,
    /// The run that cancelled it, where it is known.
    run: Option<RunScope>,
}

impl RegisteredCommands {
    const fn new() -> Self {
        Self { last_id: 0, alive: BTreeMap::new(), left_works: BTreeMap::new(), ends_now: false }
    }
}

fn commands() -> MutexGuard<'static, RegisteredCommands> {
    REGISTRY.commands.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Identifies a registered command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RegistryId(u64);

/// Registers a command that has just started.
pub(super) fn register(tree: ProcessTree) -> RegistryId {
    let mut commands = commands();
    commands.last_id += 1;
    let id = commands.last_id;
    commands.alive.insert(id, RegisteredCommand { tree: Some(tree), is_cancelled: false, run: None });
    RegistryId(id)
}

/// Notes that the command's call was cancelled, so that [`settle`] waits for its end.
pub(super) fn mark_cancelled(id: RegistryId) {
    if let Some(command) = commands().alive.get_mut(&id.0) {
        command.is_cancelled = true;
        command.run = scope::current();
    }
}

/// Keeps the registry from signalling a command that is about to be reaped.
pub(super) fn stop_signalling(id: RegistryId) {
    if let Some(command) = commands().alive.get_mut(&id.0) {
        command.tree = None;
    }
}

/// Removes a command that has ended.
pub(super) fn remove(id: RegistryId) {
    commands().alive.remove(&id.0);
    REGISTRY.removed.notify_all();
}

/// A work that nobody awaits any more, by the run that gave it up.
#[derive(Debug)]
pub(super) struct LeftWork(Option<RunScope>);

/// Notes that nobody awaits a work any more that has not ended, so that [`settle`] waits for its end.
pub(super) fn work_left() -> LeftWork {
    let run = scope::current();
    *commands().left_works.entry(run).or_default() += 1;
    LeftWork(run)
}

/// Notes that such a work has ended.
pub(super) fn left_work_ended(work: &LeftWork) {
    let mut commands = commands();
    if let Some(count) = commands.left_works.get_mut(&work.0) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            commands.left_works.remove(&work.0);
        }
    }
    drop(commands);
    REGISTRY.removed.notify_all();
}

/// What has not ended although its call was cancelled, and may still change the project.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOpen {
    /// Commands.
    pub commands: usize,
    /// Other work.
    pub works: usize,
}

impl LeftOpen {
    /// Whether everything has ended.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl RegisteredCommands {
    /// What is open of this run and of those that are not known, or of all.
    fn open_of(&self, run: Option<RunScope>) -> LeftOpen {
        let is_its = |of: Option<RunScope>| run.is_none() || of.is_none() || of == run;
        let commands =
            self.alive.values().filter(|command| command.is_cancelled && is_its(command.run)).count();
        let works =
            self.left_works.iter().filter(|(of, _)| !self.ends_now && is_its(**of)).map(|(_, count)| count);
        LeftOpen { commands, works: works.sum() }
    }
}

/// Waits until every command whose call or run was cancelled has ended, with everything it started, and other work of
/// such calls. Such commands are asked to end and are killed after two seconds. Returns what had not ended when the wait
/// timed out.
///
/// Blocks the thread. A process that is about to end calls it last, because nothing else ends these commands then.
#[must_use = "commands that are still alive may still change the project"]
pub fn settle() -> LeftOpen {
    settle_within(PATIENCE, None)
}

/// The same for the calls of one run, and for those whose run is not known.
#[must_use = "commands that are still alive may still change the project"]
pub fn settle_run(run: RunScope) -> LeftOpen {
    settle_within(PATIENCE, Some(run))
}

pub(super) fn settle_within(patience: Duration, run: Option<RunScope>) -> LeftOpen {
    let is_open = |commands: &mut RegisteredCommands| !commands.open_of(run).is_nothing();
    let waited = REGISTRY.removed.wait_timeout_while(commands(), patience, is_open);
    waited.unwrap_or_else(PoisonError::into_inner).0.open_of(run)
}

/// Kills every command of this process at once, with everything it started. For a process that ends now: other runs
/// of the process lose their commands too, and see that a signal ended them, and [`settle`] waits for nothing else.
pub fn kill_all_now() {
    let deadline = Instant::now() + KILL_PATIENCE;
    loop {
        let left: usize = {
            let mut commands = commands();
            commands.ends_now = true;
            let trees = commands.alive.values().filter_map(|command| command.tree);
            trees.map(|tree| tree.signal(Signal::KILL)).sum()
        };
        if left == 0 || Instant::now() >= deadline {
            return;
        }
        std::thread::sleep(super::tree::POLL_INTERVAL);
    }
}
