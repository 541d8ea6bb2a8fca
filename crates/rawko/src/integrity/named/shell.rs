//! Shell text as far as it matters for the names in it: variables with constant values, the script's own folder, and which
//! commands are only the source of what another one compares.

use std::collections::{BTreeMap, BTreeSet};

/// How scripts name the folder that they are in.
const OWN_FOLDER: &[&str] = &[
    "$(dirname \"${BASH_SOURCE[0]}\")",
    "$(dirname -- \"${BASH_SOURCE[0]}\")",
    "$(dirname \"$BASH_SOURCE\")",
    "$(dirname ${BASH_SOURCE[0]})",
    "$(dirname \"$0\")",
    "$(dirname -- \"$0\")",
    "$(dirname $0)",
    "`dirname \"$0\"`",
    "`dirname $0`",
    "${BASH_SOURCE[0]%/*}",
    "${BASH_SOURCE%/*}",
    "${0%/*}",
];
/// Programs that compare what others printed.
const COMPARERS: &[&str] = &["diff", "cmp", "comm", "grep", "egrep", "fgrep", "rg", "test", "[", "[["];
/// Whether a program compares what others printed.
pub(super) fn compares(program: &str) -> bool {
    COMPARERS.contains(&program)
}

/// Variables that are followed.
const MAX_VARIABLES: usize = 100;

/// Puts the values of constant variables and `own_folder` in the places of their names.
pub(super) fn expanded(text: &str, own_folder: &str) -> String {
    let own_folder = if own_folder.is_empty() { "." } else { own_folder };
    let mut text = text.to_owned();
    for name in OWN_FOLDER {
        text = text.replace(name, own_folder);
    }
    // `$(cd folder && pwd)` is that folder.
    for end in [" && pwd -P)", " && pwd)", "; pwd)"] {
        while let Some((before, rest)) = text.split_once("$(cd ") {
            let Some((folder, after)) =
                rest.split_once(end).filter(|(folder, _)| !folder.contains(['\n', '(']))
            else {
                break;
            };
            text = format!("{before}{}{after}", folder.trim_start_matches("-- ").trim_matches(['"', '\'']));
        }
    }
    without_braces(&substituted(&text, &assignments(&text)))
}

/// `${NAME}` as `$NAME`: a brace ends a command.
fn without_braces(text: &str) -> String {
    let mut parts = text.split("${");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('}').filter(|(name, _)| is_name(name)) {
            Some((name, rest)) => plain.push_str(&format!("${name}{rest}")),
            None => plain.push_str(&format!("${{{part}")),
        }
    }
    plain
}

/// Replaces `$NAME`, `${NAME}` and `$(NAME)`, longest names first.
pub(super) fn substituted(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut names: Vec<(&String, &String)> = variables.iter().collect();
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    names.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("${{{name}}}"), value)
            .replace(&format!("$({name})"), value)
            .replace(&format!("${name}"), value)
    })
}

/// Variables that are set to a constant, once.
fn assignments(text: &str) -> BTreeMap<String, String> {
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines() {
        let line = line.trim_start();
        let line = ["export ", "readonly ", "local "]
            .iter()
            .fold(line, |line, word| line.strip_prefix(word).unwrap_or(line));
        let Some((name, value)) = line.split_once('=') else { continue };
        let value = value.trim();
        let is_quoted = ['"', '\''].iter().any(|quote| value.starts_with(*quote) && value.ends_with(*quote));
        let value = value.trim_matches(['"', '\'']);
        let value = substituted(value, &values);
        let is_constant = !value.contains(['$', '`']) && (is_quoted || !value.contains(char::is_whitespace));
        if is_name(name) && is_constant && values.len() < MAX_VARIABLES {
            values.insert(name.to_owned(), value);
        }
    }
    values
}

/// Whether it can be the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// Commands of a shell text in their order, each with whether it is only the source of what another one compares: that is
/// the code under test, and no check.
pub(super) fn commands(text: &str) -> Vec<(String, bool)> {
    let mut commands = Vec::new();
    for line in text.replace("\\\n", " ").lines() {
        let (outer, inner) = without_substitutions(line);
        commands.extend(inner.iter().flat_map(|inner| {
            inner.split([';', '|', '&']).map(|command| (command.to_owned(), true)).collect::<Vec<_>>()
        }));
        for list in outer.split([';', '&', '(', ')', '{', '}']) {
            let members: Vec<&str> = list.split('|').collect();
            let compares = |command: &&str| {
                let mut words = command.split_whitespace();
                words
                    .find(|word| !matches!(*word, "!" | "if" | "then"))
                    .is_some_and(|word| COMPARERS.contains(&word))
            };
            for (at, member) in members.iter().enumerate() {
                let is_source = members.iter().skip(at + 1).any(compares);
                commands.push(((*member).to_owned(), is_source));
            }
        }
    }
    commands
}

/// All words of commands that compare, and the files that others read.
pub(super) fn compared(text: &str) -> BTreeSet<String> {
    let text = text.replace("\\\n", " ");
    let commands = text.split(['\n', ';', '&', '|', '(', ')', '{', '}']);
    let words = commands.flat_map(|command| {
        let words: Vec<&str> =
            command.split_whitespace().map(|word| word.trim_matches(['"', '\''])).collect();
        let program = words.iter().find(|word| !matches!(**word, "!" | "if" | "then" | "@"));
        let compares = program.is_some_and(|program| compares(program.trim_start_matches('@')));
        if compares { words } else { inputs(&words) }
    });
    words.map(str::to_owned).collect()
}

