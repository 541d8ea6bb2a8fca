//! Shell builtins. Some change what later commands mean: no list grants those.

use super::denial::PolicyResult;
use super::parser::is_name;
use super::script::{ShellWord, WordKind};
use super::tables::FilterTables;
use super::write_places::WritePlaces;

/// Whether a builtin is allowed; `None` where `name` is none or does no harm.
pub(super) fn judge(
    name: &str,
    arguments: &[ShellWord],
    tables: &FilterTables,
    writable: &WritePlaces<'_>,
) -> Option<PolicyResult> {
    match name {
        _ if tables.builtins.refused.contains(name) => {
            Some(Err("this builtin can change what runs: leave it out.".into()))
        }
        "cd" => Some(Err("started by another program it changes nothing: write `cd` alone.".into())),
        "export" => Some(export(arguments, tables, !writable.is_empty())),
        "read" => Some(read(arguments, tables)),
        "set" => Some(set(arguments, tables)),
        "printf" => Some(printf(arguments)),
        "test" | "[" => Some(test(arguments, tables)),
        _ => None,
    }
}

fn export(arguments: &[ShellWord], tables: &FilterTables, in_sandbox: bool) -> PolicyResult {
    let is_harmless = |word: &ShellWord| {
        let (WordKind::Literal(text) | WordKind::Begins(text)) = &word.kind else { return false };
        let name = text.split('=').next().unwrap_or_default();
        // A name of which only the beginning is known is not known.
        let is_whole = text.contains('=') || word.text().is_some();
        is_whole && is_name(name) && tables.variables.passes(name, &word.shown, in_sandbox)
    };
    if arguments.iter().all(is_harmless) {
        Ok(())
    } else {
        Err("it may change what runs: leave it out.".into())
    }
}

fn read(arguments: &[ShellWord], tables: &FilterTables) -> PolicyResult {
    let is_harmless = |word: &ShellWord| {
        word.text().is_some_and(|t| t == "-r" || (is_name(t) && tables.variables.is_harmless(t)))
    };
    if arguments.iter().all(is_harmless) { Ok(()) } else { Err("only `-r` and plain names pass.".into()) }
}

fn set(arguments: &[ShellWord], tables: &FilterTables) -> PolicyResult {
    let is_harmless = |word: &ShellWord| {
        let Some(text) = word.text() else { return false };
        let letters = text.strip_prefix(['-', '+']);
        tables.builtins.set.contains(text)
            || letters.is_some_and(|l| !l.is_empty() && l.chars().all(|c| "efoux".contains(c)))
    };
    if arguments.iter().all(is_harmless) {
        Ok(())
    } else {
        Err("only -e, -f, -u, -x and -o pipefail pass.".into())
    }
}

fn printf(arguments: &[ShellWord]) -> PolicyResult {
    let (format, values) = match arguments {
        [dashes, rest @ ..] if dashes.text() == Some("--") => rest.split_first(),
        _ => arguments.split_first(),
    }
    .map_or((None, [].as_slice()), |(format, values)| (Some(format), values));
    let Some(format) = format else { return Ok(()) };
    match format.text() {
        Some(text) if text.starts_with("-v") => Err("`-v` sets a variable.".into()),
        Some(text) if !values.is_empty() && counts_into_variable(text) => Err("`%n` sets a variable.".into()),
        None if !format.is_operand() || !values.is_empty() => {
            Err("its format must be spelt out, as in `printf '%s' \"$x\"`: `-v` and `%n` set variables."
                .into())
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether a format has the conversion `%n`, which sets the variable that its argument names.
fn counts_into_variable(format: &str) -> bool {
    const BETWEEN: &str = "#'-+ 0123456789.*hjlLtz";
    let mut rest = format;
    while let Some((_, after)) = rest.split_once('%') {
        let conversion = after.trim_start_matches(|c| BETWEEN.contains(c));
        if conversion.starts_with('n') {
            return true;
        }
        rest = after.strip_prefix('%').unwrap_or(after);
    }
    false
}

/// `test -v` evaluates the index of an element. So an operand that is not known must be where no operator can be.
fn test(arguments: &[ShellWord], tables: &FilterTables) -> PolicyResult {
    let is_operator = |word: Option<&ShellWord>| {
        word.and_then(ShellWord::text).is_some_and(|t| tables.builtins.test_operators.contains(t) && t != "!")
    };
    for (at, word) in arguments.iter().enumerate() {
        let passes = match &word.kind {
            WordKind::Literal(text) => !matches!(text.as_str(), "-v" | "-R"),
            WordKind::Begins(_) => word.is_operand(),
            WordKind::One => {
                (at > 0 && is_operator(arguments.get(at - 1))) || is_operator(arguments.get(at + 1))
            }
            WordKind::FileNames(_) | WordKind::Many => false,
        };
        if !passes {
            return Err(format!("`{}` could make it evaluate something.", word.shown).into());
        }
    }
    Ok(())
}
