//! Finds out what a fork takes over from another session.
//!
//! As long as both get the same events, one fold serves both. They are folded side by side from the first event that
//! differs in the fork, or that follows an end, because what came before an end costs the fork nothing. The new journal
//! then says what follows from the fork's setup. The fork takes over each answer that it asks for, and stops at the
//! first that it does not.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rawko_core::session::{Effect, EffectId, Event, Session, SharedSpend, Stamped};
use rawko_core::setup::Setup;

use super::Stopped;
use crate::journal::{
    Divergence, Folding, Journal, JournalError, JournalWriter, Record, StepRecord, StoredLines,
};

/// The old run, and the fork beside it.
pub(super) struct ForkReplay<'a> {
    /// The records of the old run.
    records: &'a [Record],
    pub(super) old: Folding,
    /// The fork, once it may differ from the old run.
    apart: Option<Apart>,
    pub(super) taken: TakenPrefix,
}

/// A fork that is folded beside the old run.
#[derive(Default)]
struct Apart {
    fork: Session,
    /// Effects of the old run, and the effect of the fork that asks for the same, where there is one.
    asked: BTreeMap<EffectId, (Effect, Option<EffectId>)>,
}

/// What is taken over.
#[derive(Default)]
pub(super) struct TakenPrefix {
    events: Vec<TakenEvent>,
    /// Sequence number of the last record that is shared.
    pub(super) last: u64,
    pub(super) stopped: Option<Stopped>,
}

struct TakenEvent {
    seq: u64,
    /// Absent where it is the event of the old run.
    event: Option<Stamped>,
    /// What it leads to in the fork; absent where that is the step of the old run.
    step: Option<StepRecord>,
    /// Whether what it leads to was begun within the shared records.
    begun: bool,
    /// Whether it only inspected the tree after the end of a task.
    is_look: bool,
    /// What the fork shares if this is the last event that it shares.
    shared: Option<SharedSpend>,
}

impl<'a> ForkReplay<'a> {
    /// Begins with the first of `records`.
    pub(super) fn new(records: &'a [Record]) -> Self {
        Self { records, old: Folding::default(), apart: None, taken: TakenPrefix::default() }
    }

    /// The fork's own state.
    pub(super) fn fork(&self) -> &Session {
        self.apart.as_ref().map_or(&self.old.folded().session, |apart| &apart.fork)
    }

    /// Compares the consequences of the latest event, which are shared too.
    pub(super) fn step(&mut self, seq: u64, recorded: &Record) -> Result<(), Divergence> {
        self.taken.last = seq;
        self.old.record(recorded)
    }

    /// Takes an event over, if something in the fork asks for it. Else taking over stops.
    pub(super) fn event(
        &mut self,
        seq: u64,
        recorded: &Record,
        mut stamped: Stamped,
    ) -> Result<(), Divergence> {
        let is_look = stamped.event.completes_end();
        let is_same = |stamped: &Stamped| matches!(recorded, Record::Event(old) if **old == *stamped);
        let follows_end = !is_look && self.fork().state().is_final();
        if self.apart.is_none() && (follows_end || !is_same(&stamped)) {
            self.part();
        }
        // An execution that the last shared event begins is the fork's own work.
        let iterations = match stamped.event {
            Event::TaskContinued { .. } => 0,
            _ => self.fork().so_far().map_or(0, |so_far| so_far.iterations),
        };
        self.old.record(recorded)?;
        let (mut step, mut begun) = (None, true);
        if let Some(apart) = &mut self.apart {
            match apart.event(&self.old, &mut stamped) {
                Ok((derived, is_begun)) => (step, begun) = (other_step(self.records, seq, derived), is_begun),
                Err(why) => {
                    self.taken.stopped = Some(Stopped { record: seq, why });
                    return Ok(());
                }
            }
        }
        self.taken.last = seq;
        // The first event says how much is shared, and so is never the same.
        let is_first = matches!(stamped.event, Event::TaskStarted { .. });
        let event = (is_first || !is_same(&stamped)).then_some(stamped);
        let shared = self.shared(iterations);
        self.taken.events.push(TakenEvent { seq, event, step, begun, is_look, shared });
        Ok(())
    }

    /// Folds what was taken over until now once more, as the fork's own.
    fn part(&mut self) {
        let mut apart = Apart::default();
        for taken in &mut self.taken.events {
            let index = usize::try_from(taken.seq).unwrap_or(usize::MAX).saturating_sub(1);
            if let Some(Record::Event(stamped)) = self.records.get(index) {
                taken.step = other_step(self.records, taken.seq, apart.same(stamped));
            }
        }
        self.apart = Some(apart);
    }

    /// What the fork shares after so many executions.
    fn shared(&self, iterations: u32) -> Option<SharedSpend> {
        let so_far = self.fork().so_far()?;
        let of_old = SharedSpend { iterations, usage: so_far.usage, cost_usd: so_far.cost_usd };
        let shared = so_far.shared.map_or(of_old, |shared| SharedSpend { iterations, ..shared });
        (iterations > 0 || shared.usage != Default::default()).then_some(shared)
    }

