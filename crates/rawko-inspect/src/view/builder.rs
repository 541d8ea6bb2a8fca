//! Builds a view while it reads a journal, one record after the other: the same for a session that is over and for one
//! that runs.

use std::collections::HashMap;

use rawko::journal::{JournalHeader, Record};
use rawko_core::cost::PriceTable;
use rawko_core::machine::State;
use rawko_core::session::{Effect, EffectId, Event, Outcome, Session, Stamped, TimerPurpose as Timer};
use rawko_core::setup::Setup;
use rawko_core::{Timestamp, Usage};

use super::entry::{Beginning, CallState, Entry, EntryKind};
use super::{AgentView, ExecutionView, FORMAT, PathStep, SessionHead, SessionView, TaskView, ViewLimits};
use crate::text::{Text, plain};

/// Bytes of a task that the head of a view keeps.
const TASK_BYTES: usize = 20_000;
/// Bytes of the summary of an outcome.
const SUMMARY_BYTES: usize = 20_000;

/// A view that is being built.
#[derive(Debug)]
pub struct ViewBuilder {
    pub(super) limits: ViewLimits,
    pub(super) head: SessionHead,
    pub(super) entries: Vec<Entry>,
    pub(super) session: Session,
    pub(super) prices: PriceTable,
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
    shared_events: u64,
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
            task: Text::of(&header.task, TASK_BYTES),
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
            session: Session::new(),
            prices: PriceTable::default(),
            open: HashMap::new(),
            calls: HashMap::new(),
            costs: HashMap::new(),
            asked: HashMap::new(),
            decisions: 0,
            now: Now::default(),
            shared_events: 0,
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
        if let Event::TaskStarted { shared_events, .. } = &stamped.event {
            self.shared_events = *shared_events;
        }
        let shared = self.shared_events > 0;
        self.shared_events = self.shared_events.saturating_sub(1);
        self.now = Now { record: seq, at: stamped.at, shared };
        if shared {
            self.head.shared_records = seq;
        }
        self.event(stamped);
        let reaction = self.session.apply(stamped);
        self.settle_setup(&stamped.event);
        for note in reaction.notes {
            self.note(note);
        }
        for effect in reaction.effects {
            self.effect(effect);
        }
        self.head.updated_at = stamped.at;
        self.head.state = self.session.state();
        if !self.session.state().is_final() {
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
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entries that a record after `record` began or changed.
    pub fn changed_since(&self, record: u64) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.changed_by > record)
    }

    /// The whole view.
    #[must_use]
    pub fn into_view(self) -> SessionView {
        SessionView { format: FORMAT, head: self.head, entries: self.entries }
    }

    /// A text of the entry that is added next.
    pub(super) fn text(&self, text: &str) -> Text {
        self.text_of(self.entries.len(), text)
    }

    /// A text of entry `number`.
    pub(super) fn text_of(&self, number: usize, text: &str) -> Text {
        let limit = if self.limits.whole == Some(number) { usize::MAX } else { self.limits.text };
        Text::of(text, limit)
    }

    pub(super) fn add(&mut self, kind: EntryKind) -> usize {
        let number = self.entries.len();
        let execution = self.head.executions.last().map_or(0, |execution| execution.number);
        let Now { record, at, shared } = self.now;
        self.entries.push(Entry { number, record, at, execution, shared, changed_by: record, kind });
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
            let task = Text::of(task, TASK_BYTES);
            self.head.task = task.clone();
            self.head.tasks.push(TaskView { record: self.now.record, at: self.now.at, task });
            self.head.plan = None;
        }
        let task = task.map(|task| self.text(task));
        self.add(EntryKind::Task { how, task });
    }

    /// What an event tells before it is applied.
    fn event(&mut self, stamped: &Stamped) {
        match &stamped.event {
            Event::TaskStarted { task, .. } => self.begin(Beginning::Started, Some(task)),
            Event::TaskContinued { task, .. } => self.begin(Beginning::Continued, Some(task)),
            Event::TaskTakenUp { .. } => self.begin(Beginning::TakenUp, None),
            Event::SessionResumed { .. } => self.begin(Beginning::Resumed, None),
            Event::CancelRequested { reason } => self.notice(false, &format!("asked to stop: {reason}")),
            Event::AgentsReloaded { .. } => self.notice(false, "the configuration was read again"),
            Event::RanBeside { sessions } => {
                self.notice(true, &format!("ran beside {} in the same folder", sessions.join(", ")));
            }
            // A note tells of the command.
            Event::FinalTreeInspected { .. } | Event::OverrideRequested { .. } => {}
            Event::Answered { effect, answer } => self.answer(*effect, answer),
        }
    }

    /// Agents and prices, where the event changed the setup.
    fn settle_setup(&mut self, event: &Event) {
        let is_new = matches!(
            event,
            Event::TaskStarted { .. } | Event::TaskContinued { .. } | Event::AgentsReloaded { .. }
        );
        let Some(Setup { agents, prices, .. }) = self.session.setup().filter(|_| is_new) else { return };
        self.prices = PriceTable::with_overrides(prices.clone());
        let agents = agents.iter().map(|(name, agent)| AgentView {
            name: plain(name),
            provider: plain(&agent.model.provider),
            model: plain(&agent.model.model),
        });
        self.head.agents = agents.collect();
    }

    /// What is to be done now.
    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::CallModel { id, purpose, provider, model, .. } => {
                let number = self.add(EntryKind::ModelCall {
                    purpose: plain(&purpose.to_string()),
                    provider: plain(&provider),
                    model: plain(&model),
                    state: CallState::Open,
                    answer: None,
                    error: None,
                    usage: None,
                    cost_usd: None,
                    duration_ms: None,
                });
                self.open.insert(id, number);
                self.asked.insert(id, number);
            }
            Effect::RunTool { id, agent, call, rule, .. } => {
                if let Some(number) = self.calls.get(&(agent, call.id)).copied() {
                    self.open.insert(id, number);
                    if let Some(EntryKind::ToolCall { rule: by, .. }) = self.change(number) {
                        *by = plain(&rule);
                    }
                }
            }
            Effect::AskUser { id, question } => {
                let number = self.add(EntryKind::Approval {
                    agent: plain(&question.agent),
                    tool: plain(&question.call.name),
                    needs: plain(&question.needs_in_words()),
                    until: question.until,
                    answer: None,
                });
                self.open.insert(id, number);
            }
            Effect::Verify { id, commands, .. } => {
                let commands = commands.iter().map(|command| plain(command)).collect();
                let number = self.add(EntryKind::Verification { commands, result: None });
                self.open.insert(id, number);
            }
            Effect::Abandon { id } => {
                if let Some(number) = self.open.remove(&id) {
                    self.close(number, CallState::Dropped);
                }
            }
            Effect::Finish { outcome } => self.end(*outcome),
            Effect::StartTimer { after_ms, purpose, .. } => {
                let seconds = after_ms.div_ceil(1_000);
                match purpose {
                    Timer::Backoff => self.notice(false, &format!("waits {seconds} s after an error")),
                    Timer::Retry => {
                        self.notice(false, &format!("waits {seconds} s before the model call is made again"));
                    }
                    Timer::ExecutionDeadline | Timer::AgentBudget | Timer::RunDeadline => {}
                }
            }
            Effect::TakeCheckpoint { .. }
            | Effect::Recall { .. }
            | Effect::Remember { .. }
            | Effect::InspectTree { .. } => {}
        }
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
        let summary = Text::of(&words, SUMMARY_BYTES).text;
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
