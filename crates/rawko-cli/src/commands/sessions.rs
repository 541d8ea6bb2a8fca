//! `rawko sessions`: runs of this folder, past and present, as their journals tell them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use clap::Subcommand;
use rawko::RunEvent;
use rawko::core::session::{Effect, Event, Outcome, Session, Stamped};
use rawko::core::text::truncate;
use rawko::journal::{Journal, Record, SessionInfo, SessionStatus, SessionStore, read};
use serde_json::json;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Table, clean_line, cost};
use crate::reporters::{Detail, Plain, Reporter as _, Summary};
use crate::workspace::Workspace;

/// What to do with the sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List them, the latest last
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Tell one of them again, from its journal
    Show {
        /// Its id, or the beginning or end of it; `last` is the latest
        #[arg(default_value = "last")]
        id: String,
        /// Tell rules, latencies, cache hits and the tools' output too
        #[arg(long, short)]
        verbose: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Carries the action out.
pub(crate) fn run(workspace: &Workspace, action: &Action) -> Result<Exit, Failure> {
    let folder = workspace.folder().canonicalize().map_err(|error| {
        Failure::usage(format!("cannot work in {}: {error}", workspace.folder().display()))
            .with_hint("name a folder that exists with --cwd DIR")
    })?;
    let store = SessionStore::of_project(&folder);
    match action {
        Action::List { json } => list(workspace, &store, *json),
        Action::Show { id, verbose, json } => show(workspace, &store, id, *verbose, *json),
    }
}

fn list(workspace: &Workspace, store: &SessionStore, as_json: bool) -> Result<Exit, Failure> {
    let sessions = store.list().map_err(rawko::Error::from)?;
    let console = &workspace.console;
    if as_json {
        console.json(&sessions)?;
        return Ok(Exit::Success);
    }
    if sessions.is_empty() {
        console.line("no sessions yet: rawko \"a task\" begins one")?;
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["ID", "BEGUN", "STATUS", "COST", "TASK"]);
    for session in &sessions {
        table.row(row(session));
    }
    console.write(&table.render(console.paint()))?;
    Ok(Exit::Success)
}

fn row(session: &SessionInfo) -> Vec<String> {
    let (status, spent) = match (session.status, &session.outcome) {
        (_, Some(outcome)) => (outcome.status.as_str(), cost(outcome.cost_usd)),
        (SessionStatus::Running, None) => ("running", "-".to_owned()),
        (SessionStatus::Unfinished | SessionStatus::Ended, None) => ("unfinished", "-".to_owned()),
        (SessionStatus::Unreadable, None) => ("unreadable", "-".to_owned()),
    };
    vec![
        clean_line(&session.id),
        session.created_at.to_rfc3339().chars().take(16).collect::<String>().replace('T', " "),
        status.to_owned(),
        spent,
        truncate(&clean_line(&session.task), 60),
    ]
}

fn show(
    workspace: &Workspace,
    store: &SessionStore,
    id: &str,
    verbose: bool,
    as_json: bool,
) -> Result<Exit, Failure> {
    let path = store.find(id).map_err(|error| Failure::usage(error.to_string()))?;
    let journal = read(&path).map_err(rawko::Error::from)?;
    let told = told(&journal, &path);
    let console = &workspace.console;
    if as_json {
        console.json(&json!({
            "header": journal.header,
            "journal": path,
            "tornBytes": journal.torn_bytes,
            "outcome": told.outcome,
            "events": told.events,
        }))?;
        return Ok(Exit::Success);
    }
    let detail = if verbose { Detail::Verbose } else { Detail::Normal };
    let mut reporter = Plain::new(console.paint(), detail, io::stdout());
    for event in &told.events {
        reporter.tell(event)?;
    }
    if journal.torn_bytes > 0 {
        reporter.notice(&format!(
            "the last record is incomplete and left out: {} bytes, from a power cut or a full disk",
            journal.torn_bytes
        ))?;
    }
    reporter.close()?;
    let summary =
        told.events.last().and_then(|event| Summary::of(event, Some(path.display().to_string()), false));
    match summary {
        Some(summary) => console.write(&format!("\n{}", summary.text(console.paint())))?,
        None => console.write("\nIt has no end: it is running, or was interrupted.\n")?,
    }
    Ok(Exit::Success)
}

/// What a journal tells.
struct Told {
    events: Vec<RunEvent>,
    outcome: Option<Outcome>,
}

/// The run told again: the same events folded by the same core.
fn told(journal: &Journal, path: &Path) -> Told {
    let id = &journal.header.session;
    let mut told = Told { events: Vec::new(), outcome: None };
    let mut session = Session::new();
    let mut speakers = BTreeMap::new();
    for record in &journal.records {
        let Record::Event(stamped) = record else { continue };
        told.events.extend(before(stamped, id, path, &speakers));
        let reaction = session.apply(stamped);
        told.events.extend(reaction.notes.iter().map(RunEvent::of_note));
        for effect in &reaction.effects {
            match effect {
                Effect::CallModel { id, purpose, .. } => {
                    speakers.insert(*id, purpose.to_string());
                }
                Effect::Finish { outcome } => {
                    told.events.push(RunEvent::finished(id, outcome));
                    told.outcome = Some((**outcome).clone());
                }
                Effect::RunTool { .. }
                | Effect::TakeCheckpoint { .. }
                | Effect::StartTimer { .. }
                | Effect::Abandon { .. } => {}
            }
        }
    }
    told
}

/// What watchers were told of an event itself, before what it led to.
fn before(
    stamped: &Stamped,
    session: &str,
    path: &Path,
    speakers: &BTreeMap<rawko::core::session::EffectId, String>,
) -> Option<RunEvent> {
    match &stamped.event {
        Event::TaskStarted { task, setup } => Some(RunEvent::SessionStarted {
            session: session.to_owned(),
            task: task.clone(),
            at: stamped.at,
            agents: setup.agents.keys().cloned().collect(),
            journal: path.display().to_string(),
            resumed: false,
            degraded: Vec::new(),
        }),
        Event::ModelReplied { effect, message, .. } => {
            let text = message.text();
            let agent = speakers.get(effect).cloned().unwrap_or_default();
            (!text.trim().is_empty()).then_some(RunEvent::TextDelta { agent, text })
        }
        Event::ModelFailed { error, .. } => Some(RunEvent::Error { error: error.clone() }),
        Event::CancelRequested { reason } => {
            Some(RunEvent::Warning { message: format!("the run was asked to stop: {reason}") })
        }
        Event::AgentsReloaded { .. } => {
            Some(RunEvent::Warning { message: "the configuration changed and was read again".to_owned() })
        }
        Event::SessionResumed { .. } => {
            Some(RunEvent::Warning { message: "another process took the session up".to_owned() })
        }
        Event::ToolFinished { .. }
        | Event::CheckpointTaken { .. }
        | Event::CheckpointFailed { .. }
        | Event::TimerFired { .. }
        | Event::EffectLost { .. }
        | Event::OverrideRequested { .. } => None,
    }
}
