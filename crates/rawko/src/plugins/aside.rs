//! Folders for what is not installed yet, or not any more, beside the installed plug-ins.
//!
//! Dropping one removes it. A process that was ended leaves it behind, for the next one to remove: whether its process is still
//! there is known by a lock on the folder.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use rawko_tools::FileLock;
use tempfile::TempDir;

/// Begins their names. No plug-in has such a name.
const ASIDE: &str = ".new-";

/// A new folder, as long as this lives.
#[derive(Debug)]
pub(super) struct AsideFolder {
    folder: TempDir,
    /// `None` where the file system knows no locks.
    _lock: Option<FileLock>,
}

impl AsideFolder {
    /// One in `all`.
    pub(super) fn new(all: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(ASIDE).tempdir_in(all)?;
        let held = |error| io::Error::other(format!("{}: {error}", folder.path().display()));
        let lock = FileLock::take_if_known(File::open(folder.path())?, Duration::ZERO).map_err(held)?;
        Ok(Self { folder, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Puts it at `place`, where nothing may be.
    pub(super) fn move_to(self, place: &Path) -> io::Result<()> {
        fs::rename(self.path(), place)?;
        let _ = self.folder.keep();
        Ok(())
    }
}

/// Removes those in `all` whose processes are gone. What cannot be removed stays for the next time.
pub(super) fn clear(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let is_aside = entry.file_name().as_encoded_bytes().starts_with(ASIDE.as_bytes());
        // A link is none of ours.
        if !is_aside || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        if let Ok(folder) = File::open(&path)
            && let Ok(_lock) = FileLock::take(folder, Duration::ZERO)
        {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_ended_process_left_is_removed_and_nothing_else() {
        let all = tempfile::tempdir().unwrap();
        let here = |name: &str| all.path().join(name);
        for folder in [".new-left/deep", "demo", ".newer"] {
            fs::create_dir_all(here(folder)).unwrap();
        }
        fs::write(here(".new-file"), "x").unwrap();
        std::os::unix::fs::symlink("demo", here(".new-link")).unwrap();
        let used = AsideFolder::new(all.path()).unwrap();
        clear(all.path());
        assert!(!here(".new-left").exists());
        assert!(used.path().exists(), "its process is there");
        for name in ["demo", ".newer", ".new-file", ".new-link"] {
            assert!(here(name).exists(), "{name}");
        }
    }

    #[test]
    fn one_is_moved_or_removed() {
        let all = tempfile::tempdir().unwrap();
        let place = all.path().join("demo");
        AsideFolder::new(all.path()).unwrap().move_to(&place).unwrap();
        assert!(place.is_dir());
        drop(AsideFolder::new(all.path()).unwrap());
        assert_eq!(fs::read_dir(all.path()).unwrap().count(), 1);
        fs::write(place.join("file"), "x").unwrap();
        assert!(AsideFolder::new(all.path()).unwrap().move_to(&place).is_err(), "it is not empty");
        assert_eq!(fs::read_dir(all.path()).unwrap().count(), 1);
    }
}
