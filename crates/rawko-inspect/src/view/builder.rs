//! Builds a view while it reads a journal, one record after the other: the same for a session that is over and for one
//! that runs.

use std::collections::HashMap;
use std::path::Path;

use rawko::journal::{JournalHeader, Record};
use rawko_core::machine::State;
use rawko_core::session::{Effect, EffectId, Outcome, TimerPurpose as Timer};
use rawko_core::timeline::{self, Fact, ModelCall, Timeline};
use rawko_core::{Timestamp, Usage};

use super::entry::{Beginning, CallState, EntryKind, SessionEntry};
use super::{AgentView, ExecutionView, FORMAT, PathStep, SessionHead, SessionView, TaskView, ViewLimits};
use crate::text::{Excerpt, plain};

/// Bytes of a task that the head of a view keeps.
const TASK_BYTES: usize = 20_000;
/// Bytes of the summary of an outcome.
const SUMMARY_BYTES: usize = 20_000;

/// A view that is being built.
#[derive(Debug)]
pub struct ViewBuilder {
    pub(super) limits: ViewLimits,
    pub(super) head: SessionHead,
    pub(super) entries: Vec<SessionEntry>,
    timeline: Timeline,
    /// The entries of effects that are not answered.
    pub(super) open: HashMap<EffectId, usize>,
    /// The latest entry of a tool call, by its agent and the provider's id.
    pub(super) calls: HashMap<(String, String), usize>,
    /// What each model call cost.
    pub(super) costs: HashMap<EffectId, Option<f64>>,
    /// The entries of model calls whose tokens are not counted yet: an answer comes before its tokens.
    pub(super) asked: HashMap<EffectId, usize>,
    pub(super) decisions: usize,
    /// The event that is being applied.
    pub(super) now: Now,
}

/// Where in the journal the builder is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Now {
    pub(super) record: u64,
    pub(super) at: Timestamp,
    pub(super) shared: bool,
}

impl ViewBuilder {
    /// Begins the view of a journal with this header.
    #[must_use]
    pub fn new(header: &JournalHeader, limits: ViewLimits) -> Self {
        let head = SessionHead {
            id: header.session.clone(),
            rawko: header.rawko.clone(),
            created_at: header.created_at,
            updated_at: header.created_at,
            records: 0,
            shared_records: 0,
            forked_from: header.forked_from.clone(),
            project: None,
            task: Excerpt::of(&header.task, TASK_BYTES),
            tasks: Vec::new(),
            agents: Vec::new(),
            state: State::Idle,
            path: Vec::new(),
            executions: Vec::new(),
            plan: None,
            outcome: None,
            usage: Usage::default(),
            cost_usd: Some(0.0),
            damage: None,
        };
        Self {
            limits,
            head,
            entries: Vec::new(),
            timeline: Timeline::default(),
            open: HashMap::new(),
            calls: HashMap::new(),
            costs: HashMap::new(),
            asked: HashMap::new(),
            decisions: 0,
            now: Now::default(),
        }
    }

    /// Adds the record with sequence number `seq`.
    pub fn record(&mut self, seq: u64, record: &Record) {
        self.head.records = seq;
        let Record::Event(stamped) = record else {
            if self.now.shared {
                self.head.shared_records = seq;
            }
            return;
        };
        let entries = self.timeline.apply(seq, stamped);
        let shared = entries.first().is_some_and(|entry| entry.shared);
        self.now = Now { record: seq, at: stamped.at, shared };
        if shared {
            self.head.shared_records = seq;
        }
        for timeline::TimelineEntry { fact, .. } in entries {
            self.fact(fact);
        }
        self.head.updated_at = stamped.at;
        self.head.state = self.timeline.session().state();
        if !self.head.state.is_final() {
            self.head.outcome = None;
        }
    }

    /// Says why the rest of the journal cannot be read.
    pub fn damaged(&mut self, what: &str) {
        self.head.damage = Some(plain(what));
    }

    /// What is true of the whole session so far.
    #[must_use]
    pub fn head(&self) -> &SessionHead {
        &self.head
    }

