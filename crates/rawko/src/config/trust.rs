//! Which folders the user trusts, by the content of their configuration.
//!
//! Owns `trust.json` in the user's state directory. A folder whose configuration changes is no longer trusted. This module
//! does not decide what needs trust: `claims` does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rawko_core::text::hex;
use rawko_tools::FileLock;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::source::ProjectFile;
use crate::memory::FOLDER;
use crate::private::{create_private_dir, keep_others_out, refuse_others_file, replace};

const VERSION: u32 = 1;
/// Largest file, in bytes: enough for the trust of thousands of folders.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Most files of a folder whose digests are kept, to say later which of them changed. Of a folder with more, none are.
const MAX_FILES: usize = 1_000;
/// Bytes of the digest of a file. It says what changed; whether something did, the folder's own says.
const FILE_DIGEST: usize = 8;

/// Takes the place of the digest for a folder without configuration: trusting it is about its memories and its
/// `AGENTS.md`.
pub const NO_CONFIGURATION: &str = "none";

/// The folders that the user trusts.
#[derive(Debug, Clone)]
pub struct TrustStore {
    path: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct Contents {
    version: u32,
    /// Digest of the configuration, by the folder's canonical path.
    folders: BTreeMap<String, String>,
    /// Digests of the files of trusted folders, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    files: BTreeMap<String, BTreeMap<String, String>>,
    /// The folders whose memories began with a run of this user.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    memories: BTreeSet<String>,
}

impl Contents {
    /// Its written form, no longer than is read. For that it leaves out first the digests of the files of folders that
    /// are gone, then those of the folders with the most files. Trust itself stays.
    fn text(&mut self) -> io::Result<String> {
        loop {
            let text = format!("{}\n", serde_json::to_string_pretty(self)?);
            if text.len() as u64 <= MAX_BYTES || self.files.is_empty() {
                return Ok(text);
            }
            let before = self.files.len();
            self.files.retain(|folder, _| Path::new(folder).is_dir());
            if self.files.len() == before {
                let largest = self.files.iter().max_by_key(|(_, files)| files.len());
                let largest = largest.map(|(folder, _)| folder.clone()).unwrap_or_default();
                self.files.remove(&largest);
            }
        }
    }
}

/// What became of a file since its folder was trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedFile {
    /// Its name, relative to the folder.
    pub path: String,
    /// What became of it.
    pub change: ChangeSinceTrust,
}

/// How a file changed since its folder was trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ChangeSinceTrust {
    /// It was not there.
    New,
    /// It has another content.
    Changed,
    /// It is not there any more.
    Gone,
}

