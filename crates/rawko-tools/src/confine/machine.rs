//! Finds out what this machine offers, by trying.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rawko_sandbox::{ConfinementPlan, Network, ViewStep, Wall, landlock_version};

use super::private::{OwnFolders, PrivateFolders};
use super::trial::{self, TrialError};
use crate::confinement::Shortage;

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

/// How long a helper may take to run a command that does nothing. A real one takes a tenth of a second, on a machine that is
/// busy a few.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

pub(super) fn no_folders(error: &io::Error) -> Shortage {
    Shortage::Machine(format!("no folder for temporary files can be made: {error}"))
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

/// Who the folders of a trial belong to.
const TRIAL: &str = "a trial";

/// What a helper can do here. See [`try_each`].
pub(super) fn try_out(
    helper: &Path,
    private: &PrivateFolders,
    bubblewrap: Option<&Path>,
    limit: Duration,
) -> Result<Offer, Shortage> {
    let offer = try_each(helper, private, bubblewrap, limit);
    private.remove_soon(TRIAL);
    offer
}

/// Runs a command that does nothing: in namespaces, with and without layers, in those that bubblewrap makes, and then held
/// by Landlock alone. A program that is no helper is tried once. Each trial ends after `limit`.
fn try_each(
    helper: &Path,
    private: &PrivateFolders,
    bubblewrap: Option<&Path>,
    limit: Duration,
) -> Result<Offer, Shortage> {
    let own = private.of(TRIAL).map_err(|error| no_folders(&error))?;
    let folder = own.home.clone();
    let layered =
        OwnFolders::changes(&own.caches, &folder).map(|changes| ViewStep::Layer { folder, changes });
    // Why it cannot be done so.
    let trial = |wall, base| match trial::run(helper, plan(&own, wall, base), limit) {
        Ok(()) => Ok(None),
        Err(TrialError::Wall(why)) => Ok(Some(why)),
        Err(TrialError::Helper(why)) => Err(Shortage::Helper(why)),
    };
    if trial(Wall::Namespaces, layered.into_iter().collect())?.is_none() {
        return Ok(Offer { without_namespaces: None, bubblewrap: None, layers: true });
    }
    let Some(why) = trial(Wall::Namespaces, Vec::new())? else {
        return Ok(Offer { without_namespaces: None, bubblewrap: None, layers: false });
    };
    let mut whys = vec![why];
    if let Some(program) = bubblewrap {
        let Some(why) = trial(Wall::Bubblewrap { program: program.to_owned() }, Vec::new())? else {
            let (why, bubblewrap) = (whys.swap_remove(0), Some(program.to_owned()));
            return Ok(Offer { without_namespaces: Some(why), bubblewrap, layers: false });
        };
        whys.push(why);
    }
    let Some(why) = trial(Wall::Landlock, Vec::new())? else {
        return Ok(Offer { without_namespaces: Some(whys.join("; ")), bubblewrap: None, layers: false });
    };
    whys.push(why);
    whys.dedup();
    Err(Shortage::Machine(whys.join("; ")))
}

fn plan(own: &OwnFolders, wall: Wall, base: Vec<ViewStep>) -> ConfinementPlan {
    ConfinementPlan {
        wall,
        directory: PathBuf::from("/"),
        base,
        view: Vec::new(),
        temporary: own.temporary.clone(),
        network: Network::Own,
        input: Vec::new(),
        converses: false,
        max_processes: 64,
    }
}
