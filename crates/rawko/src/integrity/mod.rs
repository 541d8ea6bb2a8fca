//! Whether a run's checks are the ones that it began with (`docs/verification.md#integrity`).
//!
//! Before the run first changes anything, rawko records the toolchain, and runs the verification commands on the tree
//! as it is, in the background. When the run's work is verified, rawko compares the checks with the recorded ones. If
//! they differ, it runs the original checks on the new code, in a copy of the project.

mod adopted;
mod baseline;
mod bounds;
mod comparison;
mod copies;
mod counts;
mod elsewhere;
mod inline;
mod kinds;
mod manifest;
mod named;
mod patches;
mod replica;
mod rust_code;
mod suppressions;
mod task_crates;
mod toolchain;
mod trial_folder;
mod used_by_checks;
mod view;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt as _;
use futures_util::future::Shared;
use rawko_core::facts::{CheckResult, CommandRun, Verification};
use rawko_core::integrity::{
    Baseline, ChangedChecks, CheckChange, CheckChangeKind, Integrity, IntegrityResult, OriginalRun,
};
use rawko_core::setup::VerifySetup;
use rawko_core::text::truncate;
use rawko_tools::{BoxFuture, CommandRunner, text_of};

use crate::checkpoint::{CheckpointError, Checkpoints, Fault, Version};
use adopted::Adopted;
use baseline::BaselineRun;
use bounds::Bounds;
use comparison::Comparison;
use counts::{miscounted, uncounted};
use elsewhere::{Elsewhere, Means};
use kinds::CheckFiles;
pub(crate) use kinds::check_glob;
use toolchain::{Place, Toolchain};

/// Longest file of the project that is searched for names of others.
const MAX_READ: u64 = 32 * 1024 * 1024;
/// Shortest time for which a baseline is waited for at the end.
const MIN_PATIENCE: Duration = Duration::from_secs(30);
/// What a task needs that removes a feature together with its tests.
const ADVICE: &str = "if the task asks for that, allow it with --allow-changed-checks";
/// Digits of an object's name that are shown.
const SHORT: usize = 12;
/// Changed checks that are listed.
const LISTED: usize = 100;

/// The commands of one verification, and what is said about them in the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VerifyPlan {
    pub(crate) commands: Vec<String>,
    pub(crate) timeout: Duration,
    pub(crate) tests: Vec<String>,
    pub(crate) changed_checks: ChangedChecks,
    /// Whether rawko found the commands, because the user named none.
    pub(crate) found: bool,
    /// Whether they are those of an agent.
    pub(crate) adopted: bool,
}

impl From<VerifySetup> for VerifyPlan {
    fn from(setup: VerifySetup) -> Self {
        let VerifySetup { commands, timeout_ms, found, tests, changed_checks } = setup;
        Self {
            commands,
            timeout: Duration::from_millis(timeout_ms),
            tests,
            changed_checks,
            found,
            adopted: false,
        }
    }
}

/// Why the checks could not be compared with those of the beginning.
type NotCompared = Box<dyn std::error::Error + Send + Sync>;

/// Watches over the checks of one run.
#[derive(Debug)]
pub(crate) struct IntegrityGuard {
    checkpoints: Checkpoints,
    project: PathBuf,
    /// The session's directory.
    directory: PathBuf,
    /// Where baselines are kept for later sessions.
    kept: Option<PathBuf>,
    home: Option<PathBuf>,
    cargo_home: Option<PathBuf>,
    path: OsString,
    runner: CommandRunner,
    /// Those that the run began with, if there are any.
    plan: Option<VerifyPlan>,
    before: Mutex<Option<Arc<Toolchain>>>,
    /// When the commands of the newest verification began, in nanoseconds.
    commands_began: Mutex<Option<i128>>,
    baseline: Mutex<Begun>,
    /// What a copy of the project may cost.
    bounds: Bounds,
}

/// Commands on the first tree, and their end. They end when nothing holds this any more.
type BeginningRun = Shared<BoxFuture<'static, Option<Baseline>>>;

/// Commands that run, or ran, on the first tree.
#[derive(Debug, Default)]
struct Begun {
    /// Those that are adopted may become others.
    commands: Vec<String>,
    run: Option<BeginningRun>,
}

