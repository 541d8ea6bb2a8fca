//! All commands that are alive in this process, so that their ends can be waited for, or brought about at once.
//!
//! One for the process, not one a run: what must not be left behind when the process ends does not depend on who
//! started it.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::family::{Family, KILL_PATIENCE};
use super::run::GRACE;

static ROSTER: Roster = Roster { entries: Mutex::new(Entries::new()), gone: Condvar::new() };

struct Roster {
    entries: Mutex<Entries>,
    gone: Condvar,
}

struct Entries {
    next: u64,
    alive: BTreeMap<u64, Entry>,
}

struct Entry {
    /// `None` once its number may pass on to another process: from then on nobody may signal it.
    family: Option<Family>,
    /// Nobody waits for its answer any more.
    given_up: bool,
}

impl Entries {
    const fn new() -> Self {
        Self { next: 0, alive: BTreeMap::new() }
    }
}

fn entries() -> MutexGuard<'static, Entries> {
    ROSTER.entries.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number under which a command is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number(u64);

/// Lists a command that was just started.
pub(super) fn enroll(family: Family) -> Number {
    let mut entries = entries();
    entries.next += 1;
    let number = entries.next;
    entries.alive.insert(number, Entry { family: Some(family), given_up: false });
    Number(number)
}

/// Notes that nobody waits for the command's answer any more, so that [`settle`] waits for its end.
pub(super) fn give_up(number: Number) {
    if let Some(entry) = entries().alive.get_mut(&number.0) {
        entry.given_up = true;
    }
}

/// Keeps everyone from signalling the command: it is about to be reaped.
pub(super) fn retire(number: Number) {
    if let Some(entry) = entries().alive.get_mut(&number.0) {
        entry.family = None;
    }
}

/// Strikes off a command that is gone.
pub(super) fn strike(number: Number) {
    entries().alive.remove(&number.0);
    ROSTER.gone.notify_all();
}

/// Waits until every command whose call or run was given up is gone, with everything it started: they were asked to
/// end and are killed after a grace of two seconds. Gives the number of those that even the kernel could not end in
/// time.
///
/// Blocks the thread: call it where blocking is allowed. A process that is about to end calls it last, because
/// nobody else ends what is left then.
#[must_use = "what is left may still work on the project"]
pub fn settle() -> usize {
    let given_up = |entries: &Entries| entries.alive.values().filter(|entry| entry.given_up).count();
    let patience = GRACE + KILL_PATIENCE + Duration::from_secs(1);
    let waited = ROSTER.gone.wait_timeout_while(entries(), patience, |entries| given_up(entries) > 0);
    given_up(&waited.unwrap_or_else(PoisonError::into_inner).0)
}

/// Kills every command of this process at once, with everything it started, whoever waits for it: for a process that
/// ends now. Other runs of the process lose their commands, too, and are told that a signal ended them.
pub fn kill_all_now() {
    let deadline = Instant::now() + KILL_PATIENCE;
    loop {
        let left: usize = {
            let entries = entries();
            let families = entries.alive.values().filter_map(|entry| entry.family);
            families.map(|family| family.signal(Signal::KILL)).sum()
        };
        if left == 0 || Instant::now() >= deadline {
            return;
        }
        std::thread::sleep(super::family::LOOK_AGAIN);
    }
}
