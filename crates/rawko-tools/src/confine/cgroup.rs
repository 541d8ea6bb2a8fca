//! Limits the memory and the processes of a command with all that it starts, by a control group of its own.
//!
//! That needs a group around this process in which it may make others, with the controllers for both: systemd delegates
//! one to what a desktop or `systemd-run --user --scope` starts. Existing groups are not changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rawko_core::MemoryLimit;

use super::plan::MAX_PROCESSES;

/// Begins the names of groups; the id of the process that made one follows.
const NAME: &str = "rawko-";
/// How long the processes of a group that was killed may take to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// The group in which those of commands are made.
#[derive(Debug)]
pub(super) struct Parent {
    folder: PathBuf,
    /// How many bytes of memory a command may have; `None` for no limit.
    most: Option<u64>,
}

/// The group of one command. Dropping it ends what is left in it.
#[derive(Debug)]
pub(super) struct Leaf {
    folder: PathBuf,
    most: Option<u64>,
}

impl Parent {
    /// The innermost one around this process that works. What killed processes left in it is removed.
    pub(super) fn find(limit: MemoryLimit) -> Option<Self> {
        let mount = mount_point(&fs::read_to_string("/proc/self/mountinfo").ok()?)?;
        let own = own_group(&fs::read_to_string("/proc/self/cgroup").ok()?)?;
        let most = limit.of(machine_memory(&fs::read_to_string("/proc/meminfo").ok()?)?);
        let folder = mount.join(own.strip_prefix("/").unwrap_or(&own));
        let around = folder.ancestors().take_while(|folder| folder.starts_with(&mount));
        let mut parents = around.map(|folder| Self { folder: folder.to_owned(), most });
        let found = parents.find(|parent| parent.has_controllers() && parent.works())?;
        found.remove_abandoned();
        Some(found)
    }

    /// A group for a command.
    pub(super) fn leaf(&self) -> io::Result<Leaf> {
        let leaf = Leaf::new(&self.folder, self.most)?;
        leaf.set("pids.max", MAX_PROCESSES)?;
        if let Some(most) = self.most {
            leaf.set("memory.max", most)?;
            // All of the command ends, and not its largest process alone.
            leaf.set("memory.oom.group", 1)?;
            // A kernel without swap has no such file.
            let _ = leaf.set("memory.swap.max", 0);
        }
        Ok(leaf)
    }

    /// How much memory a command may have, in MiB; `None` for no limit.
    pub(super) fn memory(&self) -> Option<u64> {
        self.most.map(|most| most >> 20)
    }

    fn has_controllers(&self) -> bool {
        let enabled = fs::read_to_string(self.folder.join("cgroup.subtree_control")).unwrap_or_default();
        ["memory", "pids"].iter().all(|name| enabled.split_ascii_whitespace().any(|other| other == *name))
    }

    /// Whether a process can be moved into a group here.
    fn works(&self) -> bool {
        let moved = || -> io::Result<()> {
            let leaf = self.leaf()?;
            let mut child =
                Command::new("/bin/sh").args(["-c", "read line"]).stdin(Stdio::piped()).spawn()?;
            let added = leaf.add(child.id());
            drop(child.stdin.take());
            child.wait()?;
            added
        };
        moved().is_ok()
    }

    fn remove_abandoned(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let rest = name.to_str().and_then(|name| name.strip_prefix(NAME));
            let maker = rest.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
            if maker.is_some_and(|maker| !Path::new(&format!("/proc/{maker}")).exists()) {
                remove(&entry.path());
            }
        }
    }
}

