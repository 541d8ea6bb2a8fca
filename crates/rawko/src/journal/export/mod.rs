//! A session as a document: one transcript in two forms, and a trajectory for other programs (`atif`).
//!
//! [`Transcript::of`] lists the entries of a journal's timeline. JSON has all of it; Markdown cuts long texts and says so.
//! The text comes from models, tools and files, so Markdown escapes it: nothing in it can become markup, load anything or
//! act on a terminal. The HTML page is the inspector's (`rawko-inspect`).

mod atif;
mod markdown;
mod text;
mod transcript;

pub use atif::Trajectory;
pub use transcript::Transcript;
