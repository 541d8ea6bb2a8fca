//! `Edit`: replaces one exact text in a file by another.
//!
//! Works on bytes, so that everything around the replaced text is kept: line endings, a byte order mark, and bytes that
//! are not UTF-8.

use std::ops::Range;
use std::sync::Arc;

use memchr::memmem;
use rawko_core::error::ErrorCode;
use rawko_core::text::REDACTED;
use rawko_core::tool::{ToolAccess, ToolOutcome, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::access::{AccessError, FileAccess, FileUse, check};
use crate::call::{blocking, bounded_line, parse, parse_checked, spec};
use crate::line_numbers::push_line;
use crate::look_alike::{lines_at, look_alikes};
use crate::miscopied::miscopied;
use crate::nearest::{NOT_FOUND, nearest};
use crate::tool::{BoxFuture, CallRefusal, Tool, ToolContext};
use crate::tracker::{Digest, FileTracker};
use crate::write::{clear_up, unread};

/// Lines shown before and after a change.
const SHOWN_AROUND: usize = 3;
/// Lines of a long new text that are shown at its beginning, and at its end: the agent has just written the rest.
const SHOWN_ENDS: usize = 4;
/// The most lines and bytes shown of a change, and the most bytes of one line.
const SHOWN_LINES: usize = 40;
const SHOWN_BYTES: usize = 2_000;
const LINE_BYTES: usize = 200;
/// The most bytes shown of lines in which characters differ from those that were wanted.
const ALIKE_BYTES: usize = 500;
/// The most line numbers listed for a text that is not unique.
const PLACES_NAMED: usize = 10;

const DESCRIPTION: &str = "\
Replaces `old_string` with `new_string` in a file that you have read with Read. `old_string` must match the file exactly, \
including indentation, and must occur exactly once: include enough surrounding lines to make it unique, or set \
`replace_all` to replace every occurrence. Leave out the line numbers that Read shows. Line endings and mode of \
the file are kept. Fails without writing if the text is not found, not unique, or the file has changed since you read it.";

/// Arguments of `Edit`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditInput {
    /// Path of the file, relative to the project root or absolute.
    #[schemars(length(min = 1))]
    file_path: String,
    /// The exact text to replace.
    old_string: String,
    /// The text to put in its place; different from `old_string`.
    new_string: String,
    /// Replace every occurrence instead of the only one (default false).
    replace_all: Option<bool>,
}

/// The `Edit` tool.
#[derive(Debug)]
pub(crate) struct Edit {
    spec: ToolSpec,
    tracker: Arc<FileTracker>,
}

impl Edit {
    /// An `Edit` tool that consults `tracker` for what an agent has read.
    pub(crate) fn new(tracker: Arc<FileTracker>) -> Self {
        Self { spec: spec::<EditInput>("Edit", DESCRIPTION, ToolAccess::Mutating), tracker }
    }
}

impl Tool for Edit {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, input: &Value, context: &ToolContext) -> Result<(), CallRefusal> {
        let input: EditInput = parse_checked("Edit", input)?;
        check(context, &input.file_path, &[FileUse::Read, FileUse::Write])
    }

    fn run<'a>(&'a self, input: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let input: EditInput = match parse("Edit", input) {
                Ok(input) => input,
                Err(outcome) => return outcome,
            };
            let (context, tracker) = (context.clone(), Arc::clone(&self.tracker));
            blocking(move |_| edit(&input, &context, &tracker).unwrap_or_else(Into::into)).await
        })
    }

    fn abandoned(&self, input: &Value, context: &ToolContext) {
        if let Ok(input) = parse::<EditInput>("", input.clone()) {
            clear_up(&input.file_path, context, &self.tracker);
        }
    }
}

fn edit(input: &EditInput, context: &ToolContext, tracker: &FileTracker) -> Result<ToolOutcome, AccessError> {
    let path = &input.file_path;
    if input.old_string == input.new_string {
        return Ok(refusal("old_string and new_string are the same: there is nothing to change.".into()));
    }
    if input.old_string.is_empty() {
        return Ok(refusal("old_string is empty: use Write to create or replace a whole file.".into()));
    }
    let access = FileAccess::of(context)?;
    // An edit also reads: its errors quote the content. So both must be granted.
    drop(access.open_file(path)?);
    let target = access.write_target(path)?;
    let name = target.name.clone();
    let Some(old) = target.content()? else {
        return Err(AccessError::NotFound { path: path.clone(), hint: String::new() });
    };
    let digest = Digest::of(&old);
    match tracker.known(&context.agent, &name) {
        Some(known) if known == digest => {}
        Some(_) => return Err(AccessError::Changed { path: path.clone() }),
        None => return Ok(unread(path)),
    }
    let edited = match replaced(&old, input) {
        Ok(edited) => edited,
        Err(why) => return Ok(refusal(format!("`{path}`: {why}"))),
    };
    target.replace(&edited.bytes, Some(digest))?;
    let seen = tracker.record(&context.agent, &name, Digest::of(&edited.bytes));
    let times = match edited.starts.len() {
        1 => "1 replacement".to_owned(),
        count => format!("{count} replacements"),
    };
    let now = match edited.bytes.is_empty() {
        true => "The file is empty now.".to_owned(),
        false => format!("It now reads:\n{}", snippet(&edited)),
    };
    let alike = edited.alike.as_ref().map(|lines| {
        let lines = bounded_line(lines, ALIKE_BYTES);
        format!(
            "The file had other quotes, accents or spaces than old_string; replaced was a part of:\n{lines}\n"
        )
    });
    let text = format!("Edited `{name}` ({times}). {}{now}", alike.unwrap_or_default());
    Ok(ToolOutcome { files_modified: vec![name], files_seen: vec![seen], ..ToolOutcome::ok(text) })
}

