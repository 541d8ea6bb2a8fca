//! `rawko sessions show`: the events of a session, derived from its journal.

use std::io;
use std::path::Path;

use rawko::journal::{Journal, SessionStore, read, session_cost, tasks};
use rawko::{RecordedRun, RunEvent};
use rawko_core::session::Outcome;
use serde_json::json;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Clock;
use crate::reporters::{PlainReporter, Reporter as _, Summary, Verbosity};
use crate::verify_args::VerifyArgs;
use crate::workspace::Workspace;

/// Shows the events of a session.
pub(super) fn show(
    workspace: &Workspace,
    store: &SessionStore,
    id: &str,
    verbose: bool,
    as_json: bool,
) -> Result<Exit, Failure> {
    let path = store.find(id)?;
    let journal = read(&path)?;
    let history = ReplayedSession::of(&journal, &path);
    let console = &workspace.console;
    if as_json {
        let tasks = tasks(&journal);
        console.json(&json!({
            "header": journal.header,
            "journal": path,
            "tornBytes": journal.torn_bytes,
            "outcome": history.outcome,
            "paused": history.is_paused,
            "costUsd": session_cost(&tasks),
            "tasks": tasks,
            "events": history.events,
        }))?;
        return Ok(Exit::Success);
    }
    let verbosity = if verbose { Verbosity::Verbose } else { Verbosity::Normal };
    let mut reporter = PlainReporter::new(console.paint(), verbosity, Clock::local(), io::stdout());
    for event in &history.events {
        reporter.event(event)?;
    }
    if journal.torn_bytes > 0 {
        reporter.notice(&format!(
            "the last record is incomplete and was left out: {} bytes, after a power cut or on a full disk",
            journal.torn_bytes
        ))?;
    }
    reporter.close()?;
    let summary =
        history.events.last().and_then(|event| Summary::of(event, Some(path.display().to_string()), false));
    match summary {
        Some(summary) => {
            let not_kept = not_kept(workspace, &history.verify);
            let summary = Summary { not_kept, ..summary };
            console.write(&format!("\n{}", summary.text(console)))?;
        }
        None => {
            let waits = match (history.is_waiting, history.is_paused) {
                (true, _) => " It waits for an approval: `rawko approve` shows it.",
                (false, true) => " It is paused: `rawko steer go` ends the pause.",
                (false, false) => "",
            };
            console
                .write(&format!("\nThe session has not ended: it is running or was interrupted.{waits}\n"))?;
        }
    }
    Ok(Exit::Success)
}

/// The options that a command which goes on with the session has to repeat.
fn not_kept(workspace: &Workspace, verify: &[String]) -> String {
    // Where the configuration has errors, the command that goes on says so.
    let Ok(rawko) = workspace.builder().build() else { return String::new() };
    VerifyArgs::recorded(verify, &rawko.verification_plan()).as_options()
}

/// The events of a session as a live run would have sent them.
struct ReplayedSession {
    events: Vec<RunEvent>,
    /// The verification commands of its last task.
    verify: Vec<String>,
    outcome: Option<Outcome>,
    /// Whether it waits for a person.
    is_waiting: bool,
    /// Whether the user has paused it.
    is_paused: bool,
}

impl ReplayedSession {
    /// Folds the journal's events once more.
    fn of(journal: &Journal, path: &Path) -> Self {
        let mut history = Self {
            events: Vec::new(),
            verify: Vec::new(),
            outcome: None,
            is_waiting: false,
            is_paused: false,
        };
        let mut run = RecordedRun::new(journal.header.clone(), path);
        for (_, stamped) in journal.events() {
            let events = run.take(stamped);
            if !run.session().state().is_final() {
                history.outcome = None;
            }
            if let Some(outcome) = events.last().and_then(RunEvent::outcome) {
                if stamped.event.completes_end() {
                    history.events.pop();
                }
                history.outcome = Some(outcome.clone());
            }
            history.events.extend(events);
        }
        let session = run.session();
        history.is_paused = session.paused_since().is_some();
        history.is_waiting = session.open_question().is_some();
        let verify = session.setup().and_then(|setup| setup.verify.as_ref());
        history.verify = verify.map(|verify| verify.commands.clone()).unwrap_or_default();
        history
    }
}
