//! What a list shows of a session, read from the two ends of its journal. The rest is not read, so a list costs the
//! same for long sessions as for short ones.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use rawko_core::Timestamp;
use rawko_core::session::{Effect, Note, Outcome};
use serde::Serialize;

use super::error::JournalError;
use super::file::open_own;
use super::lock::holder;
use super::reader::{header_of, step_after};
use super::record::{ForkedFrom, JournalHeader, JournaledEffect, LONGEST_JOURNAL, LONGEST_LINE, StepRecord};

/// Longest first line that is read.
const HEADER_BYTES: u64 = 64 * 1024;
/// How much of it is looked through for a pause.
const PAUSE_TAIL: u64 = 512 * 1024;
/// How much of a journal's end is looked at, more if two whole records do not fit in it.
const TAILS: [u64; 3] = [8 * 1024, 512 * 1024, 2 * LONGEST_LINE];

/// A session as a list shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// When it was begun.
    pub created_at: Timestamp,
    /// The beginning of its task.
    pub task: String,
    /// Whether and how it ended.
    pub status: SessionStatus,
    /// Executions begun, where the journal's end says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u32>,
    /// When the question that it waits for expires, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_until: Option<Timestamp>,
    /// Whether the user has paused it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// The session that it was forked from, if it is a fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// Cost of all its tasks in US dollars, where it has ended and all prices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The end of its last task, where it has one; its figures are of that task alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Why it cannot be read, where it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Whether and how a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// A process is writing it.
    Running,
    /// No process is writing it, and it has no end: interrupted.
    Unfinished,
    /// It has an end; see the outcome.
    Ended,
    /// Its process ended, or its disk was full, before anything but its beginning was recorded: there is nothing to resume.
    NotBegun,
    /// Its journal cannot be read.
    Unreadable,
}

impl SessionInfo {
    /// The session `id` whose journal is at `path`. Never fails: what cannot be read is listed as such.
    pub(super) fn of(id: String, path: &Path) -> Self {
        let ends = match read_ends(path) {
            Ok(Some(ends)) => ends,
            Ok(None) => return Self::without_header(id, SessionStatus::NotBegun),
            Err(error) => return Self::without_header(id, SessionStatus::Unreadable).with_problem(&error),
        };
        let status = match &ends.outcome {
            Some(_) => SessionStatus::Ended,
            None if ends.locked => SessionStatus::Running,
            None if ends.only_begins => SessionStatus::NotBegun,
            None => SessionStatus::Unfinished,
        };
        Self {
            id,
            created_at: ends.header.created_at,
            task: ends.header.task,
            status,
            iterations: ends.outcome.as_ref().map(|outcome| outcome.iterations).or(ends.iterations),
            approval_until: ends.approval_until,
            paused: ends.paused,
            forked_from: ends.header.forked_from,
            cost_usd: ends.outcome.as_ref().and_then(Outcome::session_cost_usd),
            outcome: ends.outcome,
            problem: None,
        }
    }

    fn without_header(id: String, status: SessionStatus) -> Self {
        Self {
            id,
            created_at: Timestamp::default(),
            task: String::new(),
            status,
            iterations: None,
            approval_until: None,
            paused: false,
            forked_from: None,
            cost_usd: None,
            outcome: None,
            problem: None,
        }
    }

    /// The same, where its journal cannot be read because of `error`: what its end says is not known to be so.
    pub(super) fn with_problem(self, error: &JournalError) -> Self {
        let problem = match error.hint() {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        };
        Self {
            status: SessionStatus::Unreadable,
            iterations: None,
            cost_usd: None,
            outcome: None,
            problem: Some(problem),
            ..self
        }
    }
}

struct Ends {
    header: JournalHeader,
    outcome: Option<Outcome>,
    iterations: Option<u32>,
    approval_until: Option<Timestamp>,
    paused: bool,
    locked: bool,
    /// Whether nothing whole comes after the header.
    only_begins: bool,
}

