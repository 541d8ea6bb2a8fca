//! `rawko resume [ID]`: continues a session where its journal ends, or where a limit or its provider ended it.

use clap::Args;
use rawko::Run;

use crate::busy::begin_when_free;
use crate::config_args::{LimitArgs, PermissionArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::quoted;
use crate::reporters::Verbosity;
use crate::run_args::SharedRunArgs;
use crate::workspace::Workspace;

/// Options of `rawko resume`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ResumeArgs {
    /// Session id, or the beginning or end of it; by default the newest session that has not ended, or that a limit or its
    /// provider ended
    id: Option<String>,
    #[command(flatten)]
    shared: SharedRunArgs,
    /// Trust this folder's configuration and the session's journal this once
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    permissions: PermissionArgs,
    #[command(flatten, next_help_heading = "Limits, in place of the session's; what was spent counts")]
    limits: LimitArgs,
}

/// Resumes the session.
pub(crate) fn run(workspace: &Workspace, arguments: &ResumeArgs) -> Result<Exit, Failure> {
    arguments
        .shared
        .carry(workspace, (false, arguments.permissions.as_options()), || prepare(workspace, arguments))
}

fn prepare(workspace: &Workspace, arguments: &ResumeArgs) -> Result<Run, Failure> {
    workspace.check_project_is_chosen()?;
    workspace.gain_mounts_for(arguments.id.as_deref())?;
    begin_when_free(workspace, |is_first| {
        let builder = workspace
            .builder()
            .overrides(arguments.limits.clone().overrides())
            .trusted(arguments.yes)
            .permissions(arguments.permissions.clone().permissions());
        let rawko = arguments.shared.build(workspace, builder)?;
        if is_first && arguments.shared.verbosity() != Verbosity::Quiet {
            workspace.warn(&rawko);
        }
        match rawko.resume(arguments.id.as_deref()) {
            Err(error) if !matches!(error, rawko::Error::Busy { .. }) => {
                Err(refused(error, arguments.id.is_none().then_some("resume")))
            }
            run => Ok(run),
        }
    })
}

/// The failure, with the whole command that is not refused where options are missing. If the command line names no
/// session, its id goes after the word `after`.
pub(super) fn refused(error: rawko::Error, after: Option<&str>) -> Failure {
    let (session, missing) = match &error {
        rawko::Error::UntrustedJournal { session, again, .. } if !again.is_empty() => {
            (session, again.clone())
        }
        rawko::Error::LimitStands { session, limit, .. } => {
            (session, limit.option().split(' ').map(str::to_owned).collect())
        }
        _ => return error.into(),
    };
    let mut words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    if missing.iter().any(|word| words.contains(word)) {
        return error.into();
    }
    if let Some(at) = words.iter().position(|word| Some(word.as_str()) == after) {
        words.insert(at + 1, session.clone());
    }
    let words: Vec<String> = words.iter().chain(&missing).map(|word| quoted(word)).collect();
    Failure::from(error).with_hint(format!("to go on with it: rawko {}", words.join(" ")))
}
