//! Where a command works: the folder, its configuration, the user's directories, the outputs.

use std::path::{Path, PathBuf};

use rawko::config::{ConfigErrors, TrustStore};
use rawko::journal::SessionStore;
use rawko::{DecisionCache, Rawko, RawkoBuilder};

use crate::arguments::Global;
use crate::console::Console;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::output::clean;

/// The surroundings of a command.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The outputs.
    pub(crate) console: Console,
    /// The process's environment.
    pub(crate) environment: Environment,
    folder: PathBuf,
    config: Option<PathBuf>,
}

impl Workspace {
    /// The surroundings that options and environment say.
    pub(crate) fn new(environment: Environment, console: Console, global: Global) -> Self {
        let config = global.config.or_else(|| environment.var("RAWKO_CONFIG").map(PathBuf::from));
        Self { console, environment, folder: global.cwd.unwrap_or_else(|| PathBuf::from(".")), config }
    }

    /// The project that the folder belongs to: the nearest folder above it with a `.rawko`, up to the root of its
    /// repository; the folder itself where there is none.
    ///
    /// # Errors
    /// Where the folder is not there.
    pub(crate) fn project(&self) -> Result<PathBuf, Failure> {
        let folder = self.folder.canonicalize().map_err(|error| {
            Failure::usage(format!("cannot work in {}: {error}", self.folder.display()))
                .with_hint("name a folder that exists with --cwd DIR, or change into it")
        })?;
        for above in folder.ancestors() {
            if above.join(".rawko").is_dir() {
                return Ok(above.to_owned());
            }
            if above.join(".git").exists() {
                break;
            }
        }
        Ok(folder)
    }

    /// The folder that is worked in.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Begins to build the SDK's entry for this folder.
    pub(crate) fn builder(&self) -> RawkoBuilder {
        let environment = self.environment;
        // A folder that is not there is the SDK's to complain about.
        let project = self.project().unwrap_or_else(|_| self.folder.clone());
        let mut builder =
            Rawko::builder().project(project).folder(&self.folder).env(move |name| environment.var(name));
        if let Some(file) = &self.config {
            builder = builder.config_file(file);
        }
        if let Some(directory) = environment.config_dir() {
            builder = builder.user_config_dir(directory);
        }
        if let Some(directory) = environment.state_dir() {
            builder = builder.trust_store(TrustStore::new(&directory));
        }
        if let Some(directory) = environment.cache_dir() {
            builder = builder.decision_cache(DecisionCache::new(&directory));
        }
        builder
    }

    /// The configuration, to be looked at: no program of it is run and no address of it reached, so that trust is no
    /// question. What somebody should know of it is said on standard error.
    pub(crate) fn inspect(&self) -> Result<Rawko, Failure> {
        self.inspect_or_errors()?.map_err(|errors| rawko::Error::Config(errors).into())
    }

    /// The same, where errors of the configuration are themselves of interest.
    pub(crate) fn inspect_or_errors(&self) -> Result<Result<Rawko, ConfigErrors>, Failure> {
        match self.builder().trusted(true).build() {
            Ok(rawko) => {
                self.warn(&rawko);
                Ok(Ok(rawko))
            }
            Err(rawko::Error::Config(errors)) => Ok(Err(errors)),
            Err(error) => Err(error.into()),
        }
    }

    /// The configuration, to be acted on.
    pub(crate) fn open(&self) -> Result<Rawko, Failure> {
        let rawko = self.builder().build()?;
        self.warn(&rawko);
        Ok(rawko)
    }

    /// The sessions of this folder. Needs no configuration, and thus no sound one.
    pub(crate) fn sessions(&self) -> Result<SessionStore, Failure> {
        Ok(SessionStore::of_project(&self.project()?))
    }

    /// Says what loading the configuration warned of.
    pub(crate) fn warn(&self, rawko: &Rawko) {
        let paint = self.console.error_paint();
        for warning in &rawko.config().warnings {
            let text = format!("{} {}\n", paint.warning("warning:"), clean(&warning.to_string()));
            let _ = self.console.write_error(&text);
        }
    }
}
