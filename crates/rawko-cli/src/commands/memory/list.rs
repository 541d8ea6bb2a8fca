//! `rawko memory list`.

use rawko::memory::{Inventory, MemoryStore};
use rawko_core::memory::{Confirmation, Memory, superseded};
use serde_json::{Value, json};

use super::shown::{day, header_json, importance, kind, warn};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Clock, Rows, shortened};
use crate::workspace::Workspace;

/// Characters of a title that are shown.
const TITLE_CHARS: usize = 60;

/// Lists the memories.
pub(super) fn list(workspace: &Workspace, store: &MemoryStore, as_json: bool) -> Result<Exit, Failure> {
    let Inventory { mut memories, mut reports } = store.inventory();
    let of_project = if store.is_of_user() { 0 } else { memories.len() };
    let users = store.users();
    memories.extend(users.memories);
    reports.extend(users.reports);
    let source = |at: usize| if at < of_project { "project" } else { "user" };
    let (now, superseded) = (Clock::local().now(), superseded(&memories));
    let state = |memory: &Memory| match (superseded.contains_key(&*memory.path), memory.header.expires_at) {
        (true, _) => "superseded",
        (false, Some(at)) if at <= now => "expired",
        (false, _) if memory.header.status == Confirmation::Proposed => "proposed",
        (false, _) => "active",
    };
    let entry = |(memory, source): &(&Memory, &str)| {
        let mut entry = header_json(&memory.path, &memory.header);
        entry["source"] = json!(source);
        entry["state"] = json!(state(memory));
        if let Some(by) = superseded.get(memory.path.as_str()) {
            entry["supersededBy"] = json!(by);
        }
        entry
    };
    let rows: Vec<(&Memory, &str)> =
        memories.iter().enumerate().map(|(at, memory)| (memory, source(at))).collect();
    let entries: Vec<Value> = rows.iter().map(entry).collect();
    workspace.console.output(as_json, &entries, |paint| match (rows.is_empty(), reports.is_empty()) {
        (true, false) => "none of the files here can be used as a memory\n".to_owned(),
        (true, true) => {
            "no memories yet; to write one:\n  rawko memory add --title … --when-to-use … --body …\n"
                .to_owned()
        }
        (false, _) => Rows::new(paint, &rows).table(&[
            ("PATH", &|(memory, _)| memory.path.clone()),
            ("SOURCE", &|(_, source)| (*source).to_owned()),
            ("IMPORTANCE", &|(memory, _)| importance(memory.header.importance).to_owned()),
            ("KIND", &|(memory, _)| kind(memory.header.kind).to_owned()),
            ("DISCOVERED", &|(memory, _)| day(memory.header.discovered_at)),
            ("STATE", &|(memory, _)| state(memory).to_owned()),
            ("TITLE", &|(memory, _)| shortened(&memory.header.title, TITLE_CHARS)),
        ]),
    })?;
    warn(workspace, store, &reports);
    Ok(Exit::Success)
}
