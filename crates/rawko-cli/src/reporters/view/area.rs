//! A few changing lines at the bottom of a terminal, below text that stays. Each change is one write, so that nothing
//! flickers.
//!
//! Between two frames the cursor stands on the first changing line, or where the user types. When a window becomes
//! narrower, some terminals wrap what is there and others cut it, and none says which. The cursor stays with its line
//! in both, so a new frame begins in the right place and never erases a line that was to stay (ADR 68).

use std::io::{self, Write};

use super::super::line::StyledLine;
use crate::output::Paint;

/// A terminal may be narrower already than it has said: then a line is cut and not wrapped, so that the next frame finds
/// the first one where it was.
const WRAP_OFF: &str = "\u{1b}[?7l";
const WRAP_ON: &str = "\u{1b}[?7h";

/// What a terminal measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// Reads the terminal's size. Called for each frame, because windows are resized.
pub(crate) type Measure = Box<dyn Fn() -> Size + Send>;

/// The size of the terminal at standard error; 80 by 24 if it does not say.
pub(in crate::reporters) fn stderr_size() -> Measure {
    Box::new(|| {
        let size = rustix::termios::tcgetwinsize(io::stderr());
        let or = |value: Option<u16>, default| value.filter(|it| *it > 0).map_or(default, usize::from);
        let size = size.ok();
        Size { columns: or(size.map(|it| it.ws_col), 80), rows: or(size.map(|it| it.ws_row), 24) }
    })
}

/// What is to be seen now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Frame {
    /// The lines, none wider than the terminal.
    pub(super) lines: Vec<StyledLine>,
    /// Line and column of the cursor, where the user types.
    pub(super) cursor: Option<(usize, usize)>,
}

/// The changing lines and their writer.
pub(super) struct Area<W> {
    out: W,
    paint: Paint,
    drawn: Frame,
    size: Option<Size>,
}

impl<W: Write> Area<W> {
    /// Nothing drawn yet.
    pub(super) fn new(out: W, paint: Paint) -> Self {
        Self { out, paint, drawn: Frame::default(), size: None }
    }

    /// Whether this frame is on the screen already.
    pub(super) fn shows(&self, frame: &Frame, size: Size) -> bool {
        self.drawn == *frame && (self.size == Some(size) || frame.lines.is_empty())
    }

