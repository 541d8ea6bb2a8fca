//! A session as one file: the page, its style, its script and the session's data. It loads nothing and needs no server.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rawko::checkpoint::{Checkpoints, DiffRange};
use rawko::explain;
use rawko::journal::{Journal, SessionStore, read};
use serde::Serialize;
use serde_json::Value;

use crate::assets::{ICON, STYLE, policy_hash, script};
use crate::diff::{DiffView, Mask};
use crate::machine::MachineView;
use crate::text::{bounded, escape_html, json_for_html, plain};
use crate::view::{SessionView, ViewLimits};

/// Bytes of one text of a decision: its input, its prompt, its answers.
const DECISION_TEXT: usize = 48 * 1024;
/// Bytes of all decisions together. Those beyond it are left out, and the page says so.
const DECISIONS: usize = 12 * 1024 * 1024;
/// Bytes of one diff.
const DIFF: usize = 256 * 1024;
/// Bytes of all diffs together.
const DIFFS: usize = 8 * 1024 * 1024;

/// What the page is made of.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Embedded {
    machine: MachineView,
    session: SessionView,
    decisions: BTreeMap<usize, Value>,
    /// By the number of the execution; 0 is the whole session.
    diffs: BTreeMap<u32, DiffView>,
    /// The session that it was forked from, if it is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<SessionView>,
}

/// Where the diffs of an exported page come from.
pub enum Diffs {
    /// From the checkpoints, with secrets taken out.
    Masked(Arc<Mask>),
    /// Nowhere, for this reason.
    LeftOut(String),
}

/// The session of `journal`, which is at `path`, as one HTML page.
#[must_use]
pub fn page(project: &Path, path: &Path, journal: &Journal, diffs: &Diffs) -> String {
    let limits = limits(journal.records.len());
    let session = SessionView::of(journal, limits);
    let mut left = DECISIONS;
    let decisions = explain(journal).into_iter().filter_map(|decision| {
        let value = bounded(serde_json::to_value(&decision).ok()?, DECISION_TEXT);
        left = left.checked_sub(value.to_string().len())?;
        Some((decision.number, value))
    });
    let decisions = decisions.collect();
    let diffs = all_diffs(&Checkpoints::of_journal(project, path, journal), &session, diffs);
    let parent = session.head.forked_from.as_ref().and_then(|from| parent(project, &from.session));
    let title = session.head.id.clone();
    let embedded = Embedded { machine: MachineView::new(), session, decisions, diffs, parent };
    let json = serde_json::to_string(&embedded).unwrap_or_default();
    html(&title, &json)
}

/// Shorter texts in longer sessions: a page stays one that a browser opens.
fn limits(records: usize) -> ViewLimits {
    let text = match records {
        ..=2_000 => 32 * 1024,
        2_001..=10_000 => 6 * 1024,
        10_001..=50_000 => 1024,
        _ => 300,
    };
    ViewLimits { text, whole: None }
}

fn parent(project: &Path, id: &str) -> Option<SessionView> {
    let journals = SessionStore::of_project(project).journals().ok()?;
    let (_, path) = journals.into_iter().find(|(known, _)| known == id)?;
    Some(SessionView::of(&read(&path).ok()?, ViewLimits::default()))
}

fn all_diffs(checkpoints: &Checkpoints, session: &SessionView, diffs: &Diffs) -> BTreeMap<u32, DiffView> {
    let changed = session.head.executions.iter().filter(|execution| execution.has_checkpoint);
    let numbers: Vec<u32> = changed.map(|execution| execution.number).collect();
    let spans = (!numbers.is_empty()).then_some(0).into_iter().chain(numbers);
    let mut left = DIFFS;
    let each = spans.map(|number| {
        let span = if number == 0 { DiffRange::Session } else { DiffRange::Execution(number) };
        let diff = match diffs {
            Diffs::LeftOut(why) => DiffView::missing(plain(why)),
            Diffs::Masked(_) if left == 0 => {
                DiffView::missing("left out, because the page would become too long")
            }
            Diffs::Masked(mask) => DiffView::of(checkpoints, span, DIFF.min(left), &**mask),
        };
        left = left.saturating_sub(diff.patch.text.len());
        (number, diff)
    });
    each.collect()
}

fn html(title: &str, json: &str) -> String {
    let script = format!("\n{}", script());
    let style = format!("\n{STYLE}");
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; img-src data:; base-uri 'none'; form-action 'none'",
        policy_hash(&script),
        policy_hash(&style),
    );
    let icon = percent_encoding::utf8_percent_encode(ICON.trim(), percent_encoding::NON_ALPHANUMERIC);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Session {}</title>\n<link rel=\"icon\" href=\"data:image/svg+xml,{icon}\">\n\
         <style>{style}</style>\n</head>\n<body>\n<div id=\"app\"></div>\n\
         <noscript><p>This page needs JavaScript. <code>rawko sessions export</code> writes the same session as \
         Markdown.</p></noscript>\n\
         <script type=\"application/json\" id=\"data\">{}</script>\n\
         <script type=\"module\">{script}</script>\n</body>\n</html>\n",
        escape_html(title),
        json_for_html(json),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_text_stays_inside_its_element() {
        let json = serde_json::json!({"a": "</script><script>alert(1)</script><!--"}).to_string();
        let page = html("</title><script>x</script>", &json);
        assert_eq!(page.matches("<script").count(), 2);
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(page.contains("<title>Session &lt;/title&gt;"));
        assert!(page.contains("\\u003c/script\\u003e"));
        assert!(page.contains("default-src 'none'") && !page.contains("unsafe-inline"));
    }

    #[test]
    fn the_policy_names_the_bytes_between_the_tags() {
        let page = html("t", "{}");
        let between = |open: &str, close: &str| {
            let from = page.find(open).unwrap() + open.len();
            &page[from..from + page[from..].find(close).unwrap()]
        };
        let script = policy_hash(between("<script type=\"module\">", "</script>"));
        let style = policy_hash(between("<style>", "</style>"));
        assert!(page.contains(&format!("script-src {script};")), "{script}");
        assert!(page.contains(&format!("style-src {style};")), "{style}");
    }
}
