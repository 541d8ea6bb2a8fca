//! Taking a session up where its journal ends (`spec/sessions.md`, "Resume").

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rawko_core::request::Purpose;
use rawko_tools::{Digest, FileTracker};

use crate::driver::Start;
use crate::error::Error;
use crate::journal::{Folded, JournalWriter, SeenByAgent, SessionStatus, fold};
use crate::launch::Launch;
use crate::rawko::Rawko;
use crate::run::Run;

impl Rawko {
    /// Prepares to go on with the session `id` (an id, the beginning or end of one, or `last`); without one, with the
    /// latest that has no end and that nobody works on. Nothing that was finished is done again: a model call whose
    /// answer is missing is put again, a read is done again, anything else that was begun is reported to the agent
    /// as of unknown outcome.
    ///
    /// # Errors
    /// [`Error::Journal`] where the journal cannot be taken up, [`Error::Diverged`] where this rawko does not come to
    /// what it recorded, [`Error::Setup`] where there is nothing to resume.
    pub fn resume(&self, id: Option<&str>) -> Result<Run, Error> {
        let store = self.sessions();
        let path = match id {
            Some(id) => store.find(id)?,
            None => store.find(&self.latest_unfinished()?)?,
        };
        let (journal, read) = JournalWriter::reopen(&path)?;
        let session = read.header.session.clone();
        let folded = fold(&read);
        if let Some(divergence) = folded.divergence {
            return Err(Error::Diverged { session, divergence });
        }
        let (Some(setup), Some(task)) =
            (folded.session.setup().cloned(), folded.session.context().map(|context| context.task.clone()))
        else {
            return Err(nothing_to_do(&session, "it ended before its task was recorded"));
        };
        if folded.session.state().is_final() && folded.unrecorded.is_none() {
            return Err(nothing_to_do(&session, "it has ended"));
        }
        let providers = self.providers(&setup)?;
        let mut answered: BTreeMap<&str, Vec<Purpose>> = BTreeMap::new();
        for (provider, purpose) in &folded.answered {
            answered.entry(provider).or_default().push(purpose.clone());
        }
        for (name, purposes) in answered {
            if let Some(provider) = providers.get(name) {
                provider.resumed(&purposes);
            }
        }
        let tracker = Arc::new(FileTracker::new());
        let changed_files = remember(&tracker, &folded, self.project());
        self.launch(Launch {
            id: session,
            task: &task,
            journal,
            setup: &setup,
            providers,
            tracker,
            start: Start::Resumed { folded: Box::new(folded), changed_files },
            scratch: None,
        })
    }

    fn latest_unfinished(&self) -> Result<String, Error> {
        let sessions = self.sessions().list()?;
        let latest = sessions.into_iter().rev().find(|session| session.status == SessionStatus::Unfinished);
        latest.map(|session| session.id).ok_or_else(|| Error::Setup {
            message: "there is no unfinished session here".to_owned(),
            hint: "`rawko sessions list` shows all there are".to_owned(),
        })
    }
}

/// Gives the agents back what they knew of files, and says which of those somebody has changed since.
fn remember(tracker: &FileTracker, folded: &Folded, project: &Path) -> Vec<String> {
    let mut latest: BTreeMap<&str, &str> = BTreeMap::new();
    for SeenByAgent { agent, path, digest } in &folded.seen {
        if let Some(digest) = Digest::from_hex(digest) {
            tracker.record(agent, path, digest);
        }
        latest.insert(path, digest);
    }
    let changed = latest.into_iter().filter(|(path, digest)| {
        let now = std::fs::read(project.join(path)).ok().map(|bytes| format!("{:?}", Digest::of(&bytes)));
        now.as_deref() != Some(*digest)
    });
    changed.map(|(path, _)| path.to_owned()).collect()
}

fn nothing_to_do(session: &str, why: &str) -> Error {
    Error::Setup {
        message: format!("session {session} cannot be resumed: {why}"),
        hint: "`rawko fork` begins a new session from any point of it".to_owned(),
    }
}
