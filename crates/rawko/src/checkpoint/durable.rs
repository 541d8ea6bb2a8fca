//! What an execution has changed survives a power cut, before a record says that it is done.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use super::diff::FileChange;
use crate::private::sync_directory;

/// Files that are synced one by one. For more, the file system of the project is synced, with what other programs wrote.
const ONE_BY_ONE: usize = 200;

/// Has these changes of the project reach the disk. What cannot be synced is not said: it is where it would be without that.
pub(super) fn make_durable(project: &Path, changes: &[FileChange]) {
    if changes.len() > ONE_BY_ONE {
        sync_all_of(project);
        return;
    }
    let mut folders = BTreeSet::new();
    for path in changes.iter().map(|change| project.join(&change.path)) {
        // Nothing is followed, and nothing but a regular file is waited for: commands may have put anything there.
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
        if let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(&path)
            && file.metadata().is_ok_and(|metadata| metadata.is_file())
        {
            let _ = file.sync_all();
        }
        folders.extend(path.parent().map(Path::to_owned));
    }
    for folder in folders {
        sync_directory(&folder);
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn sync_all_of(project: &Path) {
    if let Ok(folder) = std::fs::File::open(project) {
        let _ = rustix::fs::syncfs(&folder);
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn sync_all_of(_: &Path) {
    rustix::fs::sync();
}
