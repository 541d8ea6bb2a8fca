//! `rawko sessions export`: a session as a document.

use clap::{Args, ValueEnum};
use rawko::journal::{SessionStore, Transcript, read};

use super::{broken, find};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// Options of `rawko sessions export`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Its id, or the beginning or end of it; `last` is the latest
    #[arg(default_value = "last")]
    id: String,
    /// Form of the document: json is whole, the others bound long texts and say so
    #[arg(long, value_enum, value_name = "FORM", default_value_t)]
    format: Form,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Form {
    /// For programs
    Json,
    /// For people
    #[default]
    Markdown,
    /// For people, one page that loads nothing
    Html,
}

/// Prints the document.
pub(super) fn export(
    workspace: &Workspace,
    store: &SessionStore,
    arguments: &Arguments,
) -> Result<Exit, Failure> {
    let journal = read(&find(store, &arguments.id)?).map_err(broken)?;
    let transcript = Transcript::of(&journal);
    let console = &workspace.console;
    match arguments.format {
        Form::Json => console.json(&transcript)?,
        // Both are made harmless where they are made.
        Form::Markdown => console.write(&transcript.to_markdown())?,
        Form::Html => console.write(&transcript.to_html())?,
    }
    Ok(Exit::Success)
}
