//! Distinguishes the user's own journals from those that came with a folder.
//!
//! Resuming a journal performs the calls that it recorded, with the permissions that it recorded. A
//! cloned repository may bring a journal along. So a new journal is sealed with a key that only the user's own account
//! holds, and one without that seal is only resumed or forked when the user says so.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::config::TrustStore;
use crate::journal::JournalHeader;
use crate::private::{create_private_dir, keep_others_out, refuse_others_file, write_new};
use rawko_core::text::hex;

const KEY_BYTES: usize = 32;

/// The user's key.
pub(crate) struct Sealer([u8; KEY_BYTES]);

impl Sealer {
    /// The key beside the list of trusted folders; made at its first use.
    ///
    /// # Errors
    /// If it cannot be read or created.
    pub(crate) fn of(store: &TrustStore) -> io::Result<Self> {
        let folder = store.path().parent().unwrap_or(Path::new("."));
        let path = folder.join("journal.key");
        keep_others_out(folder)?;
        match read_key(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => return read.map(Self),
        }
        create_private_dir(folder)?;
        let mut key = [0; KEY_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut key)?;
        match write_new(&path, &key) {
            // Another process may create it at the same time.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => read_key(&path).map(Self),
        }
    }

    /// The seal of a journal that is begun in `project`. It names the session, so that a copy under another id is not sealed.
    pub(crate) fn seal(&self, header: &JournalHeader, project: &Path) -> String {
        self.over(&[
            project.as_os_str().as_encoded_bytes(),
            header.config_digest.as_bytes(),
            header.task.as_bytes(),
            header.session.as_bytes(),
        ])
    }

    /// The seal of what is left for a session in `project` (`left.rs`). It has more parts than that of a journal, so neither
    /// passes for the other.
    pub(crate) fn seal_left(&self, project: &Path, what: [&str; 4]) -> String {
        let mut parts = vec![project.as_os_str().as_encoded_bytes()];
        parts.extend(what.iter().map(|part| part.as_bytes()));
        self.over(&parts)
    }

    fn over(&self, parts: &[&[u8]]) -> String {
        let mut hash = Sha256::new();
        hash.update(self.0);
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        // The key is hashed at both ends, so that a known seal cannot be extended.
        hash.update(self.0);
        hex(&hash.finalize())
    }

    /// Whether a journal that was found in `project` bears this user's seal.
    pub(crate) fn is_own(&self, header: &JournalHeader, project: &Path) -> bool {
        header.seal.as_ref() == Some(&self.seal(header, project))
    }
}

fn read_key(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let mut key = [0; KEY_BYTES];
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    refuse_others_file(&file, path)?;
    file.read_exact(&mut key)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::FORMAT;
    use rawko_core::Timestamp;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn seals_are_of_one_key_one_project_and_one_run() {
        let (mine, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let sealer = |folder: &Path| Sealer::of(&TrustStore::new(&folder.join("rawko"))).unwrap();
        let header = |task: &str| JournalHeader {
            format: FORMAT,
            rawko: String::new(),
            session: "s".into(),
            created_at: Timestamp(0),
            task: task.into(),
            config_digest: "d".into(),
            degraded: vec![],
            confined: None,
            seal: None,
            forked_from: None,
            traceparent: None,
        };
        let seal = sealer(mine.path()).seal(&header("t"), Path::new("/p"));
        assert_eq!(seal, sealer(mine.path()).seal(&header("t"), Path::new("/p")), "the key is reused");
        assert_ne!(seal, sealer(mine.path()).seal(&header("u"), Path::new("/p")));
        assert_ne!(seal, sealer(mine.path()).seal(&header("t"), Path::new("/q")));
        assert_ne!(seal, sealer(theirs.path()).seal(&header("t"), Path::new("/p")));
        let renamed = JournalHeader { session: "x".into(), ..header("t") };
        assert_ne!(seal, sealer(mine.path()).seal(&renamed, Path::new("/p")), "a copy under another id");
        let mode = std::fs::metadata(mine.path().join("rawko/journal.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
