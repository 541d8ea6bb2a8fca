//! A memory in the form that is searched.

use super::header::Header;
use super::terms::Terms;

/// A memory without its body.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// Its path below the memories' folder, with `/` between the parts.
    pub path: String,
    /// Its front matter.
    pub header: Header,
    /// The words of all of it.
    pub terms: Terms,
}

impl Memory {
    /// The memory at `path` with this front matter and body.
    #[must_use]
    pub fn new(path: &str, header: Header, body: &str) -> Self {
        let terms = Terms::of(&header, body);
        Self { path: path.to_owned(), header, terms }
    }
}
