//! Expansions and arithmetic that only make text of values and constants.
//!
//! bash evaluates the value of a variable in arithmetic as an expression again, and the index in `a[$(evil)]` runs a
//! command then. So a variable is calculated with only if every assignment to it in the whole script is seen, and gives it
//! an integer ([`integers`]).

use std::collections::{BTreeMap, BTreeSet};

use super::parser::is_name;
use super::script::{ParsedScript, PlainConstruct, ShellWord, Simple, WordKind};

/// Builtins that set the variables that they name.
const SETTERS: [&str; 11] = [
    "declare",
    "export",
    "getopts",
    "local",
    "mapfile",
    "read",
    "readarray",
    "readonly",
    "typeset",
    "unset",
    "wait",
];

/// Variables that bash sets without being asked to.
const SET_BY_BASH: [&str; 7] = ["DIRSTACK", "FUNCNAME", "MAPFILE", "OLDPWD", "OPTARG", "PWD", "REPLY"];

/// Whether it is an integer as bash writes one.
pub(super) fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
}

/// What `text` calculates with, if it consists of integers, names and operators.
pub(super) fn plain_arithmetic(text: &str) -> Option<PlainConstruct> {
    // Would be a process substitution anywhere else.
    if text.contains("<(") || text.contains(">(") {
        return None;
    }
    let mut plain = PlainConstruct::default();
    let mut rest = text;
    // Whether a name or number that comes now would be one word with what was before.
    let mut is_glued = false;
    while let Some(c) = rest.chars().next() {
        if c.is_ascii_alphanumeric() || c == '_' {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            if is_glued {
                return None;
            }
            let (word, after) = rest.split_at(end);
            if is_name(word) {
                if is_set(&text[..text.len() - rest.len()], after) {
                    plain.sets.push(word.to_owned());
                }
                plain.integers.push(word.to_owned());
            }
            (rest, is_glued) = (after, true);
        } else if c == '$' {
            let (name, after) = value(&rest[1..])?;
            if is_glued {
                return None;
            }
            plain.integers.extend(name.map(str::to_owned));
            (rest, is_glued) = (after, true);
        } else if " \t+-*/%()<>=!&|^~?:,".contains(c) {
            (rest, is_glued) = (&rest[1..], false);
        } else {
            return None;
        }
    }
    Some(plain)
}

/// The variable that `$…` names, and what follows it. No variable: an integer, whatever is set.
fn value(text: &str) -> Option<(Option<&str>, &str)> {
    if let Some(after) = text.strip_prefix(['#', '?']) {
        return Some((None, after));
    }
    let (inside, after) = match text.strip_prefix('{') {
        Some(rest) => rest.split_once('}')?,
        None => {
            let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
            text.split_at(end)
        }
    };
    match inside.strip_prefix('#') {
        // The length of a value.
        Some(name) => (is_name(name) || is_name(name.strip_suffix("[@]")?)).then_some((None, after)),
        None => is_name(inside).then_some((Some(inside), after)),
    }
}

/// Whether a name between these is assigned to: `n = 1`, `n += 1`, `n++`, `--n`.
fn is_set(before: &str, after: &str) -> bool {
    let (before, after) = (before.trim_end(), after.trim_start());
    let operator = after.trim_start_matches(|c| "+-*/%&|^<>".contains(c));
    let assigns = operator.starts_with('=')
        && !operator.starts_with("==")
        && !matches!(&after[..after.len() - operator.len()], "<" | ">");
    assigns || ["++", "--"].iter().any(|step| before.ends_with(step) || after.starts_with(step))
}

/// What `${…}` calculates with, if it makes its text of values and constants.
pub(super) fn plain_parameter(inside: &str) -> Option<PlainConstruct> {
    if inside == "#" {
        return Some(PlainConstruct::default());
    }
    let (is_length, rest) = match inside.strip_prefix('#') {
        Some(rest) => (true, rest),
        None => (false, inside),
    };
    let end = match rest.chars().next()? {
        '@' | '*' => 1,
        c if c.is_ascii_digit() => rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()),
        _ => rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len()),
    };
    let mut rest = &rest[end..];
    if end == 0 {
        return None;
    }
    let mut plain = PlainConstruct::default();
    if let Some(indexed) = rest.strip_prefix('[') {
        let (index, after) = indexed.split_once(']')?;
        if !matches!(index, "@" | "*") {
            plain = only_reads(index)?;
        }
        rest = after;
    }
    if rest.is_empty() {
        return Some(plain);
    }
    if is_length {
        return None;
    }
    const OPERATORS: [&str; 16] =
        [":-", ":+", ":?", "-", "+", "?", "%%", "%", "##", "#", "//", "/", "^^", "^", ",,", ","];
    if let Some(word) = OPERATORS.iter().find_map(|operator| rest.strip_prefix(operator)) {
        return is_constant(word).then_some(plain);
    }
    // A part of the value: from where, and how much.
    let parts = rest.strip_prefix(':').filter(|parts| !parts.starts_with('='))?;
    for part in parts.split(':') {
        plain.integers.extend(only_reads(part)?.integers);
    }
    Some(plain)
}

