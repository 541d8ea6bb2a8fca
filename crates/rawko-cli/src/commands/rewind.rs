//! `rawko rewind ID --to N`: restores the files as they were before an execution.

use clap::Args;
use rawko::checkpoint::{Execute, Rewound};
use serde_json::json;

use crate::commands::diff;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::clean_line;
use crate::workspace::Workspace;

/// Options of `rawko rewind`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RewindArgs {
    /// Session id, or the beginning or end of it; `last` is the latest
    id: String,
    /// Restore the files as they were before this execution, by its number; or a name from --list
    #[arg(long, value_name = "N", required_unless_present = "list")]
    to: Option<String>,
    /// Show what would be restored, without changing anything
    #[arg(long)]
    dry_run: bool,
    /// List the checkpoints of the session
    #[arg(long, conflicts_with_all = ["to", "dry_run"])]
    list: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Rewinds the files.
pub(crate) fn run(workspace: &Workspace, arguments: &RewindArgs) -> Result<Exit, Failure> {
    let (session, checkpoints) = diff::checkpoints(workspace, &arguments.id)?;
    let Some(to) = &arguments.to else {
        return list(workspace, &checkpoints, arguments.json);
    };
    let execute = if arguments.dry_run { Execute::DryRun } else { Execute::Really };
    let rewound = checkpoints.rewind(to, execute)?;
    let console = &workspace.console;
    if arguments.json {
        console.json(&json!({"session": session, "dryRun": arguments.dry_run, "rewound": rewound}))?;
    } else {
        console.write(&text(&session, &rewound, arguments.dry_run))?;
    }
    Ok(if rewound.left_alone.is_empty() { Exit::Success } else { Exit::Failed })
}

fn list(
    workspace: &Workspace,
    checkpoints: &rawko::checkpoint::Checkpoints,
    as_json: bool,
) -> Result<Exit, Failure> {
    let kept = checkpoints.list()?;
    let console = &workspace.console;
    if as_json {
        console.json(&kept)?;
    } else if kept.is_empty() {
        console.line("no checkpoints: the session changed nothing, or its journal says why")?;
    }
    for kept in kept.iter().filter(|_| !as_json) {
        console.line(&clean_line(&format!("{:<10} {}", kept.name, kept.id)))?;
    }
    Ok(Exit::Success)
}

fn text(session: &str, rewound: &Rewound, dry_run: bool) -> String {
    let would = |done: &str, would: &str| if dry_run { would.to_owned() } else { done.to_owned() };
    let mut text = String::new();
    for (verb, paths) in [
        (would("restored", "would restore"), &rewound.restored),
        (would("removed", "would remove"), &rewound.removed),
    ] {
        for path in paths {
            text.push_str(&format!("{verb} {}\n", clean_line(path)));
        }
    }
    for left in &rewound.left_alone {
        text.push_str(&format!("not restored: {} ({})\n", clean_line(&left.path), clean_line(&left.why)));
    }
    let count = rewound.restored.len() + rewound.removed.len();
    let place = match rewound.to.name.parse::<u32>() {
        Ok(number) => format!("before execution {number} of {session}"),
        Err(_) => format!("of `{}` of {session}", clean_line(&rewound.to.name)),
    };
    text.push_str(&match (count, dry_run) {
        (0, _) if rewound.left_alone.is_empty() => format!("no file differs from the checkpoint {place}\n"),
        (_, true) => {
            format!("{count} files would be restored to the checkpoint {place}; nothing was changed\n")
        }
        (_, false) => format!("restored {count} files to the checkpoint {place}\n"),
    });
    if let Some(before) = &rewound.before {
        text.push_str(&format!("to undo: rawko rewind {session} --to {}\n", before.name));
    }
    text
}
