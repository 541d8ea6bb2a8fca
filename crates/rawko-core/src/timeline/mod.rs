//! The timeline of a session: what happened, one entry after another, for whatever shows it to people or counts it. The
//! command line, exports, the inspector, explanations, usage and telemetry read it; none of them folds a session itself.
//!
//! [`Timeline::apply`] takes the events of a journal in their order. An answer in the journal names only the effect that
//! it answers; its entry names the call. Nothing is decided here.

mod fact;

use std::collections::BTreeMap;

use serde::Serialize;

pub use fact::{Fact, ModelCall, ModelReply, ToolCallEnd};

use crate::cost::PriceTable;
use crate::session::{Effect, EffectAnswer, EffectId, Event, Note, Reaction, Session, Stamped, TimerPurpose};
use crate::time::Timestamp;

/// One entry of a timeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimelineEntry {
    /// Sequence number of the journal's record that it comes from.
    pub record: u64,
    /// When it happened.
    pub at: Timestamp,
    /// Whether it belongs to the session that this one is a fork of.
    #[serde(skip)]
    pub shared: bool,
    /// What happened.
    #[serde(flatten)]
    pub fact: Fact,
}

/// A session and what is needed to say what its next event means.
#[derive(Debug, Default)]
pub struct Timeline {
    session: Session,
    prices: PriceTable,
    /// The model calls whose tokens are not counted yet.
    models: BTreeMap<EffectId, ModelCall>,
    /// Agent, id and tool of the calls that run.
    tools: BTreeMap<EffectId, (String, String, String)>,
    /// Events that are still to come which belong to another session.
    shared_events: u64,
}

impl Timeline {
    /// The timeline that goes on after `session`. Answers to what was begun before have no entries.
    #[must_use]
    pub fn after(session: Session) -> Self {
        let mut timeline = Self { session, ..Self::default() };
        timeline.settle_prices();
        timeline
    }

    /// The session after all events so far.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Applies the event of `record`, and gives what it means, in order.
    pub fn apply(&mut self, record: u64, stamped: &Stamped) -> Vec<TimelineEntry> {
        self.step(record, stamped).1
    }

    /// The same, with what the session wants done.
    pub fn step(&mut self, record: u64, stamped: &Stamped) -> (Reaction, Vec<TimelineEntry>) {
        if let Event::TaskStarted { shared_events, .. } = &stamped.event {
            self.shared_events = *shared_events;
        }
        let reaction = self.session.apply(stamped);
        if matches!(
            stamped.event,
            Event::TaskStarted { .. } | Event::TaskContinued { .. } | Event::AgentsReloaded { .. }
        ) {
            self.settle_prices();
        }
        let mut facts: Vec<Fact> = self.happened(&stamped.event, &reaction).into_iter().collect();
        facts.extend(self.led_to(&reaction));
        let shared = self.shared_events > 0;
        self.shared_events = self.shared_events.saturating_sub(1);
        let entries =
            facts.into_iter().map(|fact| TimelineEntry { record, at: stamped.at, shared, fact }).collect();
        (reaction, entries)
    }

    /// What a reaction means.
    pub fn led_to(&mut self, reaction: &Reaction) -> Vec<Fact> {
        let mut facts = Vec::with_capacity(reaction.notes.len() + reaction.effects.len());
        for note in &reaction.notes {
            if let Note::TokensUsed { effect, usage, .. } = note
                && let Some(call) = self.models.remove(effect)
            {
                let cost_usd = self.prices.cost(&call.model, usage);
                facts.push(Fact::ModelPaid { call, usage: *usage, cost_usd });
            }
            facts.push(Fact::Note(note.clone()));
        }
        facts.extend(reaction.effects.iter().filter_map(|effect| self.begun(effect, reaction)));
        facts
    }

    fn settle_prices(&mut self) {
        let prices = self.session.setup().map(|setup| setup.prices.clone()).unwrap_or_default();
        self.prices = PriceTable::with_overrides(prices);
    }

