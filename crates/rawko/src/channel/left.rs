//! What another process of the user leaves in a session's folder for the process that carries the session: an answer to a
//! question (`approval.rs`), a command (`steering.rs`).
//!
//! An agent without a sandbox could write there too, and a folder can bring files along. So what is left has a seal made with
//! the user's own key, over what it is, its time, the session and the project.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rawko_core::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::channel::seal::Sealer;
use crate::config::TrustStore;
use crate::error::Error;
use crate::journal::{JournalHeader, open_own};
use crate::private::{Existing, create_private_dir, write_whole};

/// A kind of thing that can be left.
pub(crate) trait LeftContent: Serialize + DeserializeOwned {
    /// Its name, so that no other kind passes for it.
    const NAME: &'static str;
    /// The most bytes that are read.
    const LONGEST: u64;
}

/// Something that was left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Left<T> {
    #[serde(flatten)]
    pub(crate) what: T,
    pub(crate) at: Timestamp,
    seal: String,
}

/// The session for which something is left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addressee<'a> {
    pub(crate) session: &'a str,
    pub(crate) project: &'a Path,
}

impl<T: LeftContent> Left<T> {
    /// With the user's seal.
    pub(crate) fn new(what: T, at: Timestamp, sealer: &Sealer, to: Addressee<'_>) -> Self {
        let mut left = Self { what, at, seal: String::new() };
        left.seal = left.sealed(sealer, to);
        left
    }

    fn sealed(&self, sealer: &Sealer, to: Addressee<'_>) -> String {
        let what = serde_json::to_string(&self.what).unwrap_or_default();
        sealer.seal_left(to.project, [T::NAME, to.session, &what, &self.at.0.to_string()])
    }

    /// What the user left in this file; `None` if it is not the user's, or not for this session.
    pub(crate) fn read(file: &Path, sealer: &Sealer, to: Addressee<'_>) -> Option<Self> {
        let mut text = String::new();
        let file = open_own(file, OpenOptions::new().read(true)).ok()?;
        file.take(T::LONGEST).read_to_string(&mut text).ok()?;
        let left: Self = serde_json::from_str(&text).ok()?;
        (left.seal == left.sealed(sealer, to)).then_some(left)
    }

    /// Leaves it as a file of this name that only the user can read, whole or not at all.
    pub(crate) fn leave(&self, folder: &Path, name: &str, existing: Existing) -> io::Result<()> {
        create_private_dir(folder)?;
        write_whole(&folder.join(name), &serde_json::to_vec(self)?, 0o600, existing)
    }
}

/// The key of the user, and the real path of `project`, if the user began the session there.
///
/// # Errors
/// [`Error::Setup`] if the key cannot be read; [`Error::UntrustedJournal`] if somebody else began it.
pub(crate) fn sealer_for(
    header: &JournalHeader,
    project: &Path,
    trust: &TrustStore,
) -> Result<(Sealer, PathBuf), Error> {
    let no_key = |error: io::Error| Error::Setup {
        message: format!("your key for sessions cannot be read: {error}"),
        hint: "check your configuration folder".to_owned(),
    };
    let project = project.canonicalize().map_err(no_key)?;
    let sealer = Sealer::of(trust).map_err(no_key)?;
    if !sealer.is_own(header, &project) {
        let reason = "it was not begun by you in this folder: it may have come with the folder".to_owned();
        let session = header.session.clone();
        return Err(Error::UntrustedJournal { session, reasons: vec![reason], again: Vec::new() });
    }
    Ok((sealer, project))
}
