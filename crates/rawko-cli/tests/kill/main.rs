//! The kill matrix: the real binary is ended with SIGKILL wherever it may be, taken up again with `rawko resume`, and
//! must come to the end of a run that was not killed (`docs/sessions.md`).
//!
//! The model is a server without memory: what it answers depends on the request alone, so that a question that is put
//! again gets the same answer. It behaves as a careful model does: when the outcome of a call is unknown, it looks, and
//! does what is missing. So every run must come to the same files and to every line exactly once.
//!
//! - [`prefixes`]: for every record of a run, the state in which a kill right after it leaves the world, with all that
//!   may have happened and was not recorded. Exact, and the same every time.
//! - [`kills`]: real signals, at every record, at random instants of a longer run, and again during the resume.
//! - [`orphans`]: what becomes of a command when the rawko that started it is killed.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod baseline;
mod end;
mod kills;
mod orphans;
mod prefixes;
mod requests;
mod script;
#[path = "../support/mod.rs"]
mod support;
mod world;
