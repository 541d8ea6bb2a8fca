//! Folders that are too wide for a project: the home folder, its ancestors and the root of the file system.
//!
//! A new terminal opens in the home folder, and agents may read and write the whole project. So a run there needs an
//! explicit choice: `--cwd`, or a configuration in the folder, which only `rawko init` or a person creates (runs create only
//! `.rawko/sessions`). A git work tree is not such a choice, because people keep their dotfiles in one.

use std::path::Path;

/// Why a folder is too wide for a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TooWide {
    /// The root of the file system.
    Root,
    /// The user's home folder.
    Home,
    /// A folder that holds the home folder, like `/home`.
    AboveHome,
}

impl TooWide {
    /// Why `folder` is too wide; `None` if it may be a project. Links in both paths are resolved.
    pub(crate) fn of(folder: &Path, home: Option<&Path>) -> Option<Self> {
        let too_wide = match home {
            _ if folder.parent().is_none() => Self::Root,
            Some(home) if home == folder => Self::Home,
            // A build may have its home folder inside a checkout, but /home itself is not kept in git.
            Some(home) if home.starts_with(folder) && !folder.join(".git").exists() => Self::AboveHome,
            Some(_) | None => return None,
        };
        let configuration = folder.join(".rawko");
        let is_configured =
            configuration.join("config.yaml").is_file() || configuration.join("agents").is_dir();
        (!is_configured).then_some(too_wide)
    }

    /// The reason in words.
    pub(crate) fn described(self, folder: &Path) -> String {
        let folder = folder.display();
        match self {
            Self::Root => format!("{folder} is the whole file system"),
            Self::Home => format!("{folder} is your home folder"),
            Self::AboveHome => format!("{folder} holds your home folder"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(folder: &Path, home: Option<&Path>, expected: Option<TooWide>) {
        assert_eq!(TooWide::of(folder, home), expected, "{} with {home:?}", folder.display());
    }

    #[test]
    fn a_home_folder_is_no_project() {
        let folder = tempfile::tempdir().unwrap();
        let above = folder.path();
        let home = above.join("home");
        let project = home.join("project");
        std::fs::create_dir_all(&project).unwrap();
        check(&project, Some(&home), None);
        check(&home, Some(&home), Some(TooWide::Home));
        check(above, Some(&home), Some(TooWide::AboveHome));
        check(Path::new("/"), Some(&home), Some(TooWide::Root));
        check(Path::new("/"), None, Some(TooWide::Root));
        check(&home, None, None);
        check(&home, Some(&project), Some(TooWide::AboveHome));
    }

    #[test]
    fn git_makes_a_project_of_what_holds_a_home_but_not_of_a_home() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        for git in [folder.path().join(".git"), home.join(".git")] {
            std::fs::create_dir_all(git).unwrap();
        }
        check(folder.path(), Some(&home), None);
        check(&home, Some(&home), Some(TooWide::Home));
    }

    #[test]
    fn a_configuration_makes_a_project_and_old_sessions_do_not() {
        for (path, expected) in [
            (".rawko/sessions/x", Some(TooWide::Home)),
            (".rawko/agents", None),
            ("else", Some(TooWide::Home)),
        ] {
            let home = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(home.path().join(path)).unwrap();
            check(home.path(), Some(home.path()), expected);
        }
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".rawko")).unwrap();
        std::fs::write(home.path().join(".rawko/config.yaml"), "").unwrap();
        check(home.path(), Some(home.path()), None);
    }
}