/// Why an `Edit` of a file with this content would be refused for its `old_string`: it does not occur, or too often.
#[must_use]
pub fn edit_fault(content: &str, old: &str, new: &str, replace_all: bool) -> Option<String> {
    let input = EditInput {
        file_path: String::new(),
        old_string: old.to_owned(),
        new_string: new.to_owned(),
        replace_all: Some(replace_all),
    };
    replaced(content.as_bytes(), &input).err()
}

fn refusal(message: String) -> ToolOutcome {
    ToolOutcome::error(ErrorCode::ToolFailure, message)
}

#[derive(Debug)]
struct Edited {
    bytes: Vec<u8>,
    /// The lines that were taken for the old text although characters in them differ.
    alike: Option<String>,
    /// Where each replacement begins in `bytes`, in order.
    starts: Vec<usize>,
    /// How long it is.
    length: usize,
}

/// The content after the replacement, or why it cannot be made.
fn replaced(content: &[u8], input: &EditInput) -> Result<Edited, String> {
    let crlf = uses_crlf(content);
    let new = if crlf { with_crlf(&input.new_string) } else { input.new_string.clone() };
    // Models see lines without their endings and write `\n`. An exact match is preferred.
    let spellings = [input.old_string.clone(), with_crlf(&input.old_string)];
    let found = spellings.iter().find_map(|old| {
        let places: Vec<Range<usize>> =
            memmem::find_iter(content, old.as_bytes()).map(|at| at..at + old.len()).collect();
        (!places.is_empty()).then_some((*old != input.old_string, places))
    });
    let is_alike = found.is_none();
    let found = found.or_else(|| {
        let places = look_alikes(content, &input.old_string);
        (!places.is_empty()).then_some((false, places))
    });
    let Some((has_crlf, places)) = found else { return Err(not_found(content, input)) };
    // In a file that mostly uses LF, a match of CRLF lines is replaced by CRLF lines.
    let new = if !crlf && has_crlf { with_crlf(&input.new_string) } else { new };
    let starts: Vec<usize> = places.iter().map(|place| place.start).collect();
    // If the text matches twice by its looks, the difference may be in the very characters that look the same.
    if places.len() > 1 && (is_alike || !input.replace_all.unwrap_or(false)) {
        return Err(if is_alike { alike_often(content, &starts) } else { ambiguous(content, &starts) });
    }
    let alike = places.first().filter(|_| is_alike).map(|place| lines_at(content, place).into_owned());
    let mut bytes = Vec::with_capacity(content.len() + new.len());
    let mut starts = Vec::with_capacity(places.len());
    let mut from = 0;
    for place in &places {
        bytes.extend_from_slice(&content[from..place.start]);
        starts.push(bytes.len());
        bytes.extend_from_slice(new.as_bytes());
        from = place.end;
    }
    bytes.extend_from_slice(&content[from..]);
    Ok(Edited { bytes, alike, starts, length: new.len() })
}

/// Explains why the text was not found, as far as possible.
fn not_found(content: &[u8], input: &EditInput) -> String {
    let old = &input.old_string;
    if let Some(miscopied) = miscopied(content, old) {
        let places = &miscopied.places;
        let advice = miscopied.advice(&at_lines(content, places), &input.new_string);
        let unique = places.len() == 1 || input.replace_all.unwrap_or(false);
        let more = if unique {
            ""
        } else {
            " Include more surrounding lines to make it unique, or set replace_all."
        };
        return format!("{NOT_FOUND} {advice}{more}");
    }
    if old.contains(REDACTED) && memmem::find(content, REDACTED.as_bytes()).is_none() {
        return format!(
            "{NOT_FOUND} `{REDACTED}` stands for a secret in the file that is not shown to you: use a text \
             without it."
        );
    }
    nearest(content, old)
}

