//! A worker: a process that takes work from the queues of a fleet.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::try_join_all;
use temporalio_client::Client;
use temporalio_common::worker::{VersioningBehavior, WorkerDeploymentOptions, WorkerDeploymentVersion};
use temporalio_sdk::runtime::worker_tuner::{FixedSizeSlotSupplier, TunerHolder, WorkerTuner};
use temporalio_sdk::runtime::{PollerBehavior, RuntimeOptions};
use temporalio_sdk::workflow_interceptors::WorkflowInterceptorConstructor;
use temporalio_sdk::{Runtime, Worker, WorkerOptions};

use crate::activities::{HEARTBEATS, TaskActivities};
use crate::budget::BudgetWorkflow;
use crate::engine::EngineAddress;
use crate::error::FleetError;
use crate::faults::{Faults, Notice};
use crate::fleet::mark_of_tasks;
use crate::names;
use crate::store::SharedStore;
use crate::tree::WorkPlace;
use crate::workflow::TaskWorkflow;
use crate::workspace::{MakeBuilder, Workspaces};

/// Workflows that a worker keeps in memory.
const CACHED_WORKFLOWS: usize = 500;
/// A worker that is gone loses a workflow to the others after so long.
const STICKY: Duration = Duration::from_secs(3);
/// Between two looks at what this worker keeps of tasks that have ended.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(3_600);

/// How much one worker does at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    /// Model calls, of each provider. They cost little here.
    pub models: usize,
    /// Steps of agents.
    pub steps: usize,
    /// Verifications: whole test suites.
    pub verify: usize,
}

impl Default for Slots {
    fn default() -> Self {
        Self { models: 20, steps: 4, verify: 1 }
    }
}

/// The settings of a worker.
pub struct WorkerSettings {
    /// Where the engine is.
    pub engine: EngineAddress,
    /// The first word of the names of its queues.
    pub queue: String,
    /// What it shares with the others: a folder or a bucket.
    pub store: SharedStore,
    /// Where it keeps repositories and trees.
    pub folder: PathBuf,
    /// Patterns for the addresses of the repositories that it works on, as [`WorkPlace::with_repositories`] takes them. `None`: it
    /// works on all that tasks name, with whatever its user may reach.
    pub repositories: Option<Vec<String>>,
    /// How much it does at once. No slots of a kind: it does nothing of that kind.
    pub slots: Slots,
    /// The providers whose model calls it makes: it has their keys.
    pub providers: Vec<String>,
    /// The most model calls of a provider in a second, of all workers together.
    pub rates: BTreeMap<String, f64>,
    /// Makes the builder for a project.
    pub builder: MakeBuilder,
    /// Makes a merge request, as a command line.
    pub merge_request: Option<String>,
    /// Says what the worker's user has to know: that a task was handed back, and why.
    pub notice: Notice,
    /// How long what is under way may go on when the worker is to end; then another worker begins it anew.
    pub grace: Duration,
    /// The deployment and version that it belongs to: a task stays with the version that began it.
    pub deployment: Option<(String, String)>,
    /// The SDK's interceptors of workflows, for example for tracing. They must be deterministic.
    pub interceptors: Vec<WorkflowInterceptorConstructor>,
}

impl std::fmt::Debug for WorkerSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerSettings")
            .field("queue", &self.queue)
            .field("folder", &self.folder)
            .field("slots", &self.slots)
            .field("providers", &self.providers)
            .finish_non_exhaustive()
    }
}

/// Works until `stop` is ready, and then until what is under way has ended, or its grace is over. `ready` is called once the
/// worker has reached the engine.
///
/// # Errors
/// [`FleetError::Unreachable`] if the engine cannot be reached in five minutes; [`FleetError::Engine`] if it refuses the worker;
/// [`FleetError::Store`] if the tasks of the fleet are in another store.
pub async fn work(
    settings: WorkerSettings,
    ready: impl FnOnce(),
    stop: impl Future<Output = ()>,
) -> Result<(), FleetError> {
    let client = settings.engine.connect_in_time(&settings.store).await?;
    // Where the engine does not say, each task does.
    if let Ok(Some(mark)) = mark_of_tasks(&client, &settings.queue).await {
        settings.store.check_mark(&mark).await?;
    }
    let place = WorkPlace::new(&settings.folder)?;
    let place = match &settings.repositories {
        Some(patterns) => place.with_repositories(patterns)?,
        None => place,
    };
    let workspaces = Arc::new(Workspaces {
        store: settings.store.clone(),
        place,
        folder: settings.folder.clone(),
        builder: Arc::clone(&settings.builder),
        merge_request: settings.merge_request.clone(),
        open: Mutex::default(),
        faults: Faults::new(Arc::clone(&settings.notice)),
    });
    let runtime = Runtime::from_current_tokio(RuntimeOptions::default())
        .map_err(|error| FleetError::engine("begin", &error))?;
    let mut workers = workers(&settings, &client, &runtime, &workspaces)?;
    let handles: Vec<_> = workers.iter().map(Worker::shutdown_handle).collect();
    let sweeping = sweep(&workspaces);
    ready();
    let all = try_join_all(workers.iter_mut().map(Worker::run));
    let stopping = async {
        stop.await;
        handles.iter().for_each(|shut_down| shut_down());
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = sweeping => Ok(()),
        result = all => result.map(drop).map_err(|error| FleetError::engine("be worked for", &error)),
        () = stopping => Ok(()),
    }
}

