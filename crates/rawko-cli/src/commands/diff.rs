//! `rawko diff ID`: shows what a session or one of its executions changed in the folder.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use clap::Args;
use rawko::checkpoint::{
    ChangeKind, ChangedBy, Changes, CheckpointError, DiffDetail, DiffRange, FileChange, OthersChange, Until,
};
use rawko::journal::{Journal, Record, fold};
use rawko_core::facts::{TreeInspection, runs_later};
use rawko_core::session::{EffectAnswer, Event};
use serde_json::json;

use crate::commands::kept;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Paint, Sanitizer, clean_line};
use crate::reporters::runs_later_line;
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
    let (session, checkpoints, journal) = kept::checkpoints(workspace, &arguments.id)?;
    let span = arguments.execution.map_or(DiffRange::Session, DiffRange::Execution);
    let lines = !arguments.stat && !arguments.json;
    let console = &workspace.console;
    let detail = match lines {
        false => DiffDetail::Files,
        true if io::stdout().is_terminal() => DiffDetail::Lines,
        true => DiffDetail::Bytes,
    };
    let changes = match checkpoints.changes(span, detail) {
        Err(CheckpointError::Unknown { kept, .. })
            if kept.is_empty() && span == DiffRange::Session && !lacks_checkpoints(&journal) =>
        {
            return unchanged(workspace, &session, arguments.json);
        }
        changes => changes?,
    };
    let later =
        changes.files.iter().filter(|file| file.kind != ChangeKind::Deleted && runs_later(&file.path));
    let mut later: Vec<String> = later.map(|file| file.path.clone()).collect();
    let mut outside = Vec::new();
    if let Some(seen) = last_look(&journal).filter(|_| span == DiffRange::Session) {
        outside.extend(seen.files.iter().filter(|path| Path::new(path).is_absolute()).cloned());
        // Files that git ignores are compared with nothing.
        let is_new = |path: &&String| !changes.files.iter().any(|file| file.path == **path);
        later.extend(seen.runs_later.iter().filter(is_new).cloned());
    }
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
            "others": changes.others,
            "outside": outside,
            "runsLater": later,
        }))?;
        return Ok(Exit::Success);
    }
    // Standard output holds only the patch, so that it can be applied.
    let paint = console.error_paint();
    let has_ended = fold(&journal).session.state().is_final();
    let mut notice = paint.faint(&clean_line(&heading(&session, &changes, has_ended)));
    notice.push('\n');
    for change in &changes.others {
        notice.push_str(&format!("{} {}\n", paint.warning("warning:"), clean_line(&by_others(change))));
    }
    for path in &changes.not_kept {
        notice.push_str(&format!("{} not compared: {}\n", paint.warning("warning:"), clean_line(path)));
    }
    for path in &outside {
        let label = paint.warning("warning:");
        notice
            .push_str(&format!("{label} changed outside the project, not compared: {}\n", clean_line(path)));
    }
    if !later.is_empty() {
        notice.push_str(&format!("{} runs later: {}\n", paint.warning("warning:"), runs_later_line(&later)));
    }
    let _ = console.write_error(&notice);
    if lines && !changes.patch.is_empty() {
        patch(&changes.patch, console.paint())?;
    } else {
        console.write(&stat(&changes.files, console.paint()))?;
    }
    Ok(Exit::Success)
}

/// Whether a checkpoint could not be taken, so that the session may have changed something unseen.
fn lacks_checkpoints(journal: &Journal) -> bool {
    journal.records.iter().any(|record| match record {
        Record::Event(stamped) => {
            matches!(&stamped.event, Event::Answered { answer: EffectAnswer::CheckpointFailed { .. }, .. })
        }
        Record::Step(_) => false,
    })
}

/// What was seen when the tree was last looked at.
fn last_look(journal: &Journal) -> Option<&TreeInspection> {
    let looks = journal.events().filter_map(|(_, stamped)| match &stamped.event {
        Event::Answered { answer: EffectAnswer::TreeInspected { inspection }, .. }
        | Event::FinalTreeInspected { inspection } => Some(inspection),
        _ => None,
    });
    looks.last()
}

/// Answers for a session that has begun nothing that could change a file.
fn unchanged(workspace: &Workspace, session: &str, as_json: bool) -> Result<Exit, Failure> {
    let console = &workspace.console;
    if as_json {
        console.json(&json!({"session": session, "from": null, "to": null, "files": [], "notKept": [], "outside": [], "runsLater": []}))?;
    } else {
        let notice = format!("{session}: 0 files differ: it has changed nothing\n");
        let _ = console.write_error(&console.error_paint().faint(&notice));
    }
    Ok(Exit::Success)
}

fn heading(session: &str, changes: &Changes, has_ended: bool) -> String {
    let to = match &changes.to {
        Until::Kept(kept) => kept::place(&kept.name),
        Until::Now if has_ended => {
            "the folder as it is now, because the files were not saved when the session ended".to_owned()
        }
        Until::Now => "the folder as it is now, because the session has no end yet".to_owned(),
    };
    let differ = match changes.files.len() {
        1 => "1 file differs".to_owned(),
        count => format!("{count} files differ"),
    };
    format!("{session}: {differ}, from {} to {to}", kept::place(&changes.from.name))
}

/// Who else changed a file, and whether it is shown.
fn by_others(change: &OthersChange) -> String {
    let who = match change.by {
        ChangedBy::Others => "changed by somebody else, not by this session",
        ChangedBy::Both => "changed by this session and by somebody else",
        ChangedBy::Unclear => {
            "changed after the session's last record, by its last command or by somebody else"
        }
    };
    let left_out = if change.shown { "" } else { "; left out" };
    format!("{}: {who}{left_out}", change.path)
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
