//! `Read`: returns a file as numbered lines, or as a picture.

use std::fmt::Write as _;
use std::sync::Arc;

use rawko_core::error::ErrorCode;
use rawko_core::tool::{ToolAccess, ToolOutcome, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::access::{AccessError, FileAccess, FileUse, check};
use crate::call::{blocking, bounded_line, parse, parse_checked, spec};
use crate::line_numbers::push_line;
use crate::picture;
use crate::tool::{BoxFuture, CallRefusal, Tool, ToolContext};
use crate::tracker::{Digest, FileTracker};

/// Lines returned if no limit is given.
const DEFAULT_LINES: usize = 2_000;
/// The most bytes shown of one line.
const MAX_LINE_BYTES: usize = 2_000;
/// The most bytes shown of one file.
const MAX_SHOWN_BYTES: usize = 96 * 1024;
/// A NUL within this many bytes marks a file as binary.
const SNIFFED_BYTES: usize = 8 * 1024;

const DESCRIPTION: &str = "\
Reads a file and returns its lines numbered (`cat -n` style: number, tab, line). Use it before you change a file: \
Edit and Write refuse files that you have not read. Relative paths start at the project root. Up to 2000 lines are \
returned; for longer files pass `offset` and `limit` and the result says how to continue. PNG, JPEG, GIF and WebP \
files are returned as pictures, scaled down if they are very large; other binary files are refused. For a directory use Glob.";

/// Arguments of `Read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadInput {
    /// Path of the file, relative to the project root or absolute.
    #[schemars(length(min = 1))]
    file_path: String,
    /// Number of the first line to return, from 1. Leave out to start at the beginning.
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// Most lines to return (default 2000).
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

/// The `Read` tool.
#[derive(Debug)]
pub(crate) struct Read {
    spec: ToolSpec,
    tracker: Arc<FileTracker>,
}

impl Read {
    /// A `Read` tool that records in `tracker` what it read.
    pub(crate) fn new(tracker: Arc<FileTracker>) -> Self {
        Self { spec: spec::<ReadInput>("Read", DESCRIPTION, ToolAccess::ReadOnly), tracker }
    }
}

impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, input: &Value, context: &ToolContext) -> Result<(), CallRefusal> {
        let input: ReadInput = parse_checked("Read", input)?;
        check(context, &input.file_path, &[FileUse::Read])
    }

    fn run<'a>(&'a self, input: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let input: ReadInput = match parse("Read", input) {
                Ok(input) => input,
                Err(outcome) => return outcome,
            };
            let (context, tracker) = (context.clone(), Arc::clone(&self.tracker));
            blocking(move |_| read(&input, &context, &tracker).unwrap_or_else(Into::into)).await
        })
    }
}

fn read(input: &ReadInput, context: &ToolContext, tracker: &FileTracker) -> Result<ToolOutcome, AccessError> {
    let path = &input.file_path;
    let access = FileAccess::of(context)?;
    let mut opened = access.open_file(path)?;
    let bytes = opened.read_all(path)?;
    if let Some(format) = picture::format(&bytes) {
        return Ok(picture::show(path, format, bytes));
    }
    if let Some(why) = unreadable(&bytes) {
        let message = format!("`{path}` is {why} ({} bytes) and cannot be shown as text.", bytes.len());
        return Ok(ToolOutcome::error(ErrorCode::ToolFailure, message));
    }
    let seen = tracker.record(&context.agent, &opened.name, Digest::of(&bytes));
    let outcome = numbered(path, &bytes, input.offset, input.limit);
    Ok(ToolOutcome { files_seen: vec![seen], ..outcome })
}

fn numbered(path: &str, bytes: &[u8], offset: Option<u64>, limit: Option<u64>) -> ToolOutcome {
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    if text.is_empty() {
        return ToolOutcome::ok(format!("(`{path}` is empty.)"));
    }
    let first = usize::try_from(offset.unwrap_or(1).max(1)).unwrap_or(usize::MAX);
    let limit = limit.map_or(DEFAULT_LINES, |l| usize::try_from(l).unwrap_or(usize::MAX));
    let total = text.lines().count();
    if first > total {
        let message = format!("`{path}` has {total} lines, so line {first} does not exist.");
        return ToolOutcome::error(ErrorCode::ToolFailure, message);
    }
    let mut shown = String::new();
    let mut last = first - 1;
    for line in text.lines().skip(first - 1).take(limit) {
        let line = bounded_line(line, MAX_LINE_BYTES);
        if shown.len() + line.len() > MAX_SHOWN_BYTES {
            break;
        }
        last += 1;
        push_line(&mut shown, last, &line);
    }
    if first > 1 || last < total {
        let _ = write!(shown, "[Lines {first} to {last} of {total} shown.");
        if last < total {
            let _ = write!(shown, " Continue with offset {}.", last + 1);
        }
        shown.push_str("]\n");
    }
    if std::str::from_utf8(bytes).is_err() {
        shown.push_str("[The file is not valid UTF-8: \u{fffd} marks bytes that cannot be shown.]\n");
    }
    ToolOutcome::ok(shown)
}

/// What the bytes are, if they are not text.
fn unreadable(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Some("UTF-16 text");
    }
    let head = bytes.get(..SNIFFED_BYTES).unwrap_or(bytes);
    memchr::memchr(0, head).map(|_| picture::other_format(bytes).unwrap_or("a binary file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], offset: Option<u64>, limit: Option<u64>, expected: &str) {
        assert_eq!(numbered("f", bytes, offset, limit).content, expected);
    }

    #[test]
    fn lines_are_numbered_and_cuts_are_said() {
        check(b"", None, None, "(`f` is empty.)");
        check(b"a\r\nb", None, None, "     1\ta\n     2\tb\n");
        check(b"\xef\xbb\xbfa\n", None, None, "     1\ta\n");
        check(
            b"a\nb\nc\n",
            Some(2),
            Some(1),
            "     2\tb\n[Lines 2 to 2 of 3 shown. Continue with offset 3.]\n",
        );
        check(b"a\nb\nc\n", Some(3), None, "     3\tc\n[Lines 3 to 3 of 3 shown.]\n");
        check(b"a\n", Some(9), None, "`f` has 1 lines, so line 9 does not exist.");
    }

    #[test]
    fn much_text_is_bounded() {
        let long = "x".repeat(5_000);
        let outcome = numbered("f", long.as_bytes(), None, None);
        assert!(outcome.content.contains("[... 3000 bytes of this line cut]"));
        let many = "y".repeat(1_000).as_str().to_owned() + "\n";
        let outcome = numbered("f", many.repeat(1_000).as_bytes(), None, None);
        assert!(outcome.content.len() < MAX_SHOWN_BYTES + 2_000);
        assert!(outcome.content.contains("Continue with offset"));
    }
}
