//! Files of a session besides its journal, such as the checks that it began with. They are written once, by whichever worker is
//! the first to need them, and every other worker gets the same.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rawko::is_record_of_session;
use temporalio_common::ActivityError;

use crate::failed::{hand_back, of_store};
use crate::store::{Creation, SharedStore};

/// The files of one session on one worker.
pub(crate) struct Records {
    store: SharedStore,
    folder: PathBuf,
    prefix: String,
}

impl Records {
    pub(crate) fn new(store: &SharedStore, folder: &Path, task: &str) -> Self {
        Self { store: store.clone(), folder: folder.to_owned(), prefix: format!("tasks/{task}/records") }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Brings those that other workers wrote.
    pub(crate) async fn fetch(&self) -> Result<(), ActivityError> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(hand_back)?;
        for key in self.store.list(&self.prefix).await.map_err(of_store)? {
            let Some(name) = key
                .strip_prefix(&self.prefix)
                .and_then(|name| name.strip_prefix('/'))
                .filter(|name| is_record_of_session(name))
            else {
                continue;
            };
            let path = self.folder.join(name);
            if !path.exists()
                && let Some(content) = self.store.get(&key).await.map_err(of_store)?
            {
                write(&path, &content).map_err(hand_back)?;
            }
        }
        Ok(())
    }

    /// Gives others those that this worker wrote. Where another one was first, its file counts.
    pub(crate) async fn share(&self) -> Result<(), ActivityError> {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return Ok(()) };
        for entry in entries {
            let entry = entry.map_err(hand_back)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !is_record_of_session(&name) {
                continue;
            }
            let content = std::fs::read(entry.path()).map_err(hand_back)?;
            let key = format!("{}/{name}", self.prefix);
            if let Creation::Existing(theirs) =
                self.store.create(&key, content.clone().into()).await.map_err(of_store)?
                && theirs != content
            {
                write(&entry.path(), &theirs).map_err(hand_back)?;
            }
        }
        Ok(())
    }
}

/// Writes a file so that a reader sees all of it or nothing.
fn write(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, content)?;
    std::fs::rename(new, path)
}
