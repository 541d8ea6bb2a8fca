//! The verification commands on the tree that a run began with, run in a copy or taken over from an earlier session of the
//! project that ran them on the same tree. How they ended and what they counted is stored, but not what they printed.
//! It is stored in the user's own folder, because files in the project may have come with a clone.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rawko_core::integrity::Baseline;
use rawko_tools::CommandRunner;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::VerifyPlan;
use super::bounds::Bounds;
use super::replica::Replica;
use super::toolchain::Toolchain;
use crate::checkpoint::{Checkpoints, Version};
use crate::private::{create_private_dir, replace};

/// Longest time of the commands on the tree that the run began with.
const TIME: Duration = Duration::from_secs(120);
/// Results that are kept, the newest of all projects.
const MAX_KEPT: usize = 500;
/// Largest file that is read.
const MAX_BYTES: u64 = 1024 * 1024;

/// Everything that a baseline needs.
pub(super) struct BaselineRun {
    pub(super) checkpoints: Checkpoints,
    pub(super) runner: CommandRunner,
    pub(super) plan: VerifyPlan,
    pub(super) toolchain: Toolchain,
    /// The project.
    pub(super) project: PathBuf,
    /// Where results are kept, if the user has a folder for that.
    pub(super) kept: Option<PathBuf>,
    /// What the copy may cost, except time, because nothing waits for it.
    pub(super) bounds: Bounds,
}

/// A stored result.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    /// Names commands and toolchain.
    key: String,
    baseline: Baseline,
}

impl BaselineRun {
    /// Runs the commands, unless an earlier session did. `None` if that is impossible or takes too long.
    pub(super) async fn run(self) -> Option<Baseline> {
        tokio::time::timeout(TIME, self.run_to_the_end()).await.ok().flatten()
    }

    async fn run_to_the_end(self) -> Option<Baseline> {
        let Self { checkpoints, runner, plan, toolchain, project, kept, bounds } = self;
        let key = key(&project, &plan, &toolchain);
        let (wanted, folder) = (key.clone(), kept.clone());
        let made = rawko_tools::on_thread(move || {
            let trees = checkpoints.trees().ok().flatten()?;
            let tree = trees.first_name().to_owned();
            if let Some(found) = folder.and_then(|folder| find(&folder, &wanted, &tree)) {
                return Some(Err(found));
            }
            let (none, bounds) = (BTreeSet::new(), bounds.within(TIME));
            let replica = Replica::new(&trees, &|_| Version::First, &toolchain.entries, &none, false, bounds);
            Some(Ok((tree, replica.ok()?)))
        });
        let (tree, replica) = match made.await.ok().flatten()? {
            Ok(made) => made,
            Err(found) => return Some(found),
        };
        let runs = replica.run(&runner, &plan.commands, plan.timeout).await;
        let baseline = Baseline { runs, tree };
        let mut stored = Stored { key, baseline: baseline.clone() };
        for run in &mut stored.baseline.runs {
            // It may hold secrets, and it is not needed.
            run.output.clear();
        }
        // What failed is compared with what fails later, and its words may hold secrets as well.
        let kept = kept.filter(|_| baseline.passed());
        let _ = rawko_tools::on_thread(move || {
            drop(replica);
            if let Some(folder) = kept {
                // Without it the next session runs the commands again.
                let _ = keep(&folder, &stored);
            }
        })
        .await;
        Some(baseline)
    }
}

/// Names what a baseline depends on besides the tree.
fn key(project: &Path, plan: &VerifyPlan, toolchain: &Toolchain) -> String {
    let mut digest = Sha256::new();
    digest.update(project.as_os_str().as_encoded_bytes());
    digest.update("\0");
    for command in &plan.commands {
        digest.update(command);
        digest.update("\0");
    }
    digest.update(toolchain.digest());
    hex::encode(digest.finalize())
}

fn path_of(folder: &Path, key: &str, tree: &str) -> PathBuf {
    folder.join(format!("{}.json", hex::encode(&Sha256::digest(format!("{key} {tree}"))[..16])))
}

/// What an earlier session stored for this key and tree.
fn find(folder: &Path, key: &str, tree: &str) -> Option<Baseline> {
    let mut text = String::new();
    let file = std::fs::File::open(path_of(folder, key, tree)).ok()?;
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    let Stored { key: stored, baseline } = serde_json::from_str(&text).ok()?;
    (stored == key && baseline.tree == tree).then_some(baseline)
}

/// Stores a result, and removes the oldest where there are too many.
fn keep(folder: &Path, stored: &Stored) -> std::io::Result<()> {
    create_private_dir(folder)?;
    let path = path_of(folder, &stored.key, &stored.baseline.tree);
    replace(&path, &serde_json::to_vec(stored)?)?;
    let entries = std::fs::read_dir(folder)?.flatten();
    let mut kept: Vec<_> =
        entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
    kept.sort();
    for (_, oldest) in kept.iter().take(kept.len().saturating_sub(MAX_KEPT)) {
        std::fs::remove_file(oldest)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rawko_core::facts::CommandRun;

    #[test]
    fn a_baseline_is_found_by_project_commands_surroundings_and_tree() {
        let folder = tempfile::tempdir().unwrap();
        let baseline = Baseline { runs: vec![CommandRun::default()], tree: "t".to_owned() };
        let plan = |command: &str| VerifyPlan { commands: vec![command.to_owned()], ..VerifyPlan::default() };
        let key =
            |project: &str, command: &str| key(Path::new(project), &plan(command), &Toolchain::default());
        let found =
            |project: &str, command: &str, tree: &str| find(folder.path(), &key(project, command), tree);
        assert_eq!(found("/p", "make", "t"), None);
        keep(folder.path(), &Stored { key: key("/p", "make"), baseline: baseline.clone() }).unwrap();
        assert_eq!(found("/p", "make", "t"), Some(baseline));
        assert_eq!(found("/q", "make", "t"), None);
        assert_eq!(found("/p", "make", "other"), None);
        assert_eq!(found("/p", "ninja", "t"), None);
        std::fs::write(path_of(folder.path(), &key("/p", "make"), "t"), "{").unwrap();
        assert_eq!(found("/p", "make", "t"), None);
    }
}