    /// What was taken over until now, up to record `last` at most. What it used was the other session's, and the fork says so.
    pub(super) fn end(mut self, last: u64) -> TakenPrefix {
        self.taken.events.retain(|taken| taken.seq <= last);
        self.taken.last = self.taken.last.min(last);
        let _ = self.taken.stopped.take_if(|stopped| stopped.record > last);
        let events = self.taken.events.len() as u64;
        if let Some(Stamped { event: Event::TaskStarted { shared_events, .. }, .. }) = self.taken.first_mut()
        {
            *shared_events = events;
        }
        self.taken
    }
}

impl Apart {
    /// Applies what was the same in both runs, and led to the same effects. Returns what it leads to.
    fn same(&mut self, stamped: &Stamped) -> StepRecord {
        if let Some(effect) = stamped.event.answers() {
            self.asked.remove(&effect);
        }
        let reaction = self.fork.apply(&all_shared(stamped));
        let step = StepRecord::of(&reaction.effects, &reaction.notes);
        let waiting = reaction.effects.into_iter().filter_map(|effect| {
            let id = effect.awaits_answer()?;
            Some((id, (effect, Some(id))))
        });
        self.asked.extend(waiting);
        step
    }

    /// Applies what the old run was just given, with the fork's numbers. Returns what it leads to, and whether that was begun in
    /// the old run.
    fn event(&mut self, old: &Folding, stamped: &mut Stamped) -> Result<(StepRecord, bool), String> {
        self.translate(&mut stamped.event)?;
        let was = old.last();
        let is = self.fork.apply(&all_shared(stamped));
        if is.ignored && !was.ignored {
            return Err(format!(
                "{} has no meaning in the fork's state {}",
                stamped.event.name(),
                self.fork.state()
            ));
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
        Ok((StepRecord::of(&is.effects, &is.notes), begun || !waits))
    }

    /// Gives the event the fork's number of the effect that it answers.
    fn translate(&mut self, event: &mut Event) -> Result<(), String> {
        let name = event.name();
        let Event::Answered { effect, .. } = event else { return Ok(()) };
        match self.asked.remove(effect) {
            // An answer that came too late, and meant nothing: it means nothing in the fork.
            None => Ok(()),
            Some((_, Some(id))) => {
                *effect = id;
                Ok(())
            }
            Some((asked, None)) => {
                Err(format!("{name} answers {}, which the fork does not ask for", asked.in_words()))
            }
        }
    }
}

/// What event `seq` leads to in the fork, where that is not the step of the old run.
fn other_step(records: &[Record], seq: u64, derived: StepRecord) -> Option<StepRecord> {
    let recorded = match usize::try_from(seq).ok().and_then(|after| records.get(after)) {
        Some(Record::Step(step)) => Some(step),
        Some(Record::Event(_)) | None => None,
    };
    let is_same = recorded.map_or_else(|| derived.is_empty(), |step| *step == derived);
    (!is_same).then_some(derived)
}

/// The event as the fork gets it: everything that was taken over until now is shared.
fn all_shared(stamped: &Stamped) -> Cow<'_, Stamped> {
    let mut stamped = Cow::Borrowed(stamped);
    if let Event::TaskStarted { .. } = stamped.event
        && let Event::TaskStarted { shared_events, .. } = &mut stamped.to_mut().event
    {
        *shared_events = u64::MAX;
    }
    stamped
}

impl TakenPrefix {
    /// A beginning of its own: `event`, made of what the other session had at record `last`. Nothing has followed from
    /// it yet.
    pub(super) fn anew(event: Stamped, last: u64) -> Self {
        let (event, step, begun, is_look, shared) = (Some(event), None, false, false, None);
        let first = TakenEvent { seq: 0, event, step, begun, is_look, shared };
        Self { events: vec![first], last, ..Self::default() }
    }

    fn first_mut(&mut self) -> Option<&mut Stamped> {
        self.events.first_mut()?.event.as_mut()
    }

    /// The task and the setup that the fork begins with; nothing where no record is shared.
    pub(super) fn beginning(&self) -> Option<(&str, &Setup)> {
        match &self.events.first()?.event.as_ref()?.event {
            Event::TaskStarted { task, setup, .. } => Some((task, setup)),
            _ => None,
        }
    }

    /// The last event other than an inspection after the end of a task.
    pub(super) fn end(&self) -> u64 {
        self.events.iter().rev().find(|taken| !taken.is_look).map_or(0, |taken| taken.seq)
    }

    /// What the fork shares with the other session: a task that ended within the shared records has cost the fork nothing.
    pub(super) fn shared(&self) -> Option<SharedSpend> {
        self.events.last()?.shared
    }

