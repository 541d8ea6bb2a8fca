//! `rawko memory check`.

use rawko::memory::{MemoryStore, Report};
use rawko_core::memory::Severity;
use serde_json::json;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Clock, Paint, clean};
use crate::workspace::Workspace;

/// Checks all memories.
pub(super) fn check(workspace: &Workspace, store: &MemoryStore, as_json: bool) -> Result<Exit, Failure> {
    let reports = store.check(Clock::local().now());
    let value = json!({ "sound": reports.is_empty(), "reports": reports });
    workspace.console.output(as_json, &value, |paint| {
        if reports.is_empty() {
            let count = store.inventory().memories.len();
            return format!("{count} {} sound\n", if count == 1 { "memory is" } else { "memories are" });
        }
        let count = |severity| reports.iter().filter(|report| report.severity == severity).count();
        let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
        format!("{}errors: {errors} (not used), warnings: {warnings}\n", text(&reports, paint))
    })?;
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
