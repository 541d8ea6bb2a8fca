//! The view of a run at a terminal: a few lines at the bottom that change, below text that stays.
//!
//! [`Model`] folds the run's events, [`layout`] draws what it holds as a pure function of the time and the terminal's
//! size, and [`Area`] writes what differs from the last frame. An execution that has ended is folded into a few lines
//! that stay; `--verbose` keeps everything ([`Scrollback`]). Keys go through [`KeyboardControl`] to the run. Everything
//! shown has passed the sanitizer.

mod area;
mod control;
mod execution;
mod keys;
mod layout;
mod markdown;
mod model;
mod transcript;

#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::sync::mpsc::Receiver;

use rawko::RunEvent;
use rawko_core::Timestamp;
use rawko_core::session::Note;

use super::{Reporter, Verbosity, phrase};
use crate::commands::steer::SteerRequest;
use crate::keyboard::{Keyboard, is_in_foreground};
use crate::output::{Clock, Paint, clean_line};

use super::line::{StyledLine, Tone};
use area::{Area, Frame, Measure};
use control::{KeyboardControl, UserAction};
use keys::{Key, KeyReader};
use model::Model;
use transcript::Scrollback;

pub(super) use area::stderr_size;

/// Passes on what a person asks of the run.
pub(crate) type Steer = Box<dyn FnMut(SteerRequest) + Send>;

/// Shows a run on a terminal, and takes keys.
pub(crate) struct TerminalView<W: Write> {
    clock: Clock,
    measure: Measure,
    area: Area<W>,
    model: Model,
    transcript: Scrollback,
    control: KeyboardControl,
    keyboard: Keyboard,
    steer: Option<Steer>,
    keys: Option<Receiver<Vec<u8>>>,
    reader: KeyReader,
    /// Lines that stay and are not written yet.
    above: Vec<StyledLine>,
}

impl<W: Write> TerminalView<W> {
    /// Writes to `out`, a terminal whose size `measure` gives. Without `steer` there are no keys.
    pub(crate) fn new(
        out: W,
        paint: Paint,
        verbosity: Verbosity,
        clock: Clock,
        measure: Measure,
        keyboard: Keyboard,
        steer: Option<Steer>,
    ) -> Self {
        Self {
            clock,
            measure,
            area: Area::new(out, paint),
            model: Model::new(clock, clock.now()),
            transcript: Scrollback::new(verbosity, clock),
            control: KeyboardControl::default(),
            keyboard,
            steer,
            keys: None,
            reader: KeyReader::default(),
            above: Vec::new(),
        }
    }

    /// Whether finished executions are folded.
    fn folds(&self) -> bool {
        !self.transcript.keeps_all()
    }

    fn draw(&mut self) -> io::Result<()> {
        let (size, now) = ((self.measure)(), self.clock.now());
        self.control.pass(&self.model, self.keyboard.is_asked(), now);
        // In the background the terminal shows what the user does there.
        let is_ours = self.keys.is_none() || is_in_foreground();
        let frame =
            if is_ours { layout::frame(&self.model, &self.control, size, now) } else { Frame::default() };
        if self.above.is_empty() && self.area.shows(&frame, size) {
            return Ok(());
        }
        let above = std::mem::take(&mut self.above);
        self.area.draw(&above, frame, size)
    }

    /// Opens the keyboard for a run that can be steered.
    fn listen(&mut self) {
        if self.steer.is_some() && self.keys.is_none() {
            self.keys = self.keyboard.open();
            self.control.active = self.keys.is_some();
        }
    }

    fn take_keys(&mut self) {
        let Some(typed) = &self.keys else { return };
        let mut keys = Vec::new();
        let mut is_quiet = true;
        while let Ok(bytes) = typed.try_recv() {
            is_quiet = false;
            keys.extend(self.reader.keys(&bytes));
        }
        if is_quiet {
            keys.extend(self.reader.pause());
        }
        for key in &keys {
            self.key(key);
        }
    }

    /// A server wants to know something of the person.
    fn ask_for_line(&mut self) {
        let asked = self.keyboard.asks_line();
        let (above, prompt) = asked.map(|(above, prompt)| (above, Some(prompt))).unwrap_or_default();
        self.above.extend(above.into_iter().map(|line| StyledLine::verbatim(Tone::Warning, line)));
        self.control.ask_for_line(prompt);
    }

    fn key(&mut self, key: &Key) {
        let now = self.clock.now();
        match self.control.key(key, &self.model, now) {
            Some(UserAction::Steer(steering)) => {
                if let Some(steer) = &mut self.steer {
                    steer(steering);
                }
            }
            Some(UserAction::Answer(answer)) => self.keyboard.give(answer),
            Some(UserAction::Line(line)) => self.keyboard.give_line(line),
            None => {}
        }
    }
}

impl<W: Write> Reporter for TerminalView<W> {
    fn event(&mut self, event: &RunEvent) -> io::Result<()> {
        self.recorded(event, self.clock.now())
    }

    fn recalled(&mut self, events: &[RunEvent], at: Timestamp) {
        self.model.passes(at);
        for event in events {
            let _ = self.model.take(event, at);
        }
    }

    fn gap(&mut self, ms: u64) {
        self.model.gap(ms);
    }

    fn recorded(&mut self, event: &RunEvent, at: Timestamp) -> io::Result<()> {
        let folded = self.model.take(event, at);
        let mut lines = self.transcript.take(event);
        if self.folds() {
            self.above.extend(folded);
        }
        self.above.append(&mut lines);
        match event {
            RunEvent::Note(Note::Steered { command, ignored: Some(why), .. }) => {
                self.control.tell(&phrase::steered(command, Some(why)), self.clock.now());
                Ok(())
            }
            RunEvent::SessionStarted { .. } => {
                self.listen();
                self.draw()
            }
            RunEvent::SessionFinished { .. } => self.draw(),
            // The rest is drawn at the next tick, all at once.
            _ => Ok(()),
        }
    }

    fn notice(&mut self, text: &str) -> io::Result<()> {
        self.above.extend(self.transcript.end_text());
        self.above.push(StyledLine::of(Tone::Warning, clean_line(text)));
        self.draw()
    }

    fn is_animated(&self) -> bool {
        true
    }

    fn tick(&mut self) -> io::Result<()> {
        self.keyboard.reopen();
        self.ask_for_line();
        self.take_keys();
        self.draw()
    }

    fn suspend(&mut self) -> io::Result<()> {
        let size = (self.measure)();
        let cleared = self.area.clear(size);
        self.area.forget();
        self.keyboard.release();
        cleared
    }

    fn close(&mut self) -> io::Result<()> {
        self.model.running = false;
        self.above.extend(self.transcript.end_text());
        let drawn = self.draw();
        self.keys = None;
        self.keyboard.close();
        drawn
    }
}

impl<W: Write> Drop for TerminalView<W> {
    /// Also on a panic: the terminal is given back.
    fn drop(&mut self) {
        let _ = self.close();
    }
}
