//! Runs a program with a deadline: for programs that rawko itself needs, like git. The commands of agents are started
//! in `process`.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

/// Most bytes of a program's standard error.
const MAX_COMPLAINT: usize = 16 * 1024;

/// The outputs of a program. One that was not piped is empty.
#[derive(Debug)]
pub struct BoundedOutput {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub answer: Vec<u8>,
    /// Its standard error; the first 16 KiB.
    pub complaint: Vec<u8>,
}

/// Starts a program and waits for its end, with its pipes read meanwhile. `None` if it took longer than `time`: then it
/// was ended, with its process group if it leads one.
///
/// # Errors
/// If it cannot be started or read, or its output is longer than `most` bytes.
pub fn output_within(
    command: &mut Command,
    time: Duration,
    most: usize,
) -> std::io::Result<Option<BoundedOutput>> {
    let until = Instant::now() + time;
    let mut child = command.spawn()?;
    let read = read_output(&mut child, until, most);
    if !matches!(read, Ok(Some(_))) {
        end(&mut child);
    }
    let status = child.wait()?;
    Ok(read?.map(|(answer, complaint)| BoundedOutput { status, answer, complaint }))
}

fn end(child: &mut Child) {
    // Not reaped yet, so the id is still its own.
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.kill();
}

/// Reads both outputs until they end; `None` when time is up.
fn read_output(
    child: &mut Child,
    until: Instant,
    most: usize,
) -> std::io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let (mut whole_answer, mut whole_complaint) = (Vec::new(), Vec::new());
    let mut answer = child.stdout.take().map(|out| File::from(OwnedFd::from(out)));
    let mut complaint = child.stderr.take().map(|err| File::from(OwnedFd::from(err)));
    while answer.is_some() || complaint.is_some() {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let (answer_ready, complaint_ready) = {
            let ends = [answer.as_ref(), complaint.as_ref()];
            let mut fds: Vec<PollFd<'_>> =
                ends.iter().flatten().map(|file| PollFd::new(*file, PollFlags::IN)).collect();
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
            (ends[0].is_some() && ready.next() == Some(true), ends[1].is_some() && ready.next() == Some(true))
        };
        if answer_ready && take_piece(&mut answer, &mut whole_answer)? && whole_answer.len() > most {
            return Err(std::io::Error::other(format!("the answer is longer than {} MB", most >> 20)));
        }
        if complaint_ready {
            take_piece(&mut complaint, &mut whole_complaint)?;
            whole_complaint.truncate(MAX_COMPLAINT);
        }
    }
    Ok(Some((whole_answer, whole_complaint)))
}

/// Takes what is there. At the end, the file is closed and `false` given.
fn take_piece(from: &mut Option<File>, into: &mut Vec<u8>) -> std::io::Result<bool> {
    let Some(file) = from else { return Ok(false) };
    let mut piece = [0_u8; 64 * 1024];
    match file.read(&mut piece) {
        Ok(0) => {
            *from = None;
            Ok(false)
        }
        Ok(read) => {
            into.extend_from_slice(piece.get(..read).unwrap_or_default());
            Ok(true)
        }
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::Stdio;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        command
    }

    #[test]
    fn both_outputs_are_read_while_it_runs() {
        // More than a pipe holds, on both.
        let script = "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; exit 3";
        let output = output_within(&mut shell(script), Duration::from_secs(60), 1 << 20).unwrap().unwrap();
        assert_eq!((output.answer.len(), output.complaint.len()), (300_000, MAX_COMPLAINT));
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn what_takes_too_long_is_ended_with_its_children() {
        let started = Instant::now();
        let mut command = shell("sleep 600 & sleep 600");
        assert!(output_within(&mut command, Duration::from_millis(50), 1).unwrap().is_none());
        assert!(started.elapsed() < Duration::from_secs(60));
        let error = output_within(&mut shell("head -c 10 /dev/zero; sleep 600"), Duration::from_secs(60), 5);
        assert!(error.unwrap_err().to_string().contains("longer than"));
    }
}
