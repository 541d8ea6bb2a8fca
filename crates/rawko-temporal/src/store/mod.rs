//! What the workers of a fleet share: a folder, or a bucket of a service that speaks S3 (with the feature `s3`).
//!
//! Nothing that was written is changed. A blob's key is the hash of its content. Any other key belongs to the worker
//! that creates it first, and the others get what that one wrote. So an activity that is done twice, at the same time
//! or after a crash, leaves what one of them would have left. The events of a task are kept on top of that, in
//! [`EventLog`].
//!
//! A store has a mark, so that an empty one in its place is not taken for it.
//!
//! This module knows nothing of what it keeps, nor when it is no longer needed.

mod error;
mod events;
mod keys;
mod location;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions};
use sha2::{Digest as _, Sha256};

pub use error::StoreError;
pub use events::EventLog;
use keys::{checked_hash, checked_key};

/// The key of the store's mark.
const MARK: &str = "rawko-store";
/// How long a mark is.
const MARK_DIGITS: usize = 16;

/// Where the workers of a fleet keep what they share. Copies share one connection.
#[derive(Clone)]
pub struct SharedStore {
    objects: Arc<dyn ObjectStore>,
    location: Arc<str>,
    folder: Option<Arc<FilePath>>,
}

/// The result of creating a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Creation {
    /// It is there now, with the content given.
    Created,
    /// It was there before, with this content.
    Existing(Bytes),
}

impl SharedStore {
    /// The store at a location: a path, `file:///…` or `s3://bucket/prefix`. A folder is made if it is not there, for its
    /// owner alone. A bucket must be there. Its keys, region and endpoint come from the environment (`AWS_…`).
    ///
    /// # Errors
    /// If the location cannot be used.
    pub fn open(location: &str) -> Result<Self, StoreError> {
        Self::open_with(location, &[])
    }

    /// The same with variables that are no longer in the process's environment, but count as if they were: keys.
    ///
    /// # Errors
    /// As [`SharedStore::open`].
    pub fn open_with(location: &str, secrets: &[(String, String)]) -> Result<Self, StoreError> {
        let (objects, folder) = location::open(location, secrets)?;
        Ok(Self { objects, location: location.into(), folder: folder.map(Arc::from) })
    }

