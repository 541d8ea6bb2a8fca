//! Replays a journal (`docs/sessions.md`): without a model, a tool or a clock, the same events lead to the same
//! requests and transitions.
//!
//! [`replay`] compares the recorded steps with those that follow from the recorded setup today. [`replay_with`] folds the
//! events under another setup beside the recorded one, and reports the first request that differs, field by field. Nothing
//! is changed or performed.

use std::borrow::Cow;

use rawko_core::machine::State;
use rawko_core::request::{ModelRequest, Purpose};
use rawko_core::session::{Effect, Event, Note, Reaction, Session, Stamped};
use rawko_core::setup::{ProjectContext, Setup};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::journal::{FieldDifference, Journal, JournaledEffect, Record, StepRecord, compare, fold};
use crate::setup::rawko::Rawko;

/// The result of a replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replay {
    /// The session's id.
    pub session: String,
    /// Version of the rawko that recorded it.
    pub recorded_by: String,
    /// How much was folded, up to the end or the first difference.
    pub counts: ReplayCounts,
    /// State of the machine there.
    pub state: State,
    /// Bytes of an incomplete last record, which was left out.
    pub torn_bytes: usize,
    /// The first difference, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<ReplayDifference>,
}

/// How much of a session was derived again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayCounts {
    /// Events folded.
    pub events: usize,
    /// Requests to models derived.
    pub requests: usize,
    /// Tool calls that the policy allowed again.
    pub tool_calls: usize,
    /// Decisions made.
    pub decisions: usize,
    /// Transitions of the machine.
    pub transitions: usize,
}

/// The first place where the replay differs from the record.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayDifference {
    /// Sequence number of the record that differs.
    pub record: u64,
    /// Name of the event that leads to it.
    pub after: String,
    /// Purpose of the request that differs, if it is a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Purpose>,
    /// Each field that differs.
    pub fields: Vec<FieldDifference>,
}

/// Derives every step again from the recorded setup, and compares it with the recorded one.
#[must_use]
pub fn replay(journal: &Journal) -> Replay {
    let folded = fold(journal);
    let difference = folded.divergence.map(|divergence| ReplayDifference {
        record: divergence.seq,
        after: event_before(journal, divergence.seq),
        request: recorded_request(journal, divergence.seq, &divergence.fields),
        fields: divergence.fields,
    });
    let until = difference.as_ref().map(|difference| difference.record);
    Replay {
        session: journal.header.session.clone(),
        recorded_by: journal.header.rawko.clone(),
        counts: count(journal, until),
        state: folded.session.state(),
        torn_bytes: journal.torn_bytes,
        difference,
    }
}

impl Rawko {
    /// Replays a session under this project's configuration as it is now: [`replay_with`].
    ///
    /// # Errors
    /// [`Error::Setup`] where an agent's model cannot be resolved.
    pub fn replay(&self, journal: &Journal) -> Result<Replay, Error> {
        let mut setup = self.setup()?;
        // The recorded texts went through the same redaction.
        self.redactor(&self.providers(&setup).unwrap_or_default()).instructions(&mut setup);
        Ok(replay_with(journal, &setup))
    }
}

/// Folds the recorded events under `setup`, beside the recorded one, and reports the first place where the run would have
/// asked, allowed or decided something else. What a run gets besides its configuration (which agent is first, whether
/// checkpoints are taken) stays as recorded. A journal that differs from its own records is reported first.
#[must_use]
pub fn replay_with(journal: &Journal, setup: &Setup) -> Replay {
    let mut replay = replay(journal);
    if replay.difference.is_some() {
        return replay;
    }
    let (mut recorded, mut current) = (Session::new(), Session::new());
    for (seq, record) in (1_u64..).zip(&journal.records) {
        let Record::Event(stamped) = record else { continue };
        let was = recorded.apply(stamped);
        let is = current.apply(&under(stamped, setup));
        let (request, fields) = differences(&was, &is);
        if !fields.is_empty() {
            let record = seq + 1;
            let after = stamped.event.name().to_owned();
            replay.counts = count(journal, Some(record));
            replay.state = current.state();
            replay.difference = Some(ReplayDifference { record, after, request, fields });
            break;
        }
    }
    replay
}

/// The event as it would have been under another setup.
fn under<'a>(stamped: &'a Stamped, setup: &Setup) -> Cow<'a, Stamped> {
    let event = match &stamped.event {
        Event::TaskStarted { task, setup: recorded, shared_events } => {
            let setup = Box::new(beside(recorded, setup));
            Event::TaskStarted { task: task.clone(), setup, shared_events: *shared_events }
        }
        Event::TaskContinued { task, setup: recorded, changed_files, lost, ended } => {
            let (task, changed_files) = (task.clone(), changed_files.clone());
            Event::TaskContinued {
                task,
                setup: Box::new(beside(recorded, setup)),
                changed_files,
                lost: lost.clone(),
                ended: ended.clone(),
            }
        }
        Event::AgentsReloaded { .. } => Event::AgentsReloaded { agents: setup.agents.clone() },
        _ => return Cow::Borrowed(stamped),
    };
    Cow::Owned(Stamped { at: stamped.at, event })
}

