//! Finds the programs that the sandbox itself is made of. A program that can change one of them can leave the sandbox.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use crate::regular::is_program;

/// The first program of this name in these folders that is not in the project, and of which `is_safe` says so: of itself, and of
/// each folder around it. Folders by relative paths do not count.
pub(super) fn find(
    name: &str,
    folders: impl Iterator<Item = PathBuf>,
    project: &Path,
    is_safe: fn(&Metadata) -> bool,
) -> Option<PathBuf> {
    let project = std::fs::canonicalize(project).unwrap_or_else(|_| project.to_owned());
    let folders = folders.filter(|folder| folder.is_absolute());
    let mut programs = folders.filter_map(|folder| std::fs::canonicalize(folder.join(name)).ok());
    programs.find(|program| {
        let is_program = program.metadata().is_ok_and(|found| is_program(&found));
        let is_safe = |path: &Path| path.symlink_metadata().is_ok_and(|found| is_safe(&found));
        is_program && !program.starts_with(&project) && program.ancestors().all(is_safe)
    })
}
