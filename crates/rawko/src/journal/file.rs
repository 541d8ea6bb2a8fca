//! Opens files in a session's directory: each must be the user's own, a regular file, and no link to another place.
//! Another user may have put files into a project's folder.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::error::JournalError;

/// Opens a file, if it is a regular one of the user's own and not a link to one.
pub(crate) fn open_own(path: &Path, options: &mut OpenOptions) -> Result<File, JournalError> {
    let refuse = |why: &'static str| JournalError::io("refusing to open", path, std::io::Error::other(why));
    // Without O_NONBLOCK, opening a FIFO would wait for its other end.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file =
        options.custom_flags(flags).open(path).map_err(|error| match std::fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_symlink() => refuse("it is a symbolic link"),
            Ok(metadata) if !metadata.is_file() => refuse("it is not a regular file"),
            Err(gone) if gone.kind() == std::io::ErrorKind::NotFound => {
                JournalError::Missing { path: path.to_owned() }
            }
            _ => JournalError::io("cannot open", path, error),
        })?;
    let metadata = file.metadata().map_err(|error| JournalError::io("cannot read", path, error))?;
    if !metadata.is_file() {
        return Err(refuse("it is not a regular file"));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(refuse("it belongs to another user"));
    }
    if metadata.nlink() > 1 {
        return Err(refuse("it has a second name (a hard link)"));
    }
    Ok(file)
}
