//! Programs that start the program named by their arguments. Listing one grants nothing for the program it starts.

use super::denial::{Denial, PolicyResult};
use super::judge::FilterContext;
use super::options::{ProgramOptions, not_granted};
use super::parser::is_name;
use super::script::{ShellWord, WordKind};
use super::tables::OptionRule;

/// Whether a wrapper is allowed; `None` where `name` is none.
pub(super) fn judge(name: &str, arguments: &[ShellWord], rules: FilterContext<'_>) -> Option<PolicyResult> {
    if name == "command" {
        return Some(command_builtin(arguments, rules));
    }
    Some(match (rules.tables.rule(name)?, name) {
        (OptionRule::Code(options), "env") => env(arguments, options, rules),
        (OptionRule::Code(options), "xargs") => xargs(arguments, options, rules),
        (OptionRule::Code(options), "nice") => nice(arguments, options, rules),
        (OptionRule::Starts { after, options }, _) => started(options, arguments, *after, rules),
        (OptionRule::Unread, _) => {
            Err("it starts other programs in ways that are not followed here: call them by themselves."
                .into())
        }
        // A name in the tables without code for it.
        (OptionRule::Code(_), _) => Err("it is not known how to judge it.".into()),
        (
            OptionRule::Pass(_)
            | OptionRule::PassWithOneOperand(_)
            | OptionRule::Refuse(_)
            | OptionRule::OperandsOnly,
            _,
        ) => {
            return None;
        }
    })
}

/// Judges the program after the options and `skipped` operands.
fn started(
    options: &ProgramOptions,
    arguments: &[ShellWord],
    skipped: usize,
    rules: FilterContext<'_>,
) -> PolicyResult {
    let operands = options.operands(arguments, rules.writable)?;
    if operands.iter().take(skipped).any(|word| !word.is_one()) {
        return Err("its own operands must be spelt out.".into());
    }
    rules.started(operands.get(skipped..).unwrap_or_default())
}

fn env(arguments: &[ShellWord], options: &ProgramOptions, rules: FilterContext<'_>) -> PolicyResult {
    let mut rest = options.operands(arguments, rules.writable)?;
    while let Some((first, after)) = rest.split_first() {
        let (WordKind::Literal(text) | WordKind::Begins(text)) = &first.kind else { break };
        let Some((name, _)) = text.split_once('=') else { break };
        let in_sandbox = !rules.writable.is_empty();
        if !is_name(name) || !rules.tables.variables.passes(name, &first.shown, in_sandbox) {
            return Err(format!("setting `{name}` can change what runs.").into());
        }
        rest = after;
    }
    rules.started(rest)
}

fn xargs(arguments: &[ShellWord], options: &ProgramOptions, rules: FilterContext<'_>) -> PolicyResult {
    let inner = options.operands(arguments, rules.writable)?;
    let Some((name, given)) = inner.split_first() else {
        return rules.started(&[ShellWord::literal("echo")]);
    };
    let own = &arguments[..arguments.len() - inner.len()];
    let mut words = vec![name.clone()];
    if replaces(own)? {
        // What it reads may become any part of any argument.
        words.extend(given.iter().map(|word| ShellWord { shown: word.shown.clone(), kind: WordKind::One }));
    } else {
        words.extend_from_slice(given);
        words.push(ShellWord { shown: "(what xargs reads)".into(), kind: WordKind::Many });
    }
    rules.started(&words)
}

/// Whether xargs is to replace a mark in its arguments. The mark must be one that is in no program's name: the name
/// would be replaced, too.
fn replaces(own: &[ShellWord]) -> Result<bool, Denial> {
    let mut found = false;
    for (at, word) in own.iter().enumerate() {
        let Some((_, glued)) = word.text().filter(|t| !t.starts_with("--")).and_then(|t| t.split_once('I'))
        else {
            continue;
        };
        let mark = if glued.is_empty() {
            own.get(at + 1).and_then(ShellWord::text).unwrap_or_default()
        } else {
            glued
        };
        if !matches!(mark, "{}" | "%" | "@") {
            return Err("the mark to replace must be {}, % or @.".into());
        }
        found = true;
    }
    Ok(found)
}

fn command_builtin(arguments: &[ShellWord], rules: FilterContext<'_>) -> PolicyResult {
    match arguments.first().and_then(ShellWord::text) {
        // It only prints what would run.
        Some("-v" | "-V") => Ok(()),
        Some(option) if option.starts_with('-') && option != "--" => Err(not_granted(option)),
        Some("--") => rules.started(&arguments[1..]),
        _ => rules.started(arguments),
    }
}

fn nice(arguments: &[ShellWord], options: &ProgramOptions, rules: FilterContext<'_>) -> PolicyResult {
    let is_level =
        |t: &str| t.strip_prefix('-').is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()));
    if arguments.first().and_then(ShellWord::text).is_some_and(is_level) {
        return rules.started(&arguments[1..]);
    }
    started(options, arguments, 0, rules)
}
