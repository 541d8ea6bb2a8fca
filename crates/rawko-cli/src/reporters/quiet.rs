//! `--quiet`: only the error that ends a run.

use std::io;

use rawko::RunEvent;
use rawko_core::session::Note;

use super::{Reporter, phrase};
use crate::console::Console;
use crate::output::{Clock, clean};

/// Writes the error that the run ends with.
pub(crate) struct Quiet {
    console: Console,
    /// Whether a person may be asked for something.
    asks: bool,
}

impl Quiet {
    /// To standard error.
    pub(crate) fn new(console: Console, asks: bool) -> Self {
        Self { console, asks }
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
            // A person has to answer.
            RunEvent::Note(Note::ApprovalRequested(question)) if self.asks => {
                let label = self.console.error_paint().warning("approval needed:");
                self.console.write_error(&format!("{label} {}\n", phrase::question(question, Clock::local())))
            }
            _ => Ok(()),
        }
    }
}
