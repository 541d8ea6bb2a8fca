//! `rawko init`: writes a `.rawko/` folder for you to edit.

use clap::Args;
use serde_json::json;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::clean_line;
use crate::workspace::Workspace;

/// Options of `rawko init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
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
    let console = &workspace.console;
    if arguments.json {
        console.json(&json!({ "created": done.created, "kept": done.kept }))?;
        return Ok(Exit::Success);
    }
    let paint = console.paint();
    let mut text = String::new();
    for path in &done.created {
        text.push_str(&format!("{} {}\n", paint.good("created"), clean_line(&path.to_string_lossy())));
    }
    for path in &done.kept {
        let shown = clean_line(&path.to_string_lossy());
        text.push_str(&format!("{} {shown} (exists, not changed)\n", paint.faint("kept   ")));
    }
    text.push_str(&format!(
        "\n{} edit .rawko/config.yaml and .rawko/agents/, then `rawko config check`\n",
        paint.hint("next:")
    ));
    console.write(&text)?;
    Ok(Exit::Success)
}
