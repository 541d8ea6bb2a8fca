//! What a fork takes over from another session: the events of both are folded side by side.
//!
//! The new journal is written from the fork's own fold, so that it says what follows from its setup. An answer is taken
//! over as long as the fork asks for it; at the first that nothing in the fork asks for, taking over stops.

use std::collections::BTreeMap;

use rawko_core::session::{Effect, EffectId, Event, Session, Shared, Stamped};
use rawko_core::setup::Setup;

use super::Stopped;
use crate::journal::{Divergence, Folding, JournalError, JournalWriter, Record, StepRecord};

/// The two runs side by side: the old one, and the fork.
#[derive(Default)]
pub(super) struct ForkReplay {
    pub(super) old: Folding,
    pub(super) fork: Session,
    /// Effects of the old run, and the effect of the fork that asks for the same, where there is one.
    asked: BTreeMap<EffectId, (Effect, Option<EffectId>)>,
    pub(super) taken: Taken,
}

/// What is taken over.
#[derive(Default)]
pub(super) struct Taken {
    events: Vec<TakenEvent>,
    /// Sequence number of the last record that is shared.
    pub(super) last: u64,
    pub(super) stopped: Option<Stopped>,
}

struct TakenEvent {
    seq: u64,
    event: Stamped,
    /// Whether what it leads to was begun within the shared records.
    begun: bool,
}

impl ForkReplay {
    /// Compares the consequences of the latest event, which are shared too.
    pub(super) fn step(&mut self, seq: u64, recorded: &Record) -> Result<(), Divergence> {
        self.taken.last = seq;
        self.old.record(recorded)
    }

    /// Takes an event over, if something in the fork asks for it. Else taking over stops.
    pub(super) fn event(&mut self, seq: u64, recorded: &Record, event: Stamped) -> Result<(), Divergence> {
        let Stamped { at, event } = event;
        self.old.record(recorded)?;
        let event = match self.translated(event) {
            Ok(event) => event,
            Err(why) => {
                self.taken.stopped = Some(Stopped { record: seq, why });
                return Ok(());
            }
        };
        let was = self.old.last();
        let stamped = Stamped { at, event };
        let is = self.fork.apply(&stamped);
        if is.ignored && !was.ignored {
            let why =
                format!("{} has no meaning in the fork's state {}", stamped.event.name(), self.fork.state());
            self.taken.stopped = Some(Stopped { record: seq, why });
            return Ok(());
        }
        let mut unmatched: Vec<&Effect> = is.effects.iter().collect();
        let waits = is.effects.iter().any(|effect| effect.awaits_answer().is_some());
        let mut begun = false;
        for effect in &was.effects {
            let Some(id) = effect.awaits_answer() else { continue };
            let same = unmatched.iter().position(|other| ask_the_same(effect, other));
            let other = same.and_then(|at| unmatched.remove(at).awaits_answer());
            begun |= other.is_some();
            self.asked.insert(id, (effect.clone(), other));
        }
        self.taken.last = seq;
        self.taken.events.push(TakenEvent { seq, event: stamped, begun: begun || !waits });
        Ok(())
    }

    /// The event with the fork's number of the effect that it answers.
    fn translated(&mut self, event: Event) -> Result<Event, String> {
        let Some(effect) = event.answers() else { return Ok(event) };
        match self.asked.remove(&effect) {
            // An answer that came too late, and meant nothing: it means nothing in the fork.
            None => Ok(event),
            Some((_, Some(id))) => Ok(answering(event, id)),
            Some((asked, None)) => {
                Err(format!("{} answers {}, which the fork does not ask for", event.name(), words(&asked)))
            }
        }
    }

    /// What was taken over until now, up to record `last` at most. What it used was the other session's, and the fork says so.
    pub(super) fn end(mut self, last: u64) -> Taken {
        self.taken.events.retain(|taken| taken.seq <= last);
        self.taken.last = self.taken.last.min(last);
        let _ = self.taken.stopped.take_if(|stopped| stopped.record > last);
        let events = self.taken.events.len() as u64;
        if let Some(first) = self.taken.events.first_mut()
            && let Event::TaskStarted { shared_events, .. } = &mut first.event.event
        {
            *shared_events = events;
        }
        self.taken
    }
}

