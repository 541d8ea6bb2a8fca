//! Shell text as far as it matters for the names in it: commands with the values of constant variables and of loops, the
//! script's own folder, and which commands are only the source of what another one compares.
//!
//! The tree is that of `rawko_core::shell`. Of a text that it does not understand every line is read by itself, and of a
//! line that it does not understand the words are kept.

use std::collections::BTreeMap;

use rawko_core::shell::{
    ParsedScript, Redirection, RedirectionEffect, ShellWord, Simple, WordKind, is_name, parse,
};

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
const COMPARERS: &[&str] = &["diff", "cmp", "comm", "grep", "egrep", "fgrep", "rg", "test", "["];
/// Variables that are followed, and turns of loops.
const MAX_VARIABLES: usize = 100;

/// Whether a program compares what others printed.
pub(super) fn compares(program: &str) -> bool {
    COMPARERS.contains(&program)
}

/// Shell text, with its variables and its own folder put in.
#[derive(Debug, Default)]
pub(super) struct Text {
    /// Its commands in their order. One in a loop is there once for each turn.
    pub(super) commands: Vec<Command>,
    /// The texts of its here-documents.
    pub(super) heredocs: Vec<String>,
    /// Words of lines that are not understood.
    pub(super) loose: Vec<String>,
}

/// One command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Command {
    /// Its program and arguments.
    pub(super) words: Vec<String>,
    /// The files that its input comes from.
    pub(super) inputs: Vec<String>,
    /// The file that its output goes to.
    pub(super) output: Option<String>,
    /// It is only the source of what another one compares: that is the code under test, and no check.
    pub(super) is_source: bool,
}

/// The values of variables in one turn of the loops.
type Values = BTreeMap<String, String>;

impl Text {
    /// Reads `text`, which is in `own_folder`.
    pub(super) fn read(text: &str, own_folder: &str) -> Self {
        let text = with_folders(text, own_folder);
        let mut read = Self::default();
        let scripts = match parse(&text) {
            Ok(script) => vec![script],
            Err(_) => {
                let joined = text.replace("\\\n", " ");
                let lines =
                    joined.lines().map(|line| parse(line).map_err(|_| read.loose.extend(names(line))));
                lines.filter_map(Result::ok).collect()
            }
        };
        let turns = turns(&scripts);
        for script in scripts {
            for simple in &script.commands {
                read.take(simple, &script, &turns);
            }
            let inputs = inputs(&script.redirections, &turns[0]);
            read.commands.push(Command { inputs, ..Command::default() });
            read.heredocs.extend(script.heredocs);
        }
        read
    }

    fn take(&mut self, simple: &Simple, script: &ParsedScript, turns: &[Values]) {
        let compares = |place: &usize| {
            let program = script.commands.get(*place).and_then(|after| after.words.first()?.text());
            program.is_some_and(compares)
        };
        // `2> errors.txt` is not what it prints.
        let prints =
            |to: &&Redirection| to.effect == RedirectionEffect::Writes && !to.operator.starts_with('2');
        let output = simple.redirections.iter().find(prints);
        let assigned = simple.assignments.iter().flat_map(|one| {
            let whole = ShellWord { shown: one.shown.clone(), kind: WordKind::Many };
            std::iter::once(whole).chain(one.list.iter().cloned())
        });
        for words in [assigned.collect(), simple.words.clone()] {
            let each = turns.iter().map(|values| Command {
                words: words.iter().flat_map(|word| expanded(word, values)).collect(),
                inputs: inputs(&simple.redirections, values),
                output: output.map(|to| substituted(&to.target.shown, values)),
                is_source: simple.is_substituted || simple.pipes_into.iter().any(compares),
            });
            let mut commands: Vec<Command> = each.collect();
            commands.dedup();
            self.commands.extend(commands);
        }
    }

    /// All words of commands that compare, and the files that others read.
    pub(super) fn compared(&self) -> impl Iterator<Item = &String> {
        self.commands.iter().flat_map(|command| {
            let compares = command.words.first().is_some_and(|program| compares(program));
            command.words.iter().filter(move |_| compares).chain(&command.inputs)
        })
    }
}

/// Puts `own_folder` in the places of its names.
fn with_folders(text: &str, own_folder: &str) -> String {
    let own_folder = if own_folder.is_empty() { "." } else { own_folder };
    let mut text = OWN_FOLDER.iter().fold(text.to_owned(), |text, name| text.replace(name, own_folder));
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
    text
}

/// What may be a name in a line that is not understood.
fn names(line: &str) -> impl Iterator<Item = String> {
    let words = line.split(|c: char| c.is_whitespace() || ";&|(){}<>=,*?\"'`".contains(c));
    words.filter(|word| !word.is_empty()).map(str::to_owned)
}

/// The variables that are set to constants, with those of loops in each turn. There is at least one.
fn turns(scripts: &[ParsedScript]) -> Vec<Values> {
    let mut constants = Values::new();
    for simple in scripts.iter().flat_map(|script| &script.commands) {
        // `export` and its like have assignments among their words.
        let words = simple.words.iter().map(|word| &word.shown);
        for shown in simple.assignments.iter().map(|one| &one.shown).chain(words) {
            let (name, value) = shown.split_once('=').unwrap_or_default();
            let value = substituted(value, &constants);
            if is_name(name) && !value.contains(['$', '`']) && constants.len() < MAX_VARIABLES {
                constants.insert(name.to_owned(), value);
            }
        }
    }
    let mut turns = vec![constants.clone()];
    for one in scripts.iter().flat_map(|script| &script.loop_variables) {
        for value in one.words.iter().flat_map(|word| expanded(word, &constants)) {
            let free = turns.iter().position(|values| !values.contains_key(&one.name)).unwrap_or(turns.len());
            if free == turns.len() && free < MAX_VARIABLES {
                turns.push(constants.clone());
            }
            turns.get_mut(free).map(|values| values.insert(one.name.clone(), value));
        }
    }
    turns
}

