//! The allowlist: every name that would run is listed, and no listed program gets an option by which it runs or writes more.

use std::collections::BTreeSet;

use super::SHOWN;
use super::allowlist::Allowlist;
use super::builtins;
use super::calculation::{compared, integers};
use super::denial::{Denial, PolicyResult};
use super::directory::{Directory, ProjectRoot, cd_arguments};
use super::find;
use super::git;
use super::options::NOT_GRANTED;
use super::programs;
use super::script::{
    Assignment, LoopVariable, ParsedScript, Redirection, RedirectionEffect, ShellWord, Unfollowed, WordKind,
};
use super::tables::FilterTables;
use super::wrappers;
use super::write_places::WritePlaces;
use crate::text::truncate;

/// Directories whose programs may be named by path, if their names are listed.
const SYSTEM: [&str; 2] = ["/bin/", "/usr/bin/"];

/// Most programs that start one another, as in `env nice timeout 5 ls`.
const MAX_WRAPPERS: usize = 10;

/// What a command is judged by.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilterContext<'a> {
    /// The programs that may run.
    pub(super) allowed: &'a Allowlist<'a>,
    pub(super) project: &'a ProjectRoot<'a>,
    /// Where commands may write.
    pub(super) writable: &'a WritePlaces<'a>,
    /// Whether the sandbox confines commands to that.
    pub(super) is_confined: bool,
    pub(super) tables: &'static FilterTables,
    /// The variables that may be calculated with, where plain constructs pass.
    integers: Option<&'a BTreeSet<&'a str>>,
    /// How many programs start one another up to here.
    wrapped: usize,
}

impl<'a> FilterContext<'a> {
    pub(super) fn new(
        allowed: &'a Allowlist<'a>,
        project: &'a ProjectRoot<'a>,
        writable: &'a WritePlaces<'a>,
        is_confined: bool,
        tables: &'static FilterTables,
    ) -> Self {
        Self { allowed, project, writable, is_confined, tables, integers: None, wrapped: 0 }
    }

    /// Judges the program that another one starts.
    pub(super) fn started(mut self, words: &[ShellWord]) -> PolicyResult {
        self.wrapped += 1;
        if self.wrapped > MAX_WRAPPERS {
            return Err(format!("more than {MAX_WRAPPERS} programs start one another.").into());
        }
        command(words, self)
    }
}

/// Judges everything that a script would do.
pub(super) fn judge(script: &ParsedScript, rules: FilterContext<'_>) -> PolicyResult {
    // Where the sandbox is the wall, plain constructs pass.
    let integers = (!rules.writable.is_empty()).then(|| integers(script));
    let rules = FilterContext { integers: integers.as_ref(), ..rules };
    script.with_heredocs().try_for_each(|part| judge_part(part, rules))
}

fn judge_part(script: &ParsedScript, rules: FilterContext<'_>) -> PolicyResult {
    script.unfollowed.iter().try_for_each(|one| unfollowed(one, rules))?;
    let changes = |one: &&LoopVariable| !rules.tables.variables.is_harmless(&one.name);
    if let Some(variable) = script.loop_variables.iter().find(changes) {
        return Err(changes_meaning(&variable.name));
    }
    let redirected = |all: &[Redirection]| all.iter().try_for_each(|one| redirection(one, rules.writable));
    redirected(&script.redirections)?;
    let mut directory = Directory::new(rules.project, rules.writable);
    for simple in &script.commands {
        let variables = &rules.tables.variables;
        let passes = |a: &Assignment| variables.passes(&a.name, &a.shown, !rules.writable.is_empty());
        if let Some(bad) = simple.assignments.iter().find(|assignment| !passes(assignment)) {
            return Err(changes_meaning(&bad.name));
        }
        redirected(&simple.redirections)?;
        if let Some(arguments) = cd_arguments(&simple.words) {
            // In `command cd` the `cd` is implied, and `command` is not.
            if arguments.len() + 2 == simple.words.len() {
                listed(&simple.words[0], rules)?;
            }
            directory.change(simple, arguments)?;
        } else if !(simple.follows_failed_cd && is_exit(&simple.words)) {
            command(&simple.words, rules)?;
        }
    }
    Ok(())
}

/// Judges a construct whose effect is not followed.
fn unfollowed(one: &Unfollowed, rules: FilterContext<'_>) -> PolicyResult {
    let Some((integers, plain)) = rules.integers.zip(one.plain.as_ref()) else {
        return Err(format!(
            "{} is not followed here. Write it more plainly, as several calls if need be.",
            truncate(&one.what, SHOWN)
        )
        .into());
    };
    let variables = &rules.tables.variables;
    let doubtful = |name: &&String| !integers.contains(name.as_str()) || !variables.is_harmless(name);
    match plain.integers.iter().find(doubtful) {
        None => Ok(()),
        Some(name) => Err(format!(
            "it calculates with `{}`, which may be no integer, and bash runs commands that stand in what it calculates \
             with. Calculate with variables that only this command sets, to integers that are spelt out.",
            truncate(name, SHOWN)
        ).into()),
    }
}

