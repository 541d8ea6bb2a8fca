//! `rawko acp` (`docs/acp.md`): rawko as an agent of editors, by the Agent Client Protocol on standard input and output. The
//! command is in every build, so that one without the feature `acp` says how to get it.

#![cfg_attr(
    not(feature = "acp"),
    allow(dead_code, reason = "options of a command that this build does not have")
)]

use clap::Args;

use crate::config_args::ConfigArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// Options of `rawko acp`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AcpArgs {
    /// Work on a prompt even if another session works in its folder; both report it
    #[arg(long)]
    anyway: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Says how to get a build with the protocol.
#[cfg(not(feature = "acp"))]
pub(crate) fn run(_: &Workspace, _: AcpArgs) -> Result<Exit, Failure> {
    Err(Failure::usage("this rawko was built without the Agent Client Protocol, so it has no `rawko acp`").with_hint(
        "install one that has it: cargo install --locked rawko-cli --features acp; docs/install.md says more",
    ))
}

/// Serves the client at standard input and output, until it is gone.
#[cfg(feature = "acp")]
pub(crate) fn run(workspace: &Workspace, arguments: AcpArgs) -> Result<Exit, Failure> {
    serving::run(workspace, arguments)
}

#[cfg(feature = "acp")]
mod serving {
    use std::path::Path;
    use std::sync::Arc;

    use rawko::{Error, RawkoBuilder};
    use rawko_acp::agent::{AcpFault, AgentHost, serve};

    use super::AcpArgs;
    use crate::config_args::ConfigArgs;
    use crate::exit::Exit;
    use crate::failure::Failure;
    use crate::newcomer;
    use crate::output::quoted;
    use crate::runtime::block_on_threads;
    use crate::signals::StopSignals;
    use crate::workspace::Workspace;

    pub(super) fn run(workspace: &Workspace, arguments: AcpArgs) -> Result<Exit, Failure> {
        workspace.gain_mounts(workspace.isolates())?;
        let host = host(workspace, arguments);
        block_on_threads(async {
            let mut signals = StopSignals::listen()?;
            let stop = async move {
                signals.next().await;
            };
            serve(host, tokio::io::stdin(), tokio::io::stdout(), stop)
                .await
                .map_err(|fault| Failure::new(Exit::Failed, fault.message()))
        })?;
        Ok(Exit::Success)
    }

    fn host(workspace: &Workspace, arguments: AcpArgs) -> AgentHost {
        let here = Arc::new(workspace.at(workspace.folder()));
        let there = Arc::clone(&here);
        AgentHost {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            folder: std::path::absolute(workspace.folder()).unwrap_or_else(|_| workspace.folder().to_owned()),
            project: Box::new(move |folder| there.at(folder).project().map_err(|failure| fault(&failure))),
            builder: Box::new(move |folder| builder(&here, &arguments, folder)),
            explain: Box::new(explain),
        }
    }

    /// A builder for work in `folder`, as `rawko run` would make it there.
    fn builder(here: &Workspace, arguments: &AcpArgs, folder: &Path) -> Result<RawkoBuilder, AcpFault> {
        let workspace = here.at(folder);
        if let Some((too_wide, project)) = workspace.too_wide() {
            let message =
                format!("{}: a run could read and change everything in it", too_wide.described(&project));
            return Err(AcpFault::of_request(message).with_hint(Some("open the folder of your project")));
        }
        let build = |config: ConfigArgs| config.builder(&workspace).beside_others(arguments.anyway);
        let rawko = build(arguments.config.clone()).build().map_err(|error| explain(error, folder))?;
        let found = newcomer::choose(&workspace, &rawko, true).map_err(|failure| fault(&failure))?;
        Ok(match found {
            Some(found) => build(arguments.config.clone().with_provider(found)),
            None => build(arguments.config.clone()),
        })
    }

    /// The words for an error where the hints of a terminal would not help.
    fn explain(error: Error, folder: &Path) -> AcpFault {
        let here = quoted(&folder.to_string_lossy());
        let hint = match &error {
            Error::Untrusted { .. } => Some(format!(
                "read these settings, then trust the folder in a terminal: rawko trust --cwd {here}"
            )),
            Error::Busy { .. } => Some(
                "wait for its end, or have your editor start `rawko acp --anyway` to work in the same files"
                    .to_owned(),
            ),
            Error::NoKey { variable, .. } => Some(format!(
                "set {variable} in the environment of `rawko acp`: your editor's settings have a place for it"
            )),
            Error::UntrustedJournal { session, .. } => Some(format!(
                "read it, then go on with it in a terminal: rawko continue --cwd {here} --yes {session} \"your next task\""
            )),
            _ => None,
        };
        let failure = Failure::from(error);
        let fault = AcpFault::of_rawko(failure.message());
        fault.with_hint(hint.as_deref().or(failure.hint()))
    }

    fn fault(failure: &Failure) -> AcpFault {
        AcpFault::of_rawko(failure.message()).with_hint(failure.hint())
    }
}
