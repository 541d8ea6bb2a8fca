//! Problems of the memories' folder: file, line, what is wrong, what to do.
//!
//! A report never stops anything: a memory that cannot be used is as if it were not there, and everything else goes on.

use std::fmt;

use rawko_core::memory::Severity;
use serde::{Deserialize, Serialize};

/// One finding in the memories' folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// `error`: the memory is not used. `warning`: it is, without what is wrong.
    pub severity: Severity,
    /// The file or folder, below the memories' folder; empty for that folder itself.
    pub path: String,
    /// The line in it, from 1, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The column, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl Report {
    pub(super) fn error(path: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(Severity::Error, path, message, help)
    }

    pub(super) fn warning(path: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(Severity::Warning, path, message, help)
    }

    pub(super) fn new(
        severity: Severity,
        path: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let (path, message, help) = (path.to_owned(), message.into(), help.into());
        Self { severity, path, line: None, column: None, message, help }
    }

    pub(super) fn at(self, line: usize, column: usize) -> Self {
        Self { line: Some(line), column: Some(column), ..self }
    }
}

impl Report {
    /// The same without the word that says how much it matters, for those who say that themselves.
    #[must_use]
    pub fn line(&self) -> String {
        let word = self.word();
        let all = self.to_string();
        all.strip_prefix(word).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&all).to_owned()
    }

    fn word(&self) -> &'static str {
        match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// In one line: a file's name may hold a line break, and would say something of its own.
fn line(text: &str) -> String {
    let escape = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escape).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, folder) = (self.word(), super::FOLDER);
        let separator = if self.path.is_empty() { "" } else { "/" };
        write!(f, "{word}: {}\n  --> {folder}{separator}{}", line(&self.message), line(&self.path))?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let (Some(_), Some(column)) = (self.line, self.column) {
            write!(f, ":{column}")?;
        }
        write!(f, "\n  = help: {}", self.help)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_one_line() {
        let report = Report::error("a\nerror: b.md", "is\twrong", "mend it").at(2, 1);
        let line = "is\\twrong\n  --> .rawko/memories/a\\nerror: b.md:2:1\n  = help: mend it";
        assert_eq!((report.line().as_str(), report.to_string()), (line, format!("error: {line}")));
    }
}
