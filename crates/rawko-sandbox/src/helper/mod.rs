//! The helper: makes the namespaces, then waits for the command's end in one process while another, the first of the
//! new process namespace, builds the view and runs the command.
//!
//! When either of the two dies, the kernel ends everything in the namespace. Where there are no namespaces, `subreaper`
//! does what can be done without.

mod bubblewrap;
mod init;
mod network;
pub(crate) mod place;
mod placeholder;
mod rights;
mod seccomp;
mod subreaper;
pub(crate) mod view;
mod visible;

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, WaitOptions, getegid, geteuid, kill_process, waitpid};
use rustix::thread::{
    CapabilitySet, LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe,
};

use crate::control::{HelperReport, MAX_PLAN, VERSION, receive_with, send_with};
use crate::plan::{ConfinementPlan, Network, Wall};
use crate::sys::{self, Side};

/// The helper's own exit status where the sandbox could not be made. The report says why.
const FAILED: i32 = 125;

/// The argument after [`crate::HELPER`] of the first process that bubblewrap starts.
const INSIDE: &str = "inside";

/// An error of one step, with the step's name.
pub(crate) type StepResult<T> = Result<T, String>;

/// Names the step that failed.
pub(crate) fn during<T, E: std::fmt::Display>(
    what: impl std::fmt::Display,
    result: Result<T, E>,
) -> StepResult<T> {
    result.map_err(|error| format!("{what}: {error}"))
}

/// Runs `command` (a program by its absolute path, and its arguments) as the plan on standard input says, in a process that
/// has so many `threads`.
pub(crate) fn run(command: Vec<OsString>, threads: usize) -> ! {
    let code = match own_stdin() {
        // The kernel makes no user namespace for a process with more, and hands the signals that this thread waits for to
        // the others, so that it would wait for ever.
        Ok(socket) if threads != 1 => unfit(
            &socket,
            format!(
                "had {threads} threads when it called `run_helper_if_asked()`, as a program under `#[tokio::main]` has: that \
                 call has to come first in a plain `fn main`, before the runtime is made"
            ),
        ),
        Ok(socket) => begin(&socket, &command).unwrap_or_else(|what| {
            report(&socket, &HelperReport::Failed { what });
            FAILED
        }),
        Err(_) => FAILED,
    };
    sys::exit_now(code)
}

/// Says that this program cannot be the helper, and ends.
fn unfit(socket: &UnixStream, why: String) -> ! {
    report(socket, &HelperReport::Unfit { why });
    sys::exit_now(FAILED)
}

fn begin(socket: &UnixStream, command: &[OsString]) -> StepResult<i32> {
    match command.split_first() {
        Some((first, command)) if first == INSIDE => bubblewrap::run_inside(socket, command),
        Some(_) | None => outer(socket, command),
    }
}

/// Takes the socket away from standard input, where the command must not find it.
fn own_stdin() -> io::Result<UnixStream> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let nothing = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())?;
    rustix::stdio::dup2_stdin(nothing)?;
    Ok(UnixStream::from(socket))
}

/// Sends the parent a report. It may be gone: then the command ends anyway.
fn report(mut socket: &UnixStream, report: &HelperReport) {
    if let Ok(mut line) = serde_json::to_vec(report) {
        line.push(b'\n');
        let _ = socket.write_all(&line);
    }
}

/// Reads the plan, and what came with it: the namespaces of an earlier command if there are some, and a descriptor to keep.
fn read_plan(mut socket: &UnixStream) -> io::Result<(ConfinementPlan, Vec<OwnedFd>, Option<OwnedFd>)> {
    let mut head = [0; 5];
    let (read, mut shared) = receive_with(socket, &mut head)?;
    if read != head.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let [length @ .., keeps] = head;
    let kept = if keeps == 1 { shared.pop() } else { None };
    let length = usize::try_from(u32::from_le_bytes(length)).map_err(io::Error::other)?;
    if length > MAX_PLAN {
        return Err(io::Error::other("the plan is too long"));
    }
    let mut sent = vec![0; length];
    socket.read_exact(&mut sent)?;
    Ok((plan_of(socket, &sent)?, shared, kept))
}