/// The list of trusted folders could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file or folder could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// `trust.json` is damaged, or written by another version.
    #[error("{}: {reason}; remove the file to start over with no trusted folders", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl TrustStore {
    /// The store in `state_dir` ([`user_state_dir`](super::user_state_dir)). Nothing is read or created yet.
    #[must_use]
    pub fn new(state_dir: &Path) -> Self {
        Self { path: state_dir.join("trust.json") }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the user trusts `folder` with the configuration whose digest this is
    /// ([`Loaded::project_digest`](super::Loaded::project_digest)).
    ///
    /// # Errors
    /// If the folder or the store cannot be read. Treat the folder as untrusted then.
    pub fn is_trusted(&self, folder: &Path, digest: &str) -> Result<bool, TrustError> {
        let key = self.key(folder)?;
        Ok(self.read()?.folders.get(&key).is_some_and(|trusted| trusted == digest))
    }

    /// Trusts `folder` as long as its configuration has this digest. What changes of `files` can be said later
    /// ([`Self::changed`]).
    ///
    /// # Errors
    /// If the folder or the store cannot be read or written.
    pub fn trust(&self, folder: &Path, digest: &str, files: &[ProjectFile]) -> Result<(), TrustError> {
        let key = self.key(folder)?;
        self.update(|contents| {
            contents.folders.insert(key.clone(), digest.to_owned());
            match files.len() <= MAX_FILES {
                true => contents.files.insert(key, digests(files)),
                false => contents.files.remove(&key),
            };
        })
    }

    /// How these files of `folder` differ from those that it was trusted with last, by their names. Empty where it never
    /// was, or had too many files.
    ///
    /// # Errors
    /// As [`Self::is_trusted`].
    pub fn changed(&self, folder: &Path, files: &[ProjectFile]) -> Result<Vec<ChangedFile>, TrustError> {
        let key = self.key(folder)?;
        let Some(before) = self.read()?.files.remove(&key) else { return Ok(Vec::new()) };
        let now = digests(files);
        let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
        let changes = names.into_iter().filter_map(|name| {
            let change = match (before.get(name), now.get(name)) {
                (None, _) => ChangeSinceTrust::New,
                (_, None) => ChangeSinceTrust::Gone,
                (before, now) if before != now => ChangeSinceTrust::Changed,
                _ => return None,
            };
            Some(ChangedFile { path: name.clone(), change })
        });
        Ok(changes.collect())
    }

    /// Removes `folder` from the trusted folders.
    ///
    /// # Errors
    /// If the folder or the store cannot be read or written.
    pub fn distrust(&self, folder: &Path) -> Result<(), TrustError> {
        let key = self.key(folder)?;
        self.update(|contents| {
            contents.folders.remove(&key);
            contents.files.remove(&key);
            contents.memories.remove(&key);
        })
    }

    /// Whether the memories of `folder` began with a run of this user, so that they need no trust.
    ///
    /// # Errors
    /// As [`Self::is_trusted`].
    pub fn has_own_memories(&self, folder: &Path) -> Result<bool, TrustError> {
        let key = self.key(folder)?;
        Ok(self.read()?.memories.contains(&key))
    }

    /// Records that the memories of `folder` are the user's own, if there are none yet.
    ///
    /// # Errors
    /// As [`Self::trust`].
    pub fn begin_memories(&self, folder: &Path) -> Result<(), TrustError> {
        let key = self.key(folder)?;
        if holds_something(&folder.join(FOLDER)) || self.read()?.memories.contains(&key) {
            return Ok(());
        }
        self.update(|contents| {
            contents.memories.insert(key);
        })
    }

    /// The folder's real path, so that a link cannot inherit trust.
    fn key(&self, folder: &Path) -> Result<String, TrustError> {
        let path =
            folder.canonicalize().map_err(|source| TrustError::Io { path: folder.to_owned(), source })?;
        match path.into_os_string().into_string() {
            Ok(key) => Ok(key),
            Err(raw) => {
                let source = io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "the path is not UTF-8, so it cannot be trusted",
                );
                Err(TrustError::Io { path: raw.into(), source })
            }
        }
    }

    fn read(&self) -> Result<Contents, TrustError> {
        let mut text = String::new();
        keep_others_out(self.folder()).map_err(|source| self.io(source))?;
        let read = File::open(&self.path).and_then(|file| {
            refuse_others_file(&file, &self.path)?;
            file.take(MAX_BYTES).read_to_string(&mut text)
        });
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Contents {
                    version: VERSION,
                    folders: BTreeMap::new(),
                    files: BTreeMap::new(),
                    memories: BTreeSet::new(),
                });
            }
            Err(source) => return Err(self.io(source)),
        }
        let damaged = |reason: String| TrustError::Damaged { path: self.path.clone(), reason };
        let contents: Contents =
            serde_json::from_str(&text).map_err(|error| damaged(format!("not readable: {error}")))?;
        if contents.version != VERSION {
            return Err(damaged(format!(
                "written by another version of rawko (format {})",
                contents.version
            )));
        }
        Ok(contents)
    }

    /// Reads, changes and replaces the file under a lock.
    fn update(&self, change: impl FnOnce(&mut Contents)) -> Result<(), TrustError> {
        create_private_dir(self.folder()).map_err(|source| self.io(source))?;
        let lock_path = self.path.with_extension("lock");
        let lock = private().truncate(false).open(&lock_path).map_err(|source| self.io(source))?;
        let _lock = FileLock::wait_for(lock).map_err(|source| self.io(source))?;
        let mut contents = self.read()?;
        change(&mut contents);
        let text = contents.text().map_err(|source| self.io(source))?;
        replace(&self.path, text.as_bytes()).map_err(|source| self.io(source))
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    fn io(&self, source: io::Error) -> TrustError {
        TrustError::Io { path: self.path.clone(), source }
    }
}

fn digests(files: &[ProjectFile]) -> BTreeMap<String, String> {
    let digest = |file: &ProjectFile| {
        let whole = Sha256::digest(file.text.as_bytes());
        hex(whole.get(..FILE_DIGEST).unwrap_or_default())
    };
    files.iter().map(|file| (file.path.to_string_lossy().into_owned(), digest(file))).collect()
}

/// Options that create a file which only the user can read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options
}

