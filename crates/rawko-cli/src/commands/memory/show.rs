//! `rawko memory show`.

use rawko::memory::MemoryStore;
use rawko_core::memory::{Feedback, Header, Memory, Pattern};
use serde_json::{Value, json};

use super::lookup::find;
use super::shown::{header_json, importance, kind};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Paint, clean, clean_line, indent};
use crate::workspace::Workspace;

/// Shows one memory whole.
pub(super) fn show(
    workspace: &Workspace,
    store: &MemoryStore,
    name: &str,
    as_json: bool,
) -> Result<Exit, Failure> {
    let memory = find(store, name)?;
    let unreadable = |report: Box<rawko::memory::Report>| {
        Failure::new(Exit::Failed, format!("{}: {}", report.path, report.message)).with_hint(report.help)
    };
    let (_, body) = store.text(&memory.path).map_err(unreadable)?;
    let feedback = store.feedback().0.remove(&memory.path).unwrap_or_default();
    let patterns: Vec<Value> = memory.header.when_to_use.iter().map(|text| pattern(text)).collect();
    let mut value = header_json(&memory.path, &memory.header);
    value["patterns"] = json!(patterns);
    value["body"] = json!(body.trim());
    value["feedback"] = json!(feedback);
    workspace.console.output(as_json, &value, |paint| page(&memory, &body, &feedback, paint))?;
    Ok(Exit::Success)
}

fn pattern(text: &str) -> Value {
    let read = Pattern::read(text);
    json!({ "pattern": text, "reading": read.reading(), "problem": read.problem() })
}

fn page(memory: &Memory, body: &str, feedback: &Feedback, paint: Paint) -> String {
    let Header { title, when_to_use, .. } = &memory.header;
    let header = &memory.header;
    let mut text = format!("{}\n", paint.strong(&clean_line(title)));
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            text.push_str(&format!("  {} {}\n", paint.faint(&format!("{name:<14}")), clean_line(&value)));
        }
    };
    row("path", memory.path.clone());
    row("importance", importance(header.importance).to_owned());
    row("kind", kind(header.kind).to_owned());
    for one in when_to_use {
        let read = Pattern::read(one);
        let problem = read.problem().map(|problem| format!("; {problem}")).unwrap_or_default();
        row("when to use", format!("{one}  ({}{problem})", read.reading().as_str()));
    }
    row("discovered at", header.discovered_at.map(|at| at.to_rfc3339()).unwrap_or_default());
    row("discovered by", header.discovered_by.clone().unwrap_or_default());
    row("discovered in", header.discovered_in.clone().unwrap_or_default());
    row("tags", header.tags.join(", "));
    row("supersedes", header.supersedes.join(", "));
    row("conflicts with", header.conflicts_with.join(", "));
    row("expires at", header.expires_at.map(|at| at.to_rfc3339()).unwrap_or_default());
    row("paths", header.paths.join(", "));
    row("files", header.files.iter().map(|file| file.path.clone()).collect::<Vec<_>>().join(", "));
    row("session", header.session.clone().unwrap_or_default());
    row("records", header.records.iter().map(u64::to_string).collect::<Vec<_>>().join(" to "));
    if feedback.uses > 0 {
        let Feedback { uses, helped, .. } = feedback;
        row("given", format!("{uses} times: helped {helped}, did not help {}", feedback.not_helped()));
    }
    text.push_str(&format!("\n{}\n", indent(&clean(body.trim()), 2)));
    text
}
