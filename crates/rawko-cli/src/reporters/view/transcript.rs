//! What stays on a terminal: the lines of events, and with `--verbose` the agents' texts.

use rawko::RunEvent;

use super::super::Verbosity;
use super::super::line::StyledLine;
use super::super::lines::{EventFormatter, Surface};
use super::markdown;
use crate::output::{Clock, Sanitizer};

/// Turns events into lines.
#[derive(Debug)]
pub(super) struct Scrollback {
    lines: EventFormatter,
    sanitizer: Sanitizer,
    /// A model's text until it ends.
    text: String,
}

impl Scrollback {
    pub(super) fn new(verbosity: Verbosity, clock: Clock) -> Self {
        let lines = EventFormatter::new(Surface::Terminal, verbosity, clock);
        Self { lines, sanitizer: Sanitizer::default(), text: String::new() }
    }

    /// Whether it keeps everything, so that nothing has to be folded.
    pub(super) fn keeps_all(&self) -> bool {
        self.lines.is_verbose()
    }

    /// The lines of an event, after those of a text that it ends.
    pub(super) fn take(&mut self, event: &RunEvent) -> Vec<StyledLine> {
        if let RunEvent::TextDelta { text, .. } = event {
            if self.lines.is_verbose() {
                self.sanitizer.push(text, &mut self.text);
            }
            return Vec::new();
        }
        let mut lines = self.end_text();
        lines.extend(self.lines.of(event));
        lines
    }

    /// The text so far, which has ended.
    pub(super) fn end_text(&mut self) -> Vec<StyledLine> {
        self.sanitizer = Sanitizer::default();
        let lines = markdown::lines(&std::mem::take(&mut self.text));
        lines.into_iter().map(|line| StyledLine::plain("  ").join(line)).collect()
    }
}
