//! Similarity of meaning between a task and memories, offline and on the CPU (`docs/spec/memory.md`, matching 4).
//!
//! ```text
//! memories ─▶ texts ─▶ Vectors (.vectors, a cache) ─▶ similarities ─▶ rawko-core's `Surroundings::semantic`
//!               task ─▶ Model ─────────────────────────▲
//! ```
//!
//! Owns the sentence embeddings, the cache of them, and the threshold above which two texts mean nearly the same
//! (`docs/memory-evaluation.md`). What a memory is and how it is scored is `rawko-core`'s; nothing here downloads
//! anything: `scripts/fetch-model.sh` does, once.
//!
//! The model is behind the feature `model`, because a tensor library is too much to build for those who do without it.
//! Everything else builds and is tested always.

mod error;
#[cfg(feature = "model")]
mod model;
mod similarity;
mod vector;
mod vectors;

pub use error::Error;
#[cfg(feature = "model")]
pub use model::{MAX_PIECES, Model};
pub use similarity::{Compared, MARGIN, MAX_EMBEDDED, THRESHOLD, decide, similarities, texts};
pub use vector::{DIMENSIONS, Packed, cosine, nearest};
pub use vectors::{Embed, FILE_NAME, Vectors};

use std::path::{Path, PathBuf};

/// Where the weights are, below rawko's part of the user's directory for data.
pub const MODEL_DIRECTORY: &str = "models/all-minilm-l6-v2";

/// The directory of the weights, from what `XDG_DATA_HOME` and `HOME` are. `None` where neither says anything.
#[must_use]
pub fn model_directory(data_home: Option<&Path>, home: Option<&Path>) -> Option<PathBuf> {
    let data = data_home.filter(|path| path.is_absolute()).map(Path::to_path_buf);
    let data = data.or_else(|| home.filter(|path| path.is_absolute()).map(|home| home.join(".local/share")));
    data.map(|data| data.join("rawko").join(MODEL_DIRECTORY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weights_are_where_the_script_puts_them() {
        let check = |data: Option<&str>, home: Option<&str>, expected: Option<&str>| {
            assert_eq!(
                model_directory(data.map(Path::new), home.map(Path::new)),
                expected.map(PathBuf::from)
            );
        };
        check(Some("/d"), Some("/h"), Some("/d/rawko/models/all-minilm-l6-v2"));
        check(None, Some("/h"), Some("/h/.local/share/rawko/models/all-minilm-l6-v2"));
        check(Some("relative"), Some("/h"), Some("/h/.local/share/rawko/models/all-minilm-l6-v2"));
        check(None, None, None);
    }
}
