//! Adopts a session that was driven elsewhere ([`elsewhere`](crate::elsewhere)): writes its journal from its events, as
//! if it had run in this project.
//!
//! The journal gets the user's own seal, so it is resumed like any other session of the user: the user who asks for it
//! vouches for where the events come from. When it is resumed, its grants are still checked against today's
//! configuration.

use std::path::{Path, PathBuf};

use rawko_core::session::Stamped;

use crate::error::Error;
use crate::journal::{Applied, FORMAT, Folding, JournalError, JournalHeader, JournalWriter, Record, read};
use crate::private::write_new;
use crate::session_id;
use crate::setup::rawko::Rawko;

impl Rawko {
    /// Writes the journal of a session that was driven elsewhere into this project, whole or not at all, and gives its path.
    /// `records` are the further files of the session's folder, by name. A session that is here already gets the newer records.
    ///
    /// # Errors
    /// [`Error::Setup`] if the session cannot be one of this project, or is here with other events; [`Error::Journal`]
    /// where it cannot be written.
    pub fn adopt(
        &self,
        header: JournalHeader,
        events: &[Stamped],
        records: &[(String, Vec<u8>)],
    ) -> Result<PathBuf, Error> {
        let session = header.session.clone();
        check(&header, records)?;
        let store = self.sessions();
        let header = self.sealed(header);
        if let Some((_, path)) = store.journals()?.into_iter().find(|(known, _)| *known == session) {
            bring_up_to_date(&path, &header, events)?;
            return Ok(path);
        }
        let made = store.create_filled(&header, |writer| {
            let mut folding = Folding::default();
            events.iter().try_for_each(|stamped| append(writer, &mut folding, stamped))?;
            let folder = writer.path().parent().map(Path::to_owned).unwrap_or_default();
            for (name, content) in records {
                let path = folder.join(name);
                write_new(&path, content).map_err(|error| JournalError::io("cannot write", &path, error))?;
            }
            Ok(())
        });
        Ok(made?)
    }
}

