//! The ways in which a pattern can be read.

use serde::Serialize;

/// How a pattern is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Reading {
    /// A regular expression, without regard to case.
    Regex,
    /// As it is written: it has an expression's syntax and is none, or too large a one.
    Substring,
    /// `*` any run, `?` one character, anywhere in the text.
    Glob,
    /// One word: the beginning of a word in the text.
    Prefix,
    /// Natural language: at least half of its content words occur.
    Words,
}

impl Reading {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Regex => "regular expression",
            Self::Substring => "substring",
            Self::Glob => "glob",
            Self::Prefix => "beginning of a word",
            Self::Words => "words",
        }
    }
}
