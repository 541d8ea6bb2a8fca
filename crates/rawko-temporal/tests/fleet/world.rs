//! A fleet in a temporary folder: engine, repository, model server, workers.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rawko::Rawko;
use rawko_core::session::Stamped;
use rawko_temporal::store::SharedStore;
use rawko_temporal::{Carriage, EngineAddress, Fleet, FleetTask, TaskOptions, TaskSpec};
use serde_json::{Value, json};
use testkit::{Answer, Asked, ModelServer, TemporalServer, Who, git};

use crate::worker::{NOTICE, WorkerOptions, WorkerProcess};

/// The folder for marks.
const MARKS: &str = "marks";
/// A secret that the program that submits and steers has, and no worker knows.
pub(crate) const SECRET: &str = "correct-horse-battery-staple-42";
/// Longer than any task here takes on the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct World {
    pub(crate) runtime: tokio::runtime::Runtime,
    pub(crate) models: ModelServer,
    pub(crate) engine: TemporalServer,
    folder: tempfile::TempDir,
}

/// A model whose developer answers by the number of its turn, and whose arbiter is content. The number is that of the answers in
/// the conversation, so a call that is made again gets the same one.
fn developing(turn: impl Fn(usize) -> Answer + Send + Sync + 'static) -> ModelServer {
    ModelServer::start(move |asked: &Asked| match asked.who() {
        Who::Select => {
            Answer::decision(json!({"decision": "SELECT_MODE", "mode": "developer", "reason": "next"}))
        }
        Who::Evaluate => {
            Answer::decision(json!({"decision": "COMPLETE", "summary": "all done", "reason": "so it is"}))
        }
        Who::Agent => turn(asked.messages().iter().filter(|message| message["role"] == "assistant").count()),
    })
}

/// A developer who has these turns in order, then a report.
pub(crate) fn developer(turns: Vec<Answer>) -> ModelServer {
    developing(move |turn| turns.get(turn).cloned().unwrap_or_else(|| report("did it")))
}

/// A world whose developer runs these commands; `MARKS` in them is the folder for marks.
pub(crate) fn commands(commands: &[&str]) -> Option<World> {
    commands_and(commands, |_, _| {})
}

/// The same. Before each turn of the developer, its number and the folder of the world are given to `between`.
pub(crate) fn commands_and(
    commands: &[&str],
    between: impl Fn(usize, &Path) + Send + Sync + 'static,
) -> Option<World> {
    let commands: Vec<String> = commands.iter().map(|&command| command.to_owned()).collect();
    let folder: Arc<OnceLock<PathBuf>> = Arc::default();
    let known = Arc::clone(&folder);
    let world = World::new(developing(move |turn| {
        let folder = folder.get().expect("the world is there before a worker");
        between(turn, folder);
        let marks = folder.join(MARKS);
        let command = commands.get(turn).map(|command| command.replace("MARKS", marks.to_str().unwrap()));
        command.map_or_else(|| report("did it"), |command| bash(&command))
    }))?;
    known.set(world.path("")).unwrap();
    Some(world)
}

pub(crate) fn report(summary: &str) -> Answer {
    Answer::call("Report", &json!({"outcome": "success", "summary": summary}))
}

pub(crate) fn bash(command: &str) -> Answer {
    Answer::call("Bash", &json!({ "command": command }))
}

pub(crate) fn write(path: &str, content: &str) -> Answer {
    Answer::call("Write", &json!({"file_path": path, "content": content}))
}

impl World {
    /// `None` where there is no engine.
    pub(crate) fn new(models: ModelServer) -> Option<Self> {
        Self::with_engine(models, &[])
    }

