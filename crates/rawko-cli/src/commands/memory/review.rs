//! `rawko memory review`: keeps or rejects what runs have proposed.

use std::io::{self, IsTerminal as _};

use clap::Args;
use rawko::memory::MemoryStore;
use rawko_core::memory::{Memory, block::preview};
use serde_json::json;

use super::lookup::{find, refused};
use super::shown::header_json;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Clock, clean, clean_line};
use crate::workspace::Workspace;

/// Options of `rawko memory review`.
#[derive(Debug, Args)]
pub(crate) struct ReviewArgs {
    /// Keep these: path, file name or title
    #[arg(long, value_name = "NAME", num_args = 1..)]
    keep: Vec<String>,
    /// Reject these; their files stay, so that no run proposes the same again
    #[arg(long, value_name = "NAME", num_args = 1..)]
    reject: Vec<String>,
    /// Print JSON, and ask nothing
    #[arg(long)]
    json: bool,
}

/// What a person says of a proposed memory.
enum ReviewAnswer {
    Keep,
    Reject,
    Skip,
    Stop,
}

/// Carries it out. On a terminal, without names, each proposed memory is asked for.
pub(super) fn review(
    workspace: &Workspace,
    store: &MemoryStore,
    arguments: &ReviewArgs,
) -> Result<Exit, Failure> {
    let named = |names: &[String]| names.iter().map(|name| find(store, name)).collect::<Result<Vec<_>, _>>();
    let (mut kept, mut rejected) = (named(&arguments.keep)?, named(&arguments.reject)?);
    let asks = kept.is_empty() && rejected.is_empty() && !arguments.json && io::stdin().is_terminal();
    if asks {
        for memory in store.proposed(Clock::local().now()) {
            match ask(workspace, store, &memory)? {
                ReviewAnswer::Keep => kept.push(memory),
                ReviewAnswer::Reject => rejected.push(memory),
                ReviewAnswer::Skip => {}
                ReviewAnswer::Stop => break,
            }
        }
    }
    for memory in &kept {
        store.confirm(&memory.path).map_err(refused)?;
    }
    for memory in &rejected {
        store.retire(&memory.path, Clock::local().now()).map_err(refused)?;
    }
    let left = store.proposed(Clock::local().now());
    let paths = |all: &[Memory]| all.iter().map(|memory| memory.path.clone()).collect::<Vec<_>>();
    let open: Vec<_> = left.iter().map(|memory| header_json(&memory.path, &memory.header)).collect();
    let value = json!({"kept": paths(&kept), "rejected": paths(&rejected), "proposed": open});
    workspace.console.output(arguments.json, &value, |_| {
        let mut text = String::new();
        for (memories, what) in [(&kept, "kept"), (&rejected, "rejected; its file stays")] {
            for memory in memories {
                text.push_str(&format!("{}: {what}\n", clean_line(&memory.path)));
            }
        }
        if left.is_empty() {
            return text + "no proposed memories are left\n";
        }
        for memory in left.iter().filter(|_| !asks) {
            let (path, title) = (clean_line(&memory.path), clean_line(&memory.header.title));
            text.push_str(&format!("{path}  {title}\n"));
        }
        if !asks {
            let count = left.len();
            text.push_str(&format!("{count} proposed: rawko memory review --keep NAME, or --reject NAME\n"));
        }
        text
    })?;
    Ok(Exit::Success)
}

fn ask(workspace: &Workspace, store: &MemoryStore, memory: &Memory) -> Result<ReviewAnswer, Failure> {
    let console = &workspace.console;
    let body = store.text(&memory.path).map(|(_, body)| preview(&body)).unwrap_or_default();
    console.line(&format!(
        "\n{}  ({})\n{}",
        clean_line(&memory.header.title),
        clean_line(&memory.path),
        clean(&body)
    ))?;
    loop {
        console.write("[k]eep, [r]eject, [s]kip or [q]uit? ")?;
        let mut line = String::new();
        // The end of the input leaves the rest as it is.
        if io::stdin().read_line(&mut line).unwrap_or(0) == 0 {
            return Ok(ReviewAnswer::Stop);
        }
        match line.trim() {
            "k" | "keep" => return Ok(ReviewAnswer::Keep),
            "r" | "reject" => return Ok(ReviewAnswer::Reject),
            "s" | "skip" | "" => return Ok(ReviewAnswer::Skip),
            "q" | "quit" => return Ok(ReviewAnswer::Stop),
            _ => {}
        }
    }
}
