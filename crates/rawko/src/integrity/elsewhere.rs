//! Another tree than the present one, to run commands in: a view of the project where the sandbox can make one, else a copy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rawko_core::facts::CommandRun;
use rawko_tools::CommandRunner;

use super::bounds::Bounds;
use super::comparison::Comparison;
use super::replica::Replica;
use super::view::View;
use crate::checkpoint::{CheckpointError, Version};

/// Where commands run on another tree. To be removed with [`Self::remove`]: a copy has many files.
#[derive(Debug)]
pub(super) enum Elsewhere {
    View(View),
    Copy(Replica),
}

/// How another tree may be made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Means {
    /// Whether it may be a view.
    pub(super) views: bool,
    /// What a copy may cost.
    pub(super) bounds: Bounds,
}

impl Elsewhere {
    /// The tree that `choose` picks, without the `avoided` of what git ignores. `with_programs`: with those programs found
    /// first that were before the run.
    ///
    /// # Errors
    /// Why it cannot be made, for people.
    pub(super) async fn new(
        runner: &CommandRunner,
        comparison: &Arc<Comparison>,
        choose: impl Fn(&str) -> Version,
        avoided: BTreeSet<String>,
        with_programs: bool,
        means: Means,
    ) -> Result<Self, String> {
        let paths = comparison.trees.fates().into_keys();
        let versions: Arc<BTreeMap<String, Version>> = Arc::new(
            paths
                .map(|path| {
                    let version = choose(&path);
                    (path, version)
                })
                .collect(),
        );
        let avoided = Arc::new(avoided);
        // Without layers, nothing can be built where the project has its builds: all is built anew.
        let with_target = runner.has_layers();
        let make = |as_view: bool| {
            let (own, versions, avoided) =
                (Arc::clone(comparison), Arc::clone(&versions), Arc::clone(&avoided));
            rawko_tools::on_thread(move || -> Result<Self, CheckpointError> {
                let choose = |path: &str| versions.get(path).cloned().unwrap_or(Version::Now);
                let avoided: BTreeSet<&str> = avoided.iter().map(String::as_str).collect();
                let Comparison { trees, differences, entries, .. } = &*own;
                let none = BTreeMap::new();
                let programs = if with_programs { &differences.shadowed } else { &none };
                Ok(if as_view {
                    let view = View::new(trees, &choose, entries, &avoided, with_target)?;
                    view.folder.put_programs(programs)?;
                    Self::View(view)
                } else {
                    let copy = Replica::new(trees, &choose, entries, &avoided, with_target, means.bounds)?;
                    copy.folder.put_programs(programs)?;
                    Self::Copy(copy)
                })
            })
        };
        if means.views
            && runner.has_views()
            && let Ok(Ok(Self::View(view))) = make(true).await
        {
            if view.works(runner).await {
                return Ok(Self::View(view));
            }
            Self::View(view).remove().await;
        }
        if comparison.is_bound {
            return Err(
                "the commands name the project's folder, so they cannot run in a copy of it".to_owned()
            );
        }
        let wrong =
            |error: &dyn std::fmt::Display| format!("a copy of the project could not be made: {error}");
        match make(false).await {
            Ok(made) => made.map_err(|error| wrong(&error)),
            Err(error) => Err(wrong(&error)),
        }
    }

    /// Whether it is a view.
    pub(super) const fn is_view(&self) -> bool {
        matches!(self, Self::View(_))
    }

    /// Runs commands there, in order. What they print names the project's own folder.
    pub(super) async fn run(
        &self,
        runner: &CommandRunner,
        commands: &[String],
        timeout: Duration,
    ) -> Vec<CommandRun> {
        match self {
            Self::View(view) => view.run(runner, commands, timeout).await,
            Self::Copy(copy) => copy.run(runner, commands, timeout).await,
        }
    }

    /// Removes it.
    pub(super) async fn remove(self) {
        let _ = rawko_tools::on_thread(move || drop(self)).await;
    }
}
