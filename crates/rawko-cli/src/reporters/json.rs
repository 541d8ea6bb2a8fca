//! `--output json`: one object when the run is over.

use std::io;

use rawko::RunEvent;

use super::Reporter;
use crate::console::Console;

/// Prints the last event and nothing else.
pub(crate) struct Json {
    console: Console,
}

impl Json {
    /// To standard output.
    pub(crate) fn new(console: Console) -> Self {
        Self { console }
    }
}

impl Reporter for Json {
    fn tell(&mut self, event: &RunEvent) -> io::Result<()> {
        match event {
            RunEvent::SessionFinished { .. } => self.console.json_line(event),
            _ => Ok(()),
        }
    }
}
