//! Folding a journal: the state it leads to, and whether what it recorded is what its events lead to today.

use std::collections::BTreeMap;

use rawko_core::integrity::DoubtReason;
use rawko_core::machine::State;
use rawko_core::message::ToolCall;
use rawko_core::request::Purpose;
use rawko_core::session::{
    Effect, EffectAnswer, EffectId, Event, LostJob, Note, Reaction, Session, Stamped, Status,
};
use serde_json::Value;

use super::reader::Journal;
use super::record::{Record, StepRecord};
use crate::run::denials::Denials;

/// A session as its journal leaves it.
#[derive(Debug, Clone, Default)]
pub struct Folded {
    /// The state.
    pub session: Session,
    /// What the last event led to, if the journal lacks that because the process ended between the two. None of it was
    /// done.
    pub unrecorded: Option<Reaction>,
    /// Who asked each model call, and which provider, in the order of their answers.
    pub answered: Vec<(String, Purpose)>,
    /// What agents had seen of files, latest last.
    pub seen: Vec<SeenByAgent>,
    /// Whether the verification commands passed, by the tree that they last ran on.
    pub verified: BTreeMap<String, bool>,
    /// Executions before the task whose beginning the present task's checks are compared with: the present one, or the
    /// earliest of those before it that ended with doubtful checks.
    pub checks_since: u32,
    /// Sequence number of the event that began the latest execution.
    pub execution_begun: Option<u64>,
    /// Whether a tree was kept before any execution.
    pub has_kept: bool,
    /// What the present task was denied.
    pub denials: Denials,
    /// Background jobs whose end no agent has heard of. They ended with their process.
    pub jobs: Vec<LostJob>,
    /// The highest number of a background job so far.
    pub last_job: u32,
    /// The first difference between what was recorded and what follows today, if there is one.
    pub divergence: Option<Divergence>,
}

/// A file as an agent saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenByAgent {
    /// The agent.
    pub agent: String,
    /// The file, as the tool names it.
    pub path: String,
    /// SHA-256 of its content, in hexadecimal.
    pub digest: String,
}

/// A record that does not follow from the events before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Divergence {
    /// Sequence number of the record.
    pub seq: u64,
    /// Each field that differs.
    pub fields: Vec<FieldDifference>,
}

/// One field that differs.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct FieldDifference {
    /// Where, like `effects[0].digest`.
    pub field: String,
    /// What was recorded; null where there was nothing.
    pub recorded: Value,
    /// What follows today; null where nothing does.
    pub derived: Value,
}

/// Folds all events, and compares each step with its record. Stops at the first divergence.
#[must_use]
pub fn fold(journal: &Journal) -> Folded {
    let mut folding = Folding::default();
    for record in &journal.records {
        if let Err(divergence) = folding.record(record) {
            return Folded { divergence: Some(divergence), ..folding.folded };
        }
    }
    let unrecorded = Some(folding.last.reaction).filter(|_| folding.lacks_step);
    Folded { unrecorded, ..folding.folded }
}

/// Folds a session's events one after another.
#[derive(Debug, Clone)]
pub struct Folding {
    folded: Folded,
    calls: OpenCalls,
    /// The record that the next event has in the journal.
    next_seq: u64,
    /// What the last event led to, where it was taken from a record.
    last: Applied,
    /// Whether its step is the next record.
    lacks_step: bool,
}

impl Default for Folding {
    fn default() -> Self {
        let (folded, calls, last) = (Folded::default(), OpenCalls::default(), Applied::default());
        Self { folded, calls, next_seq: 1, last, lacks_step: false }
    }
}

/// What one event led to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Applied {
    /// Effects and notes.
    pub reaction: Reaction,
    /// What the journal records of them; empty if nothing.
    pub step: StepRecord,
    /// Sequence number of the event's own record. That of the step, if there is one, follows it.
    pub seq: u64,
}

impl Folding {
    /// Applies the next event.
    pub fn apply(&mut self, stamped: &Stamped) -> Applied {
        let Self { folded, calls, next_seq, .. } = self;
        let seq = *next_seq;
        if matches!(stamped.event, Event::TaskContinued { .. }) {
            folded.checks_since = folded.checks_of_next_task();
        }
        let reaction = folded.session.apply(stamped);
        calls.note(stamped, &reaction, folded);
        folded.denials.take(&stamped.event, &reaction.notes);
        folded.has_kept |= reaction.notes.iter().any(|note| matches!(note, Note::CheckpointTaken { .. }));
        if begins_execution(&reaction) {
            folded.execution_begun = Some(seq);
        }
        let step = StepRecord::of(&reaction.effects, &reaction.notes);
        *next_seq += if step.is_empty() { 1 } else { 2 };
        Applied { reaction, step, seq }
    }

    /// Takes the next record: applies an event, and compares a step with what its event led to.
    ///
    /// # Errors
    /// Where they differ.
    pub fn record(&mut self, record: &Record) -> Result<(), Divergence> {
        let derived = std::mem::take(&mut self.lacks_step).then_some(&self.last.step);
        let fields = match (record, derived) {
            (Record::Event(stamped), None) => {
                // A conversation that shares its messages with a request copies the list when it grows.
                self.last = Applied::default();
                self.last = self.apply(stamped);
                self.lacks_step = !self.last.step.is_empty();
                return Ok(());
            }
            (Record::Event(_), Some(derived)) => differences(&StepRecord::default(), derived),
            (Record::Step(step), Some(derived)) => differences(step, derived),
            (Record::Step(step), None) => {
                vec![FieldDifference {
                    field: "step".to_owned(),
                    recorded: json(step),
                    derived: json(&StepRecord::default()),
                }]
            }
        };
        let seq = if derived.is_some() { self.next_seq - 1 } else { self.next_seq };
        if fields.is_empty() { Ok(()) } else { Err(Divergence { seq, fields }) }
    }

