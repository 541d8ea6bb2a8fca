//! Colours by meaning, so that no other file names one.

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// Colours where `on`, else plain text.
    pub(crate) fn new(on: bool) -> Self {
        Self { on }
    }

    /// Whether there are colours.
    pub(crate) fn is_on(self) -> bool {
        self.on
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.on { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// What a line is about.
    pub(crate) fn strong(self, text: &str) -> String {
        self.with("1", text)
    }

    /// What matters less.
    pub(crate) fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    /// Emphasized in a text.
    pub(crate) fn emphasis(self, text: &str) -> String {
        self.with("3", text)
    }

    /// Something to look at first: a heading, a name.
    pub(crate) fn name(self, text: &str) -> String {
        self.with("36", text)
    }

    /// Something is well.
    pub(crate) fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    /// Something is not as it should be.
    pub(crate) fn warning(self, text: &str) -> String {
        self.with("33", text)
    }

    /// Something is wrong.
    pub(crate) fn bad(self, text: &str) -> String {
        self.with("31", text)
    }

    /// The word that opens an error.
    pub(crate) fn error(self, text: &str) -> String {
        self.with("1;31", text)
    }

    /// The word that opens a hint.
    pub(crate) fn hint(self, text: &str) -> String {
        self.with("1;36", text)
    }
}
