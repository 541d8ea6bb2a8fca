//! What must hold at the end of every run, however often it was killed.

use std::collections::{BTreeMap, BTreeSet};

use rawko::journal::{JournaledEffect, fold};
use rawko_core::machine::State;
use rawko_core::session::{EffectAnswer, Event};

use crate::baseline::{Baseline, changes, effects, events, replies};
use crate::support::Said;
use crate::world::World;

/// Whether the only session has come to its end, and has recorded it.
pub(crate) fn is_over(world: &World) -> bool {
    let folded = fold(&world.journal());
    folded.session.state().is_final() && folded.unrecorded.is_none()
}

/// The same end, the same files, every line once, nothing answered twice, and a journal that leads to what it says.
/// `ended` is how the last process ended, if it was not killed after the last record. Gives how many changes were lost.
#[track_caller]
pub(crate) fn check(what: &str, ended: Option<&Said>, world: &World, baseline: &Baseline) -> usize {
    let said = || match ended {
        Some(ended) => format!("{what}\n{}\n{}", ended.out, ended.err),
        None => what.to_owned(),
    };
    let replayed = world.replay();
    assert_eq!(replayed.code, Some(0), "{what}: {}{}", replayed.out, replayed.err);
    if let Some(ended) = ended {
        assert_eq!(ended.code, Some(0), "{}", said());
        let finish = ended.finish();
        for field in ["type", "status", "summary", "iterations", "error"] {
            assert_eq!(finish[field], baseline.finish[field], "{field}: {}", said());
        }
    }
    assert_eq!(world.tree(), baseline.tree, "{}", said());
    let (mut lines, mut expected) = (world.lines(), baseline.lines.clone());
    // A change that was made after the model had looked comes later than it would have.
    lines.sort_unstable();
    expected.sort_unstable();
    assert_eq!(lines, expected, "{}", said());

    let journal = world.journal();
    assert_eq!(journal.torn_bytes, 0, "{what}");
    let folded = fold(&journal);
    assert_eq!(folded.divergence, None, "{what}");
    assert_eq!((folded.session.state(), folded.unrecorded), (State::Complete, None), "{what}");
    let records = &journal.records;
    let (lost, mended) = answers(what, records);
    assert_eq!(lost, mended, "{what}: what was lost and what the model made sure of");
    let mends = mends(records).count();
    assert_eq!(replies(records), replies(&baseline.journal.records) + mends, "{what}: model calls answered");
    lost.len()
}

/// Checks that every effect has one answer at most and every change one beginning, and gives the script's changes that
/// were lost, and those that the model made sure of.
#[track_caller]
fn answers(what: &str, records: &[rawko::journal::Record]) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut answered = BTreeSet::new();
    let mut lost_effects = BTreeSet::new();
    for event in events(records) {
        let effect = match event {
            Event::Answered { effect, answer: EffectAnswer::ModelReplied { .. } }
            | Event::Answered { effect, answer: EffectAnswer::ModelFailed { .. } }
            | Event::Answered { effect, answer: EffectAnswer::ToolFinished { .. } }
            | Event::Answered { effect, answer: EffectAnswer::OutsideAgentEnded { .. } }
            | Event::Answered { effect, answer: EffectAnswer::ApprovalAnswered { .. } }
            | Event::Answered { effect, answer: EffectAnswer::CheckpointTaken { .. } }
            | Event::Answered { effect, answer: EffectAnswer::TreeInspected { .. } }
            | Event::Answered { effect, answer: EffectAnswer::MemoriesRecalled { .. } }
            | Event::Answered { effect, answer: EffectAnswer::MemoryKept { .. } }
            | Event::Answered { effect, answer: EffectAnswer::TreeInspectionFailed { .. } }
            | Event::Answered { effect, answer: EffectAnswer::VerificationFinished { .. } }
            | Event::Answered { effect, answer: EffectAnswer::CheckpointFailed { .. } }
            | Event::Answered { effect, answer: EffectAnswer::HooksAnswered { .. } }
            | Event::Answered { effect, answer: EffectAnswer::TimerFired } => *effect,
            Event::Answered { effect, answer: EffectAnswer::EffectLost } => {
                lost_effects.insert(*effect);
                *effect
            }
            Event::TaskStarted { .. }
            | Event::TaskContinued { .. }
            | Event::TaskTakenUp { .. }
            | Event::SessionResumed { .. }
            | Event::OverrideRequested { .. }
            | Event::CancelRequested { .. }
            | Event::FinalTreeInspected { .. }
            | Event::WorkLanded { .. }
            | Event::RanBeside { .. }
            | Event::AgentsReloaded { .. } => continue,
        };
        assert!(answered.insert(effect), "{what}: {effect} was answered twice");
    }
    let mut begun: BTreeMap<String, u32> = BTreeMap::new();
    let mut lost = BTreeSet::new();
    for effect in effects(records).filter(|effect| changes(effect)) {
        let JournaledEffect::RunTool { id, call, .. } = effect else { continue };
        *begun.entry(call.id.clone()).or_default() += 1;
        if lost_effects.contains(id) {
            lost.insert(own(&call.id).to_owned());
        }
    }
    let twice: Vec<_> = begun.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{what}: begun more than once: {twice:?}");
    let mended = mends(records).flatten().map(|id| own(&id).to_owned()).collect();
    (lost, mended)
}

/// For each turn of the model in which it made sure of something, the ids of its calls.
fn mends(records: &[rawko::journal::Record]) -> impl Iterator<Item = Vec<String>> {
    events(records).filter_map(|event| {
        let Event::Answered { answer: EffectAnswer::ModelReplied { message, .. }, .. } = event else {
            return None;
        };
        let ids: Vec<String> =
            message.tool_calls().map(|call| call.id.clone()).filter(|id| id.starts_with("mend")).collect();
        (!ids.is_empty()).then_some(ids)
    })
}

fn own(id: &str) -> &str {
    id.strip_prefix("mend").and_then(|rest| rest.split_once('-')).map_or(id, |(_, own)| own)
}
