//! One memory's file: its front matter, and its body when it is asked for.
//!
//! Owns bounds and form: no more than [`MAX_FRONT`] bytes are read to know what a memory is about, and a file above [`MAX_BYTES`] not at
//! all. What the keys mean is the core's.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::BorrowedFd;

use rawko_core::memory::{Finding, Header, Terms};
use rustix::fs::{Mode, OFlags, openat};

use super::report::Report;
use super::write::without_notes;
use crate::config::front_matter::{self, FrontMatter};

/// Most bytes of a file.
pub(super) const MAX_BYTES: u64 = 1024 * 1024;
/// Most bytes of front matter, its two lines `---` included.
pub(super) const MAX_FRONT: usize = 64 * 1024;
/// Bytes of a file that are read to know what it is about: its front matter, and the beginning of its body.
const READ: u64 = 80 * 1024;

/// What a file says of itself.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    /// `None` where it cannot be used; then a report says why.
    pub(super) header: Option<Header>,
    pub(super) terms: Terms,
    pub(super) reports: Vec<Report>,
}

/// How closely patterns are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Care {
    /// For a selection among thousands.
    Quick,
    /// For a report of what is wrong.
    Full,
}

/// A file's text, in two parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    /// Everything up to and with the line that ends the front matter.
    pub(super) front: String,
    /// The rest.
    pub(super) body: String,
}

/// Reads what the file `name` in `folder`, shown as `path`, is about.
pub(super) fn read_entry(folder: BorrowedFd<'_>, name: &str, path: &str, care: Care) -> Entry {
    let file = match open(folder, name, path) {
        Ok(file) => file,
        Err(report) => return refused(*report),
    };
    let mut bytes = Vec::new();
    match file.take(READ).read_to_end(&mut bytes) {
        Ok(_) => parse(&bytes, path, care),
        Err(error) => refused(*unreadable(path, &error)),
    }
}

/// The entry of a file that cannot be used.
fn refused(report: Report) -> Entry {
    Entry { header: None, terms: Terms::default(), reports: vec![report] }
}

