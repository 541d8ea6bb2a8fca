//! Runs a command where only bubblewrap can make namespaces: it is installed with rights that this program lacks.
//!
//! Bubblewrap starts this program once more, as the first process of the new namespaces. To that one, this process is the
//! parent: it sends the plan, passes reports on, and takes all down by closing the socket.

mod view;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::FdFlags;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::{INSIDE, StepResult, during, init, network, read_plan, report, tell_ready};
use crate::HELPER;
use crate::control::{Control, HelperReport};
use crate::plan::{ConfinementPlan, ViewStep};
use crate::sys;

/// The machine's devices in bubblewrap's `/dev`.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
/// As much as is repeated of what bubblewrap says.
const MAX_COMPLAINT: u64 = 2_000;

/// Runs the command to its end and returns its exit status.
pub(super) fn run(
    plan: &ConfinementPlan,
    program: &Path,
    socket: &UnixStream,
    command: &[OsString],
) -> StepResult<i32> {
    let signals = during("watching signals", sys::signal_fd(&[libc::SIGCHLD, libc::SIGTERM]))?;
    let arguments = during("passing the arguments", inherited_file(&view::arguments(plan)?))?;
    let own = rustix::fs::open("/proc/self/exe", OFlags::PATH, Mode::empty());
    let own = during("opening this program", own)?;
    let (ours, theirs) = during("making a socket", UnixStream::pair())?;
    let (mut complaint, complains) = during("making a pipe", io::pipe())?;
    let (info, informs) = during("making a pipe", io::pipe())?;
    during("passing a pipe", rustix::io::fcntl_setfd(&informs, FdFlags::empty()))?;
    let mut bubblewrap = Command::new(program);
    bubblewrap
        .args(["--args", &number(&arguments), "--info-fd", &number(&informs), "--"])
        .arg(format!("/proc/self/fd/{}", number(&own)))
        .args([HELPER, INSIDE])
        .args(command)
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stderr(complains);
    sys::with_open_signals(&mut bubblewrap);
    let started = bubblewrap.spawn();
    let started = during(format!("starting {}", program.display()), started)?;
    drop((bubblewrap, arguments, own, informs));
    let inside = first_inside(info);
    let mut control = Control::new(ours);
    // Where there is no first process inside, bubblewrap says why.
    let _ = control.send(plan, None, Some(rustix::stdio::stderr()));
    let processes = Processes { bubblewrap: Pid::from_child(&started), inside };
    let (code, has_begun) = processes.wait_for(socket, &mut control, &signals);
    if !has_begun {
        let mut said = Vec::new();
        let _ = complaint.by_ref().take(MAX_COMPLAINT).read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said);
        return Err(format!("{} ended with {code}: {}", program.display(), said.trim()));
    }
    Ok(code)
}

/// The first process inside, which bubblewrap has started: gives its rights up and runs the command.
pub(super) fn run_inside(socket: &UnixStream, command: &[OsString]) -> StepResult<i32> {
    let (plan, _, errors) = during("reading the plan", read_plan(socket))?;
    if let Some(errors) = errors {
        during("passing the output", rustix::stdio::dup2_stderr(errors))?;
    }
    during("closing what was inherited", sys::close_on_exec())?;
    let signals = during("watching signals", sys::signal_fd(&[libc::SIGCHLD, libc::SIGTERM]))?;
    if rustix::process::geteuid().is_root() {
        during("closing the devices", close_devices(&plan))?;
    }
    let listener = network::listen(plan.network)?;
    tell_ready(socket, listener.iter().map(AsFd::as_fd).collect())?;
    drop(listener);
    init::run(&plan, socket, &signals, command)
}

/// Makes the device files of the view read-only; programs can still write to the devices. Bubblewrap takes the
/// machine's, and root could change their modes for all users.
fn close_devices(plan: &ConfinementPlan) -> io::Result<()> {
    let hidden = plan.steps().filter_map(|step| match step {
        ViewStep::Hide(place) | ViewStep::Placeholders { place, .. } => Some(place.as_path()),
        _ => None,
    });
    let is_device =
        |path: &&Path| std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_char_device());
    for device in DEVICES.map(Path::new).into_iter().chain(hidden).filter(is_device) {
        sys::set_mount_attributes(CWD, device, libc::MOUNT_ATTR_RDONLY, 0, false)?;
    }
    Ok(())
}

