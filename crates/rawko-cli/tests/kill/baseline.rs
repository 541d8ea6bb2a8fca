//! The run that is not killed: every other run must end like it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rawko::journal::{Journal, JournaledEffect, Record};
use rawko_core::session::{ConversationId, Effect, EffectAnswer, EffectId, Event};
use serde_json::Value;

use crate::requests::{Body, bodies};
use crate::script::Script;
use crate::world::World;

/// A script, and the run of it that was left alone.
pub(crate) struct Baseline {
    pub(crate) script: Script,
    /// The world as it was before.
    pub(crate) before: World,
    /// The world as the run left it.
    pub(crate) after: World,
    pub(crate) journal: Journal,
    pub(crate) finish: Value,
    pub(crate) tree: BTreeMap<PathBuf, String>,
    pub(crate) lines: Vec<String>,
    /// How long it took.
    pub(crate) took: Duration,
    /// What the model was asked, in order, and in which conversation.
    pub(crate) asked: Vec<(ConversationId, Body)>,
}

impl Baseline {
    /// Runs the script.
    #[track_caller]
    pub(crate) fn of(script: Script) -> Self {
        let before = World::new();
        let after = World::copy_of(&before);
        let server = script.serve();
        let begun = Instant::now();
        let mut ended = after.run(&server).end();
        if script.is_continued() {
            assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
            ended = after.go_on(&server).end();
        }
        let took = begun.elapsed();
        assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
        let finish = ended.finish();
        assert_eq!(finish["agentSummary"], "all done", "{finish}");
        let journal = after.journal();
        let conversations = effects(&journal.records).filter_map(|effect| match effect {
            JournaledEffect::Whole(Effect::CallModel { conversation, .. }) => Some(*conversation),
            _ => None,
        });
        let asked: Vec<_> = conversations.zip(bodies(&server, &after)).collect();
        let (tree, lines) = (after.tree(), after.lines());
        let baseline = Self { script, before, after, journal, finish, tree, lines, took, asked };
        assert_eq!(
            replies(&baseline.journal.records),
            baseline.asked.len(),
            "every question was answered once"
        );
        assert_eq!(baseline.changes_begun(usize::MAX), baseline.script.changes().len());
        assert!(baseline.tree != baseline.before.tree() || baseline.lines != baseline.before.lines());
        baseline
    }

    /// The first `count` records after the header.
    pub(crate) fn records(&self, count: usize) -> &[Record] {
        &self.journal.records[..count.min(self.journal.records.len())]
    }

    /// What the last of so many records says. A kill after another record of this kind proves the same.
    pub(crate) fn kind(&self, count: usize) -> String {
        let records = self.records(count);
        match records.last().expect("there is a record") {
            Record::Step(step) => step.effects.iter().map(word).collect::<Vec<_>>().join(", "),
            Record::Event(stamped) => {
                let Event::Answered { effect, .. } = &stamped.event else {
                    return stamped.event.name().to_owned();
                };
                let answered = effects(records).find(|it| id(it) == Some(*effect)).map(word);
                format!("{} {}", stamped.event.name(), answered.unwrap_or_default())
            }
        }
    }

    /// How many changes were begun by then.
    pub(crate) fn changes_begun(&self, count: usize) -> usize {
        effects(self.records(count)).filter(|effect| changes(effect)).count()
    }

    /// How many of those were answered by then: changes are made one after the other.
    pub(crate) fn changes_answered(&self, count: usize) -> usize {
        let records = self.records(count);
        let begun: Vec<_> = effects(records).filter(|effect| changes(effect)).filter_map(id).collect();
        let finished = |event: &&Event| match event {
            Event::Answered { effect, answer: EffectAnswer::ToolFinished { .. } } => begun.contains(effect),
            _ => false,
        };
        events(records).filter(finished).count()
    }
}

/// All effects of some records, in order.
pub(crate) fn effects(records: &[Record]) -> impl Iterator<Item = &JournaledEffect> {
    records.iter().flat_map(|record| match record {
        Record::Step(step) => step.effects.as_slice(),
        Record::Event(_) => &[],
    })
}

/// All events of some records, in order.
pub(crate) fn events(records: &[Record]) -> impl Iterator<Item = &Event> {
    records.iter().filter_map(|record| match record {
        Record::Event(stamped) => Some(&stamped.event),
        Record::Step(_) => None,
    })
}

/// How many questions to the model were answered.
pub(crate) fn replies(records: &[Record]) -> usize {
    events(records)
        .filter(|event| matches!(event, Event::Answered { answer: EffectAnswer::ModelReplied { .. }, .. }))
        .count()
}

/// Whether an effect is a call of a tool that may change something.
pub(crate) fn changes(effect: &JournaledEffect) -> bool {
    matches!(effect, JournaledEffect::RunTool { access, .. } if *access == rawko_core::tool::ToolAccess::Mutating)
}

/// The id by which an effect is answered.
fn id(effect: &JournaledEffect) -> Option<EffectId> {
    match effect {
        JournaledEffect::RunTool { id, .. } => Some(*id),
        JournaledEffect::Whole(effect) => effect.awaits_answer(),
    }
}

/// What is to be done, and by which tool or for whom.
fn word(effect: &JournaledEffect) -> String {
    match effect {
        JournaledEffect::RunTool { call, .. } => call.name.clone(),
        JournaledEffect::Whole(Effect::CallModel { purpose, .. }) => purpose.to_string(),
        JournaledEffect::Whole(effect) => effect.word().to_owned(),
    }
}
