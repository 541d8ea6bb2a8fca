//! The built-in tools.

use std::sync::Arc;

use crate::bash::Bash;
use crate::edit::Edit;
use crate::glob::Glob;
use crate::grep::Grep;
use crate::read::Read;
use crate::tool::Tool;
use crate::tracker::FileTracker;
use crate::write::Write;

/// The built-in tools of one run. They share a record of what the agents have read.
#[must_use]
pub fn builtin_tools(tracker: &Arc<FileTracker>) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(Read::new(Arc::clone(tracker))),
        Arc::new(Write::new(Arc::clone(tracker))),
        Arc::new(Edit::new(Arc::clone(tracker))),
        Arc::new(Glob::new()),
        Arc::new(Grep::new()),
        Arc::new(Bash::new()),
    ]
}
