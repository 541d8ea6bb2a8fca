//! The commands of a process that was killed, as the next process finds them.
//!
//! The orphan reaper kills them as soon as their process is gone. That takes a moment, and the reaper may have been
//! killed too. A process that takes the work over must not begin before they are gone: they would go on writing to its
//! files.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::Survivor;
use super::tag::ProcessTag;
use super::tree::{KILL_PATIENCE, POLL_INTERVAL, marked, send};

/// How long the reaper has before its work is done here.
const REAPER_PATIENCE: Duration = Duration::from_millis(500);
/// Bytes of a command line that are shown.
const SHOWN: usize = 200;

/// The mark that all commands of this process carry, for [`end_survivors`]; `None` where the limits leave no room for it.
#[must_use]
pub fn command_mark() -> Option<u64> {
    ProcessTag::new().and_then(ProcessTag::mark)
}

/// Waits until the commands with this mark have ended, whose process is gone, and kills those that nothing else has
/// ended. Returns those that cannot be killed. No process is signalled by its id alone.
#[must_use = "commands that are still alive may still change the project"]
pub fn end_survivors(mark: u64) -> Vec<Survivor> {
    let begun = Instant::now();
    loop {
        let left = marked(mark);
        if left.is_empty() || begun.elapsed() >= REAPER_PATIENCE + KILL_PATIENCE {
            return left
                .iter()
                .map(|stat| Survivor {
                    process: stat.pid.as_raw_nonzero().get().unsigned_abs(),
                    command: command_line(stat.pid),
                })
                .collect();
        }
        if begun.elapsed() >= REAPER_PATIENCE {
            left.iter().for_each(|stat| send(stat, Signal::KILL));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn command_line(pid: rustix::process::Pid) -> String {
    let bytes = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    rawko_core::text::truncate(text.trim(), SHOWN)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::process::Command;

    use super::*;

    #[test]
    fn a_command_that_the_reaper_missed_is_ended_and_others_are_not() {
        // Another process's mark: this one's commands belong to other tests.
        let mark = command_mark().unwrap() + 1;
        let start = |limit: u64| {
            let script = format!("ulimit -Sq {limit}; trap '' TERM; exec sleep 300");
            Command::new("/bin/bash").args(["-c", &script]).spawn().unwrap()
        };
        let (mut marked_child, mut other) = (start(mark), start(mark + 1));
        while marked(mark).is_empty() || marked(mark + 1).is_empty() {
            std::thread::sleep(POLL_INTERVAL);
        }
        assert_eq!(end_survivors(mark), []);
        assert!(!marked_child.wait().unwrap().success());
        assert_eq!(other.try_wait().unwrap(), None, "one without the mark was ended");
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(end_survivors(mark), []);
    }
}
