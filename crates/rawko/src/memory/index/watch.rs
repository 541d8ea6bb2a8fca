//! Knowing that nothing changed since one looked, without looking again.
//!
//! A run selects memories again and again. Between two selections the operating system tells whether anything in the folders was
//! written, moved, made or removed. That is believed on file systems of this machine alone, and for a minute at most:
//! a file that is written through a mapping, or by another name elsewhere, is not told of, and is found at the next look.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// Most folders that are watched.
const MAX_FOLDERS: usize = 256;

/// A watch over the memories' folders.
#[derive(Debug)]
pub(in crate::memory) struct Watch {
    #[cfg(target_os = "linux")]
    inner: linux::Watch,
    #[cfg(not(target_os = "linux"))]
    inner: std::convert::Infallible,
}

impl Watch {
    /// Begins to watch these folders. `None` where that is not possible, or could not be believed.
    pub(super) fn begin<'a>(root: &OwnedFd, folders: impl Iterator<Item = &'a str>) -> Option<Self> {
        #[cfg(target_os = "linux")]
        return Self { inner: linux::Watch::begin(root.as_fd())? }.with(root, folders);
        #[cfg(not(target_os = "linux"))]
        return None;
    }

    /// Watches these folders as well; those that are watched already stay so.
    pub(super) fn with<'a>(self, root: &OwnedFd, folders: impl Iterator<Item = &'a str>) -> Option<Self> {
        let folders: Vec<&str> = folders.collect();
        if folders.len() > MAX_FOLDERS {
            return None;
        }
        #[cfg(target_os = "linux")]
        self.inner.add(root.as_fd(), &folders)?;
        Some(self)
    }

    /// Whether `root` is what is watched and nothing happened to its memories.
    pub(super) fn is_quiet(&mut self, root: BorrowedFd<'_>) -> bool {
        #[cfg(target_os = "linux")]
        return self.inner.is_quiet(root);
        #[cfg(not(target_os = "linux"))]
        match self.inner {}
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
    use std::time::{Duration, Instant};

    use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
    use rustix::fs::{fstat, fstatfs};
    use rustix::io::Errno;

    use crate::memory::folder;

    /// How long quiet is believed.
    const BELIEVED: Duration = Duration::from_secs(60);
    /// File systems that know of every change: ext, XFS, Btrfs, tmpfs, overlay, F2FS, ZFS, bcachefs.
    const LOCAL: [u64; 8] =
        [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0xf2f5_2010, 0x2fc1_2fc1, 0xca45_1a4e];

    #[derive(Debug)]
    pub(super) struct Watch {
        events: OwnedFd,
        begun: Instant,
        root: (u64, u64),
    }

    impl Watch {
        pub(super) fn begin(root: BorrowedFd<'_>) -> Option<Self> {
            let begun = Instant::now();
            let kind = u64::try_from(fstatfs(root).ok()?.f_type).ok()?;
            if !LOCAL.contains(&kind) {
                return None;
            }
            let events = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
            Some(Self { events, begun, root: identity(root)? })
        }

        pub(super) fn add(&self, root: BorrowedFd<'_>, folders: &[&str]) -> Option<()> {
            let what = WatchFlags::MODIFY
                | WatchFlags::ATTRIB
                | WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MOVE
                | WatchFlags::DELETE_SELF
                | WatchFlags::MOVE_SELF
                | WatchFlags::ONLYDIR;
            for path in folders {
                // By the opened folder, so that no link is followed on the way.
                let folder = match folder::open_below(root, path) {
                    Ok(folder) => folder,
                    // Where it comes, or may be read, the folder above tells.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) if !path.is_empty() => {
                        continue;
                    }
                    Err(_) => return None,
                };
                add_watch(&self.events, format!("/proc/self/fd/{}", folder.as_raw_fd()), what).ok()?;
            }
            Some(())
        }

        pub(super) fn is_quiet(&mut self, root: BorrowedFd<'_>) -> bool {
            if self.begun.elapsed() > BELIEVED || identity(root) != Some(self.root) {
                return false;
            }
            let mut buffer = [MaybeUninit::uninit(); 8 * 1024];
            let mut events = Reader::new(self.events.as_fd(), &mut buffer);
            loop {
                match events.next() {
                    Err(Errno::AGAIN) => return true,
                    Err(Errno::INTR) => {}
                    Err(_) => return false,
                    Ok(event) => {
                        // What is hidden is no memory: rawko itself keeps such files there.
                        let is_hidden =
                            event.file_name().is_some_and(|name| name.to_bytes().starts_with(b"."));
                        if !is_hidden || event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                            return false;
                        }
                    }
                }
            }
        }
    }

    #[allow(clippy::useless_conversion, reason = "the types of the fields differ between platforms")]
    fn identity(root: BorrowedFd<'_>) -> Option<(u64, u64)> {
        fstat(root).ok().map(|stat| (u64::from(stat.st_dev), u64::from(stat.st_ino)))
    }
}
