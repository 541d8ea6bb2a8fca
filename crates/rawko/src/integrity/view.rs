//! The project at its own path, with other versions of some files laid over it.
//!
//! In the sandbox's own namespaces an overlay file system does it: the project is the lower layer, and what differs is
//! in the upper layer, where commands also write. Nothing is copied, so packages, builds, submodules and absolute paths
//! are as they are. It holds for as long as the project does not change.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use rawko_core::facts::CommandRun;
use rawko_tools::CommandRunner;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::replica::is_left_out;
use super::trial_folder::{TrialFolder, cannot_create};
use crate::checkpoint::{CheckpointError, Trees, Version};

/// A command that writes to the project's folder.
const WRITES: &str = ": > .rawko-view && rm .rawko-view";
/// How long it may take.
const TRIAL: Duration = Duration::from_secs(10);

/// Files to be laid over the project. What commands write goes to them.
#[derive(Debug)]
pub(super) struct View {
    pub(super) folder: TrialFolder,
}

impl View {
    /// Lays the tree that `choose` picks over the project, and hides what builds wrote and the `avoided` of the ignored
    /// `entries`. `with_target`: shows what builds of Rust left.
    pub(super) fn new(
        trees: &Trees,
        choose: &dyn Fn(&str) -> Version,
        entries: &BTreeSet<String>,
        avoided: &BTreeSet<&str>,
        with_target: bool,
    ) -> Result<Self, CheckpointError> {
        let folder = TrialFolder::new(trees)?;
        let upper = folder.path().join("upper");
        std::fs::create_dir(&upper).map_err(cannot_create(&upper))?;
        let hidden = trees.write_over(&upper, choose)?;
        let built = entries.iter().map(|entry| entry.trim_end_matches('/'));
        let built = built.filter(|path| is_left_out(path.rsplit('/').next().unwrap_or(path), with_target));
        for path in hidden.iter().map(String::as_str).chain(built).chain(avoided.iter().copied()) {
            hide(&upper, path).map_err(cannot_create(&upper.join(path)))?;
        }
        Ok(Self { folder })
    }

    /// Whether it can be shown here, and written to: a file system may refuse to be the upper or the lower layer, and
    /// what belongs to a user or a group that the sandbox does not know cannot be changed.
    pub(super) async fn works(&self, runner: &CommandRunner) -> bool {
        self.run(runner, &[WRITES.to_owned()], TRIAL).await.iter().all(CommandRun::passed)
    }

    /// Runs commands in it, in order.
    pub(super) async fn run(
        &self,
        runner: &CommandRunner,
        commands: &[String],
        timeout: Duration,
    ) -> Vec<CommandRun> {
        let runner = self.folder.finding_programs(runner.viewing(self.folder.path()));
        runner.run_all(commands, timeout).await
    }
}

/// Hides a file or a folder of the lower layer, as an overlay does: by a device of no number.
fn hide(upper: &Path, path: &str) -> std::io::Result<()> {
    let place = upper.join(path);
    let above = place.parent().unwrap_or(upper);
    // A file that takes the place of a folder hides what was in it.
    if above
        .ancestors()
        .take_while(|it| *it != upper)
        .any(|it| it.symlink_metadata().is_ok_and(|it| !it.is_dir()))
    {
        return Ok(());
    }
    std::fs::create_dir_all(above)?;
    match mknodat(CWD, &place, FileType::CharacterDevice, Mode::empty(), 0) {
        // It is hidden already, or something else is there.
        Err(error) if error == rustix::io::Errno::EXIST => Ok(()),
        made => Ok(made?),
    }
}