/// Keeps the worker's disk from filling, as long as it works.
async fn sweep(workspaces: &Workspaces) {
    loop {
        workspaces.sweep().await;
        tokio::time::sleep(BETWEEN_SWEEPS).await;
    }
}

/// One of the SDK's workers for each queue.
fn workers(
    settings: &WorkerSettings,
    client: &Client,
    runtime: &Runtime,
    workspaces: &Arc<Workspaces>,
) -> Result<Vec<Worker>, FleetError> {
    let WorkerSettings { queue, slots, .. } = settings;
    let activities = || TaskActivities { workspaces: Arc::clone(workspaces) };
    let refused = |error: &dyn std::fmt::Display| FleetError::engine("take this worker", &error.to_string());
    let mut workflows = options(settings, queue.clone(), 1, None);
    workflows.register_workflow_interceptors(settings.interceptors.clone());
    workflows
        .register_workflow::<TaskWorkflow>()
        .and_then(|options| options.register_workflow::<BudgetWorkflow>())
        .map_err(|error| refused(&error))?;
    let models = settings.providers.iter().map(|provider| {
        (names::models(queue, provider), slots.models, settings.rates.get(provider).copied())
    });
    let of_steps = [(names::steps(queue), slots.steps, None), (names::verify(queue), slots.verify, None)];
    let with_activities = of_steps.into_iter().chain(models).filter(|(_, slots, _)| *slots > 0);
    let with_activities = with_activities.map(|(queue, slots, rate)| {
        let mut options = options(settings, queue, slots, rate);
        options.register_activities(activities());
        options
    });
    let all: Vec<WorkerOptions> = std::iter::once(workflows).chain(with_activities).collect();
    all.into_iter()
        .map(|options| Worker::new(runtime, client.clone(), options).map_err(|error| refused(&error)))
        .collect()
}

fn options(settings: &WorkerSettings, queue: String, slots: usize, rate: Option<f64>) -> WorkerOptions {
    let tuner = TunerHolder::builder()
        .workflow_task_slot_supplier(FixedSizeSlotSupplier::new(20))
        .activity_task_slot_supplier(FixedSizeSlotSupplier::new(slots))
        .local_activity_task_slot_supplier(FixedSizeSlotSupplier::new(1))
        .nexus_task_slot_supplier(FixedSizeSlotSupplier::new(1))
        .build();
    WorkerOptions::new(queue)
        .tuner(WorkerTuner::from(tuner))
        .max_cached_workflows(CACHED_WORKFLOWS)
        .sticky_queue_schedule_to_start_timeout(STICKY)
        .max_heartbeat_throttle_interval(HEARTBEATS)
        .default_heartbeat_throttle_interval(HEARTBEATS)
        .activity_task_poller_behavior(PollerBehavior::SimpleMaximum(slots.min(5)))
        .maybe_max_task_queue_activities_per_second(rate)
        .graceful_shutdown_period(settings.grace)
        .deployment_options(deployment(settings))
        .build()
}

/// A worker without a deployment takes every task.
fn deployment(settings: &WorkerSettings) -> WorkerDeploymentOptions {
    let Some((name, build)) = &settings.deployment else {
        return WorkerDeploymentOptions::from_build_id(env!("CARGO_PKG_VERSION").to_owned());
    };
    let version =
        WorkerDeploymentVersion::builder().deployment_name(name.clone()).build_id(build.clone()).build();
    WorkerDeploymentOptions::new(version)
        .use_worker_versioning(true)
        .default_versioning_behavior(VersioningBehavior::Pinned)
        .build()
}
