//! `rawko sessions repair`: copies the intact records of a damaged session into a new one.

use std::path::Path;

use clap::Args;
use rawko::journal::Repaired;

use crate::console::OutputArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{clean_line, counted};
use crate::workspace::Workspace;

/// Options of `rawko sessions repair`.
#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    /// Session id, or the beginning or end of it; `last` is the latest
    id: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// Copies the intact records.
pub(super) fn repair(workspace: &Workspace, project: &Path, arguments: &RepairArgs) -> Result<Exit, Failure> {
    let repaired = rawko::repair(project, &arguments.id, workspace.records().as_ref())?;
    let console = &workspace.console;
    console.output(arguments.output.json, &repaired, |_| console.commands(&text(&repaired)))?;
    Ok(Exit::Success)
}

fn text(repaired: &Repaired) -> String {
    let Repaired {
        session,
        journal: _,
        kept,
        damage,
        lost_lines,
        lost_bytes,
        lost,
        lost_work,
        state,
        not_shared,
    } = repaired;
    let not_shared = not_shared.as_ref().map(|why| format!("warning: {}\n", clean_line(why)));
    let lost: Vec<String> = lost.iter().map(|kind| clean_line(kind)).collect();
    let next = if state.is_final() {
        format!("It has ended: rawko sessions show {session}")
    } else {
        format!("To continue it: rawko resume {session}")
    };
    format!(
        "Copied {} into the new session {session}, which is in the state {state}.\n\
         Lost: {}, {lost_bytes} bytes ({}). The damage: {}.\n\
         Note that {}.\n\
         The damaged session was not changed.\n{}{next}\n",
        counted(*kept, "intact record"),
        counted(*lost_lines, "line"),
        lost.join(", "),
        clean_line(damage),
        clean_line(&lost_work.sentence()),
        not_shared.unwrap_or_default(),
    )
}
