//! A process at work: it is watched, signalled, killed or waited for, and does not outlive its test.

use std::io::Read;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::Said;

/// Longer than anything here takes on the slowest machine; what hangs fails its test.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks for the time to kill, which may be short.
const LOOK_AGAIN: Duration = Duration::from_micros(200);
/// Between two looks for anything else.
const WAIT: Duration = Duration::from_millis(2);

pub(crate) struct Process {
    child: Child,
    out: Reading,
    err: Reading,
    deadline: Instant,
}

impl Process {
    /// Starts it. Its output is read as it comes.
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, err) =
            (Reading::of(child.stdout.take().unwrap()), Reading::of(child.stderr.take().unwrap()));
        Self { child, out, err, deadline: Instant::now() + PATIENCE }
    }

    /// The same with an input, which is open until it is dropped.
    #[track_caller]
    pub(crate) fn start_with_input(command: &mut Command) -> (Self, ChildStdin) {
        let mut process = Self::start(command.stdin(Stdio::piped()));
        let input = process.child.stdin.take().unwrap();
        (process, input)
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// What it has said on standard output so far.
    pub(crate) fn out(&self) -> String {
        self.out.text()
    }

    /// What it has said on standard error so far.
    pub(crate) fn err(&self) -> String {
        self.err.text()
    }

    /// Waits until `is_so`.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        while !is_so() {
            assert!(
                Instant::now() < self.deadline,
                "never came: {what}; it said so far:\n{}{}",
                self.out(),
                self.err()
            );
            std::thread::sleep(WAIT);
        }
    }

    /// Waits until it has said all of these parts on standard error.
    #[track_caller]
    pub(crate) fn wait_to_hear(&self, parts: &[&str]) {
        self.wait_until(&parts.join(" and "), || parts.iter().all(|part| self.err().contains(part)));
    }

    /// Kills it as soon as `is_time`. Says whether it was still at work.
    #[track_caller]
    pub(crate) fn kill_when(mut self, mut is_time: impl FnMut() -> bool) -> bool {
        loop {
            let begun = Instant::now();
            if is_time() || self.child.try_wait().unwrap().is_some() {
                break;
            }
            assert!(begun < self.deadline, "the time to kill it never came");
            // Looking itself, which may read a long journal, takes a fifth of the time at most.
            std::thread::sleep(LOOK_AGAIN.max(begun.elapsed() * 4));
        }
        let _ = self.child.kill();
        self.child.wait().unwrap().code().is_none()
    }

    /// The same after this time.
    #[track_caller]
    pub(crate) fn kill_after(self, patience: Duration) -> bool {
        let begun = Instant::now();
        self.kill_when(|| begun.elapsed() >= patience)
    }

    /// Whether it has said all that it will.
    pub(crate) fn is_silent(&self) -> bool {
        self.out.is_over() && self.err.is_over()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn end(mut self) -> Said {
        let mut status = None;
        // A process that it leaves may keep its output open.
        while status.is_none() || !self.is_silent() {
            assert!(
                Instant::now() < self.deadline,
                "it hangs; it said so far:\n{}{}",
                self.out(),
                self.err()
            );
            std::thread::sleep(WAIT);
            status = self.child.try_wait().unwrap();
        }
        Said::of(Output { status: status.unwrap(), stdout: self.out.bytes(), stderr: self.err.bytes() })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A pipe that is read to its end.
struct Reading {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Reading {
    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&bytes);
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(length @ 1..) = pipe.read(&mut buffer) {
                kept.lock().unwrap().extend_from_slice(&buffer[..length]);
            }
        });
        Self { bytes, thread }
    }

    fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}
