//! `rawko memory list`.

use rawko::memory::{Inventory, MemoryStore, OF_USER};
use rawko_core::memory::superseded;
use rawko_core::text::truncate;
use serde_json::{Value, json};

use super::{day, header_json, importance, kind, now, warn};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Table, clean_line};
use crate::workspace::Workspace;

/// Characters of a title that are shown.
const TITLE_CHARS: usize = 60;

/// Lists the memories.
pub(super) fn list(
    workspace: &Workspace,
    store: &MemoryStore,
    as_json: bool,
    is_users: bool,
) -> Result<Exit, Failure> {
    let Inventory { mut memories, mut reports } = store.inventory();
    let of_project = if is_users { 0 } else { memories.len() };
    if let Some(user) = store.user() {
        let mut own = user.inventory();
        own.memories.iter_mut().for_each(|memory| memory.path.insert_str(0, OF_USER));
        own.reports.iter_mut().for_each(|report| report.path.insert_str(0, OF_USER));
        memories.extend(own.memories);
        reports.extend(own.reports);
    }
    let source = |at: usize| if at < of_project { "project" } else { "user" };
    let (now, superseded) = (now(), superseded(&memories));
    let console = &workspace.console;
    let state = |path: &str, expires_at| match (superseded.contains_key(path), expires_at) {
        (true, _) => "superseded",
        (false, Some(at)) if at <= now => "expired",
        (false, _) => "active",
    };
    if as_json {
        let entries: Vec<Value> = memories
            .iter()
            .enumerate()
            .map(|(at, memory)| {
                let mut entry = header_json(&memory.path, &memory.header);
                entry["source"] = json!(source(at));
                entry["state"] = json!(state(&memory.path, memory.header.expires_at));
                if let Some(by) = superseded.get(memory.path.as_str()) {
                    entry["supersededBy"] = json!(by);
                }
                entry
            })
            .collect();
        console.json(&entries)?;
        warn(workspace, &reports);
        return Ok(Exit::Success);
    }
    if memories.is_empty() && !reports.is_empty() {
        console.line("none of the files here can be used as a memory")?;
    } else if memories.is_empty() {
        console.line("no memories yet: rawko memory add --title … --when-to-use … writes one")?;
    } else {
        let mut table = Table::new(&["PATH", "SOURCE", "IMPORTANCE", "KIND", "DISCOVERED", "STATE", "TITLE"]);
        for (at, memory) in memories.iter().enumerate() {
            let header = &memory.header;
            table.row(vec![
                clean_line(&memory.path),
                source(at).to_owned(),
                importance(header.importance).to_owned(),
                kind(header.kind).to_owned(),
                day(header.discovered_at),
                state(&memory.path, header.expires_at).to_owned(),
                truncate(&clean_line(&header.title), TITLE_CHARS),
            ]);
        }
        console.write(&table.render(console.paint()))?;
    }
    warn(workspace, &reports);
    Ok(Exit::Success)
}