/// The whole text of a memory, line breaks as they are; front matter alone where `body` is not wanted.
pub(super) fn read_text(folder: BorrowedFd<'_>, name: &str, path: &str) -> Result<Text, Box<Report>> {
    let file = open(folder, name, path)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    let end = front_end(&bytes).unwrap_or(0);
    let body = bytes.split_off(end);
    Ok(Text {
        front: String::from_utf8(bytes).map_err(|error| Box::new(not_text(error.as_bytes(), path)))?,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

fn open(folder: BorrowedFd<'_>, name: &str, path: &str) -> Result<File, Box<Report>> {
    // A FIFO would otherwise wait for a writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = openat(folder, name, flags, Mode::empty()).map(File::from).map_err(io::Error::from);
    let opened = opened.and_then(|file| Ok((file.metadata()?, file)));
    let (found, file) = opened.map_err(|error| unreadable(path, &error))?;
    if !found.is_file() {
        return Err(Box::new(Report::error(path, "is not a regular file", "replace it by a file")));
    }
    if found.len() > MAX_BYTES {
        let message = format!("is larger than {} kB, which no memory needs to be", MAX_BYTES / 1024);
        return Err(Box::new(Report::error(path, message, "shorten it, or move it elsewhere")));
    }
    Ok(file)
}

/// After the line that ends the front matter; `None` where none begins or none ends in these bytes.
fn front_end(bytes: &[u8]) -> Option<usize> {
    let mut offset = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    for (number, line) in bytes[offset..].split_inclusive(|byte| *byte == b'\n').enumerate() {
        offset += line.len();
        let is_fence = line.trim_ascii_end() == b"---";
        match (number, is_fence) {
            (0, false) => return None,
            (0, true) => {}
            (_, true) => return Some(offset),
            (_, false) => {}
        }
    }
    None
}

/// What the beginning of a file says.
pub(super) fn parse(bytes: &[u8], path: &str, care: Care) -> Entry {
    let Some(end) = front_end(bytes).filter(|end| *end <= MAX_FRONT) else {
        return refused(no_front(bytes, path));
    };
    let text = match std::str::from_utf8(&bytes[..end]) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(_) => return refused(not_text(&bytes[..end], path)),
    };
    // Without the two lines around it; it begins in the second line.
    let inner = text.split_once('\n').map_or("", |(_, rest)| rest);
    let inner = inner.trim_end().strip_suffix("---").unwrap_or_default();
    match front_matter::parse(inner, 1) {
        Ok(front) => {
            let (header, findings) = match care {
                Care::Quick => Header::read_quickly(&front.value),
                Care::Full => Header::read(&front.value),
            };
            let reports = findings.into_iter().map(|finding| located(&front, finding, path)).collect();
            let body = String::from_utf8_lossy(&bytes[end..]);
            let terms =
                header.as_ref().map(|header| Terms::of(header, without_notes(&body))).unwrap_or_default();
            Entry { header, terms, reports }
        }
        Err(errors) => Entry {
            header: None,
            terms: Terms::default(),
            reports: errors
                .into_iter()
                .map(|(place, message, help)| {
                    let help = help.unwrap_or_else(|| "mend the front matter".to_owned());
                    Report::error(path, message, help).at(place.line, place.column)
                })
                .collect(),
        },
    }
}

fn located(front: &FrontMatter, finding: Finding, path: &str) -> Report {
    let place = if finding.pointer.is_empty() {
        crate::config::Position::START
    } else {
        front.place(&finding.pointer)
    };
    Report::new(finding.severity, path, finding.message, finding.help).at(place.line, place.column)
}

fn no_front(bytes: &[u8], path: &str) -> Report {
    let begins = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).starts_with(b"---");
    let utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    let report = if utf16 {
        Report::error(path, "is not UTF-8 text", "it looks like UTF-16: save it as UTF-8")
    } else if begins && bytes.len() > MAX_FRONT {
        let message = format!("the front matter is longer than {} kB", MAX_FRONT / 1024);
        Report::error(path, message, "end it with a line `---`; the text belongs below that line")
    } else if begins {
        let help = "write `---` on a line of its own after the last key";
        Report::error(path, "the front matter has no end", help)
    } else {
        let help =
            "begin the file with `---`, `title: …`, `whenToUse: …` and `---`, each on a line of its own";
        Report::error(path, "the front matter is missing", help)
    };
    report.at(1, 1)
}

fn not_text(bytes: &[u8], path: &str) -> Report {
    let valid = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
    let line = bytes[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
    Report::error(path, "the front matter is not UTF-8 text", "save the file as UTF-8").at(line, 1)
}

pub(super) fn unreadable(path: &str, error: &io::Error) -> Box<Report> {
    Box::new(Report::error(path, format!("cannot be read: {error}"), "check its permissions"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Whether the text is a memory, and what is reported of it as `line: message`.
    #[track_caller]
    fn check(text: impl AsRef<[u8]>, usable: bool, expected: &[&str]) {
        let entry = parse(text.as_ref(), "m.md", Care::Full);
        let shown: Vec<String> = entry
            .reports
            .iter()
            .map(|report| format!("{}: {}", report.line.unwrap_or_default(), report.message))
            .collect();
        assert_eq!(entry.header.is_some(), usable, "{shown:?}");
        assert_eq!(shown.len(), expected.len(), "{shown:?}");
        for (shown, expected) in shown.iter().zip(expected) {
            assert!(shown.starts_with(expected), "{shown} {expected}");
        }
    }

    const SOUND: &str = "---\ntitle: T\nwhenToUse: auth\nimportance: high\ndiscoveredAt: 2026-01-23T09:30:00Z\ndiscoveredBy: planner\n---\n";

    #[test]
    fn every_form_of_a_sound_file_is_read() {
        check(SOUND, true, &[]);
        check(format!("{SOUND}Body."), true, &[]);
        check(format!("\u{feff}{SOUND}"), true, &[]);
        check(SOUND.replace('\n', "\r\n"), true, &[]);
        check(SOUND.trim_end(), true, &[]);
        check(format!("{SOUND}\n---\nA rule in the body, and \u{fffd}"), true, &[]);
        check([SOUND.as_bytes(), b"\xff\xfe\x00"].concat(), true, &[]);
    }

    #[test]
    fn what_cannot_be_read_is_reported_with_its_line() {
        check("", false, &["1: the front matter is missing"]);
        check("# Title\n", false, &["1: the front matter is missing"]);
        check("---\ntitle: T\n", false, &["1: the front matter has no end"]);
        let missing = ["`title`", "`whenToUse`", "`importance`", "`discoveredAt`", "`discoveredBy`"]
            .map(|key| format!("1: {key} is missing"));
        check("---\n---\n", false, &missing.each_ref().map(String::as_str));
        check(SOUND.replace("high", "[high"), false, &["5: "]);
        check(SOUND.replace("high", "urgent"), true, &["4: `urgent` is no importance"]);
        check(SOUND.replace("title: T", "title: 7"), false, &["2: `title` is a number"]);
        check(
            SOUND.replace("title: T", "title: \"\u{1F600}\"\ntitle: U"),
            false,
            &["3: duplicate key `title`"],
        );
        check(
            [b"---\ntitle: \xff\n---\n".as_slice(), b""].concat(),
            false,
            &["2: the front matter is not UTF-8"],
        );
        check(b"\xff\xfe-\0-\0", false, &["1: is not UTF-8 text"]);
        check(format!("---\n{}\n---\n", "x".repeat(MAX_FRONT)), false, &["1: the front matter is longer"]);
        check("---\n- a\n---\n", false, &["1: the front matter is not a mapping"]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(parts in prop::collection::vec(
            prop::sample::select(vec![
                &b"---\n"[..], b"title: x\n", b"whenToUse: [a, {pattern: b}]\n", b"\xff", b"\r\n", b"- ", b"{", b": ", b"\xef\xbb\xbf",
                b"&a ", b"*a", b"!t ", b"\"", b"\t", b"files: [{path: a}]\n",
            ]),
            0..20,
        )) {
            let entry = parse(&parts.concat(), "m.md", Care::Full);
            prop_assert!(entry.header.is_some() || !entry.reports.is_empty());
        }
    }
}
