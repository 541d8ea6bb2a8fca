//! `rawko memory keep`: confirms what runs have proposed.

use clap::Args;
use rawko::memory::MemoryStore;
use serde_json::json;

use super::lookup::{command, find, refused};
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
    let now = Clock::local().now();
    let proposed = store.proposed(now);
    let mut named: Vec<String> = Vec::new();
    for name in &arguments.names {
        let path = find(store, name)?.path;
        if !proposed.iter().any(|memory| memory.path == path) {
            return Err(Failure::usage(format!("`{path}` is not proposed, or not given any more"))
                .with_hint(format!("without a name, `{} keep` lists what is proposed", command(store))));
        }
        named.push(path);
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut failed = None;
    for path in &named {
        match store.confirm(path) {
            Ok(()) => kept.push(path),
            Err(error) => {
                failed = Some(refused(store, error));
                break;
            }
        }
    }
    let left = store.proposed(now);
    let open: Vec<_> = left.iter().map(|memory| header_json(&memory.path, &memory.header)).collect();
    workspace.console.output(arguments.json, &json!({"kept": kept, "proposed": open}), |_| {
        let mut text: String = kept.iter().map(|path| format!("{}: kept\n", clean_line(path))).collect();
        for memory in &left {
            let (path, title) = (clean_line(&memory.path), clean_line(&memory.header.title));
            text.push_str(&format!("{path}  {title}\n"));
        }
        text.push_str(&match left.len() {
            0 => "no proposed memories are left\n".to_owned(),
            count => format!("{count} proposed: {0} keep NAME, or {0} retire NAME\n", command(store)),
        });
        text
    })?;
    failed.map_or(Ok(Exit::Success), Err)
}
