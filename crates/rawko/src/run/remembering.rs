//! How a run uses its project's memories: it chooses what an execution gets, keeps what it learned, and notes what
//! helped. `rawko_core::memory` decides what is chosen and why; `memory` handles the files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rawko_core::Timestamp;
use rawko_core::agent::Importance;
use rawko_core::memory::{
    Confirmation, Draft, Header, MemoryUse, Pattern, Query, Recalled, RecalledMemory, Recipient, Use,
    holds_token,
};
use rawko_core::session::{EffectAnswer, KeptMemory};
use rawko_core::setup::AgentSetup;
use rawko_core::text::truncate;

use crate::clock::now;
use crate::memory::{Learned, MemoryStore, NewMemory, OF_USER, RecallOptions, Report, WriteError, cite};

/// Most problems with memories that one recall reports, without those reported before: `rawko memory check` prints all.
const MAX_PROBLEMS: usize = 3;
/// How long a run waits for another writer: what was learned is not worth a run's time.
const PATIENCE: Duration = Duration::from_secs(2);
/// Characters of the task that a memory names as where it was learned.
const TASK_CHARS: usize = 200;

/// Where something was learned.
pub(crate) struct MemoryOrigin {
    pub(crate) agent: String,
    pub(crate) iteration: u32,
    pub(crate) files: Vec<String>,
    /// The first and the last record of the journal that it was learned from.
    pub(crate) records: Vec<u64>,
}

/// The memory of a run's project.
pub(crate) struct RunMemory {
    project: PathBuf,
    store: MemoryStore,
    session: String,
    task: String,
    defaults: (u32, Importance),
    recipients: Mutex<BTreeMap<String, Recipient>>,
    /// Problems that the run has reported: once is enough.
    reported: Mutex<BTreeSet<String>>,
}

impl RunMemory {
    pub(crate) fn new(
        (project, store): (PathBuf, MemoryStore),
        session: String,
        task: String,
        defaults: (u32, Importance),
        agents: &BTreeMap<String, AgentSetup>,
    ) -> Arc<Self> {
        let store = store.with_patience(PATIENCE);
        let (recipients, reported) = (Mutex::default(), Mutex::default());
        let memory = Self { project, store, session, task, defaults, recipients, reported };
        memory.set_recipients(agents);
        Arc::new(memory)
    }

    /// The agents that are given memories, from now on.
    pub(crate) fn set_recipients(&self, agents: &BTreeMap<String, AgentSetup>) {
        let (max, minimum) = self.defaults;
        let of = |(name, agent): (&String, &AgentSetup)| {
            (name.clone(), Recipient::of(&agent.config, max, minimum))
        };
        *self.recipients.lock().unwrap_or_else(PoisonError::into_inner) = agents.iter().map(of).collect();
    }

    /// Chooses what an execution is given, and reports.
    pub(crate) async fn recall(
        self: Arc<Self>,
        agent: String,
        task: String,
        step: Option<String>,
    ) -> EffectAnswer {
        let chosen = rawko_tools::on_thread(move || self.choose(&agent, &task, step.as_deref()));
        let recalled = chosen.await.unwrap_or_else(|error| Recalled {
            problems: vec![format!("the memories could not be searched: {error}")],
            ..Recalled::default()
        });
        EffectAnswer::MemoriesRecalled { recalled }
    }

    fn choose(&self, agent: &str, task: &str, step: Option<&str>) -> Recalled {
        let recipients = self.recipients.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(recipient) = recipients.get(agent).cloned() else {
            return Recalled::default();
        };
        drop(recipients);
        let query = Query::new(task, agent, step);
        let recall = self.store.recall(&query, &recipient, &RecallOptions { now: now() });
        let memories = recall.selection.chosen.iter().map(|one| RecalledMemory {
            path: one.memory.path.clone(),
            title: one.memory.header.title.clone(),
            score: one.score.total,
            files: files_of(&one.memory.header),
        });
        let problems = self.unreported(recall.reports.iter().map(Report::line));
        let unmet = recall.selection.unmet;
        Recalled { block: recall.block, memories: memories.collect(), unmet, problems }
    }

    /// Those of these problems that the run has not reported, and how many more there are.
    fn unreported(&self, problems: impl Iterator<Item = String>) -> Vec<String> {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new: Vec<String> = problems.filter(|problem| reported.insert(problem.clone())).collect();
        let more = new.len().saturating_sub(MAX_PROBLEMS);
        new.truncate(MAX_PROBLEMS);
        if more > 0 {
            new.push(format!("{more} more problems with memories: rawko memory check"));
        }
        new
    }

