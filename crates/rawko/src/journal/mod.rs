//! The journal (`docs/sessions.md`): one directory a session, one append-only file of checked records in it.
//!
//! Owns the stored format and its promises: a record is durable before what it announces is done, a torn last line
//! is dropped and reported, a broken chain is an error that names the record, another format is refused. It knows
//! nothing of how a run is driven.
//!
//! `journal.jsonl`, UTF-8, one JSON object a line, LF:
//!
//! ```text
//! {"seq":0,"kind":"header","data":{…},"check":"…"}   rawko version, format, session id, task, config digest
//! {"seq":1,"kind":"event","data":{…},"check":"…"}    what happened, with its instant
//! {"seq":2,"kind":"step","data":{…},"check":"…"}     the effects and decisions that it led to
//! ```
//! `check` is the first 16 hexadecimal digits of SHA-256 over the previous record's `check` and this line's bytes
//! before `,"check"`.
//!
//! A text of more than 64 KiB is a file of its own, `blobs/<sha256>`: the record holds `null` in its place and, between
//! `data` and `check`, `"blobs":[{"at":"<JSON pointer into data>","sha256":"…","bytes":…}]`.
//!
//! Within a format, fields may be added that are left out where they are empty: a reader passes over those it does not
//! know. Everything else, new kinds of events, effects and notes included, is a new format. `tests/golden.rs` shows that
//! the stored form changed and says how a format is raised; `docs/journal-format.md` describes it for people.

mod blobs;
mod error;
mod export;
mod file;
mod fold;
mod info;
mod lock;
mod lost_records;
mod paid_calls;
mod reader;
mod record;
mod repair;
mod store;
mod tail;
mod tasks;
mod writer;

pub use error::{CHECK_ACCESS, JournalError};
pub use export::{Trajectory, Transcript};
pub(crate) use file::open_own;
pub use fold::{Applied, Divergence, FieldDifference, Folded, Folding, SeenByAgent, differences, fold};
pub(crate) use fold::{begins_execution, compare};
pub use info::{SessionInfo, SessionStatus};
pub(crate) use lock::{SessionLock, is_held_by_any as is_held};
pub use paid_calls::{PaidCall, paid_calls};
pub use reader::{Journal, read};
pub(crate) use reader::{StoredLines, read_with_lines};
pub use record::{
    FORMAT, ForkedFrom, JournalHeader, JournaledCall, JournaledEffect, Record, RecordKind, StepRecord,
};
pub use repair::Repaired;
pub(crate) use store::BeginningGuard;
pub use store::{CheckedJournals, SessionStore};
pub use tail::JournalTail;
pub use tasks::{SessionTask, session_cost, tasks};
pub use writer::JournalWriter;
