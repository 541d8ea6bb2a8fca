//! Large payloads of records, kept beside the journal under the hash of their content.
//!
//! A text of more than 64 KiB anywhere in a record (a tool's output, a picture in base64, a model's long answer) goes to
//! `blobs/<sha256>`; the record holds `null` in its place and names place, hash and length beside its data:
//! `"blobs":[{"at":"/outcome/content","sha256":"…","bytes":70000}]`. The reference is outside the data, so no data can
//! be taken for one, and records without blobs pay nothing. A blob is durable before the record that names it.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::error::JournalError;
use super::file::open_own;
use crate::private::replace_by;
use rawko_core::text::hex;

/// Texts of more bytes than this leave the record.
pub(super) const THRESHOLD: usize = 64 * 1024;
/// No text that rawko keeps is longer; a reference that says so is damaged.
const LONGEST: u64 = 256 * 1024 * 1024;
/// Name of the folder in a session's directory.
const FOLDER: &str = "blobs";

/// Where in a record a text is missing, and which blob holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BlobRef {
    /// JSON pointer into the record's data.
    pub(super) at: String,
    /// Hash of the content, in hexadecimal: the blob's name.
    pub(super) sha256: String,
    /// Length of the content.
    pub(super) bytes: u64,
}

/// The blobs of one session.
#[derive(Debug, Clone)]
pub(super) struct Blobs {
    folder: PathBuf,
}

impl Blobs {
    /// The blobs beside the journal at `path`.
    pub(super) fn of_journal(path: &Path) -> Self {
        Self { folder: path.parent().unwrap_or(Path::new(".")).join(FOLDER) }
    }

    /// Moves the long texts of `data` out, and says where they are now.
    pub(super) fn move_out(&self, data: &mut Value) -> Result<Vec<BlobRef>, JournalError> {
        let mut places = Vec::new();
        find_long(data, &mut String::new(), &mut places);
        let mut references = Vec::with_capacity(places.len());
        for at in places {
            let Some(place) = data.pointer_mut(&at) else { continue };
            if let Value::String(text) = place.take() {
                references.push(self.put(at, &text)?);
            }
        }
        Ok(references)
    }

    /// Puts the texts that `references` name back into `data`. The error says which blob, and what is wrong.
    pub(super) fn inline(&self, data: &mut Value, references: &[BlobRef]) -> Result<(), (String, String)> {
        for reference in references {
            let wrong = |what: String| (reference.sha256.clone(), what);
            let text = self.get(reference).map_err(wrong)?;
            match data.pointer_mut(&reference.at) {
                Some(place @ Value::Null) => *place = Value::String(text),
                Some(_) | None => {
                    return Err(wrong(format!("belongs to {}, where nothing is missing", reference.at)));
                }
            }
        }
        Ok(())
    }

    /// Checks that the text which `reference` names is there, whole. The error is that of [`Self::inline`].
    pub(super) fn check(&self, reference: &BlobRef) -> Result<(), (String, String)> {
        self.get(reference).map(drop).map_err(|what| (reference.sha256.clone(), what))
    }

    fn put(&self, at: String, text: &str) -> Result<BlobRef, JournalError> {
        let reference =
            BlobRef { at, sha256: hex(&Sha256::digest(text.as_bytes())), bytes: text.len() as u64 };
        // An existing blob is kept if it is intact; a damaged one is written anew.
        if self.get(&reference).is_ok() {
            return Ok(reference);
        }
        let path = self.folder.join(&reference.sha256);
        let wrong = |error| JournalError::io("cannot write", &path, error);
        if std::fs::symlink_metadata(&self.folder).is_ok_and(|data| !data.is_dir()) {
            return Err(wrong(std::io::Error::other("`blobs` is not a directory of its own")));
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(wrong)?;
        // Only the holder of the journal's lock writes here, so one name for what is being written is enough.
        let part = self.folder.join("new");
        replace_by(&part, &path, text.as_bytes()).map_err(wrong)?;
        Ok(reference)
    }

    fn get(&self, reference: &BlobRef) -> Result<String, String> {
        let name = &reference.sha256;
        // The name becomes part of a path: nothing but a hash may.
        if name.len() != 64 || !name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err("has a name that is no hash".to_owned());
        }
        let path = self.folder.join(name);
        let damaged = |what: &str| format!("is damaged: {what} ({})", path.display());
        let file = match open_own(&path, OpenOptions::new().read(true)) {
            Ok(file) => file,
            Err(JournalError::Missing { .. }) => return Err(format!("is missing ({})", path.display())),
            Err(error) => return Err(format!("cannot be read: {error}")),
        };
        let length = file.metadata().map_err(|error| damaged(&error.to_string()))?.len();
        if length != reference.bytes || length > LONGEST {
            return Err(damaged(&format!("{length} bytes instead of {}", reference.bytes)));
        }
        let mut bytes = Vec::new();
        file.take(LONGEST).read_to_end(&mut bytes).map_err(|error| damaged(&error.to_string()))?;
        if hex(&Sha256::digest(&bytes)) != *name {
            return Err(damaged("its content does not match its name"));
        }
        String::from_utf8(bytes).map_err(|_| damaged("it is not UTF-8"))
    }
}

