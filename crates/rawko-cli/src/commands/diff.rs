//! `rawko diff ID`: shows what a session or one of its executions changed in the folder.

use std::io::{self, IsTerminal as _, Write as _};

use clap::Args;
use rawko::checkpoint::{
    ChangeKind, Changes, CheckpointError, Checkpoints, DiffDetail, FileChange, Span, Until,
};
use rawko::journal::{SessionStore, read};
use serde_json::json;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Paint, Sanitizer, clean_line};
use crate::workspace::Workspace;

/// Options of `rawko diff`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DiffArgs {
    /// Session id, or the beginning or end of it; `last` is the latest
    #[arg(default_value = "last")]
    id: String,
    /// Show only what this execution changed, by its number
    #[arg(long, value_name = "N")]
    execution: Option<u32>,
    /// List the files with their line counts, without the lines
    #[arg(long)]
    stat: bool,
    /// Print the list of files as JSON
    #[arg(long)]
    json: bool,
}

/// Shows the changes.
pub(crate) fn run(workspace: &Workspace, arguments: &DiffArgs) -> Result<Exit, Failure> {
    let (session, checkpoints) = checkpoints(workspace, &arguments.id)?;
    let span = arguments.execution.map_or(Span::Session, Span::Execution);
    let lines = !arguments.stat && !arguments.json;
    let changes = checkpoints.changes(span, if lines { DiffDetail::Lines } else { DiffDetail::Files })?;
    let console = &workspace.console;
    if arguments.json {
        let to = match &changes.to {
            Until::Kept(kept) => json!(kept),
            Until::Now => json!("now"),
        };
        console.json(&json!({
            "session": session,
            "from": changes.from,
            "to": to,
            "files": changes.files,
            "notKept": changes.not_kept,
        }))?;
        return Ok(Exit::Success);
    }
    // Standard output holds only the patch, so that it can be applied.
    let paint = console.error_paint();
    let mut notice = paint.faint(&clean_line(&heading(&session, &changes)));
    notice.push('\n');
    for path in &changes.not_kept {
        notice.push_str(&format!("{} not compared: {}\n", paint.warning("warning:"), clean_line(path)));
    }
    let _ = console.write_error(&notice);
    if lines && !changes.patch.is_empty() {
        patch(&changes.patch, console.paint())?;
    } else {
        console.write(&stat(&changes.files, console.paint()))?;
    }
    Ok(Exit::Success)
}

/// The checkpoints of the session that `id` means, and its whole id.
pub(super) fn checkpoints(workspace: &Workspace, id: &str) -> Result<(String, Checkpoints), Failure> {
    let folder = workspace.project()?;
    let store = SessionStore::of_project(&folder);
    let path = store.find(id).map_err(|error| Failure::usage(error.to_string()))?;
    let journal = read(&path).map_err(rawko::Error::from)?;
    let checkpoints = Checkpoints::of_journal(&folder, &path, &journal);
    Ok((clean_line(&journal.header.session), checkpoints))
}

fn heading(session: &str, changes: &Changes) -> String {
    let to = match &changes.to {
        Until::Kept(kept) if kept.name == "end" => "the session's end".to_owned(),
        Until::Kept(kept) => format!("before execution {}", kept.name),
        Until::Now => "the folder as it is now, because the session has no end yet".to_owned(),
    };
    let count = changes.files.len();
    format!("{session}: {count} files differ, from before execution {} to {to}", changes.from.name)
}

/// Every file with its line counts.
fn stat(files: &[FileChange], paint: Paint) -> String {
    let mut text = String::new();
    for file in files {
        let kind = match file.kind {
            ChangeKind::Added => paint.good("A"),
            ChangeKind::Deleted => paint.bad("D"),
            ChangeKind::Modified => paint.warning("M"),
            ChangeKind::Renamed => paint.warning("R"),
            ChangeKind::Retyped => paint.warning("T"),
        };
        let from = file.from.as_deref().map(|from| format!("{} → ", clean_line(from))).unwrap_or_default();
        let lines = match (file.added, file.removed) {
            (Some(added), Some(removed)) => {
                format!("  {} {}", paint.good(&format!("+{added}")), paint.bad(&format!("-{removed}")))
            }
            _ => String::new(),
        };
        text.push_str(&format!("{kind} {from}{}{lines}\n", clean_line(&file.path)));
    }
    text
}

/// A terminal gets colors and no escape sequences; a pipe or a file gets every byte.
fn patch(bytes: &[u8], paint: Paint) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if !out.is_terminal() {
        out.write_all(bytes)?;
        return out.flush();
    }
    let mut text = String::new();
    for line in String::from_utf8_lossy(bytes).lines() {
        let mut shown = String::new();
        Sanitizer::default().push(line, &mut shown);
        let line = match line.as_bytes().first() {
            _ if line.starts_with("diff ") || line.starts_with("+++") || line.starts_with("---") => {
                paint.strong(&shown)
            }
            Some(b'+') => paint.good(&shown),
            Some(b'-') => paint.bad(&shown),
            Some(b'@') => paint.name(&shown),
            _ => shown,
        };
        text.push_str(&line);
        text.push('\n');
    }
    out.write_all(text.as_bytes())?;
    out.flush()
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        let message = error.to_string();
        match error {
            CheckpointError::Unknown { .. } => {
                Self::usage(message).with_hint("`rawko rewind ID --list` shows the checkpoints of a session")
            }
            CheckpointError::BadSession { .. } => Self::usage(message),
            CheckpointError::Git { .. } | CheckpointError::TooSlow { .. } => Self::new(Exit::Failed, message)
                .with_hint("`rawko doctor` checks git; the checkpoints are not affected"),
            // The other messages already say what to try.
            _ => Self::new(Exit::Failed, message),
        }
    }
}