    /// Keeps what was learned, and reports what became of it.
    pub(crate) async fn remember(self: Arc<Self>, draft: Draft, source: MemoryOrigin) -> EffectAnswer {
        let kept = rawko_tools::on_thread(move || self.keep(draft, source)).await;
        let kept = kept.unwrap_or_else(|error| KeptMemory::Refused { message: error.to_string() });
        EffectAnswer::MemoryKept { kept }
    }

    fn keep(&self, draft: Draft, source: MemoryOrigin) -> KeptMemory {
        let at = now();
        let note = self.seen_again(&source, at);
        let MemoryOrigin { agent, iteration: _, files, records } = source;
        let Draft { learned: _, title, when_to_use, importance, kind, tags, paths, body } = draft;
        // One that is given whatever the task is takes the place of those that belong to it.
        let (useless, when_to_use): (Vec<_>, Vec<_>) =
            when_to_use.into_iter().partition(|text| Pattern::read(text).tells_nothing());
        if when_to_use.is_empty() {
            let message = format!("its patterns match everything or nothing: {}", useless.join(", "));
            return KeptMemory::Refused { message };
        }
        let said = [&title, &body].into_iter().chain(&when_to_use).chain(&tags).chain(&paths);
        if said.into_iter().any(|text| holds_token(text)) {
            let message = "it holds what looks like a key or a token".to_owned();
            return KeptMemory::Refused { message };
        }
        let new = NewMemory {
            importance: importance.min(Importance::High),
            kind: kind.into(),
            status: Confirmation::Proposed,
            discovered_in: Some(truncate(&self.task, TASK_CHARS)),
            tags,
            paths: paths.into_iter().filter(|path| is_inside(path)).collect(),
            files: files.iter().filter_map(|file| cite(&self.project, file)).collect(),
            session: Some(self.session.clone()),
            records,
            body,
            ..NewMemory::new(&title, when_to_use, &agent, at)
        };
        match self.store.learn(&new, &note) {
            Ok(Learned::Written { path }) => KeptMemory::Written { path },
            Ok(Learned::NotedOn { path }) => KeptMemory::NotedOn { path },
            Err(error) => KeptMemory::Refused { message: error.to_string() },
        }
    }

    fn seen_again(&self, source: &MemoryOrigin, at: Timestamp) -> String {
        let MemoryOrigin { agent, iteration, files: _, records } = source;
        let records = records.iter().map(u64::to_string).collect::<Vec<_>>().join(" to ");
        let session = &self.session;
        format!("{} by {agent}, session {session}, execution {iteration}, records {records}", at.to_rfc3339())
    }

    /// Notes what became of the memories that an execution was given. A failure to write them is not worth a run.
    pub(crate) fn record(&self, agent: &str, iteration: u32, uses: &[MemoryUse]) -> Result<(), WriteError> {
        let at = now();
        // A run writes nothing beside the user's own memories, nor of them into a project.
        let uses = uses.iter().filter(|one| !one.path.starts_with(OF_USER));
        let uses: Vec<Use> = uses
            .map(|one| Use {
                session: self.session.clone(),
                iteration,
                agent: agent.to_owned(),
                memory: one.path.clone(),
                cited: one.cited,
                touched: one.touched,
                outcome: one.outcome,
                at,
            })
            .collect();
        self.store.record_uses(&uses)
    }
}

/// Whether a path or glob stays in the project.
fn is_inside(path: &str) -> bool {
    let path = path.trim();
    !path.starts_with(['/', '~', '\\']) && !path.split(['/', '\\']).any(|part| part == "..")
}

