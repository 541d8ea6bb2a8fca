//! The changes of a session or an execution, for the page.

use rawko::checkpoint::{
    CheckpointError, Checkpoints, DiffDetail, DiffRange, FileChange, OthersChange, Until,
};
use serde::Serialize;

use crate::text::{Excerpt, plain};

/// Takes the secrets out of a text that comes from files.
pub type Mask = dyn Fn(&str) -> String + Send + Sync;

/// The changes of a session or an execution, or why they cannot be shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiffView {
    /// The files.
    pub files: Vec<FileChange>,
    /// The lines, as a unified patch.
    pub patch: Excerpt,
    /// Whether it is compared with the folder as it is now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub until_now: bool,
    /// Files that were not kept, each with why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_kept: Vec<String>,
    /// Files that someone else changed too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OthersChange>,
    /// Why there is nothing to see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl DiffView {
    /// A diff that cannot be shown.
    #[must_use]
    pub fn missing(why: impl Into<String>) -> Self {
        Self { problem: Some(why.into()), ..Self::default() }
    }

    /// What changed in `span`, at most `limit` bytes of the lines. Takes as long as git does.
    #[must_use]
    pub fn of(
        checkpoints: &Checkpoints,
        span: DiffRange,
        limit: usize,
        mask: &(impl Fn(&str) -> String + ?Sized),
    ) -> Self {
        let changes = match checkpoints.changes(span, DiffDetail::Lines) {
            Ok(changes) => changes,
            Err(CheckpointError::Unknown { .. }) => {
                let whose = if span == DiffRange::Session { "session" } else { "execution" };
                return Self::missing(format!("no files were saved in this {whose}: it has changed nothing"));
            }
            Err(error) => return Self::missing(plain(&error.to_string())),
        };
        let mut files = changes.files;
        for file in &mut files {
            file.path = plain(&file.path);
            file.from = file.from.as_deref().map(plain);
        }
        Self {
            files,
            patch: Excerpt::of(&mask(&String::from_utf8_lossy(&changes.patch)), limit),
            until_now: matches!(changes.to, Until::Now),
            not_kept: changes.not_kept.iter().map(|path| plain(path)).collect(),
            others: changes.others,
            problem: None,
        }
    }
}
