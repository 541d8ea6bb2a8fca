//! Positions in a text: line, column and width.

use serde::Serialize;

/// Where a value is in a file. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
    /// Width on that line in characters, at least 1.
    #[serde(skip)]
    pub width: usize,
}

impl Position {
    /// The first character of a text.
    pub const START: Self = Self { line: 1, column: 1, width: 1 };

    /// The same position, `lines` lines further down.
    pub(super) fn down(self, lines: usize) -> Self {
        Self { line: self.line + lines, ..self }
    }

    /// The first word of a line.
    pub(super) fn of_line(text: &str, line: usize) -> Self {
        let content = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
        let indent = content.chars().take_while(|c| c.is_whitespace()).count();
        Self { line, column: indent + 1, width: content.trim().chars().count().max(1) }
    }
}