    fn happened(&mut self, event: &Event, reaction: &Reaction) -> Option<Fact> {
        match event {
            Event::TaskStarted { task, .. } => Some(Fact::TaskStarted { task: task.clone() }),
            Event::TaskContinued { task, .. } => Some(Fact::TaskContinued { task: task.clone() }),
            Event::TaskTakenUp { .. } => Some(Fact::TaskTakenUp),
            Event::SessionResumed { .. } => Some(Fact::SessionResumed),
            Event::CancelRequested { reason } => Some(Fact::CancelRequested { reason: reason.clone() }),
            Event::OverrideRequested { command, request: _ } => {
                Some(Fact::OverrideRequested { command: command.clone() })
            }
            Event::AgentsReloaded { .. } => Some(Fact::AgentsReloaded),
            Event::RanBeside { sessions } => Some(Fact::RanBeside { sessions: sessions.clone() }),
            // It completes the outcome, which is an effect.
            Event::FinalTreeInspected { .. } | Event::WorkLanded { .. } => None,
            Event::Answered { .. } if reaction.ignored => None,
            Event::Answered { effect, answer } => self.answered(*effect, answer, reaction),
        }
    }

    fn answered(&mut self, effect: EffectId, answer: &EffectAnswer, reaction: &Reaction) -> Option<Fact> {
        match answer {
            EffectAnswer::ModelReplied { message, usage, stop_reason, duration_ms, cached } => {
                Some(Fact::ModelReplied(Box::new(ModelReply {
                    call: self.models.get(&effect)?.clone(),
                    message: message.clone(),
                    usage: *usage,
                    stop_reason: *stop_reason,
                    duration_ms: *duration_ms,
                    cached: *cached,
                })))
            }
            EffectAnswer::ModelFailed { error, duration_ms, usage } => Some(Fact::ModelFailed {
                error: error.clone(),
                call: self.models.get(&effect)?.clone(),
                usage: *usage,
                duration_ms: *duration_ms,
                is_retried: self.session.waits_to_retry().is_some(),
            }),
            EffectAnswer::ToolFinished { outcome } => {
                let (agent, call_id, tool) = self.tools.remove(&effect)?;
                let is_noted = reaction.notes.iter().any(|note| matches!(note, Note::ToolFinished { .. }));
                let end = ToolCallEnd { effect, agent, call_id, tool, outcome: outcome.clone(), is_noted };
                Some(Fact::ToolEnded(Box::new(end)))
            }
            answer => Some(Fact::WorkEnded { effect, answer: answer.clone() }),
        }
    }

    fn begun(&mut self, effect: &Effect, reaction: &Reaction) -> Option<Fact> {
        match effect {
            Effect::CallModel { id, purpose, provider, model, .. } => {
                let (purpose, provider, model) = (purpose.clone(), provider.clone(), model.clone());
                let call = ModelCall { effect: *id, purpose, provider, model };
                self.models.insert(*id, call.clone());
                let request = reaction.requests.get(id).cloned().map(Box::new);
                Some(Fact::ModelCalled { call, request })
            }
            Effect::RunTool { id, agent, call, rule, .. } => {
                self.tools.insert(*id, (agent.clone(), call.id.clone(), call.name.clone()));
                let (agent, call, rule) = (agent.clone(), call.clone(), rule.clone());
                Some(Fact::ToolBegun { effect: *id, agent, call, rule })
            }
            Effect::StartTimer { id: _, after_ms, purpose } => self.waiting(*after_ms, *purpose),
            Effect::Abandon { id } => {
                self.models.remove(id);
                self.tools.remove(id);
                Some(Fact::Abandoned { effect: *id })
            }
            Effect::Finish { outcome } => Some(Fact::Ended(outcome.clone())),
            work => Some(Fact::WorkBegun(Box::new(work.clone()))),
        }
    }

    /// A pause because of an error. The other timers bound what goes on meanwhile.
    fn waiting(&self, after_ms: u64, purpose: TimerPurpose) -> Option<Fact> {
        let (error, attempt) = match purpose {
            TimerPurpose::Backoff => {
                let context = self.session.context()?;
                (&context.last_error.as_ref()?.error, context.consecutive_failures.saturating_add(1))
            }
            TimerPurpose::Retry => self.session.waits_to_retry()?,
            TimerPurpose::ExecutionDeadline | TimerPurpose::AgentBudget | TimerPurpose::RunDeadline => {
                return None;
            }
        };
        Some(Fact::Waiting { error: error.clone(), attempt, after_ms, purpose })
    }
}
