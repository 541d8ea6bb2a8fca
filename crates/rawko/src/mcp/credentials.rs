//! What a login at a server gave, in a file that only the user reads.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rawko_mcp::StoreCredentials;

use crate::private::{create_private_dir, keep_others_out, refuse_others_file, replace};

/// Largest file, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// The file of one server.
#[derive(Debug, Clone)]
pub(crate) struct CredentialFile(pub(crate) PathBuf);

impl StoreCredentials for CredentialFile {
    fn load(&self) -> Result<Option<String>, String> {
        let failed = |error: io::Error| format!("{}: {error}", self.0.display());
        let file = match fs::File::open(&self.0) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        refuse_others_file(&file, &self.0).map_err(failed)?;
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).map_err(failed)?;
        Ok(Some(text))
    }

    fn save(&self, credentials: Option<&String>) -> Result<(), String> {
        let failed = |error: io::Error| format!("{}: {error}", self.0.display());
        let Some(text) = credentials else {
            return match fs::remove_file(&self.0) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
                _ => Ok(()),
            };
        };
        let folder = self.0.parent().unwrap_or(Path::new("."));
        create_private_dir(folder).and_then(|()| keep_others_out(folder)).map_err(failed)?;
        replace(&self.0, text.as_bytes()).map_err(failed)
    }
}
