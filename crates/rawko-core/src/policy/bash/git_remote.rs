//! The other repository that `git push` and its like talk to.
//!
//! Where that is a folder, git works in it with the folder's own configuration, and a setting there starts programs
//! (`core.alternateRefsCommand`, `core.hooksPath`). An agent that may write files can make such a folder. A name that is
//! no remote is the name of a folder to git, so only the usual names of remotes pass.

use super::SHOWN;
use super::denial::{Denial, PolicyResult};
use super::script::ShellWord;
use crate::text::truncate;

/// Names that remotes usually have.
const REMOTES: [&str; 2] = ["origin", "upstream"];
/// Ways to another machine.
const SCHEMES: [&str; 4] = ["git://", "http://", "https://", "ssh://"];
/// Options that take the next word, wherever they are options at all.
const VALUES: [&str; 16] = [
    "--deepen",
    "--depth",
    "--filter",
    "--jobs",
    "--negotiation-tip",
    "--push-option",
    "--refmap",
    "--server-option",
    "--shallow-exclude",
    "--shallow-since",
    "--sort",
    "--strategy-option",
    "--upload-pack",
    "-X",
    "-j",
    "-o",
];

/// Judges the repositories that the words of a subcommand name.
pub(super) fn judge(subcommand: &str, words: &[ShellWord]) -> PolicyResult {
    match subcommand {
        "fetch" | "ls-remote" | "pull" | "push" => {
            let is_repository = |word: &&ShellWord| word.shown.starts_with("--rep");
            if let Some(option) = words.iter().find(is_repository) {
                return Err(not_elsewhere(&option.shown));
            }
            // All that `--multiple` names are repositories.
            let is_multiple = |word: &ShellWord| {
                let shown = &word.shown;
                let is_letter = shown.starts_with('-') && !shown.starts_with("--") && shown.contains('m');
                is_letter || shown.starts_with("--mu") || shown.starts_with("--al")
            };
            let named = operands(words);
            let looked_at = if words.iter().any(is_multiple) { named.len() } else { 1 };
            named.into_iter().take(looked_at).try_for_each(remote)
        }
        "remote" => {
            let named = operands(words);
            let rest = named.get(1..).unwrap_or_default();
            match named.first().copied() {
                Some("add" | "set-url") => rest.iter().skip(1).try_for_each(|text| address(text)),
                Some("prune" | "set-head" | "show" | "update") => {
                    rest.iter().take(1).try_for_each(|text| remote(text))
                }
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// The words that are neither options nor their values.
fn operands(words: &[ShellWord]) -> Vec<&str> {
    let mut operands = Vec::new();
    let mut rest = words.iter().map(|word| word.text().unwrap_or(&word.shown));
    while let Some(text) = rest.next() {
        if text == "--" {
            operands.extend(rest);
            break;
        }
        if VALUES.contains(&text) {
            rest.next();
        } else if !text.starts_with('-') || text == "-" {
            operands.push(text);
        }
    }
    operands
}

fn remote(text: &str) -> PolicyResult {
    if REMOTES.contains(&text) { Ok(()) } else { address(text) }
}

/// An address of another machine: with a scheme, or `host:path`.
fn address(text: &str) -> PolicyResult {
    let has_host = || {
        let (host, path) = text.split_once(':')?;
        (!host.is_empty() && !host.contains('/') && !path.starts_with("//")).then_some(())
    };
    if SCHEMES.iter().any(|scheme| text.starts_with(scheme)) || has_host().is_some() {
        Ok(())
    } else {
        Err(not_elsewhere(text))
    }
}

fn not_elsewhere(text: &str) -> Denial {
    format!(
        "`{}` may be a folder, and git runs programs that the configuration of a folder names. Use `origin`, `upstream` \
         or an address such as `https://…`.",
        truncate(text, SHOWN)
    )
    .into()
}
