//! Writes a task in the user's editor.

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::clean_line;
use crate::workspace::Workspace;

/// The line from which on everything is for the person who writes.
const SCISSORS: &str = "# ------------------------ >8 ------------------------";

/// The text below the task in the editor.
const EXPLANATION: &str = "\
# Write the task above this line; # and Markdown are fine there.
# Everything from the line on is ignored. An empty task starts nothing.
";

/// The task that the user writes, beginning with `text`.
///
/// # Errors
/// If there is no editor, it fails, or the task is empty.
pub(crate) fn task(workspace: &Workspace, text: &str) -> Result<String, Failure> {
    let folder = rawko::tools::temporary::private("rawko-task-", None)
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot make a temporary folder: {error}")))?;
    let path = folder.path().join("TASK.md");
    let cannot =
        |error: std::io::Error| Failure::new(Exit::Failed, format!("cannot use {}: {error}", path.display()));
    write_new(&path, &format!("{text}\n\n{SCISSORS}\n{EXPLANATION}")).map_err(cannot)?;
    open(workspace, &path)?;
    let written = std::fs::read_to_string(&path).map_err(cannot)?;
    let task = cut(&written);
    if task.is_empty() {
        return Err(Failure::new(Exit::Cancelled, "the task is empty, so nothing was started"));
    }
    Ok(task)
}

/// The text above the line.
fn cut(written: &str) -> String {
    let above = written.split_once(SCISSORS).map_or(written, |(above, _)| above);
    above.trim().to_owned()
}

/// Opens a file in `$VISUAL` or `$EDITOR`, which may have options and quotes as a shell reads them.
fn open(workspace: &Workspace, path: &Path) -> Result<(), Failure> {
    let environment = workspace.environment;
    let editor = environment.var("VISUAL").or_else(|| environment.var("EDITOR")).ok_or_else(|| {
        Failure::usage("neither VISUAL nor EDITOR is set")
            .with_hint("set one of them: export EDITOR=…; or pipe the task in: rawko - < task.md")
    })?;
    let mut command = Command::new("/bin/sh");
    // As git does: the shell splits the variable, and the path is an argument of its own.
    command.arg("-c").arg(format!("{editor} \"$@\"")).arg(&editor).arg(path);
    if !std::io::stdin().is_terminal() {
        // Piped input has been read; the person types at the terminal.
        command.stdin(File::open("/dev/tty").map_or_else(|_| Stdio::null(), Stdio::from));
    }
    let shown = clean_line(&editor);
    let status = command.status().map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot start `{shown}`: {error}"))
            .with_hint("check VISUAL and EDITOR")
    })?;
    if !status.success() {
        return Err(Failure::new(
            Exit::Failed,
            format!("`{shown}` ended with {status}, so nothing was started"),
        )
        .with_hint("check VISUAL and EDITOR"));
    }
    Ok(())
}

/// Writes all of `text` to a new file at `path`.
fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_below_the_line_is_no_part_of_the_task() {
        let below = format!("{SCISSORS}\n{EXPLANATION}");
        assert_eq!(cut(&format!("\n# Fix it\n\n- one\n\n{below}")), "# Fix it\n\n- one");
        assert_eq!(cut(&format!("\n\n{below}")), "");
        // A user who removes the line means all of the text.
        assert_eq!(cut("fix it\n"), "fix it");
    }
}
