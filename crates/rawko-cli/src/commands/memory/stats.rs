//! `rawko memory stats`.

use std::collections::BTreeMap;

use rawko::memory::MemoryStore;
use rawko_core::memory::Feedback;
use serde_json::{Value, json};

use super::shown::{day, warn};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Rows, shortened};
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
    // A memory that was given once and is gone now still counts as given.
    rows.extend(std::mem::take(&mut feedback).into_iter().map(|(path, of_it)| (path, None, of_it)));
    rows.sort_by(|a, b| b.2.uses.cmp(&a.2.uses).then_with(|| a.0.cmp(&b.0)));
    let entries: Vec<Value> =
        rows.iter().map(|(path, title, of_it)| entry(path, title.as_deref(), of_it)).collect();
    workspace.console.output(as_json, &entries, |paint| {
        let never = rows.iter().filter(|(_, _, of_it)| of_it.uses == 0).count();
        // The most used come first.
        let used = &rows[..rows.len() - never];
        if used.is_empty() {
            return "no memory has been given to an agent yet\n".to_owned();
        }
        let mut text = Rows::new(paint, used).table(&[
            ("PATH", &|(path, _, _)| path.clone()),
            ("USES", &|(_, _, of_it)| of_it.uses.to_string()),
            ("HELPED", &|(_, _, of_it)| of_it.helped.to_string()),
            ("NOT HELPED", &|(_, _, of_it)| of_it.not_helped().to_string()),
            ("LAST USED", &|(_, _, of_it)| day(of_it.last_used)),
            ("SCORE", &|(_, _, of_it)| format!("{:+.1}", of_it.malus())),
            ("TITLE", &|(_, title, _)| shortened(title.as_deref().unwrap_or("(gone)"), TITLE_CHARS)),
        ]);
        if never > 0 {
            text.push_str(&format!("never given: {never}\n"));
        }
        text
    })?;
    warn(workspace, store, &reports);
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
