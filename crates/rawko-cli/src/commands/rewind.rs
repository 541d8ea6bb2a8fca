//! `rawko rewind ID --to N`: restores the files as they were before an execution.

use std::io::{self, IsTerminal as _};

use clap::Args;
use rawko::checkpoint::{Checkpoints, Execute, Extent, More, Rewound};
use serde_json::json;

use crate::commands::kept;
use crate::console::OutputArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{clean_line, counted};
use crate::workspace::Workspace;

/// Most files of others that are listed.
const LISTED: usize = 20;

/// Options of `rawko rewind`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RewindArgs {
    /// Session id, or the beginning or end of it; `last` is the latest
    #[arg(default_value = "last")]
    id: String,
    /// Restore the files as they were before this execution, by its number; or a name from --list
    #[arg(long, value_name = "N", required_unless_present = "list")]
    to: Option<String>,
    /// Bring the whole folder back: also restore what somebody else has changed or deleted, and remove what somebody else
    /// has made; asks first on a terminal
    #[arg(long)]
    all: bool,
    /// Do not ask what --all asks
    #[arg(long, short, requires = "all")]
    yes: bool,
    /// Show what would be restored, without changing anything
    #[arg(long)]
    dry_run: bool,
    /// List the checkpoints of the session
    #[arg(long, conflicts_with_all = ["to", "dry_run", "all"])]
    list: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Rewinds the files.
pub(crate) fn run(workspace: &Workspace, arguments: &RewindArgs) -> Result<Exit, Failure> {
    let (session, checkpoints, _) = kept::checkpoints(workspace, &arguments.id)?;
    let Some(to) = &arguments.to else {
        return list(workspace, &checkpoints, arguments.output.json);
    };
    let console = &workspace.console;
    let execute = if arguments.dry_run { Execute::DryRun } else { Execute::Really };
    let extent = if arguments.all { Extent::Everything } else { Extent::Session };
    let asks = arguments.all && !arguments.yes && !arguments.dry_run && !arguments.output.json;
    if asks && io::stdin().is_terminal() && !confirmed(workspace, &checkpoints, to)? {
        console.line("nothing was changed")?;
        return Ok(Exit::Success);
    }
    let rewound = checkpoints.rewind(to, execute, extent)?;
    let value = json!({"session": session, "dryRun": arguments.dry_run, "rewound": rewound});
    console.output(arguments.output.json, &value, |_| text(&session, &rewound, arguments.dry_run))?;
    Ok(if rewound.left_alone.is_empty() { Exit::Success } else { Exit::Failed })
}

/// Names what others have changed and would be lost, and asks.
fn confirmed(workspace: &Workspace, checkpoints: &Checkpoints, to: &str) -> Result<bool, Failure> {
    let plan = checkpoints.rewind(to, Execute::DryRun, Extent::Session)?;
    if plan.more == More::default() {
        return Ok(true);
    }
    let console = &workspace.console;
    console.write(&named(&plan))?;
    console.write(&format!("{}, too? [y]es or [n]o? ", others(plan.more)))?;
    let mut line = String::new();
    // The end of the input is no consent.
    let _ = io::stdin().read_line(&mut line);
    Ok(matches!(line.trim(), "y" | "yes"))
}

fn list(workspace: &Workspace, checkpoints: &Checkpoints, as_json: bool) -> Result<Exit, Failure> {
    let kept = checkpoints.list()?;
    workspace.console.output(as_json, &kept, |_| match kept.is_empty() {
        true => "no checkpoints: the session changed nothing, or its journal says why\n".to_owned(),
        false => {
            kept.iter().map(|kept| clean_line(&format!("{:<10} {}", kept.name, kept.id)) + "\n").collect()
        }
    })?;
    Ok(Exit::Success)
}

/// What is not touched, a line each.
fn named(rewound: &Rewound) -> String {
    let mut text = String::new();
    for left in &rewound.left_alone {
        text.push_str(&format!("not restored: {} ({})\n", clean_line(&left.path), clean_line(&left.why)));
    }
    for path in rewound.by_others.iter().take(LISTED) {
        text.push_str(&format!("changed since, not by this session: {}\n", clean_line(path)));
    }
    match rewound.by_others.len().saturating_sub(LISTED) as u64 {
        0 => {}
        more => {
            text.push_str(&format!("changed since, not by this session: {} more\n", counted(more, "file")));
        }
    }
    text
}

/// What `--all` also does.
fn others(more: More) -> String {
    let parts = [("restore", more.restored), ("remove", more.removed)];
    let parts = parts.into_iter().filter(|(_, count)| *count > 0);
    let parts: Vec<String> =
        parts.map(|(verb, count)| format!("{verb} {}", counted(count as u64, "other file"))).collect();
    parts.join(" and ")
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
    text.push_str(&named(rewound));
    let count = rewound.restored.len() + rewound.removed.len();
    let untouched = !rewound.left_alone.is_empty() || !rewound.by_others.is_empty();
    let kept = kept::checkpoint(&rewound.to.name, session);
    let files = counted(count as u64, "file");
    text.push_str(&match (count, dry_run) {
        (0, _) if !untouched => format!("no file differs from {kept}\n"),
        (0, _) => format!("no file was changed: none that differs from {kept} can be restored\n"),
        (_, true) => format!("{files} would be restored to {kept}; nothing was changed\n"),
        (_, false) => format!("restored {files} to {kept}\n"),
    });
    if rewound.more != More::default() {
        let (others, to) = (others(rewound.more), &rewound.to.name);
        text.push_str(&format!("to {others}, too: rawko rewind {session} --to {to} --all\n"));
    }
    if let Some(before) = &rewound.before {
        text.push_str(&format!("to undo: rawko rewind {session} --to {}\n", before.name));
    }
    text
}
