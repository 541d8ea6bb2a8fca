//! `--output stream-json`: one object a line for every event, `type` first.

use std::io;

use rawko::RunEvent;

use super::Reporter;
use crate::console::Console;

/// Prints every event.
pub(crate) struct StreamJson {
    console: Console,
}

impl StreamJson {
    /// To standard output.
    pub(crate) fn new(console: Console) -> Self {
        Self { console }
    }
}

impl Reporter for StreamJson {
    fn event(&mut self, event: &RunEvent) -> io::Result<()> {
        self.console.json_line(event)
    }
}
