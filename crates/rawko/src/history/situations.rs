//! Turns a journal into situations: every decision with the arbiter's input, as a labelled question.
//!
//! The recorded decision counts as acceptable, also a human's; edit the file to correct it. Decisions that a guard
//! put in place of the arbiter's are left out, because neither judged.

use std::collections::BTreeMap;

use rawko_core::arbiter::{AgentDescription, ArbiterQuestion, Label, Recorded, Situation, parse_situations};
use rawko_core::session::{DecisionPoint, DecisionRecord, DecisionSource, EffectId, Note, Session};
use rawko_core::timeline::{Fact, Timeline};
use serde_json::Value;

use crate::journal::Journal;

/// All decisions of a session as situations, in order.
#[must_use]
pub fn situations(journal: &Journal) -> Vec<Situation> {
    let (mut timeline, mut models) = (Timeline::default(), BTreeMap::new());
    let (mut found, mut number) = (Vec::new(), 0);
    for (record, stamped) in journal.events() {
        let before = timeline.session().arbiter_question(DecisionPoint::Select);
        for entry in timeline.apply(record, stamped) {
            match entry.fact {
                Fact::ModelCalled { call, .. } => {
                    models.insert(call.effect, call.model);
                }
                Fact::Note(Note::DecisionMade(record)) => {
                    number += 1;
                    let id = format!("{}/{number}", journal.header.session);
                    found.extend(situation(id, &record, before.as_ref(), timeline.session(), &models));
                }
                _ => {}
            }
        }
    }
    found
}

fn situation(
    id: String,
    record: &DecisionRecord,
    before: Option<&ArbiterQuestion>,
    session: &Session,
    models: &BTreeMap<EffectId, String>,
) -> Option<Situation> {
    if record.instead_of.is_some() {
        return None;
    }
    let label = Label::of(&record.decision);
    let situation = Situation {
        id,
        question: arbiter_question(record, before, session)?,
        acceptable: vec![label.clone()],
        why: Some(record.decision.reason().to_owned()).filter(|reason| !reason.is_empty()),
        tags: Vec::new(),
        set: None,
        recorded: Some(Recorded {
            decision: label.decision,
            mode: label.mode,
            source: source(record.source).to_owned(),
            model: record.calls.last().and_then(|call| models.get(call)).cloned(),
        }),
    };
    // A decision that the rules of the question do not allow, like a forced agent that could not be chosen, is no
    // situation.
    parse_situations(&situation.to_line()).is_ok().then_some(situation)
}

/// What was asked; for a human's decision, what the arbiter would have been asked.
fn arbiter_question(
    record: &DecisionRecord,
    before: Option<&ArbiterQuestion>,
    session: &Session,
) -> Option<ArbiterQuestion> {
    let Some(input) = record.input.clone() else {
        return before.cloned().or_else(|| session.arbiter_question(DecisionPoint::Select));
    };
    match record.point {
        DecisionPoint::Select => Some(ArbiterQuestion::Select(Box::new(serde_json::from_value(input).ok()?))),
        DecisionPoint::Evaluate => {
            let agents = agents(&input, session);
            let input = serde_json::from_value(input).ok()?;
            Some(ArbiterQuestion::Evaluate { input: Box::new(input), agents })
        }
    }
}

/// The agents that could be chosen: those of the session without those that the input says cannot work.
fn agents(input: &Value, session: &Session) -> Vec<AgentDescription> {
    let barred: Vec<&str> = input
        .pointer("/facts/barred")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|barred| barred["agent"].as_str())
        .collect();
    let all = session.arbiter_question(DecisionPoint::Select).map(|question| question.agents().to_vec());
    all.unwrap_or_default().into_iter().filter(|agent| !barred.contains(&agent.name.as_str())).collect()
}

/// The source as it is spelt in journals.
pub(crate) fn source(source: DecisionSource) -> &'static str {
    match source {
        DecisionSource::Llm => "llm",
        DecisionSource::Rule => "rule",
        DecisionSource::Cache => "cache",
        DecisionSource::Fallback => "fallback",
        DecisionSource::Human => "human",
    }
}