impl IntegrityGuard {
    pub(crate) fn new(
        checkpoints: Checkpoints,
        project: &Path,
        directory: &Path,
        runner: CommandRunner,
        plan: Option<VerifyPlan>,
    ) -> Self {
        Self {
            checkpoints,
            project: project.to_owned(),
            directory: directory.to_owned(),
            kept: None,
            home: std::env::var_os("HOME").map(PathBuf::from),
            cargo_home: std::env::var_os("CARGO_HOME").map(PathBuf::from),
            path: std::env::var_os("PATH").unwrap_or_default(),
            runner,
            plan,
            before: Mutex::new(None),
            commands_began: Mutex::new(None),
            baseline: Mutex::default(),
            bounds: Bounds::WAITED_FOR,
        }
    }

    /// Keeps baselines in this folder of the user's for later sessions.
    pub(crate) fn keeping(self, kept: Option<PathBuf>) -> Self {
        Self { kept, ..self }
    }

    /// Runs the verification commands.
    pub(crate) fn runner(&self) -> &CommandRunner {
        &self.runner
    }

    /// Records the toolchain, if that was not done before. Called when a checkpoint was taken, before anything is changed.
    /// Returns what runs the commands on the first tree, if they have to be run, for the caller to advance beside its work.
    pub(crate) async fn begin(self: &Arc<Self>) -> Option<BoxFuture<'static, ()>> {
        let plan = self.plan.clone()?;
        let guard = Arc::clone(self);
        let is_first = rawko_tools::on_thread(move || guard.record()).await.unwrap_or_default();
        if !is_first || plan.commands.is_empty() {
            return None;
        }
        let run = self.start_baseline(plan);
        Some(Box::pin(async move { drop(run.await) }))
    }

    /// Forgets the commands on the first tree, which ends them where nothing else advances them.
    pub(crate) fn end(&self) {
        drop(std::mem::take(&mut *self.begun()));
    }

    fn start_baseline(&self, plan: VerifyPlan) -> BeginningRun {
        let commands = plan.commands.clone();
        // A guard that is dropped ends its baseline, so the baseline must not hold the guard.
        let run = BaselineRun {
            checkpoints: self.checkpoints.clone(),
            runner: self.counting_runner(),
            plan,
            toolchain: self.recorded().map(|before| (*before).clone()).unwrap_or_default(),
            project: self.project.clone(),
            kept: self.kept.clone(),
            bounds: self.bounds,
        };
        let run: BoxFuture<'static, _> =
            Box::pin(async move { AssertUnwindSafe(run.run()).catch_unwind().await.ok().flatten() });
        let run = run.shared();
        *self.begun() = Begun { commands, run: Some(run.clone()) };
        run
    }

    fn begun(&self) -> MutexGuard<'_, Begun> {
        self.baseline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the commands in copies. Flags of Go that the user has set for good would be lost with those that name tests.
    fn counting_runner(&self) -> CommandRunner {
        let settings = self.home.as_ref().map(|home| home.join(".config/go/env"));
        let text = settings.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        if text.contains("GOFLAGS") { self.runner.clone() } else { self.runner.naming_tests() }
    }

    /// Returns whether nothing was recorded before.
    fn record(&self) -> bool {
        if self.before().is_some() {
            return false;
        }
        let path = self.directory.join(self.checkpoints.name_of_record());
        let (toolchain, is_first) =
            match std::fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()) {
                Some(recorded) => (recorded, false),
                None => {
                    let toolchain = self.look(None);
                    if let Ok(text) = serde_json::to_vec(&toolchain) {
                        // Without the file a resumed run cannot compare its toolchain; the tree it still can.
                        let _ = crate::private::write_new(&path, &text);
                    }
                    (toolchain, true)
                }
            };
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(toolchain));
        is_first
    }

    /// What was recorded at the beginning, by this process or one before it.
    fn recorded(&self) -> Result<Arc<Toolchain>, CheckpointError> {
        if let Some(before) = self.before() {
            return Ok(before);
        }
        let path = self.directory.join(self.checkpoints.name_of_record());
        let wrong = |error: std::io::Error| CheckpointError::io("cannot read", &path, error);
        let text = std::fs::read(&path).map_err(wrong)?;
        let recorded: Toolchain = serde_json::from_slice(&text).map_err(|error| wrong(error.into()))?;
        Ok(Arc::new(recorded))
    }

    fn before(&self) -> Option<Arc<Toolchain>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn look(&self, before: Option<&Toolchain>) -> Toolchain {
        let plan = self.plan.clone().unwrap_or_default();
        let read = |path: &str| text_of(&self.project.join(path), MAX_READ);
        let named = named::named(&plan.commands, &[], &read);
        let place = Place {
            project: &self.project,
            home: self.home.as_deref(),
            cargo_home: self.cargo_home.as_deref(),
            path: &self.path,
            ignored: self.checkpoints.ignored().unwrap_or_default(),
            checks: &CheckFiles::new(&plan.tests),
            named: named.files.into_iter().chain(named.missing).chain(named.taken_in).collect(),
            words: &named.words,
        };
        Toolchain::look(&place, &named.programs, before)
    }

    /// What a verification comes to that needs no commands; `None` where the run changed something, or may have.
    pub(crate) async fn unchanged(&self) -> Option<Integrity> {
        let checkpoints = self.checkpoints.clone();
        let is_unchanged = move || match checkpoints.trees() {
            Ok(trees) => trees.is_none_or(|trees| trees.is_as_the_task_began(&comparison::is_own)),
            Err(_) => false,
        };
        let is_unchanged = rawko_tools::on_thread(is_unchanged).await.unwrap_or_default();
        is_unchanged.then(Integrity::unchanged)
    }

    /// Commands of which some fail, on the tree that the run began with; `None` where that is not known, or where the
    /// packages of then are not those of now.
    pub(crate) async fn on_the_base(
        self: &Arc<Self>,
        plan: &VerifyPlan,
        runs: &[CommandRun],
    ) -> Option<Baseline> {
        let compared = self.compared(plan).await.ok()?;
        let is_sound = compared.is_none_or(|comparison| comparison.is_sound());
        self.baseline(plan, runs).await.filter(|_| is_sound)
    }

    /// Judges commands that passed, and finds what they prove.
    pub(crate) async fn judge(
        self: &Arc<Self>,
        plan: &VerifyPlan,
        verification: Verification,
    ) -> Verification {
        let comparison = match self.compared(plan).await {
            Ok(Some(comparison)) => comparison,
            Ok(None) => return Verification { integrity: Some(Integrity::unchanged()), ..verification },
            // The tree could not be compared with the one that the run began with.
            Err(error) => {
                return match error.downcast_ref().and_then(Fault::of) {
                    Some(fault) => without_originals(verification, &[fault].into()),
                    None => Verification { tree: None, ..verification },
                };
            }
        };
        if plan.adopted && !comparison.had_tests {
            // Tests of the run alone are what its agents say.
            return Verification { tree: verification.tree, ..Verification::default() };
        }
        // The copy of the beginning has links to packages, so it may have been run with what the run put there.
        let is_sound = comparison.is_sound();
        let baseline = self.baseline(plan, &verification.runs).await.filter(|_| is_sound);
        let failed = baseline
            .iter()
            .flat_map(|baseline| &baseline.runs)
            .filter(|run| run.result() == CheckResult::Failed);
        let complaints: Vec<&str> = failed.map(|run| run.output.as_str()).collect();
        let comparison = Arc::new(comparison.without_suppressions(&complaints.concat()));
        let mut changed = comparison.changed();
        changed.extend(miscounted(baseline.as_ref(), &verification.runs, false));
        let uncounted = uncounted(baseline.as_ref(), &verification.runs);
        // Where there were no checks, new ones cannot change how others run.
        let added = if comparison.had_checks { comparison.added.clone() } else { Vec::new() };
        let (mut original, mut passed_in_view) = (None, None);
        let result = match (changed.is_empty(), plan.changed_checks) {
            (true, ChangedChecks::Allow | ChangedChecks::Deny) => IntegrityResult::Intact,
            (true, ChangedChecks::Rerun) if added.is_empty() && uncounted.is_empty() => {
                IntegrityResult::Intact
            }
            (false, ChangedChecks::Allow) => IntegrityResult::Allowed,
            (false, ChangedChecks::Deny) => IntegrityResult::Denied,
            (only_added, ChangedChecks::Rerun) => {
                let (run, is_view) = self.originals(plan, &comparison, baseline.as_ref()).await;
                passed_in_view = run.passed().then_some(is_view);
                let result = match (run.passed(), run.runs.is_empty()) {
                    // Nothing was changed or added: they would only have been counted.
                    (_, true) if only_added && added.is_empty() => IntegrityResult::Intact,
                    (true, _) if only_added => IntegrityResult::Intact,
                    (true, _) => IntegrityResult::OriginalsPass,
                    (false, false) => IntegrityResult::OriginalsFail,
                    (false, true) => IntegrityResult::OriginalsUnknown,
                };
                original = Some(run);
                if only_added && result != IntegrityResult::Intact {
                    changed = if added.is_empty() { uncounted } else { added };
                }
                result
            }
        };
        let result = match (result, comparison.limit) {
            (IntegrityResult::Intact | IntegrityResult::OriginalsPass, Some(limit)) => {
                let runs = original.take().map(|original| original.runs).unwrap_or_default();
                original = Some(OriginalRun { runs, problem: Some(limit.to_owned()) });
                IntegrityResult::OriginalsUnknown
            }
            (result, _) => result,
        };
        let more = u32::try_from(changed.len().saturating_sub(LISTED)).unwrap_or(u32::MAX);
        changed.truncate(LISTED);
        let fails = matches!(result, IntegrityResult::OriginalsFail | IntegrityResult::OriginalsUnknown);
        let advice = fails.then(|| ADVICE.to_owned());
        let integrity = Some(Integrity { result, changed, more, advice });
        let judged = Verification { integrity, baseline, original, ..verification };
        let judged = self.what_it_proves(plan, &comparison, judged, passed_in_view).await;
        let faults = comparison.trees.faults();
        let rests_on_originals = plan.changed_checks != ChangedChecks::Allow
            && !matches!(result, IntegrityResult::Denied | IntegrityResult::OriginalsFail);
        if faults.is_empty() || !rests_on_originals { judged } else { without_originals(judged, &faults) }
    }

    /// Called before the commands run. Removes what Python compiled inside the project: it need not have been made from the
    /// sources beside it.
    pub(crate) async fn commands_begin(&self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).ok();
        *self.commands_began.lock().unwrap_or_else(PoisonError::into_inner) =
            since.and_then(|since| i128::try_from(since.as_nanos()).ok());
        let (checkpoints, project) = (self.checkpoints.clone(), self.project.clone());
        let _ = rawko_tools::on_thread(move || {
            let ignored = checkpoints.ignored().unwrap_or_default();
            for folder in ignored.iter().filter(|path| path.ends_with("__pycache__/")) {
                // Anything left is a cache that could not be removed.
                let _ = std::fs::remove_dir_all(project.join(folder.trim_end_matches('/')));
            }
        })
        .await;
    }

    /// The commands on the first tree. Commands that passed in `runs` are not waited for much longer there: one that hangs
    /// without the work would hold the result up.
    async fn baseline(&self, plan: &VerifyPlan, runs: &[CommandRun]) -> Option<Baseline> {
        let begun = {
            let begun = self.begun();
            begun.run.clone().filter(|_| begun.commands == plan.commands)
        };
        // Without it, the process that ran it is gone, or it is that of other commands.
        let running = begun.unwrap_or_else(|| self.start_baseline(plan.clone()));
        let took: u64 = runs.iter().map(|run| run.duration_ms).sum();
        let patience = MIN_PATIENCE + Duration::from_millis(took.saturating_mul(3));
        tokio::time::timeout(patience, running).await.ok().flatten()
    }

    /// The checks now, compared with those of the beginning; `None` if the run changed nothing.
    async fn compared(self: &Arc<Self>, plan: &VerifyPlan) -> Result<Option<Comparison>, NotCompared> {
        let (guard, own) = (Arc::clone(self), plan.clone());
        Ok(rawko_tools::on_thread(move || guard.compare(&own)).await??)
    }

    fn compare(&self, plan: &VerifyPlan) -> Result<Option<Comparison>, CheckpointError> {
        let Some(trees) = self.checkpoints.trees()? else { return Ok(None) };
        if trees.is_as_the_task_began(&comparison::is_own) {
            return Ok(None);
        }
        let before = self.recorded()?;
        let now = self.look(Some(&before));
        let began = *self.commands_began.lock().unwrap_or_else(PoisonError::into_inner);
        let adopted = if plan.adopted {
            Adopted::new(&plan.commands, &self.project, &before, &self.path)
        } else {
            Adopted::default()
        };
        Ok(Some(Comparison::new(trees, plan, &self.project, (&before, &now), began, adopted)))
    }

    /// How another tree may be made.
    const fn means(&self, views: bool) -> Means {
        Means { views, bounds: self.bounds }
    }

    /// The original checks on the new code, and whether that was in a view. What fails says something only if the present
    /// tree passes there. A view and a copy have limits of their own, so one is tried after the other.
    async fn originals(
        &self,
        plan: &VerifyPlan,
        comparison: &Arc<Comparison>,
        baseline: Option<&Baseline>,
    ) -> (OriginalRun, bool) {
        for views in [true, false] {
            let (run, is_view) = self.run_originals(plan, comparison, baseline, views).await;
            let is_answer = run.passed() || run.problem.is_some();
            if is_answer || self.passes_elsewhere(plan, comparison, views).await {
                return (run, is_view);
            }
            if !is_view {
                break;
            }
        }
        let problem = "the checks fail in a copy of the project as it is now, too";
        (OriginalRun { runs: Vec::new(), problem: Some(problem.to_owned()) }, false)
    }

    async fn run_originals(
        &self,
        plan: &VerifyPlan,
        comparison: &Arc<Comparison>,
        baseline: Option<&Baseline>,
        views: bool,
    ) -> (OriginalRun, bool) {
        let problem = |problem: String| (OriginalRun { runs: Vec::new(), problem: Some(problem) }, false);
        let lasting = &comparison.differences.lasting;
        if !lasting.is_empty() {
            let list: Vec<&str> = lasting.iter().take(3).map(|change| change.path.as_str()).collect();
            return problem(format!("rawko cannot put back {}", list.join(", ")));
        }
        let Comparison { versions, differences, .. } = &**comparison;
        let choose = |path: &str| versions.get(path).cloned().unwrap_or(Version::Now);
        let (avoided, means) = (differences.avoided(), self.means(views));
        let elsewhere = match Elsewhere::new(&self.runner, comparison, choose, avoided, true, means).await {
            Ok(elsewhere) => elsewhere,
            Err(why) => return problem(why),
        };
        let is_view = elsewhere.is_view();
        let runs = elsewhere.run(&self.counting_runner(), &plan.commands, plan.timeout).await;
        elsewhere.remove().await;
        let miscounted = miscounted(baseline, &runs, true);
        let problem = miscounted.first().map(|change| format!("`{}` {}", change.path, change.how.words()));
        (OriginalRun { runs, problem }, is_view)
    }
}

/// A verification whose checks cannot be compared with those of the beginning, because what was kept of them is gone or
/// was changed.
fn without_originals(verification: Verification, faults: &BTreeSet<Fault>) -> Verification {
    let changed = faults.iter().map(|fault| CheckChange {
        path: format!("git object {}", truncate(&fault.object, SHORT)).trim_end().to_owned(),
        how: if fault.is_gone { CheckChangeKind::Deleted } else { CheckChangeKind::Changed },
    });
    let mut integrity = verification.integrity.unwrap_or_else(Integrity::unchanged);
    integrity.changed.extend(changed);
    integrity.result = IntegrityResult::OriginalsUnknown;
    integrity.advice = None;
    let problem = faults.first().map(|fault| fault.why.clone());
    let original = Some(OriginalRun { runs: Vec::new(), problem });
    Verification { integrity: Some(integrity), original, ..verification }
}
