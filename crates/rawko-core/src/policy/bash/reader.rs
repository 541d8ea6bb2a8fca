//! Reads a command character by character, as bash reads its input: a backslash before a line end joins the lines.
//!
//! bash joins lines before it looks for operators, so `$\⏎(ls)` is `$(ls)`. Everything here does the same, except the
//! functions that say so: quotes, comments and here-documents keep their backslashes.

use super::parser::{Parser, Result};

impl Parser<'_> {
    /// The position of the next character, after joined line ends.
    fn joined(&self, mut at: usize) -> usize {
        while self.text.get(at) == Some(&'\\') && self.text.get(at + 1) == Some(&'\n') {
            at += 2;
        }
        at
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.text.get(self.joined(self.at)).copied()
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Option<char> {
        let mut at = self.joined(self.at);
        for _ in 0..ahead {
            at = self.joined(at + 1);
        }
        self.text.get(at).copied()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        self.at = self.joined(self.at);
        self.next_raw()
    }

    /// The next character, whatever it is: for quotes, and after a backslash.
    pub(super) fn next_raw(&mut self) -> Option<char> {
        let c = self.peek_raw()?;
        self.at += 1;
        Some(c)
    }

    pub(super) fn peek_raw(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// What was read since `start`, with its lines joined.
    pub(super) fn text_since(&self, start: usize) -> String {
        let mut text = String::new();
        let mut characters = self.text[start..self.at].iter().copied();
        while let Some(c) = characters.next() {
            if c != '\\' {
                text.push(c);
                continue;
            }
            let escaped = characters.next();
            if escaped != Some('\n') {
                text.push(c);
                text.extend(escaped);
            }
        }
        text
    }

    pub(super) fn fail<T>(&self, why: &str) -> Result<T> {
        Err(format!("{why} (at character {})", self.at + 1))
    }

    /// Passes over `text` if it comes next.
    pub(super) fn accept(&mut self, text: &str) -> bool {
        let mut at = self.at;
        for wanted in text.chars() {
            at = self.joined(at);
            if self.text.get(at) != Some(&wanted) {
                return false;
            }
            at += 1;
        }
        self.at = at;
        true
    }

    /// The rest of the line, and its end. Nothing is joined.
    pub(super) fn skip_line(&mut self) -> String {
        let start = self.at;
        while self.peek_raw().is_some_and(|c| c != '\n') {
            self.at += 1;
        }
        let line = self.text[start..self.at].iter().collect();
        self.at += usize::from(self.at < self.text.len());
        line
    }

    /// Skips blanks and a comment.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => {
                    self.next();
                }
                Some('#') => {
                    self.next();
                    while self.peek_raw().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    /// Skips blanks, comments and line ends, and with the line ends the here-documents that begin there.
    pub(super) fn skip_lines(&mut self) -> Result<()> {
        loop {
            self.skip_blanks();
            if self.peek() != Some('\n') {
                return Ok(());
            }
            self.next();
            for heredoc in std::mem::take(&mut self.heredocs) {
                self.heredoc_body(&heredoc)?;
            }
        }
    }

    /// Skips from an opening character to its partner. Quotes hide both.
    pub(super) fn skip_balanced(&mut self, open: char, close: char) -> Result<()> {
        let mut depth = 0_usize;
        while let Some(c) = self.next() {
            match c {
                '\\' => {
                    self.next_raw();
                }
                '\'' => while self.next_raw().ok_or("a quote without its partner")? != '\'' {},
                c if c == open => depth += 1,
                c if c == close => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        self.fail(&format!("`{open}` without its partner"))
    }
}
