//! How memories are shown, to people and as JSON.

use rawko::memory::{FOLDER, Report};
use rawko_core::Timestamp;
use rawko_core::agent::Importance;
use rawko_core::memory::{Header, Kind};
use serde_json::{Value, json};

use crate::output::{clean, or_dash};
use crate::workspace::Workspace;

/// Prints on standard error what should be repaired.
pub(super) fn warn(workspace: &Workspace, reports: &[Report]) {
    if reports.is_empty() {
        return;
    }
    let paint = workspace.console.error_paint();
    let line = match reports {
        [one] if one.path.is_empty() => format!("{FOLDER}: {}", clean(&one.message)),
        [one] => format!("1 finding in {FOLDER}: {}: {}", clean(&one.path), clean(&one.message)),
        many => format!("{} findings in {FOLDER}", many.len()),
    };
    // A closed standard error is no failure.
    let _ = workspace
        .console
        .write_error(&format!("{} {line} (`rawko memory check` tells more)\n", paint.warning("warning:")));
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
