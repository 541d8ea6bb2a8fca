//! A few changing lines at the bottom of a terminal, below text that stays. Each change is one write, so that nothing
//! flickers.

use std::io::{self, Write};

use crate::output::{Paint, fit};

/// Columns if the terminal does not say.
const DEFAULT_COLUMNS: u16 = 80;

/// Reads the width of the terminal. Called at each redraw, because windows are resized.
pub(super) type Columns = Box<dyn Fn() -> u16 + Send>;

/// The width of the terminal at standard error.
pub(super) fn stderr_size() -> Columns {
    Box::new(|| match rustix::termios::tcgetwinsize(io::stderr()) {
        Ok(size) if size.ws_col > 0 => size.ws_col,
        _ => DEFAULT_COLUMNS,
    })
}

/// The changing lines and their writer.
pub(super) struct Live<W> {
    out: W,
    columns: Columns,
    paint: Paint,
    lines: Vec<String>,
    drawn: usize,
}

impl<W: Write> Live<W> {
    /// Nothing drawn yet.
    pub(super) fn new(out: W, columns: Columns, paint: Paint) -> Self {
        Self { out, columns, paint, lines: Vec::new(), drawn: 0 }
    }

    /// Writes `text`, which stays, above the changing lines. It may hold our own colors.
    pub(super) fn print(&mut self, text: &str) -> io::Result<()> {
        let body = format!("{}\n", text.strip_suffix('\n').unwrap_or(text));
        self.redraw(&body)
    }

    /// Replaces the changing lines. They hold no control codes or colors.
    pub(super) fn show(&mut self, lines: Vec<String>) -> io::Result<()> {
        if lines == self.lines && self.drawn == lines.len() {
            return Ok(());
        }
        self.lines = lines;
        self.redraw("")
    }

    /// Removes the changing lines.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.lines.clear();
        if self.drawn == 0 {
            return Ok(());
        }
        self.redraw("")
    }

    fn redraw(&mut self, above: &str) -> io::Result<()> {
        // Synchronized output: terminals that support it show the frame at once, others ignore it.
        let mut frame = String::from("\u{1b}[?2026h");
        frame.push_str(&self.erasure());
        frame.push_str(above);
        let columns = usize::from((self.columns)());
        for (at, line) in self.lines.iter().enumerate() {
            if at > 0 {
                frame.push('\n');
            }
            // Some terminals wrap when the last column is written, so it stays free.
            frame.push_str(&self.paint.faint(&fit(line, columns.saturating_sub(1))));
        }
        frame.push_str("\u{1b}[?2026l");
        self.drawn = self.lines.len();
        self.out.write_all(frame.as_bytes())?;
        self.out.flush()
    }

    /// Moves to the beginning of the first drawn line and clears everything from there.
    fn erasure(&self) -> String {
        match self.drawn {
            0 => String::new(),
            1 => "\r\u{1b}[J".to_owned(),
            rows => format!("\r\u{1b}[{}A\u{1b}[J", rows - 1),
        }
    }
}

#[cfg(test)]
pub(super) mod testing {
    //! A terminal small enough to be obviously right.

    /// What is on the screen after `bytes`: enough of a terminal for what this crate writes, and a panic for more.
    pub(in crate::reporters) fn screen(bytes: &[u8]) -> String {
        let text = std::str::from_utf8(bytes).expect("UTF-8");
        let mut rows: Vec<Vec<char>> = vec![Vec::new()];
        let (mut row, mut column) = (0_usize, 0_usize);
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '\n' => {
                    (row, column) = (row + 1, 0);
                    if row == rows.len() {
                        rows.push(Vec::new());
                    }
                }
                '\r' => column = 0,
                '\u{1b}' => {
                    assert_eq!(chars.next(), Some('['));
                    let mut parameters = String::new();
                    let end = loop {
                        match chars.next().expect("a whole sequence") {
                            c if c.is_ascii_alphabetic() => break c,
                            c => parameters.push(c),
                        }
                    };
                    match (end, parameters.as_str()) {
                        ('h' | 'l', "?2026") | ('m', _) => {}
                        ('A', up) => row -= up.parse::<usize>().expect("a number"),
                        ('J', "") => {
                            rows.truncate(row + 1);
                            rows[row].truncate(column);
                        }
                        (end, parameters) => panic!("ESC [ {parameters} {end} is not known"),
                    }
                }
                c => {
                    let line = &mut rows[row];
                    line.resize(line.len().max(column + 1), ' ');
                    line[column] = c;
                    column += 1;
                }
            }
        }
        let lines: Vec<String> =
            rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect();
        lines.join("\n").trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::screen;
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum LiveStep {
        Print(String),
        Show(Vec<String>),
    }

    fn steps() -> impl Strategy<Value = Vec<LiveStep>> {
        let step = prop_oneof![
            "[a-z]{0,30}".prop_map(LiveStep::Print),
            prop::collection::vec("[A-Z]{1,30}", 0..4).prop_map(LiveStep::Show),
        ];
        prop::collection::vec(step, 0..20)
    }

    proptest! {
        #[test]
        fn what_was_printed_stays_and_what_was_shown_last_is_below(steps in steps(), columns in 2u16..40) {
            let mut bytes = Vec::new();
            let mut live = Live::new(&mut bytes, Box::new(move || columns), Paint::new(true));
            let (mut printed, mut shown) = (Vec::new(), Vec::new());
            for step in steps {
                match step {
                    LiveStep::Print(text) => {
                        live.print(&text).unwrap();
                        printed.push(text);
                    }
                    LiveStep::Show(lines) => {
                        live.show(lines.clone()).unwrap();
                        shown = lines;
                    }
                }
            }
            drop(live);
            let cut = shown.iter().map(|line| fit(line, usize::from(columns) - 1));
            let expected: Vec<String> = printed.into_iter().chain(cut).collect();
            let expected = expected.join("\n");
            prop_assert_eq!(screen(&bytes), expected.trim_end());
        }
    }
}
