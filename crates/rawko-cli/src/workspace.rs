//! What every command works with: the folder, its configuration, the environment, the outputs.

use std::path::{Path, PathBuf};

use rawko::config::{ConfigErrors, TrustStore};
use rawko::journal::{SessionInfo, SessionStatus, SessionStore};
use rawko::{DecisionCache, Rawko, RawkoBuilder};

use crate::console::Console;
use crate::environment::ProcessEnv;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::home::TooWide;
use crate::keyboard::Keyboard;
use crate::output::{clean, clean_line, quoted};

/// Sessions that are named where several run.
const NAMED: usize = 5;

/// The folder, environment and outputs of a command.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The outputs.
    pub(crate) console: Console,
    /// The terminal's keyboard.
    pub(crate) keyboard: Keyboard,
    /// The process's environment.
    pub(crate) environment: ProcessEnv,
    folder: PathBuf,
    /// Whether the folder was given by `--cwd`.
    is_named: bool,
    config: Option<PathBuf>,
}

impl Workspace {
    /// From the options and the environment.
    pub(crate) fn new(environment: ProcessEnv, console: Console, global: GlobalArgs) -> Self {
        let config = global.config.or_else(|| environment.var("RAWKO_CONFIG").map(PathBuf::from));
        let is_named = global.cwd.is_some();
        let folder = global.cwd.unwrap_or_else(|| PathBuf::from("."));
        Self { console, keyboard: Keyboard::default(), environment, folder, is_named, config }
    }

    /// The same in another folder, which a client names.
    #[cfg(feature = "acp")]
    pub(crate) fn at(&self, folder: &Path) -> Self {
        Self {
            console: self.console,
            keyboard: Keyboard::default(),
            environment: self.environment,
            folder: folder.to_owned(),
            is_named: false,
            config: self.config.clone(),
        }
    }

    /// The project that the folder belongs to: the nearest ancestor with a `.rawko`, up to the root of the repository, or
    /// else that root, or else the folder itself. A home folder counts only if it is [configured as a project](TooWide):
    /// neither sessions of an earlier run nor dotfiles kept in git make everything below it part of a project.
    ///
    /// # Errors
    /// If the folder does not exist, or its `.rawko` is a link.
    pub(crate) fn project(&self) -> Result<PathBuf, Failure> {
        let project = self.nearest_project()?;
        rawko::check_project_folder(&project)?;
        Ok(project)
    }

    fn nearest_project(&self) -> Result<PathBuf, Failure> {
        let folder = self.folder.canonicalize().map_err(|error| {
            Failure::usage(format!("cannot work in {}: {error}", self.folder.display()))
                .with_hint("name an existing folder with --cwd DIR")
        })?;
        let home = self.home();
        for above in folder.ancestors() {
            let may_be_one = above == folder || TooWide::of(above, home.as_deref()).is_none();
            if may_be_one && above.join(".rawko").is_dir() {
                return Ok(above.to_owned());
            }
            if above.join(".git").exists() {
                // Agents see all of the repository, whichever of its folders the user is in.
                return Ok(if may_be_one { above.to_owned() } else { folder });
            }
        }
        Ok(folder)
    }

