//! `plugins.json` in the user's state directory: which plug-ins are installed, from where, and with which content the user
//! approved them. It is where no grant lets agents write.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rawko_tools::FileLock;
use serde::{Deserialize, Serialize};

use super::PluginError;
use crate::private::{create_private_dir, keep_others_out, refuse_others_file, replace};

/// The file.
pub(crate) const RECORDS: &str = "plugins.json";
const FORMAT: u32 = 1;
/// Largest file, in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// What is recorded of an installed plug-in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginRecord {
    /// The folder or the address that it came from.
    pub source: String,
    /// The branch, tag or commit that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The commit that was found, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The folder in the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// SHA-256 of the content that the user approved, in hex.
    pub digest: String,
    /// The hosts that its servers may reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub net: Vec<String>,
    /// What was approved of each file, to say later which of them changed.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct RecordFile {
    format: u32,
    plugins: BTreeMap<String, PluginRecord>,
}

/// The records of all installed plug-ins.
#[derive(Debug, Clone)]
pub(crate) struct PluginRecords(PathBuf);

impl PluginRecords {
    /// Those in the user's state directory. Nothing is read yet.
    pub(crate) fn of(state: &Path) -> Self {
        Self(state.join(RECORDS))
    }

    /// Where they are.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The records by name; none where there is no file.
    pub(crate) fn read(&self) -> Result<BTreeMap<String, PluginRecord>, PluginError> {
        let io = |error| PluginError::io(&self.0, error);
        let mut text = String::new();
        match File::open(&self.0) {
            Ok(file) => {
                keep_others_out(self.folder()).map_err(io)?;
                refuse_others_file(&file, &self.0).map_err(io)?;
                file.take(MAX_BYTES).read_to_string(&mut text).map_err(io)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(io(error)),
        }
        let damaged = |why: String| PluginError::Refused {
            message: format!("{} cannot be used: {why}", self.0.display()),
            hint: "remove the file, and add your plug-ins again".to_owned(),
        };
        let file: RecordFile = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        if file.format != FORMAT {
            return Err(damaged(format!(
                "it was written by another version of rawko (format {})",
                file.format
            )));
        }
        // A name becomes a path.
        match file.plugins.keys().find(|name| !crate::config::is_plugin_name(name)) {
            Some(name) => Err(damaged(format!("`{}` is no name", name.escape_debug()))),
            None => Ok(file.plugins),
        }
    }

    /// Changes the records. One process at a time does that.
    pub(crate) fn update<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, PluginRecord>) -> Result<T, PluginError>,
    ) -> Result<T, PluginError> {
        let io = |error| PluginError::io(&self.0, error);
        let _lock = self.lock()?;
        let mut plugins = self.read()?;
        let done = change(&mut plugins)?;
        if plugins.is_empty() {
            // The next start looks no further.
            return match fs::remove_file(&self.0) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io(error)),
                Ok(()) | Err(_) => Ok(done),
            };
        }
        let text = serde_json::to_vec_pretty(&RecordFile { format: FORMAT, plugins })
            .map_err(|error| io(error.into()))?;
        replace(&self.0, &text).map_err(io)?;
        Ok(done)
    }

    /// Does this while no other process does, or changes the records.
    pub(super) fn alone<T>(&self, work: impl FnOnce() -> Result<T, PluginError>) -> Result<T, PluginError> {
        let _lock = self.lock()?;
        work()
    }

    fn lock(&self) -> Result<FileLock, PluginError> {
        let io = |error| PluginError::io(&self.0, error);
        create_private_dir(self.folder()).map_err(io)?;
        keep_others_out(self.folder()).map_err(io)?;
        let lock = self.0.with_extension("lock");
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(lock);
        FileLock::wait_for(lock.map_err(io)?).map_err(io)
    }

    fn folder(&self) -> &Path {
        self.0.parent().unwrap_or(Path::new("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(digest: &str) -> PluginRecord {
        PluginRecord {
            source: "/src".to_owned(),
            reference: None,
            commit: None,
            folder: None,
            digest: digest.to_owned(),
            net: Vec::new(),
            files: BTreeMap::new(),
        }
    }

    #[test]
    fn records_are_kept_until_the_last_is_gone() {
        let state = tempfile::tempdir().unwrap();
        let records = PluginRecords::of(&state.path().join("rawko"));
        assert!(records.read().unwrap().is_empty());
        let add = |name: &str| {
            let name = name.to_owned();
            records.update(|all| Ok(all.insert(name, record("a")))).unwrap()
        };
        assert_eq!(add("one"), None);
        assert_eq!(add("two"), None);
        assert_eq!(records.read().unwrap().keys().collect::<Vec<_>>(), ["one", "two"]);
        for name in ["one", "two"] {
            records.update(|all| Ok(all.remove(name))).unwrap();
        }
        assert!(!records.path().exists());
    }

    #[test]
    fn what_cannot_be_read_is_said_and_a_name_is_no_path() {
        let state = tempfile::tempdir().unwrap();
        let records = PluginRecords::of(state.path());
        for (text, part) in [
            ("{", "EOF"),
            (r#"{"format": 9, "plugins": {}}"#, "another version"),
            (r#"{"format": 1, "plugins": {"../x": {"source": "", "digest": ""}}}"#, "is no name"),
        ] {
            crate::private::replace(records.path(), text.as_bytes()).unwrap();
            let error = records.read().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
