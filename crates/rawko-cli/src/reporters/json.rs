//! `--output json`: one object when the run is over.

use std::io;

use rawko::RunEvent;

use super::{Reporter, Verbosity, phrase};
use crate::console::Console;
use crate::output::Clock;

/// Prints the last event to standard output. Waits are reported on standard error, so that a long one does not look like a
/// hang.
pub(crate) struct Json {
    console: Console,
    verbosity: Verbosity,
    clock: Clock,
}

impl Json {
    /// To standard output.
    pub(crate) fn new(console: Console, verbosity: Verbosity, clock: Clock) -> Self {
        Self { console, verbosity, clock }
    }
}

impl Reporter for Json {
    fn event(&mut self, event: &RunEvent) -> io::Result<()> {
        match event {
            RunEvent::SessionFinished { .. } => self.console.json_line(event),
            RunEvent::Waiting { .. } if self.verbosity != Verbosity::Quiet => {
                let label = self.console.error_paint().warning("waiting:");
                // The JSON object is the result, so a closed standard error is not a failure.
                let _ =
                    self.console.write_error(&format!("{label} {}\n", phrase::waiting(event, self.clock)));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