/// Whether there is such a folder with something in it. A file that only keeps an empty folder in git does not count.
pub(super) fn holds_something(folder: &Path) -> bool {
    let is_hidden = |entry: std::fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(b".");
    std::fs::read_dir(folder).is_ok_and(|entries| entries.flatten().any(|entry| !is_hidden(entry)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn trust_is_by_folder_and_content() {
        let state = tempfile::tempdir().unwrap();
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = TrustStore::new(&state.path().join("rawko"));
        assert!(!store.is_trusted(one.path(), "a").unwrap(), "nothing is trusted before");
        store.trust(one.path(), "a", &[]).unwrap();
        store.trust(two.path(), "b", &[]).unwrap();
        assert!(store.is_trusted(one.path(), "a").unwrap());
        assert!(!store.is_trusted(one.path(), "b").unwrap(), "changed content is not trusted");
        assert!(!store.is_trusted(two.path(), "a").unwrap());
        store.distrust(one.path()).unwrap();
        assert!(!store.is_trusted(one.path(), "a").unwrap());
        assert!(store.is_trusted(two.path(), "b").unwrap());
        assert!(store.is_trusted(&two.path().join("absent"), "b").is_err());
    }

    #[test]
    fn the_store_stays_short_enough_to_be_read() {
        let state = tempfile::tempdir().unwrap();
        let folders: Vec<_> = (0..8).map(|_| tempfile::tempdir().unwrap()).collect();
        let store = TrustStore::new(state.path());
        let files = |n: usize| {
            let name = |i: usize| format!(".rawko/agents/{}{i}.md", "n".repeat(700));
            (0..n).map(|i| ProjectFile { path: name(i).into(), text: "".into() }).collect::<Vec<_>>()
        };
        for folder in &folders {
            store.trust(folder.path(), "a", &files(1_000)).unwrap();
        }
        assert!(store.path().metadata().unwrap().len() <= MAX_BYTES);
        for folder in &folders {
            assert!(store.is_trusted(folder.path(), "a").unwrap());
        }
    }

    #[test]
    fn what_changed_since_is_named() {
        let (state, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = TrustStore::new(state.path());
        let file = |path: &str, text: &str| ProjectFile { path: path.into(), text: text.into() };
        let check = |files: &[ProjectFile], expected: &[(&str, ChangeSinceTrust)]| {
            let found = store.changed(folder.path(), files).unwrap();
            let found: Vec<_> = found.iter().map(|file| (file.path.as_str(), file.change)).collect();
            assert_eq!(found, expected);
        };
        let first = [file("a", "1"), file("b", "1"), file("c", "1")];
        check(&first, &[]);
        store.trust(folder.path(), "x", &first).unwrap();
        check(&first, &[]);
        let later = [file("a", "1"), file("b", "2"), file("d", "1")];
        check(
            &later,
            &[("b", ChangeSinceTrust::Changed), ("c", ChangeSinceTrust::Gone), ("d", ChangeSinceTrust::New)],
        );
        // Of too many files only that something changed is known.
        let many: Vec<ProjectFile> = (0..=MAX_FILES).map(|n| file(&n.to_string(), "")).collect();
        store.trust(folder.path(), "y", &many).unwrap();
        check(&later, &[]);
        store.trust(folder.path(), "x", &first).unwrap();
        store.distrust(folder.path()).unwrap();
        check(&later, &[]);
    }

    #[test]
    fn memories_that_began_here_are_the_users_own() {
        let (state, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = TrustStore::new(state.path());
        assert!(!store.has_own_memories(folder.path()).unwrap());
        store.begin_memories(folder.path()).unwrap();
        store.begin_memories(folder.path()).unwrap();
        assert!(store.has_own_memories(folder.path()).unwrap());
        assert!(!store.is_trusted(folder.path(), NO_CONFIGURATION).unwrap());
        store.distrust(folder.path()).unwrap();
        assert!(!store.has_own_memories(folder.path()).unwrap());
        fs::create_dir_all(folder.path().join(FOLDER)).unwrap();
        fs::write(folder.path().join(FOLDER).join("a.md"), "somebody's").unwrap();
        store.begin_memories(folder.path()).unwrap();
        assert!(!store.has_own_memories(folder.path()).unwrap(), "these came with the folder");
    }

    #[cfg(unix)]
    #[test]
    fn only_the_user_can_read_the_file() {
        use std::os::unix::fs::PermissionsExt;
        let state = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = TrustStore::new(state.path());
        store.trust(folder.path(), "a", &[]).unwrap();
        let mode = fs::metadata(store.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_the_folder_it_points_to() {
        let state = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let link = state.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        let store = TrustStore::new(state.path());
        store.trust(&link, "a", &[]).unwrap();
        assert!(store.is_trusted(folder.path(), "a").unwrap());
    }

    #[track_caller]
    fn check_damaged(text: &str, part: &str) {
        let state = tempfile::tempdir().unwrap();
        let store = TrustStore::new(state.path());
        fs::write(store.path(), text).unwrap();
        let read = store.is_trusted(state.path(), "a").unwrap_err().to_string();
        assert!(read.contains(part), "{read}");
        let written = store.trust(state.path(), "a", &[]).unwrap_err().to_string();
        assert!(written.contains(part), "a damaged file is not overwritten: {written}");
    }

    #[test]
    fn a_damaged_file_trusts_nothing() {
        check_damaged("{", "not readable");
        check_damaged("[]", "not readable");
        check_damaged(r#"{"version": 2, "folders": {}}"#, "another version");
    }
}
