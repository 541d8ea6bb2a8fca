//! The cache of vectors beside the memories: a text's vector is computed once, when its memory is first seen.
//!
//! Owns the file `.vectors`. It is a cache: safe to delete, never committed, and thrown away whole where it is damaged, of another
//! version or of another model. A vector's key is the digest of its text, so that no change of a memory needs to be
//! noticed. The file may come with a clone; it is read within bounds and followed through no symbolic link.
//!
//! ```text
//! "RAWKOVEC"  version u32  dimensions u32  model [32]  count u64
//! count × ( key [16]  dimensions × i8 )
//! sha256 [32] of everything before it
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::vector::{DIMENSIONS, Packed};

/// The file's name in the memories' folder.
pub const FILE_NAME: &str = ".vectors";

const MAGIC: &[u8; 8] = b"RAWKOVEC";
const VERSION: u32 = 1;
const KEY: usize = 16;
const HEAD: usize = 8 + 4 + 4 + 32 + 8;
const DIGEST: usize = 32;
/// The largest file that is read: above a million vectors.
const MAX_BYTES: u64 = 512 * 1024 * 1024;

type Key = [u8; KEY];

/// What embeds texts: a vector for each, in their order.
pub type Embed<'a> = dyn FnMut(&[&str]) -> Result<Vec<Vec<f32>>, Error> + 'a;

/// Vectors by the texts that they are of.
#[derive(Debug, Clone)]
pub struct Vectors {
    model: [u8; 32],
    entries: BTreeMap<Key, Packed>,
    used: BTreeSet<Key>,
    changed: bool,
}

impl Vectors {
    /// None yet, for the model of this digest.
    #[must_use]
    pub fn new(model: [u8; 32]) -> Self {
        Self { model, entries: BTreeMap::new(), used: BTreeSet::new(), changed: false }
    }

    /// Those that a file holds for this model; none where there is no such file, or not a whole one.
    #[must_use]
    pub fn open(path: &Path, model: [u8; 32]) -> Self {
        let entries = read(path).and_then(|bytes| parse(&bytes, &model)).unwrap_or_default();
        Self { entries, ..Self::new(model) }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The vector of a text, if it is known.
    #[must_use]
    pub fn get(&self, text: &str) -> Option<&Packed> {
        self.entries.get(&key(text))
    }

    /// Embeds those of these texts whose vectors are not known, at most `most` of them, and says how many are left.
    /// Texts that are no longer among them will be left out of the next file.
    ///
    /// # Errors
    /// Where `embed` fails.
    pub fn fill<'a>(
        &mut self,
        texts: impl IntoIterator<Item = &'a str>,
        most: usize,
        embed: &mut Embed<'_>,
    ) -> Result<usize, Error> {
        let mut missing: BTreeMap<Key, &str> = BTreeMap::new();
        self.used.clear();
        for text in texts {
            let key = key(text);
            self.used.insert(key);
            if !self.entries.contains_key(&key) {
                missing.insert(key, text);
            }
        }
        let wanted: Vec<&str> = missing.values().copied().take(most).collect();
        let left = missing.len() - wanted.len();
        if wanted.is_empty() {
            return Ok(left);
        }
        let vectors = embed(&wanted)?;
        if vectors.len() != wanted.len() || vectors.iter().any(|vector| vector.len() != DIMENSIONS) {
            return Err(Error::Embedding("it gave other vectors than were asked for".to_owned()));
        }
        self.entries.extend(missing.into_keys().zip(vectors.iter().map(|vector| Packed::new(vector))));
        self.changed = true;
        Ok(left)
    }

    /// Whether [`Vectors::save`] would write anything.
    #[must_use]
    pub fn needs_saving(&self) -> bool {
        self.changed || self.entries.len() > 2 * self.used.len()
    }

    /// Writes what is in use, where anything changed or half of the file is of no use any more. Replaced as a whole: who
    /// reads meanwhile reads the old one.
    ///
    /// # Errors
    /// Where the folder or the file cannot be written.
    pub fn save(&mut self, path: &Path) -> Result<bool, Error> {
        if !self.needs_saving() {
            return Ok(false);
        }
        let used = &self.used;
        self.entries.retain(|key, _| used.contains(key));
        let cache = |source| Error::Cache { path: path.to_path_buf(), source };
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new().prefix(".vectors-").tempfile_in(folder).map_err(cache)?;
        file.write_all(&self.bytes()).map_err(cache)?;
        file.persist(path).map_err(|error| cache(error.error))?;
        self.changed = false;
        Ok(true)
    }

    #[allow(clippy::cast_possible_truncation, reason = "384")]
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + self.entries.len() * (KEY + DIMENSIONS) + DIGEST);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(DIMENSIONS as u32).to_le_bytes());
        bytes.extend_from_slice(&self.model);
        bytes.extend_from_slice(&(self.entries.len() as u64).to_le_bytes());
        for (key, vector) in &self.entries {
            bytes.extend_from_slice(key);
            bytes.extend(vector.bytes().iter().map(|byte| byte.to_le_bytes()[0]));
        }
        let digest = Sha256::digest(&bytes);
        bytes.extend_from_slice(&digest);
        bytes
    }
}

fn key(text: &str) -> Key {
    let mut key = [0; KEY];
    key.copy_from_slice(&Sha256::digest(text.as_bytes())[..KEY]);
    key
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let found = std::fs::symlink_metadata(path).ok()?;
    if !found.is_file() || found.len() > MAX_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// What a whole file holds; `None` for any other.
fn parse(bytes: &[u8], model: &[u8; 32]) -> Option<BTreeMap<Key, Packed>> {
    let (body, digest) = bytes.split_at_checked(bytes.len().checked_sub(DIGEST)?)?;
    let (head, records) = body.split_at_checked(HEAD)?;
    let mut expected = MAGIC.to_vec();
    expected.extend_from_slice(&VERSION.to_le_bytes());
    expected.extend_from_slice(&u32::try_from(DIMENSIONS).ok()?.to_le_bytes());
    expected.extend_from_slice(model);
    let count = u64::from_le_bytes(head.get(HEAD - 8..)?.try_into().ok()?);
    let length = usize::try_from(count).ok()?.checked_mul(KEY + DIMENSIONS)?;
    if head.get(..HEAD - 8)? != expected || records.len() != length || Sha256::digest(body)[..] != *digest {
        return None;
    }
    let entry = |record: &[u8]| {
        let (key, vector) = record.split_at_checked(KEY)?;
        let vector = vector.iter().map(|byte| i8::from_le_bytes([*byte])).collect();
        Some((Key::try_from(key).ok()?, Packed::from_bytes(vector)))
    };
    records.chunks_exact(KEY + DIMENSIONS).map(entry).collect()
}

#[cfg(test)]
#[path = "vectors_tests.rs"]
mod tests;
