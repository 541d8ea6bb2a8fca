//! Sessions that earlier versions of rawko wrote, which never change.

use std::path::{Path, PathBuf};

/// The recorded session of a format.
pub(crate) fn golden(format: u32) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rawko/tests/golden");
    root.join(format!("format-{format}")).join("session")
}
