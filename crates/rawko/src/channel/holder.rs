//! Which process runs a session: a file beside the journal that names it.
//!
//! The lock says whether a process runs the session. This file says which, so that another process can ask it to end, and
//! so that the next one can wait for the commands of one that was killed. No process is signalled by its id alone, because
//! ids are reused.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rawko_core::Timestamp;
use rawko_core::text::truncate;
use rawko_tools::temporary::is_abandoned_within;
use rawko_tools::{Confinement, Survivor, command_mark, end_survivors};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

/// Name of the process file in a session's directory.
const FILE_NAME: &str = "holder.json";
/// Largest process file, in bytes. A longer one is ignored.
const LONGEST: u64 = 16 * 1024;
/// Characters of the task in it.
const TASK_CHARS: usize = 200;
/// How long a process that has released its lock may take to end.
const DYING: Duration = Duration::from_secs(1);
/// How long the commands of its sandbox may take to end after it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a command line that are shown.
const SHOWN: usize = 200;
/// How often to check whether it has.
const LOOK: Duration = Duration::from_millis(5);

/// Ends what is left of the process that ran the session of this journal and was killed: its commands, which would go on
/// changing the project. Waits for that. Returns those that cannot be ended. The caller has the session's lock.
pub(crate) fn end_leftovers(journal: &Path) -> Vec<Survivor> {
    let Some(holder) = RunningProcess::of(journal) else { return Vec::new() };
    let begun = Instant::now();
    while holder.is_alive() {
        // A process that lives on without the lock ends its commands itself.
        if begun.elapsed() >= DYING || holder.pid == std::process::id() {
            return Vec::new();
        }
        std::thread::sleep(LOOK);
    }
    if let Some(folder) = &holder.sandbox
        && !is_abandoned_within(folder, PATIENCE)
    {
        return holders_of(folder);
    }
    holder.mark.map(end_survivors).unwrap_or_default()
}

/// The processes that have this folder open.
fn holders_of(folder: &Path) -> Vec<Survivor> {
    let mut holders = Vec::new();
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let open = std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        let links = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        if let Ok(id) = process.file_name().to_string_lossy().parse()
            && links.into_iter().any(|link| link == folder)
        {
            let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let command = truncate(String::from_utf8_lossy(&line).replace('\0', " ").trim(), SHOWN);
            holders.push(Survivor { process: id, command });
        }
    }
    holders
}

/// The process that runs a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningProcess {
    pid: u32,
    /// Its start time, as the system reports it. It differs between two processes with the same id.
    started: String,
    /// A mark that all of its commands outside a sandbox carry, where the system has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mark: Option<u64>,
    /// The folder that is held for as long as one of its confined commands lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sandbox: Option<PathBuf>,
    /// The folder that it works in.
    #[serde(default)]
    folder: PathBuf,
    /// The beginning of its task.
    #[serde(default)]
    task: String,
    /// When it took the session up.
    #[serde(default)]
    since: Timestamp,
}

/// What a process works on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkInProgress<'a> {
    /// In which folder.
    pub(crate) folder: &'a Path,
    /// On which task.
    pub(crate) task: &'a str,
    /// Since when.
    pub(crate) since: Timestamp,
}

impl RunningProcess {
    /// Its id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it works in this folder, or in one inside or around it.
    pub(crate) fn works_in(&self, folder: &Path) -> bool {
        !self.folder.as_os_str().is_empty()
            && (self.folder.starts_with(folder) || folder.starts_with(&self.folder))
    }

    /// The beginning of its task.
    pub(crate) fn task(&self) -> &str {
        &self.task
    }

    /// When it took the session up.
    pub(crate) fn since(&self) -> Timestamp {
        self.since
    }

    /// Whether it still runs. A process that only waits to be reaped does not.
    fn is_alive(&self) -> bool {
        !is_zombie(self.pid) && started(self.pid).as_ref() == Some(&self.started)
    }

    fn this(confinement: &Confinement, work: WorkInProgress<'_>) -> Option<Self> {
        let pid = std::process::id();
        let (mark, sandbox) = match confinement {
            Confinement::Sandboxed(sandbox) => (None, Some(sandbox.folder().to_owned())),
            Confinement::Off => (command_mark(), None),
            Confinement::Refused(_) => (None, None),
        };
        Some(Self {
            pid,
            started: started(pid)?,
            mark,
            sandbox,
            folder: work.folder.to_owned(),
            task: truncate(work.task, TASK_CHARS),
            since: work.since,
        })
    }

    /// Reads which process runs the session of this journal.
    pub(crate) fn of(journal: &Path) -> Option<Self> {
        let path = journal.with_file_name(FILE_NAME);
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).ok()?;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let mut text = String::new();
        file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        file.take(LONGEST).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Sends SIGTERM if it is still the same process. Returns whether it did.
    pub(crate) fn terminate(&self) -> bool {
        let raw = i32::try_from(self.pid).ok();
        let Some(pid) = raw.filter(|raw| *raw > 1).and_then(Pid::from_raw) else { return false };
        terminate(pid, || started(self.pid).as_ref() == Some(&self.started))
    }
}

/// A pidfd refers to one process, even if its id is reused between the check and the signal.
#[cfg(target_os = "linux")]
fn terminate(pid: Pid, is_the_same: impl FnOnce() -> bool) -> bool {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    is_the_same() && pidfd_send_signal(&handle, Signal::TERM).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn terminate(pid: Pid, is_the_same: impl FnOnce() -> bool) -> bool {
    is_the_same() && rustix::process::kill_process(pid, Signal::TERM).is_ok()
}

/// Clock ticks between the start of the system and that of the process: the 20th field after its name.
#[cfg(target_os = "linux")]
fn started(pid: u32) -> Option<String> {
    stat_field(pid, 19)
}

#[cfg(target_os = "linux")]
fn is_zombie(pid: u32) -> bool {
    stat_field(pid, 0).is_some_and(|state| matches!(state.as_str(), "Z" | "X" | "x"))
}

#[cfg(target_os = "linux")]
fn stat_field(pid: u32, number: usize) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(number).map(str::to_owned)
}

#[cfg(not(target_os = "linux"))]
fn is_zombie(_: u32) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn started(pid: u32) -> Option<String> {
    let output = std::process::Command::new("/bin/ps")
        .args(["-o", "lstart=", "-p", &pid.to_string()])
        .env("LC_ALL", "C")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The process file of a running session, removed on drop. If it cannot be written, the session can still be
/// cancelled from within, so that is no reason to stop the run.
#[derive(Debug)]
pub(crate) struct HolderMark(PathBuf);

impl HolderMark {
    /// Writes the process file next to this journal, readable only by its owner.
    pub(crate) fn leave(journal: &Path, confinement: &Confinement, work: WorkInProgress<'_>) -> Option<Self> {
        let path = journal.with_file_name(FILE_NAME);
        let text = serde_json::to_string(&RunningProcess::this(confinement, work)?).ok()?;
        // A file of a process that is gone, as the journal's lock shows.
        let _ = std::fs::remove_file(&path);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).ok()?;
        let mark = Self(path);
        file.write_all(text.as_bytes()).ok()?;
        Some(mark)
    }
}

impl Drop for HolderMark {
    fn drop(&mut self) {
        // The next process may have written its own file by now.
        if RunningProcess::of(&self.0).is_some_and(|holder| holder.pid == std::process::id()) {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}