fn alike_often(content: &[u8], places: &[usize]) -> String {
    format!(
        "{NOT_FOUND} With other quotes, accents or spaces it occurs {} times ({}): copy the text exactly, with its \
         characters.",
        places.len(),
        at_lines(content, places)
    )
}

fn ambiguous(content: &[u8], places: &[usize]) -> String {
    format!(
        "old_string occurs {} times ({}); nothing was written. Include more surrounding lines to make it unique, or set \
         replace_all.",
        places.len(),
        at_lines(content, places)
    )
}

/// The line numbers of `places`: `at line 4`, `at lines 4, 9`.
fn at_lines(content: &[u8], places: &[usize]) -> String {
    let lines: Vec<String> =
        places.iter().take(PLACES_NAMED).map(|p| line_number(content, *p).to_string()).collect();
    let more = if places.len() > PLACES_NAMED { ", …" } else { "" };
    format!("at line{} {}{more}", if places.len() == 1 { "" } else { "s" }, lines.join(", "))
}

fn line_number(content: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &content[..at]).count() + 1
}

fn uses_crlf(content: &[u8]) -> bool {
    let lines = memchr::memchr_iter(b'\n', content).count();
    let crlf = memmem::find_iter(content, b"\r\n").count();
    crlf * 2 > lines
}

fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// The numbered lines around the changes, from the first one on, as far as there is room.
fn snippet(edited: &Edited) -> String {
    let Edited { bytes, starts, length, alike: _ } = edited;
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    let (mut shown, mut count, mut next) = (String::new(), 0, 1);
    // Counted on from place to place: there may be as many as bytes.
    let (mut line, mut counted) = (1, 0);
    for start in starts {
        line += memchr::memchr_iter(b'\n', &bytes[counted..*start]).count();
        counted = *start;
        // What ends with a line break does not change the line after it.
        let breaks = memchr::memchr_iter(b'\n', &bytes[*start..start + length.saturating_sub(1)]).count();
        let changed = line..=line + breaks;
        let sent = changed.start() + SHOWN_ENDS..(changed.end() + 1).saturating_sub(SHOWN_ENDS);
        let from = line.saturating_sub(SHOWN_AROUND).max(next);
        let to = (changed.end() + SHOWN_AROUND).min(lines.len());
        for number in from..=to {
            if sent.len() > 2 && sent.contains(&number) {
                if number == sent.start {
                    shown.push_str(&format!("[... {} lines as you sent them]\n", sent.len()));
                }
                continue;
            }
            let line = bounded_line(lines[number - 1], LINE_BYTES);
            if count == SHOWN_LINES || shown.len() + line.len() > SHOWN_BYTES {
                shown.push_str("[... more is not shown]\n");
                return shown;
            }
            if number == from && from > next && count > 0 {
                shown.push_str("[...]\n");
            }
            push_line(&mut shown, number, &line);
            count += 1;
        }
        next = next.max(to + 1);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn input(old: &str, new: &str, all: bool) -> EditInput {
        EditInput {
            file_path: "f".into(),
            old_string: old.into(),
            new_string: new.into(),
            replace_all: Some(all),
        }
    }

    #[track_caller]
    fn check(content: &[u8], old: &str, new: &str, all: bool, expected: Result<&[u8], &str>) {
        match (replaced(content, &input(old, new, all)), expected) {
            (Ok(edited), Ok(expected)) => assert_eq!(edited.bytes, expected),
            (Err(message), Err(part)) => {
                assert!(message.contains(part), "{part:?} is missing in {message:?}");
            }
            (got, expected) => panic!("{got:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn exact_and_unique_or_a_clear_error() {
        check(b"one two", "two", "2", false, Ok(b"one 2"));
        check(b"a\nb\na\n", "a", "x", false, Err("2 times (at lines 1, 3)"));
        check(b"a\nb\na\n", "a", "x", true, Ok(b"x\nb\nx\n"));
        check(b"aaa", "aa", "b", true, Ok(b"ba"));
        check(b"fn main() {\n    run();\n}\n", "  run();\n  stop();", "x", false, Err("line 2"));
    }

    #[test]
    fn characters_that_look_the_same_are_found_if_that_is_clear() {
        let file = "say “hi”\nsay \"ho\"\n".as_bytes();
        check(file, "say \"hi\"", "say \"hey\"", false, Ok("say \"hey\"\nsay \"ho\"\n".as_bytes()));
        // An exact match is the one that is meant.
        check("“a” \"a\"".as_bytes(), "\"a\"", "b", false, Ok("“a” b".as_bytes()));
        check("“a” „a“".as_bytes(), "\"a\"", "b", true, Err("occurs 2 times (at lines 1, 1)"));
        check("it’s\r\nhis\r\n".as_bytes(), "it's\nhis", "a\nb", false, Ok(b"a\r\nb\r\n"));
        let edited = replaced(file, &input("say \"hi\"", "x", false)).unwrap();
        assert_eq!(edited.alike.as_deref(), Some("say “hi”"));
        assert_eq!(replaced(file, &input("say \"ho\"", "x", false)).unwrap().alike, None);
    }

    #[test]
    fn line_endings_marks_and_odd_bytes_are_kept() {
        check(b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", false, Ok(b"x\r\ny\r\nz\r\nc\r\n"));
        check(b"a\r\nb\nc\nd\n", "a\nb", "x\ny", false, Ok(b"x\r\ny\nc\nd\n"));
        check(b"\xef\xbb\xbfone\n", "one", "two", false, Ok(b"\xef\xbb\xbftwo\n"));
        check(b"\xe9t\xe9 one\n", "one", "two", false, Ok(b"\xe9t\xe9 two\n"));
        check(b"a\nb\n", "b\n", "", false, Ok(b"a\n"));
    }

    fn file(lines: usize) -> String {
        (1..=lines).map(|n| format!("line {n}\n")).collect()
    }

    #[track_caller]
    fn check_shown(content: &str, old: &str, new: &str, all: bool, expected: &[&str]) {
        let shown = snippet(&replaced(content.as_bytes(), &input(old, new, all)).unwrap());
        let lines: Vec<&str> = shown.lines().map(str::trim_start).collect();
        assert_eq!(lines, expected, "{shown}");
    }

    #[test]
    fn a_change_is_shown_with_the_lines_around_it() {
        let around = ["2\tline 2", "3\tline 3", "4\tline 4", "5\tnew", "6\tline 6", "7\tline 7", "8\tline 8"];
        check_shown(&file(9), "line 5", "new", false, &around);
        check_shown(&file(9), "line 5\n", "new\n", false, &around);
        check_shown(
            &file(3).replace('\n', "\r\n"),
            "line 2",
            "b",
            false,
            &["1\tline 1", "2\tb", "3\tline 3"],
        );
        check_shown(&file(9), "line 8\nline 9\n", "", false, &["5\tline 5", "6\tline 6", "7\tline 7"]);
        check_shown("a\nb\n", "a\n", "", false, &["1\tb"]);
    }

    #[test]
    fn of_a_long_text_only_the_ends_are_shown() {
        let new: String = (1..=50).map(|n| format!("new {n}\n")).collect();
        check_shown(
            &file(9),
            "line 5\n",
            &new,
            false,
            &[
                "2\tline 2",
                "3\tline 3",
                "4\tline 4",
                "5\tnew 1",
                "6\tnew 2",
                "7\tnew 3",
                "8\tnew 4",
                "[... 42 lines as you sent them]",
                "51\tnew 47",
                "52\tnew 48",
                "53\tnew 49",
                "54\tnew 50",
                "55\tline 6",
                "56\tline 7",
                "57\tline 8",
            ],
        );
        // A gap that hides hardly anything is none.
        check_shown(
            &file(1),
            "line 1",
            "1\n2\n3\n4\n5\n6\n7\n8\n9",
            false,
            &["1\t1", "2\t2", "3\t3", "4\t4", "5\t5", "6\t6", "7\t7", "8\t8", "9\t9"],
        );
    }

    #[test]
    fn of_many_places_the_first_ones_are_shown() {
        let content = format!("x\n{}x\nx\n", file(9));
        check_shown(
            &content,
            "x",
            "y",
            true,
            &[
                "1\ty",
                "2\tline 1",
                "3\tline 2",
                "4\tline 3",
                "[...]",
                "8\tline 7",
                "9\tline 8",
                "10\tline 9",
                "11\ty",
                "12\ty",
            ],
        );
        for content in ["x\n".repeat(5_000), "x".repeat(200_000), format!("{}\n", "x".repeat(150)).repeat(99)]
        {
            let shown = snippet(&replaced(content.as_bytes(), &input("x", "yy", true)).unwrap());
            assert!(shown.len() < SHOWN_BYTES + 500 && shown.lines().count() <= SHOWN_LINES + 1, "{shown}");
            assert!(shown.starts_with("     1\ty"), "{shown}");
        }
    }

    proptest! {
        #[test]
        fn replacing_all_is_what_str_replace_does(
            content in "[ab\\n]{0,30}", old in "[ab\\n]{1,3}", new in "[abc\\n]{0,3}",
        ) {
            match replaced(content.as_bytes(), &input(&old, &new, true)) {
                Ok(edited) => prop_assert_eq!(edited.bytes, content.replace(&old, &new).into_bytes()),
                Err(_) => prop_assert!(!content.contains(&old)),
            }
        }
    }
}
