//! `diff` and `explain`: what a session changed, and why it did what.

use rawko::checkpoint::{ChangeKind, CheckpointError, Checkpoints, DiffDetail, DiffRange};
use rawko::journal::read;
use rawko::{Explanation, explain};
use rawko_core::text::truncate;
use serde::Deserialize;
use serde_json::json;

use super::DoneAnswer;
use crate::bounded;
use crate::follow;
use crate::project::ToolProblem;
use crate::server::RawkoServer;

/// Bytes of a patch.
const PATCH_BYTES: usize = 48 * 1024;
/// Characters of a reason in a list.
const REASON_CHARS: usize = 200;

/// The arguments of `diff`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DiffArguments {
    session: Option<String>,
    execution: Option<u32>,
    #[serde(default)]
    files_only: bool,
}

/// The arguments of `explain`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainArguments {
    session: Option<String>,
    decision: Option<usize>,
}

/// Shows the changes.
pub(super) fn diff(server: &RawkoServer, asked: &DiffArguments) -> Result<DoneAnswer, ToolProblem> {
    let project = &server.project;
    let path = follow::journal_of(server, asked.session.as_deref())?;
    let journal = read(&path).map_err(|error| project.words(error))?;
    let session = journal.header.session.clone();
    let checkpoints = Checkpoints::of_journal(&project.project, &path, &journal);
    let range = asked.execution.map_or(DiffRange::Session, DiffRange::Execution);
    let detail = if asked.files_only { DiffDetail::Files } else { DiffDetail::Lines };
    let changes = match checkpoints.changes(range, detail) {
        Ok(changes) => changes,
        Err(CheckpointError::Unknown { kept, .. }) if kept.is_empty() && range == DiffRange::Session => {
            let text = format!("session {session} has changed nothing");
            return Ok(DoneAnswer::new(text, json!({"session": session, "files": [], "patch": ""})));
        }
        Err(error) => {
            let hint = "leave out `execution` for the changes of the whole session";
            return Err(ToolProblem::new(error.to_string(), hint));
        }
    };
    // Lines of files may hold secrets, which no model of rawko's own would see either.
    let mask = project.look()?.secret_mask();
    let patch = bounded::text(&mask(&String::from_utf8_lossy(&changes.patch)), PATCH_BYTES);
    let mut text = format!("session {session}: {} files differ\n", changes.files.len());
    for file in &changes.files {
        let kind = match file.kind {
            ChangeKind::Added => 'A',
            ChangeKind::Deleted => 'D',
            ChangeKind::Modified => 'M',
            ChangeKind::Renamed => 'R',
            ChangeKind::Retyped => 'T',
        };
        text.push_str(&format!("{kind} {}\n", file.path));
    }
    for change in &changes.others {
        text.push_str(&format!("not, or not only, changed by this session: {}\n", change.path));
    }
    for path in &changes.not_kept {
        text.push_str(&format!("not compared: {path}\n"));
    }
    text.push_str(&patch);
    let value = json!({
        "session": session,
        "files": changes.files,
        "patch": patch,
        "others": changes.others,
        "notKept": changes.not_kept,
    });
    Ok(DoneAnswer::new(text, value))
}

/// Explains the decisions.
pub(super) fn explained(server: &RawkoServer, asked: &ExplainArguments) -> Result<DoneAnswer, ToolProblem> {
    let path = follow::journal_of(server, asked.session.as_deref())?;
    let journal = read(&path).map_err(|error| server.project.words(error))?;
    let session = &journal.header.session;
    let decisions = explain(&journal);
    let Some(number) = asked.decision else {
        let mut text = format!("session {session}: {} decisions\n", decisions.len());
        decisions.iter().for_each(|one| text.push_str(&line(one)));
        let listed: Vec<_> = decisions.iter().map(in_short).collect();
        return Ok(DoneAnswer::new(text, json!({"session": session, "decisions": listed})));
    };
    let chosen = number.checked_sub(1).and_then(|at| decisions.get(at)).ok_or_else(|| {
        let message =
            format!("session {session} has {} decisions, and none with the number {number}", decisions.len());
        ToolProblem::new(message, "leave out `decision` to list them")
    })?;
    let whole = bounded::answer(&json!(chosen));
    let details = serde_json::to_string_pretty(&whole).unwrap_or_default();
    let text = format!("session {session}: {}{details}", line(chosen));
    Ok(DoneAnswer::new(text, json!({"session": session, "decision": whole})))
}

fn line(one: &Explanation) -> String {
    let reason = truncate(one.decision.reason(), REASON_CHARS);
    format!("{}. in {}: {}: {reason}\n", one.number, one.state, one.decision.kind())
}

fn in_short(one: &Explanation) -> serde_json::Value {
    json!({
        "number": one.number,
        "at": one.at,
        "state": one.state,
        "decision": one.decision,
        "source": one.source,
        "rule": one.rule,
        "costUsd": one.cost_usd,
    })
}
