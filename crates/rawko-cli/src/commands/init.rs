//! `rawko init`: writes a `.rawko/` folder for you to edit.

use std::path::Path;

use clap::Args;
use serde_json::json;

use crate::console::OutputArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::clean_line;
use crate::workspace::Workspace;

/// Options of `rawko init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    output: OutputArgs,
}

/// Writes the files that do not exist yet.
pub(crate) fn run(workspace: &Workspace, arguments: &InitArgs) -> Result<Exit, Failure> {
    // A configuration would turn any folder into a project.
    workspace.check_project_is_chosen()?;
    rawko::check_project_folder(workspace.folder())?;
    let done = rawko::config::init(workspace.folder()).map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot write {error}"))
            .with_hint("check the permissions of the folder, or name another one with --cwd DIR")
    })?;
    let value = json!({ "created": done.created, "kept": done.kept });
    workspace.console.output(arguments.output.json, &value, |paint| {
        let shown = |path: &Path| clean_line(&path.to_string_lossy());
        let mut text = String::new();
        for path in &done.created {
            text.push_str(&format!("{} {}\n", paint.good("created"), shown(path)));
        }
        for path in &done.kept {
            text.push_str(&format!("{} {} (exists, not changed)\n", paint.faint("kept   "), shown(path)));
        }
        let next = "edit .rawko/config.yaml and .rawko/agents/, then `rawko config check`";
        text + &format!("\n{} {next}\n", paint.hint("next:"))
    })?;
    Ok(Exit::Success)
}
