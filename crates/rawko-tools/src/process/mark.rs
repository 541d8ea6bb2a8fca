//! A mark that every descendant of a command carries, whatever it does to hide.
//!
//! A process can leave its group and session (`setsid`), its parent (a double fork) and its environment
//! (`env -i`), but not its resource limits. So each command is started with limits on POSIX message queues, which next
//! to nothing uses, of two numbers that no other command has; `/proc/<pid>/limits` shows them. Being no secret
//! and no wall, it finds what was forgotten, not what is hostile: that is the sandbox's business.

use std::hash::{BuildHasher, RandomState};

use rustix::process::{Pid, Resource, getrlimit};

/// Least limit that leaves room for two numbers.
const LEAST: u64 = 4_096;
/// Where there is no limit, numbers below this.
const MOST: u64 = 1 << 40;

/// A soft and a hard limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    soft: u64,
    hard: u64,
}

impl Mark {
    /// A mark of its own, below the limits that this process has itself.
    pub(super) fn new() -> Option<Self> {
        let limits = getrlimit(Resource::Msgqueue);
        let cap = limits.current.unwrap_or(MOST).min(limits.maximum.unwrap_or(MOST)).min(MOST);
        let half = cap / 2;
        // Each `RandomState` of a process has other keys, and each process starts from random ones.
        let random = || RandomState::new().hash_one(std::process::id());
        (cap >= LEAST).then(|| Self { soft: 1 + random() % half, hard: half + 1 + random() % (half - 1) })
    }

    /// The shell commands that put it on the shell that runs them. They fail where it cannot be put on.
    pub(super) fn prologue(self) -> String {
        format!("ulimit -Sq {} && ulimit -Hq {}", self.soft, self.hard)
    }

    /// Whether a process carries it.
    pub(super) fn is_on(self, pid: Pid) -> bool {
        let path = format!("/proc/{}/limits", pid.as_raw_nonzero());
        std::fs::read_to_string(path).is_ok_and(|text| Self::parse(&text) == Some(self))
    }

    fn parse(limits: &str) -> Option<Self> {
        let line = limits.lines().find_map(|line| line.strip_prefix("Max msgqueue size"))?;
        let mut numbers = line.split_whitespace();
        let soft = numbers.next()?.parse().ok()?;
        let hard = numbers.next()?.parse().ok()?;
        Some(Self { soft, hard })
    }
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.soft, self.hard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_read_from_the_kernels_table() {
        let table =
            "Limit  Soft Limit  Hard Limit  Units\nMax msgqueue size         12  819200  bytes     \n";
        assert_eq!(Mark::parse(table), Some(Mark { soft: 12, hard: 819_200 }));
        assert_eq!(Mark::parse("Max msgqueue size  unlimited unlimited bytes"), None);
    }

    #[test]
    fn no_two_are_the_same_and_none_is_on_this_process() {
        let Some(mark) = Mark::new() else { return };
        assert_ne!(Some(mark), Mark::new());
        assert!(mark.soft <= mark.hard);
        assert!(!mark.is_on(rustix::process::getpid()));
    }
}
