//! What an execution has changed survives a power cut, before a record says that it is done.
//!
//! The whole file system is synced, not one file after another: agents decide what is at a path, and what matters is not only
//! in files that changed (git's objects and refs, folders, commits of an agent).

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::OFlags;

/// How long a run waits: the disk may have much to write for other programs, or may not answer. It goes on writing then.
const PATIENCE: Duration = Duration::from_secs(3);

/// Has what was written beside the project reach the disk; within [`PATIENCE`], or later. A failure is not reported: the
/// files are no worse off than without this.
pub(super) fn make_durable(project: &Path) {
    let flags = i32::try_from(OFlags::DIRECTORY.bits()).unwrap_or_default();
    let Ok(folder) = OpenOptions::new().read(true).custom_flags(flags).open(project) else { return };
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