/// `None` if not even the header was written completely, and no process writes it now.
fn read_ends(path: &Path) -> Result<Option<Ends>, JournalError> {
    let wrong = |error| JournalError::io("cannot read", path, error);
    let mut file = open_own(path, OpenOptions::new().read(true))?;
    let length = file.metadata().map_err(wrong)?.len();
    if length > LONGEST_JOURNAL {
        return Err(JournalError::TooLong { path: path.to_owned(), bytes: length });
    }
    let mut first = Vec::new();
    BufReader::new((&file).take(HEADER_BYTES)).read_until(b'\n', &mut first).map_err(wrong)?;
    let is_torn = first.len() as u64 == length && !first.ends_with(b"\n");
    let is_alone = || !has_worked(path.parent().unwrap_or(Path::new("")));
    if is_torn && holder(path).is_none() && is_alone() {
        return Ok(None);
    }
    let header = header_of(path, &first)?;
    let tail = read_tail(&mut file, length).map_err(wrong)?;
    let outcome = outcome_in(path, &tail)?;
    let locked = outcome.is_none() && holder(path).is_some();
    let iterations = if outcome.is_none() { iterations_in(&tail) } else { None };
    let approval_until = if outcome.is_none() { approval_in(&tail) } else { None };
    let paused = outcome.is_none() && paused_in(&mut file, length).map_err(wrong)?;
    let only_begins =
        tail.len() as u64 == length && tail.iter().filter(|byte| **byte == b'\n').count() == 1 && is_alone();
    Ok(Some(Ends { header, outcome, iterations, approval_until, paused, locked, only_begins }))
}

/// Whether the folder of a session holds files that only one that has begun leaves.
fn has_worked(folder: &Path) -> bool {
    let holds_something = |name: &str| folder.join(name).read_dir().is_ok_and(|mut it| it.next().is_some());
    ["blobs", "checkpoints"].into_iter().any(holds_something)
}

/// The end of the file, with the last two records whole where that is possible.
fn read_tail(file: &mut File, length: u64) -> std::io::Result<Vec<u8>> {
    let mut tail = Vec::new();
    for bytes in TAILS {
        tail.clear();
        file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
        file.by_ref().take(bytes).read_to_end(&mut tail)?;
        let breaks = tail.iter().rev().filter(|byte| **byte == b'\n').take(3).count();
        if bytes >= length || breaks == 3 {
            break;
        }
    }
    Ok(tail)
}

/// The outcome in the last line, if that is the record of a finished run.
fn outcome_in(path: &Path, tail: &[u8]) -> Result<Option<Outcome>, JournalError> {
    let Some(whole) = tail.strip_suffix(b"\n") else { return Ok(None) };
    let mut lines = whole.rsplitn(3, |byte| *byte == b'\n');
    let (Some(last), Some(before)) = (lines.next(), lines.next()) else { return Ok(None) };
    let step = step_after(path, before, last)?;
    Ok(step.into_iter().flat_map(|step| step.effects).find_map(|effect| match effect {
        JournaledEffect::Whole(Effect::Finish { outcome }) => Some(*outcome),
        JournaledEffect::Whole(_) | JournaledEffect::RunTool { .. } => None,
    }))
}

/// When the question with which the journal ends expires. Quotes in texts of others are escaped, so none passes for a
/// name here. A projection for people too.
fn approval_in(tail: &[u8]) -> Option<Timestamp> {
    #[derive(serde::Deserialize)]
    struct StepLine {
        data: StepRecord,
    }
    let names = |line: &[u8], name: &str| line.windows(name.len()).any(|window| window == name.as_bytes());
    let is_about = |line: &&[u8]| {
        ["\"AskUser\"", "\"ApprovalAnswered\"", "\"Abandon\""].iter().any(|name| names(line, name))
    };
    let last = tail.rsplit(|byte| *byte == b'\n').find(is_about)?;
    let effects = serde_json::from_slice::<StepLine>(last).ok()?.data.effects;
    effects.into_iter().rev().find_map(|effect| match effect {
        JournaledEffect::Whole(Effect::AskUser { question, .. }) => Some(question.until),
        JournaledEffect::Whole(_) | JournaledEffect::RunTool { .. } => None,
    })
}

/// Whether the last pause that the journal's end mentions still lasts. The events during a pause may be long. A
/// projection for people too.
fn paused_in(file: &mut File, length: u64) -> std::io::Result<bool> {
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(length.saturating_sub(PAUSE_TAIL)))?;
    file.by_ref().take(PAUSE_TAIL).read_to_end(&mut tail)?;
    let last = |name: &[u8]| tail.windows(name.len()).rposition(|window| window == name);
    Ok(last(b"{\"type\":\"run_paused\"") > last(b"{\"type\":\"run_unpaused\""))
}

/// The iteration of the last change of state. A projection for people: it is not verified.
fn iterations_in(tail: &[u8]) -> Option<u32> {
    #[derive(serde::Deserialize)]
    struct StepLine {
        data: StepRecord,
    }
    let lines = tail.rsplit(|byte| *byte == b'\n');
    let name = b"state_changed";
    let steps = lines.filter(|line| line.windows(name.len()).any(|window| window == name));
    steps.filter_map(|line| serde_json::from_slice::<StepLine>(line).ok()).find_map(|line| {
        line.data.notes.into_iter().rev().find_map(|note| match note {
            Note::StateChanged { iteration, .. } => Some(iteration),
            _ => None,
        })
    })
}
