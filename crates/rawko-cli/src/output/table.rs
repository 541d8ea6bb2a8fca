//! Columns, indents and lines of limited width.

use rawko_core::text::truncate;
use unicode_width::UnicodeWidthStr as _;

use super::paint::Paint;
use super::sanitize::clean_line;
use crate::console::output_columns;

/// Columns in which words are put beside others.
const NARROWEST: usize = 24;
/// Columns before what is put below.
const BELOW: usize = 4;

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
        table.render(self.paint, output_columns())
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

    /// The table as text, a line a row. Where the terminal has fewer `columns`, the last cell of a row is broken between words,
    /// and what does not fit beside the others is below them.
    fn render(&self, paint: Paint, terminal: Option<usize>) -> String {
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
            let last = row.len().saturating_sub(1);
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                match terminal {
                    Some(terminal) if column == last && line.width() + cell.width() > terminal => {
                        line = with_last(&line, cell, terminal);
                    }
                    _ => {
                        line.push_str(cell);
                        line.push_str(&" ".repeat(width + 2 - cell.width().min(*width)));
                    }
                }
            }
            let line = line.trim_end();
            text.push_str(&if at == 0 { paint.strong(line) } else { line.to_owned() });
            text.push('\n');
        }
        text
    }
}

/// A row whose last cell does not fit into the terminal.
fn with_last(line: &str, cell: &str, terminal: usize) -> String {
    let room = terminal.saturating_sub(line.width());
    let longest = cell.split(' ').map(|word| word.width()).max().unwrap_or_default();
    if room >= longest.max(NARROWEST) {
        let lines = wrap(cell, room).replace('\n', &format!("\n{}", " ".repeat(line.width())));
        return format!("{line}{lines}");
    }
    let below = indent(&wrap(cell, terminal.saturating_sub(BELOW)), BELOW);
    format!("{}\n{below}", line.trim_end())
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
    fn a_last_cell_is_broken_between_words_where_the_terminal_ends() {
        let mut table = Table::new(&["NAME", "USE"]);
        table.row(vec!["a".to_owned(), "one two three four five six seven".to_owned()]);
        table.row(vec!["b".to_owned(), "https://example.com/a/long/address".to_owned()]);
        let shown = table.render(Paint::new(false), Some(36));
        let below = "b\n    https://example.com/a/long/address\n";
        assert_eq!(shown, format!("NAME  USE\na     one two three four five six\n      seven\n{below}"));
        assert_eq!(table.render(Paint::new(false), None).lines().count(), 3);
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three\nfour", 8), "one two\nthree\nfour");
        assert_eq!(wrap("averylongword x", 5), "averylongword\nx");
        assert_eq!(wrap("", 5), "");
    }
}
