//! Whether a run's checks are the ones that it began with (`docs/spec/verification.md`, "Integrity").
//!
//! Before the run first changes anything, what surrounds the project is recorded, and the verification commands run on
//! the tree as it is, in the background. When the run's work is verified, the checks are compared with the recorded ones.
//! If they differ, the original checks run on the new code, in a copy of the project.

mod baseline;
mod counts;
mod inline;
mod kinds;
mod manifest;
mod named;
mod replica;
mod surroundings;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rawko_core::facts::Verification;
use rawko_core::integrity::{
    Baseline, ChangedChecks, CheckChange, CheckChangeKind, Integrity, IntegrityResult, OriginalRun,
};
use rawko_core::setup::VerifySetup;
use rawko_tools::CommandRunner;
use tokio::task::JoinSet;

use crate::checkpoint::{CheckpointError, Checkpoints, Fate, Trees, Version};
use baseline::BaselineRun;
use counts::miscounted;
use inline::InlineTests;
use kinds::CheckFiles;
pub(crate) use kinds::check_glob;
use manifest::Manifest;
use named::Named;
use replica::Replica;
use surroundings::{Differences, Place, Surroundings};

/// Files within files that checks mention.
const DEPTH: usize = 4;
/// Checks whose text is read for what they mention.
const FOLLOWED: usize = 500;
/// What a task needs that removes a feature together with its tests.
const ADVICE: &str = "if the task asks for that, allow it with --allow-changed-checks";
/// Changed checks that are listed.
const LISTED: usize = 100;

/// The commands of one verification, and what is said about them in the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) commands: Vec<String>,
    pub(crate) timeout: Duration,
    pub(crate) tests: Vec<String>,
    pub(crate) changed_checks: ChangedChecks,
}

impl From<VerifySetup> for Terms {
    fn from(setup: VerifySetup) -> Self {
        let VerifySetup { commands, timeout_ms, found: _, tests, changed_checks } = setup;
        Self { commands, timeout: Duration::from_millis(timeout_ms), tests, changed_checks }
    }
}

/// Watches over the checks of one run.
#[derive(Debug)]
pub(crate) struct IntegrityGuard {
    checkpoints: Checkpoints,
    project: PathBuf,
    /// The session's directory.
    directory: PathBuf,
    home: Option<PathBuf>,
    path: OsString,
    runner: CommandRunner,
    /// Those that the run began with, if there are any.
    terms: Option<Terms>,
    before: Mutex<Option<Arc<Surroundings>>>,
    /// The commands on the first tree. Ended with the guard.
    baseline: Mutex<JoinSet<Option<Baseline>>>,
}

impl IntegrityGuard {
    pub(crate) fn new(
        checkpoints: Checkpoints,
        project: &Path,
        directory: &Path,
        runner: CommandRunner,
        terms: Option<Terms>,
    ) -> Self {
        Self {
            checkpoints,
            project: project.to_owned(),
            directory: directory.to_owned(),
            home: std::env::var_os("HOME").map(PathBuf::from),
            path: std::env::var_os("PATH").unwrap_or_default(),
            runner,
            terms,
            before: Mutex::new(None),
            baseline: Mutex::new(JoinSet::new()),
        }
    }

    /// Runs the verification commands.
    pub(crate) fn runner(&self) -> &CommandRunner {
        &self.runner
    }

    /// Records the surroundings, if that was not done before, and begins to run the commands on the first tree. Called
    /// when a checkpoint was taken, before anything is changed.
    pub(crate) async fn begin(self: &Arc<Self>) {
        let Some(terms) = self.terms.clone() else { return };
        let guard = Arc::clone(self);
        let is_first = tokio::task::spawn_blocking(move || guard.record()).await.unwrap_or_default();
        if is_first {
            self.start_baseline(terms);
        }
    }

    fn start_baseline(&self, terms: Terms) {
        // A guard that is dropped ends its baseline, so the baseline must not hold the guard.
        let run = BaselineRun {
            checkpoints: self.checkpoints.clone(),
            runner: self.runner.clone(),
            terms,
            surroundings: self.before().map(|before| (*before).clone()).unwrap_or_default(),
            directory: self.directory.clone(),
        };
        self.baseline.lock().unwrap_or_else(PoisonError::into_inner).spawn(run.run());
    }

