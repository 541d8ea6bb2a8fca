//! The tools that reach the web, in a program without them.

use std::sync::Arc;

use rawko_tools::Tool;

use crate::config::SearchConfig;

/// None.
pub(crate) fn tools(_: &SearchConfig, _: impl Fn(&str) -> Option<String>) -> Vec<Arc<dyn Tool>> {
    Vec::new()
}
