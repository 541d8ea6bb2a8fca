//! What a simple command may do to the project's files. It is a hint on whether earlier observations still hold, and no
//! security boundary.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;

use super::script::{Redirection, RedirectionEffect, ShellWord};
use super::write_places::WritePlaces;
use super::{find, programs, tables};
use crate::facts::CommandEffect;

/// Options by which `sed` and `perl` write the files that they are given.
const IN_PLACE: [&str; 2] = ["-i", "--in-place"];

static EFFECTS: LazyLock<Option<Effects>> =
    LazyLock::new(|| serde_json::from_str(include_str!("effects.json")).ok());

/// The programs whose effect is known.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Effects {
    #[serde(rename = "why")]
    _why: String,
    reads: BTreeSet<String>,
    /// Files that set up a shell: reading them with `source` changes no file.
    activates: Vec<String>,
    writes: BTreeSet<String>,
    /// Of these, the ones that write text which they are given. The others only name files.
    writes_text: BTreeSet<String>,
    /// The same of the subcommands of `git`.
    git_writes_text: BTreeSet<String>,
    /// By program, the first words with which it only reads.
    subcommands: BTreeMap<String, BTreeSet<String>>,
    /// Subcommands of `git` that leave the files of the working tree alone.
    git: BTreeSet<String>,
}

/// What a command with these words does. Its redirections are not looked at.
pub(crate) fn effect_of_words(words: &[ShellWord]) -> CommandEffect {
    let Some((name, arguments)) = words.split_first() else { return CommandEffect::Reads };
    let (Some(path), Some(effects), Some(tables)) = (name.text(), EFFECTS.as_ref(), tables::tables()) else {
        return CommandEffect::Unknown;
    };
    let name = path.rsplit('/').next().unwrap_or(path);
    match name {
        "git" => return git(arguments, effects),
        "source" | "." => return source(arguments, effects),
        "sed" | "gsed" | "perl" if arguments.iter().filter_map(ShellWord::text).any(edits_in_place) => {
            return CommandEffect::Writes;
        }
        _ if effects.writes.contains(name) => return CommandEffect::Writes,
        _ if only_tells(name, arguments, effects) => return CommandEffect::Reads,
        _ if !effects.reads.contains(name) => return CommandEffect::Unknown,
        _ => {}
    }
    // Options by which programs that read can write; the filter knows them.
    let found = find::looks(name, arguments, tables, started_reads);
    match found.or_else(|| programs::judge(name, arguments, tables, &WritePlaces::none())) {
        Some(Err(_)) => CommandEffect::Unknown,
        Some(Ok(())) | None => CommandEffect::Reads,
    }
}

/// Whether a program that `find` starts reads. A `find` in a `find` is not followed.
fn started_reads(words: &[ShellWord]) -> bool {
    let is_find = words.first().and_then(ShellWord::text).is_some_and(|name| name.ends_with("find"));
    !is_find && effect_of_words(words) == CommandEffect::Reads
}

/// Whether a command holds text that it writes into files: in its words, or on its standard input.
pub(crate) fn writes_its_words(words: &[ShellWord]) -> bool {
    let Some((name, arguments)) = words.split_first() else { return false };
    let (Some(path), Some(effects)) = (name.text(), EFFECTS.as_ref()) else { return false };
    let mut texts = arguments.iter().filter_map(ShellWord::text);
    match path.rsplit('/').next().unwrap_or(path) {
        "git" => {
            texts.find(|text| !text.starts_with('-')).is_some_and(|it| effects.git_writes_text.contains(it))
        }
        "sed" | "gsed" | "perl" | "ruby" => texts.any(edits_in_place),
        name => effects.writes_text.contains(name),
    }
}

/// Whether a redirection writes a file that keeps what is written, scratch files included.
pub(crate) fn keeps_output(redirection: &Redirection) -> bool {
    redirection.effect == RedirectionEffect::Writes && !redirection.target.shown.starts_with("/dev/")
}

/// Whether a program only says something of itself or of what is there, as in `node --version` and `pip list`.
fn only_tells(name: &str, arguments: &[ShellWord], effects: &Effects) -> bool {
    const ABOUT_ITSELF: [&str; 4] = ["--version", "-V", "--help", "version"];
    let first = arguments.first().and_then(ShellWord::text).unwrap_or_default();
    (arguments.len() == 1 && ABOUT_ITSELF.contains(&first))
        || effects.subcommands.get(name).is_some_and(|known| known.contains(first))
}

/// What a redirection does: files of the system and scratch files directly in `/tmp` are not the project's.
pub(crate) fn effect_of_redirection(redirection: &Redirection) -> CommandEffect {
    match (redirection.effect, redirection.target.text()) {
        (RedirectionEffect::Writes, Some(target)) if is_scratch(target) => CommandEffect::Reads,
        (RedirectionEffect::Writes, _) => CommandEffect::Writes,
        (RedirectionEffect::Reads | RedirectionEffect::Nothing, _) => CommandEffect::Reads,
    }
}

fn is_scratch(path: &str) -> bool {
    path.starts_with("/dev/")
        || path.strip_prefix("/tmp/").is_some_and(|name| !name.contains('/') && !name.is_empty())
}

fn edits_in_place(option: &str) -> bool {
    let is_cluster = |text: &str| {
        text.strip_prefix('-').is_some_and(|letters| {
            !letters.starts_with('-')
                && letters.chars().take(4).any(|c| c == 'i')
                && !letters.starts_with('I')
        })
    };
    IN_PLACE.iter().any(|known| option.starts_with(known)) || is_cluster(option)
}

fn git(arguments: &[ShellWord], effects: &Effects) -> CommandEffect {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.text() {
            Some("-C" | "-c" | "--git-dir" | "--work-tree") => drop(words.next()),
            Some(option) if option.starts_with('-') => {}
            Some(subcommand) if effects.git.contains(subcommand) => return CommandEffect::Reads,
            Some("stash") if matches!(words.next().and_then(ShellWord::text), Some("list" | "show")) => {
                return CommandEffect::Reads;
            }
            Some(_) => return CommandEffect::Writes,
            None => return CommandEffect::Unknown,
        }
    }
    CommandEffect::Reads
}

fn source(arguments: &[ShellWord], effects: &Effects) -> CommandEffect {
    let file = arguments.first().map_or("", |word| word.shown.as_str());
    if effects.activates.iter().any(|end| file.ends_with(end.as_str())) {
        CommandEffect::Reads
    } else {
        CommandEffect::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::bash::parser::parse;

    #[track_caller]
    fn check(command: &str, expected: CommandEffect) {
        let script = parse(command).unwrap();
        assert_eq!(effect_of_words(&script.commands[0].words), expected, "{command}");
    }

    #[test]
    fn find_does_what_it_starts() {
        use CommandEffect::{Reads, Unknown};
        check("find . -name '*.py' -exec grep -l x {} +", Reads);
        check("find . -exec sed -n 1,5p {} \\; -exec wc -l {} \\; -print", Reads);
        check("find . -exec sed -i s/a/b/ {} \\;", Unknown);
        check("find . -exec grep -l x {} \\; -exec ./fix {} \\;", Unknown);
        check("find . -exec grep -l x {} \\; -delete", Unknown);
        check("find . -exec find . -exec ls {} \\; \\;", Unknown);
        check("find . -exec cat {}", Unknown);
        let deep = format!("find . {}ls", "-exec find . ".repeat(5_000));
        check(&deep, Unknown);
    }
}