impl Taken {
    /// A beginning of its own: `event`, made of what the other session had at record `last`. Nothing has come of it yet.
    pub(super) fn anew(event: Stamped, last: u64) -> Self {
        let first = TakenEvent { seq: last, event, begun: false };
        Self { events: vec![first], last, ..Self::default() }
    }

    /// The task and the setup that the fork begins with; nothing where no record is shared.
    pub(super) fn beginning(&self) -> Option<(&str, &Setup)> {
        match &self.events.first()?.event.event {
            Event::TaskStarted { task, setup, .. } => Some((task, setup)),
            _ => None,
        }
    }

    /// The last event that was more than a look at what had ended.
    pub(super) fn end(&self) -> u64 {
        let is_look = |taken: &&TakenEvent| matches!(taken.event.event, Event::FinalTreeInspected { .. });
        self.events.iter().rev().find(|taken| !is_look(taken)).map_or(0, |taken| taken.seq)
    }

    /// Writes the events, and what they lead to in the fork. Returns what the fork shares with the other session: a task that
    /// ended within the shared records has cost the fork nothing.
    pub(super) fn write(&self, writer: &mut JournalWriter) -> Result<Option<Shared>, JournalError> {
        let mut session = Session::new();
        let mut events = self.events.iter().peekable();
        while let Some(taken) = events.next() {
            writer.event(&taken.event)?;
            let reaction = session.apply(&taken.event);
            let step = StepRecord::of(&reaction.effects, &reaction.notes);
            // Of what only the last event leads to, nothing was begun where the shared records end with it, or where
            // the old run did something else.
            let is_last = events.peek().is_none();
            let begun = taken.begun && self.last > taken.seq;
            if !step.is_empty() && (begun || !is_last) {
                writer.step(&step)?;
            }
        }
        Ok(session.shared())
    }
}

/// Whether an answer to the one is an answer to the other.
fn ask_the_same(a: &Effect, b: &Effect) -> bool {
    match (a, b) {
        (Effect::CallModel { purpose: p, .. }, Effect::CallModel { purpose: q, .. }) => p == q,
        (
            Effect::RunTool { agent: p, call: a, access: x, .. },
            Effect::RunTool { agent: q, call: b, access: y, .. },
        ) => p == q && a == b && x == y,
        (Effect::AskUser { question: p, .. }, Effect::AskUser { question: q, .. }) => {
            (&p.agent, &p.call, &p.needs) == (&q.agent, &q.call, &q.needs)
        }
        (Effect::TakeCheckpoint { iteration: p, .. }, Effect::TakeCheckpoint { iteration: q, .. }) => p == q,
        (Effect::Recall { agent: p, .. }, Effect::Recall { agent: q, .. }) => p == q,
        (Effect::Remember { draft: p, .. }, Effect::Remember { draft: q, .. }) => p == q,
        (Effect::InspectTree { iteration: p, .. }, Effect::InspectTree { iteration: q, .. }) => p == q,
        (Effect::Verify { commands: p, others: a, .. }, Effect::Verify { commands: q, others: b, .. }) => {
            p == q && a == b
        }
        (Effect::StartTimer { purpose: p, .. }, Effect::StartTimer { purpose: q, .. }) => p == q,
        // Effects of different kinds, or that nothing answers.
        _ => false,
    }
}

fn answering(event: Event, effect: EffectId) -> Event {
    match event {
        Event::Answered { answer, .. } => Event::Answered { effect, answer },
        other => other,
    }
}

/// What an effect asks for, for people.
fn words(effect: &Effect) -> String {
    match effect {
        Effect::CallModel { purpose, .. } => format!("a question of `{purpose}` to its model"),
        Effect::RunTool { agent, call, .. } => format!("a call of {} by `{agent}`", call.name),
        Effect::AskUser { question, .. } => format!("a question to the user about {}", question.call.name),
        Effect::TakeCheckpoint { .. } => "a checkpoint of the tree".to_owned(),
        Effect::Recall { .. } => "a search of the memories".to_owned(),
        Effect::Remember { .. } => "a memory to be kept".to_owned(),
        Effect::InspectTree { .. } => "a look at the tree".to_owned(),
        Effect::Verify { .. } => "the verification commands".to_owned(),
        Effect::StartTimer { .. } => "a timer".to_owned(),
        Effect::Abandon { .. } => "the end of an effect".to_owned(),
        Effect::Finish { .. } => "the end of the run".to_owned(),
    }
}
