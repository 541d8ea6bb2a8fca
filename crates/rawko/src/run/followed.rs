//! Follows a session that another process runs, or shows one that has ended: what its journal says, as live events.

use std::path::Path;

use rawko_core::Timestamp;

use crate::isolation::was_isolated;
use crate::journal::{JournalError, JournalTail, Record};
use crate::run::event::RunEvent;
use crate::run::recorded::RecordedRun;

/// What a journal says of a session.
#[derive(Debug)]
pub enum SessionNews {
    /// An event, and when it happened.
    Event(Box<RunEvent>, Timestamp),
    /// No process carried the session for so long, in milliseconds.
    Gap(u64),
}

/// A session that is followed. It never holds the run back.
#[derive(Debug)]
pub struct FollowedSession {
    tail: JournalTail,
    run: RecordedRun,
    /// Its end, where it has one.
    finished: Option<(RunEvent, Timestamp)>,
}

impl FollowedSession {
    /// Opens the journal at `path`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let tail = JournalTail::open(path)?;
        let run = RecordedRun::new(tail.header().clone(), path);
        Ok(Self { tail, run, finished: None })
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.tail.header().session
    }

    /// Where its journal is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.tail.path()
    }

    /// The session as far as it was read.
    #[must_use]
    pub fn run(&self) -> &RecordedRun {
        &self.run
    }

    /// Whether a process runs it. To be asked before [`Self::news`]: what a process wrote before it ended is seen then.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.tail.is_written()
    }

    /// What has been written since the last look, without the end.
    ///
    /// # Errors
    /// If the journal cannot be read any more.
    pub fn news(&mut self) -> Result<Vec<SessionNews>, JournalError> {
        let mut news = Vec::new();
        while let Some(record) = self.tail.next_record()? {
            let Record::Event(stamped) = record else { continue };
            let gap = self.run.gap_before(&stamped);
            news.extend((gap > 0).then_some(SessionNews::Gap(gap)));
            for event in self.run.take(&stamped) {
                match event.outcome() {
                    // It comes again if more becomes known of it.
                    Some(_) => self.finished = Some((event, stamped.at)),
                    None => news.push(SessionNews::Event(Box::new(event), stamped.at)),
                }
            }
            if !self.run.session().state().is_final() {
                self.finished = None;
            }
        }
        Ok(news)
    }

    /// Its last event, and when it happened, once all is known of it. Gives it once. `is_written` is what
    /// [`Self::is_written`] said before the last look.
    pub fn end(&mut self, is_written: bool) -> Option<(RunEvent, Timestamp)> {
        let session = self.run.session();
        let is_landed = || session.outcome().is_some_and(|outcome| outcome.landing.is_some());
        let is_isolated = self.path().parent().is_some_and(was_isolated);
        let is_whole = session.unseen_tree().is_none() && (!is_isolated || is_landed());
        let is_whole = is_whole || !is_written;
        self.finished.take_if(|_| is_whole)
    }
}
