//! `rawko watch [ID]`: follows a session by its journal, and reports it as a live run is reported. It changes nothing,
//! and the session goes on when it ends.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rawko::journal::{SessionStatus, SessionStore};
use rawko::{FollowedSession, RunEvent, SessionNews};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::clean_line;
use crate::reporters::{OutputFormat, Reporter, Summary, Verbosity, reporter};
use crate::run_args::exit_of;
use crate::runtime::block_on;
use crate::signals::StopSignals;
use crate::workspace::Workspace;

/// How often to look whether the journal has grown. That is a few system calls, so that watching costs next to nothing.
const LOOK: Duration = Duration::from_millis(100);

/// Options of `rawko watch`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WatchArgs {
    /// Session id, or the beginning or end of it; `last` is the latest. Without one, the newest that is running, or else
    /// the newest
    id: Option<String>,
    /// Output format: text for people, json for the result as one JSON object, stream-json for every event as one
    /// object a line
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<OutputFormat>,
    /// Print every event as one JSON object a line, as --output stream-json does
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// Also show rules, latencies, cache hits and tool output
    #[arg(long, short)]
    verbose: bool,
}

/// How watching a session ended.
enum SessionWatchEnd {
    /// The session ended, with this event.
    Finished { event: Box<RunEvent> },
    /// No process carries the session, and it has no end.
    Interrupted,
    /// The user does not want to see more.
    Detached,
}

/// Follows the session.
pub(crate) fn run(workspace: &Workspace, arguments: &WatchArgs) -> Result<Exit, Failure> {
    let path = chosen(&workspace.sessions()?, arguments.id.as_deref())?;
    let console = &workspace.console;
    let format = match arguments.json {
        true => OutputFormat::StreamJson,
        false => arguments.output.unwrap_or_default(),
    };
    let verbosity = if arguments.verbose { Verbosity::Verbose } else { Verbosity::Normal };
    let watched = FollowedSession::open(&path).map_err(rawko::Error::from)?;
    let name = clean_line(watched.id());
    let mut reporter = reporter(*console, format, (verbosity, true), &workspace.keyboard, None);
    match block_on(follow(watched, reporter.as_mut()))? {
        SessionWatchEnd::Finished { event: finished } => {
            let summary = Summary::of(&finished, Some(path.display().to_string()), false);
            if let Some(summary) = summary.filter(|_| format == OutputFormat::Text) {
                console.write(&summary.text(console))?;
            }
            Ok(exit_of(&finished, false))
        }
        SessionWatchEnd::Interrupted => {
            console.write_error(&console.commands(&format!(
                "no process runs session {name}, and it has not ended; to go on: rawko resume {name}\n"
            )))?;
            Ok(Exit::Failed)
        }
        SessionWatchEnd::Detached => {
            console.write_error(&console.commands(&format!(
                "no longer watching; session {name} goes on. To stop it: rawko cancel {name}\n"
            )))?;
            Ok(Exit::Success)
        }
    }
}

/// The journal of the session that is meant.
fn chosen(store: &SessionStore, id: Option<&str>) -> Result<PathBuf, Failure> {
    let find = |id: &str| store.find(id).map_err(|error| Failure::from(rawko::Error::from(error)));
    if let Some(id) = id {
        return find(id);
    }
    let sessions = store.list().map_err(rawko::Error::from)?;
    let running = sessions.iter().rev().find(|session| session.status == SessionStatus::Running);
    match running.or(sessions.last()) {
        Some(session) => find(&session.id),
        None => Err(Failure::usage("there are no sessions in this folder")
            .with_hint("to start one: rawko \"a task\"")),
    }
}

/// Reports what there is and what comes, from the beginning of the present task, until the session ends.
async fn follow(
    mut session: FollowedSession,
    reporter: &mut (dyn Reporter + Send),
) -> Result<SessionWatchEnd, Failure> {
    let mut signals = StopSignals::listen()?;
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut is_first = true;
    let ended = loop {
        tokio::select! {
            biased;
            _ = signals.next() => break SessionWatchEnd::Detached,
            _ = looks.tick() => {}
        }
        // Asked before the look: what a process wrote before it ended is seen then.
        let is_written = session.is_written();
        let mut news = session.news().map_err(rawko::Error::from)?;
        if std::mem::take(&mut is_first) {
            let begins = |news: &SessionNews| matches!(news, SessionNews::Event(event, _) if matches!(**event, RunEvent::SessionStarted { .. }));
            news.drain(..news.iter().rposition(begins).unwrap_or(0));
        }
        for news in &news {
            match news {
                SessionNews::Event(event, at) => reporter.recorded(event, *at)?,
                SessionNews::Gap(ms) => reporter.gap(*ms),
            }
        }
        if let Some((finished, at)) = session.end(is_written) {
            reporter.recorded(&finished, at)?;
            break SessionWatchEnd::Finished { event: Box::new(finished) };
        }
        if !is_written {
            break SessionWatchEnd::Interrupted;
        }
        if reporter.is_animated() {
            reporter.tick()?;
        }
    };
    reporter.close()?;
    Ok(ended)
}
