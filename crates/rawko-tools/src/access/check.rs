//! Answers whether an access to a path would be refused, and by which rule, without opening anything.

use std::path::{Path, PathBuf};

use super::error::AccessError;
use super::{FileAccess, grants, real_place};
use crate::tool::{CallRefusal, ToolContext};

/// What a call wants to do with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileUse {
    /// Read a file.
    Read,
    /// List or search the files of a directory.
    List,
    /// Write a file.
    Write,
}

impl FileAccess {
    /// Judges a path as a call would, by where it leads now. Does not check that it exists or what it is.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn check(&self, path: &str, wanted: FileUse) -> Result<(), AccessError> {
        let judged = self.place(path, |real, spelt, folders| match wanted {
            FileUse::Read => self.judge_read(path, real, spelt, folders),
            FileUse::List => self.judge_list(path, real, spelt, folders),
            FileUse::Write => self.judge_write(path, real, spelt, folders),
        });
        match judged {
            Err(error) if error.is_refusal() => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// Judges a path that a call in this context names.
pub(crate) fn check(context: &ToolContext, path: &str, wanted: &[FileUse]) -> Result<(), CallRefusal> {
    let access = FileAccess::of(context)?;
    wanted.iter().try_for_each(|wanted| access.check(path, *wanted))?;
    Ok(())
}

/// Where `path` leads, seen from `root`, if that is outside the project. Resolved both through its links and as text,
/// because a shell tries both.
pub(crate) fn leads_out(root: &Path, path: &str) -> std::io::Result<Option<PathBuf>> {
    let root = std::fs::canonicalize(root)?;
    let whole = root.join(path);
    let ways = [real_place(&whole), real_place(&grants::lexical(&whole))];
    Ok(ways.into_iter().find(|way| !way.starts_with(&root)))
}
