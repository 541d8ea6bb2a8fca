//! Where a command works: the folder, its configuration, the user's directories, the outputs.

use std::path::{Path, PathBuf};

use rawko::config::TrustStore;
use rawko::journal::{JournalError, SessionStore};
use rawko::{Rawko, RawkoBuilder};

use crate::arguments::Global;
use crate::console::Console;
use crate::environment::Environment;
use crate::exit::Exit;
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

    /// The folder that is worked in.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Begins to build the SDK's entry for this folder.
    pub(crate) fn builder(&self) -> RawkoBuilder {
        let environment = self.environment;
        let mut builder = Rawko::builder().project(&self.folder).env(move |name| environment.var(name));
        if let Some(file) = &self.config {
            builder = builder.config_file(file);
        }
        if let Some(directory) = environment.config_dir() {
            builder = builder.user_config_dir(directory);
        }
        if let Some(directory) = environment.state_dir() {
            builder = builder.trust_store(TrustStore::new(&directory));
        }
        builder
    }

    /// The configuration, to be looked at: no program of it is run and no address of it reached, so that trust is no
    /// question. What somebody should know of it is said on standard error.
    pub(crate) fn inspect(&self) -> Result<Rawko, Failure> {
        let rawko = self.builder().trusted(true).build()?;
        self.warn(&rawko);
        Ok(rawko)
    }

    /// The configuration, to be acted on.
    pub(crate) fn open(&self) -> Result<Rawko, Failure> {
        let rawko = self.builder().build()?;
        self.warn(&rawko);
        Ok(rawko)
    }

    /// The sessions of this folder. Needs no configuration, and thus no sound one.
    pub(crate) fn sessions(&self) -> Result<SessionStore, Failure> {
        let folder = self.folder.canonicalize().map_err(|error| {
            Failure::usage(format!("cannot work in {}: {error}", self.folder.display()))
                .with_hint("name a folder that exists with --cwd DIR")
        })?;
        Ok(SessionStore::of_project(&folder))
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

impl From<rawko::Error> for Failure {
    fn from(error: rawko::Error) -> Self {
        use rawko::Error as E;
        let message = error.to_string();
        match error {
            E::EmptyTask => crate::commands::run::no_task(),
            E::Project { path, source } => {
                Self::usage(format!("cannot work in {}: {source}", path.display()))
                    .with_hint("name a folder that exists with --cwd DIR, or change into it")
            }
            E::Config(_) => Self::usage(message),
            E::Setup { message, hint } => Self::usage(message).with_hint(hint),
            E::NoKey { provider, variable } => Self::new(Exit::Provider, message).with_hint(format!(
                "set it: export {variable}=…\n\
                 or use another provider than `{provider}`: --provider NAME (`rawko providers list`), \
                 e.g. `--provider ollama` for a model on this machine\n\
                 `rawko demo` shows a run without any key"
            )),
            E::Untrusted { folder: _, claims } => {
                let claims: Vec<String> = claims.iter().map(|claim| format!("\n  {claim}")).collect();
                Self::new(Exit::Untrusted, format!("{message}:{}", claims.concat())).with_hint(
                    "read what it asks for; then trust the folder as it is now with `rawko trust`, \
                     or this one run with --yes",
                )
            }
            E::Trust(_) => Self::new(Exit::Untrusted, message)
                .with_hint("while that file cannot be read no folder is trusted; --yes trusts this one run"),
            E::Journal(error) => of_journal(&error, message),
            E::Diverged { session, divergence: _ } => Self::new(Exit::Failed, message).with_hint(format!(
                "`rawko replay {session}` tells the difference; with the rawko that recorded it, it goes on; \
                 `rawko fork {session} --at N` begins anew from a record before the difference"
            )),
            E::StillHeld { pid, .. } => Self::new(Exit::Failed, message).with_hint(match pid {
                Some(pid) => format!("wait longer with --wait TIME, or end it at once: kill -KILL {pid}"),
                None => "it could not be found, or belongs to somebody else: end it where it runs".to_owned(),
            }),
            E::Interrupted => Self::new(Exit::Failed, message),
            // The SDK may learn of failures that this version has no advice for.
            _ => Self::new(Exit::Failed, message),
        }
    }
}

/// What to do about a journal. Damage says itself what repairs it.
fn of_journal(error: &JournalError, message: String) -> Failure {
    match error {
        JournalError::NotFound { .. } | JournalError::Ambiguous { .. } => Failure::usage(message),
        JournalError::Locked { .. } => Failure::new(Exit::Failed, message)
            .with_hint("wait until it has ended, or end it: rawko cancel ID"),
        JournalError::Io { .. } => Failure::new(Exit::Failed, message)
            .with_hint("check the disk and the rights of .rawko/sessions; `rawko doctor` looks at both"),
        _ => Failure::new(Exit::Failed, message),
    }
}
