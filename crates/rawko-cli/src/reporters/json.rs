//! `--output json`: one object when the run is over, and progress on standard error until then.

use std::io;

use rawko::RunEvent;
use rawko_core::Timestamp;

use super::Reporter;
use crate::console::Console;

/// Prints the last event to standard output, and gives all events to another reporter, which writes to standard error.
pub(crate) struct Json {
    console: Console,
    progress: Option<Box<dyn Reporter + Send>>,
}

impl Json {
    /// To standard output; `progress` gets what happens in the meantime.
    pub(crate) fn new(console: Console, progress: Option<Box<dyn Reporter + Send>>) -> Self {
        Self { console, progress }
    }

    /// The JSON object is the result, so progress that cannot be written is no failure: there is none any more.
    fn tell(&mut self, tell: impl FnOnce(&mut (dyn Reporter + Send)) -> io::Result<()>) {
        if let Some(progress) = &mut self.progress
            && tell(progress.as_mut()).is_err()
        {
            self.progress = None;
        }
    }
}

impl Reporter for Json {
    fn event(&mut self, event: &RunEvent) -> io::Result<()> {
        self.tell(|progress| progress.event(event));
        match event {
            RunEvent::SessionFinished { .. } => self.console.json_line(event),
            _ => Ok(()),
        }
    }

    fn recorded(&mut self, event: &RunEvent, at: Timestamp) -> io::Result<()> {
        self.tell(|progress| progress.recorded(event, at));
        match event {
            RunEvent::SessionFinished { .. } => self.console.json_line(event),
            _ => Ok(()),
        }
    }

    fn recalled(&mut self, events: &[RunEvent], at: Timestamp) {
        if let Some(progress) = &mut self.progress {
            progress.recalled(events, at);
        }
    }

    fn gap(&mut self, ms: u64) {
        if let Some(progress) = &mut self.progress {
            progress.gap(ms);
        }
    }

    fn notice(&mut self, text: &str) -> io::Result<()> {
        self.tell(|progress| progress.notice(text));
        Ok(())
    }

    fn is_animated(&self) -> bool {
        self.progress.as_ref().is_some_and(|progress| progress.is_animated())
    }

    fn tick(&mut self) -> io::Result<()> {
        self.tell(|progress| progress.tick());
        Ok(())
    }

    fn suspend(&mut self) -> io::Result<()> {
        self.tell(|progress| progress.suspend());
        Ok(())
    }

    fn close(&mut self) -> io::Result<()> {
        self.tell(|progress| progress.close());
        Ok(())
    }
}
