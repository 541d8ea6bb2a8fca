//! A session as a document: one transcript in three forms, and a trajectory for other programs (`atif`).
//!
//! [`Transcript::of`] folds a journal into a list of entries. JSON has all of it; Markdown and HTML cut long texts and
//! say so. The text comes from models, tools and files, so both forms escape it: nothing in it can become markup, load
//! anything or act on a terminal.

mod atif;
mod html;
mod markdown;
mod text;
mod transcript;

pub use atif::Trajectory;
pub use transcript::{Transcript, TranscriptEntry, TranscriptEvent};
