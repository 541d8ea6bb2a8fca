//! Columns, indents and lines of limited width.

use rawko_core::text::truncate;
use unicode_width::UnicodeWidthStr as _;

use super::paint::Paint;
use super::sanitize::clean_line;

/// A column: its heading, and the text under it for an item.
type Column<'a, T> = (&'a str, &'a dyn Fn(&T) -> String);

/// What a command lists for people: an item a row. Programs get the same items as JSON (`Console::output`).
pub(crate) struct Rows<'a, T> {
    paint: Paint,
    items: &'a [T],
}

impl<'a, T> Rows<'a, T> {
    /// The items, a row each.
    pub(crate) fn new(paint: Paint, items: &'a [T]) -> Self {
        Self { paint, items }
    }

    /// The table with these columns. Text from outside is made harmless here.
    pub(crate) fn table(&self, columns: &[Column<'_, T>]) -> String {
        let headings: Vec<&str> = columns.iter().map(|(heading, _)| *heading).collect();
        let mut table = Table::new(&headings);
        for item in self.items {
            table.row(columns.iter().map(|(_, cell)| clean_line(&cell(item))).collect());
        }
        table.render(self.paint)
    }
}

/// `text` from outside as a cell of at most `chars` characters, and a mark where more is left out.
pub(crate) fn shortened(text: &str, chars: usize) -> String {
    truncate(&clean_line(text), chars)
}

/// Rows in columns that are as wide as their widest cell.
#[derive(Debug, Default)]
struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table under these headings.
    fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|h| (*h).to_owned()).collect()] }
    }

    /// Appends a row. Cells are single lines without control codes or colors.
    fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table as text, a line a row.
    fn render(&self, paint: Paint) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.width())
                .max()
                .unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (at, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                line.push_str(&" ".repeat(width + 2 - cell.width().min(*width)));
            }
            let line = line.trim_end();
            text.push_str(&if at == 0 { paint.strong(line) } else { line.to_owned() });
            text.push('\n');
        }
        text
    }
}

/// The text of a cell; `-` where there is none.
pub(crate) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// `text` with every line indented by `by` spaces.
pub(crate) fn indent(text: &str, by: usize) -> String {
    let margin = " ".repeat(by);
    let lines: Vec<String> = text
        .lines()
        .map(|line| if line.is_empty() { String::new() } else { format!("{margin}{line}") })
        .collect();
    lines.join("\n")
}

/// `text` in lines of at most `columns`, broken between words; a longer word stays whole.
pub(crate) fn wrap(text: &str, columns: usize) -> String {
    let mut wrapped = String::with_capacity(text.len());
    for line in text.lines() {
        let mut used = 0;
        for word in line.split(' ') {
            let width = word.width();
            if used > 0 && used + 1 + width > columns {
                wrapped.push('\n');
                used = 0;
            } else if used > 0 {
                wrapped.push(' ');
                used += 1;
            }
            wrapped.push_str(word);
            used += width;
        }
        wrapped.push('\n');
    }
    wrapped.truncate(wrapped.trim_end().len());
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_harmless() {
        let items = [("a", "b"), ("日本語!", "c\n\u{1b}[31md")];
        let table = Rows::new(Paint::new(false), &items)
            .table(&[("NAME", &|item| item.0.to_owned()), ("USE", &|item| item.1.to_owned())]);
        let red = clean_line("\u{1b}[31m");
        assert_eq!(table, format!("NAME     USE\na        b\n日本語!  c {red}d\n"));
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three\nfour", 8), "one two\nthree\nfour");
        assert_eq!(wrap("averylongword x", 5), "averylongword\nx");
        assert_eq!(wrap("", 5), "");
    }
}
