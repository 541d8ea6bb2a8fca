//! Finds out what this machine offers, by trying.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rawko_sandbox::{Network, Plan, Report, Step, Wall, landlock_version};

use super::private::{OwnFolders, PrivateFolders};
use crate::process::shell;

/// What a sandbox on this machine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Why rawko can make no namespaces.
    pub without_namespaces: Option<String>,
    /// The bubblewrap that makes them instead. Without, Landlock has to do.
    pub bubblewrap: Option<PathBuf>,
    /// Whether changes to caches can be kept apart; without, caches are read-only.
    pub layers: bool,
}

/// Why there is no sandbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Shortage(String);

impl Shortage {
    pub(super) fn no_helper() -> Self {
        Self(
            "this program cannot be its helper, because its `main` does not begin with \
             `rawko::tools::run_helper_if_asked()`"
                .to_owned(),
        )
    }

    pub(super) fn folders(error: &io::Error) -> Self {
        Self(format!("no folder for temporary files can be made: {error}"))
    }
}

/// The first version of Landlock that knows what empties a file.
const KNOWS_TRUNCATION: i32 = 3;
/// The first version that holds signals.
const KNOWS_SIGNALS: i32 = 6;

impl Offer {
    pub(super) fn wall(&self) -> Wall {
        match (&self.without_namespaces, &self.bubblewrap) {
            (None, _) => Wall::Namespaces,
            (Some(_), Some(program)) => Wall::Bubblewrap { program: program.clone() },
            (Some(_), None) => Wall::Landlock,
        }
    }

    pub(super) fn walls(&self) -> String {
        let walls = match (self.wall(), landlock_version()) {
            (Wall::Landlock, _) => "Landlock",
            (Wall::Bubblewrap { .. }, 0) => "bubblewrap",
            (Wall::Bubblewrap { .. }, _) => "bubblewrap, Landlock",
            (Wall::Namespaces, 0) => "namespaces",
            (Wall::Namespaces, _) => "namespaces, Landlock",
        };
        format!("{walls} and a filter of system calls")
    }

    pub(super) fn lost(&self) -> Vec<String> {
        let Some(why) = &self.without_namespaces else { return Vec::new() };
        if let Some(program) = &self.bubblewrap {
            return vec![format!(
                "rawko can make no namespaces itself here ({why}), so {} makes them: caches of tools are read-only for \
                 commands, and each command has a loopback interface of its own",
                program.display()
            )];
        }
        let mut lost = vec![format!(
            "namespaces cannot be made here ({why}), so commands are held by Landlock alone: in folders that they may \
             write they can also change `.git`, `.rawko` and `.claude` and read what `permissions.deny` names; hosts are \
             held by the proxy's port, not by name; they see which processes run, and can change the modes of files \
             that are yours"
        )];
        let version = landlock_version();
        if version < KNOWS_TRUNCATION {
            lost.push(
                "this kernel's Landlock (before Linux 6.2) lets commands empty files that are yours"
                    .to_owned(),
            );
        }
        if version < KNOWS_SIGNALS {
            lost.push(
                "this kernel's Landlock (before Linux 6.12) lets commands end your other processes"
                    .to_owned(),
            );
        }
        lost
    }
}

/// Runs a command that does nothing: in namespaces, with and without layers, in those that bubblewrap makes, and then held
/// by Landlock alone.
pub(super) fn try_out(
    helper: &Path,
    private: &PrivateFolders,
    bubblewrap: Option<&Path>,
) -> Result<Offer, Shortage> {
    let own = private.of("a trial").map_err(|error| Shortage::folders(&error))?;
    let folder = own.home.clone();
    let layered = OwnFolders::changes(&own.caches, &folder).map(|changes| Step::Layer { folder, changes });
    let in_namespaces = |view| trial(helper, &own, Wall::Namespaces, view);
    if in_namespaces(layered.into_iter().collect()).is_ok() {
        return Ok(Offer { without_namespaces: None, bubblewrap: None, layers: true });
    }
    let Err(Shortage(why)) = in_namespaces(Vec::new()) else {
        return Ok(Offer { without_namespaces: None, bubblewrap: None, layers: false });
    };
    let mut whys = vec![why];
    if let Some(program) = bubblewrap {
        match trial(helper, &own, Wall::Bubblewrap { program: program.to_owned() }, Vec::new()) {
            Ok(()) => {
                let (why, bubblewrap) = (whys.swap_remove(0), Some(program.to_owned()));
                return Ok(Offer { without_namespaces: Some(why), bubblewrap, layers: false });
            }
            Err(Shortage(why)) => whys.push(why),
        }
    }
    match trial(helper, &own, Wall::Landlock, Vec::new()) {
        Ok(()) => Ok(Offer { without_namespaces: Some(whys.join("; ")), bubblewrap: None, layers: false }),
        Err(Shortage(why)) => {
            whys.push(why);
            Err(Shortage(whys.join("; ")))
        }
    }
}

fn trial(helper: &Path, own: &OwnFolders, wall: Wall, base: Vec<Step>) -> Result<(), Shortage> {
    let plan = Plan {
        wall,
        directory: PathBuf::from("/"),
        base,
        view: Vec::new(),
        temporary: own.temporary.clone(),
        network: Network::Own,
        input: Vec::new(),
        converses: false,
        max_processes: 64,
    };
    let run = || -> io::Result<Option<String>> {
        let arguments = ["-c", "exit 0"].map(OsString::from);
        let (mut command, mut control) = rawko_sandbox::command(helper, Path::new(shell()?), &arguments)?;
        let mut child = command.env_clear().stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        drop(command);
        let sent = control.send(&plan, None, None);
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
