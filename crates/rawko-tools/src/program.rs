//! Finds the programs that rawko runs for itself.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// The first program of this name in `path` (as in `PATH`) that is outside these folders: what is inside one, link or
/// program, is for others to change. Folders by relative paths do not count.
#[must_use]
pub fn program_outside(name: &str, path: Option<&OsStr>, folders: &[&Path]) -> Option<PathBuf> {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let folders: Vec<PathBuf> =
        folders.iter().map(|folder| real(folder).unwrap_or_else(|| (*folder).to_owned())).collect();
    let is_outside = |path: &Path| !folders.iter().any(|folder| path.starts_with(folder));
    let places = path.map(std::env::split_paths).into_iter().flatten().filter(|place| place.is_absolute());
    // A shim may decide by its name what it is, so the name as found is what is run.
    places
        .filter(|place| real(place).is_some_and(|place| is_outside(&place)))
        .map(|place| place.join(name))
        .find(|program| {
            program.is_file()
                && access(program, Access::EXEC_OK).is_ok()
                && real(program).is_some_and(|program| is_outside(&program))
        })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn what_a_project_can_change_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, mode) in [("project/bin/git", 0o755), ("plain/git", 0o644), ("good/git", 0o755)] {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), "").unwrap();
            fs::set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir_all(path("linking")).unwrap();
        symlink(path("project/bin/git"), path("linking/git")).unwrap();
        fs::create_dir_all(path("project/links")).unwrap();
        symlink(path("good/git"), path("project/links/git")).unwrap();
        symlink(path("project/bin"), path("leads-in")).unwrap();
        let bad = ["project/bin", "project/links", "plain", "linking", "leads-in", "none"].map(path);
        let found = |places: Vec<PathBuf>| {
            let places = std::env::join_paths(places).unwrap();
            program_outside("git", Some(&places), &[&path("project")])
        };
        assert_eq!(found(bad.to_vec()), None);
        assert_eq!(found([bad.as_slice(), &[path("good")]].concat()), Some(path("good/git")));
        assert_eq!(program_outside("git", None, &[]), None);
        let inside = path("project/bin").into_os_string();
        assert_eq!(program_outside("git", Some(&inside), &[]), Some(path("project/bin/git")));
    }
}