/// The file that the output of a command goes to.
pub(super) fn written(command: &str) -> Option<&str> {
    let (before, after) = command.split_once('>')?;
    let file = after.trim_start_matches('>').split_whitespace().next()?;
    // `2> errors.txt` is not what it prints.
    (!before.ends_with('2')).then(|| file.trim_matches(['"', '\'']))
}

/// The files that the input of a command comes from.
pub(super) fn inputs<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let after = words.windows(2).filter_map(|pair| match pair {
        ["<", file] => Some(*file),
        _ => None,
    });
    let joined = words.iter().filter_map(|word| word.strip_prefix('<'));
    after.chain(joined.filter(|file| !file.is_empty() && !file.starts_with(['<', '(', '&']))).collect()
}

/// Takes the insides of `$(…)`, `<(…)` and backquotes out of a line.
fn without_substitutions(line: &str) -> (String, Vec<String>) {
    let (mut outer, mut inner) = (String::new(), Vec::new());
    let mut rest = line;
    while let Some(at) = rest.find(['$', '<', '`']) {
        let (before, from) = rest.split_at(at);
        outer.push_str(before);
        let taken = match from.as_bytes() {
            [b'$' | b'<', b'(', ..] => closed(from),
            [b'`', ..] => from.get(1..).and_then(|from| from.find('`')).map(|end| (1, end + 1)),
            _ => None,
        };
        match taken {
            Some((begin, end)) => {
                inner.push(from.get(begin..end).unwrap_or_default().to_owned());
                // Something is there.
                outer.push('-');
                rest = from.get(end + 1..).unwrap_or_default();
            }
            None => {
                let mut chars = from.chars();
                outer.extend(chars.next());
                rest = chars.as_str();
            }
        }
    }
    outer.push_str(rest);
    (outer, inner)
}

/// Begin and end of what is between the first parentheses.
fn closed(text: &str) -> Option<(usize, usize)> {
    let begin = text.find('(')? + 1;
    let mut depth = 1_usize;
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < begin) {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((begin, at));
        }
    }
    None
}

/// The files that a comparing command compares with what was made: its only operand, or what is named like an
/// expectation.
pub(super) fn expectations<'a>(words: &[&'a str], is_file: &dyn Fn(&str) -> bool) -> Vec<&'a str> {
    let [program, operands @ ..] = words else { return Vec::new() };
    if !matches!(*program, "diff" | "cmp" | "comm") {
        return Vec::new();
    }
    let files: Vec<&str> =
        operands.iter().copied().filter(|word| !word.starts_with('-') && is_file(word)).collect();
    match files.as_slice() {
        [only] => vec![only],
        files => files.iter().copied().filter(|file| super::is_expectation(file)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_and_the_own_folder_are_put_in() {
        for (text, expected) in [
            ("HERE=$(dirname \"$0\")\n\"$HERE/x\"", "\"ci/x\""),
            ("HERE=\"$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\"\n${HERE}/x", "ci/x"),
            ("A=tools\nexport B=\"$A/deep\"\nsh $B/x", "sh tools/deep/x"),
            ("A=$(make it)\nsh $A/x", "sh $A/x"),
            (". \"${0%/*}/lib.sh\"", ". \"ci/lib.sh\""),
            ("sh ${t} ${t%.sh} ${", "sh $t ${t%.sh} ${"),
        ] {
            let expanded = expanded(text, "ci");
            assert_eq!(expanded.lines().last(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_compared_is_no_check() {
        for (text, expected) in [
            ("python3 app.py | diff - want.txt", &[("python3 app.py", true), ("diff - want.txt", false)][..]),
            ("./test.sh | tail -3", &[("./test.sh", false), ("tail -3", false)]),
            ("[ \"$(./app)\" = 3 ]", &[("./app", true), ("[ \"-\" = 3 ]", false)]),
            ("diff <(./app) want", &[("./app", true), ("diff - want", false)]),
            ("cost=$5; run", &[("cost=$5", false), ("run", false)]),
        ] {
            let commands = commands(text);
            let got: Vec<(&str, bool)> =
                commands.iter().map(|(command, is_source)| (command.trim(), *is_source)).collect();
            assert_eq!(got, expected, "{text}");
        }
    }

    #[test]
    fn files_between_commands_are_known() {
        let compared = compared("@python3 app.py > out.txt\n\t@grep -qx 5 out.txt\ndone < cases.lst");
        assert!(compared.contains("out.txt") && compared.contains("cases.lst"));
        assert!(!compared.contains("app.py"));
        assert_eq!(written("python3 app.py > out.txt"), Some("out.txt"));
        assert_eq!(written("python3 app.py >>\"out.txt\" 2>&1"), Some("out.txt"));
        assert_eq!(written("./test.sh 2> errors"), None);
        assert_eq!(inputs(&["done", "<", "cases.lst"]), ["cases.lst"]);
        assert_eq!(inputs(&["done", "<cases.lst", "<<E", "<(x)"]), ["cases.lst"]);
    }

    #[test]
    fn an_expectation_is_the_only_operand_or_named_like_one() {
        let check = |words: &[&str], expected: &[&str]| {
            assert_eq!(expectations(words, &|word| word.contains('.')), expected, "{words:?}");
        };
        check(&["diff", "-u", "-", "a.txt"], &["a.txt"]);
        check(&["diff", "out.txt", "want.txt"], &["want.txt"]);
        check(&["cmp", "a.txt", "b.txt"], &[]);
        check(&["grep", "x", "a.txt"], &[]);
    }
}
