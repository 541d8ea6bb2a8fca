//! A recorded session, shown to the client that loads it.

use std::collections::BTreeMap;
use std::path::Path;

use agent_client_protocol::v1::schema::SessionUpdate;
use rawko::RunEvent;
use rawko::journal::{JournalError, read};
use rawko::timeline::{Fact, Timeline, TimelineEntry};

use super::turn::windows;
use super::updates::{asked, maker};

/// What happened in the session whose journal is at `path`. Blocks.
pub(super) fn updates(path: &Path, has_terminals: bool) -> Result<Vec<SessionUpdate>, JournalError> {
    let journal = read(path)?;
    let (mut timeline, mut updates) = (Timeline::default(), Vec::new());
    let mut maker = maker(Path::new(""), BTreeMap::new(), has_terminals);
    // An end comes again when it is known what was changed; the last one counts.
    let mut end = None;
    for (record, event) in journal.events() {
        let entries = timeline.apply(record, event);
        if let Some(setup) = timeline.session().setup() {
            maker.tree = setup.place.directory.clone().into();
            maker.agents = windows(setup);
        }
        for TimelineEntry { at, fact, .. } in entries {
            match fact {
                Fact::TaskStarted { task } | Fact::TaskContinued { task } => {
                    updates.extend(end.take().iter().flat_map(|end| maker.of(end)));
                    updates.push(asked(task));
                }
                Fact::ModelReplied(reply) => {
                    let (agent, text) = (reply.call.purpose.to_string(), reply.message.text());
                    if !text.trim().is_empty() {
                        updates.extend(maker.of(&RunEvent::TextDelta { agent, text }));
                    }
                }
                Fact::Ended(outcome) => end = Some(RunEvent::finished("", *outcome)),
                Fact::TaskTakenUp | Fact::SessionResumed => {
                    updates.extend(end.take().iter().flat_map(|end| maker.of(end)));
                }
                fact => updates.extend(RunEvent::of_fact(fact, at).iter().flat_map(|event| maker.of(event))),
            }
        }
    }
    updates.extend(end.iter().flat_map(|end| maker.of(end)));
    Ok(updates)
}