    /// Where it is, as it was given.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.location
    }

    /// The mark of the store, which distinguishes it from an empty one in the same place; `None` if it is not marked.
    ///
    /// # Errors
    /// If the store cannot be reached.
    pub async fn mark(&self) -> Result<Option<String>, StoreError> {
        let mark = self.get(MARK).await?;
        Ok(mark.map(|mark| String::from_utf8_lossy(&mark).trim().to_owned()))
    }

    /// Marks the store, unless it is marked, and gives its mark.
    ///
    /// # Errors
    /// If the store cannot be reached or written.
    pub async fn marked(&self) -> Result<String, StoreError> {
        if let Some(mark) = self.mark().await? {
            return Ok(mark);
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let made_of = format!("{} {} {}", since.as_nanos(), std::process::id(), self.location);
        let mut mark = hex::encode(Sha256::digest(made_of));
        mark.truncate(MARK_DIGITS);
        match self.create(MARK, mark.clone().into()).await? {
            Creation::Created => Ok(mark),
            Creation::Existing(theirs) => Ok(String::from_utf8_lossy(&theirs).trim().to_owned()),
        }
    }

    /// Refuses a store that is not the one with this mark: what it should hold would be missing, without anyone
    /// noticing.
    ///
    /// # Errors
    /// [`StoreError::OtherStore`] if its mark is missing or another one.
    pub async fn check_mark(&self, wanted: &str) -> Result<(), StoreError> {
        let found = self.mark().await?;
        if found.as_deref() == Some(wanted) {
            return Ok(());
        }
        let has = found.map_or_else(|| "has no mark".to_owned(), |mark| format!("has the mark {mark}"));
        let (store, wanted) = (self.location.to_string(), wanted.to_owned());
        Err(StoreError::OtherStore { store, has, wanted })
    }

    /// The events of a task.
    ///
    /// # Errors
    /// If the task's name cannot be part of a key.
    pub fn events(&self, task: &str) -> Result<EventLog, StoreError> {
        EventLog::new(self.clone(), task)
    }

    /// Keeps content, and gives its SHA-256 in hexadecimal digits, by which it is found again.
    ///
    /// # Errors
    /// If the store cannot be reached or written.
    pub async fn put_blob(&self, content: Bytes) -> Result<String, StoreError> {
        let hash = hex::encode(Sha256::digest(&content));
        let key = blob_key(&hash);
        let put = self.put(&key, content.clone(), PutMode::Create).await;
        match put {
            Ok(()) => {}
            Err(Error::AlreadyExists { .. }) => {
                // Where a disk has lost part of it, what is at hand is as good.
                let found =
                    self.objects.head(&key).await.map_err(|error| self.failed("look at", &key, error))?;
                if found.size != content.len() as u64 {
                    let again = self.put(&key, content, PutMode::Overwrite).await;
                    again.map_err(|error| self.failed("write", &key, error))?;
                }
            }
            Err(error) => return Err(self.failed("write", &key, error)),
        }
        Ok(hash)
    }

    /// The content with this hash.
    ///
    /// # Errors
    /// [`StoreError::NoBlob`] if there is none, [`StoreError::Damaged`] if what is there has another hash.
    pub async fn blob(&self, hash: &str) -> Result<Bytes, StoreError> {
        checked_hash(hash)?;
        let key = blob_key(hash);
        let store = || self.location.to_string();
        let Some(content) = self.read(&key).await? else {
            return Err(StoreError::NoBlob { hash: hash.to_owned(), store: store() });
        };
        if hex::encode(Sha256::digest(&content)) != hash {
            return Err(StoreError::Damaged {
                key: key.to_string(),
                store: store(),
                what: "its content is not what its hash says".to_owned(),
            });
        }
        Ok(content)
    }

    /// Gives a key its content, unless it has one. Of several that try at once, one creates it, and the others get its
    /// content.
    ///
    /// # Errors
    /// If the key cannot be used, or the store not be reached or written.
    pub async fn create(&self, key: &str, content: Bytes) -> Result<Creation, StoreError> {
        let key = checked_key(key)?;
        match self.put(&key, content, PutMode::Create).await {
            Ok(()) => Ok(Creation::Created),
            Err(Error::AlreadyExists { .. }) => match self.read(&key).await? {
                Some(content) => Ok(Creation::Existing(content)),
                None => {
                    let what = "it was removed while it was read".to_owned();
                    Err(StoreError::Damaged { key: key.to_string(), store: self.location.to_string(), what })
                }
            },
            Err(error) => Err(self.failed("write", &key, error)),
        }
    }

    /// The content of a key, if it was created.
    ///
    /// # Errors
    /// If the key cannot be used, or the store not be reached.
    pub async fn get(&self, key: &str) -> Result<Option<Bytes>, StoreError> {
        self.read(&checked_key(key)?).await
    }

    /// The keys below `prefix`, which is a whole part of a key like `tasks` or `tasks/one`, in order. An empty prefix is
    /// for all.
    ///
    /// # Errors
    /// If the prefix cannot be used, or the store not be reached.
    pub async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let prefix = if prefix.is_empty() { Path::default() } else { checked_key(prefix)? };
        self.list_from(&prefix, None).await
    }

    /// The last of the keys beside `key` that follow it in order, if there is one.
    ///
    /// # Errors
    /// If the key cannot be used, or the store not be reached.
    pub async fn last_after(&self, key: &str) -> Result<Option<String>, StoreError> {
        let key = checked_key(key)?;
        let folder =
            key.as_ref().rsplit_once('/').map_or_else(Path::default, |(folder, _)| Path::from(folder));
        Ok(self.list_from(&folder, Some(&key)).await?.pop())
    }

    /// The keys below `prefix` that come after `after`, in order.
    async fn list_from(&self, prefix: &Path, after: Option<&Path>) -> Result<Vec<String>, StoreError> {
        let found = match after {
            Some(after) => self.objects.list_with_offset(Some(prefix), after),
            None => self.objects.list(Some(prefix)),
        };
        let keys = found.map_ok(|object| String::from(object.location)).try_collect::<Vec<_>>().await;
        let mut keys = keys.map_err(|error| self.failed("list", prefix, error))?;
        keys.sort_unstable();
        Ok(keys)
    }

    async fn put(&self, key: &Path, content: Bytes, mode: PutMode) -> Result<(), Error> {
        // It would be made anew, and be empty.
        if let Some(folder) = self.folder.as_ref().filter(|folder| !folder.is_dir()) {
            let source = format!("the folder {} is gone", folder.display()).into();
            return Err(Error::Generic { store: "folder", source });
        }
        self.objects.put_opts(key, content.into(), PutOptions::from(mode)).await.map(drop)
    }

    async fn read(&self, key: &Path) -> Result<Option<Bytes>, StoreError> {
        let found = match self.objects.get(key).await {
            Ok(found) => found.bytes().await,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => Err(error),
        };
        found.map(Some).map_err(|error| self.failed("read", key, error))
    }

    fn failed(&self, doing: &'static str, key: &Path, source: Error) -> StoreError {
        StoreError::Failed {
            doing,
            key: key.to_string(),
            store: self.location.to_string(),
            source: Box::new(source),
        }
    }
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedStore").field("location", &self.location).finish_non_exhaustive()
    }
}

/// Folders of a few thousand files each, whatever the number of blobs.
fn blob_key(hash: &str) -> Path {
    Path::from_iter(["blobs", hash.get(..2).unwrap_or_default(), hash])
}
