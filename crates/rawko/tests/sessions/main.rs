//! Sessions taken up, replayed, forked, explained and ended, through the SDK: a real folder, a real journal, and answers
//! from a script.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cancel;
mod explain;
mod fork;
mod replay;
mod resume;
#[path = "../support/scripted.rs"]
mod scripted;
mod suspend;
mod trial;
