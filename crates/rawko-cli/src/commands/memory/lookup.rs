//! Finds the memory that a name means, and says what to try if it cannot be read or written.

use rawko::memory::{FOLDER, MemoryStore, OF_USER, Report, WriteError};
use rawko_core::memory::{Memory, Reason, Severity, reference_key, referred_keys};

use crate::exit::Exit;
use crate::failure::Failure;

/// Where people find a memory.
pub(super) fn place(store: &MemoryStore, path: &str) -> String {
    if store.is_of_user() {
        store.folder().join(path).to_string_lossy().into_owned()
    } else {
        format!("{FOLDER}/{path}")
    }
}

/// How a command for this store begins.
pub(super) fn command(store: &MemoryStore) -> &'static str {
    if store.is_of_user() { "rawko memory --user" } else { "rawko memory" }
}

/// The one memory that `name` means.
pub(super) fn find(store: &MemoryStore, name: &str) -> Result<Memory, Failure> {
    let mut found = store.find(name);
    match (found.pop(), found.is_empty()) {
        (Some(memory), true) => Ok(memory),
        (Some(last), false) => {
            let paths: Vec<&str> = found.iter().chain([&last]).map(|memory| memory.path.as_str()).collect();
            Err(Failure::usage(format!("`{name}` means {} memories", paths.len()))
                .with_hint(format!("give the path of one: {}", paths.join(", "))))
        }
        (None, _) => Err(match unreadable(store, name) {
            Some(Report { path, message, help, line, .. }) => {
                // One without a line is a folder, a link or too large: nothing for an editor.
                let place = place(store, &path);
                let edit = line.map(|_| format!("\nedit {place}")).unwrap_or_default();
                Failure::new(Exit::Failed, format!("{place} cannot be used: {message}"))
                    .with_hint(format!("{help}{edit}"))
            }
            None if name.starts_with(OF_USER) && !store.is_of_user() => {
                Failure::usage(format!("`{name}` is one of your own memories"))
                    .with_hint("give --user, and its name without `user:`")
            }
            None => Failure::usage(format!("there is no memory `{name}`")).with_hint(format!(
                "`{0} list` names them all; `{0} check` those that cannot be read",
                command(store)
            )),
        }),
    }
}

/// What is wrong with the file that `name` means, where it is one that cannot be used.
pub(super) fn unreadable(store: &MemoryStore, name: &str) -> Option<Report> {
    let key = reference_key(name);
    // Of a file without a title nothing but path and name is known.
    let is_meant =
        |report: &Report| !report.path.is_empty() && referred_keys(&report.path, "")[..2].contains(&key);
    let reports = store.inventory().reports.into_iter();
    reports.filter(|report| report.severity == Severity::Error).find(is_meant)
}

/// What stopped a memory from being written, with what to do.
pub(super) fn refused(store: &MemoryStore, error: WriteError) -> Failure {
    let command = command(store);
    let message = error.to_string();
    match error {
        WriteError::Invalid(reports) => {
            let wrong: Vec<String> = reports.iter().map(|report| report.message.clone()).collect();
            Failure::usage(format!("this is no memory: {}", wrong.join("; ")))
                .with_hint("give a --title, and --when-to-use at least once")
        }
        WriteError::Duplicate { path, .. } => Failure::new(Exit::Failed, message).with_hint(format!(
            "read it: {command} show {path}\nwrite yours all the same with --force, or in its place with --supersedes {path}"
        )),
        WriteError::NotFound { .. } => {
            Failure::usage(message).with_hint(format!("`{command} list` names them all"))
        }
        WriteError::NotGiven { path, reason, instead } => {
            Failure::usage(message).with_hint(what_else(store, &path, &reason, instead.as_deref()))
        }
        WriteError::Form { path, .. } => Failure::new(Exit::Failed, message)
            .with_hint(format!("edit {}", place(store, &path))),
        WriteError::Busy => Failure::new(Exit::Failed, message)
            .with_hint("another rawko may be stopped there: go on with it or end it, then try again"),
        WriteError::Folder(report) => Failure::new(Exit::Failed, message).with_hint(report.help),
        WriteError::Io { .. } => Failure::new(Exit::Failed, message)
            .with_hint(format!("check the disk and the rights of {}", store.folder().display())),
    }
}

/// What to do where a memory that is not given should take the place of another.
fn what_else(store: &MemoryStore, path: &str, reason: &Reason, instead: Option<&str>) -> String {
    match (reason, instead) {
        (_, Some(instead)) => format!("name what is given in its place: --superseded-by {instead}"),
        (Reason::Superseded { by }, None) => {
            format!(
                "take {path} out of `supersedes` in {} first\nor name another with --superseded-by",
                place(store, by)
            )
        }
        (Reason::Expired { .. }, None) => {
            format!(
                "remove or change its `expiresAt` in {} first\nor name another with --superseded-by",
                place(store, path)
            )
        }
        (Reason::NoPlace { .. } | Reason::TooUnimportant | Reason::TooWeak | Reason::NoMatch, None) => {
            "name another with --superseded-by".to_owned()
        }
    }
}
