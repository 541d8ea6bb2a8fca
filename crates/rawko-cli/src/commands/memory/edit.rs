//! `rawko memory edit`.

use std::io::{Error, ErrorKind};
use std::process::Command;

use rawko::memory::{FOLDER, MemoryStore, Report};
use rawko_core::memory::Severity;
use serde_json::json;

use super::check;
use super::lookup::{find, unreadable};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Clock, clean_line};
use crate::workspace::Workspace;

/// Opens a memory in the user's editor and checks it afterwards.
pub(super) fn edit(
    workspace: &Workspace,
    store: &MemoryStore,
    name: &str,
    as_json: bool,
) -> Result<Exit, Failure> {
    let path = to_edit(store, name)?;
    let environment = workspace.environment;
    let editor = environment.var("VISUAL").or_else(|| environment.var("EDITOR")).ok_or_else(|| {
        Failure::usage("neither VISUAL nor EDITOR is set").with_hint(format!(
            "set one of them: export EDITOR=…; or edit {FOLDER}/{path} with any editor, and run `rawko memory check`"
        ))
    })?;
    // An editor may be named with options: `code --wait`.
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or_default();
    let status =
        Command::new(program).args(words).arg(store.folder().join(&path)).status().map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot start `{program}`: {error}"))
                .with_hint("check VISUAL and EDITOR")
        })?;
    if !status.success() {
        return Err(Failure::new(Exit::Failed, format!("`{program}` ended with {status}"))
            .with_hint("the memory is as the editor left it; `rawko memory check` looks at it"));
    }
    let is_gone = |error: &Error| error.kind() == ErrorKind::NotFound;
    if store.folder().join(&path).symlink_metadata().is_err_and(|error| is_gone(&error)) {
        let message = format!("{FOLDER}/{} is gone: `{program}` left no such file", clean_line(&path));
        return Err(Failure::new(Exit::Failed, message).with_hint(
            "git may have it still; to have it told no more and keep the file: rawko memory retire NAME",
        ));
    }
    let reports: Vec<Report> =
        store.check(Clock::local().now()).into_iter().filter(|report| report.path == path).collect();
    let value = json!({ "path": path, "reports": reports });
    workspace.console.output(as_json, &value, |paint| match reports.is_empty() {
        true => format!("{} is sound\n", clean_line(&path)),
        false => check::text(&reports, paint),
    })?;
    let is_broken = reports.iter().any(|report| report.severity == Severity::Error);
    Ok(if is_broken { Exit::Failed } else { Exit::Success })
}

/// The memory that is meant; or one that cannot be read, which is a reason to edit it.
fn to_edit(store: &MemoryStore, name: &str) -> Result<String, Failure> {
    find(store, name).map(|memory| memory.path).or_else(|failure| {
        // One without a line is a folder, a link or too large: nothing for an editor.
        let broken = unreadable(store, name).filter(|report| report.line.is_some());
        broken.map(|report| report.path).ok_or(failure)
    })
}
