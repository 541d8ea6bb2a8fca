//! All commands of this process that are alive, so that it can wait for their end or kill them at once.
//!
//! There is one registry for the process, not one for each run: a process that ends must leave no command running,
//! whichever run started it.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::run::GRACE;
use super::tree::{KILL_PATIENCE, ProcessTree};

static REGISTRY: ProcessRegistry =
    ProcessRegistry { commands: Mutex::new(RegisteredCommands::new()), removed: Condvar::new() };

struct ProcessRegistry {
    commands: Mutex<RegisteredCommands>,
    removed: Condvar,
}

struct RegisteredCommands {
    last_id: u64,
    alive: BTreeMap<u64, RegisteredCommand>,
    /// Other work of calls that were cancelled.
    left_works: usize,
    /// The process ends now, so other work is not waited for any more.
    ends_now: bool,
}

struct RegisteredCommand {
    /// `None` once the command is about to be reaped: its process id may then belong to another process.
    tree: Option<ProcessTree>,
    /// Its call was cancelled: nothing waits for its result.
    is_cancelled: bool,
}

impl RegisteredCommands {
    const fn new() -> Self {
        Self { last_id: 0, alive: BTreeMap::new(), left_works: 0, ends_now: false }
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
    commands.alive.insert(id, RegisteredCommand { tree: Some(tree), is_cancelled: false });
    RegistryId(id)
}

/// Notes that the command's call was cancelled, so that [`settle`] waits for its end.
pub(super) fn mark_cancelled(id: RegistryId) {
    if let Some(command) = commands().alive.get_mut(&id.0) {
        command.is_cancelled = true;
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

/// Notes that nobody awaits a work any more that has not ended, so that [`settle`] waits for its end.
pub(super) fn work_left() {
    commands().left_works += 1;
}

/// Notes that such a work has ended.
pub(super) fn left_work_ended() {
    let mut commands = commands();
    commands.left_works = commands.left_works.saturating_sub(1);
    drop(commands);
    REGISTRY.removed.notify_all();
}

/// Waits until every command whose call or run was cancelled has ended, with everything it started, and other work of
/// such calls. Such commands are asked to end and are killed after two seconds. Returns how many were still alive when the
/// wait timed out.
///
/// Blocks the thread. A process that is about to end calls it last, because nothing else ends these commands then.
#[must_use = "commands that are still alive may still change the project"]
pub fn settle() -> usize {
    let cancelled =
        |commands: &RegisteredCommands| commands.alive.values().filter(|c| c.is_cancelled).count();
    let patience = GRACE + KILL_PATIENCE + Duration::from_secs(1);
    let is_open = |commands: &mut RegisteredCommands| {
        cancelled(commands) > 0 || (commands.left_works > 0 && !commands.ends_now)
    };
    let waited = REGISTRY.removed.wait_timeout_while(commands(), patience, is_open);
    cancelled(&waited.unwrap_or_else(PoisonError::into_inner).0)
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
