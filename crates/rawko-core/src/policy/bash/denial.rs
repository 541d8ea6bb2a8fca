//! Why the filter refuses a command: in words for the agent, which cannot change the configuration, and what the user
//! could change.

/// Passed, or why not.
pub(super) type PolicyResult = Result<(), Denial>;

/// Why something is refused.
#[derive(Debug)]
pub(super) struct Denial {
    /// What is refused, why, and what to do instead.
    pub(super) why: String,
    pub(super) lift: Lift,
}

/// What the user could change to let it pass.
#[derive(Debug)]
pub(super) enum Lift {
    /// No entry of the list grants it. Without the list it passes.
    NoList,
    /// An entry of the list for this program.
    Program(String),
    /// An entry of the write paths for this path.
    WritePath(String),
    /// Nothing.
    Nothing,
}

impl Denial {
    /// Refused whatever the configuration says.
    pub(super) fn always(why: impl Into<String>) -> Self {
        Self { why: why.into(), lift: Lift::Nothing }
    }

    /// The same, with what it is about before the reason.
    pub(super) fn of(self, what: &str) -> Self {
        Self { why: format!("`{what}`: {}", self.why), ..self }
    }
}

impl From<String> for Denial {
    fn from(why: String) -> Self {
        Self { why, lift: Lift::NoList }
    }
}

impl From<&str> for Denial {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}
