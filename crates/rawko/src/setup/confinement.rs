//! How the commands of a project's runs are confined: what the configuration asks for, what the machine offers, and what
//! is said about the difference.

use std::path::PathBuf;

use rawko_core::agent::{Enforcement, SandboxUse};
use rawko_core::setup::{AgentSetup, Setup};
use rawko_tools::{Confinement, Sandbox, Shortage};

use crate::checkpoint::Checkpoints;
use crate::config::user_cache_dir;
use crate::error::Error;
use crate::setup::rawko::Rawko;

impl Rawko {
    /// The sandbox that this machine offers for this project, whether it is used or not.
    ///
    /// # Errors
    /// What is missing.
    pub fn sandbox(&self) -> Result<&Sandbox, &Shortage> {
        let made = || {
            let variable = &self.builder.environment;
            let cache = user_cache_dir(variable.as_ref());
            let memory = self.loaded.config.permissions.memory;
            let helper = self.builder.helper.as_deref();
            let variable = |name: &str| variable(name).map(Into::into);
            Sandbox::new(self.tree(), helper, cache.as_deref(), memory, &variable)
        };
        self.sandbox.get_or_init(made).as_ref()
    }

    /// The files that the configuration denies and git tracks: its history shows them.
    #[must_use]
    pub fn denied_and_tracked(&self) -> Vec<PathBuf> {
        rawko_tools::denied_and_tracked(self.tree(), &self.loaded.config.permissions)
    }

    /// How commands are confined. The configuration and the builder decide; a sandbox that is required wins over one that
    /// is turned off.
    ///
    /// # Errors
    /// [`Error::Setup`] where `permissions.require: enforced` asks for more than this machine offers: then nothing runs.
    pub fn confinement(&self) -> Result<Confinement, Error> {
        self.confinement_if(self.loaded.config.permissions.require.is_some())
    }

    /// Whether the operating system holds commands to all their permissions, so that the Bash filter can be a guide. With
    /// Landlock alone it does not: what is protected in a folder that a command may write can be written.
    #[must_use]
    pub fn is_confined(&self) -> bool {
        self.confinement().is_ok_and(
            |confinement| matches!(confinement, Confinement::Sandboxed(sandbox) if sandbox.is_full()),
        )
    }

    /// The same for a session, whose recorded permissions may require a sandbox too, and whose commands may be judged as
    /// those that a sandbox holds. That it was once turned off counts for nothing: today's configuration decides.
    pub(crate) fn confinement_of(&self, setup: &Setup) -> Result<Confinement, Error> {
        let is_recorded =
            |agent: &AgentSetup| agent.confined || agent.permissions.require == Some(Enforcement::Enforced);
        let is_required = self.loaded.config.permissions.require.is_some();
        self.confinement_if(is_required || setup.agents.values().any(is_recorded))
    }

    fn confinement_if(&self, is_required: bool) -> Result<Confinement, Error> {
        let asked = self.builder.permissions.sandbox.or(self.loaded.config.permissions.sandbox);
        if !is_required && asked == Some(SandboxUse::Off) {
            return Ok(Confinement::Off);
        }
        let missing = match self.sandbox() {
            Err(Shortage::Helper(why)) if self.builder.helper.is_some() => {
                return Err(Error::Setup {
                    message: format!("no command could be confined: {why}"),
                    hint: "name another program with RawkoBuilder::helper, or leave that call out".to_owned(),
                });
            }
            Ok(sandbox) if is_required && !sandbox.is_full() => sandbox.lost().join("; "),
            Ok(_) => String::new(),
            Err(shortage) if is_required => shortage.to_string(),
            Err(shortage) => return Ok(Confinement::Refused(shortage.clone())),
        };
        match self.sandbox() {
            Ok(sandbox) if missing.is_empty() => Ok(Confinement::Sandboxed(sandbox.clone())),
            _ => Err(Error::Setup {
                message: format!(
                    "permissions.require is `enforced`, or this session began in a sandbox, but commands cannot be \
                     confined in full here: {missing}"
                ),
                hint: "without permissions.require a new task can begin: confine rawko as a whole, in a container or as a \
                       separate user"
                    .to_owned(),
            }),
        }
    }

    /// What the operating system does not enforce, as text for people.
    ///
    /// # Errors
    /// As [`Self::confinement`].
    pub fn degraded(&self) -> Result<Vec<String>, Error> {
        self.confinement().map(|confinement| not_enforced(&confinement))
    }

    /// All that a run does without, for its first lines: what is not enforced, and git.
    pub(crate) fn missing(&self, confinement: &Confinement) -> Vec<String> {
        let no_git = (!Checkpoints::is_available(self.tree())).then(|| {
            "git is not installed: the files are not kept before a change, so `rawko rewind` and `rawko diff` have \
             nothing to show, and a result is claimed at best, never verified"
                .to_owned()
        });
        not_enforced(confinement).into_iter().chain(no_git).collect()
    }
}

fn not_enforced(confinement: &Confinement) -> Vec<String> {
    match confinement {
        Confinement::Sandboxed(sandbox) => sandbox.lost(),
        Confinement::Off => vec![
            "the sandbox is off (`permissions.sandbox: off` or --no-sandbox): programs that Bash runs are filtered by \
             name and given a bare environment, but not confined by the operating system: they can read and write what \
             you can, and reach the network"
                .to_owned(),
        ],
        Confinement::Refused(shortage) => vec![format!(
            "no command runs: not those of Bash and custom tools, and none that verifies the result, because the \
             operating system cannot confine them: {shortage} (`permissions.sandbox: off` or --no-sandbox runs them \
             unconfined)"
        )],
    }
}
