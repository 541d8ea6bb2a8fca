//! The first process of the namespace: builds the view, gives its rights up, runs the command, and ends what it left.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, set_dumpable_behavior, set_parent_process_death_signal,
    setsid, wait,
};

use super::{FAILED, StepResult, during, report, rights, view};
use crate::control::HelperReport;
use crate::plan::{ConfinementPlan, Network, Wall};
use crate::sys;

/// How long a process that was asked to end has before it is killed.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// Runs the command to its end and leaves with its exit status.
pub(super) fn run(plan: &ConfinementPlan, socket: &UnixStream, signals: &OwnedFd, command: &[OsString]) -> ! {
    let code = prepare(plan).and_then(|()| start(plan, command)).map_or_else(
        |what| {
            report(socket, &HelperReport::Failed { what });
            FAILED
        },
        |pid| {
            let status = wait_for(pid, socket, signals);
            let leftovers = end_leftovers();
            report(socket, &HelperReport::Ended { code: status.code(), signal: status.signal(), leftovers });
            status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(libc::SIGKILL))
        },
    );
    sys::exit_now(code)
}

fn prepare(plan: &ConfinementPlan) -> StepResult<()> {
    // The process outside is the only one of its thread group, so this signal means its death.
    during("tying the two processes together", set_parent_process_death_signal(Some(Signal::KILL)))?;
    // Without a terminal: `/dev/tty` is that of the session.
    during("leaving the terminal", setsid())?;
    // Bubblewrap has built it already.
    if plan.wall == Wall::Namespaces {
        view::build(plan)?;
    }
    during("entering the working directory", std::env::set_current_dir(&plan.directory))?;
    // Nothing inside may trace this process or look into its descriptors.
    during("closing this process", set_dumpable_behavior(DumpableBehavior::NotDumpable))?;
    rights::give_up(plan)
}

fn start(plan: &ConfinementPlan, command: &[OsString]) -> StepResult<Pid> {
    let mut command = command_of(plan, command)?;
    // The command's own one is there. Another folder that the variable names may be read-only.
    if std::env::var_os("TMPDIR").is_some() {
        command.env("TMPDIR", "/tmp");
    }
    let child = command.spawn();
    let child = during(format!("starting {}", command.get_program().display()), child)?;
    Ok(Pid::from_child(&child))
}

/// The command with its input, and with the variables that name the proxy.
pub(super) fn command_of(plan: &ConfinementPlan, command: &[OsString]) -> StepResult<Command> {
    let (program, arguments) = command.split_first().ok_or("there is no command")?;
    let mut command = Command::new(program);
    command.args(arguments);
    if plan.converses {
        let socket = during("passing the input", std::io::stdout().as_fd().try_clone_to_owned())?;
        command.stdin(Stdio::from(socket));
    } else if !plan.input.is_empty() {
        command.stdin(Stdio::from(during("passing the input", memory_file(&plan.input))?));
    }
    if let Network::Proxy { address, port } = plan.network {
        let proxy = format!("http://{address}:{port}");
        for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env(name, &proxy);
        }
        for name in ["no_proxy", "NO_PROXY"] {
            command.env(name, "localhost,127.0.0.1,::1");
        }
    }
    sys::with_open_signals(&mut command);
    Ok(command)
}

fn memory_file(content: &[u8]) -> std::io::Result<File> {
    let mut file = File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file)
}

/// Waits for the end of the command, collects processes that lost their parents, and passes on a request to end.
fn wait_for(command: Pid, socket: &UnixStream, signals: &OwnedFd) -> ExitStatus {
    loop {
        let mut ready = [PollFd::new(signals, PollFlags::IN), PollFd::new(socket, PollFlags::RDHUP)];
        let _ = poll(&mut ready, None);
        if !ready[1].revents().is_empty() {
            // The parent is gone. The kernel ends all that is left together with this process.
            sys::exit_now(FAILED);
        }
        while let Some(signal) = sys::next_signal(signals) {
            if signal == libc::SIGTERM {
                let _ = sys::signal_all(libc::SIGTERM);
            }
        }
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == command {
                return ExitStatus::from_raw(status.as_raw());
            }
        }
    }
}

/// Asks the processes that the command left to end, and waits for a while. Processes that remain end with this one.
/// Returns how many there were.
fn end_leftovers() -> usize {
    let count = others();
    if count == 0 {
        return 0;
    }
    let _ = sys::signal_all(libc::SIGTERM);
    let deadline = Instant::now() + GRACE;
    let pause = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
    while Instant::now() < deadline && others() > 0 {
        let _ = poll(&mut [], Some(&pause));
    }
    count
}

/// How many other processes there are, after collecting those that have ended.
fn others() -> usize {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    names.filter(|pid| *pid != 1).count()
}