impl Leaf {
    fn new(parent: &Path, most: Option<u64>) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("{NAME}{}-{number}", std::process::id()));
        fs::create_dir(&folder)?;
        Ok(Self { folder, most })
    }

    fn set(&self, name: &str, value: u64) -> io::Result<()> {
        fs::write(self.folder.join(name), value.to_string())
    }

    /// Moves a process into it. What it starts from now on is there too.
    pub(super) fn add(&self, process: u32) -> io::Result<()> {
        fs::write(self.folder.join("cgroup.procs"), process.to_string())
    }

    /// How much memory, in MiB, was exceeded, if the command was ended for that.
    pub(super) fn exceeded(&self) -> Option<u64> {
        let most = self.most?;
        let events = fs::read_to_string(self.folder.join("memory.events")).ok()?;
        let kills =
            events.lines().filter_map(|line| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok());
        (kills.sum::<u64>() > 0).then_some(most >> 20)
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

/// Removes a group with all that runs in it. A group that cannot be removed is left to the next run.
fn remove(folder: &Path) {
    let deadline = Instant::now() + PATIENCE;
    while fs::remove_dir(folder).is_err() && folder.exists() && Instant::now() < deadline {
        // Since Linux 5.14.
        let killed = fs::File::options().write(true).open(folder.join("cgroup.kill"));
        if killed.and_then(|mut file| io::Write::write_all(&mut file, b"1")).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Where the groups are, which are one tree since version 2.
fn mount_point(mounts: &str) -> Option<PathBuf> {
    let line = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
    line.split(' ').nth(4).map(PathBuf::from)
}

fn own_group(groups: &str) -> Option<PathBuf> {
    groups.lines().find_map(|line| line.strip_prefix("0::")).map(PathBuf::from)
}

/// In bytes.
fn machine_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(mount_point(mounts), Some("/sys/fs/cgroup".into()));
        assert_eq!(mount_point("30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"), None);
        assert_eq!(own_group("9:memory:/a\n0::/user.slice/x.scope\n"), Some("/user.slice/x.scope".into()));
        assert_eq!(machine_memory("MemTotal:       16 kB\nMemFree: 1 kB\n"), Some(16_384));
    }

    /// A folder in place of the kernel's: what is written where.
    #[test]
    fn a_leaf_is_limited() {
        let folder = tempfile::tempdir().unwrap();
        let parent = Parent { folder: folder.path().to_owned(), most: Some(512 << 20) };
        assert!(!parent.has_controllers());
        fs::write(folder.path().join("cgroup.subtree_control"), "cpu memory pids\n").unwrap();
        assert!(parent.has_controllers());
        fs::write(folder.path().join("cgroup.subtree_control"), "cpu pids\n").unwrap();
        assert!(!parent.has_controllers());
        let leaf = parent.leaf().unwrap();
        leaf.add(7).unwrap();
        for (name, value) in [
            ("memory.max", "536870912"),
            ("memory.swap.max", "0"),
            ("memory.oom.group", "1"),
            ("pids.max", "8192"),
            ("cgroup.procs", "7"),
        ] {
            assert_eq!(fs::read_to_string(leaf.folder.join(name)).unwrap(), value, "{name}");
        }
        assert_eq!(leaf.exceeded(), None);
        fs::write(leaf.folder.join("memory.events"), "high 0\noom 1\noom_kill 0\n").unwrap();
        assert_eq!(leaf.exceeded(), None);
        fs::write(leaf.folder.join("memory.events"), "oom 1\noom_kill 3\noom_group_kill 1\n").unwrap();
        assert_eq!(leaf.exceeded(), Some(512));
    }

    /// With `permissions.memory: off`, the number of processes is limited all the same.
    #[test]
    fn a_leaf_without_a_limit_on_memory() {
        let folder = tempfile::tempdir().unwrap();
        let leaf = Parent { folder: folder.path().to_owned(), most: None }.leaf().unwrap();
        assert!(!leaf.folder.join("memory.max").exists() && leaf.folder.join("pids.max").exists());
        fs::write(leaf.folder.join("memory.events"), "oom_kill 1\n").unwrap();
        assert_eq!(leaf.exceeded(), None);
    }

    /// The kernel's own groups, also where they have no controllers.
    #[test]
    fn a_group_ends_with_all_that_is_in_it() {
        let mount = fs::read_to_string("/proc/self/mountinfo").ok().and_then(|mounts| mount_point(&mounts));
        let Some(parent) = mount.map(|folder| Parent { folder, most: Some(1 << 30) }) else {
            println!("skipped: this machine has no control groups of version 2");
            return;
        };
        let Ok(leaf) = Leaf::new(&parent.folder, None) else {
            println!("skipped: no group can be made in {}", parent.folder.display());
            return;
        };
        let mut sleeps = Command::new("sleep").arg("300").spawn().unwrap();
        if leaf.add(sleeps.id()).is_err() || !leaf.folder.join("cgroup.kill").exists() {
            println!("skipped: no process can be moved");
            sleeps.kill().unwrap();
            sleeps.wait().unwrap();
            return;
        }
        // Another run leaves this one's alone, and removes what a process that is gone has left.
        let abandoned = parent.folder.join(format!("{NAME}4194304-0"));
        fs::create_dir(&abandoned).unwrap();
        parent.remove_abandoned();
        assert!(leaf.folder.exists() && !abandoned.exists());
        let folder = leaf.folder.clone();
        let collects = std::thread::spawn(move || sleeps.wait().unwrap());
        drop(leaf);
        assert!(!collects.join().unwrap().success());
        assert!(!folder.exists());
    }

    /// The whole of it, where the machine delegates a group.
    #[test]
    fn a_command_that_takes_too_much_is_ended() {
        let Some(parent) = Parent::find(MemoryLimit::Bytes(64 << 20)) else {
            println!("skipped: no group with controllers is delegated to this process");
            return;
        };
        let leaf = parent.leaf().unwrap();
        let mut child = Command::new("/bin/sh")
            .args(["-c", "read line; exec tail /dev/zero"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        leaf.add(child.id()).unwrap();
        drop(child.stdin.take());
        assert!(!child.wait().unwrap().success());
        assert_eq!(leaf.exceeded(), Some(64));
    }
}
