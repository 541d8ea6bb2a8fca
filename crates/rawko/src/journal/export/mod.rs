//! A session as something to read or to hand on: one transcript, in three forms.
//!
//! [`Transcript::of`] folds a journal into what happened; as JSON it is whole, as Markdown and HTML long texts are bounded
//! and say so. Everything in it comes from outside (models, tools, files), so both forms are escaped: nothing of it can
//! become markup, load anything, or act on a terminal.

mod html;
mod markdown;
mod text;
mod transcript;

pub use transcript::{Entry, Happening, ToolAnswer, Transcript};