    /// One whose engine has these settings besides (`matching.enableFairness=true`).
    pub(crate) fn with_engine(models: ModelServer, settings: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let engine = TemporalServer::start(folder.path(), settings)?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let world = Self { runtime, models, engine, folder };
        world.seed();
        Some(world)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The repository, and the user whose settings the workers have.
    fn seed(&self) {
        for name in ["user/config", "store", "seed"] {
            std::fs::create_dir_all(self.path(name)).unwrap();
        }
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(self.path("store"), private).unwrap();
        let (seed, remote) = (self.path("seed"), self.path("remote.git"));
        git(&seed, &["init", "--quiet", "--initial-branch=main"]);
        std::fs::write(seed.join("README.md"), "A project.\n").unwrap();
        git(&seed, &["add", "."]);
        git(&seed, &["commit", "--quiet", "-m", "begin"]);
        git(&seed, &["clone", "--quiet", "--bare", ".", remote.to_str().unwrap()]);
        self.config(json!({
            "provider": {
                "default": "claude",
                "claude": {"baseUrl": self.models.claude_url(), "retry": {"maxAttempts": 2, "baseMs": 1, "capMs": 50}},
                "retry": {"patience": 0},
            },
            "permissions": {"write": [".", self.marks()]},
        }));
        std::fs::create_dir_all(self.marks()).unwrap();
    }

    /// The user's configuration, in which the arbiter is always a model.
    pub(crate) fn config(&self, mut config: Value) {
        config["arbiter"] = json!({"mode": "llm"});
        std::fs::write(self.path("user/config/config.yaml"), config.to_string()).unwrap();
    }

    /// A folder outside of every tree, in which commands may leave marks.
    pub(crate) fn marks(&self) -> PathBuf {
        self.path(MARKS)
    }

    /// The lines that commands have left there.
    pub(crate) fn marked(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.marks().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn remote(&self) -> PathBuf {
        self.path("remote.git")
    }

    /// A command of git in the repository of the fleet.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git(&self.remote(), arguments)
    }

    /// The commits of a task, oldest first: the effect that each trailer names.
    pub(crate) fn effects(&self, task: &str) -> Vec<u64> {
        let log = self.git(&[
            "log",
            "--reverse",
            "--format=%(trailers:key=Rawko-Effect,valueonly)",
            &format!("main..rawko/{task}"),
        ]);
        log.split_whitespace().map(|effect| effect.parse().unwrap()).collect()
    }

    pub(crate) fn options(&self, name: &str) -> WorkerOptions {
        WorkerOptions {
            address: self.engine.address(),
            queue: "test".to_owned(),
            store: self.path("store"),
            folder: self.path(name),
            user: self.path("user"),
            repositories: None,
            slots: (20, 4, 1),
            rates: BTreeMap::new(),
            merge_request: None,
            grace_ms: 20_000,
            deployment: None,
            is_keyless: false,
            is_trusting: true,
            collector: None,
        }
    }

    /// A worker that is ready.
    pub(crate) fn worker(&self, name: &str) -> WorkerProcess {
        WorkerProcess::start(&self.options(name)).ready()
    }

    pub(crate) fn fleet(&self) -> Fleet {
        let store = SharedStore::open(self.path("store").to_str().unwrap()).unwrap();
        let engine = EngineAddress { address: Some(self.engine.address()), ..EngineAddress::default() };
        let user = Rawko::builder().project(self.path("seed")).user_config_dir(self.path("user/config"));
        let mask = Arc::new(user.trusted(true).secret(SECRET).build().unwrap().event_redactor());
        self.runtime.block_on(Fleet::connect(&engine, store, "test", mask)).unwrap()
    }

    /// Has the repository ask for more than an untrusted one gets.
    pub(crate) fn claim(&self) {
        let seed = self.path("seed");
        std::fs::create_dir_all(seed.join(".rawko")).unwrap();
        std::fs::write(seed.join(".rawko/config.yaml"), "verify: [\"test -e one.txt\"]\n").unwrap();
        git(&seed, &["add", "."]);
        git(&seed, &["commit", "--quiet", "-m", "verify"]);
        git(&seed, &["push", "--quiet", self.remote().to_str().unwrap(), "main"]);
    }

    /// What the workers said to their user.
    pub(crate) fn notices(&self) -> Vec<String> {
        self.logs().lines().filter_map(|line| line.strip_prefix(NOTICE)).map(str::to_owned).collect()
    }

    /// Has the engine forget a task that has ended, as it does when its retention is over.
    pub(crate) fn forget(&self, fleet: &Fleet, task: &str) {
        let id = format!("rawko-task-{task}");
        self.temporal(&["workflow", "delete", "--yes", "--workflow-id", &id]);
        self.until("the engine forgets it", || self.runtime.block_on(fleet.history(task)).is_err());
    }

    /// The files below a folder of the world whose bytes hold this text; a file's own name may be given, too.
    pub(crate) fn files_with(&self, names: &[&str], text: &str) -> Vec<PathBuf> {
        let mut left: Vec<PathBuf> = names.iter().map(|name| self.path(name)).collect();
        let mut found = Vec::new();
        while let Some(path) = left.pop() {
            if path.is_dir() {
                left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if std::fs::read(&path)
                .is_ok_and(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
            {
                found.push(path);
            }
        }
        found
    }

    /// A task whose workers are thought dead after two seconds.
    pub(crate) fn spec(&self, id: &str, task: &str) -> TaskSpec {
        TaskSpec {
            id: id.to_owned(),
            task: task.to_owned(),
            repository: self.remote().to_str().unwrap().parse().unwrap(),
            revision: None,
            submitter: "tester".to_owned(),
            submission: None,
            has_budget: false,
            queue: "test".to_owned(),
            options: TaskOptions::default(),
            carriage: Carriage { heartbeat_ms: 2_000, ..Carriage::default() },
        }
    }

    pub(crate) fn submit(&self, id: &str, task: &str) -> Fleet {
        let fleet = self.fleet();
        let submitted = self.runtime.block_on(fleet.submit(self.spec(id, task))).unwrap();
        assert!(submitted.is_new);
        fleet
    }

    /// Waits for the end of a task.
    #[track_caller]
    pub(crate) fn ended(&self, fleet: &Fleet, id: &str) -> FleetTask {
        let wait = async { tokio::time::timeout(PATIENCE, fleet.wait(id)).await };
        match self.runtime.block_on(wait) {
            Ok(ended) => ended.unwrap(),
            Err(_) => {
                panic!("the task does not end: {:?}\n{}", self.runtime.block_on(fleet.show(id)), self.logs())
            }
        }
    }

    /// The events of a task's session.
    pub(crate) fn events(&self, fleet: &Fleet, id: &str) -> Vec<Stamped> {
        self.runtime.block_on(fleet.events(id, 0)).unwrap()
    }

    /// Whether a model was sent this text.
    pub(crate) fn model_received(&self, text: &str) -> bool {
        self.models.asked().iter().any(|asked| asked.json.to_string().contains(text))
    }

    /// What the workers printed.
    pub(crate) fn logs(&self) -> String {
        let folders = std::fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        folders.filter_map(|folder| std::fs::read_to_string(folder.join("log")).ok()).collect()
    }

    /// Waits until something is so.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < until, "{what}: not in time\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What the engine itself says of a task's workflow.
impl World {
    fn temporal(&self, arguments: &[&str]) -> String {
        let output = Command::new(self.engine.program())
            .args(arguments)
            .args(["--address", &self.engine.address(), "--output", "json"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Makes a version of a deployment the current one, once its worker is known.
    #[track_caller]
    pub(crate) fn current_version(&self, deployment: &str, build: &str) {
        self.until("the version is known", || {
            Command::new(self.engine.program())
                .args([
                    "worker",
                    "deployment",
                    "set-current-version",
                    "--yes",
                    "--address",
                    &self.engine.address(),
                ])
                .args(["--deployment-name", deployment, "--build-id", build])
                .output()
                .unwrap()
                .status
                .success()
        });
    }

    /// How many times the engine had to wait in vain for a worker to decide what comes next.
    pub(crate) fn decisions_in_vain(&self, task: &str) -> usize {
        self.history(task).matches("EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT").count()
    }

    /// How many runs a task's workflow has had.
    pub(crate) fn runs(&self, task: &str) -> usize {
        let query = format!("WorkflowId = 'rawko-task-{task}'");
        let listed = self.temporal(&["workflow", "list", "--query", &query]);
        serde_json::from_str::<Vec<Value>>(&listed).map_or(0, |runs| runs.len())
    }

    pub(crate) fn history(&self, task: &str) -> String {
        self.temporal(&["workflow", "show", "--workflow-id", &format!("rawko-task-{task}")])
    }

    /// Why a task's workflow failed, as its newest history says.
    pub(crate) fn failure(&self, task: &str) -> String {
        let history: Value = serde_json::from_str(&self.history(task)).unwrap();
        let last = history["events"].as_array().and_then(|events| events.last()).cloned();
        last.unwrap_or_default().to_string()
    }

    /// The bytes of the largest payload in it.
    pub(crate) fn largest_payload(&self, task: &str) -> usize {
        fn largest(value: &Value) -> usize {
            match value {
                // In base64.
                Value::Object(fields) => fields
                    .iter()
                    .map(|(name, value)| match (name.as_str(), value) {
                        ("data", Value::String(text)) => text.len() / 4 * 3,
                        (_, value) => largest(value),
                    })
                    .max()
                    .unwrap_or(0),
                Value::Array(items) => items.iter().map(largest).max().unwrap_or(0),
                _ => 0,
            }
        }
        largest(&serde_json::from_str(&self.history(task)).unwrap())
    }
}