    /// Returns whether nothing was recorded before.
    fn record(&self) -> bool {
        if self.before().is_some() {
            return false;
        }
        let path = self.directory.join(self.checkpoints.name_of_record());
        let (surroundings, is_first) =
            match std::fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()) {
                Some(recorded) => (recorded, false),
                None => {
                    let surroundings = self.look();
                    if let Ok(text) = serde_json::to_vec(&surroundings) {
                        // Without the file a resumed run cannot compare its surroundings; the tree it still can.
                        let _ = crate::private::write_new(&path, &text);
                    }
                    (surroundings, true)
                }
            };
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(surroundings));
        is_first
    }

    /// What was recorded at the beginning, by this process or one before it.
    fn recorded(&self) -> Result<Arc<Surroundings>, CheckpointError> {
        if let Some(before) = self.before() {
            return Ok(before);
        }
        let path = self.directory.join(self.checkpoints.name_of_record());
        let wrong = |error: std::io::Error| CheckpointError::io("cannot read", &path, error);
        let text = std::fs::read(&path).map_err(wrong)?;
        let recorded: Surroundings = serde_json::from_slice(&text).map_err(|error| wrong(error.into()))?;
        Ok(Arc::new(recorded))
    }

    fn before(&self) -> Option<Arc<Surroundings>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn look(&self) -> Surroundings {
        let terms = self.terms.clone().unwrap_or_default();
        let read = |path: &str| std::fs::read_to_string(self.project.join(path)).ok();
        let named = named::named(&terms.commands, &read);
        let place = Place {
            project: &self.project,
            home: self.home.as_deref(),
            path: &self.path,
            ignored: self.checkpoints.ignored().unwrap_or_default(),
            checks: &CheckFiles::new(&terms.tests),
            named: named.files,
        };
        Surroundings::look(&place, &named.programs)
    }

    /// Judges commands that passed.
    pub(crate) async fn judge(self: &Arc<Self>, terms: &Terms, verification: Verification) -> Verification {
        let (guard, own) = (Arc::clone(self), terms.clone());
        let compared = tokio::task::spawn_blocking(move || guard.compare(&own)).await;
        let comparison = match compared {
            Ok(Ok(Some(comparison))) => comparison,
            Ok(Ok(None)) => {
                let integrity = Integrity {
                    result: IntegrityResult::Unchanged,
                    changed: Vec::new(),
                    more: 0,
                    advice: None,
                };
                return Verification { integrity: Some(integrity), ..verification };
            }
            // The tree could not be compared with the one that the run began with.
            Ok(Err(_)) | Err(_) => return Verification { tree: None, ..verification },
        };
        let baseline = self.baseline(terms).await;
        let mut changed = comparison.changed();
        changed.extend(miscounted(baseline.as_ref(), &verification.runs));
        // Where there were no checks, new ones cannot change how others run.
        let added = if comparison.had_checks { comparison.added.clone() } else { Vec::new() };
        let mut original = None;
        let result = match (changed.is_empty(), terms.changed_checks) {
            (true, ChangedChecks::Allow | ChangedChecks::Deny) => IntegrityResult::Intact,
            (true, ChangedChecks::Rerun) if added.is_empty() => IntegrityResult::Intact,
            (false, ChangedChecks::Allow) => IntegrityResult::Allowed,
            (false, ChangedChecks::Deny) => IntegrityResult::Denied,
            (only_added, ChangedChecks::Rerun) => {
                let run = self.run_originals(terms, comparison, baseline.as_ref()).await;
                let result = match (run.passed(), run.runs.is_empty()) {
                    (true, _) if only_added => IntegrityResult::Intact,
                    (true, _) => IntegrityResult::OriginalsPass,
                    (false, false) => IntegrityResult::OriginalsFail,
                    (false, true) => IntegrityResult::OriginalsUnknown,
                };
                original = Some(run);
                if only_added && result != IntegrityResult::Intact {
                    changed = added;
                }
                result
            }
        };
        let more = u32::try_from(changed.len().saturating_sub(LISTED)).unwrap_or(u32::MAX);
        changed.truncate(LISTED);
        let fails = matches!(result, IntegrityResult::OriginalsFail | IntegrityResult::OriginalsUnknown);
        let advice = fails.then(|| ADVICE.to_owned());
        Verification {
            integrity: Some(Integrity { result, changed, more, advice }),
            baseline,
            original,
            ..verification
        }
    }

    /// Removes what Python compiled inside the project: it need not have been made from the sources beside it.
    pub(crate) async fn remove_bytecode(&self) {
        let (checkpoints, project) = (self.checkpoints.clone(), self.project.clone());
        let _ = tokio::task::spawn_blocking(move || {
            let ignored = checkpoints.ignored().unwrap_or_default();
            for folder in ignored.iter().filter(|path| path.ends_with("__pycache__/")) {
                // What is left is a cache that could not be removed.
                let _ = std::fs::remove_dir_all(project.join(folder.trim_end_matches('/')));
            }
        })
        .await;
    }

    async fn baseline(&self, terms: &Terms) -> Option<Baseline> {
        if self.baseline.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            // The process that ran it is gone.
            self.start_baseline(terms.clone());
        }
        let mut running = std::mem::take(&mut *self.baseline.lock().unwrap_or_else(PoisonError::into_inner));
        let finished = running.join_next().await?.ok().flatten();
        let again = finished.clone();
        // Every verification of the run is compared with it.
        self.baseline.lock().unwrap_or_else(PoisonError::into_inner).spawn(async move { again });
        finished
    }

    fn compare(&self, terms: &Terms) -> Result<Option<Comparison>, CheckpointError> {
        let Some(trees) = self.checkpoints.trees()? else { return Ok(None) };
        if trees.is_as_the_task_began(&is_own) {
            return Ok(None);
        }
        let fates = trees.fates();
        let files = CheckFiles::new(&terms.tests);
        let read = |path: &str| String::from_utf8(trees.content(path, &Version::First)?).ok();
        let Named { files: mut named, targets, words, programs: _ } = named::named(&terms.commands, &read);
        // In a copy these folders are others.
        let own_paths = [&self.project, trees.toplevel()].map(|path| path.display().to_string());
        let mut texts = named.iter().filter_map(|path| read(path)).chain(terms.commands.iter().cloned());
        let is_bound = texts.any(|text| own_paths.iter().any(|own| text.contains(own)));
        let files = files.with_tools(&words);
        let is_check = |path: &str| files.is_test(path) || files.is_config(path);
        follow(&trees, &fates, &is_check, &mut named);
        let is_first_check =
            |path: String| files.is_test(&path) || files.is_config(&path) || named.contains(&path);
        let had_checks = trees.first_paths().any(is_first_check);
        let dependencies_changed =
            fates.iter().any(|(path, fate)| *fate != Fate::Same && files.is_lock(path));
        let mut versions = BTreeMap::new();
        let (mut changed, mut added) = (Vec::new(), Vec::new());
        for (path, fate) in &fates {
            let is_config = files.is_config(path) || named.contains(path);
            let is_check = is_config || files.is_test(path);
            let how = match fate {
                Fate::Same => continue,
                Fate::Deleted if is_check => CheckChangeKind::Deleted,
                Fate::Changed if is_check => CheckChangeKind::Changed,
                Fate::Added if is_target(&targets, path) => CheckChangeKind::Added,
                Fate::Added if is_config || files.shadows(path) || configures_a_runner(&trees, path) => {
                    CheckChangeKind::Added
                }
                // A new test is no changed check.
                Fate::Added if is_check => {
                    versions.insert(path.clone(), Version::Neither);
                    if files.shares_a_process(path) {
                        added.push(CheckChange { path: path.clone(), how: CheckChangeKind::Added });
                    }
                    continue;
                }
                Fate::Changed => {
                    if let Some(content) = with_original_checks(&trees, path) {
                        versions.insert(path.clone(), Version::Content(content));
                        changed.push(CheckChange { path: path.clone(), how: CheckChangeKind::Changed });
                    }
                    continue;
                }
                Fate::Deleted if loses_checks(&trees, &fates, path) => CheckChangeKind::Deleted,
                Fate::Deleted | Fate::Added => continue,
            };
            versions.insert(path.clone(), Version::First);
            changed.push(CheckChange { path: path.clone(), how });
        }
        let now = self.look();
        let differences = self.recorded()?.differences(&now, dependencies_changed);
        Ok(Some(Comparison {
            trees,
            versions,
            changed,
            added,
            is_bound,
            had_checks,
            differences,
            entries: now.entries,
        }))
    }

    /// The original checks on the new code.
    async fn run_originals(
        &self,
        terms: &Terms,
        comparison: Comparison,
        baseline: Option<&Baseline>,
    ) -> OriginalRun {
        let problem = |problem: String| OriginalRun { runs: Vec::new(), problem: Some(problem) };
        if comparison.is_bound {
            return problem(
                "the commands name the project's folder, so they cannot run in a copy of it".to_owned(),
            );
        }
        let lasting = &comparison.differences.lasting;
        if !lasting.is_empty() {
            let list: Vec<&str> = lasting.iter().take(3).map(|change| change.path.as_str()).collect();
            return problem(format!("rawko cannot put back {}", list.join(", ")));
        }
        let made = tokio::task::spawn_blocking(move || {
            let Comparison { trees, versions, differences, entries, .. } = comparison;
            let choose = |path: &str| versions.get(path).cloned().unwrap_or(Version::Now);
            let avoided: BTreeSet<&str> =
                differences.avoidable.iter().map(|change| change.path.as_str()).collect();
            Replica::new(&trees, &choose, &entries, &avoided, true)?.with_programs(&differences.shadowed)
        });
        let replica = match made.await {
            Ok(Ok(replica)) => replica,
            Ok(Err(error)) => return problem(format!("a copy of the project could not be made: {error}")),
            Err(error) => return problem(format!("a copy of the project could not be made: {error}")),
        };
        let runs = replica.run(&self.runner, &terms.commands, terms.timeout).await;
        // Many files are removed.
        let _ = tokio::task::spawn_blocking(move || drop(replica)).await;
        let miscounted = miscounted(baseline, &runs);
        let problem = miscounted.first().map(|change| format!("`{}` {}", change.path, change.how.words()));
        OriginalRun { runs, problem }
    }
}

