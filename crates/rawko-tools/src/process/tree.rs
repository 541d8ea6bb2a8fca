//! Finds and ends all processes that a command started.
//!
//! On Linux these are the processes that carry the command's tag, those of its process group, and all descendants of
//! both. Elsewhere they are those of its process group.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// How often to check which processes are left.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// How long killed processes may take to end: one in an uninterruptible wait ends when the kernel lets it.
pub(super) const KILL_PATIENCE: Duration = Duration::from_secs(3);

/// The process of a command and everything it started.
///
/// Use it only until the command's process is reaped: until then its process id cannot belong to another process.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessTree {
    first: Pid,
    #[cfg(any(target_os = "linux", target_os = "android"))]
    tag: Option<super::tag::ProcessTag>,
    /// The first process is the helper of a sandbox, which passes a request to end on and takes all with it. This signal
    /// has it do so at once.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    confined: Option<Signal>,
}

impl ProcessTree {
    /// Kills the whole tree and waits until it has ended.
    pub(super) fn kill(&self) {
        let deadline = Instant::now() + KILL_PATIENCE;
        while self.signal(Signal::KILL) > 0 && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Asks all processes to end and kills after `grace` those that are left. Calls `meanwhile` repeatedly while it
    /// waits. Returns how many processes there were at first.
    pub(super) fn end(&self, grace: Duration, mut meanwhile: impl FnMut()) -> usize {
        let asked = self.signal(Signal::TERM);
        let deadline = Instant::now() + grace;
        while self.count() > 0 {
            if Instant::now() >= deadline {
                self.kill();
                break;
            }
            meanwhile();
            std::thread::sleep(POLL_INTERVAL);
        }
        asked
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use linux::{marked, send};

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use std::collections::HashSet;

    use rawko_sandbox::{END_NOW, Wall};
    use rustix::process::{PidfdFlags, kill_process, pidfd_open, pidfd_send_signal};

    use super::super::tag::ProcessTag;
    use super::{Pid, ProcessTree, Signal};

    /// What `/proc/<pid>/stat` says about a process.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(in super::super) struct Stat {
        pub(in super::super) pid: Pid,
        parent: i32,
        group: i32,
        started: u64,
        is_dead: bool,
    }

    impl ProcessTree {
        pub(in super::super) fn new(first: Pid, tag: Option<ProcessTag>) -> Self {
            Self { first, tag, confined: None }
        }

        /// The tree of a command in a sandbox, whose helper is `first`.
        pub(in super::super) fn confined(first: Pid, wall: &Wall) -> Self {
            // Without namespaces the helper kills, and so must not be killed.
            let kill = if *wall == Wall::Landlock { END_NOW } else { Signal::KILL };
            Self { first, tag: None, confined: Some(kill) }
        }

        pub(super) fn count(&self) -> usize {
            self.members().len()
        }

        /// Sends a signal to every process of the tree and returns how many there were.
        pub(in super::super) fn signal(&self, signal: Signal) -> usize {
            let members = self.members();
            let signal = match (self.confined, signal) {
                (Some(kill), Signal::KILL) => kill,
                _ => signal,
            };
            members.iter().for_each(|member| send(member, signal));
            members.len()
        }

        /// The processes that are alive.
        fn members(&self) -> Vec<Stat> {
            if self.confined.is_some() {
                return stat(self.first).filter(|helper| !helper.is_dead).into_iter().collect();
            }
            let first = self.first.as_raw_nonzero().get();
            let began = stat(self.first).map_or(0, |s| s.started);
            let me = rustix::process::getpid();
            let all: Vec<Stat> = processes().filter(|s| s.started >= began && s.pid != me).collect();
            let is_tagged = |s: &Stat| self.tag.is_some_and(|tag| tag.is_on(s.pid));
            let mut known: HashSet<i32> = all
                .iter()
                .filter(|s| raw(s.pid) == first || s.group == first || is_tagged(s))
                .map(|s| raw(s.pid))
                .collect();
            loop {
                let before = known.len();
                let children: Vec<i32> =
                    all.iter().filter(|s| known.contains(&s.parent)).map(|s| raw(s.pid)).collect();
                known.extend(children);
                if known.len() == before {
                    break;
                }
            }
            all.into_iter().filter(|s| known.contains(&raw(s.pid)) && !s.is_dead).collect()
        }
    }

    fn raw(pid: Pid) -> i32 {
        pid.as_raw_nonzero().get()
    }

    /// The processes of this user that are alive and carry a tag with this mark.
    pub(in super::super) fn marked(mark: u64) -> Vec<Stat> {
        let has_mark = |stat: &Stat| ProcessTag::of(stat.pid).is_some_and(|tag| tag.mark() == Some(mark));
        let user = rustix::process::geteuid().as_raw();
        let is_own = |stat: &Stat| {
            let process = std::fs::metadata(format!("/proc/{}", raw(stat.pid)));
            process.is_ok_and(|process| std::os::unix::fs::MetadataExt::uid(&process) == user)
        };
        let me = rustix::process::getpid();
        let alive = processes().filter(|stat| !stat.is_dead && stat.pid != me);
        alive.filter(|stat| has_mark(stat) && is_own(stat)).collect()
    }

    /// Signals a process unless its id has passed to another one.
    pub(in super::super) fn send(member: &Stat, signal: Signal) {
        let result = match pidfd_open(member.pid, PidfdFlags::empty()) {
            // While the descriptor is open, the id cannot pass to another process between this check and the signal.
            Ok(fd) if stat(member.pid).is_some_and(|s| s.started == member.started) => {
                pidfd_send_signal(fd, signal)
            }
            // A kernel without such descriptors.
            Err(rustix::io::Errno::NOSYS) => kill_process(member.pid, signal),
            Ok(_) | Err(_) => Ok(()),
        };
        // The process has ended already, or belongs to another user.
        let _ = result;
    }

    fn processes() -> impl Iterator<Item = Stat> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
            .filter_map(stat)
    }

    fn stat(pid: Pid) -> Option<Stat> {
        let text = std::fs::read(format!("/proc/{}/stat", raw(pid))).ok()?;
        parse(pid, &String::from_utf8_lossy(&text))
    }

    /// Parses the fields after the program's name, which may itself contain blanks and parentheses.
    fn parse(pid: Pid, text: &str) -> Option<Stat> {
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(Stat {
            pid,
            is_dead: matches!(*fields.first()?, "Z" | "X" | "x"),
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_programs_name_may_hold_anything() {
            let pid = Pid::from_raw(7).unwrap();
            let text = "7 (a) Z (b) S 1 6 5 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1";
            let expected = Stat { pid, parent: 1, group: 6, started: 4242, is_dead: false };
            assert_eq!(parse(pid, text), Some(expected));
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod elsewhere {
    use rustix::process::{kill_process_group, test_kill_process_group};

    use super::{Pid, ProcessTree, Signal};

    impl ProcessTree {
        pub(in super::super) fn new(first: Pid) -> Self {
            Self { first }
        }

        pub(super) fn count(&self) -> usize {
            usize::from(test_kill_process_group(self.first).is_ok())
        }

        pub(in super::super) fn signal(&self, signal: Signal) -> usize {
            usize::from(kill_process_group(self.first, signal).is_ok())
        }
    }
}