/// The plan of a program of this version. What another version means by a plan is not known.
fn plan_of(socket: &UnixStream, sent: &[u8]) -> io::Result<ConfinementPlan> {
    let end = sent.iter().position(|byte| *byte == b'\n').unwrap_or_default();
    let (version, plan) = sent.split_at(end);
    if version != VERSION.as_bytes() {
        let theirs = String::from_utf8_lossy(version.get(..version.len().min(40)).unwrap_or_default());
        unfit(
            socket,
            format!(
                "is of version {VERSION}, and the program that asks it of {theirs}: install rawko {theirs}"
            ),
        );
    }
    Ok(serde_json::from_slice(plan)?)
}

/// What is added to the score by which the kernel chooses what to end when memory runs out: the command goes first, and
/// rawko stays.
const OOM_SCORE: i32 = 500;

/// Raises that score for this process and all that it starts. Nothing inside can write there.
fn go_first_when_memory_runs_out() {
    const FILE: &str = "/proc/self/oom_score_adj";
    let now = std::fs::read_to_string(FILE).ok().and_then(|text| text.trim().parse::<i32>().ok());
    // Where it cannot be raised, the command runs all the same.
    let _ = std::fs::write(FILE, now.unwrap_or_default().max(OOM_SCORE).to_string());
}

/// The process outside: enters the namespaces, starts the first process inside, and waits for it.
fn outer(socket: &UnixStream, command: &[OsString]) -> StepResult<i32> {
    // The last one stays open until this process ends, and the command cannot have it: it closes when the command is started.
    let (plan, shared, _kept) = during("reading the plan", read_plan(socket))?;
    go_first_when_memory_runs_out();
    match &plan.wall {
        Wall::Namespaces => {}
        Wall::Bubblewrap { program } => return bubblewrap::run(&plan, program, socket, command),
        Wall::Landlock => return subreaper::run(&plan, socket, command),
    }
    let signals = during("watching signals", sys::signal_fd(&[libc::SIGCHLD, libc::SIGTERM]))?;
    let kinds = [LinkNameSpaceType::User, LinkNameSpaceType::Network, LinkNameSpaceType::Mount];
    for (namespace, kind) in shared.iter().zip(kinds) {
        during("entering a namespace", move_into_link_name_space(namespace.as_fd(), Some(kind)))?;
    }
    let mut made = Vec::new();
    let mut listener = None;
    if shared.is_empty() {
        make_shared(plan.network)?;
        listener = network::set_up(plan.network)?;
        made.extend([own_namespace("user")?, own_namespace("net")?]);
    }
    if shared.len() < kinds.len() {
        enter(UnshareFlags::NEWNS)?;
        // Opened while /proc is that of this process.
        made.insert(0, own_namespace("mnt")?);
        view::build_base(&plan)?;
    }
    tell_ready(socket, made.iter().map(OwnedFd::as_fd).chain(listener.as_ref().map(AsFd::as_fd)).collect())?;
    drop((shared, made, listener));
    enter(UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS)?;
    let inside = match during("starting the first process", sys::fork())? {
        Side::Child => init::run(&plan, socket, &signals, command),
        Side::Parent(pid) => pid,
    };
    Ok(wait_for(inside, socket, &signals))
}

fn own_namespace(name: &str) -> StepResult<OwnedFd> {
    let file = during("opening a namespace", std::fs::File::open(format!("/proc/self/ns/{name}")))?;
    Ok(OwnedFd::from(file))
}

/// Reports to the parent that the network and the base are there.
fn tell_ready(socket: &UnixStream, descriptors: Vec<BorrowedFd<'_>>) -> StepResult<()> {
    let mut line = during("reporting", serde_json::to_vec(&HelperReport::Ready))?;
    line.push(b'\n');
    during("reporting", send_with(socket, &line, &descriptors))
}