/// The words that one becomes.
fn expanded(word: &ShellWord, values: &Values) -> Vec<String> {
    let text = substituted(&word.shown, values);
    match word.kind {
        // Something is there.
        WordKind::Many if text.contains("$(") || text.contains('`') => vec!["-".to_owned()],
        WordKind::Many => text.split_whitespace().map(str::to_owned).collect(),
        _ => vec![text],
    }
}

/// The files that are read by redirections.
fn inputs(redirections: &[Redirection], values: &Values) -> Vec<String> {
    let reads = redirections.iter().filter(|one| one.effect == RedirectionEffect::Reads);
    reads.map(|one| substituted(&one.target.shown, values)).collect()
}

/// Replaces `$NAME`, `${NAME}` and `$(NAME)`.
pub(super) fn substituted(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut parts = text.split('$');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(part.len());
        let (name, rest) = match part.strip_prefix(['{', '(']) {
            Some(braced) => braced.split_once(['}', ')']).unwrap_or_default(),
            None => part.split_at(end),
        };
        match variables.get(name) {
            Some(value) => plain.extend([value, rest]),
            None => plain.extend(["$", part]),
        }
    }
    plain
}

/// The files that a comparing command holds against what was made: its only operand, or what is named like an expectation.
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

    /// Commands as texts, with a `?` before those that are sources.
    fn commands(text: &str) -> Vec<String> {
        let read = Text::read(text, "ci");
        let commands = read.commands.iter().filter(|command| !command.words.is_empty());
        commands
            .map(|command| format!("{}{}", if command.is_source { "?" } else { "" }, command.words.join(" ")))
            .collect()
    }

    #[test]
    fn constants_and_the_own_folder_are_put_in() {
        for (text, expected) in [
            ("HERE=$(dirname \"$0\")\n\"$HERE/x\"", "ci/x"),
            ("HERE=\"$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\"\n${HERE}/x", "ci/x"),
            ("A=tools\nexport B=\"$A/deep\"\nsh $B/x", "sh tools/deep/x"),
            ("A=$(make it)\nsh $A/x", "sh $A/x"),
            ("A='sh x'; $A y", "sh x y"),
            ("A=one; sh $AB \"$(A)\"", "sh $AB one"),
            (". \"${0%/*}/lib.sh\"", ". ci/lib.sh"),
            ("sh ${t} ${t%.sh}", "sh ${t} ${t%.sh}"),
        ] {
            assert_eq!(commands(text).last().map(String::as_str), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_loop_is_there_once_for_each_turn() {
        let text =
            "for t in a *.sh; do for u in $V; do x ${t}b; done; y $t $tt; done; for t in c; do z $t; done";
        assert_eq!(
            commands(text),
            ["x ab", "x *.shb", "x cb", "y a $tt", "y *.sh $tt", "y c $tt", "z a", "z *.sh", "z c"]
        );
    }

    #[test]
    fn every_construct_is_read() {
        for (text, expected) in [
            ("f() { sh a; }\nf", &["sh a", "f"][..]),
            ("if ! a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]),
            ("case $1 in x) a;; *) b; esac", &["a", "b"]),
            ("while read x; do a; done < list", &["read x", "a"]),
            ("(a; { b; }) # c", &["a", "b"]),
            ("run=(sh a); \"${run[@]}\"", &["run= sh a", "${run[@]}"]),
            ("cat <<E\n$(a)\nE\nb", &["cat", "b"]),
            // Not understood as a whole: the lines are.
            ("local a=()\nsh b\nif c; then\n  sh d\nfi", &["sh b", "sh d"]),
        ] {
            assert_eq!(commands(text), expected, "{text}");
        }
        assert_eq!(Text::read("sh a 'b", "").loose, ["sh", "a", "b"]);
        assert_eq!(Text::read("sh <<'E'\n./x\nE\n", "").heredocs, ["./x\n"]);
    }

    #[test]
    fn what_is_compared_is_no_check() {
        for (text, expected) in [
            ("python3 app.py | diff - want.txt", &["?python3 app.py", "diff - want.txt"][..]),
            ("./test.sh | tail -3", &["./test.sh", "tail -3"]),
            ("[ \"$(./app)\" = 3 ]", &["?./app", "[ $(./app) = 3 ]"]),
            ("diff <(./app) want", &["?./app", "diff /dev/fd/ want"]),
            ("x `./app` $(./b) y", &["?./app", "?./b", "x - - y"]),
        ] {
            assert_eq!(commands(text), expected, "{text}");
        }
    }

    #[test]
    fn files_between_commands_are_known() {
        let read = |text: &str| Text::read(text, "");
        let text =
            read("python3 app.py > out.txt\ngrep -qx 5 out.txt\nwhile x; do y; done < cases.lst <<E\nz\nE");
        let compared: Vec<&String> = text.compared().collect();
        assert_eq!(compared, ["grep", "-qx", "5", "out.txt", "cases.lst"]);
        let output = |text: &str| read(text).commands[0].output.clone();
        assert_eq!(output("python3 app.py > out.txt").as_deref(), Some("out.txt"));
        assert_eq!(output("python3 app.py >>\"out.txt\" 2>&1").as_deref(), Some("out.txt"));
        assert_eq!(output("./test.sh 2> errors"), None);
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
