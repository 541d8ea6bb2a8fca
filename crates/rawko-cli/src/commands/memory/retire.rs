//! `rawko memory retire`.

use clap::Args;
use rawko::memory::MemoryStore;
use serde_json::json;

use super::{find, now, refused};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::clean_line;
use crate::workspace::Workspace;

/// Options of `rawko memory retire`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Its path, its file's name or its title
    name: String,
    /// The memory that takes its place
    #[arg(long, value_name = "NAME")]
    superseded_by: Option<String>,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

/// Lets a memory be told no more.
pub(super) fn retire(
    workspace: &Workspace,
    store: &MemoryStore,
    arguments: &Arguments,
) -> Result<Exit, Failure> {
    let old = find(store, &arguments.name)?;
    let now = now();
    let said = match &arguments.superseded_by {
        None => {
            store.retire(&old.path, now).map_err(refused)?;
            json!({ "path": old.path, "expiresAt": now.to_rfc3339() })
        }
        Some(name) => {
            let new = find(store, name)?;
            if new.path == old.path {
                return Err(Failure::usage("a memory cannot take its own place")
                    .with_hint("name another with --superseded-by"));
            }
            store.supersede(&old.path, &new).map_err(refused)?;
            json!({ "path": old.path, "supersededBy": new.path })
        }
    };
    if arguments.json {
        workspace.console.json(&said)?;
    } else {
        let how = match said["supersededBy"].as_str() {
            Some(new) => format!("superseded by {}", clean_line(new)),
            None => "expired".to_owned(),
        };
        workspace
            .console
            .line(&format!("{} is {how} and told no more; its file stays", clean_line(&old.path)))?;
    }
    Ok(Exit::Success)
}
