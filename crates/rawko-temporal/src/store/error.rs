//! Errors of the shared store.

/// Errors of the shared store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The location cannot be used.
    #[error("cannot use the store {location}: {why}")]
    Location {
        /// What was given.
        location: String,
        /// Why not, and what to try.
        why: String,
    },
    /// A key, hash or task's name that cannot be used.
    #[error("`{given}` is no {what}: {why}")]
    Name {
        /// What it should be.
        what: &'static str,
        /// What was given.
        given: String,
        /// Why it cannot be used.
        why: &'static str,
    },
    /// The store does not do it.
    #[error("cannot {doing} {key} in the store {store}: {source}")]
    Failed {
        /// What was tried.
        doing: &'static str,
        /// Which key.
        key: String,
        /// Where.
        store: String,
        /// Why not.
        source: Box<object_store::Error>,
    },
    /// It is not the store that was meant: another one, or an empty one in its place.
    #[error(
        "the store {store} {has}, and the one of these tasks has the mark {wanted}: bring its folder or bucket back, or name it with --store"
    )]
    OtherStore {
        /// Where it was looked for.
        store: String,
        /// What was found there.
        has: String,
        /// The mark of the store that was meant.
        wanted: String,
    },
    /// A blob is not there.
    #[error(
        "the store {store} has no blob {hash}: do all workers use the same store, and was nothing removed from it?"
    )]
    NoBlob {
        /// Its hash.
        hash: String,
        /// Where it was looked for.
        store: String,
    },
    /// An object is not what was written.
    #[error("{key} in the store {store} is damaged: {what}; bring it back from a copy of the store")]
    Damaged {
        /// Its key.
        key: String,
        /// Where.
        store: String,
        /// What is wrong with it.
        what: String,
    },
    /// An event that is too large, or has a line break.
    #[error("event {event} of task {task} cannot be kept: {why}")]
    Event {
        /// The task.
        task: String,
        /// The event's number.
        event: u64,
        /// Why not.
        why: &'static str,
    },
    /// Events are missing between others.
    #[error(
        "the store {store} has no events {first} to {last} of task {task}, but has later ones: was something removed from tasks/{task}/events?"
    )]
    Gap {
        /// The task.
        task: String,
        /// Where.
        store: String,
        /// The first that is missing.
        first: u64,
        /// The last that is missing.
        last: u64,
    },
    /// Two different events have one number.
    #[error(
        "event {event} of task {task} is there twice with different content, the second time in {key}: two runs write one task"
    )]
    Conflict {
        /// The task.
        task: String,
        /// The event's number.
        event: u64,
        /// The segment that differs from those before it.
        key: String,
    },
}

impl StoreError {
    /// Whether another machine may not have this problem: the store cannot be reached or used from here.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Location { .. } | Self::Failed { .. } | Self::OtherStore { .. } => true,
            Self::Name { .. }
            | Self::NoBlob { .. }
            | Self::Damaged { .. }
            | Self::Event { .. }
            | Self::Gap { .. }
            | Self::Conflict { .. } => false,
        }
    }
}