    /// The entries so far.
    #[must_use]
    pub fn entries(&self) -> &[SessionEntry] {
        &self.entries
    }

    /// The entries that a record after `record` began or changed.
    pub fn changed_since(&self, record: u64) -> impl Iterator<Item = &SessionEntry> {
        self.entries.iter().filter(move |entry| entry.changed_by > record)
    }

    /// The whole view.
    #[must_use]
    pub fn into_view(self) -> SessionView {
        SessionView { format: FORMAT, head: self.head, entries: self.entries }
    }

    /// A text of the entry that is added next.
    pub(super) fn text(&self, text: &str) -> Excerpt {
        self.text_of(self.entries.len(), text)
    }

    /// A text of entry `number`.
    pub(super) fn text_of(&self, number: usize, text: &str) -> Excerpt {
        let limit = if self.limits.whole == Some(number) { usize::MAX } else { self.limits.text };
        Excerpt::of(text, limit)
    }

    pub(super) fn add(&mut self, kind: EntryKind) -> usize {
        let number = self.entries.len();
        let execution = self.head.executions.last().map_or(0, |execution| execution.number);
        let Now { record, at, shared } = self.now;
        self.entries.push(SessionEntry { number, record, at, execution, shared, changed_by: record, kind });
        number
    }

    /// The entry `number`, which the present record changes.
    pub(super) fn change(&mut self, number: usize) -> Option<&mut EntryKind> {
        let entry = self.entries.get_mut(number)?;
        entry.changed_by = self.now.record;
        Some(&mut entry.kind)
    }

    pub(super) fn notice(&mut self, warning: bool, text: &str) {
        let text = self.text(text);
        self.add(EntryKind::Notice { warning, text });
    }

    fn begin(&mut self, how: Beginning, task: Option<&str>) {
        if let Some(task) = task {
            let task = Excerpt::of(task, TASK_BYTES);
            self.head.task = task.clone();
            self.head.tasks.push(TaskView { record: self.now.record, at: self.now.at, task });
        }
        let is_new = task.is_some();
        let task = task.map(|task| self.text(task));
        self.add(EntryKind::Task { how, task });
        if is_new {
            self.settle_agents();
        }
    }

    /// Adds what a fact says.
    fn fact(&mut self, fact: Fact) {
        match fact {
            Fact::TaskStarted { task } => self.begin(Beginning::Started, Some(&task)),
            Fact::TaskContinued { task } => self.begin(Beginning::Continued, Some(&task)),
            Fact::TaskTakenUp => self.begin(Beginning::TakenUp, None),
            Fact::SessionResumed => self.begin(Beginning::Resumed, None),
            Fact::CancelRequested { reason } => self.notice(false, &format!("asked to stop: {reason}")),
            Fact::AgentsReloaded => {
                self.notice(false, "the configuration was read again");
                self.settle_agents();
            }
            Fact::RanBeside { sessions } => {
                self.notice(true, &format!("ran beside {} in the same folder", sessions.join(", ")));
            }
            Fact::ModelCalled { call, request: _ } => self.called_model(call),
            Fact::ModelReplied(reply) => self.replied(&reply),
            Fact::ModelFailed { error, call, duration_ms, .. } => self.failed(&call, &error, duration_ms),
            Fact::ModelPaid { call, usage, cost_usd } => self.paid(&call, usage, cost_usd),
            Fact::ToolBegun { effect, agent, call, rule } => {
                if let Some(number) = self.calls.get(&(agent, call.id)).copied() {
                    self.open.insert(effect, number);
                    if let Some(EntryKind::ToolCall { rule: by, .. }) = self.change(number) {
                        *by = plain(&rule);
                    }
                }
            }
            Fact::ToolEnded(end) => {
                self.open.remove(&end.effect);
            }
            Fact::WorkBegun(effect) => self.begun(*effect),
            Fact::WorkEnded { effect, answer } => self.answer(effect, &answer),
            Fact::Abandoned { effect } => {
                if let Some(number) = self.open.remove(&effect) {
                    self.close(number, CallState::Dropped);
                }
            }
            Fact::Waiting { after_ms, purpose, .. } => {
                let seconds = after_ms.div_ceil(1_000);
                let what = match purpose {
                    Timer::Backoff => "after an error",
                    _ => "before the model call is made again",
                };
                self.notice(false, &format!("waits {seconds} s {what}"));
            }
            Fact::Ended(outcome) => self.end(*outcome),
            Fact::Note(note) => self.note(note),
            // A note has the result of the command.
            _ => {}
        }
    }

