//! Folders that are their user's alone.

use std::fs;
use std::io;
use std::path::Path;

/// Creates a folder and those above it, with no rights for others.
pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path)
}
