//! Makes an execution's changes survive a power cut before a record says that it is done.
//!
//! The whole file system is synced, not one file after another: agents decide what is at a path, and what was written is not
//! only in files that are compared (folders, commits of an agent). Git syncs kept trees itself: its repository may be on
//! another file system.

use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use super::Checkpoints;

/// How long a run waits: the disk may have much to write for other programs, or may not answer. It goes on writing then.
const PATIENCE: Duration = Duration::from_secs(3);

impl Checkpoints {
    /// Syncs the file system of the project, and waits for that no longer than [`PATIENCE`]. A failure is not reported:
    /// the files are no worse off than without this.
    pub(crate) fn make_durable(&self) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(folder) = rustix::fs::open(&self.project, flags, Mode::empty()) else { return };
        let (done, waiting) = mpsc::channel();
        std::thread::spawn(move || {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            let _ = rustix::fs::syncfs(&folder);
            #[cfg(not(any(target_os = "linux", target_os = "android")))]
            rustix::fs::sync();
            let _ = done.send(folder);
        });
        let _ = waiting.recv_timeout(PATIENCE);
    }
}
