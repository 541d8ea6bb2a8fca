//! What is known of the memories without reading them: a cache beside them, safe to delete.
//!
//! ```text
//! folder ─▶ look ─▶ refresh ─┬─ nothing changed ──────▶ read ─▶ search
//!                            ├─ a few files ──────────▶ read ─▶ search, and those few besides
//!                            └─ many ─▶ make ─▶ build ─▶ read ─▶ search
//! ```
//!
//! `.rawko/memories/.index/v1` holds front matter, terms and stamps of all files in a form that is searched where it lies ([`layout`]): what a
//! query does not touch stays on the disk. [`look`] finds out by mtime, ctime, size and inode what of it still holds, [`refresh`] what is to
//! be done about the rest; [`search`] finds the few memories that may be told; [`watch`] spares a run the look at every file. Which of them
//! are, and why, is the core's, from their front matter as in a selection without an index. An index that is damaged, of another version or cannot be written is done without.

mod build;
mod layout;
mod look;
mod make;
mod read;
mod refresh;
mod rules;
mod search;
mod watch;

pub(super) use make::read_entries;
pub(super) use refresh::{Current, Kept, current_while, remade};
pub(super) use search::{Around, Found};
use watch::Watch;

/// The folder of the cache, below the memories' folder. A folder of its own, so that writing to it does not change the stamp of the
/// memories' folder.
const FOLDER: &str = ".index";
/// The file in it. One of another layout or of other rules ([`rules`]) has its place taken.
const NAME: &str = "v1";

#[cfg(test)]
mod settle_tests;
#[cfg(test)]
mod tests;
