//! Progress where there is no terminal: the lines of each event, without control codes.

use std::io::{self, Write};

use rawko::RunEvent;

use super::lines::{EventFormatter, Surface};
use super::{Reporter, Verbosity};
use crate::output::{Clock, Paint, Sanitizer, clean_line};

/// Writes each event as a line.
pub(crate) struct PlainReporter<W> {
    paint: Paint,
    lines: EventFormatter,
    out: W,
    partial: TextLine,
}

/// A model's text until its line is complete.
#[derive(Debug, Default)]
struct TextLine {
    agent: String,
    sanitizer: Sanitizer,
    line: String,
}

impl<W: Write> PlainReporter<W> {
    /// To `out`.
    pub(crate) fn new(paint: Paint, verbosity: Verbosity, clock: Clock, out: W) -> Self {
        let lines = EventFormatter::new(Surface::Log, verbosity, clock);
        Self { paint, lines, out, partial: TextLine::default() }
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(format!("{text}\n").as_bytes())
    }

    /// The arbiter's text is its decision, which is shown anyway.
    fn is_shown(&self, agent: &str) -> bool {
        self.lines.is_verbose() || !matches!(agent, "select" | "evaluate")
    }

    fn text(&mut self, agent: &str, text: &str) -> io::Result<()> {
        if self.partial.agent != agent {
            self.end_text()?;
            self.partial.agent = agent.to_owned();
        }
        self.partial.sanitizer.push(text, &mut self.partial.line);
        while let Some(end) = self.partial.line.find('\n') {
            let rest = self.partial.line.split_off(end + 1);
            let line = std::mem::replace(&mut self.partial.line, rest);
            self.text_line(line.trim_end())?;
        }
        Ok(())
    }

    fn end_text(&mut self) -> io::Result<()> {
        let TextLine { line, .. } = &mut self.partial;
        let line = std::mem::take(line);
        self.text_line(line.trim_end())?;
        self.partial = TextLine::default();
        Ok(())
    }

    fn text_line(&mut self, line: &str) -> io::Result<()> {
        if line.is_empty() {
            return Ok(());
        }
        let text = format!("{}: {line}", clean_line(&self.partial.agent));
        self.line(&text)
    }
}

impl<W: Write> Reporter for PlainReporter<W> {
    fn event(&mut self, event: &RunEvent) -> io::Result<()> {
        match event {
            RunEvent::TextDelta { agent, text } if self.is_shown(agent) => self.text(agent, text)?,
            RunEvent::TextDelta { .. } => {}
            event => {
                self.end_text()?;
                for line in self.lines.of(event) {
                    self.line(&line.painted(self.paint))?;
                }
            }
        }
        self.out.flush()
    }

    fn notice(&mut self, text: &str) -> io::Result<()> {
        self.end_text()?;
        self.line(text)?;
        self.out.flush()
    }

    fn close(&mut self) -> io::Result<()> {
        self.end_text()?;
        self.out.flush()
    }
}