/// What differs between the beginning of a run and now.
struct Comparison {
    trees: Trees,
    /// Which version of a file the original checks are run with, where it is not the present one.
    versions: BTreeMap<String, Version>,
    changed: Vec<CheckChange>,
    /// New tests that may change how the original ones run.
    added: Vec<CheckChange>,
    /// Whether the commands name the project's folder: they would not run in a copy.
    is_bound: bool,
    /// Whether there were any checks at the beginning.
    had_checks: bool,
    differences: Differences,
    /// What git ignores.
    entries: BTreeSet<String>,
}

impl Comparison {
    fn changed(&self) -> Vec<CheckChange> {
        let Differences { avoidable, lasting, .. } = &self.differences;
        self.changed.iter().chain(avoidable).chain(lasting).cloned().collect()
    }
}

/// Adds to `named` what the checks mention. Nothing is read where only checks changed.
fn follow(
    trees: &Trees,
    fates: &BTreeMap<String, Fate>,
    is_check: &dyn Fn(&str) -> bool,
    named: &mut BTreeSet<String>,
) {
    let was_there = |path: &str| fates.get(path).is_some_and(|fate| *fate != Fate::Added);
    let may_be_meant = |(path, fate): (&String, &Fate)| {
        matches!(fate, Fate::Changed | Fate::Deleted) && !is_check(path) && !named.contains(path)
    };
    if !fates.iter().any(may_be_meant) {
        return;
    }
    let tests = fates.keys().filter(|path| was_there(path) && is_check(path));
    let mut open: Vec<String> = tests.chain(named.iter()).cloned().collect();
    for _ in 0..DEPTH {
        open.truncate(FOLLOWED);
        let mut next = Vec::new();
        for (path, content) in trees.first_contents(&open) {
            let Ok(text) = String::from_utf8(content) else { continue };
            let found = named::mentioned(&path, &text, &was_there);
            next.extend(found.into_iter().filter(|found| !is_check(found) && named.insert(found.clone())));
        }
        open = next;
    }
}