/// Makes the namespaces that the commands of one agent share.
fn make_shared(network: Network) -> StepResult<()> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    // Who is really root keeps all ids, because files of a container's project often belong to other users.
    let is_root = uid == 0
        && rustix::thread::capabilities(None)
            .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN | CapabilitySet::SETUID));
    let mut flags = UnshareFlags::NEWUSER;
    if network != Network::Shared {
        flags |= UnshareFlags::NEWNET;
    }
    if is_root && let Some(maps) = id_maps() {
        return enter_as_root(flags, maps);
    }
    enter(flags)?;
    // Without a privilege, groups can be mapped only once this process can no longer leave any.
    during("closing the groups", std::fs::write("/proc/self/setgroups", "deny"))?;
    during("mapping the user", std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")))?;
    during("mapping the group", std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")))
}

/// Enters with all ids mapped. Only a process that stays outside can map more than one.
fn enter_as_root(flags: UnshareFlags, (uids, gids): (String, String)) -> StepResult<()> {
    let own = rustix::process::getpid().as_raw_nonzero();
    let (mut entered, mut has_entered) = during("making a pipe", io::pipe())?;
    let mapper = match during("starting a process", sys::fork())? {
        Side::Child => {
            drop(has_entered);
            let mapped = entered
                .read_exact(&mut [0])
                .and_then(|()| std::fs::write(format!("/proc/{own}/uid_map"), uids))
                .and_then(|()| std::fs::write(format!("/proc/{own}/gid_map"), gids));
            sys::exit_now(i32::from(mapped.is_err()))
        }
        Side::Parent(pid) => pid,
    };
    drop(entered);
    enter(flags)?;
    during("mapping the ids", has_entered.write_all(&[1]))?;
    match during("mapping the ids", waitpid(Some(mapper), WaitOptions::empty()))? {
        Some((_, status)) if status.exit_status() == Some(0) => Ok(()),
        Some(_) | None => Err("mapping the ids: refused".to_owned()),
    }
}

/// All ids of this namespace, each mapped to itself.
fn id_maps() -> Option<(String, String)> {
    let identity = |path: &str| {
        let lines = std::fs::read_to_string(path).ok()?;
        let ranges = lines.lines().map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let (first, _, count) = (fields.next()?, fields.next()?, fields.next()?);
            Some(format!("{first} {first} {count}"))
        });
        Some(ranges.collect::<Option<Vec<_>>>()?.join("\n"))
    };
    Some((identity("/proc/self/uid_map")?, identity("/proc/self/gid_map")?))
}

#[allow(unsafe_code, reason = "unshare is unsafe for CLONE_FILES, which is not among the flags")]
fn enter(flags: UnshareFlags) -> StepResult<()> {
    // SAFETY: the descriptors are not shared: the process has one thread.
    during("making namespaces", unsafe { unshare_unsafe(flags) })
}

/// Waits for the end of the first process inside, passes on a request to end, and ends with the parent.
fn wait_for(inside: Pid, socket: &UnixStream, signals: &OwnedFd) -> i32 {
    let mut parent_is_gone = false;
    loop {
        // A closed socket stays ready: once that is seen, only signals are waited for, of the first process's end too.
        let mut ready = [PollFd::new(signals, PollFlags::IN), PollFd::new(socket, PollFlags::RDHUP)];
        let watched = if parent_is_gone { 1 } else { ready.len() };
        let _ = poll(&mut ready[..watched], None);
        if !parent_is_gone && !ready[1].revents().is_empty() {
            parent_is_gone = true;
            let _ = kill_process(inside, Signal::KILL);
        }
        while let Some(signal) = sys::next_signal(signals) {
            if signal == libc::SIGTERM {
                let _ = kill_process(inside, Signal::TERM);
            }
        }
        if let Ok(Some((_, status))) = waitpid(Some(inside), WaitOptions::NOHANG) {
            // The first process cannot die of a signal as others do, so it says the number of the signal by a status.
            return status.exit_status().unwrap_or(128 + libc::SIGKILL);
        }
    }
}
