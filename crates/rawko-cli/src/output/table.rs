//! Columns, indents and lines of limited width.

use rawko_core::text::truncate;
use unicode_width::UnicodeWidthStr as _;

use super::paint::Paint;
use super::sanitize::clean_line;
use crate::console::output_columns;

/// Columns in which words are put beside others.
const BESIDE: usize = 24;
/// Columns that a text has in any terminal.
const NARROWEST: usize = 20;
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

    /// The table as text, a line a row. Where the terminal has fewer `columns`, cells are broken between words: those of the last
    /// column, which are put below the others where too little room is left, and those of the others, the widest first.
    fn render(&self, paint: Paint, terminal: Option<usize>) -> String {
        let widths = self.widths(terminal);
        let mut text = String::new();
        for (at, row) in self.rows.iter().enumerate() {
            let last = row.len().saturating_sub(1);
            let others: Vec<(String, usize)> = row
                .iter()
                .zip(&widths)
                .take(last)
                .map(|(cell, width)| (wrap(cell, *width), *width))
                .collect();
            let height = others.iter().map(|(cell, _)| cell.lines().count()).max().unwrap_or(1).max(1);
            let mut lines = vec![String::new(); height];
            for (cell, width) in &others {
                let mut broken = cell.lines();
                for line in &mut lines {
                    let part = broken.next().unwrap_or_default();
                    line.push_str(part);
                    line.push_str(&" ".repeat(width + 2 - part.width().min(*width)));
                }
            }
            let cell = row.last().map_or("", String::as_str);
            put_last(&mut lines, cell, terminal.unwrap_or(usize::MAX));
            for line in lines.iter().flat_map(|line| line.lines()) {
                let line = line.trim_end();
                text.push_str(&if at == 0 { paint.strong(line) } else { line.to_owned() });
                text.push('\n');
            }
        }
        text
    }

    /// The width of each column.
    fn widths(&self, terminal: Option<usize>) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let cells = |column: usize| self.rows.iter().filter_map(move |row| row.get(column));
        let width = |column: usize| cells(column).map(|cell| cell.width()).max().unwrap_or_default();
        let mut widths: Vec<usize> = (0..columns).map(width).collect();
        let Some((_, others)) = widths.split_last_mut() else { return widths };
        let used = others.iter().map(|width| width + 2).sum::<usize>().saturating_sub(2);
        let mut excess = terminal.map_or(0, |terminal| used.saturating_sub(terminal));
        let mut by_width: Vec<(usize, &mut usize)> = others.iter_mut().enumerate().collect();
        by_width.sort_by_key(|(_, width)| std::cmp::Reverse(**width));
        for (column, width) in by_width {
            let longest = cells(column).flat_map(|cell| cell.split(' ')).map(|word| word.width()).max();
            let cut = excess.min(width.saturating_sub(longest.unwrap_or_default()));
            *width -= cut;
            excess -= cut;
        }
        widths
    }
}

/// Puts the last cell of a row beside the others, or below them.
fn put_last(lines: &mut Vec<String>, cell: &str, terminal: usize) {
    let Some(first) = lines.first_mut() else { return };
    let begins = first.width();
    let room = terminal.saturating_sub(begins);
    let longest = cell.split(' ').map(|word| word.width()).max().unwrap_or_default();
    if cell.width() <= room {
        first.push_str(cell);
    } else if room < longest.max(BESIDE) {
        lines.push(indent(&wrap(cell, terminal.saturating_sub(BELOW)), BELOW));
    } else {
        let wrapped = wrap(cell, room);
        for (at, part) in wrapped.lines().enumerate() {
            match lines.get_mut(at) {
                Some(line) => line.push_str(part),
                None => lines.push(format!("{}{part}", " ".repeat(begins))),
            }
        }
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

/// `text` in lines of at most `columns`, broken between words; a longer word stays whole. What a line begins with stays its
/// margin.
pub(crate) fn wrap(text: &str, columns: usize) -> String {
    let mut wrapped = String::with_capacity(text.len());
    for line in text.lines() {
        if line.width() <= columns {
            wrapped.push_str(line);
            wrapped.push('\n');
            continue;
        }
        let words = line.trim_start_matches(' ');
        // A margin that leaves little room is given up: it would be repeated in every line.
        let margin =
            line.strip_suffix(words).filter(|margin| margin.len() <= columns / 2).unwrap_or_default();
        wrapped.push_str(margin);
        let mut used = margin.width();
        for word in words.split(' ') {
            let width = word.width();
            if used > margin.width() && used + 1 + width > columns {
                wrapped.truncate(wrapped.trim_end_matches(' ').len());
                wrapped.push('\n');
                wrapped.push_str(margin);
                used = margin.width();
            } else if used > margin.width() {
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

/// `text` with every line indented by `by` spaces, and broken between words where the terminal ends, if it is one.
pub(crate) fn fit(text: &str, by: usize) -> String {
    indent(&output_columns().map_or_else(|| text.to_owned(), |columns| wrap(text, room(columns, by))), by)
}

/// How many columns a text has beside a margin, in a terminal of so many.
pub(crate) fn room(columns: usize, margin: usize) -> usize {
    columns.saturating_sub(margin).max(NARROWEST)
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
    fn other_cells_are_broken_where_the_last_has_no_room_at_all() {
        let mut table = Table::new(&["NAME", "TOOLS", "FROM", "USE"]);
        let tools = "Read, Write, Edit, Glob, Grep, Bash";
        table.row(vec!["a".to_owned(), tools.to_owned(), "here".to_owned(), "for all".to_owned()]);
        let shown = table.render(Paint::new(false), Some(40));
        let wanted = [
            "NAME  TOOLS                         FROM",
            "    USE",
            "a     Read, Write, Edit, Glob,      here",
            "      Grep, Bash",
            "    for all",
        ];
        assert_eq!(shown.lines().collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn columns_stay_in_line_where_a_long_word_has_no_room() {
        let mut table = Table::new(&["PATH", "KIND", "TITLE"]);
        table.row(vec!["a/very/long/path/to/a/memory.md".to_owned(), "a fact".to_owned(), "one".to_owned()]);
        table.row(vec!["b.md".to_owned(), "note".to_owned(), "two".to_owned()]);
        let shown = table.render(Paint::new(false), Some(30));
        let kinds: Vec<usize> = ["KIND", "a\n", "note"].iter().filter_map(|kind| shown.find(kind)).collect();
        let column = |at: usize| at - shown[..at].rfind('\n').map_or(0, |end| end + 1);
        assert_eq!(kinds.into_iter().map(column).collect::<Vec<_>>(), [33; 3], "{shown}");
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two  (three)", 8), "one two\n(three)");
        let deep = format!("{}{}", " ".repeat(1_000), "x ".repeat(1_000));
        assert!(wrap(&deep, 20).len() < 4_000);
        assert_eq!(wrap("- one\n  two three", 8), "- one\n  two\n  three");
        assert_eq!(wrap("one two three\nfour", 8), "one two\nthree\nfour");
        assert_eq!(wrap("averylongword x", 5), "averylongword\nx");
        assert_eq!(wrap("", 5), "");
    }
}