/// Whether a new file makes a target of make be up to date.
fn is_target(targets: &BTreeSet<String>, path: &str) -> bool {
    let rest = |target: &String| path.strip_prefix(target.as_str());
    targets.iter().filter_map(rest).any(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// rawko's own files are no work.
fn is_own(path: &str) -> bool {
    path.starts_with(".rawko/")
}

/// Whether a new manifest has a say in how tests run.
fn configures_a_runner(trees: &Trees, path: &str) -> bool {
    let now = || trees.content(path, &Version::Now);
    manifest::is_manifest(path) && now().is_some_and(|content| manifest::configures_a_runner(path, &content))
}

/// Whether a file that is gone was a manifest, or held tests that did not move as they were to another one.
fn loses_checks(trees: &Trees, fates: &BTreeMap<String, Fate>, path: &str) -> bool {
    if manifest::is_manifest(path) {
        return true;
    }
    let Some(first) = trees.content(path, &Version::First).filter(|_| path.ends_with(".rs")) else {
        return false;
    };
    let moved = |(other, fate): (&String, &Fate)| {
        *fate == Fate::Added
            && other.ends_with(".rs")
            && trees
                .content(other, &Version::Now)
                .is_some_and(|now| inline::compare(&first, &now) == InlineTests::Kept)
    };
    inline::has_tests(&first) && !fates.iter().any(moved)
}

/// A file that is work and checks in one, with the original checks; `None` if those are as they were.
fn with_original_checks(trees: &Trees, path: &str) -> Option<Vec<u8>> {
    let is_rust = path.ends_with(".rs");
    if !is_rust && !manifest::is_manifest(path) {
        return None;
    }
    let first = trees.content(path, &Version::First)?;
    let now = trees.content(path, &Version::Now)?;
    if is_rust {
        return match inline::compare(&first, &now) {
            InlineTests::Kept => None,
            InlineTests::Changed(content) => Some(content),
        };
    }
    match manifest::compare(path, &first, &now) {
        Manifest::SameChecks | Manifest::Other => None,
        Manifest::Changed(content) => Some(content),
    }
}
