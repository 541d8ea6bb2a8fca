//! A tag that every descendant of a command carries, even one that detaches itself.
//!
//! A process can leave its group and session (`setsid`), its parent (a double fork) and its environment (`env -i`), but
//! not its resource limits. So each command starts with two limits on POSIX message queues that no other command has: the
//! soft one is the same for all commands of this process, the hard one is the command's own. Hardly any program uses these
//! queues, and `/proc/<pid>/limits` shows the limits. The tag finds forgotten processes, not hostile ones: it is no secret,
//! and a process can change its own limits.
//!
//! Only commands without a sandbox carry one. In a sandbox the helper ends what is left: the first process of a namespace,
//! or one to which the kernel gives every orphan. Without a sandbox there may be no program that can be a helper (see
//! `docs/sdk.md#commands`), and such a helper, once killed, ends nothing.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use rustix::process::{Pid, Resource, getrlimit};

/// The smallest limit that leaves room for two distinct numbers.
const MIN_LIMIT: u64 = 4_096;
/// The upper bound of the numbers where the limit is unlimited.
const MAX_LIMIT: u64 = 1 << 40;

/// A soft and a hard limit that identify the processes of one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessTag {
    soft: u64,
    hard: u64,
}

impl ProcessTag {
    /// A random tag below the limits of this process; `None` where these are too low.
    pub(super) fn new() -> Option<Self> {
        let limits = getrlimit(Resource::Msgqueue);
        let cap = limits.current.unwrap_or(MAX_LIMIT).min(limits.maximum.unwrap_or(MAX_LIMIT)).min(MAX_LIMIT);
        let half = cap / 2;
        // Every `RandomState` has other keys, seeded at random in each process.
        let random = || RandomState::new().hash_one(std::process::id());
        (cap >= MIN_LIMIT).then(|| {
            static OF_THIS_PROCESS: OnceLock<u64> = OnceLock::new();
            let soft = *OF_THIS_PROCESS.get_or_init(|| 1 + random() % half);
            Self { soft, hard: half + 1 + random() % (half - 1) }
        })
    }

    /// What the tags of all commands of one process have in common. Equal limits are no tag: every untagged process has
    /// those.
    pub(super) fn mark(self) -> Option<u64> {
        (self.soft < self.hard).then_some(self.soft)
    }

    /// Shell commands that tag the shell that runs them. They fail if the limits cannot be set.
    pub(super) fn prologue(self) -> String {
        format!("ulimit -Sq {} && ulimit -Hq {}", self.soft, self.hard)
    }

    /// Whether the process carries this tag.
    pub(super) fn is_on(self, pid: Pid) -> bool {
        Self::of(pid) == Some(self)
    }

    /// The tag of a process; two limits that mean nothing where it has none.
    pub(super) fn of(pid: Pid) -> Option<Self> {
        let path = format!("/proc/{}/limits", pid.as_raw_nonzero());
        Self::parse(&std::fs::read_to_string(path).ok()?)
    }

    fn parse(limits: &str) -> Option<Self> {
        let line = limits.lines().find_map(|line| line.strip_prefix("Max msgqueue size"))?;
        let mut numbers = line.split_whitespace();
        let soft = numbers.next()?.parse().ok()?;
        let hard = numbers.next()?.parse().ok()?;
        Some(Self { soft, hard })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_limits_of_a_process() {
        let table =
            "Limit  Soft Limit  Hard Limit  Units\nMax msgqueue size         12  819200  bytes     \n";
        assert_eq!(ProcessTag::parse(table), Some(ProcessTag { soft: 12, hard: 819_200 }));
        assert_eq!(ProcessTag::parse("Max msgqueue size  unlimited unlimited bytes"), None);
    }

    #[test]
    fn tags_are_unique_and_not_on_this_process() {
        let tag = ProcessTag::new().expect("limits that leave room for a tag");
        let other = ProcessTag::new().unwrap();
        assert!(tag != other && tag.mark() == other.mark(), "one process, two commands");
        assert!(tag.soft <= tag.hard);
        assert!(!tag.is_on(rustix::process::getpid()));
    }
}
