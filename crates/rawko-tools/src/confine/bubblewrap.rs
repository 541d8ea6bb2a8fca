//! Finds the bubblewrap of this machine. It builds the walls, so it has to be the system's: one that a user or a
//! project can change is not used.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::programs;

/// The first `bwrap` of these folders that only root can change and that is not in the project.
pub(super) fn find(folders: &OsStr, project: &Path) -> Option<PathBuf> {
    programs::find("bwrap", std::env::split_paths(folders), project, is_of_root)
}

/// Whether only root can change it. A sticky folder is not enough: others can make files there.
fn is_of_root(found: &Metadata) -> bool {
    found.uid() == 0 && found.mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[track_caller]
    fn check(folders: &[&Path], project: &Path, expected: Option<&Path>) {
        let folders = std::env::join_paths(folders).unwrap();
        assert_eq!(find(&folders, project).as_deref(), expected, "{}", folders.display());
    }

    fn program(folder: &Path, mode: u32) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
        let program = folder.join("bwrap");
        fs::write(&program, "").unwrap();
        fs::set_permissions(&program, Permissions::from_mode(mode)).unwrap();
        program
    }

    #[test]
    fn one_that_others_can_change_is_not_taken() {
        let none = Path::new("/nowhere");
        // Also if the file itself is root's.
        let shared = tempfile::tempdir_in("/tmp").unwrap();
        program(shared.path(), 0o755);
        check(&[shared.path()], none, None);
        if !rustix_is_root() {
            return;
        }
        let folder = tempfile::tempdir_in("/var/lib").unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let at = |name: &str| folder.path().join(name);
        let good = program(&at("good"), 0o755);
        program(&at("writable"), 0o775);
        program(&at("no-program"), 0o644);
        program(&at("open"), 0o755);
        fs::set_permissions(at("open"), Permissions::from_mode(0o777)).unwrap();
        program(&at("theirs"), 0o755);
        std::os::unix::fs::chown(at("theirs/bwrap"), Some(65_534), None).unwrap();
        fs::create_dir(at("linked")).unwrap();
        symlink(shared.path().join("bwrap"), at("linked/bwrap")).unwrap();
        for refused in ["writable", "no-program", "open", "theirs", "linked", "absent"] {
            check(&[&at(refused)], none, None);
            check(&[&at(refused), &at("good")], none, Some(&good));
        }
        check(&[&at("good")], folder.path(), None);
        check(&[Path::new("good"), Path::new("")], none, None);
    }

    fn rustix_is_root() -> bool {
        tempfile::tempfile().unwrap().metadata().unwrap().uid() == 0
    }
}
