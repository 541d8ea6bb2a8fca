//! `rawko memory retire`.

use clap::Args;
use rawko::memory::{MemoryStore, Retirement};
use rawko_core::memory::Reason;
use serde_json::json;

use super::lookup::{find, place, refused};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Clock, clean_line};
use crate::workspace::Workspace;

/// Options of `rawko memory retire`.
#[derive(Debug, Args)]
pub(crate) struct RetireArgs {
    /// Its path, its file's name or its title
    name: String,
    /// The memory that takes its place
    #[arg(long, value_name = "NAME")]
    superseded_by: Option<String>,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

/// Lets a memory be given no more.
pub(super) fn retire(
    workspace: &Workspace,
    store: &MemoryStore,
    arguments: &RetireArgs,
) -> Result<Exit, Failure> {
    let old = find(store, &arguments.name)?;
    let now = Clock::local().now();
    let (retirement, reason) = match &arguments.superseded_by {
        None => (
            store.retire(&old.path, now).map_err(|error| refused(store, error))?,
            Reason::Expired { at: now },
        ),
        Some(name) => {
            let new = find(store, name)?;
            if new.path == old.path {
                return Err(Failure::usage("a memory cannot take its own place")
                    .with_hint("name another with --superseded-by"));
            }
            let retirement = store.supersede(&old, &new, now).map_err(|error| refused(store, error))?;
            (retirement, Reason::Superseded { by: new.path })
        }
    };
    let (changed, reason) = match retirement {
        Retirement::Done => (true, reason),
        Retirement::Already(reason) => (false, reason),
    };
    // What it took the place of does not come back by itself.
    let silenced = match changed && arguments.superseded_by.is_none() {
        true => store.silenced_by(&old.path, now),
        false => Vec::new(),
    };
    if arguments.json {
        let mut said = json!({ "path": old.path, "changed": changed });
        if !silenced.is_empty() {
            said["stillSuperseded"] = json!(silenced);
        }
        match &reason {
            Reason::Superseded { by } => said["supersededBy"] = json!(by),
            Reason::Expired { at } => said["expiresAt"] = json!(at.to_rfc3339()),
            Reason::NoPlace { .. } | Reason::TooUnimportant | Reason::TooWeak | Reason::NoMatch => {}
        }
        workspace.console.json(&said)?;
    } else {
        let path = clean_line(&old.path);
        let why = reason.sentence();
        workspace.console.line(&clean_line(&match changed {
            true => format!("{path} is not given any more ({why}); its file stays"),
            false => format!("{path} was retired before ({why}); nothing was changed"),
        }))?;
        if !silenced.is_empty() {
            let names = silenced.join(", ");
            let paint = workspace.console.error_paint();
            let line = clean_line(&format!("it still supersedes {names}: neither is given now"));
            let hint = clean_line(&format!(
                "to have that given again, take it out of `supersedes` in {}",
                place(store, &old.path)
            ));
            // A closed standard error is no failure.
            let _ = workspace.console.write_error(&format!(
                "{} {line}\n  {} {hint}\n",
                paint.warning("warning:"),
                paint.hint("hint:")
            ));
        }
    }
    Ok(Exit::Success)
}