    /// Writes `above`, which stays, and then the frame. A frame has fewer lines than the terminal.
    pub(super) fn draw(&mut self, above: &[StyledLine], frame: Frame, size: Size) -> io::Result<()> {
        // Synchronized output: terminals that support it show all of it at once, others ignore it.
        let mut text = String::from("\u{1b}[?2026h\u{1b}[?25l");
        text.push_str(&self.to_the_top(size));
        let stays =
            above.is_empty() && self.size == Some(size) && self.drawn.lines.len() == frame.lines.len();
        if stays {
            self.change(&frame, &mut text);
        } else {
            self.replace(above, &frame, size, &mut text);
        }
        let last = frame.lines.len().saturating_sub(1);
        let (row, column) = frame.cursor.unwrap_or_default();
        if last > row {
            text.push_str(&format!("\u{1b}[{}A", last - row));
        }
        text.push('\r');
        if column > 0 {
            text.push_str(&format!("\u{1b}[{column}C"));
        }
        text.push_str("\u{1b}[?25h\u{1b}[?2026l");
        self.drawn = frame;
        self.size = Some(size);
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Removes the changing lines.
    pub(super) fn clear(&mut self, size: Size) -> io::Result<()> {
        if self.drawn.lines.is_empty() { Ok(()) } else { self.draw(&[], Frame::default(), size) }
    }

    /// Forgets what was drawn: something else has written to the terminal.
    pub(super) fn forget(&mut self) {
        self.drawn = Frame::default();
    }

    /// From where the cursor was left to the beginning of the first line.
    fn to_the_top(&self, size: Size) -> String {
        let before = self.drawn.cursor.map_or(0, |(row, _)| row);
        // A narrower terminal has wrapped them.
        let rows = |line: &StyledLine| line.width().max(1).div_ceil(size.columns.max(1));
        let up: usize = self.drawn.lines.iter().take(before).map(rows).sum();
        if up == 0 { "\r".to_owned() } else { format!("\u{1b}[{up}A\r") }
    }

    fn replace(&self, above: &[StyledLine], frame: &Frame, size: Size, text: &mut String) {
        // Not from the corner of the window: tmux would keep what is erased there in its history.
        text.push_str(" \u{1b}[J\r");
        for line in above {
            for row in line.wrapped(size.columns.saturating_sub(1)) {
                text.push_str(&row.painted(self.paint));
                text.push_str("\r\n");
            }
        }
        text.push_str(WRAP_OFF);
        for (at, line) in frame.lines.iter().enumerate() {
            if at > 0 {
                text.push_str("\r\n");
            }
            text.push_str(&line.painted(self.paint));
        }
        text.push_str(WRAP_ON);
    }

    /// Writes only the lines that differ.
    fn change(&self, frame: &Frame, text: &mut String) {
        text.push_str(WRAP_OFF);
        for (at, (old, new)) in self.drawn.lines.iter().zip(&frame.lines).enumerate() {
            if at > 0 {
                text.push_str("\r\n");
            }
            if old != new {
                text.push_str(&new.painted(self.paint));
                text.push_str("\u{1b}[K");
            }
        }
        text.push_str(WRAP_ON);
    }
}

/// A terminal in memory.
#[cfg(test)]
pub(super) fn terminal(rows: u16, columns: u16, scrollback: usize) -> vt100::Parser {
    use std::num::NonZero;
    let sized = |size| NonZero::new(size).unwrap_or(NonZero::<u16>::MIN);
    vt100::Parser::new(sized(rows), sized(columns), scrollback)
}

#[cfg(test)]
impl Area<&mut Vec<u8>> {
    /// What was written so far.
    pub(super) fn written(&self) -> &[u8] {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vt100::Parser;

    /// Everything a terminal of this size has shown, also what has scrolled away.
    fn seen(terminal: &mut Parser) -> String {
        let (rows, columns) = terminal.screen().size();
        terminal.screen_mut().set_scrollback(usize::MAX);
        let mut lines = Vec::new();
        let above = terminal.screen().scrollback();
        for back in (1..=above).rev() {
            terminal.screen_mut().set_scrollback(back);
            lines.extend(terminal.screen().rows(0, columns.into()).next());
        }
        terminal.screen_mut().set_scrollback(0);
        lines.extend(terminal.screen().rows(0, columns.into()).take(usize::from(u16::from(rows))));
        lines.join("\n").trim_end().to_owned()
    }

    #[derive(Debug, Clone)]
    struct Step {
        above: Vec<String>,
        lines: Vec<String>,
        typing: bool,
        columns: usize,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let above = prop::collection::vec("[a-z]{1,12}", 0..3);
        let lines = prop::collection::vec("[A-Z]{1,20}", 0..6);
        let step = (above, lines, any::<bool>(), 24usize..40)
            .prop_map(|(above, lines, typing, columns)| Step { above, lines, typing, columns });
        prop::collection::vec(step, 1..20)
    }

    proptest! {
        #[test]
        fn what_was_printed_stays_and_the_last_frame_is_below(steps in steps()) {
            let mut terminal = terminal(8, 40, 1_000);
            let mut bytes = Vec::new();
            let (mut printed, mut shown) = (Vec::new(), Vec::new());
            let mut area = Area::new(&mut bytes, Paint::new(true));
            for step in &steps {
                let lines: Vec<StyledLine> = step.lines.iter().map(StyledLine::plain).collect();
                let cursor = step.typing.then(|| (lines.len().saturating_sub(1), 1)).filter(|_| !lines.is_empty());
                let above: Vec<StyledLine> = step.above.iter().map(StyledLine::plain).collect();
                // A wider terminal than the one the lines are for: as after a change of its width.
                area.draw(&above, Frame { lines, cursor }, Size { columns: step.columns, rows: 8 }).unwrap();
                printed.extend(step.above.clone());
                shown.clone_from(&step.lines);
            }
            drop(area);
            terminal.process(&bytes);
            let expected: Vec<String> = printed.into_iter().chain(shown).collect();
            prop_assert_eq!(seen(&mut terminal), expected.join("\n"));
            prop_assert!(!terminal.screen().hide_cursor());
        }
    }

    #[test]
    fn an_unchanged_line_is_not_written_again() {
        let mut bytes = Vec::new();
        let size = Size { columns: 80, rows: 24 };
        let mut area = Area::new(&mut bytes, Paint::new(false));
        let frame = |last: &str| Frame {
            lines: vec![StyledLine::plain("the same"), StyledLine::plain(last)],
            cursor: None,
        };
        area.draw(&[], frame("one"), size).unwrap();
        assert!(area.shows(&frame("one"), size) && !area.shows(&frame("two"), size));
        area.draw(&[], frame("two"), size).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!((text.matches("the same").count(), text.matches("two").count()), (1, 1));
    }

    #[test]
    fn a_window_that_wraps_the_lines_loses_none_above() {
        // The terminal of the test cuts lines where others wrap them: so the wrapped screen is written as such.
        let mut terminal = terminal(10, 20, 100);
        terminal.process(b"stays\r\nABCDEFGHIJKLMNOPQRST\r\nUVWXYZ\r\n> typed\x1b[3G");
        let mut bytes = Vec::new();
        let mut area = Area::new(&mut bytes, Paint::new(false));
        let wide = ["ABCDEFGHIJKLMNOPQRSTUVWXYZ", "> typed"].map(StyledLine::plain).to_vec();
        area.drawn = Frame { lines: wide, cursor: Some((1, 2)) };
        area.size = Some(Size { columns: 40, rows: 10 });
        let narrow = ["ABCDEFGHIJKLMNOP…", "> typed"].map(StyledLine::plain).to_vec();
        area.draw(&[], Frame { lines: narrow, cursor: Some((1, 2)) }, Size { columns: 20, rows: 10 })
            .unwrap();
        drop(area);
        terminal.process(&bytes);
        assert_eq!(seen(&mut terminal), "stays\nABCDEFGHIJKLMNOP…\n> typed");
        assert_eq!(terminal.screen().cursor_position(), (2, 2));
    }
}