    /// Writes the events, and what they lead to in the fork. Records that are the same as in `old` are copied from its
    /// `lines`. Returns how many records of `old` were written.
    pub(super) fn write(
        &self,
        writer: &mut JournalWriter,
        old: &Journal,
        lines: &StoredLines,
    ) -> Result<usize, JournalError> {
        let mut writing = Writing { writer, lines, copied: Vec::new() };
        let mut written = 0;
        let mut events = self.events.iter().peekable();
        while let Some(taken) = events.next() {
            let index = usize::try_from(taken.seq).unwrap_or(usize::MAX);
            match (&taken.event, index.checked_sub(1).and_then(|at| old.records.get(at))) {
                (Some(stamped), _) => writing.event(stamped)?,
                (None, Some(record)) => writing.old(taken.seq, record)?,
                (None, None) => {}
            }
            written = index;
            // Of what only the last event leads to, nothing was begun where the shared records end with it, or where
            // the old run did something else.
            let is_last = events.peek().is_none();
            if is_last && !(taken.begun && self.last > taken.seq) {
                break;
            }
            match (&taken.step, old.records.get(index)) {
                (Some(step), _) if step.is_empty() => continue,
                (Some(step), _) => writing.step(step)?,
                (None, Some(record @ Record::Step(_))) => writing.old(taken.seq + 1, record)?,
                (None, _) => continue,
            }
            written = index + 1;
        }
        writing.copy()?;
        Ok(written)
    }
}

/// A journal that is written, in part with the lines of another one.
struct Writing<'a> {
    writer: &'a mut JournalWriter,
    lines: &'a StoredLines,
    /// Lines that come next.
    copied: Vec<&'a [u8]>,
}

impl Writing<'_> {
    fn event(&mut self, stamped: &Stamped) -> Result<(), JournalError> {
        self.copy()?;
        self.writer.event(stamped)
    }

    fn step(&mut self, step: &StepRecord) -> Result<(), JournalError> {
        self.copy()?;
        self.writer.step(step)
    }

    /// Writes a record of the other journal. Its line begins with its number there.
    fn old(&mut self, seq: u64, record: &Record) -> Result<(), JournalError> {
        let next = self.writer.next_seq() + self.copied.len() as u64;
        match (self.lines.get(seq).filter(|_| seq == next), record) {
            (Some(line), _) => self.copied.push(line),
            (None, Record::Event(stamped)) => self.event(stamped)?,
            (None, Record::Step(step)) => self.step(step)?,
        }
        Ok(())
    }

    fn copy(&mut self) -> Result<(), JournalError> {
        self.writer.copy(self.copied.drain(..))
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
        (
            Effect::RunOutsideAgent { agent: p, prompt: a, .. },
            Effect::RunOutsideAgent { agent: q, prompt: b, .. },
        ) => p == q && a == b,
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
        (Effect::RunHooks { occasion: p, .. }, Effect::RunHooks { occasion: q, .. }) => p == q,
        (Effect::StartTimer { purpose: p, .. }, Effect::StartTimer { purpose: q, .. }) => p == q,
        // Effects of different kinds, or that nothing answers.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rawko_core::Timestamp;
    use serde_json::json;

    use super::*;

    fn started(turns: u32) -> Stamped {
        let model = json!({"provider": "p", "model": "m", "maxTokens": 1000});
        let setup = serde_json::from_value(json!({
            "agents": {"a": {"source": "test", "model": model, "config": {"name": "a", "systemPrompt": "Work."}}},
            "arbiter": {"mode": "llm", "model": model, "templates": {"select": "Choose.", "evaluate": "Judge."}},
            "limits": {"maxIterations": turns, "maxConsecutiveFailures": 3},
            "tools": [],
            "place": {"directory": "/p", "platform": "linux", "git": false},
        }));
        let event =
            Event::TaskStarted { task: "do it".into(), setup: Box::new(setup.unwrap()), shared_events: 0 };
        Stamped { at: Timestamp(1), event }
    }

    /// Whether the fork of these events is folded beside the old run, where these take their places.
    fn is_apart(old: &[Stamped], new: &[Stamped]) -> bool {
        let (mut session, mut records) = (Session::new(), Vec::new());
        for stamped in old {
            let reaction = session.apply(stamped);
            records.push(Record::Event(Box::new(stamped.clone())));
            let step = StepRecord::of(&reaction.effects, &reaction.notes);
            records.extend((!step.is_empty()).then_some(Record::Step(step)));
        }
        let mut replay = ForkReplay::new(&records);
        let mut new = new.iter();
        for (seq, record) in (1..).zip(&records) {
            match record {
                Record::Event(_) => replay.event(seq, record, new.next().unwrap().clone()).unwrap(),
                Record::Step(_) => replay.step(seq, record).unwrap(),
            }
        }
        assert_eq!(replay.taken.stopped, None);
        assert_eq!(replay.taken.events.len(), old.len());
        replay.apart.is_some()
    }

    #[test]
    fn what_is_the_same_is_folded_once() {
        let cancel = |at| Stamped { at: Timestamp(at), event: Event::CancelRequested { reason: "r".into() } };
        let look = |at| Stamped {
            at: Timestamp(at),
            event: Event::FinalTreeInspected { inspection: Default::default() },
        };
        let old = [started(5), cancel(2), look(3)];
        assert!(!is_apart(&old, &old));
        assert!(is_apart(&old, &[started(6), cancel(2), look(3)]));
        // Events after an end, other than a look at it, are not the same: the end was another session's.
        let old = [started(5), cancel(2), cancel(3)];
        assert!(is_apart(&old, &old));
    }
}