/// `setup`, with what a run gets besides its configuration as it was recorded.
fn beside(recorded: &Setup, setup: &Setup) -> Setup {
    Setup {
        first_agent: recorded.first_agent.clone(),
        checkpoints: recorded.checkpoints,
        attachments: recorded.attachments.clone(),
        // Checks are found when a run begins, in the files as they were then.
        verify: match &setup.verify {
            Some(now) if now.found => recorded.verify.clone(),
            now => now.clone(),
        },
        place: ProjectContext {
            folder: recorded.place.folder.clone(),
            instruction_problems: recorded.place.instruction_problems.clone(),
            ..setup.place.clone()
        },
        ..setup.clone()
    }
}

/// The differences between two reactions. Requests are compared by content, not by digest; the first part of the result
/// is the purpose of the request that differs.
fn differences(was: &Reaction, is: &Reaction) -> (Option<Purpose>, Vec<FieldDifference>) {
    let mut fields = Vec::new();
    for (at, pair) in was.effects.iter().zip(&is.effects).enumerate() {
        let (Some(a), Some(b)) = (asked(was, pair.0), asked(is, pair.1)) else { continue };
        if same(&a, &b) {
            continue;
        }
        compare(&format!("effects[{at}].request"), &a.json(), &b.json(), &mut fields);
        if !fields.is_empty() {
            return (Some(a.request.purpose.clone()), fields);
        }
    }
    let json = |reaction: &Reaction| {
        serde_json::to_value(StepRecord::of(&reaction.effects, &reaction.notes)).unwrap_or_default()
    };
    compare("", &json(was), &json(is), &mut fields);
    (None, fields)
}

/// A request to a model and its provider.
struct SentRequest<'a> {
    provider: &'a str,
    digest: &'a str,
    request: &'a ModelRequest,
}

fn asked<'a>(reaction: &'a Reaction, effect: &'a Effect) -> Option<SentRequest<'a>> {
    let Effect::CallModel { id, provider, digest, .. } = effect else { return None };
    Some(SentRequest { provider, digest, request: reaction.requests.get(id)? })
}

/// The digest covers system prompt, tools and messages. Comparing these themselves would cost more with every turn.
fn same(a: &SentRequest<'_>, b: &SentRequest<'_>) -> bool {
    let (p, q) = (a.request, b.request);
    (a.provider, a.digest) == (b.provider, b.digest)
        && (&p.purpose, &p.model, &p.tool_choice) == (&q.purpose, &q.model, &q.tool_choice)
        && (p.max_tokens, p.temperature, &p.extra) == (q.max_tokens, q.temperature, &q.extra)
}

impl SentRequest<'_> {
    /// The whole request under the documented field names. Tools are keyed by name, with their order beside them.
    fn json(&self) -> Value {
        let request = self.request;
        let tools: Map<String, Value> = request
            .tools
            .iter()
            .map(|tool| (tool.name.clone(), serde_json::to_value(tool).unwrap_or_default()))
            .collect();
        let order: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        json!({
            "purpose": request.purpose,
            "provider": self.provider,
            "model": request.model,
            "system": request.system,
            "tools": tools,
            "toolOrder": order.join(", "),
            "messages": request.messages,
            "toolChoice": request.tool_choice,
            "maxTokens": request.max_tokens,
            "temperature": request.temperature,
            "extra": request.extra,
        })
    }
}

fn event_before(journal: &Journal, seq: u64) -> String {
    let until = usize::try_from(seq.saturating_sub(1)).unwrap_or(usize::MAX);
    let events = journal.records.iter().take(until).rev().filter_map(|record| match record {
        Record::Event(stamped) => Some(stamped.event.name()),
        Record::Step(_) => None,
    });
    events.take(1).collect()
}

/// Purpose of the recorded request whose digest differs.
fn recorded_request(journal: &Journal, seq: u64, fields: &[FieldDifference]) -> Option<Purpose> {
    let at = usize::try_from(seq.checked_sub(1)?).ok()?;
    let Record::Step(step) = journal.records.get(at)? else { return None };
    let differs = |at: usize| {
        let prefix = format!("effects[{at}]");
        fields.iter().any(|difference| difference.field.starts_with(&prefix))
    };
    step.effects.iter().enumerate().find_map(|(at, effect)| match effect {
        JournaledEffect::Whole(Effect::CallModel { purpose, .. }) if differs(at) => Some(purpose.clone()),
        JournaledEffect::Whole(_) | JournaledEffect::RunTool { .. } => None,
    })
}

/// ReplayCounts the records before `until`.
fn count(journal: &Journal, until: Option<u64>) -> ReplayCounts {
    let mut counts = ReplayCounts::default();
    for (seq, record) in (1_u64..).zip(&journal.records) {
        if until.is_some_and(|until| seq >= until) {
            break;
        }
        let step = match record {
            Record::Event(_) => {
                counts.events += 1;
                continue;
            }
            Record::Step(step) => step,
        };
        for effect in &step.effects {
            match effect {
                JournaledEffect::RunTool { .. } => counts.tool_calls += 1,
                JournaledEffect::Whole(Effect::CallModel { .. }) => counts.requests += 1,
                JournaledEffect::Whole(_) => {}
            }
        }
        for note in &step.notes {
            match note {
                Note::DecisionMade(_) => counts.decisions += 1,
                Note::StateChanged { .. } => counts.transitions += 1,
                _ => {}
            }
        }
    }
    counts
}
