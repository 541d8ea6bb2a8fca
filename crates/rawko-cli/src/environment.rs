//! The process's environment: variables and the user's directories. The only place that reads them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rawko::config::{user_cache_dir, user_config_dir, user_data_dir, user_state_dir};

/// The environment as it was at the start.
#[derive(Clone, Copy)]
pub(crate) struct ProcessEnv {
    /// Kept apart from the process's environment, where other processes could read them.
    secrets: &'static [(OsString, OsString)],
}

impl std::fmt::Debug for ProcessEnv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessEnv").field("secrets", &self.secrets.len()).finish()
    }
}

impl ProcessEnv {
    /// Takes the secrets out of the process's environment. To be called before there are other threads.
    pub(crate) fn take() -> Self {
        Self { secrets: rawko::tools::take_secret_variables().leak() }
    }

    /// The variables that are no longer in the process's environment.
    pub(crate) fn secrets(self) -> &'static [(OsString, OsString)] {
        self.secrets
    }

    /// A variable's value; `None` if it is not set, blank, or not UTF-8.
    pub(crate) fn var(self, name: &str) -> Option<String> {
        let taken = self.secrets.iter().find(|(known, _)| known == name);
        let value = taken.map(|(_, value)| value.clone()).or_else(|| std::env::var_os(name))?;
        value.into_string().ok().filter(|value| !value.trim().is_empty())
    }

    /// The first program with this name in `PATH` that is outside the project: programs inside it are the project's
    /// own.
    pub(crate) fn program_outside(self, name: &str, project: &Path) -> Option<PathBuf> {
        rawko::tools::program_outside(name, std::env::var_os("PATH").as_deref(), &[project])
    }

    /// The user's home folder.
    pub(crate) fn home(self) -> Option<PathBuf> {
        // Without the variable, the system's user database has it.
        self.var("HOME").map(PathBuf::from).or_else(std::env::home_dir)
    }

    /// `$XDG_CACHE_HOME/rawko`, which holds the decision cache.
    pub(crate) fn cache_dir(self) -> Option<PathBuf> {
        user_cache_dir(&|name| self.var(name))
    }

    /// `$XDG_CONFIG_HOME/rawko`, which holds the user's own `config.yaml`.
    pub(crate) fn config_dir(self) -> Option<PathBuf> {
        user_config_dir(&|name| self.var(name))
    }

    /// `$XDG_DATA_HOME/rawko`, which holds plug-ins and the store of fleets.
    pub(crate) fn data_dir(self) -> Option<PathBuf> {
        user_data_dir(&|name| self.var(name))
    }

    /// `$XDG_STATE_HOME/rawko`, which holds the list of trusted folders.
    pub(crate) fn state_dir(self) -> Option<PathBuf> {
        user_state_dir(&|name| self.var(name))
    }
}
