//! A run's journal, read back and folded.

use rawko::journal::{Journal, Record};
use rawko_core::session::{Effect, Event, Outcome, Session};

use crate::support::World;

/// The only journal of a world, whole and verified.
#[track_caller]
pub(crate) fn only(world: &World) -> Journal {
    let journal = world.journal();
    assert_eq!(journal.torn_bytes, 0, "the journal ends in a torn line");
    assert_eq!(rawko::replay(&journal).difference, None, "the journal does not lead to what it recorded");
    journal
}

/// Whether there is any session at all.
pub(crate) fn is_there(world: &World) -> bool {
    world.store().list().is_ok_and(|listed| !listed.is_empty())
}

/// The end that the events alone lead to, and the end that was recorded: equal in a journal that tells the truth.
#[track_caller]
pub(crate) fn ends(journal: &Journal) -> (Option<Outcome>, Option<Outcome>) {
    let (mut folded, mut recorded) = (None, None);
    let mut session = Session::new();
    for record in &journal.records {
        match record {
            Record::Event(stamped) => {
                let reaction = session.apply(stamped);
                folded = reaction.effects.iter().find_map(Effect::outcome).cloned().or(folded);
            }
            Record::Step(step) => {
                let value = serde_json::to_value(step).unwrap();
                let effects = value["effects"].as_array().cloned().unwrap_or_default();
                let end = effects.into_iter().find(|effect| effect["type"] == "Finish");
                recorded =
                    end.map(|effect| serde_json::from_value(effect["outcome"].clone()).unwrap()).or(recorded);
            }
        }
    }
    (folded, recorded)
}

/// The events, in order.
pub(crate) fn events(journal: &Journal) -> impl Iterator<Item = &Event> {
    journal.records.iter().filter_map(|record| match record {
        Record::Event(stamped) => Some(&stamped.event),
        Record::Step(_) => None,
    })
}
