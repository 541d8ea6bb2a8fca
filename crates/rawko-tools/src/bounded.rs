//! Runs a program, with a deadline where one is given: for programs that rawko itself needs, like git. The commands of agents are started
//! in `process`.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

/// How often a program that is watched is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Whether a program may go on.
type Watch<'a> = &'a dyn Fn() -> bool;

/// Starts a program and waits for its end: how it ended, and its standard output if that is piped. `None` if it took longer
/// than `time`, or `watch` says no: then it was ended, with its process group if it leads one.
///
/// # Errors
/// If it cannot be started or read, or its output is longer than `most` bytes.
pub(crate) fn output_within(
    command: &mut Command,
    time: Option<Duration>,
    most: usize,
    watch: Option<Watch<'_>>,
) -> io::Result<Option<(ExitStatus, Vec<u8>)>> {
    let until = time.map(|time| Instant::now() + time);
    let mut child = command.spawn()?;
    let read = read_output(&mut child, until, most, watch);
    let status = if matches!(read, Ok(Some(_))) { status_by(&mut child, until, watch)? } else { None };
    let Some(status) = status else {
        end(&mut child);
        child.wait()?;
        return read.map(|_| None);
    };
    Ok(read?.map(|answer| (status, answer)))
}

/// How it ended; `None` when time is up: it may have closed its output and go on.
fn status_by(
    child: &mut Child,
    until: Option<Instant>,
    watch: Option<Watch<'_>>,
) -> io::Result<Option<ExitStatus>> {
    if until.is_none() && watch.is_none() {
        return child.wait().map(Some);
    }
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if until.is_some_and(|until| Instant::now() >= until) || watch.is_some_and(|may_go_on| !may_go_on()) {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn end(child: &mut Child) {
    // Not reaped yet, so the id is still its own.
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.kill();
}

/// Reads the output until it ends; `None` when time is up, or it is not to go on.
fn read_output(
    child: &mut Child,
    until: Option<Instant>,
    most: usize,
    watch: Option<Watch<'_>>,
) -> io::Result<Option<Vec<u8>>> {
    let mut answer = Vec::new();
    let Some(output) = child.stdout.take() else { return Ok(Some(answer)) };
    let mut output = File::from(OwnedFd::from(output));
    let mut piece = [0_u8; 64 * 1024];
    while is_ready(&output, until, watch)? {
        match output.read(&mut piece) {
            Ok(0) => return Ok(Some(answer)),
            Ok(read) => answer.extend_from_slice(piece.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if answer.len() > most {
            return Err(io::Error::other(format!("the answer is longer than {} MB", most >> 20)));
        }
    }
    Ok(None)
}

/// Waits until there is something to read, or until then, or as long as it may go on.
fn is_ready(output: &File, until: Option<Instant>, watch: Option<Watch<'_>>) -> io::Result<bool> {
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let pause = if watch.is_some() { Some(left.map_or(LOOK, |left| left.min(LOOK))) } else { left };
        let timeout = pause.map(|pause| Timespec {
            tv_sec: i64::try_from(pause.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: pause.subsec_nanos().into(),
        });
        match poll(&mut [PollFd::new(output, PollFlags::IN)], timeout.as_ref()) {
            Ok(0)
                if watch.is_some_and(|may_go_on| may_go_on()) && left.is_none_or(|left| !left.is_zero()) => {}
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::Stdio;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.process_group(0);
        command
    }

    #[test]
    fn the_output_is_read_while_it_runs() {
        // More than a pipe holds.
        let script = "head -c 300000 /dev/zero; exit 3";
        for time in [None, Some(Duration::from_secs(60))] {
            let (status, answer) = output_within(&mut shell(script), time, 1 << 20, None).unwrap().unwrap();
            assert_eq!((answer.len(), status.code()), (300_000, Some(3)));
        }
    }

    #[test]
    fn what_may_not_go_on_is_ended() {
        let started = Instant::now();
        let looks = std::cell::Cell::new(0);
        let twice = || {
            looks.set(looks.get() + 1);
            looks.get() < 3
        };
        let ended = output_within(&mut shell("sleep 600 & sleep 600"), None, 1, Some(&twice)).unwrap();
        assert!(ended.is_none() && started.elapsed() < Duration::from_secs(60));
        let whole = output_within(&mut shell("sleep 0.2; echo a"), None, 9, Some(&|| true)).unwrap().unwrap();
        assert_eq!(whole.1, b"a\n");
    }

    #[test]
    fn what_takes_too_long_is_ended_with_its_children() {
        let started = Instant::now();
        let mut command = shell("sleep 600 & sleep 600");
        assert!(output_within(&mut command, Some(Duration::from_millis(50)), 1, None).unwrap().is_none());
        let mut silent = shell("exec >&-; sleep 600");
        assert!(output_within(&mut silent, Some(Duration::from_millis(50)), 1, None).unwrap().is_none());
        assert!(started.elapsed() < Duration::from_secs(60));
        let error = output_within(&mut shell("head -c 10 /dev/zero; sleep 600"), None, 5, None);
        assert!(error.unwrap_err().to_string().contains("longer than"));
    }
}
