//! Shows sessions as a page: served on the loopback while it is looked at ([`Inspector`]), or written as one file
//! ([`page`]). Both have the same script and show the same data, [`SessionView`], which is built from journals alone.
//!
//! Owns the page, its data and its server. It decides nothing about a run and changes nothing: the server answers GET.
//! `docs/inspector.md` describes the page; `docs/adr/0070-a-page-without-a-bundler.md` says why it is made so.

mod assets;
mod diff;
mod export;
mod machine;
mod server;
mod text;
mod view;

pub use diff::{DiffView, Mask};
pub use export::{Diffs, page};
pub use machine::{MachineView, StateView, TransitionView};
pub use server::{Inspector, InspectorOptions};
pub use text::Excerpt;
pub use view::{
    AgentView, Beginning, CallState, EntryKind, ExecutionView, FORMAT, ModelAnswer, PathStep, SessionEntry,
    SessionHead, SessionView, TaskView, ToolResult, VerificationView, ViewBuilder, ViewLimits,
};
