//! What the workers of a fleet share: a folder, or a bucket of a service that speaks S3 (with the feature `s3`).
//!
//! Nothing that was written is changed. A blob's key is the hash of its content. Another key belongs to who creates it first,
//! and everybody else gets what that one wrote. So an activity that is done twice, at the same time or after a crash,
//! leaves what one of them would have left. The events of a task are kept on top of that, in [`EventLog`].
//!
//! This module knows nothing of what it keeps, nor when it is no longer needed.

mod error;
mod events;
mod keys;
mod location;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions};
use sha2::{Digest as _, Sha256};

pub use error::StoreError;
pub use events::EventLog;
use keys::{checked_hash, checked_key};

/// Where the workers of a fleet keep what they share. Copies share one connection.
#[derive(Clone)]
pub struct SharedStore {
    objects: Arc<dyn ObjectStore>,
    location: Arc<str>,
}

/// What became of a key that was to be created.
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
        Ok(Self { objects: location::open(location, secrets)?, location: location.into() })
    }

    /// Where it is, as it was given.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.location
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

    /// The keys below `prefix`, in order, of those the ones behind `after`.
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
