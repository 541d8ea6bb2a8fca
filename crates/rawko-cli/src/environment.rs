//! The process's environment: variables and the user's directories. The only place that reads them.

use std::path::PathBuf;

/// The environment as it was at the start.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Environment;

impl Environment {
    /// A variable's text; `None` where it is not set, empty, or not text.
    pub(crate) fn var(self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.trim().is_empty())
    }

    /// A directory or file named by a variable.
    fn path(self, name: &str) -> Option<PathBuf> {
        std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// Where programs are looked for.
    pub(crate) fn search_path(self) -> Vec<PathBuf> {
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
    }

    /// Whether a program of this name can be found.
    pub(crate) fn program(self, name: &str) -> Option<PathBuf> {
        self.search_path().into_iter().map(|folder| folder.join(name)).find(|path| path.is_file())
    }

    /// `$XDG_CONFIG_HOME/rawko`, where the user's own `config.yaml` is.
    pub(crate) fn config_dir(self) -> Option<PathBuf> {
        self.user_dir("XDG_CONFIG_HOME", ".config")
    }

    /// `$XDG_STATE_HOME/rawko`, where it is remembered which folders are trusted.
    pub(crate) fn state_dir(self) -> Option<PathBuf> {
        self.user_dir("XDG_STATE_HOME", ".local/state")
    }

    fn user_dir(self, variable: &str, under_home: &str) -> Option<PathBuf> {
        // The XDG specification has relative paths ignored.
        let base = self.path(variable).filter(|path| path.is_absolute());
        let base = base.or_else(|| self.path("HOME").map(|home| home.join(under_home)))?;
        Some(base.join("rawko"))
    }
}
