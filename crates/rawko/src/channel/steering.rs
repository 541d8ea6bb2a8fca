//! Steers a run from another process (`docs/steering.md`).
//!
//! `rawko steer` leaves its command in the session's folder (`left.rs`), where the process that runs the session looks for it.
//! A command counts once: it is removed when it is read, and one that is older than the process, or that the process has
//! read before, is not carried out. What becomes of it is in the journal, under the name that its sender gave it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rawko_core::Timestamp;
use rawko_core::session::{Note, Override, Session};
use serde::{Deserialize, Serialize};

use crate::channel::control::{DriverMessage, Signals, Steered};
use crate::channel::left::{Addressee, Left, LeftContent, sealer_for};
use crate::channel::seal::Sealer;
use crate::clock::now;
use crate::config::{TrustStore, nearest};
use crate::error::Error;
use crate::journal::{JournalTail, Record, SessionStore};
use crate::private::Existing;
use crate::session_id;

/// The folder for commands in a session's folder.
const FOLDER: &str = "steering";
/// The longest message, in bytes.
const LONGEST_TEXT: usize = 64 * 1024;
/// The most files that are looked at in one go.
const MOST_FILES: usize = 64;
/// How often the process that runs the session looks for commands.
const LOOK: Duration = Duration::from_millis(200);
/// How often the sender looks for the answer.
const LOOK_FOR_ANSWER: Duration = Duration::from_millis(30);

/// A command, as it is left for the process that runs the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SteeringRequest {
    /// Its name, which is that of its file too.
    request: String,
    command: Override,
}

impl LeftContent for SteeringRequest {
    const NAME: &'static str = "command";
    const LONGEST: u64 = 256 * 1024;
}

/// Where the process that runs a session finds commands.
pub(crate) struct Mailbox {
    session: String,
    project: PathBuf,
    folder: PathBuf,
    sealer: Sealer,
    /// Older commands were meant for another process.
    since: Timestamp,
    taken: BTreeSet<String>,
}

impl Mailbox {
    /// That of the session whose folder this is.
    pub(crate) fn new(session: &str, project: &Path, folder: &Path, sealer: Sealer) -> Self {
        Self {
            session: session.to_owned(),
            project: project.to_owned(),
            folder: folder.join(FOLDER),
            sealer,
            since: now(),
            taken: BTreeSet::new(),
        }
    }

    /// Gives the run every command that is left, for as long as the run lasts.
    pub(crate) async fn deliver(mut self, signals: Signals) {
        loop {
            tokio::time::sleep(LOOK).await;
            for SteeringRequest { request, command } in self.take() {
                let signal = DriverMessage::Steer { command, request: Some(request), reply: None };
                if signals.send(signal).is_err() {
                    return;
                }
            }
        }
    }

