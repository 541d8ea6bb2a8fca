//! A worker in a process of its own: this test program, begun once more.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rawko::Rawko;
use rawko_temporal::store::SharedStore;
use rawko_temporal::{EngineAddress, Slots, WorkerSettings, work};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use temporalio_sdk::workflow_interceptors::{
    CancellableWorkflowOutboundFuture, ScheduleActivityInput, ScheduleActivityResult, WorkflowInterceptor,
    WorkflowInterceptorConstructor, WorkflowInterceptorContext, WorkflowNext,
};

const SETTINGS: &str = "RAWKO_TEST_WORKER";
/// Begins what a worker says to its user.
pub(crate) const NOTICE: &str = "notice: ";

/// The options of the process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WorkerOptions {
    pub(crate) address: String,
    pub(crate) queue: String,
    pub(crate) store: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) user: PathBuf,
    /// Those that it works on, if not all.
    pub(crate) repositories: Option<Vec<String>>,
    pub(crate) slots: (usize, usize, usize),
    pub(crate) rates: BTreeMap<String, f64>,
    pub(crate) merge_request: Option<String>,
    pub(crate) grace_ms: u64,
    pub(crate) deployment: Option<(String, String)>,
    /// Whether it has no key of a provider.
    pub(crate) is_keyless: bool,
    /// Whether it trusts the configuration of repositories.
    pub(crate) is_trusting: bool,
    /// Where it sends spans.
    pub(crate) collector: Option<String>,
}

/// The process. It is killed when this is dropped.
pub(crate) struct WorkerProcess {
    child: Child,
    ready: PathBuf,
}

impl WorkerProcess {
    pub(crate) fn start(options: &WorkerOptions) -> Self {
        std::fs::create_dir_all(&options.folder).unwrap();
        let ready = options.folder.join("ready");
        let _ = std::fs::remove_file(&ready);
        let log =
            std::fs::OpenOptions::new().create(true).append(true).open(options.folder.join("log")).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .env(SETTINGS, serde_json::to_string(options).unwrap())
            .envs((!options.is_keyless).then_some(("ANTHROPIC_API_KEY", "sk-test")))
            .env("HOME", &options.user)
            .envs(options.collector.iter().map(|address| ("OTEL_EXPORTER_OTLP_ENDPOINT", address)))
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
            .env("RUST_BACKTRACE", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, ready }
    }

    /// Waits until it has reached the engine.
    pub(crate) fn ready(self) -> Self {
        let until = Instant::now() + Duration::from_secs(60);
        while !self.ready.exists() {
            assert!(Instant::now() < until, "the worker does not begin");
            std::thread::sleep(Duration::from_millis(20));
        }
        self
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Whether it has ended.
    pub(crate) fn is_gone(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its own end.
    pub(crate) fn ends(mut self, within: Duration) -> Duration {
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < within, "the worker does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        begun.elapsed()
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the process does, if this is one. Says whether it was.
pub(crate) fn run_if_asked() -> bool {
    let Ok(options) = std::env::var(SETTINGS) else { return false };
    let options: WorkerOptions = serde_json::from_str(&options).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    let ready = options.folder.join("ready");
    runtime.block_on(async {
        let mut terminate =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
        let stop = async move {
            terminate.recv().await;
        };
        let settings = settings(options);
        work(settings, || std::fs::write(ready, "").unwrap(), stop).await.unwrap();
    });
    true
}

fn settings(options: WorkerOptions) -> WorkerSettings {
    let (models, steps, verify) = options.slots;
    let user = options.user.clone();
    let panics = user.join("panic-in-workflow");
    WorkerSettings {
        engine: EngineAddress { address: Some(options.address), ..EngineAddress::default() },
        queue: options.queue,
        store: SharedStore::open(options.store.to_str().unwrap()).unwrap(),
        folder: options.folder,
        repositories: options.repositories,
        slots: Slots { models, steps, verify },
        providers: vec!["claude".to_owned()],
        rates: options.rates,
        builder: Arc::new(move |project: &Path| {
            // Once.
            if std::fs::remove_file(user.join("panic")).is_ok() {
                panic!("a fault of the test");
            }
            Rawko::builder()
                .project(project)
                .user_config_dir(user.join("config"))
                .trusted(options.is_trusting)
        }),
        notice: Arc::new(|text: &str| println!("{NOTICE}{text}")),
        merge_request: options.merge_request,
        grace: Duration::from_millis(options.grace_ms),
        deployment: options.deployment,
        interceptors: vec![WorkflowInterceptorConstructor::new(move |_| PanicsOnce(panics.clone()))],
    }
}

/// Breaks a workflow once, if there is such a file: where it would schedule an activity.
struct PanicsOnce(PathBuf);

impl WorkflowInterceptor for PanicsOnce {
    fn schedule_activity(
        &self,
        _: WorkflowInterceptorContext,
        input: ScheduleActivityInput,
        next: WorkflowNext<
            'static,
            ScheduleActivityInput,
            CancellableWorkflowOutboundFuture<ScheduleActivityResult>,
        >,
    ) -> CancellableWorkflowOutboundFuture<ScheduleActivityResult> {
        if std::fs::remove_file(&self.0).is_ok() {
            panic!("a fault of the test, in a workflow");
        }
        next.run(input)
    }
}
