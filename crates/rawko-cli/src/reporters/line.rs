//! Styled lines: text in pieces, each with a tone, and how lines are wrapped and cut to a width. Nothing here knows
//! what is shown.

use unicode_width::UnicodeWidthStr as _;

use crate::output::Paint;

/// How a piece of text looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::reporters) enum Tone {
    #[default]
    Normal,
    /// What a line is about.
    Strong,
    /// What matters less.
    Faint,
    /// A heading or a name.
    Name,
    /// Something is well.
    Good,
    /// Something is not as it should be.
    Warning,
    /// Something is wrong.
    Bad,
    /// The word that opens an error.
    Error,
    /// Emphasized in a text.
    Emphasis,
}

/// A line of text. It holds no control codes and no line breaks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::reporters) struct StyledLine {
    spans: Vec<(Tone, String)>,
    /// Columns by which its continuation lines are indented when it is wrapped.
    hanging: usize,
    /// Whether it is written as it is, blank by blank, and wrapped by the terminal alone.
    verbatim: bool,
}

impl StyledLine {
    /// A line in one tone.
    pub(in crate::reporters) fn of(tone: Tone, text: impl Into<String>) -> Self {
        Self::default().and(tone, text)
    }

    /// A line in the normal tone.
    pub(in crate::reporters) fn plain(text: impl Into<String>) -> Self {
        Self::of(Tone::Normal, text)
    }

    /// A line that is written as it is, and never wrapped: for text in which every character counts.
    pub(in crate::reporters) fn verbatim(tone: Tone, text: impl Into<String>) -> Self {
        Self { spans: vec![(tone, text.into())], verbatim: true, ..Self::default() }
    }

    /// Each line of `text` in this tone, indented.
    pub(in crate::reporters) fn block(tone: Tone, text: &str, indent: usize) -> Vec<Self> {
        let margin = " ".repeat(indent);
        text.lines().map(|line| Self::plain(margin.clone()).and(tone, line).hanging(indent)).collect()
    }

    /// Adds a piece. Tabs become single blanks, because their width depends on their column.
    pub(in crate::reporters) fn and(mut self, tone: Tone, text: impl Into<String>) -> Self {
        let text = text.into();
        if !text.is_empty() {
            self.spans.push((tone, if text.contains('\t') { text.replace('\t', " ") } else { text }));
        }
        self
    }

    /// Indents the continuation lines.
    pub(in crate::reporters) fn hanging(mut self, columns: usize) -> Self {
        self.hanging = columns;
        self
    }

    /// Adds the pieces of another line.
    pub(in crate::reporters) fn join(mut self, other: Self) -> Self {
        self.spans.extend(other.spans);
        self
    }

    /// Whether it shows nothing.
    pub(in crate::reporters) fn is_blank(&self) -> bool {
        self.spans.iter().all(|(_, text)| text.trim().is_empty())
    }

    /// The columns that it takes.
    pub(in crate::reporters) fn width(&self) -> usize {
        self.spans.iter().map(|(_, text)| text.width()).sum()
    }

    /// Whether its text ends with `end`.
    pub(in crate::reporters) fn ends_with(&self, end: &str) -> bool {
        self.spans.last().is_some_and(|(_, text)| text.ends_with(end))
    }

