//! `find`: an expression in which some words write, delete or start something.

use super::denial::{Denial, PolicyResult};
use super::judge::FilterContext;
use super::options::{could_be_option, not_granted};
use super::script::{ShellWord, WordKind};
use super::tables::FilterTables;
use super::write_places::WritePlaces;

/// The mark that becomes a file's name.
const FOUND: &str = "{}";

/// Whether a call of `find` is allowed; `None` where it is another program. In the sandbox it may start listed programs, and
/// delete what may be written if `rm` is listed.
pub(super) fn judge(name: &str, arguments: &[ShellWord], rules: FilterContext<'_>) -> Option<PolicyResult> {
    (name == "find").then(|| {
        expression(arguments, rules.tables, |action, words| judge_action(action, words, arguments, rules))
    })
}

/// The same where no action passes but to start what `reads` lets pass.
pub(super) fn looks(
    name: &str,
    arguments: &[ShellWord],
    tables: &FilterTables,
    reads: impl Fn(&[ShellWord]) -> bool,
) -> Option<PolicyResult> {
    (name == "find").then(|| {
        expression(arguments, tables, |action, words| match started(action, words)? {
            (started, after) if reads(started) => Ok(after),
            _ => Err(not_granted(action)),
        })
    })
}

/// Judges an expression. `action` judges what is not known to look, and returns the words after it.
fn expression<'w>(
    arguments: &'w [ShellWord],
    tables: &FilterTables,
    action: impl Fn(&str, &'w [ShellWord]) -> Result<&'w [ShellWord], Denial>,
) -> PolicyResult {
    let table = &tables.find;
    let mut rest = arguments;
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        match &word.kind {
            WordKind::Literal(text) if text.starts_with('-') && text != "-" => {
                let Some(count) = table.looks.get(text) else {
                    rest = action(text, after)?;
                    continue;
                };
                for _ in 0..*count {
                    rest = match rest.split_first() {
                        Some((value, after)) if value.is_one() => after,
                        // A pattern without quotes: what it becomes is looked at like any other word.
                        _ => break,
                    };
                }
            }
            WordKind::FileNames(ending) if !table.acts.iter().any(|act| act.ends_with(ending.as_str())) => {}
            _ if word.is_operand() => {}
            _ => return Err(could_be_option(word)),
        }
    }
    Ok(())
}

/// Judges an action, which passes in the sandbox alone. Returns what follows it.
fn judge_action<'w>(
    name: &str,
    words: &'w [ShellWord],
    arguments: &[ShellWord],
    rules: FilterContext<'_>,
) -> Result<&'w [ShellWord], Denial> {
    match name {
        _ if rules.is_confined => {}
        "-exec" | "-execdir" => {
            return Err(format!(
                "`{name}` may not be used here: pipe the names to `xargs`, or use `grep -r`."
            )
            .into());
        }
        _ => return Err(not_granted(name)),
    }
    let found = found_names(arguments, rules.writable);
    if name == "-delete" {
        rules.allowed.holds("rm")?;
        rules.writable.check(&found)?;
        return Ok(words);
    }
    let (started, after) = started(name, words)?;
    rules.started(&started.iter().map(|word| with_name(word, &found)).collect::<Vec<_>>())?;
    Ok(after)
}

/// The words of the program that an action starts, and what follows them.
fn started<'w>(name: &str, words: &'w [ShellWord]) -> Result<(&'w [ShellWord], &'w [ShellWord]), Denial> {
    if !matches!(name, "-exec" | "-execdir") {
        return Err(not_granted(name));
    }
    let is_end = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| words[before].text());
        match words[at].text() {
            Some(";") => true,
            Some("+") => before == Some(FOUND),
            _ => false,
        }
    };
    let Some(end) = (0..words.len()).find(|at| is_end(*at)) else {
        return Err(format!("`{name}` without its `;` or `+`.").into());
    };
    Ok((&words[..end], &words[end + 1..]))
}

/// What is known of the names that `find` finds: they begin with where it starts, which is never an option.
fn found_names(arguments: &[ShellWord], writable: &WritePlaces<'_>) -> ShellWord {
    let is_flag = |word: &&ShellWord| {
        word.text().is_some_and(|text| matches!(text, "-H" | "-L" | "-P") || text.starts_with("-O"))
    };
    let is_start =
        |word: &&ShellWord| word.is_operand() && !word.text().is_some_and(|text| matches!(text, "(" | "!"));
    let starts: Vec<&ShellWord> = arguments.iter().skip_while(is_flag).take_while(is_start).collect();
    let below = |word: &ShellWord| word.text().map(|start| format!("{start}/"));
    let known = match starts.as_slice() {
        [] => "./".to_owned(),
        [only] => below(only).unwrap_or_else(|| "/".to_owned()),
        // What is true of all of them: they may be written, or nothing is known.
        several if several.iter().all(|start| writable.check(start).is_ok()) => "./".to_owned(),
        _ => "/".to_owned(),
    };
    ShellWord { shown: FOUND.to_owned(), kind: WordKind::Begins(known) }
}

/// A word of a command that `find` starts.
fn with_name(word: &ShellWord, found: &ShellWord) -> ShellWord {
    let Some((before, _)) = word.text().and_then(|text| text.split_once(FOUND)) else { return word.clone() };
    let kind = match before {
        "" => found.kind.clone(),
        _ if before.starts_with('-') => WordKind::One,
        _ => WordKind::Begins(before.to_owned()),
    };
    ShellWord { shown: word.shown.clone(), kind }
}
