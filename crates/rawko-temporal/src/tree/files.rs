//! Files of the work place: made for their owner alone, written only where they differ, and removed whatever their rights.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::error::TreeError;

/// Makes a folder and those above it, with no rights for others.
pub(super) fn make_folder(path: &Path) -> Result<(), TreeError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| TreeError::io("make the folder", path, error))
}

/// Whether this is a folder, and no link to one.
pub(super) fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

/// Gives a file this content, unless it has it. Anything else in its place is removed.
pub(super) fn set(path: &Path, content: &str) -> Result<(), TreeError> {
    let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
    if is_file && fs::read(path).is_ok_and(|found| found == content.as_bytes()) {
        return Ok(());
    }
    remove(path)?;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(content.as_bytes()))
        .map_err(|error| TreeError::io("write", path, error))
}

/// Removes a file, a link or a whole folder, if it is there.
pub(super) fn remove(path: &Path) -> Result<(), TreeError> {
    let gone = match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => Err(error),
        // Some caches make their folders read-only.
        Ok(found) if found.is_dir() => rawko_tools::temporary::remove_all(path),
        Ok(_) => fs::remove_file(path),
    };
    gone.map_err(|error| TreeError::io("remove", path, error))
}

/// Removes what a killed git leaves in its folder. The caller holds the lock, so no git works there.
pub(super) fn sweep(git_folder: &Path) -> Result<(), TreeError> {
    let is_lock = |name: &str| name.ends_with(".lock");
    sweep_folder(git_folder, &is_lock, false)?;
    sweep_folder(&git_folder.join("refs"), &is_lock, true)?;
    sweep_folder(&git_folder.join("objects/pack"), &|name| name.starts_with("tmp_"), false)
}

fn sweep_folder(folder: &Path, is_left: &dyn Fn(&str) -> bool, deep: bool) -> Result<(), TreeError> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let kind = entry.file_type().map_err(|error| TreeError::io("look at", &entry.path(), error))?;
        if kind.is_dir() && deep {
            sweep_folder(&entry.path(), is_left, deep)?;
        } else if !kind.is_dir() && entry.file_name().to_str().is_some_and(is_left) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}
