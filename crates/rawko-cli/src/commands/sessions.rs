//! `rawko sessions`: runs of this folder, past and present, as their journals tell them.

mod export;
mod list;
mod repair;
mod rm;
mod show;

use std::path::PathBuf;

use clap::Subcommand;
use rawko::journal::{JournalError, SessionStore};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// What to do with the sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List them, the latest last
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Tell one of them again, from its journal
    Show {
        /// Its id, or the beginning or end of it; `last` is the latest
        #[arg(default_value = "last")]
        id: String,
        /// Tell rules, latencies, cache hits and the tools' output too
        #[arg(long, short)]
        verbose: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print one of them as a document: task, decisions, what agents said and did, outcome
    Export(export::Arguments),
    /// Copy what is sound of a damaged one into a new session
    Repair(repair::Arguments),
    /// Remove sessions that nobody is running, with all that is kept of them
    Rm(rm::Arguments),
}

/// Carries the action out.
pub(crate) fn run(workspace: &Workspace, action: &Action) -> Result<Exit, Failure> {
    let folder = workspace.project()?;
    let store = SessionStore::of_project(&folder);
    match action {
        Action::List { json } => list::list(workspace, &store, *json),
        Action::Show { id, verbose, json } => show::show(workspace, &store, id, *verbose, *json),
        Action::Export(arguments) => export::export(workspace, &store, arguments),
        Action::Repair(arguments) => repair::repair(workspace, &store, arguments),
        Action::Rm(arguments) => rm::rm(workspace, &folder, &store, arguments),
    }
}

/// The journal of the session that `id` means.
fn find(store: &SessionStore, id: &str) -> Result<PathBuf, Failure> {
    store.find(id).map_err(|error| Failure::usage(error.to_string()))
}

/// A journal that cannot be read, with what to do about it.
fn broken(error: JournalError) -> Failure {
    Failure::from(rawko::Error::from(error))
}
