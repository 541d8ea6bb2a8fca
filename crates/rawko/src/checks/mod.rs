//! Finds the commands that verify a project, by its files (`docs/verification.md#which-commands-are-run`).
//!
//! The folder in which rawko was started is looked at first, then those above it, up to the project's own. The nearest one
//! with a command that can be run decides. Which file means which command is a [table](table); nothing of the project is
//! run, and only the beginning of a file is read. A command that lacks something is reported and not used.

pub(crate) mod tree_checks;
pub(crate) mod verification;

mod place;
mod python;
mod scripts;
mod signs;
mod table;

#[cfg(test)]
mod layouts;

use std::path::Path;

use rawko_core::text::shell_word;
use serde::Serialize;

use place::ProjectFolder;
pub(crate) use place::UserEnvironment;
use python::Tests;
use table::{CheckRow, CheckTable, TASKS};

/// A command that verifies the project, and the file that names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundCommand {
    /// The command line, as it is run in the project's folder.
    pub command: String,
    /// The folder of the project that the command goes to; absent where that is the project's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// That file, relative to the project.
    pub because: String,
    /// A program or a module that it needs and that is not installed. The command is not run then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// Looks for commands from `folder` up to `project`. A folder that is outside of the project counts as the project itself.
pub(crate) fn look(project: &Path, folder: &Path, machine: &UserEnvironment) -> Vec<FoundCommand> {
    let Ok(project) = project.canonicalize() else { return Vec::new() };
    let folder = folder.canonicalize().ok().filter(|folder| folder.starts_with(&project));
    let folder = folder.as_deref().unwrap_or(&project);
    let mut found = Vec::new();
    for above in folder.ancestors().take_while(|above| above.starts_with(&project)) {
        let here = commands_of(&ProjectFolder::new(&project, above, machine));
        let is_decided = here.iter().any(FoundCommand::can_run);
        found.extend(here);
        if is_decided {
            break;
        }
    }
    found
}

/// The folder that a found command goes to, relative to the project.
pub(crate) fn folder_of(command: &str) -> Option<String> {
    let rest = command.strip_prefix("cd ")?;
    rest.match_indices(" && ").find_map(|(end, _)| {
        let word = rest.get(..end)?;
        let quoted = word.strip_prefix('\'').and_then(|word| word.strip_suffix('\''));
        let folder = quoted.map_or_else(|| word.to_owned(), |word| word.replace("'\\''", "'"));
        // A part of the quoted text before its end is no word.
        (shell_word(&folder) == word).then_some(folder)
    })
}

impl FoundCommand {
    fn can_run(&self) -> bool {
        self.missing.is_none()
    }
}

/// The commands of one folder: one for each language, or else one of a task runner.
fn commands_of(place: &ProjectFolder<'_>) -> Vec<FoundCommand> {
    let rows = &CheckTable::get().checks;
    let tests = Tests::new(place);
    let mut found: Vec<FoundCommand> = rows
        .chunk_by(|one, next| one.of == next.of)
        .filter(|rows| rows.first().is_some_and(|row| row.of != TASKS))
        .filter_map(|rows| command_of(rows, place, &tests))
        .collect();
    if !found.iter().any(FoundCommand::can_run) {
        let tasks = rows.chunk_by(|one, next| one.of == next.of);
        let tasks = tasks.filter(|rows| rows.first().is_some_and(|row| row.of == TASKS));
        found.extend(tasks.filter_map(|rows| command_of(rows, place, &tests)));
    }
    found
}

/// The command of the first row that fits. If something that it needs is missing, a later row may replace it.
fn command_of(rows: &[CheckRow], place: &ProjectFolder<'_>, tests: &Tests<'_>) -> Option<FoundCommand> {
    let mut first = None;
    for row in rows {
        let Some(fit) = row.fit(place, tests) else { continue };
        let (mut command, missing) = tests.spelt(row);
        for (name, value) in &fit.values {
            command = command.replace(&format!("{{{name}}}"), value);
        }
        let missing = row.programs.iter().find(|name| !place.has_program(name)).cloned().or(missing);
        let folder = place.in_project(place.folder).filter(|folder| !folder.is_empty());
        if let Some(folder) = &folder {
            command = format!("cd {} && {command}", shell_word(folder));
        }
        let found = FoundCommand { command, folder, because: fit.because, missing };
        if found.can_run() {
            return Some(found);
        }
        let found = first.get_or_insert(found);
        if !row.or_else {
            return Some(found.clone());
        }
    }
    first
}