/// The same of the three parts in `for ((…; …; …))`.
pub(super) fn plain_steps(text: &str) -> Option<PlainConstruct> {
    let parts: Option<Vec<PlainConstruct>> = text.split(';').map(plain_arithmetic).collect();
    parts.map(|parts| parts.into_iter().fold(PlainConstruct::default(), PlainConstruct::with))
}

fn only_reads(text: &str) -> Option<PlainConstruct> {
    plain_arithmetic(text).filter(|plain| plain.sets.is_empty())
}

/// Whether a pattern or a text consists of constants and values that are not expanded again.
fn is_constant(word: &str) -> bool {
    let mut chars = word.chars().peekable();
    while let Some(c) = chars.next() {
        let passes = match c {
            '\\' => chars.next().is_some_and(|escaped| "/.*?[]".contains(escaped)),
            '$' => chars.peek().is_some_and(|next| next.is_ascii_alphabetic() || *next == '_'),
            _ => c.is_ascii_alphanumeric() || " _-./*?,:+=%~^#[]".contains(c),
        };
        if !passes {
            return false;
        }
    }
    true
}

/// The variable that an operand of `-eq` and its like names, if it is an integer provided that the variable is.
pub(super) fn compared(word: &ShellWord) -> Option<PlainConstruct> {
    match &word.kind {
        WordKind::Literal(text) if is_integer(text) => Some(PlainConstruct::default()),
        WordKind::Literal(text) => {
            is_name(text).then(|| PlainConstruct { integers: vec![text.clone()], sets: Vec::new() })
        }
        WordKind::One | WordKind::Many => {
            let calculated = word.shown.strip_prefix("$((").and_then(|rest| rest.strip_suffix("))"));
            match calculated {
                Some(text) => plain_arithmetic(text),
                None => plain_arithmetic(&word.shown),
            }
        }
        WordKind::Begins(_) | WordKind::FileNames(_) => None,
    }
}

/// Whether the words of a loop are integers: spelt out, `{1..5}`, or what `seq` counts.
pub(super) fn are_integers(words: &[ShellWord]) -> bool {
    let counts = |word: &ShellWord| match &word.kind {
        WordKind::Literal(text) => is_integer(text),
        WordKind::One | WordKind::Many => {
            let range = word.shown.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            let seq = word.shown.strip_prefix("$(seq ").and_then(|rest| rest.strip_suffix(')'));
            range.is_some_and(|range| range.split("..").all(is_integer))
                || seq.is_some_and(|seq| seq.split(' ').all(is_integer))
        }
        WordKind::Begins(_) | WordKind::FileNames(_) => false,
    };
    !words.is_empty() && words.iter().all(counts)
}

/// The variables that are integers wherever `script` sets them.
pub(super) fn integers(script: &ParsedScript) -> BTreeSet<&str> {
    let mut found: BTreeMap<&str, bool> = BTreeMap::new();
    let mut set = |name, is_integer| *found.entry(name).or_insert(true) &= is_integer;
    for part in script.with_heredocs() {
        for simple in &part.commands {
            simple.assignments.iter().for_each(|one| set(&one.name, one.is_integer));
            let Some(names) = set_by_builtin(simple) else { return BTreeSet::new() };
            names.into_iter().for_each(|name| set(name, false));
        }
        part.loop_variables.iter().for_each(|one| set(&one.name, one.is_integer));
        let plain = part.unfollowed.iter().filter_map(|one| one.plain.as_ref());
        plain.flat_map(|plain| &plain.sets).for_each(|name| set(name, true));
    }
    found.retain(|name, is_integer| *is_integer && !SET_BY_BASH.contains(name));
    found.into_keys().collect()
}

/// The variables that a builtin may set; `None` where it could be any.
fn set_by_builtin(simple: &Simple) -> Option<Vec<&str>> {
    let sets = simple.words.iter().any(|word| word.text().is_some_and(|text| SETTERS.contains(&text)));
    if !sets {
        return Some(Vec::new());
    }
    simple.words.iter().map(named).collect()
}

/// The name of the variable that an argument of such a builtin names.
fn named(word: &ShellWord) -> Option<&str> {
    match &word.kind {
        WordKind::Literal(text) => text.split(['=', '+']).next(),
        WordKind::Begins(text) => text.split_once('=').map(|(name, _)| name),
        WordKind::FileNames(_) | WordKind::One | WordKind::Many => None,
    }
}
