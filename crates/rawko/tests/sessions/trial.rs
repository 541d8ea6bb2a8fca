//! A project with a scripted model and two tools that count, and the session that most tests here begin with.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rawko::journal::{Journal, Record, SessionStore, fold, read};
use rawko::tools::{BoxFuture, Tool, ToolContext};
use rawko::{Outcome, Rawko, RawkoBuilder};
use rawko_core::machine::State;
use rawko_core::session::{EffectAnswer, Event};
use rawko_core::tool::{ToolAccess, ToolOutcome, ToolSpec};
use serde_json::{Value, json};

use crate::scripted;
pub(crate) use crate::scripted::{complete, evaluate, finish, select};

/// What the counting tools did, in order.
pub(crate) type Log = Arc<Mutex<Vec<String>>>;

/// A tool that does nothing but be counted.
struct Count {
    spec: ToolSpec,
    log: Log,
}

impl Tool for Count {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, input: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        let line = input["line"].as_str().unwrap_or_default().to_owned();
        self.log.lock().unwrap().push(format!("{} {line}", self.spec.name));
        Box::pin(async move { ToolOutcome::ok(format!("counted {line}")) })
    }
}

fn count(name: &str, access: ToolAccess, log: &Log) -> Arc<dyn Tool> {
    let spec = ToolSpec {
        name: name.to_owned(),
        description: "Counts.".to_owned(),
        input_schema: json!({"type": "object"}),
        access,
    };
    Arc::new(Count { spec, log: Arc::clone(log) })
}

/// A project.
pub(crate) struct Trial {
    folder: tempfile::TempDir,
    pub(crate) log: Log,
    pub(crate) script: Value,
}

impl Trial {
    /// One in which two agents work: `Look` only reads, `Append` changes something.
    pub(crate) fn new() -> Self {
        Self::with(whole_script())
    }

    pub(crate) fn with(script: Value) -> Self {
        let trial = Self { folder: tempfile::tempdir().unwrap(), log: Log::default(), script };
        trial.write(
            ".rawko/agents/worker.yaml",
            "name: worker\nsystemPrompt: You work.\ntools: {blocked: [Grep]}\n",
        );
        trial.write(".rawko/agents/checker.yaml", "name: checker\nsystemPrompt: You check.\n");
        trial.write("a.txt", "first\n");
        trial
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        scripted::write(self.path(), name, text);
    }

    pub(crate) fn builder(&self) -> RawkoBuilder {
        scripted::builder(self.path(), &self.script)
            .trusted(true)
            .tool(count("Look", ToolAccess::ReadOnly, &self.log))
            .tool(count("Append", ToolAccess::Mutating, &self.log))
    }

    pub(crate) fn rawko(&self) -> Rawko {
        self.builder().build().unwrap()
    }

    pub(crate) fn store(&self) -> SessionStore {
        SessionStore::of_project(self.path())
    }

    pub(crate) fn journal(&self) -> Journal {
        scripted::journal_of(self.path())
    }

    pub(crate) fn journal_of(&self, id: &str) -> Journal {
        read(&self.store().find(id).unwrap()).unwrap()
    }

    /// The task's run, from beginning to end.
    pub(crate) async fn run(&self) -> Outcome {
        self.rawko().run("do it").unwrap().await.unwrap()
    }

    /// The same project with the same session, as it was after `records` records; nothing is counted yet.
    pub(crate) fn cut(&self, records: usize) -> Self {
        let from = self.store().find("last").unwrap();
        let other = Self::with(self.script.clone());
        let folder = other.store().folder().join(from.parent().unwrap().file_name().unwrap());
        std::fs::create_dir_all(&folder).unwrap();
        let text = std::fs::read_to_string(from).unwrap();
        let kept: String = text.split_inclusive('\n').take(records + 1).collect();
        std::fs::write(folder.join("journal.jsonl"), kept).unwrap();
        other
    }

    pub(crate) fn logged(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

/// What must hold for every journal: it leads to what it recorded.
#[track_caller]
pub(crate) fn check_replay(journal: &Journal) {
    let replay = rawko::replay(journal);
    assert_eq!(replay.difference, None);
    assert_eq!(replay.state, fold(journal).session.state());
}

pub(crate) fn state(journal: &Journal) -> State {
    fold(journal).session.state()
}

pub(crate) fn events(journal: &Journal) -> impl Iterator<Item = &Event> {
    journal.records.iter().filter_map(|record| match record {
        Record::Event(stamped) => Some(&stamped.event),
        Record::Step(_) => None,
    })
}

pub(crate) fn answers_of_models(journal: &Journal) -> usize {
    events(journal)
        .filter(|event| matches!(event, Event::Answered { answer: EffectAnswer::ModelReplied { .. }, .. }))
        .count()
}

pub(crate) fn calls(agent: &str, calls: &[(&str, Value)]) -> Value {
    let tools: Vec<Value> = calls.iter().map(|(name, input)| json!({"name": name, "input": input})).collect();
    json!({"for": agent, "text": "I go on.", "tools": tools})
}

pub(crate) fn report(agent: &str) -> Value {
    calls(agent, &[("Report", json!({"outcome": "success", "summary": "did it"}))])
}

fn line(text: &str) -> Value {
    json!({ "line": text })
}

/// An unusable answer, calls side by side and alone, a denied one, a plan, two agents.
fn whole_script() -> Value {
    json!([
        select("nobody"),
        select("worker"),
        calls("worker", &[("UpdatePlan", json!({"steps": [{"description": "work"}]}))]),
        calls(
            "worker",
            &[("Look", line("1")), ("Look", line("2")), ("Append", line("3")), ("Look", line("4"))]
        ),
        calls("worker", &[("Grep", json!({"pattern": "x"})), ("Append", line("5"))]),
        report("worker"),
        evaluate(json!({"decision": "SELECT_MODE", "mode": "checker", "reason": "to be checked"})),
        calls("checker", &[("Look", line("6"))]),
        calls("checker", &[("Append", line("7"))]),
        report("checker"),
        complete(),
    ])
}

/// Carries works out side by side, each on a thread and a runtime of its own: they mostly wait for the disk.
pub(crate) fn side_by_side<W: Future<Output = ()> + Send>(works: Vec<W>) {
    std::thread::scope(|scope| {
        for work in works {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(work);
            });
        }
    });
}

/// Where the journal of the latest session is.
pub(crate) fn last_path(trial: &Trial) -> PathBuf {
    trial.store().find("last").unwrap()
}
