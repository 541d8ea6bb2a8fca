//! A run's dealings with the memory of its project: choosing what an execution is told, keeping what it learned,
//! noting what helped. What is chosen and why is `rawko_core::memory`'s; files are `memory`'s.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rawko_core::Timestamp;
use rawko_core::agent::Importance;
use rawko_core::memory::{Draft, MemoryUse, Query, Recalled, RecalledMemory, Recipient, Use};
use rawko_core::session::{EffectId, Event, KeptMemory};
use rawko_core::setup::AgentSetup;
use rawko_core::text::truncate;

use crate::driver::{Signal, Signals, now};
use crate::memory::{LazyMeaning, MemoryStore, NewMemory, RecallOptions, WriteError, cite};

/// Most problems with memories that one recall tells: `rawko memory check` tells all.
const MAX_PROBLEMS: usize = 3;
/// Characters of the task that a memory names as where it was learned.
const TASK_CHARS: usize = 200;

/// Where something was learned.
pub(crate) struct Source {
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
    meaning: Option<LazyMeaning>,
}

impl RunMemory {
    pub(crate) fn new(
        project: PathBuf,
        session: String,
        task: String,
        defaults: (u32, Importance),
        agents: &BTreeMap<String, AgentSetup>,
        meaning: Option<LazyMeaning>,
        dry_run: bool,
    ) -> Arc<Self> {
        let store = MemoryStore::of_project(&project);
        let store = if dry_run { store.without_caches() } else { store };
        let memory = Self { project, store, session, task, defaults, recipients: Mutex::default(), meaning };
        memory.tell(agents);
        Arc::new(memory)
    }

    /// Who is told, from now on.
    pub(crate) fn tell(&self, agents: &BTreeMap<String, AgentSetup>) {
        let (max, minimum) = self.defaults;
        let of = |(name, agent): (&String, &AgentSetup)| {
            (name.clone(), Recipient::of(&agent.config, max, minimum))
        };
        *self.recipients.lock().unwrap_or_else(PoisonError::into_inner) = agents.iter().map(of).collect();
    }

    /// Chooses what an execution is told, and reports.
    pub(crate) async fn recall(
        self: Arc<Self>,
        effect: EffectId,
        agent: String,
        plan: Option<String>,
        history: Option<String>,
        signals: Signals,
    ) {
        let chosen =
            tokio::task::spawn_blocking(move || self.choose(&agent, plan.as_deref(), history.as_deref()));
        let recalled = chosen.await.unwrap_or_else(|error| Recalled {
            problems: vec![format!("the memories could not be searched: {error}")],
            ..Recalled::default()
        });
        let _ = signals.send(Signal::Happened(Event::MemoriesRecalled { effect, recalled }));
    }

    fn choose(&self, agent: &str, plan: Option<&str>, history: Option<&str>) -> Recalled {
        let recipients = self.recipients.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(recipient) = recipients.get(agent).cloned() else { return Recalled::default() };
        drop(recipients);
        let query = Query::new(&self.task, agent, plan, history);
        let now = now();
        let near = self.meaning.as_ref().map(|meaning| meaning.near(&self.store, &self.task, now));
        let (semantic, reports) = near.unwrap_or_default();
        let mut recall = self.store.recall(&query, &recipient, &RecallOptions { now, semantic });
        recall.reports.splice(..0, reports);
        let memories = recall.selection.chosen.iter().map(|one| RecalledMemory {
            path: one.memory.path.clone(),
            title: one.memory.header.title.clone(),
            score: one.score.total,
            files: one
                .memory
                .header
                .paths
                .iter()
                .chain(one.memory.header.files.iter().map(|file| &file.path))
                .cloned()
                .collect(),
        });
        let more = recall.reports.len().saturating_sub(MAX_PROBLEMS);
        let mut problems: Vec<String> =
            recall.reports.iter().take(MAX_PROBLEMS).map(ToString::to_string).collect();
        if more > 0 {
            problems.push(format!("{more} more problems with memories: rawko memory check"));
        }
        Recalled { block: recall.block, memories: memories.collect(), problems }
    }

    /// Keeps what was learned, and reports what became of it.
    pub(crate) async fn remember(
        self: Arc<Self>,
        effect: EffectId,
        draft: Draft,
        source: Source,
        signals: Signals,
    ) {
        let kept = tokio::task::spawn_blocking(move || self.keep(draft, source)).await;
        let kept = kept.unwrap_or_else(|error| KeptMemory::Refused { message: error.to_string() });
        let _ = signals.send(Signal::Happened(Event::MemoryKept { effect, kept }));
    }

    fn keep(&self, draft: Draft, source: Source) -> KeptMemory {
        let at = now();
        let note = self.seen_again(&source, at);
        let Source { agent, iteration: _, files, records } = source;
        let Draft { learned: _, title, when_to_use, importance, kind, tags, paths, body } = draft;
        let new = NewMemory {
            importance,
            kind: kind.into(),
            discovered_in: Some(truncate(&self.task, TASK_CHARS)),
            tags,
            paths,
            files: files.iter().filter_map(|file| cite(&self.project, file)).collect(),
            session: Some(self.session.clone()),
            records,
            body,
            ..NewMemory::new(&title, when_to_use, &agent, at)
        };
        match self.store.add(&new, false) {
            Ok(path) => KeptMemory::Written { path },
            Err(WriteError::Duplicate { path, .. }) => match self.store.note(&path, &note) {
                Ok(_) => KeptMemory::NotedOn { path },
                Err(error) => KeptMemory::Refused { message: error.to_string() },
            },
            Err(error) => KeptMemory::Refused { message: error.to_string() },
        }
    }

    fn seen_again(&self, source: &Source, at: Timestamp) -> String {
        let Source { agent, iteration, files: _, records } = source;
        let records = records.iter().map(u64::to_string).collect::<Vec<_>>().join(" to ");
        let session = &self.session;
        format!("{} by {agent}, session {session}, execution {iteration}, records {records}", at.to_rfc3339())
    }

    /// Notes what became of the memories that an execution was given. What cannot be written is not worth a run.
    pub(crate) fn record(&self, agent: &str, iteration: u32, uses: &[MemoryUse]) -> Result<(), WriteError> {
        let at = now();
        let uses: Vec<Use> = uses
            .iter()
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
