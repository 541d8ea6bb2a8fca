//! Finds out what this machine offers, by trying.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rawko_sandbox::{Network, Plan, Report, Step};

use super::private::{OwnFolders, PrivateFolders};
use crate::process::shell;

/// What a sandbox on this machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Whether changes to caches can be kept apart; without, caches are read-only.
    pub layers: bool,
}

/// Why there is no sandbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Shortage(String);

impl Shortage {
    pub(super) fn no_helper() -> Self {
        Self("this program does not call `run_helper_if_asked` at its start".to_owned())
    }

    pub(super) fn folders(error: &io::Error) -> Self {
        Self(format!("no folder for temporary files can be made: {error}"))
    }
}

/// Runs a command that does nothing, with and without layers.
pub(super) fn try_out(helper: &Path, private: &PrivateFolders) -> Result<Offer, Shortage> {
    let own = private.of("a trial").map_err(|error| Shortage::folders(&error))?;
    let folder = own.home.clone();
    let layered = OwnFolders::changes(&own.caches, &folder).map(|changes| Step::Layer { folder, changes });
    match trial(helper, &own, layered.into_iter().collect()) {
        Ok(()) => Ok(Offer { layers: true }),
        Err(_) => trial(helper, &own, Vec::new()).map(|()| Offer { layers: false }),
    }
}

fn trial(helper: &Path, own: &OwnFolders, base: Vec<Step>) -> Result<(), Shortage> {
    let plan = Plan {
        directory: PathBuf::from("/"),
        base,
        view: Vec::new(),
        temporary: own.temporary.clone(),
        network: Network::Own,
        input: Vec::new(),
        max_processes: 64,
    };
    let run = || -> io::Result<Option<String>> {
        let arguments = ["-c", "exit 0"].map(OsString::from);
        let (mut command, mut control) = rawko_sandbox::command(helper, Path::new(shell()?), &arguments)?;
        let mut child = command.env_clear().stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        drop(command);
        let sent = control.send(&plan, None);
        let mut failure = None;
        let mut has_ended = false;
        while let Ok(Some(report)) = control.report() {
            match report {
                Report::Failed { what } => failure = Some(what),
                Report::Ended { code: Some(0), .. } => has_ended = true,
                Report::Ended { .. } | Report::Ready => {}
            }
        }
        let status = child.wait()?;
        sent?;
        let silent = || (!has_ended).then(|| format!("the helper ended with {status} and said nothing"));
        Ok(failure.or_else(silent))
    };
    match run() {
        Ok(None) => Ok(()),
        Ok(Some(what)) => Err(Shortage(what)),
        Err(error) => Err(Shortage(format!("the helper {} could not be run: {error}", helper.display()))),
    }
}