/// The paths and globs that a memory speaks of, each once.
fn files_of(header: &Header) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    for file in header.paths.iter().chain(header.files.iter().map(|file| &file.path)) {
        if !files.contains(file) {
            files.push(file.clone());
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use serde_json::json;

    fn run_memory(project: &Path) -> Arc<RunMemory> {
        let (session, task, defaults) = ("s1".to_owned(), "Fix the tests".to_owned(), (5, Importance::Low));
        let store = MemoryStore::of_project(project);
        RunMemory::new((project.to_owned(), store), session, task, defaults, &BTreeMap::new())
    }

    #[test]
    fn what_says_otherwise_is_kept_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let memory = run_memory(dir.path());
        std::fs::write(dir.path().join("ports.txt"), "7070").unwrap();
        let keep = |title: &str, body: &str, kind: &str| {
            let draft = json!({"learned": true, "title": title, "whenToUse": ["testing"], "body": body, "kind": kind});
            let draft = serde_json::from_value(draft).unwrap();
            let files = vec!["ports.txt".to_owned()];
            memory.keep(
                draft,
                MemoryOrigin { agent: "tester".into(), iteration: 1, files, records: vec![3, 9] },
            )
        };
        let written = |path: &str| KeptMemory::Written { path: path.to_owned() };
        let title = "The integration tests need a port";
        let first = "The integration tests start a server on port 7070; the demo must not be running.";
        assert_eq!(keep(title, first, "fact"), written("the-integration-tests-need-a-port.md"));
        // Said in other words, it becomes a note, which makes it no other memory.
        let again = "Integration tests start a server on port 7070, and the demo must not be running then.";
        for _ in 0..3 {
            let noted = KeptMemory::NotedOn { path: "the-integration-tests-need-a-port.md".to_owned() };
            assert_eq!(keep("The integration tests needed a port", again, "fact"), noted);
        }
        let other = "The integration tests start a server on port 8080; the demo must not be running.";
        assert_eq!(
            keep("Integration tests need the port", other, "fact"),
            written("integration-tests-need-the-port.md")
        );
        assert_eq!(keep(title, first, "avoid"), written("the-integration-tests-need-a-port-2.md"));
        let found = memory.store.find("integration-tests-need-the-port.md");
        assert_eq!(found[0].header.conflicts_with, ["the-integration-tests-need-a-port.md"]);
        assert_eq!(found[0].header.files[0].path, "ports.txt");
        // A person took it back: the next run that finds it out again does not restore it.
        memory.store.retire("the-integration-tests-need-a-port.md", now()).unwrap();
        let noted = KeptMemory::NotedOn { path: "the-integration-tests-need-a-port.md".to_owned() };
        assert_eq!(keep(title, first, "fact"), noted);
    }

    #[test]
    fn what_a_run_learned_is_proposed_and_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let memory = run_memory(dir.path());
        let keep = |body: &str| {
            let draft = json!({
                "learned": true, "title": "Deploying", "whenToUse": ["deploying"], "body": body, "importance": "critical",
                "paths": ["src/**", "../other/**", "/etc/passwd", "~/.ssh/*", "a/../../b"],
            });
            let draft = serde_json::from_value(draft).unwrap();
            memory
                .keep(draft, MemoryOrigin { agent: "a".into(), iteration: 1, files: vec![], records: vec![] })
        };
        let secret = format!("Set the token to ghp_{}.", "aB3".repeat(12));
        let KeptMemory::Refused { message } = keep(&secret) else { panic!("a secret was kept") };
        assert_eq!(message, "it holds what looks like a key or a token");
        assert_eq!(keep("Ask the on-call engineer."), KeptMemory::Written { path: "deploying.md".into() });
        let header = &memory.store.find("deploying.md")[0].header;
        assert_eq!((header.status, header.importance), (Confirmation::Proposed, Importance::High));
        assert_eq!(header.paths, ["src/**"]);
    }

    #[test]
    fn a_file_is_named_once() {
        let files =
            json!([{"path": "a.rs", "sha256": "0".repeat(64)}, {"path": "b.rs", "sha256": "0".repeat(64)}]);
        let front = json!({"title": "t", "whenToUse": "x", "paths": ["src/**", "a.rs"], "files": files});
        assert_eq!(files_of(&Header::read(&front).0.unwrap()), ["src/**", "a.rs", "b.rs"]);
    }

    #[test]
    fn what_would_always_be_given_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let memory = run_memory(dir.path());
        let keep = |title: &str, when: &[&str]| {
            let draft = json!({"learned": true, "title": title, "whenToUse": when, "body": title});
            let draft = serde_json::from_value(draft).unwrap();
            let source = MemoryOrigin { agent: "a".into(), iteration: 1, files: vec![], records: vec![] };
            memory.keep(draft, source)
        };
        let KeptMemory::Refused { message } = keep("One", &[".*", "costs $5"]) else { panic!("it was kept") };
        assert_eq!(message, "its patterns match everything or nothing: .*, costs $5");
        assert!(memory.store.inventory().memories.is_empty());
        assert_eq!(
            keep("Two", &["*", "auth|costs $5", "login"]),
            KeptMemory::Written { path: "two.md".into() }
        );
        assert_eq!(memory.store.find("two.md")[0].header.when_to_use, ["auth|costs $5", "login"]);
    }
}
