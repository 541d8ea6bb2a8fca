//! `rawko sessions export`: prints a session as a document, or its decisions as situations.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use rawko::journal::{SessionStore, Trajectory, Transcript, read};
use rawko::situations;
use rawko_inspect::Diffs;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{clean, escape_json};
use crate::workspace::Workspace;

/// Options of `rawko sessions export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Session id, or the beginning or end of it; `last` is the latest and the default. With --situations you can give
    /// several, and the default is all sessions
    ids: Vec<String>,
    /// Format of the document: json has everything, markdown and html shorten long texts and say so
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, conflicts_with = "situations")]
    format: ExportFormat,
    /// Print each decision as a labelled situation for `rawko arbiter eval`, one JSON object a line
    #[arg(long)]
    situations: bool,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum ExportFormat {
    /// For programs
    Json,
    /// For people
    #[default]
    Markdown,
    /// For people: the page of `rawko inspect` as a single file that loads nothing
    Html,
    /// Agent Trajectory Interchange Format, for other programs
    Atif,
    /// Spans, sent to the configured OpenTelemetry collector
    #[cfg(feature = "telemetry")]
    Otlp,
}

/// How long a collector may take for a session.
#[cfg(feature = "telemetry")]
const LONGEST_SEND: std::time::Duration = std::time::Duration::from_secs(30);

/// Prints the document.
pub(super) fn export(
    workspace: &Workspace,
    project: &Path,
    store: &SessionStore,
    arguments: &ExportArgs,
) -> Result<Exit, Failure> {
    if arguments.situations {
        return export_situations(workspace, store, &arguments.ids);
    }
    let id = match arguments.ids.as_slice() {
        [] => "last",
        [id] => id,
        [_, second, ..] => {
            return Err(Failure::usage(format!(
                "a document holds one session, but `{second}` was given too"
            ))
            .with_hint("export the sessions one by one; only --situations takes several"));
        }
    };
    let path = store.find(id)?;
    let journal = read(&path)?;
    let console = &workspace.console;
    match arguments.format {
        ExportFormat::Json => console.json(&Transcript::of(&journal))?,
        // Both are already free of control codes.
        ExportFormat::Markdown => console.write(&Transcript::of(&journal).to_markdown())?,
        ExportFormat::Html => {
            console.write(&rawko_inspect::page(project, &path, &journal, &diffs(workspace)?))?;
        }
        ExportFormat::Atif => console.json(&Trajectory::of(&journal))?,
        #[cfg(feature = "telemetry")]
        ExportFormat::Otlp => {
            let (spans, to) = workspace.open()?.send_session(&journal, LONGEST_SEND)?;
            console.line(&format!("sent {spans} spans of session {} to {to}", journal.header.session))?;
        }
    }
    Ok(Exit::Success)
}

/// A page is given to others: the lines of changed files are in it only if it is known what the secrets are.
fn diffs(workspace: &Workspace) -> Result<Diffs, Failure> {
    Ok(match workspace.inspect_or_errors()? {
        Ok(rawko) => Diffs::Masked(Arc::new(rawko.secret_mask())),
        Err(_) => Diffs::LeftOut(
            "left out, because the configuration that names the secrets could not be read".to_owned(),
        ),
    })
}

/// Prints the decisions. When all sessions are exported, one that cannot be read is left out with a warning.
fn export_situations(workspace: &Workspace, store: &SessionStore, ids: &[String]) -> Result<Exit, Failure> {
    let console = &workspace.console;
    let paths: Vec<PathBuf> = if ids.is_empty() {
        let sessions = store.list()?;
        sessions.iter().map(|session| store.find(&session.id)).collect::<Result<_, _>>()?
    } else {
        ids.iter().map(|id| store.find(id)).collect::<Result<_, _>>()?
    };
    for path in paths {
        let journal = match read(&path) {
            Ok(journal) => journal,
            Err(error) if ids.is_empty() => {
                let warning = console.error_paint().warning("warning:");
                let _ = console.write_error(&format!("{warning} left out: {}\n", clean(&error.to_string())));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for situation in situations(&journal) {
            console.line(&escape_json(situation.to_line()))?;
        }
    }
    Ok(Exit::Success)
}
