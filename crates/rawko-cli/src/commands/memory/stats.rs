//! `rawko memory stats`.

use std::collections::BTreeMap;

use rawko::memory::MemoryStore;
use rawko_core::memory::Feedback;
use rawko_core::text::truncate;
use serde_json::{Value, json};

use super::{day, warn};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Table, clean_line};
use crate::workspace::Workspace;

/// Characters of a title that are shown.
const TITLE_CHARS: usize = 50;

/// Says how often each memory was given, and whether it helped.
pub(super) fn stats(workspace: &Workspace, store: &MemoryStore, as_json: bool) -> Result<Exit, Failure> {
    let (mut feedback, reports) = store.feedback();
    let mut rows: Vec<(String, Option<String>, Feedback)> = store
        .inventory()
        .memories
        .into_iter()
        .map(|memory| {
            let of_it = feedback.remove(&memory.path).unwrap_or_default();
            (memory.path, Some(memory.header.title), of_it)
        })
        .collect();
    // What was given once and is not there any more still counts as given.
    rows.extend(std::mem::take(&mut feedback).into_iter().map(|(path, of_it)| (path, None, of_it)));
    rows.sort_by(|a, b| b.2.uses.cmp(&a.2.uses).then_with(|| a.0.cmp(&b.0)));
    let console = &workspace.console;
    if as_json {
        let entries: Vec<Value> =
            rows.iter().map(|(path, title, of_it)| entry(path, title.as_deref(), of_it)).collect();
        console.json(&entries)?;
    } else if rows.iter().all(|(_, _, of_it)| of_it.uses == 0) {
        console.line("no memory has been told to an agent yet")?;
    } else {
        let mut table = Table::new(&["PATH", "USES", "HELPED", "NOT HELPED", "LAST USED", "SCORE", "TITLE"]);
        let (used, never): (Vec<_>, Vec<_>) = rows.iter().partition(|(_, _, of_it)| of_it.uses > 0);
        for (path, title, of_it) in &used {
            table.row(vec![
                clean_line(path),
                of_it.uses.to_string(),
                of_it.helped.to_string(),
                of_it.not_helped().to_string(),
                day(of_it.last_used),
                format!("{:+.1}", of_it.malus()),
                truncate(&clean_line(title.as_deref().unwrap_or("(gone)")), TITLE_CHARS),
            ]);
        }
        console.write(&table.render(console.paint()))?;
        if !never.is_empty() {
            console.line(&format!("never told: {}", never.len()))?;
        }
    }
    warn(workspace, &reports);
    Ok(Exit::Success)
}

fn entry(path: &str, title: Option<&str>, of_it: &Feedback) -> Value {
    let known: BTreeMap<&str, Value> = BTreeMap::from([
        ("path", json!(path)),
        ("title", json!(title)),
        ("uses", json!(of_it.uses)),
        ("helped", json!(of_it.helped)),
        ("notHelped", json!(of_it.not_helped())),
        ("misled", json!(of_it.misled)),
        ("ignored", json!(of_it.ignored)),
        ("lastUsed", json!(of_it.last_used.map(|at| at.to_rfc3339()))),
        ("score", json!(of_it.malus())),
    ]);
    json!(known)
}
