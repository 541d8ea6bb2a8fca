//! Runs a command where no namespaces can be made: held by Landlock and the filter of system calls, and watched by this
//! process, to which the kernel gives every orphan that the command leaves.
//!
//! Nothing ends with this process as it does with the first one of a namespace. So to end all of it, send [`END_NOW`]
//! or close the socket, and never kill this process.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, set_parent_process_death_signal,
    setsid, wait,
};

use super::init::{GRACE, command_of};
use super::{FAILED, StepResult, during, report, rights, tell_ready};
use crate::control::{END_NOW, HelperReport};
use crate::plan::{ConfinementPlan, ViewStep};
use crate::sys::{self, Side};

/// How long killed processes may take to end: one in an uninterruptible wait ends when the kernel lets it.
const KILL_PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// Runs the command to its end and returns its exit status.
pub(super) fn run(plan: &ConfinementPlan, socket: &UnixStream, command: &[OsString]) -> StepResult<i32> {
    let signals = sys::signal_fd(&[libc::SIGCHLD, libc::SIGTERM, END_NOW.as_raw()]);
    let signals = during("watching signals", signals)?;
    during("collecting orphans", set_child_subreaper(Some(getpid())))?;
    link_tools(plan);
    tell_ready(socket, Vec::new())?;
    let first = match during("starting a process", sys::fork())? {
        Side::Child => {
            let what = become_command(plan, command).err().unwrap_or_default();
            report(socket, &HelperReport::Failed { what });
            sys::exit_now(FAILED)
        }
        Side::Parent(pid) => pid,
    };
    let status = wait_for(first, socket, &signals);
    let leftovers = end_all(GRACE);
    report(socket, &HelperReport::Ended { code: status.code(), signal: status.signal(), leftovers });
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(libc::SIGKILL)))
}

/// Gives the rights up and becomes the command. Returns only if that fails.
fn become_command(plan: &ConfinementPlan, command: &[OsString]) -> StepResult<()> {
    during("tying the two processes together", set_parent_process_death_signal(Some(Signal::KILL)))?;
    during("leaving the terminal", setsid())?;
    during("entering the working directory", std::env::set_current_dir(&plan.directory))?;
    let mut command = command_of(plan, command)?;
    command.env("TMPDIR", &plan.temporary);
    for (name, value) in std::env::vars_os() {
        if let Some(own) = own_place(plan, &value) {
            command.env(name, own);
        }
    }
    rights::give_up(plan)?;
    let error = command.exec();
    Err(format!("starting {}: {error}", command.get_program().display()))
}

/// Where a place of a private folder is, for a variable that names it: nothing can be mounted there.
fn own_place(plan: &ConfinementPlan, value: &OsStr) -> Option<PathBuf> {
    let path = Path::new(value);
    // Not a list of folders.
    let is_one = path.is_absolute() && !value.as_encoded_bytes().contains(&b':');
    plan.steps().rev().filter(|_| is_one).find_map(|step| match step {
        ViewStep::Private { place, content } => Some(content.join(path.strip_prefix(place).ok()?)),
        ViewStep::Show(place) | ViewStep::Grant(place) | ViewStep::Layer { folder: place, .. } => {
            path.starts_with(place).then(|| path.to_owned())
        }
        ViewStep::Cover(_)
        | ViewStep::Link { .. }
        | ViewStep::Protect(_)
        | ViewStep::Pin(_)
        | ViewStep::Hide(_)
        | ViewStep::Placeholders { .. }
        | ViewStep::Text { .. } => None,
    })
}

/// Puts links into private folders that lead to what is shown there. Only at their top: further down, a command may have
/// made a link that leads out.
fn link_tools(plan: &ConfinementPlan) {
    for step in plan.steps() {
        let ViewStep::Private { place, content } = step else { continue };
        for step in plan.steps() {
            if let ViewStep::Show(shown) | ViewStep::Layer { folder: shown, .. } = step
                && shown.parent() == Some(place)
                && let Some(name) = shown.file_name()
            {
                // It is there already, or the tool is not found there.
                let _ = symlink(shown, content.join(name));
            }
        }
    }
}

/// Waits for the end of the command, collects processes that lost their parents, and passes on a request to end.
fn wait_for(command: Pid, socket: &UnixStream, signals: &OwnedFd) -> ExitStatus {
    let mut deadline: Option<Instant> = None;
    loop {
        let mut ready = [PollFd::new(signals, PollFlags::IN), PollFd::new(socket, PollFlags::RDHUP)];
        let _ = poll(&mut ready, deadline.is_some().then_some(&PAUSE));
        if !ready[1].revents().is_empty() {
            end_all(Duration::ZERO);
            sys::exit_now(FAILED);
        }
        while let Some(signal) = sys::next_signal(signals) {
            if signal == libc::SIGTERM {
                children().for_each(|child| send(child, Signal::TERM));
                deadline.get_or_insert_with(|| Instant::now() + GRACE);
            } else if signal == END_NOW.as_raw() {
                deadline = Some(Instant::now());
            }
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            children().for_each(|child| send(child, Signal::KILL));
        }
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == command {
                return ExitStatus::from_raw(status.as_raw());
            }
        }
    }
}

/// Asks all that is left to end, kills after `grace` what has not, and waits for that. What a process leaves that ends
/// becomes a child of this one, so all of it comes by. Returns how many there were.
fn end_all(grace: Duration) -> usize {
    let begun = Instant::now();
    let mut asked = BTreeSet::new();
    loop {
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        if matches!(wait(WaitOptions::NOHANG), Err(Errno::CHILD)) || begun.elapsed() >= grace + KILL_PATIENCE
        {
            return asked.len();
        }
        for child in children() {
            let is_new = asked.insert(child.as_raw_nonzero());
            if begun.elapsed() >= grace {
                send(child, Signal::KILL);
            } else if is_new {
                send(child, Signal::TERM);
            }
        }
        let _ = poll(&mut [], Some(&PAUSE));
    }
}

/// Signals a child, whose id is its own until this process has collected it.
fn send(child: Pid, signal: Signal) {
    // It has ended meanwhile.
    let _ = kill_process(child, signal);
}

/// The children of this process.
fn children() -> impl Iterator<Item = Pid> {
    let own = getpid().as_raw_nonzero().get();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw));
    pids.filter(move |pid| parent(*pid).is_ok_and(|parent| parent == Some(own)))
}

/// The parent of a process: the second field after its name, which may hold blanks and parentheses itself.
fn parent(pid: Pid) -> io::Result<Option<i32>> {
    let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero()))?;
    let stat = String::from_utf8_lossy(&stat);
    let fields = stat.rsplit_once(") ").map(|(_, fields)| fields);
    Ok(fields.and_then(|fields| fields.split_ascii_whitespace().nth(1)?.parse().ok()))
}
