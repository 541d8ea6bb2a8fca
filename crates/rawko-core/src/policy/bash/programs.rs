//! Programs that read, but have options that write or start something. Listing them does not grant those.

use super::denial::{Denial, PolicyResult};
use super::options::{ProgramOptions, not_granted};
use super::script::{ShellWord, WordKind};
use super::stream_editors;
use super::tables::{FilterTables, OptionRule};
use super::write_places::WritePlaces;

/// Whether the options are allowed of a program that starts no other; `None` where there is no rule for it.
pub(super) fn judge(
    name: &str,
    arguments: &[ShellWord],
    tables: &FilterTables,
    writable: &WritePlaces<'_>,
) -> Option<PolicyResult> {
    Some(match (tables.rule(name)?, name) {
        (OptionRule::Pass(options), _) => options.operands(arguments, writable).map(drop),
        (OptionRule::PassWithOneOperand(options), _) => {
            options.operands(arguments, writable).and_then(|operands| at_most_one(operands, writable))
        }
        (OptionRule::Refuse(options), _) => options.judge(arguments, writable),
        (OptionRule::OperandsOnly, _) => operands_only(arguments),
        (OptionRule::Code(options), "tar" | "gtar" | "bsdtar") => tar(arguments, options),
        (OptionRule::Code(options), "sqlite3") => sqlite(arguments, options),
        (OptionRule::Code(options), "sed" | "gsed") => stream_editors::sed(arguments, options, writable),
        (OptionRule::Code(options), "awk" | "gawk" | "mawk" | "nawk") => {
            stream_editors::awk(arguments, options)
        }
        (OptionRule::Code(_) | OptionRule::Starts { .. } | OptionRule::Unread, _) => return None,
    })
}

fn at_most_one(operands: &[ShellWord], writable: &WritePlaces<'_>) -> PolicyResult {
    match operands {
        [] => Ok(()),
        [only] if only.is_one() => Ok(()),
        [first, written] if first.is_one() && !writable.is_empty() => writable.check(written),
        _ => Err("its second operand would be written.".into()),
    }
}

/// Making and unpacking archives is its purpose; starting programs is not.
fn tar(arguments: &[ShellWord], options: &ProgramOptions) -> PolicyResult {
    // An archive whose name has a colon is on another machine, reached by a program.
    let doubtful =
        |word: &ShellWord| word.text().is_none_or(|text| text.contains(':')) && !is_plain_operand(word);
    if arguments.iter().any(doubtful) {
        return Err("every word must be spelt out, and none may hold a colon.".into());
    }
    let words = match arguments.split_first() {
        Some((first, rest)) if first.is_operand() => tar_old_form(options, first, rest)?,
        _ => arguments,
    };
    options.operands(words, &WritePlaces::none()).map(drop)
}

/// The old form, `tar cfC x.tar dir …`: the first word is letters without a dash, and their values are the next words,
/// in the order of the letters.
fn tar_old_form<'w>(
    options: &ProgramOptions,
    letters: &ShellWord,
    mut rest: &'w [ShellWord],
) -> Result<&'w [ShellWord], Denial> {
    let Some(letters) = letters.text().filter(|text| !text.is_empty()) else {
        return Err("its first word must be spelt out.".into());
    };
    for letter in letters.chars() {
        if options.values.contains(letter) {
            rest = match rest.split_first() {
                Some((value, after)) if value.is_one() => after,
                _ => return Err(format!("the value of `{letter}` must be one word.").into()),
            };
        } else if !options.flags.contains(letter) {
            return Err(not_granted(&letter.to_string()));
        }
    }
    Ok(rest)
}

/// A query that is spelt out, which leaves other files and programs alone. Without one it takes commands from its input.
fn sqlite(arguments: &[ShellWord], options: &ProgramOptions) -> PolicyResult {
    const REACHES_OUT: [&str; 7] = ["attach", "edit(", "load_extension", "vacuum", "writefile", "/*", "--"];
    let mut rest = arguments;
    while let [option, after @ ..] = rest
        && !option.is_operand()
    {
        // `-header` and `--header` are the same.
        let text = option.text().unwrap_or_default().trim_start_matches('-');
        rest = after;
        if options.long_values.iter().any(|known| known == text) {
            rest = rest
                .split_first()
                .filter(|(value, _)| value.is_one())
                .map(|(_, after)| after)
                .ok_or("the value of an option must be one word.")?;
        } else if !options.long_flags.iter().any(|known| known == text) {
            return Err(not_granted(&option.shown));
        }
    }
    let [database, queries @ ..] = rest else {
        return Err("give it a database and a query.".into());
    };
    let query = |word: &ShellWord| {
        let text = word.text().filter(|text| !text.trim_start().starts_with(['.', '-']))?.to_lowercase();
        let squeezed: String =
            text.chars().filter(|c| !c.is_whitespace() && !"\"'`[]".contains(*c)).collect();
        (!REACHES_OUT.iter().any(|part| squeezed.contains(part))).then_some(())
    };
    const TELLS: [&str; 6] = [".databases", ".dump", ".fullschema", ".indexes", ".schema", ".tables"];
    let tells = |word: &ShellWord| word.text().is_some_and(|text| TELLS.contains(&text));
    let passes = |word: &ShellWord| tells(word) || query(word).is_some();
    if database.is_one() && !queries.is_empty() && queries.iter().all(passes) {
        Ok(())
    } else {
        Err("give it a database and queries that are spelt out, without `ATTACH`, `VACUUM`, functions that write or \
             load, and dot commands other than `.schema`, `.tables`, `.dump`, `.indexes` and `.databases`."
            .into())
    }
}

fn is_plain_operand(word: &ShellWord) -> bool {
    matches!(word.kind, WordKind::Begins(_)) && word.is_operand() && !word.shown.contains(':')
}

/// Neither options nor what begins with `+`, which is a command to a pager.
fn operands_only(arguments: &[ShellWord]) -> PolicyResult {
    match arguments.iter().find(|word| !word.is_operand() || word.shown.starts_with('+')) {
        None => Ok(()),
        Some(word) => Err(not_granted(&word.shown)),
    }
}
