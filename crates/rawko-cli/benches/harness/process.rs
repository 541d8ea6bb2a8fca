//! What the kernel says of a process: time on the processor, memory, bytes written.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// A process being watched.
pub(crate) struct Process {
    folder: PathBuf,
    /// Nanoseconds by thread; of one that has ended, what was seen last.
    threads: BTreeMap<String, u64>,
}

/// A process at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sample {
    /// Nanoseconds on a processor, all threads, in and out of the kernel; children not counted.
    pub(crate) cpu_ns: u64,
    /// Kilobytes of memory without a file of its own.
    pub(crate) anonymous_kb: u64,
    /// Most kilobytes resident so far, the binary's own pages included.
    pub(crate) peak_kb: u64,
    /// Bytes handed to write calls so far, sockets included.
    pub(crate) written: u64,
    /// Bytes that went towards a disk so far.
    pub(crate) to_disk: u64,
}

impl Process {
    /// The process `pid`.
    pub(crate) fn new(pid: u32) -> Self {
        Self { folder: PathBuf::from(format!("/proc/{pid}")), threads: BTreeMap::new() }
    }

    /// Looks at it. Of a process that is gone, what was seen last.
    pub(crate) fn sample(&mut self) -> Sample {
        for thread in std::fs::read_dir(self.folder.join("task")).into_iter().flatten().flatten() {
            let figures = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            if let Some(ns) = figures.split(' ').next().and_then(|first| first.parse().ok()) {
                self.threads.insert(thread.file_name().to_string_lossy().into_owned(), ns);
            }
        }
        let status = self.read("status");
        let io = self.read("io");
        Sample {
            cpu_ns: self.threads.values().sum(),
            anonymous_kb: figure(&status, "RssAnon:"),
            peak_kb: figure(&status, "VmHWM:"),
            written: figure(&io, "wchar:"),
            to_disk: figure(&io, "write_bytes:"),
        }
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }
}

/// The number after `name` at the beginning of a line.
fn figure(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The processor's name and how many of them there are.
pub(crate) fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown processor");
    let count = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{count} × {}", name.trim_start_matches([':', ' ', '\t']))
}