    /// The text without its tones.
    #[cfg(test)]
    pub(in crate::reporters) fn text(&self) -> String {
        self.spans.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// The text with its tones as colors.
    pub(in crate::reporters) fn painted(&self, paint: Paint) -> String {
        let spans = self.spans.iter().map(|(tone, text)| match tone {
            Tone::Normal => text.clone(),
            Tone::Strong => paint.strong(text),
            Tone::Faint => paint.faint(text),
            Tone::Name => paint.name(text),
            Tone::Good => paint.good(text),
            Tone::Warning => paint.warning(text),
            Tone::Bad => paint.bad(text),
            Tone::Error => paint.error(text),
            Tone::Emphasis => paint.emphasis(text),
        });
        spans.collect()
    }

    /// In lines of at most `columns`, broken between words. A longer word stays whole: for text that scrolls away, where
    /// the terminal may break it and where it can be copied.
    pub(in crate::reporters) fn wrapped(&self, columns: usize) -> Vec<Self> {
        if self.verbatim { vec![self.clone()] } else { self.broken(columns, false) }
    }

    /// The same, with longer words broken too, so that no line is wider than `columns`.
    pub(in crate::reporters) fn folded(&self, columns: usize) -> Vec<Self> {
        self.broken(columns.max(1), true)
    }

    fn broken(&self, columns: usize, breaks_words: bool) -> Vec<Self> {
        if self.width() <= columns {
            return vec![Self { hanging: 0, ..self.clone() }];
        }
        let indent = if self.hanging * 2 < columns { self.hanging } else { 0 };
        let margin = " ".repeat(indent);
        let (mut lines, mut line, mut used) = (Vec::new(), Self::default(), 0);
        // Whether the line has a word: in front of it, blanks are a margin.
        let mut has_word = false;
        let mut blanks: Vec<(Tone, String)> = Vec::new();
        for word in self.words() {
            let width = word.iter().map(|(_, text)| text.width()).sum::<usize>();
            if word.iter().all(|(_, text)| text.trim().is_empty()) {
                blanks = word;
                continue;
            }
            let gap = blanks.iter().map(|(_, text)| text.width()).sum::<usize>();
            if has_word && used + gap + width > columns {
                lines.push(std::mem::take(&mut line));
                line = Self::plain(margin.clone());
                used = indent;
                blanks.clear();
            } else {
                used += gap;
                for (tone, text) in blanks.drain(..) {
                    line = line.and(tone, text);
                }
            }
            has_word = true;
            for (tone, text) in word {
                if !breaks_words || used + text.width() <= columns {
                    used += text.width();
                    line = line.and(tone, text);
                    continue;
                }
                let mut rest = text.as_str();
                while !rest.is_empty() {
                    let fitting = beginning(rest, columns.saturating_sub(used));
                    if fitting.is_empty() && used > indent {
                        lines.push(std::mem::replace(&mut line, Self::plain(margin.clone())));
                        used = indent;
                        continue;
                    }
                    // A character that is wider than a whole line stands alone.
                    let end = rest.chars().next().map_or(0, char::len_utf8).max(fitting.len());
                    let (part, others) = rest.split_at(end);
                    used += part.width();
                    line = line.and(tone, part);
                    rest = others;
                }
            }
        }
        lines.push(line);
        lines
    }

    /// Words and the blanks between them, in turn, each in its tones.
    fn words(&self) -> Vec<Vec<(Tone, String)>> {
        let mut words: Vec<(bool, Vec<(Tone, String)>)> = Vec::new();
        for (tone, text) in &self.spans {
            for c in text.chars() {
                let is_blank = c == ' ';
                let joins = words.last().is_some_and(|(blank, _)| *blank == is_blank);
                if !joins {
                    words.push((is_blank, Vec::new()));
                }
                let Some((_, word)) = words.last_mut() else { continue };
                match word.last_mut() {
                    Some((of, piece)) if of == tone => piece.push(c),
                    _ => word.push((*tone, c.to_string())),
                }
            }
        }
        words.into_iter().map(|(_, word)| word).collect()
    }

    /// The beginning that fits into `columns`, cut between words where that leaves most of it, with `…`.
    pub(in crate::reporters) fn cut(&self, columns: usize) -> Self {
        if self.width() <= columns {
            return self.clone();
        }
        let mut used = 0;
        let mut cut: Vec<(Tone, String)> = Vec::new();
        for (tone, text) in &self.spans {
            let fitting = beginning(text, columns.saturating_sub(used + 1));
            used += fitting.width();
            cut.push((*tone, fitting.to_owned()));
            if fitting.len() < text.len() {
                break;
            }
        }
        if let Some((_, piece)) = cut.last_mut() {
            if let Some(end) = piece.rfind(' ').filter(|end| (piece.len() - end) * 4 < columns) {
                piece.truncate(end);
            }
            if columns > 0 {
                piece.push('…');
            }
        }
        Self { spans: cut, ..Self::default() }
    }

    /// Cut or filled with blanks to exactly `columns`.
    pub(in crate::reporters) fn fitted(&self, columns: usize) -> Self {
        let line = self.cut(columns);
        let missing = columns.saturating_sub(line.width());
        line.and(Tone::Normal, " ".repeat(missing))
    }
}

/// The longest beginning of `text` that fits into `columns`. It is measured as a whole, because a character may change the
/// width of the one before it. Of characters without a width, no more than eight a column are looked at.
fn beginning(text: &str, columns: usize) -> &str {
    let ends: Vec<usize> =
        text.char_indices().map(|(at, c)| at + c.len_utf8()).take(8 * columns.max(1)).collect();
    let fitting = ends.partition_point(|end| text.get(..*end).is_some_and(|begin| begin.width() <= columns));
    let end = fitting.checked_sub(1).and_then(|last| ends.get(last));
    end.and_then(|end| text.get(..*end)).unwrap_or_default()
}

/// Pieces side by side, as many in a line as fit, with `between` between them. None is broken.
pub(in crate::reporters) fn flow(pieces: Vec<StyledLine>, between: &str, columns: usize) -> Vec<StyledLine> {
    let mut lines: Vec<StyledLine> = Vec::new();
    for piece in pieces {
        match lines.last_mut() {
            Some(line) if line.width() + between.width() + piece.width() <= columns => {
                let joined = std::mem::take(line);
                *line = joined.and(Tone::Faint, between).join(piece);
            }
            _ => lines.push(piece.cut(columns)),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(line: &StyledLine, columns: usize, expected: &[&str]) {
        let shown: Vec<String> = line.folded(columns).iter().map(StyledLine::text).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn lines_break_between_words_and_keep_their_indent() {
        let line = StyledLine::plain("  - ")
            .and(Tone::Strong, "one two")
            .and(Tone::Normal, " three four")
            .hanging(4);
        check(&line, 12, &["  - one two", "    three", "    four"]);
        check(&line, 80, &["  - one two three four"]);
        check(&StyledLine::plain("日本語 日本"), 6, &["日本語", "日本"]);
        check(&StyledLine::plain("abcdefgh ij"), 5, &["abcde", "fgh", "ij"]);
        let shown: Vec<String> = StyledLine::plain("see https://example.com/long here")
            .wrapped(10)
            .iter()
            .map(StyledLine::text)
            .collect();
        assert_eq!(shown, ["see", "https://example.com/long", "here"]);
    }

    #[test]
    fn a_cut_is_between_words_if_that_leaves_most() {
        assert_eq!(StyledLine::plain("one two three").cut(10).text(), "one two…");
        assert_eq!(StyledLine::plain("averyveryverylongword").cut(10).text(), "averyvery…");
        assert_eq!(StyledLine::plain("fits").cut(4).text(), "fits");
        assert_eq!(StyledLine::plain("x").cut(0).text(), "");
        // The selector makes the sign before it two columns wide.
        assert_eq!(StyledLine::plain("abc®\u{fe0f}def").cut(5).text(), "abc®…");
    }

    #[test]
    fn pieces_flow_and_none_is_broken() {
        let pieces = ["one two", "three", "four"].map(StyledLine::plain).to_vec();
        let shown: Vec<String> = flow(pieces, " · ", 15).iter().map(StyledLine::text).collect();
        assert_eq!(shown, ["one two · three", "four"]);
    }

    proptest! {
        #[test]
        fn folded_lines_fit_and_lose_nothing(text in "[ a-z日\u{301}®🌀\u{fe0f}\u{200d}]{0,80}", columns in 2usize..30, hanging in 0usize..9) {
            let line = StyledLine::plain(text.clone()).hanging(hanging);
            let lines = line.folded(columns);
            let fits = lines.iter().all(|line| line.width() <= columns || line.is_blank());
            prop_assert!(fits, "{lines:?}");
            let letters = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
            let all: String = lines.iter().map(StyledLine::text).collect();
            prop_assert_eq!(letters(&all), letters(&text));
        }

        #[test]
        fn a_cut_line_fits(text in "\\PC{0,60}", columns in 0usize..50) {
            prop_assert!(StyledLine::plain(text.clone()).cut(columns).width() <= columns);
            prop_assert_eq!(StyledLine::plain(text).fitted(columns).width(), columns);
        }
    }
}