fn find_long(value: &Value, at: &mut String, found: &mut Vec<String>) {
    let length = at.len();
    match value {
        Value::String(text) if text.len() > THRESHOLD => found.push(at.clone()),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                at.push_str(&format!("/{index}"));
                find_long(item, at, found);
                at.truncate(length);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                at.push('/');
                at.push_str(&name.replace('~', "~0").replace('/', "~1"));
                find_long(field, at, found);
                at.truncate(length);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt as _;

    fn blobs() -> (tempfile::TempDir, Blobs) {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::of_journal(&dir.path().join("journal.jsonl"));
        (dir, blobs)
    }

    fn long(c: char) -> String {
        c.to_string().repeat(THRESHOLD + 1)
    }

    #[track_caller]
    fn check(data: Value, expected: &[&str]) {
        let (_dir, blobs) = blobs();
        let mut moved = data.clone();
        let references = blobs.move_out(&mut moved).unwrap();
        let places: Vec<&str> = references.iter().map(|reference| reference.at.as_str()).collect();
        assert_eq!(places, expected);
        assert!(moved.to_string().len() < THRESHOLD * 2);
        // A reference is itself stored as JSON.
        let references: Vec<BlobRef> =
            serde_json::from_str(&serde_json::to_string(&references).unwrap()).unwrap();
        blobs.inline(&mut moved, &references).unwrap();
        assert_eq!(moved, data);
    }

    #[test]
    fn long_texts_leave_and_come_back() {
        check(json!({"a": "short"}), &[]);
        check(json!({"a": "x".repeat(THRESHOLD)}), &[]);
        check(json!({"a": long('x'), "b": [null, long('é')]}), &["/a", "/b/1"]);
        check(json!(long('x')), &[""]);
        check(json!({"a/b": {"~c": [{"": long('x')}]}}), &["/a~1b/~0c/0/"]);
        // The same text twice is one blob.
        check(json!([long('x'), long('x')]), &["/0", "/1"]);
        // A value that looks like a reference is data like any other.
        let posing = json!({"at": "/a", "sha256": "0".repeat(64), "bytes": 1});
        check(json!({"a": null, "blobs": [posing], "b": long('x')}), &["/b"]);
    }

    #[test]
    fn blobs_are_their_owners_alone() {
        let (_dir, blobs) = blobs();
        blobs.move_out(&mut json!([long('x')])).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&blobs.folder), 0o700);
        let files: Vec<PathBuf> =
            std::fs::read_dir(&blobs.folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 1);
        assert_eq!(mode(&files[0]), 0o600);
    }

    #[test]
    fn a_blob_that_is_not_what_its_name_says_is_refused_and_written_anew() {
        let (_dir, blobs) = blobs();
        let mut data = json!([long('x')]);
        let references = blobs.move_out(&mut data).unwrap();
        let path = blobs.folder.join(&references[0].sha256);
        let check = |part: &str| {
            let (blob, what) = blobs.inline(&mut data.clone(), &references).unwrap_err();
            assert_eq!(blob, references[0].sha256);
            assert!(what.contains(part), "{what}");
        };
        std::fs::write(&path, long('y')).unwrap();
        check("content does not match");
        std::fs::write(&path, "x").unwrap();
        check("1 bytes instead of 65537");
        std::fs::remove_file(&path).unwrap();
        check("missing");
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        check("symbolic link");
        blobs.move_out(&mut json!([long('x')])).unwrap();
        blobs.inline(&mut data, &references).unwrap();
        assert!(path.symlink_metadata().unwrap().is_file());
    }

    #[test]
    fn a_reference_can_name_no_path_and_fill_no_place_that_is_taken() {
        let (_dir, blobs) = blobs();
        let mut data = json!({"a": long('x'), "b": 1});
        let mut references = blobs.move_out(&mut data).unwrap();
        references[0].at = "/b".into();
        assert!(blobs.inline(&mut data.clone(), &references).unwrap_err().1.contains("nothing is missing"));
        for name in ["../journal.jsonl", "", "/etc/passwd", &"G".repeat(64)] {
            references[0].sha256 = name.into();
            assert!(blobs.inline(&mut data.clone(), &references).unwrap_err().1.contains("no hash"));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn every_shape_survives(keys in prop::collection::vec("[a/~\"0]{0,3}", 0..5), at in 0usize..5) {
            let mut data = json!(long('z'));
            for (index, key) in keys.iter().enumerate() {
                data = if index == at { json!([null, data, key]) } else { json!({ key: data, "q": index }) };
            }
            let (_dir, blobs) = blobs();
            let mut moved = data.clone();
            let references = blobs.move_out(&mut moved).unwrap();
            prop_assert_eq!(references.len(), 1);
            blobs.inline(&mut moved, &references).unwrap();
            prop_assert_eq!(moved, data);
        }
    }
}