/// Refuses what no session of a project can be: it comes from elsewhere, and its names become parts of paths.
fn check(header: &JournalHeader, records: &[(String, Vec<u8>)]) -> Result<(), Error> {
    let refuse = |message: String, hint: &str| Err(Error::Setup { message, hint: hint.to_owned() });
    let session = header.session.escape_debug();
    if !session_id::is_id(&header.session) {
        let hint = "its id is like 20261122-094512-417-x7f2k: the place that it comes from may be damaged";
        return refuse(format!("`{session}` is no session's id"), hint);
    }
    if header.format != FORMAT {
        let message = format!(
            "session {session} has events of format {}, and this rawko writes format {FORMAT}",
            header.format
        );
        return refuse(message, "use the rawko of the workers that carried it");
    }
    let is_record = |name: &str| {
        let stem = name.strip_suffix(".json").unwrap_or_default();
        stem.starts_with("checks") && stem.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    match records.iter().find(|(name, _)| !is_record(name)) {
        Some((name, _)) => refuse(
            format!("session {session} has a file that no session has: `{}`", name.escape_debug()),
            "the place that it comes from may be damaged",
        ),
        None => Ok(()),
    }
}

/// Appends the events that a session which is here does not have yet.
fn bring_up_to_date(path: &Path, header: &JournalHeader, events: &[Stamped]) -> Result<(), Error> {
    let other = || Error::Setup {
        message: format!("session {} is here already, and has gone another way since", header.session),
        hint: format!("to take the other one, remove it first: rawko sessions rm {} --yes", header.session),
    };
    // A journal that is being written belongs to its process; one that needs nothing is not touched.
    let here = read(path)?;
    let is_same =
        JournalHeader { seal: None, ..here.header } == JournalHeader { seal: None, ..header.clone() };
    let known: Vec<&Stamped> = here.records.iter().filter_map(event).collect();
    if !is_same || !known.iter().zip(events).all(|(here, there)| *here == there) {
        return Err(other());
    }
    if known.len() >= events.len() {
        return Ok(());
    }
    let (mut writer, journal) = JournalWriter::reopen(path)?;
    let mut known = journal.records.iter().filter_map(event);
    let mut folding = Folding::default();
    for stamped in events {
        match known.next() {
            None => append(&mut writer, &mut folding, stamped)?,
            Some(here) if here == stamped => {
                let Applied { step, seq, .. } = folding.apply(stamped);
                // The process ended between the two records.
                if !step.is_empty() && writer.next_seq() == seq + 1 {
                    writer.step(&step)?;
                }
            }
            Some(_) => return Err(other()),
        }
    }
    Ok(writer.commit()?)
}

fn event(record: &Record) -> Option<&Stamped> {
    match record {
        Record::Event(stamped) => Some(stamped),
        Record::Step(_) => None,
    }
}

fn append(writer: &mut JournalWriter, folding: &mut Folding, stamped: &Stamped) -> Result<(), JournalError> {
    writer.event(stamped)?;
    let step = folding.apply(stamped).step;
    if step.is_empty() { Ok(()) } else { writer.step(&step) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TrustStore;
    use crate::journal::{SessionStatus, fold};

    struct Place {
        folder: tempfile::TempDir,
        rawko: Rawko,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let project = folder.path().join("project");
            std::fs::create_dir(&project).unwrap();
            let trust = TrustStore::new(&folder.path().join("state"));
            let rawko = Rawko::builder().project(project).trust_store(trust).env(|_| None).build().unwrap();
            Self { folder, rawko }
        }

        fn adopt(&self, events: &[Stamped]) -> Result<PathBuf, Error> {
            self.rawko.adopt(header(), events, &[("checks-0.json".to_owned(), b"{}".to_vec())])
        }
    }

    fn header() -> JournalHeader {
        let session = "20261122-094512-417-x7f2k".to_owned();
        JournalHeader { format: FORMAT, session, task: "fix it".to_owned(), ..JournalHeader::default() }
    }

    /// The events of a whole session: plan, tools, a denial, a failure, an end.
    fn events() -> Vec<Stamped> {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/session/journal.jsonl");
        read(&golden).unwrap().records.iter().filter_map(event).cloned().collect()
    }

    fn events_in(path: &Path) -> Vec<Stamped> {
        read(path).unwrap().records.iter().filter_map(event).cloned().collect()
    }

    #[track_caller]
    fn check_refused(result: Result<PathBuf, Error>, part: &str) {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(part), "{error} lacks {part}");
    }

    #[test]
    fn what_was_driven_elsewhere_is_a_session_like_any_other() {
        let (place, events) = (Place::new(), events());
        let path = place.adopt(&events).unwrap();
        let journal = read(&path).unwrap();
        assert_eq!(events_in(&path), events);
        assert_eq!(fold(&journal).divergence, None, "the steps follow from the events");
        assert!(fold(&journal).unrecorded.is_none());
        let listed = place.rawko.sessions().list().unwrap();
        assert_eq!(listed.iter().map(|info| info.status).collect::<Vec<_>>(), [SessionStatus::Ended]);
        assert_eq!(std::fs::read(path.with_file_name("checks-0.json")).unwrap(), b"{}");
        place.rawko.check_origin(&journal.header).expect("it has the user's seal");
        assert!(place.folder.path().join("state/journal.key").exists());
    }

    #[test]
    fn a_session_that_is_here_gets_the_newer_events() {
        let (place, events) = (Place::new(), events());
        let whole = Place::new().adopt(&events).map(|path| std::fs::read(path).unwrap()).unwrap();
        for to in 1..=events.len() {
            let path = place.adopt(&events[..to]).unwrap();
            assert_eq!(events_in(&path), events[..to]);
            assert!(fold(&read(&path).unwrap()).unrecorded.is_none(), "{to}");
        }
        // Less than what is here changes nothing.
        let path = place.adopt(&events[..2]).unwrap();
        assert_eq!(events_in(&path), events);
        let lines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines(&std::fs::read(&path).unwrap()), lines(&whole));
    }

    #[test]
    fn a_record_that_a_crash_took_is_written_again() {
        let (place, events) = (Place::new(), events());
        let path = place.adopt(&events[..2]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let last = text.trim_end().lines().last().unwrap();
        assert!(last.contains(r#""kind":"step""#), "{last}");
        std::fs::write(&path, text.strip_suffix(&format!("{last}\n")).unwrap()).unwrap();
        assert!(fold(&read(&path).unwrap()).unrecorded.is_some());
        let path = place.adopt(&events).unwrap();
        let folded = fold(&read(&path).unwrap());
        assert_eq!((folded.divergence, folded.unrecorded), (None, None));
    }

    #[test]
    fn a_session_that_went_another_way_here_is_kept() {
        let (place, events) = (Place::new(), events());
        let path = place.adopt(&events[..3]).unwrap();
        let before = std::fs::read(&path).unwrap();
        let mut others = events.clone();
        others[2].at.0 += 1;
        check_refused(place.adopt(&others), "has gone another way");
        let other_task = JournalHeader { task: "another".to_owned(), ..header() };
        check_refused(place.rawko.adopt(other_task, &events, &[]), "has gone another way");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let (place, events) = (Place::new(), events());
        for session in ["", "..", "../../x", "one", "20261122-094512-417-x7f2k/../y"] {
            let header = JournalHeader { session: session.to_owned(), ..header() };
            check_refused(place.rawko.adopt(header, &events, &[]), "is no session's id");
        }
        for name in
            ["", "journal.jsonl", "checks/../../x.json", "checks.json.new", "lock", "checks\u{1b}.json"]
        {
            let record = (name.to_owned(), Vec::new());
            check_refused(place.rawko.adopt(header(), &events, &[record]), "that no session has");
        }
        let newer = JournalHeader { format: FORMAT + 1, ..header() };
        check_refused(place.rawko.adopt(newer, &events, &[]), "events of format");
        assert!(place.rawko.sessions().list().unwrap().is_empty());
    }
}