    /// The user's commands, oldest first. Each is given once; what has the name of a command is removed.
    fn take(&mut self) -> Vec<SteeringRequest> {
        // A link would lead to a folder of somebody else.
        if !self.folder.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            return Vec::new();
        }
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        // Any other file is no command, or is being written.
        let names = entries.map(|entry| entry.file_name());
        let is_request = |name: &std::ffi::OsString| name.to_str().is_some_and(session_id::is_id);
        let mut names: Vec<_> = names.filter(is_request).take(MOST_FILES).collect();
        names.sort();
        let mut commands = Vec::new();
        for name in names {
            let path = self.folder.join(&name);
            let command = self.read(&path).filter(|command| name.to_str() == Some(&command.request));
            let _ = std::fs::remove_file(&path);
            let Some(command) = command else { continue };
            if self.taken.insert(command.request.clone()) {
                commands.push(command);
            }
        }
        commands
    }

    fn read(&self, path: &Path) -> Option<SteeringRequest> {
        let to = Addressee { session: &self.session, project: &self.project };
        let left = Left::read(path, &self.sealer, to)?;
        (left.at >= self.since).then_some(left.what)
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Gives the session `id`, which another process runs, a command of the user, and waits at most `patience` until that
/// process has taken note of it. Gives the session's id and what became of the command.
///
/// # Errors
/// [`Error::Setup`] if no process runs the session, it has no such agent, or the process does not answer in time;
/// [`Error::UntrustedJournal`] if the user did not begin the session; [`Error::Journal`] if it cannot be read.
pub fn steer(
    store: &SessionStore,
    project: &Path,
    trust: &TrustStore,
    id: &str,
    command: Override,
    patience: Duration,
) -> Result<(String, Steered), Error> {
    let mut tail = JournalTail::open(&store.find(id)?)?;
    let session = tail.header().session.clone();
    let (sealer, project) = sealer_for(tail.header(), project, trust)?;
    let mut state = Session::new();
    while let Some(record) = tail.next_record()? {
        if let Record::Event(stamped) = record {
            let _ = state.apply(&stamped);
        }
    }
    check(&state, &tail, &command)?;
    let request = session_id::new(now());
    let left = SteeringRequest { request: request.clone(), command };
    let left = Left::new(left, now(), &sealer, Addressee { session: &session, project: &project });
    let folder = tail.path().parent().unwrap_or(store.folder()).join(FOLDER);
    left.leave(&folder, &request, Existing::Stays).map_err(|error| {
        let message = format!("the command cannot be left in {}: {error}", folder.display());
        refusal(message, "check that the folder is yours and the disk is not full")
    })?;
    let steered = answer(&mut tail, &request, patience);
    let withdrawn = std::fs::remove_file(folder.join(&request)).is_ok();
    if !tail.is_written() {
        let _ = std::fs::remove_dir(&folder);
    }
    match steered? {
        Some(steered) => Ok((session, steered)),
        None => {
            let what = if withdrawn { "it was withdrawn" } else { "it may still be carried out" };
            let message = format!(
                "the process that runs session {session} did not answer the command in {} s; {what}",
                patience.as_secs()
            );
            Err(refusal(
                message,
                "the process may be stopped or busy: try again, or `rawko cancel` the session",
            ))
        }
    }
}

fn refusal(message: String, hint: impl Into<String>) -> Error {
    Error::Setup { message, hint: hint.into() }
}

/// Whether a command to this session can have any effect.
fn check(state: &Session, tail: &JournalTail, command: &Override) -> Result<(), Error> {
    let session = &tail.header().session;
    if state.state().is_final() {
        let hint = format!("its next task: rawko continue {session} TASK");
        return Err(refusal(format!("session {session} has ended"), hint));
    }
    if !tail.is_written() {
        let message = format!("session {session} is not running: no process carries it");
        return Err(refusal(message, format!("to go on with it: rawko resume {session}")));
    }
    let Some(setup) = state.setup() else { return Ok(()) };
    match command {
        Override::ForceAgent { agent } if !setup.agents.contains_key(agent) => {
            let names = setup.agents.keys().map(String::as_str);
            let hint = match nearest(agent, names.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("its agents are: {}", names.collect::<Vec<_>>().join(", ")),
            };
            Err(refusal(format!("session {session} has no agent `{agent}`"), hint))
        }
        Override::Say { text } if text.len() > LONGEST_TEXT => Err(refusal(
            format!("the message is longer than {} KiB", LONGEST_TEXT / 1024),
            "put the material into a file of the project, and name the file in the message",
        )),
        Override::ForceAgent { .. }
        | Override::Say { .. }
        | Override::SkipStep
        | Override::Retry
        | Override::Pause
        | Override::Go
        | Override::Reset => Ok(()),
    }
}

/// What the journal says of the command; `None` if it says nothing in time.
fn answer(tail: &mut JournalTail, request: &str, patience: Duration) -> Result<Option<Steered>, Error> {
    let begun = Instant::now();
    loop {
        // Asked before the last look: what the process wrote before it ended is there then.
        let (is_written, is_over) = (tail.is_written(), begun.elapsed() >= patience);
        while let Some(record) = tail.next_record()? {
            let Record::Step(step) = record else { continue };
            for note in step.notes {
                if let Note::Steered { request: Some(name), ignored, .. } = note
                    && name == request
                {
                    return Ok(Some(Steered::of(ignored)));
                }
            }
        }
        if !is_written {
            return Ok(Some(Steered::over()));
        }
        if is_over {
            return Ok(None);
        }
        std::thread::sleep(LOOK_FOR_ANSWER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::place::TestFolders;

    impl TestFolders {
        fn mailbox(&self) -> Mailbox {
            let mut mailbox = Mailbox::new("s", Path::new("/p"), self.folder.path(), self.sealer());
            mailbox.since = Timestamp(100);
            mailbox
        }

        fn leave_command(
            &self,
            sealer: &Sealer,
            session: &str,
            project: &str,
            request: &str,
            at: u64,
        ) -> Left<SteeringRequest> {
            let command = Override::ForceAgent { agent: request.to_owned() };
            let to = Addressee { session, project: Path::new(project) };
            let left =
                Left::new(SteeringRequest { request: request.into(), command }, Timestamp(at), sealer, to);
            left.leave(&self.commands(), request, Existing::Stays).unwrap();
            left
        }

        fn commands(&self) -> PathBuf {
            self.folder.path().join(FOLDER)
        }
    }

    fn id(number: u32) -> String {
        format!("20261124-033054-322-8egm{}", char::from_digit(number + 10, 36).unwrap())
    }

    #[test]
    fn the_users_commands_count_once_and_in_order() {
        let place = TestFolders::new();
        let mut mailbox = place.mailbox();
        assert_eq!(mailbox.take(), []);
        let second = place.leave_command(&place.sealer(), "s", "/p", &id(2), 100);
        let first = place.leave_command(&place.sealer(), "s", "/p", &id(1), 101);
        assert_eq!(mailbox.take(), [first.what.clone(), second.what]);
        assert_eq!(std::fs::read_dir(place.commands()).unwrap().count(), 0);
        // Somebody has kept a copy.
        first.leave(&place.commands(), &id(1), Existing::Stays).unwrap();
        assert_eq!(mailbox.take(), []);
        first.leave(&place.commands(), &id(3), Existing::Stays).unwrap();
        assert_eq!(mailbox.take(), [], "under another name");
        drop(mailbox);
        assert!(!place.commands().exists());
    }

    #[test]
    fn commands_of_others_do_not_count() {
        let (place, theirs) = (TestFolders::new(), TestFolders::new());
        let mut mailbox = place.mailbox();
        place.leave_command(&theirs.sealer(), "s", "/p", &id(1), 100);
        place.leave_command(&place.sealer(), "t", "/p", &id(2), 100);
        place.leave_command(&place.sealer(), "s", "/q", &id(3), 100);
        // For the process before.
        place.leave_command(&place.sealer(), "s", "/p", &id(4), 99);
        let mut other = place.leave_command(&place.sealer(), "s", "/p", &id(5), 100);
        other.what.command = Override::Retry;
        std::fs::write(place.commands().join(id(5)), serde_json::to_vec(&other).unwrap()).unwrap();
        std::fs::write(place.commands().join(id(6)), "go").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", place.commands().join(id(7))).unwrap();
        assert_eq!(mailbox.take(), []);
        assert_eq!(std::fs::read_dir(place.commands()).unwrap().count(), 0, "they are removed");
        assert!(Path::new("/etc/passwd").exists());
    }

    #[test]
    fn what_is_no_command_stays_and_a_link_leads_nowhere() {
        let (place, theirs) = (TestFolders::new(), tempfile::tempdir().unwrap());
        let mut mailbox = place.mailbox();
        std::fs::write(theirs.path().join(id(1)), "theirs").unwrap();
        std::os::unix::fs::symlink(theirs.path(), place.commands()).unwrap();
        assert_eq!(mailbox.take(), []);
        assert!(theirs.path().join(id(1)).exists());
        std::fs::remove_file(place.commands()).unwrap();
        place.leave_command(&place.sealer(), "s", "/p", &id(2), 100);
        std::fs::write(place.commands().join("notes.txt"), "mine").unwrap();
        assert_eq!(mailbox.take().len(), 1);
        assert!(place.commands().join("notes.txt").exists());
    }
}
