//! `rawko memory check`.

use rawko::memory::{MemoryStore, Report};
use rawko_core::memory::Severity;
use serde_json::json;

use super::now;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Paint, clean};
use crate::workspace::Workspace;

/// Checks all memories.
pub(super) fn check(workspace: &Workspace, store: &MemoryStore, as_json: bool) -> Result<Exit, Failure> {
    let reports = store.check(now());
    let console = &workspace.console;
    if as_json {
        console.json(&json!({ "sound": reports.is_empty(), "reports": reports }))?;
    } else if reports.is_empty() {
        let count = store.inventory().memories.len();
        console.line(&format!("{count} {} sound", if count == 1 { "memory is" } else { "memories are" }))?;
    } else {
        console.write(&text(&reports, console.paint()))?;
        let count = |severity| reports.iter().filter(|report| report.severity == severity).count();
        let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
        console.line(&format!("errors: {errors} (not used), warnings: {warnings}"))?;
    }
    Ok(if reports.is_empty() { Exit::Success } else { Exit::Failed })
}

/// Reports for people.
pub(super) fn text(reports: &[Report], paint: Paint) -> String {
    let mut text = String::new();
    for report in reports {
        let shown = report.to_string();
        let shown = clean(&shown);
        let painted = match shown.split_once(':') {
            Some((word, rest)) if report.severity == Severity::Error => {
                format!("{}{rest}", paint.error(&format!("{word}:")))
            }
            Some((word, rest)) => format!("{}{rest}", paint.warning(&format!("{word}:"))),
            None => shown.into_owned(),
        };
        text.push_str(&format!("{painted}\n\n"));
    }
    text
}