    fn settle_agents(&mut self) {
        let Some(setup) = self.timeline.session().setup() else { return };
        let agents = setup.agents.iter().map(|(name, agent)| AgentView {
            name: plain(name),
            provider: plain(&agent.model.provider),
            model: plain(&agent.model.model),
        });
        self.head.agents = agents.collect();
        let folder = Path::new(&setup.place.directory).file_name();
        self.head.project = folder.map(|name| plain(&name.to_string_lossy()));
    }

    fn called_model(&mut self, call: ModelCall) {
        let number = self.add(EntryKind::ModelCall {
            purpose: plain(&call.purpose.to_string()),
            provider: plain(&call.provider),
            model: plain(&call.model),
            state: CallState::Open,
            answer: None,
            error: None,
            usage: None,
            cost_usd: None,
            duration_ms: None,
        });
        self.open.insert(call.effect, number);
        self.asked.insert(call.effect, number);
    }

    /// An effect that is neither a model call nor a tool call.
    fn begun(&mut self, effect: Effect) {
        let (id, kind) = match effect {
            Effect::AskUser { id, question } => {
                let kind = EntryKind::Approval {
                    agent: plain(&question.agent),
                    tool: plain(&question.call.name),
                    needs: plain(&question.needs_in_words()),
                    until: question.until,
                    answer: None,
                };
                (id, kind)
            }
            Effect::Verify { id, commands, .. } => {
                let commands = commands.iter().map(|command| plain(command)).collect();
                (id, EntryKind::Verification { commands, result: None })
            }
            _ => return,
        };
        let number = self.add(kind);
        self.open.insert(id, number);
    }

    fn end(&mut self, outcome: Outcome) {
        let words: Vec<&str> = [Some(outcome.summary.as_str()), outcome.agent_summary.as_deref()]
            .into_iter()
            .flatten()
            .collect();
        let words = words.join("\n");
        let summary = self.text(&words);
        self.add(EntryKind::End {
            status: outcome.status,
            summary,
            cost_usd: outcome.cost_usd,
            duration_ms: outcome.duration_ms,
        });
        self.end_execution();
        let summary = Excerpt::of(&words, SUMMARY_BYTES).text;
        let files_modified = outcome.files_modified.iter().map(|path| plain(path)).collect();
        self.head.outcome =
            Some(Outcome { verification: None, summary, agent_summary: None, files_modified, ..outcome });
    }

    pub(super) fn begin_execution(&mut self, agent: &str, number: u32) {
        self.end_execution();
        self.head.executions.push(ExecutionView {
            number,
            agent: plain(agent),
            first_entry: self.entries.len(),
            started_at: self.now.at,
            ended_at: None,
            has_checkpoint: false,
            model_calls: 0,
            tool_calls: 0,
            usage: Usage::default(),
            cost_usd: Some(0.0),
            shared: self.now.shared,
        });
    }

    pub(super) fn end_execution(&mut self) {
        let at = self.now.at;
        if let Some(execution) = self.head.executions.last_mut() {
            execution.ended_at.get_or_insert(at);
        }
    }

    pub(super) fn step(&mut self, step: PathStep) {
        if step.from == State::Executing {
            self.end_execution();
        }
        self.head.path.push(step);
        self.add(EntryKind::State { from: step.from, to: step.to });
    }

    pub(super) fn close(&mut self, number: usize, state_now: CallState) {
        if let Some(EntryKind::ModelCall { state, .. } | EntryKind::ToolCall { state, .. }) =
            self.change(number)
            && *state == CallState::Open
        {
            *state = state_now;
        }
    }
}
