//! Makes empty folders, for the length of a run, where a project lacks those from which programs take agents, hooks and
//! settings: nothing can be mounted over a folder that is not there.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The folders, at the top of a project.
const FOLDERS: [&str; 2] = [".claude", ".rawko"];
/// By this bit of its mode a folder is known that a run made which was killed: the user's own has not got it, empty or not.
const MADE_HERE: u32 = 0o1000;

/// Those that were made here, or by a run that was killed. Dropping it removes them, but for what the user has put into
/// them meanwhile.
#[derive(Debug)]
pub(super) struct HeldFolders {
    /// The project. Others are copies of it, which no one works in.
    root: Option<PathBuf>,
    made: Mutex<BTreeSet<PathBuf>>,
}

impl HeldFolders {
    pub(super) fn of(root: Option<PathBuf>) -> Self {
        Self { root, made: Mutex::default() }
    }

    /// Makes what is missing in the project at `root`; all that were made in it.
    pub(super) fn hold(&self, root: &Path) -> Vec<PathBuf> {
        if self.root.as_deref() != Some(root) {
            return Vec::new();
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let is_empty = |path: &Path| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        let is_ours = |path: &Path| {
            path.symlink_metadata()
                .is_ok_and(|found| found.is_dir() && found.permissions().mode() & MADE_HERE != 0)
        };
        let is_held = |path: &PathBuf| {
            DirBuilder::new().mode(0o777 | MADE_HERE).create(path).is_ok()
                || (is_ours(path) && is_empty(path))
        };
        made.extend(FOLDERS.map(|name| root.join(name)).into_iter().filter(is_held));
        made.iter().cloned().collect()
    }
}

impl Drop for HeldFolders {
    fn drop(&mut self) {
        for folder in self.made.get_mut().unwrap_or_else(PoisonError::into_inner).iter() {
            // Fails where something is in it. Then it is the user's.
            if fs::remove_dir(folder).is_err()
                && let Ok(found) = folder.symlink_metadata()
                && found.is_dir()
            {
                let mode = found.permissions().mode() & 0o777;
                let _ = fs::set_permissions(folder, Permissions::from_mode(mode));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn what_is_empty_is_removed_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join(".rawko")).unwrap();
        fs::write(root.join(".rawko/config.yaml"), "").unwrap();
        let held = HeldFolders::of(Some(root.to_owned()));
        assert_eq!(held.hold(Path::new("/nowhere")), Vec::<PathBuf>::new());
        assert_eq!(held.hold(root), [root.join(".claude")]);
        assert_eq!(held.hold(root), [root.join(".claude")]);
        // One that was killed leaves it, and the next one takes it up.
        std::mem::forget(held);
        let held = HeldFolders::of(Some(root.to_owned()));
        assert_eq!(held.hold(root), [root.join(".claude")]);
        drop(held);
        assert!(root.join(".rawko").exists() && !root.join(".claude").exists());
        let held = HeldFolders::of(Some(root.to_owned()));
        held.hold(root);
        fs::write(root.join(".claude/settings.json"), "theirs").unwrap();
        drop(held);
        assert!(root.join(".claude/settings.json").exists());
        let mode = root.join(".claude").metadata().unwrap().permissions().mode();
        assert_eq!(mode & MADE_HERE, 0, "{mode:o}");
    }

    #[test]
    fn an_empty_folder_of_the_user_stays() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join(".claude")).unwrap();
        let held = HeldFolders::of(Some(root.to_owned()));
        assert_eq!(held.hold(root), [root.join(".rawko")]);
        drop(held);
        assert!(root.join(".claude").is_dir() && !root.join(".rawko").exists());
    }
}
