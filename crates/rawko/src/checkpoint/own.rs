//! The contents of a session's directory may have come with the project: they are used only where they are the user's
//! own, and nothing is written through a link.

use std::fs::{DirBuilder, Metadata, OpenOptions, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::error::CheckpointError;
use super::known::TreeCache;
use crate::private::replace_by;

/// Folders below `checkpoints/` that are written to.
const FOLDERS: [&str; 3] = ["names", "objects", "staging"];

/// Makes sure that the session's directory, its `checkpoints/` and the folders in that are folders of the user's own,
/// as far as they are there.
pub(super) fn check(directory: &Path, checkpoints: &Path) -> Result<(), CheckpointError> {
    check_folder(directory)?;
    check_folder(checkpoints)?;
    FOLDERS.iter().try_for_each(|name| check_folder(&checkpoints.join(name)))
}

fn check_folder(folder: &Path) -> Result<(), CheckpointError> {
    // Without a slash at the end, which would lead through a link.
    let folder: &Path = &folder.components().collect::<PathBuf>();
    let found = match folder.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(CheckpointError::io("cannot look at", folder, error)),
    };
    let why = if found.is_symlink() {
        "it is a symbolic link, which rawko never makes there: remove it if you did not make it either"
    } else if !found.is_dir() {
        "it is not a folder"
    } else if found.uid() != rustix::process::geteuid().as_raw() {
        "it belongs to another user"
    } else {
        return Ok(());
    };
    Err(CheckpointError::io("refusing to use", folder, std::io::Error::other(why)))
}

/// Makes a folder that only its owner may enter.
pub(super) fn create_folder(folder: &Path) -> Result<(), CheckpointError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| CheckpointError::io("cannot create", folder, error))
}

/// Removes a file, if it is there.
pub(super) fn remove(path: &Path) -> Result<(), CheckpointError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(CheckpointError::io("cannot remove", path, error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes a file anew, whatever was at `path`: first in `checkpoints`, whose lock the caller holds, and from there to
/// its place.
pub(super) fn write(checkpoints: &Path, path: &Path, content: &[u8]) -> Result<(), CheckpointError> {
    replace_by(&checkpoints.join("new"), path, content)
        .map_err(|error| CheckpointError::io("cannot write", path, error))
}

/// The content of a regular file; nothing where there is none.
pub(super) fn read(path: &Path) -> Option<Vec<u8>> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).ok()?;
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok().filter(Metadata::is_file)?;
    let mut content = Vec::new();
    file.read_to_end(&mut content).ok()?;
    Some(content)
}

/// The index of a session, which git reads and writes.
#[derive(Debug)]
pub(super) struct SessionIndex<'a> {
    path: PathBuf,
    known: &'a TreeCache,
}

impl<'a> SessionIndex<'a> {
    /// Makes sure that git will not write through it to another place, and that only this user wrote it.
    pub(super) fn of(checkpoints: &Path, known: &'a TreeCache) -> Result<Self, CheckpointError> {
        let index = checkpoints.join("index");
        // The process that held it is dead: the caller holds the lock of the session's checkpoints.
        remove(&checkpoints.join("index.lock"))?;
        match index.symlink_metadata() {
            Ok(found) if !found.is_file() || found.nlink() > 1 || !known.is_index(&index) => remove(&index)?,
            Ok(_) | Err(_) => {}
        }
        Ok(Self { path: index, known })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SessionIndex<'_> {
    /// Git makes it anew each time, for everybody to read.
    fn drop(&mut self) {
        if self.path.symlink_metadata().is_ok_and(|found| found.is_file()) {
            let _ = std::fs::set_permissions(&self.path, Permissions::from_mode(0o600));
            self.known.keep_index(&self.path);
        }
    }
}
