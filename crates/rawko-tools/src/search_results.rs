//! Collects the results of a search, within bounds and in ripgrep's format.

use std::fmt::Write as _;
use std::io;

use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::call::bounded_line;
use crate::walk::WalkEnd;

/// Lines or files returned if no limit is given.
const DEFAULT_LIMIT: u64 = 250;
/// The most bytes of one answer.
const MAX_BYTES: usize = 64 * 1024;
/// The most bytes of one line.
const MAX_LINE_BYTES: usize = 1_000;

/// What a search returns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutputMode {
    /// The matching lines.
    Content,
    /// The paths of files with a match.
    #[default]
    FilesWithMatches,
    /// The number of matching lines of each file.
    Count,
}

/// The results so far.
pub(crate) struct SearchResults {
    mode: OutputMode,
    line_numbers: bool,
    limit: u64,
    text: String,
    /// Number of lines or files in `text`.
    items: u64,
    /// There are more results than fit.
    full: bool,
    /// Files that could not be searched to the end: unreadable, or with a line too long.
    given_up: Vec<String>,
}

impl SearchResults {
    pub(crate) fn new(mode: OutputMode, line_numbers: bool, head_limit: Option<u64>) -> Self {
        let limit = head_limit.unwrap_or(DEFAULT_LIMIT);
        Self { mode, line_numbers, limit, text: String::new(), items: 0, full: false, given_up: Vec::new() }
    }

    /// Whether there are more results than fit.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Takes the results of one file.
    pub(crate) fn file<'a>(&'a mut self, name: &'a str) -> FileSink<'a> {
        FileSink { name, found: self, start: None, matches: 0, apart: false }
    }

    /// The complete answer.
    pub(crate) fn answer(self, walked: WalkEnd) -> String {
        let mut text = self.text;
        if text.is_empty() {
            text.push_str("No matches.\n");
        }
        // Writing to a String cannot fail.
        if self.full {
            let what = match self.mode {
                OutputMode::Content => "lines",
                OutputMode::FilesWithMatches | OutputMode::Count => "files",
            };
            let _ = writeln!(
                text,
                "[There is more: the first {} {what} are shown. Narrow the search, or raise head_limit.]",
                self.items
            );
        }
        if walked == WalkEnd::TooLarge {
            text.push_str("[The tree is too large: not all of it was searched. Give a narrower path.]\n");
        }
        if !self.given_up.is_empty() {
            let shown: Vec<_> = self.given_up.iter().take(5).map(String::as_str).collect();
            let _ = writeln!(
                text,
                "[{} files could not be searched to the end (unreadable, or a line too long): {}]",
                self.given_up.len(),
                shown.join(", ")
            );
        }
        text
    }

    fn push(&mut self, line: &str) {
        if self.items >= self.limit || self.text.len() + line.len() > MAX_BYTES {
            self.full = true;
            return;
        }
        self.text.push_str(line);
        self.text.push('\n');
        self.items += 1;
    }
}

/// Takes the matches of one file from the searcher.
pub(crate) struct FileSink<'a> {
    name: &'a str,
    found: &'a mut SearchResults,
    /// Length of the text and number of items before this file, to remove its part if it turns out to be binary.
    start: Option<(usize, u64)>,
    matches: u64,
    /// A separator comes before the next line.
    apart: bool,
}

impl FileSink<'_> {
    /// Completes the results of this file.
    pub(crate) fn finish(self) {
        if self.matches == 0 {
            return;
        }
        match self.found.mode {
            OutputMode::Content => {}
            OutputMode::FilesWithMatches => self.found.push(self.name),
            OutputMode::Count => {
                let line = format!("{}:{}", self.name, self.matches);
                self.found.push(&line);
            }
        }
    }

    /// Completes the results of a file that could not be searched to the end. The matches so far count.
    pub(crate) fn give_up(self) {
        self.found.given_up.push(self.name.to_owned());
        self.finish();
    }

    fn lines(&mut self, bytes: &[u8], number: Option<u64>, mark: char) -> bool {
        let text = String::from_utf8_lossy(bytes);
        self.start.get_or_insert((self.found.text.len(), self.found.items));
        if std::mem::take(&mut self.apart) && !self.found.text.is_empty() {
            self.found.text.push_str("--\n");
        }
        for (offset, line) in (0..).zip(text.lines()) {
            let line = bounded_line(line, MAX_LINE_BYTES);
            let name = self.name;
            let line = match number.filter(|_| self.found.line_numbers) {
                Some(number) => format!("{name}{mark}{}{mark}{line}", number + offset),
                None => format!("{name}{mark}{line}"),
            };
            self.found.push(&line);
            if self.found.full {
                return false;
            }
        }
        true
    }
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.matches += 1;
        Ok(match self.found.mode {
            OutputMode::Content => self.lines(found.bytes(), found.line_number(), ':'),
            // Only the `count` mode goes on: a NUL further on may still show that the file is binary.
            OutputMode::FilesWithMatches => false,
            OutputMode::Count => true,
        })
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> Result<bool, io::Error> {
        Ok(match self.found.mode {
            OutputMode::Content => self.lines(around.bytes(), around.line_number(), '-'),
            OutputMode::FilesWithMatches | OutputMode::Count => true,
        })
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.apart = self.found.mode == OutputMode::Content;
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> Result<(), io::Error> {
        if end.binary_byte_offset().is_some() {
            if let Some((length, items)) = self.start.take() {
                self.found.text.truncate(length);
                self.found.items = items;
            }
            self.matches = 0;
        }
        Ok(())
    }
}
