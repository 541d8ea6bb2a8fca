//! `rawko memory keep`: confirms what runs have proposed.

use clap::Args;
use rawko::memory::MemoryStore;
use rawko_core::memory::Memory;
use serde_json::json;

use super::lookup::{find, refused};
use super::shown::header_json;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Clock, clean_line};
use crate::workspace::Workspace;

/// Options of `rawko memory keep`.
#[derive(Debug, Args)]
pub(crate) struct KeepArgs {
    /// Path, file name or title; without one, list the proposed memories
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Confirms the named memories, and lists the proposed ones that are left.
pub(super) fn keep(
    workspace: &Workspace,
    store: &MemoryStore,
    arguments: &KeepArgs,
) -> Result<Exit, Failure> {
    let named = arguments.names.iter().map(|name| find(store, name));
    let kept: Vec<Memory> = named.collect::<Result<_, _>>()?;
    for memory in &kept {
        store.confirm(&memory.path).map_err(refused)?;
    }
    let left = store.proposed(Clock::local().now());
    let paths: Vec<&str> = kept.iter().map(|memory| memory.path.as_str()).collect();
    let open: Vec<_> = left.iter().map(|memory| header_json(&memory.path, &memory.header)).collect();
    workspace.console.output(arguments.json, &json!({"kept": paths, "proposed": open}), |_| {
        let mut text: String = paths.iter().map(|path| format!("{}: kept\n", clean_line(path))).collect();
        for memory in &left {
            let (path, title) = (clean_line(&memory.path), clean_line(&memory.header.title));
            text.push_str(&format!("{path}  {title}\n"));
        }
        text.push_str(&match left.len() {
            0 => "no proposed memories are left\n".to_owned(),
            count => format!("{count} proposed: rawko memory keep NAME, or rawko memory retire NAME\n"),
        });
        text
    })?;
    Ok(Exit::Success)
}
