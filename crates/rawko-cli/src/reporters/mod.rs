//! Reporters: each turns a run's events into output for people or programs. Progress goes to standard error, results to
//! standard output.

mod json;
mod landing;
mod line;
mod lines;
mod phrase;
mod plain;
mod quiet;
mod stream_json;
mod summary;
mod view;

#[cfg(test)]
mod recorded_tests;

use std::io;

use rawko::RunEvent;
use rawko_core::Timestamp;

use crate::console::Console;
use crate::keyboard::Keyboard;
use crate::output::Clock;

pub(crate) use json::Json;
pub(crate) use landing::landing_lines;
#[cfg(feature = "fleet")]
pub(crate) use phrase::question_alone;
pub(crate) use phrase::{approval, call_in_question, question};
pub(crate) use plain::PlainReporter;
pub(crate) use quiet::Quiet;
pub(crate) use stream_json::StreamJson;
pub(crate) use summary::{Summary, runs_later_line};
pub(crate) use view::{Steer, TerminalView};

/// A consumer of a run's events.
pub(crate) trait Reporter {
    /// Reports one event. An error means that the output cannot be written.
    fn event(&mut self, event: &RunEvent) -> io::Result<()>;

    /// Reports an event that was recorded at this time.
    fn recorded(&mut self, event: &RunEvent, _at: Timestamp) -> io::Result<()> {
        self.event(event)
    }

    /// Takes note of what was recorded at this time before, and reports it no more.
    fn recalled(&mut self, _events: &[RunEvent], _at: Timestamp) {}

    /// No process carried the run for so long.
    fn gap(&mut self, _ms: u64) {}

    /// Reports something that is not an event of the run, such as that it is being stopped.
    fn notice(&mut self, _text: &str) -> io::Result<()> {
        Ok(())
    }

    /// Whether [`Reporter::tick`] must be called between events.
    fn is_animated(&self) -> bool {
        false
    }

    /// Redraws after some time.
    fn tick(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Leaves the terminal to others: the process is about to be stopped. The next [`Reporter::tick`] takes it again.
    fn suspend(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Restores the terminal. Called at every end, also after a second signal.
    fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Only errors and the result.
    Quiet,
    /// Progress.
    Normal,
    /// Also rules, latencies, cache hits and tool output.
    Verbose,
}

/// The output format of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OutputFormat {
    /// Progress for people, and a summary
    #[default]
    Text,
    /// One JSON object at the end
    Json,
    /// One JSON object a line for every event
    StreamJson,
}

/// The reporter for this format, verbosity and console. `asks` says that a person may be asked for something. A view on
/// a terminal takes keys, if there is a run to `steer`.
pub(crate) fn reporter(
    console: Console,
    format: OutputFormat,
    (verbosity, asks): (Verbosity, bool),
    keyboard: &Keyboard,
    steer: Option<Steer>,
) -> Box<dyn Reporter + Send> {
    match (format, verbosity) {
        (OutputFormat::Json, Verbosity::Quiet) => Box::new(Json::new(console, None)),
        (OutputFormat::Json, _) => {
            Box::new(Json::new(console, Some(progress(console, verbosity, keyboard, steer))))
        }
        (OutputFormat::StreamJson, _) => Box::new(StreamJson::new(console)),
        (OutputFormat::Text, Verbosity::Quiet) => Box::new(Quiet::new(console, asks)),
        (OutputFormat::Text, _) => progress(console, verbosity, keyboard, steer),
    }
}

/// The reporter that shows progress on standard error.
fn progress(
    console: Console,
    verbosity: Verbosity,
    keyboard: &Keyboard,
    steer: Option<Steer>,
) -> Box<dyn Reporter + Send> {
    let (paint, clock) = (console.error_paint(), Clock::local());
    if console.is_watched() {
        let (keyboard, size) = (keyboard.clone(), view::stderr_size());
        return Box::new(TerminalView::new(io::stderr(), paint, verbosity, clock, size, keyboard, steer));
    }
    Box::new(PlainReporter::new(paint, verbosity, clock, io::stderr()))
}
