//! What the user approved of a server: exactly these tools, with these descriptions and schemas.
//!
//! Kept beside the list of trusted folders. A run takes the tools of a server from here, so that it knows them without
//! starting it; a server that lists something else when it is started is not used.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rawko_core::text::hex;
use rawko_mcp::{ListedTool, ProtocolRevision, UnusableTool};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::private::{create_private_dir, keep_others_out, refuse_others_file, replace};

const FORMAT: u32 = 1;
/// Largest file, in bytes: what one list of a server can be.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// What a server lists.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Catalogue {
    pub(crate) tools: Vec<ListedTool>,
    /// Those that cannot be used. They are not approved: once repaired, one counts as new.
    #[serde(skip)]
    pub(crate) unusable: Vec<UnusableTool>,
    /// Whether it has resources.
    pub(crate) resources: bool,
    /// Whether it has prompts.
    pub(crate) prompts: bool,
}

impl Catalogue {
    /// SHA-256 of names, descriptions and schemas, in hexadecimal.
    pub(crate) fn digest(&self) -> String {
        hex(&Sha256::digest(serde_json::to_vec(self).unwrap_or_default()))
    }
}

/// The approval of one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerApproval {
    format: u32,
    /// The server's name, for people who read the file.
    server: String,
    pub(crate) version: ProtocolRevision,
    pub(crate) catalogue: Catalogue,
}

/// Where the approval of one server is kept.
#[derive(Debug, Clone)]
pub(crate) struct ApprovalFile {
    path: PathBuf,
    server: String,
}

impl ApprovalFile {
    /// The file in `folder` of the server with this `identity`: what it starts or asks, and where.
    pub(crate) fn new(folder: &Path, server: &str, identity: &[u8]) -> Self {
        let digest = hex(&Sha256::digest(identity));
        let short = digest.get(..16).unwrap_or_default();
        Self { path: folder.join(format!("{server}-{short}.json")), server: server.to_owned() }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The approval; `None` if there is none, or it cannot be read: then the server waits for one.
    pub(crate) fn read(&self) -> Option<ServerApproval> {
        keep_others_out(self.path.parent()?).ok()?;
        let mut text = String::new();
        let file = fs::File::open(&self.path).ok()?;
        refuse_others_file(&file, &self.path).ok()?;
        file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
        let approval: ServerApproval = serde_json::from_str(&text).ok()?;
        (approval.format == FORMAT && approval.server == self.server).then_some(approval)
    }

    /// Approves this.
    pub(crate) fn write(&self, version: ProtocolRevision, catalogue: Catalogue) -> io::Result<()> {
        let approval = ServerApproval { format: FORMAT, server: self.server.clone(), version, catalogue };
        let folder = self.path.parent().unwrap_or(Path::new("."));
        create_private_dir(folder)?;
        keep_others_out(folder)?;
        replace(&self.path, &serde_json::to_vec_pretty(&approval)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn catalogue(description: &str) -> Catalogue {
        let tool = ListedTool {
            name: "a".to_owned(),
            description: description.to_owned(),
            input_schema: json!({"type": "object"}),
            reads_only: false,
        };
        Catalogue { tools: vec![tool], ..Catalogue::default() }
    }

    #[test]
    fn what_was_approved_is_read_back_for_the_same_definition_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = ApprovalFile::new(&folder.path().join("mcp"), "s", b"one");
        assert_eq!(file.read(), None);
        file.write(ProtocolRevision("2025-11-25".to_owned()), catalogue("x")).unwrap();
        file.write(ProtocolRevision("2025-11-25".to_owned()), catalogue("y")).unwrap();
        assert_eq!(file.read().unwrap().catalogue, catalogue("y"));
        assert_eq!(ApprovalFile::new(&folder.path().join("mcp"), "s", b"two").read(), None);
        assert_eq!(ApprovalFile::new(&folder.path().join("mcp"), "t", b"one").read(), None);
    }

    #[test]
    fn every_part_counts() {
        let digest = catalogue("x").digest();
        assert_eq!(digest, catalogue("x").digest());
        assert_ne!(digest, catalogue("y").digest());
        assert_ne!(digest, Catalogue { resources: true, ..catalogue("x") }.digest());
    }
}
