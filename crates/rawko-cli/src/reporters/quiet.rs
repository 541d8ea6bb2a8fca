//! `--quiet`: only the error that ends a run.

use std::io;

use rawko::RunEvent;

use super::Reporter;
use crate::console::Console;
use crate::output::clean;

/// Writes the error that the run ends with.
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
    fn event(&mut self, event: &RunEvent) -> io::Result<()> {
        match event {
            RunEvent::SessionFinished { outcome, .. } => match &outcome.error {
                Some(error) => {
                    let label = self.console.error_paint().error("error:");
                    self.console.write_error(&format!("{label} {}: {}\n", error.code, clean(&error.message)))
                }
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}
