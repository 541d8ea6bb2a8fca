//! A second process beside a run.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that does not outlive its test.
pub(crate) struct Side {
    child: Child,
    lines: Receiver<String>,
    said: String,
}

impl Side {
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let pipe = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in pipe.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, lines, said: String::new() }
    }

    /// Waits until it has said a line with this on standard error.
    #[track_caller]
    pub(crate) fn wait_for_line(&mut self, part: &str) {
        while !self.said.contains(part) {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("it never said {part:?}, but:\n{}", self.said));
            self.said.push_str(&format!("{line}\n"));
        }
        // What was said with it.
        while let Ok(line) = self.lines.recv_timeout(Duration::from_millis(50)) {
            self.said.push_str(&format!("{line}\n"));
        }
    }

    /// What it has said so far, as far as it was waited for.
    pub(crate) fn said(&self) -> String {
        self.said.clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Its exit status, standard output and standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let status = self.child.wait().unwrap();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.said.push_str(&format!("{line}\n"));
        }
        (status.code(), out, std::mem::take(&mut self.said))
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
