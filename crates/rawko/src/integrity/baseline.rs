//! The verification commands on the tree that a run began with, run in a copy or taken over from an earlier session of the
//! project that ran them on the same tree. Stored is how they ended and what they counted, not what they printed.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rawko_core::integrity::Baseline;
use rawko_tools::CommandRunner;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Terms;
use super::replica::Replica;
use super::surroundings::Surroundings;
use crate::checkpoint::{Checkpoints, Version};

/// Longest time of the commands on the tree that the run began with.
const TIME: Duration = Duration::from_secs(120);
/// Where a session's directory keeps the result.
const FILE: &str = "baseline.json";
/// Sessions that are looked into, the newest first.
const MAX_SESSIONS: usize = 20;
/// Largest file that is read.
const MAX_BYTES: u64 = 1024 * 1024;

/// Everything that a baseline needs.
pub(super) struct BaselineRun {
    pub(super) checkpoints: Checkpoints,
    pub(super) runner: CommandRunner,
    pub(super) terms: Terms,
    pub(super) surroundings: Surroundings,
    /// The session's directory, beside those of other sessions.
    pub(super) directory: PathBuf,
}

/// A stored result.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    /// Names commands and surroundings.
    key: String,
    baseline: Baseline,
}

impl BaselineRun {
    /// Runs the commands, unless an earlier session did. `None` if that is impossible or takes too long.
    pub(super) async fn run(self) -> Option<Baseline> {
        tokio::time::timeout(TIME, self.run_to_the_end()).await.ok().flatten()
    }

    async fn run_to_the_end(self) -> Option<Baseline> {
        let Self { checkpoints, runner, terms, surroundings, directory } = self;
        let key = key(&terms, &surroundings);
        let wanted = key.clone();
        let sessions = directory.parent().map(Path::to_owned);
        let made = tokio::task::spawn_blocking(move || {
            let trees = checkpoints.trees().ok().flatten()?;
            let tree = trees.first_name().to_owned();
            if let Some(found) = sessions.and_then(|sessions| find(&sessions, &wanted, &tree)) {
                return Some(Err(found));
            }
            let replica =
                Replica::new(&trees, &|_| Version::First, &surroundings.entries, &BTreeSet::new(), false);
            Some(Ok((tree, replica.ok()?)))
        });
        let (tree, replica) = match made.await.ok().flatten()? {
            Ok(made) => made,
            Err(found) => return Some(found),
        };
        let runs = replica.run(&runner, &terms.commands, terms.timeout).await;
        let baseline = Baseline { runs, tree };
        let mut stored = Stored { key, baseline: baseline.clone() };
        for run in &mut stored.baseline.runs {
            // It may hold secrets, and nobody needs it.
            run.output.clear();
        }
        let _ = tokio::task::spawn_blocking(move || {
            drop(replica);
            if let Ok(text) = serde_json::to_vec(&stored) {
                // Without it the next session runs the commands again.
                let _ = crate::private::write_new(&directory.join(FILE), &text);
            }
        })
        .await;
        Some(baseline)
    }
}

/// Names what has a say in a baseline beside the tree.
fn key(terms: &Terms, surroundings: &Surroundings) -> String {
    let mut digest = Sha256::new();
    for command in &terms.commands {
        digest.update(command);
        digest.update("\0");
    }
    digest.update(surroundings.digest());
    hex::encode(digest.finalize())
}

/// What one of the newest sessions stored for this key and tree.
fn find(sessions: &Path, key: &str, tree: &str) -> Option<Baseline> {
    let entries = std::fs::read_dir(sessions).ok()?.flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    // They begin with the time.
    names.sort();
    names.iter().rev().take(MAX_SESSIONS).find_map(|name| {
        let mut text = String::new();
        let file = std::fs::File::open(sessions.join(name).join(FILE)).ok()?;
        file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
        let Stored { key: stored, baseline } = serde_json::from_str(&text).ok()?;
        (stored == key && baseline.tree == tree).then_some(baseline)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rawko_core::facts::CommandRun;

    #[test]
    fn a_baseline_is_found_by_commands_surroundings_and_tree() {
        let sessions = tempfile::tempdir().unwrap();
        let baseline = Baseline { runs: vec![CommandRun::default()], tree: "t".to_owned() };
        let terms = |command: &str| Terms { commands: vec![command.to_owned()], ..Terms::default() };
        let key = |command: &str| key(&terms(command), &Surroundings::default());
        let stored = Stored { key: key("make"), baseline: baseline.clone() };
        for name in ["20250101-1", "20250102-1"] {
            std::fs::create_dir(sessions.path().join(name)).unwrap();
        }
        std::fs::write(sessions.path().join("20250102-1").join(FILE), "{").unwrap();
        std::fs::write(sessions.path().join("20250101-1").join(FILE), serde_json::to_vec(&stored).unwrap())
            .unwrap();
        let found = |command: &str, tree: &str| find(sessions.path(), &key(command), tree);
        assert_eq!(found("make", "t"), Some(baseline));
        assert_eq!(found("make", "other"), None);
        assert_eq!(found("ninja", "t"), None);
    }
}
