//! `git`: granted as a whole, but not the programs and files that its options name.

use super::SHOWN;
use super::denial::{Denial, PolicyResult};
use super::directory::ProjectRoot;
use super::git_remote;
use super::options::{could_be_option, literal, not_granted};
use super::script::ShellWord;
use super::tables::{FilterTables, GitLetters, GitTable};
use crate::text::truncate;

const ONLY_SUBMODULE_STATUS: &str = "only `git submodule status` is granted: the others start programs.";

/// Judges a call of `git`.
pub(super) fn judge(
    arguments: &[ShellWord],
    project: &ProjectRoot<'_>,
    tables: &FilterTables,
) -> PolicyResult {
    let git = &tables.git;
    let Some((subcommand, words)) = subcommand(arguments, project, git)? else { return Ok(()) };
    if git.any_options.contains(subcommand) {
        return Ok(());
    }
    if !git.judged_options.contains(subcommand) {
        let shown = truncate(subcommand, SHOWN);
        return Err(format!(
            "`git {shown}` is not known to be harmless; an unknown subcommand may be an alias. Use one of git's own."
        ).into());
    }
    special(subcommand, words, git)?;
    git_remote::judge(subcommand, words)?;
    options(subcommand, words, git)?;
    // A pattern may become the name of any of its own subcommands: of a file that the agent has made.
    if subcommand == "submodule" && words.first().is_some_and(|first| first.text().is_none()) {
        return Err(ONLY_SUBMODULE_STATUS.into());
    }
    Ok(())
}

/// The subcommand and its words, after options that may come before it.
fn subcommand<'w>(
    arguments: &'w [ShellWord],
    project: &ProjectRoot<'_>,
    git: &GitTable,
) -> Result<Option<(&'w str, &'w [ShellWord])>, Denial> {
    let mut rest = arguments;
    while let Some((word, after)) = rest.split_first() {
        let Some(text) = word.text() else { return Err("the subcommand must be spelt out.".into()) };
        rest = match text {
            "--version" | "-v" => return Ok(None),
            "-C" => match after.split_first() {
                Some((dir, after)) if dir.text().is_some_and(|dir| project.holds(dir)) => after,
                _ => return Err("`-C` may only name a directory inside the project.".into()),
            },
            "-c" => match after.split_first() {
                Some((setting, after))
                    if setting.text().is_some_and(|setting| is_harmless_setting(setting, git)) =>
                {
                    after
                }
                _ => return Err("this setting of `-c` may start a program.".into()),
            },
            _ if git.options_before_subcommand.contains(text) => after,
            _ if text.starts_with('-') => return Err(not_granted(text)),
            _ => return Ok(Some((text, after))),
        };
    }
    Ok(None)
}

fn is_harmless_setting(setting: &str, git: &GitTable) -> bool {
    let lower = setting.to_ascii_lowercase();
    git.settings.iter().any(|start| lower.starts_with(start)) || git.whole_settings.contains(&lower)
}

/// What only some subcommands do.
fn special(subcommand: &str, words: &[ShellWord], git: &GitTable) -> PolicyResult {
    let has = |text: &str| words.iter().any(|w| w.text() == Some(text));
    let first = words.first().and_then(ShellWord::text);
    match subcommand {
        "config" => config(words, git),
        "bisect" if !first.is_some_and(|first| git.bisect.contains(first)) => {
            Err("only start, good, bad, skip, log and reset of `git bisect` are granted.".into())
        }
        "submodule" if first.is_some_and(|first| !git.submodule.contains(first)) => {
            Err(ONLY_SUBMODULE_STATUS.into())
        }
        "format-patch" if !has("--stdout") => Err("it writes files: use `--stdout`.".into()),
        "fetch" | "pull" | "push" | "ls-remote" | "remote" | "init" | "archive" => {
            // An address may name a program (`ext::`), so it must be spelt out.
            if let Some(word) = words.iter().find(|w| w.text().is_none()) {
                return Err(could_be_option(word));
            }
            if subcommand == "init" && words.iter().any(ShellWord::is_operand) {
                return Err("it writes a directory of its own: use `git init` alone.".into());
            }
            let names_helper = |w: &&ShellWord| {
                w.shown.contains("::") || w.shown.starts_with('-') && is_remote_option(&w.shown, git)
            };
            match words.iter().find(names_helper) {
                None => Ok(()),
                Some(word) => Err(not_granted(&word.shown)),
            }
        }
        _ => Ok(()),
    }
}

/// Options of commands that talk to other repositories, by which these name programs, hooks and settings.
fn is_remote_option(text: &str, git: &GitTable) -> bool {
    let Some(long) = text.strip_prefix("--") else { return false };
    let name = long.split('=').next().unwrap_or_default();
    !name.is_empty() && git.refused_remote_options.iter().any(|f| f.starts_with(name))
}

/// Only what reads the configuration: a setting can be a program.
fn config(words: &[ShellWord], git: &GitTable) -> PolicyResult {
    let options = words.iter().filter(|w| !w.is_operand());
    let only_plain = options
        .clone()
        .all(|w| w.text().is_some_and(|t| git.config_reads.contains(t) || git.config_options.contains(t)));
    let reads = words.iter().find(|w| w.text().is_some_and(|t| !git.config_options.contains(t)));
    if only_plain && reads.and_then(ShellWord::text).is_some_and(|t| git.config_reads.contains(t)) {
        Ok(())
    } else {
        Err("only reading the configuration is granted (`git config --get NAME`).".into())
    }
}

fn options(subcommand: &str, words: &[ShellWord], git: &GitTable) -> PolicyResult {
    let none = GitLetters::default();
    let GitLetters { values, refused, takes_message } = git.letters.get(subcommand).unwrap_or(&none);
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        let Some(text) = literal(word)? else { continue };
        if text == "--" {
            return Ok(());
        }
        if let Some(long) = text.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or_default();
            // `--text` is an option of its own, not the beginning of `--textconv`.
            if name != "text" && git.refused_options.iter().any(|f| f.starts_with(name)) {
                return Err(not_granted(&format!("--{name}")));
            }
            if *takes_message && matches!(long, "message" | "file") {
                rest = skip_value(rest, text)?;
            }
        } else if let Some(cluster) = text.strip_prefix('-') {
            for (at, letter) in cluster.char_indices() {
                if refused.contains(letter) {
                    return Err(not_granted(&format!("-{letter}")));
                }
                if values.contains(letter) {
                    if at + letter.len_utf8() == cluster.len() {
                        rest = skip_value(rest, text)?;
                    }
                    break;
                }
            }
        }
    }
    Ok(())
}

fn skip_value<'w>(rest: &'w [ShellWord], option: &str) -> Result<&'w [ShellWord], Denial> {
    match rest.split_first() {
        Some((value, after)) if value.is_one() => Ok(after),
        _ => Err(format!("the value of `{}` must be one word.", truncate(option, SHOWN)).into()),
    }
}
