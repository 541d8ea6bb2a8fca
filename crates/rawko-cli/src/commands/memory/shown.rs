//! How memories are shown, to people and as JSON.

use rawko::memory::{MemoryStore, OF_USER, Report};
use rawko_core::Timestamp;
use rawko_core::agent::Importance;
use rawko_core::memory::{Header, Kind};
use serde_json::{Value, json};

use super::lookup::{command, place};
use crate::output::{clean_line, or_dash};
use crate::workspace::Workspace;

/// Prints on standard error what should be repaired: what is said of all memories, and of files their number.
pub(super) fn warn(workspace: &Workspace, store: &MemoryStore, reports: &[Report]) {
    let paint = workspace.console.error_paint();
    let (of_all, of_files): (Vec<&Report>, Vec<&Report>) =
        reports.iter().partition(|report| report.path.is_empty());
    let mut lines: Vec<(String, String)> =
        of_all.iter().map(|one| (format!("memories: {}", one.message), one.help.clone())).collect();
    match of_files.as_slice() {
        [] => {}
        [one] => {
            let is_users = one.path.starts_with(OF_USER);
            let place = if is_users { one.path.clone() } else { place(store, &one.path) };
            lines.push((format!("{place}: {}", one.message), one.help.clone()));
        }
        many => {
            let users = store.user().filter(|_| many.iter().all(|one| one.path.starts_with(OF_USER)));
            let check = format!("{} check", command(users.unwrap_or(store)));
            lines.push((format!("{} findings in the files of memories", many.len()), check));
        }
    }
    for (line, hint) in lines {
        let (line, hint) = (clean_line(&line), clean_line(&hint));
        let text = format!("{} {line}\n  {} {hint}\n", paint.warning("warning:"), paint.hint("hint:"));
        // A closed standard error is no failure.
        let _ = workspace.console.write_error(&text);
    }
}

/// Front matter as JSON: dates as RFC 3339.
pub(super) fn header_json(path: &str, header: &Header) -> Value {
    let mut value = json!(header);
    if let Value::Object(map) = &mut value {
        map.insert("path".to_owned(), json!(path));
        map.insert("kind".to_owned(), json!(header.kind));
        for (key, date) in [("discoveredAt", header.discovered_at), ("expiresAt", header.expires_at)] {
            if let Some(date) = date {
                map.insert(key.to_owned(), json!(date.to_rfc3339()));
            }
        }
    }
    value
}

pub(super) fn importance(importance: Importance) -> &'static str {
    match importance {
        Importance::Low => "low",
        Importance::Medium => "medium",
        Importance::High => "high",
        Importance::Critical => "critical",
    }
}

pub(super) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Fact => "fact",
        Kind::Avoid => "avoid",
    }
}

/// The day of an instant, `-` where there is none.
pub(super) fn day(at: Option<Timestamp>) -> String {
    or_dash(at.map(|at| at.to_rfc3339().chars().take(10).collect()))
}
