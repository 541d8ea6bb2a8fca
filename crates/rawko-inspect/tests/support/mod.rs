//! A recorded session.

use std::path::{Path, PathBuf};

/// The golden session of the journal's format.
pub(crate) fn golden_session() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../rawko/tests/golden/session")
}