    /// What the last record's event led to.
    #[must_use]
    pub fn last(&self) -> &Reaction {
        &self.last.reaction
    }

    /// The state that the events lead to so far.
    #[must_use]
    pub fn folded(&self) -> &Folded {
        &self.folded
    }
}

/// Whether an event that led to this began an execution.
pub(crate) fn begins_execution(reaction: &Reaction) -> bool {
    reaction.notes.iter().any(|note| matches!(note, Note::StateChanged { to: State::Executing, .. }))
}

impl Folded {
    /// What the checks of the next task are compared with, as in `checks_since`. A task that weakened its checks must
    /// not make them the measure of the next one; nor must one that ended before it was verified. If nothing was
    /// changed or nothing verifies, there is nothing new to doubt.
    #[must_use]
    pub(crate) fn checks_of_next_task(&self) -> u32 {
        let Some(outcome) = self.session.outcome() else { return self.checks_since };
        let is_old_doubt = self.checks_since < self.session.earlier_executions();
        let is_doubtful = match outcome.doubt.map(|doubt| doubt.reason) {
            Some(DoubtReason::Unchanged | DoubtReason::NothingToRun) => is_old_doubt,
            _ => outcome.status != Status::Verified,
        };
        if is_doubtful { self.checks_since } else { self.session.executions() }
    }
}

/// Which call each answer belongs to.
#[derive(Debug, Clone, Default)]
struct OpenCalls {
    models: BTreeMap<EffectId, (String, Purpose)>,
    tools: BTreeMap<EffectId, (String, ToolCall)>,
}

impl OpenCalls {
    fn note(&mut self, stamped: &Stamped, reaction: &Reaction, folded: &mut Folded) {
        match &stamped.event {
            // The answer came from the cache: no model was asked.
            Event::Answered { effect, answer: EffectAnswer::ModelReplied { cached: true, .. } } => {
                self.models.remove(effect);
            }
            Event::Answered { effect, answer: EffectAnswer::ModelReplied { .. } }
            | Event::Answered { effect, answer: EffectAnswer::ModelFailed { .. } } => {
                folded.answered.extend(self.models.remove(effect));
            }
            Event::Answered { effect: _, answer: EffectAnswer::VerificationFinished { verification } } => {
                if let Some(tree) = verification.tree.as_ref().filter(|_| !verification.runs.is_empty()) {
                    folded.verified.insert(tree.clone(), verification.passed());
                }
            }
            Event::Answered { effect, answer: EffectAnswer::ToolFinished { outcome } } => {
                if let Some((agent, call)) = self.tools.remove(effect) {
                    folded.seen.extend(outcome.files_seen.iter().map(|file| SeenByAgent {
                        agent: agent.clone(),
                        path: file.path.clone(),
                        digest: file.digest.clone(),
                    }));
                    let changes = outcome.jobs.as_deref().cloned().unwrap_or_default();
                    folded.jobs.retain(|job| !changes.ended.contains(&job.job));
                    if let Some(job) = changes.started {
                        let command = call.input.get("command").and_then(Value::as_str).unwrap_or_default();
                        folded.jobs.push(LostJob { agent, job, command: command.to_owned() });
                        folded.last_job = folded.last_job.max(job);
                    }
                }
            }
            // Their agents know it by now.
            Event::SessionResumed { .. } | Event::TaskContinued { .. } | Event::TaskTakenUp { .. } => {
                folded.jobs.clear();
            }
            _ => {}
        }
        for effect in &reaction.effects {
            match effect {
                Effect::CallModel { id, provider, purpose, .. } => {
                    self.models.insert(*id, (provider.clone(), purpose.clone()));
                }
                Effect::RunTool { id, agent, call, .. } => {
                    self.tools.insert(*id, (agent.clone(), call.clone()));
                }
                _ => {}
            }
        }
    }
}

/// Field by field, what differs between two steps.
#[must_use]
pub fn differences(recorded: &StepRecord, derived: &StepRecord) -> Vec<FieldDifference> {
    if recorded == derived {
        return Vec::new();
    }
    let mut found = Vec::new();
    compare("", &json(recorded), &json(derived), &mut found);
    found
}

/// Adds to `found` each place below `field` in which the two differ.
pub(crate) fn compare(field: &str, recorded: &Value, derived: &Value, found: &mut Vec<FieldDifference>) {
    match (recorded, derived) {
        (Value::Object(a), Value::Object(b)) => {
            let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                let field = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
                let get =
                    |map: &serde_json::Map<String, Value>| map.get(name).cloned().unwrap_or(Value::Null);
                compare(&field, &get(a), &get(b), found);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for at in 0..a.len().max(b.len()) {
                let get = |list: &[Value]| list.get(at).cloned().unwrap_or(Value::Null);
                compare(&format!("{field}[{at}]"), &get(a), &get(b), found);
            }
        }
        _ if recorded == derived => {}
        _ => found.push(FieldDifference {
            field: field.to_owned(),
            recorded: recorded.clone(),
            derived: derived.clone(),
        }),
    }
}

fn json(step: &StepRecord) -> Value {
    serde_json::to_value(step).unwrap_or_default()
}