/// `exit`, with a status that is spelt out: after `cd … ||` it is part of the change of directory.
fn is_exit(words: &[ShellWord]) -> bool {
    let is_status = |word: &ShellWord| word.text().is_some_and(|t| t.chars().all(|c| c.is_ascii_digit()));
    matches!(words, [name, status @ ..] if name.text() == Some("exit") && status.len() < 2 && status.iter().all(is_status))
}

/// Judges one command: a name and its arguments.
fn command(words: &[ShellWord], rules: FilterContext<'_>) -> PolicyResult {
    let Some((name, arguments)) = words.split_first() else { return Ok(()) };
    let program = listed(name, rules)?;
    let judged = match program {
        "test" | "[" if rules.integers.is_some() => {
            let known: Vec<ShellWord> = arguments.iter().map(|word| with_integer(word, rules)).collect();
            builtins::judge(program, &known, rules.tables, rules.writable).unwrap_or(Ok(()))
        }
        "git" => git::judge(arguments, rules.project, rules.tables),
        _ => builtins::judge(program, arguments, rules.tables, rules.writable)
            .or_else(|| find::judge(program, arguments, rules))
            .or_else(|| programs::judge(program, arguments, rules.tables, rules.writable))
            .or_else(|| wrappers::judge(program, arguments, rules))
            .unwrap_or(Ok(())),
    };
    judged.map_err(|denial| {
        let mut denial = denial.of(&truncate(program, SHOWN));
        if let Some(known) = rules.tables.why(program).filter(|_| denial.why.ends_with(NOT_GRANTED)) {
            denial.why.push_str(&format!(" Of {program} it is known: {known}."));
        }
        denial
    })
}

/// A word of `test`. One that is an integer, as in `[ $i -lt 3 ]`, is no operator, whatever it is.
fn with_integer(word: &ShellWord, rules: FilterContext<'_>) -> ShellWord {
    let is_integer = |name: &String| rules.integers.is_some_and(|integers| integers.contains(name.as_str()));
    let plain = if word.kind == WordKind::Many { compared(word) } else { None };
    if plain.is_some_and(|plain| plain.integers.iter().all(is_integer)) {
        ShellWord { shown: word.shown.clone(), kind: WordKind::Literal("0".to_owned()) }
    } else {
        word.clone()
    }
}

/// The program that a command's first word names, if it is listed.
fn listed<'w>(name: &'w ShellWord, rules: FilterContext<'_>) -> Result<&'w str, Denial> {
    let Some(text) = name.text() else {
        return Err(format!(
            "the name of a program must be spelt out, not come from an expansion: `{}`.",
            truncate(&name.shown, SHOWN)
        )
        .into());
    };
    let program = SYSTEM.iter().find_map(|dir| text.strip_prefix(dir)).unwrap_or(text);
    if program.contains('/') {
        return Err(format!("`{}` is a path: call programs by their names.", truncate(text, SHOWN)).into());
    }
    rules.allowed.holds(program).map(|()| program)
}

fn redirection(redirection: &Redirection, writable: &WritePlaces<'_>) -> PolicyResult {
    let shown = format!("{} {}", redirection.operator, truncate(&redirection.target.shown, SHOWN));
    match redirection.effect {
        RedirectionEffect::Nothing => Ok(()),
        RedirectionEffect::Writes if redirection.target.text() == Some("/dev/null") => Ok(()),
        RedirectionEffect::Writes if writable.is_empty() => {
            let instead =
                "Leave it out, you get the output anyway; where a file is needed, use Write if you have it.";
            Err(format!("`{shown}` writes a file, which a command may not do here. {instead}").into())
        }
        RedirectionEffect::Writes => {
            writable.check_redirection(&redirection.target).map_err(|denial| denial.of(&shown))
        }
        RedirectionEffect::Reads => match redirection.target.text() {
            Some(text) if !is_network(text) => Ok(()),
            Some(_) => Err(format!("`{shown}` opens a network connection.").into()),
            None => Err(format!("`{shown}`: what is read must be spelt out.").into()),
        },
    }
}

/// The files by which bash reaches the network, in any spelling of the path.
fn is_network(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty() && *p != ".").collect();
    parts.contains(&"dev") && (parts.contains(&"tcp") || parts.contains(&"udp"))
}

fn changes_meaning(name: &str) -> Denial {
    let shown = truncate(name, SHOWN);
    format!("setting `{shown}` can change what runs or what is loaded: leave it out.").into()
}
