//! `--quiet`: nothing but what ends the run.

use std::io;

use rawko::RunEvent;

use super::Reporter;
use crate::console::Console;
use crate::output::clean;

/// Tells errors that the run ends with.
pub(crate) struct Quiet {
    console: Console,
}

impl Quiet {
    /// To standard error.
    pub(crate) fn new(console: Console) -> Self {
        Self { console }
    }
}

impl Reporter for Quiet {
    fn tell(&mut self, event: &RunEvent) -> io::Result<()> {
        match event {
            RunEvent::SessionFinished { error: Some(error), .. } => {
                let word = self.console.error_paint().error("error:");
                self.console.write_error(&format!("{word} {}: {}\n", error.code, clean(&error.message)))
            }
            _ => Ok(()),
        }
    }
}