/// The two processes that this one watches.
struct Processes {
    bubblewrap: Pid,
    /// The first process inside.
    inside: Option<Pid>,
}

impl Processes {
    /// Passes reports on until bubblewrap has ended. Returns its exit status, and whether there was a report.
    fn wait_for(&self, socket: &UnixStream, control: &mut Control, signals: &OwnedFd) -> (i32, bool) {
        let (mut has_begun, mut is_open, mut parent_is_gone) = (false, true, false);
        loop {
            let interest = if is_open { PollFlags::IN } else { PollFlags::empty() };
            // A closed descriptor stays ready. Once that is seen, it is no longer watched.
            let mut ready = [
                PollFd::new(signals, PollFlags::IN),
                PollFd::from_borrowed_fd(control.as_fd(), interest),
                PollFd::new(socket, PollFlags::RDHUP),
            ];
            let watched = match (parent_is_gone, is_open) {
                (false, _) => ready.len(),
                (true, true) => 2,
                (true, false) => 1,
            };
            let _ = poll(&mut ready[..watched], None);
            let has_report = !ready[1].revents().is_empty();
            if !parent_is_gone && !ready[2].revents().is_empty() {
                parent_is_gone = true;
                self.signal(Signal::KILL);
                let _ = kill_process(self.bubblewrap, Signal::KILL);
            }
            while let Some(signal) = sys::next_signal(signals) {
                if signal == libc::SIGTERM {
                    self.signal(Signal::TERM);
                }
            }
            if is_open && has_report {
                is_open = pass_on(control, socket);
                has_begun |= is_open;
            }
            if let Ok(Some((_, status))) = waitpid(Some(self.bubblewrap), WaitOptions::NOHANG) {
                while is_open && pass_on(control, socket) {
                    has_begun = true;
                }
                return (status.exit_status().unwrap_or(128 + libc::SIGKILL), has_begun);
            }
            if !is_open && !parent_is_gone {
                // The first process has ended, so bubblewrap does too.
                let ended = waitpid(Some(self.bubblewrap), WaitOptions::empty());
                let status = ended.ok().flatten().and_then(|(_, status)| status.exit_status());
                return (status.unwrap_or(128 + libc::SIGKILL), has_begun);
            }
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(inside) = self.inside {
            // It has ended meanwhile.
            let _ = kill_process(inside, signal);
        }
    }
}

/// Passes the next report on to the parent. Returns whether there was one.
fn pass_on(control: &mut Control, socket: &UnixStream) -> bool {
    match control.report() {
        Ok(Some(HelperReport::Ready)) => {
            let listener = control.take_listener();
            // The parent may be gone: then the command ends anyway.
            let _ = tell_ready(socket, listener.iter().map(AsFd::as_fd).collect::<Vec<BorrowedFd<'_>>>());
            true
        }
        Ok(Some(next)) => {
            report(socket, &next);
            true
        }
        Ok(None) | Err(_) => false,
    }
}

fn number(descriptor: &impl AsFd) -> String {
    descriptor.as_fd().as_raw_fd().to_string()
}

/// A file in memory that holds arguments and that a child inherits.
fn inherited_file(arguments: &[OsString]) -> io::Result<File> {
    let mut file = File::from(memfd_create("arguments", MemfdFlags::empty())?);
    let mut content = Vec::new();
    for argument in arguments {
        content.extend(argument.clone().into_vec());
        content.push(0);
    }
    file.write_all(&content)?;
    io::Seek::rewind(&mut file)?;
    Ok(file)
}

/// The process id of the first process inside, once bubblewrap says it; `None` if it has failed.
fn first_inside(mut info: io::PipeReader) -> Option<Pid> {
    let mut text = Vec::new();
    let mut buffer = [0; 512];
    while !text.ends_with(b"}") && !text.ends_with(b"}\n") {
        match info.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(read) => text.extend(buffer.get(..read)?),
        }
    }
    let said: serde_json::Value = serde_json::from_slice(&text).ok()?;
    Pid::from_raw(i32::try_from(said.get("child-pid")?.as_i64()?).ok()?)
}