    /// The file that `--config` names.
    #[cfg(feature = "fleet")]
    pub(crate) fn config_file(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The user's home folder with links resolved, if there is one.
    fn home(&self) -> Option<PathBuf> {
        self.environment.home()?.canonicalize().ok()
    }

    /// Why the project is too wide, unless it was named by `--cwd`.
    pub(crate) fn too_wide(&self) -> Option<(TooWide, PathBuf)> {
        let project = self.project().ok().filter(|_| !self.is_named)?;
        Some((TooWide::of(&project, self.home().as_deref())?, project))
    }

    /// Refuses a run in a folder that is too wide for a project.
    ///
    /// # Errors
    /// In the home folder, above it and at the root, unless `--cwd` names the folder.
    pub(crate) fn check_project_is_chosen(&self) -> Result<(), Failure> {
        let Some((too_wide, project)) = self.too_wide() else { return Ok(()) };
        let message =
            format!("{}: a run could read and change everything in it", too_wide.described(&project));
        Err(Failure::usage(message).with_hint(choose(&project)))
    }

    /// The user's own records: which folders are trusted, and the key of seals. `None` where there is no folder for them.
    pub(crate) fn records(&self) -> Option<TrustStore> {
        Some(TrustStore::new(&self.environment.state_dir()?))
    }

    /// The records, to read or store which folders are trusted.
    ///
    /// # Errors
    /// If there is no folder for them.
    pub(crate) fn trust_store(&self) -> Result<TrustStore, Failure> {
        self.records().ok_or_else(|| {
            Failure::usage("cannot store which folders are trusted: neither XDG_STATE_HOME nor HOME is set")
                .with_hint("set HOME; or trust a single run with --yes")
        })
    }

    /// The records, to seal what the user says to a run.
    ///
    /// # Errors
    /// If there is no folder for them.
    pub(crate) fn key_store(&self) -> Result<TrustStore, Failure> {
        self.records().ok_or_else(|| {
            Failure::usage("there is no folder for your key: HOME is not set")
                .with_hint("set HOME, or XDG_STATE_HOME")
        })
    }

    /// Whether this folder's configuration is trusted as it is now. A trust store that cannot be read trusts nothing.
    pub(crate) fn is_trusted(&self, rawko: &Rawko) -> bool {
        let (store, digest) = (self.records(), rawko.config().project_digest.as_deref());
        store
            .zip(digest)
            .is_some_and(|(store, digest)| store.is_trusted(rawko.project(), digest).unwrap_or_default())
    }

    /// The working folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A builder for this folder.
    pub(crate) fn builder(&self) -> RawkoBuilder {
        // If the folder does not exist, the SDK reports it.
        let nearest = self.nearest_project().unwrap_or_else(|_| self.folder.clone());
        let builder = builder_of(self.environment).folder(&self.folder).project(nearest);
        match &self.config {
            Some(file) => builder.config_file(file),
            None => builder,
        }
    }

    /// Has this process, which has one thread, gain the right to show runs their own trees, if they are to have some. Where that
    /// cannot be, a tree is a copy at another path.
    ///
    /// # Errors
    /// If the process has lost its user by that.
    pub(crate) fn gain_mounts(&self, are_isolated: bool) -> Result<(), Failure> {
        if !are_isolated || rawko::tools::may_mount() {
            return Ok(());
        }
        rawko::tools::gain_mounts().map(drop).map_err(|error| {
            Failure::new(Exit::Failed, format!("this user cannot be mapped into a namespace: {error}"))
                .with_hint("leave out --isolated, or set `workspace: project`")
        })
    }

    /// The same for a session that may have a tree.
    pub(crate) fn gain_mounts_for(&self, id: Option<&str>) -> Result<(), Failure> {
        let store = self.sessions().ok();
        let id = id.unwrap_or("last");
        self.gain_mounts(store.is_some_and(|store| rawko::session_was_isolated(&store, id)))
    }

    /// Whether the configuration has runs isolated.
    pub(crate) fn isolates(&self) -> bool {
        self.builder().trusted(true).build().is_ok_and(|rawko| isolates(&rawko))
    }

    /// Loads the configuration only to read it. No program in it is run and no address reached, so trust is not needed.
    /// Warnings go to standard error.
    pub(crate) fn inspect(&self) -> Result<Rawko, Failure> {
        self.inspect_or_errors()?.map_err(|errors| rawko::Error::Config(errors).into())
    }

    /// The same, but returns configuration errors.
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

    /// Loads the configuration to act on it, which may need trust.
    pub(crate) fn open(&self) -> Result<Rawko, Failure> {
        let rawko = self.builder().build()?;
        self.warn(&rawko);
        Ok(rawko)
    }

    /// The same without warnings: the command says itself what they would.
    pub(crate) fn open_quietly(&self) -> Result<Rawko, Failure> {
        Ok(self.builder().build()?)
    }

    /// The sessions of this folder. Does not load the configuration.
    pub(crate) fn sessions(&self) -> Result<SessionStore, Failure> {
        Ok(SessionStore::of_project(&self.project()?))
    }

    /// The one session that runs.
    pub(crate) fn running_session(&self) -> Result<String, Failure> {
        let sessions = self.sessions()?.list()?;
        let running: Vec<&SessionInfo> =
            sessions.iter().filter(|session| session.status == SessionStatus::Running).collect();
        match running.as_slice() {
            [one] => Ok(one.id.clone()),
            [] => Err(Failure::usage("no session is running in this folder")
                .with_hint("`rawko sessions list` shows all sessions; `rawko resume` goes on with one")),
            several => {
                let names: Vec<String> =
                    several.iter().rev().take(NAMED).map(|session| clean_line(&session.id)).collect();
                Err(Failure::usage(format!("{} sessions are running in this folder", several.len()))
                    .with_hint(format!("name one: {}", names.join(", "))))
            }
        }
    }

    /// Writes the configuration's warnings to standard error.
    pub(crate) fn warn(&self, rawko: &Rawko) {
        let paint = self.console.error_paint();
        for warning in &rawko.config().warnings {
            let text = format!("{} {}\n", paint.warning("warning:"), clean(&warning.to_string()));
            let _ = self.console.write_error(&text);
        }
    }
}

/// Whether its runs are isolated.
pub(crate) fn isolates(rawko: &Rawko) -> bool {
    rawko.config().config.workspace == rawko::Workspace::Isolated
}

/// A builder of a project without its folder: with the user's own configuration, environment and records.
pub(crate) fn builder_of(environment: ProcessEnv) -> RawkoBuilder {
    let mut builder = Rawko::builder()
        .env(move |name| environment.var(name))
        .secret_variables(environment.secrets().iter().cloned());
    #[cfg(feature = "acp")]
    {
        builder = builder.outside_agents(std::sync::Arc::new(rawko_acp::AcpAgents));
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

/// The hint for a folder that is too wide.
pub(crate) fn choose(folder: &Path) -> String {
    format!(
        "change to your project (cd your/project), or name it: --cwd DIR\n\
         to use this folder anyway: --cwd {}",
        quoted(&folder.to_string_lossy())
    )
}
