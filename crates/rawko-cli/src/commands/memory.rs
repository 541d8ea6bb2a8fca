//! `rawko memory`: what earlier runs found out, and what of it an agent would be given.

mod add;
mod check;
mod edit;
mod list;
mod matching;
mod retire;
mod review;
mod show;
mod stats;

use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use rawko::memory::{FOLDER, MemoryStore, OF_USER, Report, WriteError};
use rawko_core::Timestamp;
use rawko_core::agent::Importance;
use rawko_core::memory::{Header, Kind, Memory, Reason, Severity, reference_key, referred_keys};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::clean;
use crate::workspace::Workspace;

/// Options of `rawko memory`.
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Work with your own memories, which agents are given in every project
    #[arg(long, global = true)]
    user: bool,
    #[command(subcommand)]
    action: MemoryCommand,
}

/// What to do with the memories.
#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCommand {
    /// List them
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one of them whole, and how each of its patterns is read
    Show {
        /// Its path, its file's name or its title
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say which of them an agent would be given for a task, and why each
    Match(matching::MatchArgs),
    /// Write a new one
    Add(add::AddArgs),
    /// Open one of them in $VISUAL or $EDITOR, and check it afterwards
    Edit {
        /// Its path, its file's name or its title
        name: String,
        /// Print what was found afterwards as JSON
        #[arg(long)]
        json: bool,
    },
    /// Check all of them; ends in 1 where anything is to be mended
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say how often agents were given each, and whether it helped
    Stats {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Retire one: agents are not given it any more, and its file stays
    Retire(retire::RetireArgs),
    /// Keep or reject what runs have proposed
    Review(review::ReviewArgs),
}

/// Carries the action out.
pub(crate) fn run(workspace: &Workspace, arguments: &MemoryArgs) -> Result<Exit, Failure> {
    let (project, user) = (workspace.project()?, workspace.environment.config_dir());
    let action = &arguments.action;
    let store = match user {
        Some(user) if arguments.user => MemoryStore::of_user(&user, &project),
        Some(user) => MemoryStore::of_project(&project).with_user(&user),
        None if arguments.user => {
            return Err(Failure::usage(
                "there is no folder for your own memories: neither XDG_CONFIG_HOME nor HOME is set",
            )
            .with_hint("set HOME"));
        }
        None => MemoryStore::of_project(&project),
    };
    // `check` reports it as a finding.
    if let (Some(obstacle), false) = (store.obstacle(), matches!(action, MemoryCommand::Check { .. })) {
        return Err(refused(WriteError::Folder(Box::new(obstacle))));
    }
    match action {
        MemoryCommand::List { json } => list::list(workspace, &store, *json, arguments.user),
        MemoryCommand::Show { name, json } => match (name.strip_prefix(OF_USER), store.user()) {
            (Some(own), Some(user)) => show::show(workspace, user, own, *json),
            _ => show::show(workspace, &store, name, *json),
        },
        MemoryCommand::Match(arguments) => matching::run(workspace, &store, arguments),
        MemoryCommand::Add(new) => add::add(workspace, &store, new, arguments.user),
        MemoryCommand::Edit { name, json } => edit::edit(workspace, &store, name, *json),
        MemoryCommand::Check { json } => check::check(workspace, &store, *json),
        MemoryCommand::Stats { json } => stats::stats(workspace, &store, *json),
        MemoryCommand::Retire(arguments) => retire::retire(workspace, &store, arguments),
        MemoryCommand::Review(arguments) => review::review(workspace, &store, arguments),
    }
}

/// The instant.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The one memory that `name` means.
fn find(store: &MemoryStore, name: &str) -> Result<Memory, Failure> {
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
                let edit = line.map(|_| format!("\nrawko memory edit {path}")).unwrap_or_default();
                Failure::new(Exit::Failed, format!("{FOLDER}/{path} cannot be used: {message}"))
                    .with_hint(format!("{help}{edit}"))
            }
            None => Failure::usage(format!("there is no memory `{name}`")).with_hint(
                "`rawko memory list` names them all; `rawko memory check` those that cannot be read",
            ),
        }),
    }
}

/// What is wrong with the file that `name` means, where it is one that cannot be used.
fn unreadable(store: &MemoryStore, name: &str) -> Option<Report> {
    let key = reference_key(name);
    // Of a file without a title nothing but path and name is known.
    let is_meant =
        |report: &Report| !report.path.is_empty() && referred_keys(&report.path, "")[..2].contains(&key);
    let reports = store.inventory().reports.into_iter();
    reports.filter(|report| report.severity == Severity::Error).find(is_meant)
}

/// What stopped a memory from being written, with what to do.
fn refused(error: WriteError) -> Failure {
    let message = error.to_string();
    match error {
        WriteError::Invalid(reports) => {
            let wrong: Vec<String> = reports.iter().map(|report| report.message.clone()).collect();
            Failure::usage(format!("this is no memory: {}", wrong.join("; ")))
                .with_hint("give a --title, and --when-to-use at least once")
        }
        WriteError::Duplicate { path, .. } => Failure::new(Exit::Failed, message).with_hint(format!(
            "read it: rawko memory show {path}\nwrite yours all the same with --force, or in its place with --supersedes {path}"
        )),
        WriteError::NotFound { .. } => Failure::usage(message).with_hint("`rawko memory list` names them all"),
        WriteError::Untold { path, reason, instead } => {
            Failure::usage(message).with_hint(what_else(&path, &reason, instead.as_deref()))
        }
        WriteError::Form { path, .. } => Failure::new(Exit::Failed, message)
            .with_hint(format!("rawko memory edit {path}")),
        WriteError::Busy => Failure::new(Exit::Failed, message)
            .with_hint("another rawko may be stopped there: go on with it or end it, then try again"),
        WriteError::Folder(report) => Failure::new(Exit::Failed, message).with_hint(report.help),
        WriteError::Io { .. } => Failure::new(Exit::Failed, message)
            .with_hint(format!("check the disk and the rights of {FOLDER}")),
    }
}

/// What to do where a memory that is not given should take the place of another.
fn what_else(path: &str, reason: &Reason, instead: Option<&str>) -> String {
    match (reason, instead) {
        (_, Some(instead)) => format!("name what is told in its place: --superseded-by {instead}"),
        (Reason::Superseded { by }, None) => format!(
            "take {path} out of `supersedes` in {by} first: rawko memory edit {by}\nor name another with --superseded-by"
        ),
        (Reason::Expired { .. }, None) => format!(
            "remove or change its `expiresAt` first: rawko memory edit {path}\nor name another with --superseded-by"
        ),
        (Reason::NoPlace { .. } | Reason::TooUnimportant | Reason::TooWeak | Reason::NoMatch, None) => {
            "name another with --superseded-by".to_owned()
        }
    }
}

/// Prints on standard error what should be repaired.
fn warn(workspace: &Workspace, reports: &[Report]) {
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
fn header_json(path: &str, header: &Header) -> Value {
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

fn importance(importance: Importance) -> &'static str {
    match importance {
        Importance::Low => "low",
        Importance::Medium => "medium",
        Importance::High => "high",
        Importance::Critical => "critical",
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Fact => "fact",
        Kind::Avoid => "avoid",
    }
}

/// The day of an instant, `-` where there is none.
fn day(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "-".to_owned(), |at| at.to_rfc3339().chars().take(10).collect())
}
