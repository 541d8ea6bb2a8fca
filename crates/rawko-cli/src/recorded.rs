//! What a reporter is given of a session that has a past, and the outcome of one that is left without an end.

use std::path::Path;

use rawko::journal::{JournalTail, Record};
use rawko::{RecordedRun, RunEvent};
use rawko_core::session::{Outcome, Session, Status};
use rawko_core::{ErrorCode, ErrorInfo, Timestamp};

use crate::reporters::Reporter;

/// Gives a reporter what the session at `path` has done, before it goes on. Unreadable records are left out: resuming
/// has read them before.
pub(crate) fn recall(path: &Path, reporter: &mut dyn Reporter) {
    let Ok(mut tail) = JournalTail::open(path) else { return };
    let mut run = RecordedRun::new(tail.header().clone(), path);
    let mut last: Option<(u64, Timestamp, Vec<RunEvent>)> = None;
    while let Ok(Some(record)) = tail.next_record() {
        if let Some((gap, at, events)) = last.take() {
            reporter.gap(gap);
            reporter.recalled(&events, at);
        }
        if let Record::Event(stamped) = record {
            last = Some((run.gap_before(&stamped), stamped.at, run.take(&stamped)));
        }
    }
    if let Some((gap, at, mut events)) = last {
        // What the last event led to was not recorded, so the process that goes on reports it.
        events.retain(|event| !matches!(event, RunEvent::Note(_) | RunEvent::ToolBegun { .. }));
        reporter.gap(gap);
        reporter.recalled(&events, at);
    }
}

/// The outcome of a run that is ended at once, because of a second `signal`: what its journal at `path` has until now.
pub(crate) fn abandoned(path: &Path, signal: &str) -> Outcome {
    let (mut session, mut at) = (Session::new(), Timestamp::default());
    if let Ok(mut tail) = JournalTail::open(path) {
        while let Ok(Some(record)) = tail.next_record() {
            if let Record::Event(stamped) = record {
                at = stamped.at;
                let _ = session.apply(&stamped);
            }
        }
    }
    let stopped = format!("Stopped at once by a second {signal}; the journal has");
    let no_end = ErrorInfo::new(ErrorCode::JournalIncomplete, format!("{stopped} no end."));
    let so_far = session.broken_off(at, no_end);
    let (summary, error) = match session.state().is_final() {
        true => (format!("{stopped} the end of the run."), None),
        false => (so_far.summary, so_far.error),
    };
    Outcome { status: Status::Cancelled, summary, error, files_modified_partial: true, ..so_far }
}
