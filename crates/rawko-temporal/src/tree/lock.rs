//! Locks mirrors and trees: each lock is one on an empty file.
//!
//! Git is given that file as its standard input. So when a worker is killed, the lock is held until the git that it started
//! has ended too: no worker finds a repository that an abandoned process still writes.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rawko_tools::{FileLock, FileLockError, file_id};
use rustix::fs::OFlags;

use super::error::TreeError;

#[derive(Debug)]
pub(super) struct TreeLock {
    lock: FileLock,
    path: PathBuf,
}

impl TreeLock {
    /// Takes the lock; `None` if others hold it for longer than `patience`.
    pub(super) fn acquire(path: &Path, patience: Duration) -> Result<Option<Self>, TreeError> {
        let cannot = |error| TreeError::io("lock", path, error);
        let until = Instant::now() + patience;
        loop {
            let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
            let options = &mut OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = file.custom_flags(flags).open(path).map_err(cannot)?;
            match FileLock::take(file, until.saturating_duration_since(Instant::now())) {
                // Who forgets a task removes the file while it is locked: then it is not the one that others will lock.
                Ok(lock) if is_at(lock.file(), path) => {
                    return Ok(Some(Self { lock, path: path.to_owned() }));
                }
                Ok(_) => {}
                Err(FileLockError::Held) => return Ok(None),
                Err(FileLockError::Unknown(error)) => return Err(cannot(error)),
            }
        }
    }

    /// The lock as the empty standard input of a process, which then holds it too.
    pub(super) fn as_input(&self) -> Result<Stdio, TreeError> {
        Ok(self
            .lock
            .file()
            .try_clone()
            .map_err(|error| TreeError::io("share the lock", &self.path, error))?
            .into())
    }

    /// Removes the file, and with it the lock.
    pub(super) fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Drop for TreeLock {
    fn drop(&mut self) {
        // Every git of ours has ended. Another thread's new child may have a copy of the file until it runs its program.
        self.lock.release();
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(locked), Ok(found)) => file_id(&locked) == file_id(&found),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn one_at_a_time_even_when_the_file_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let (inside, most) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for thread in 0..8_u32 {
                let (path, inside, most) = (&path, &inside, &most);
                scope.spawn(move || {
                    for round in 0..50_u32 {
                        let lock = TreeLock::acquire(path, Duration::from_secs(60)).unwrap().unwrap();
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        if (thread + round) % 3 == 0 {
                            lock.remove();
                        }
                    }
                });
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_process_that_was_given_it_holds_it_until_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mut lock = TreeLock::acquire(&path, Duration::ZERO).unwrap().unwrap();
        let input = lock.as_input().unwrap();
        let mut child = std::process::Command::new("sleep").arg("600").stdin(input).spawn().unwrap();
        // As when this process is killed: its own copy goes, without being released.
        let other = File::create(folder.path().join("other")).unwrap();
        drop(std::mem::replace(&mut lock.lock, FileLock::take(other, Duration::ZERO).unwrap()));
        assert!(TreeLock::acquire(&path, Duration::from_millis(1)).unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(TreeLock::acquire(&path, Duration::from_secs(60)).unwrap().is_some());
    }
}
