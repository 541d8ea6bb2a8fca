//! Which programs are checks of a project, and which start the program that their arguments name. The tables are in
//! `runners.json`: one row each for a runner or a family of runners, with examples that the tests go through.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::policy::script::ShellWord;

/// Most programs that start one another.
const MAX_WRAPPERS: usize = 8;

static TABLES: LazyLock<Option<Tables>> =
    LazyLock::new(|| serde_json::from_str(include_str!("runners.json")).ok());

/// The program that a command runs in the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Started<'w> {
    /// Its name and arguments; no name where that is not known.
    pub(super) words: &'w [ShellWord],
    /// An interpreter runs it: its name is that of a file or module.
    pub(super) is_interpreted: bool,
    /// The wrapper only looks for runners among what it is given.
    is_runner_or_nothing: bool,
}

impl Started<'_> {
    /// Whether it is a check of the project.
    pub(super) fn is_check(self) -> bool {
        self.runner().is_some()
    }

    /// The runner that makes it a check of the project, with its subcommand: `cargo test`.
    pub(super) fn runner(self) -> Option<String> {
        let tables = TABLES.as_ref()?;
        tables.runners.iter().find_map(|runner| runner.named(self.words, &tables.unless))
    }
}

/// The words of a command that runs all tests of the test runner in these words; `None` if that is not known. Only what the
/// tables know is kept: other words may select tests, or have the runner run none.
pub(super) fn whole_suite(words: &[ShellWord]) -> Option<Vec<&str>> {
    let tables = TABLES.as_ref()?;
    let started = started(words);
    let at = started.iter().position(|program| program.is_check())?;
    let mut kept = Vec::new();
    for pair in started.get(..=at)?.windows(2) {
        let [outer, inner] = pair else { return None };
        let wrapper = tables.wrappers.iter().find(|wrapper| wrapper.starts(*outer).is_some())?;
        kept.extend(wrapper.kept(outer.words.get(..outer.words.len() - inner.words.len())?)?);
    }
    let words = started.get(at)?.words;
    let runner = tables.runners.iter().find(|runner| runner.named(words, &tables.unless).is_some())?;
    kept.extend(runner.whole(words)?);
    Some(kept)
}

/// The programs that a simple command runs, from the first one on: each wrapper, and what it starts.
pub(super) fn started(words: &[ShellWord]) -> Vec<Started<'_>> {
    let mut found = vec![Started { words, is_interpreted: false, is_runner_or_nothing: false }];
    let Some(tables) = TABLES.as_ref() else { return found };
    while let Some(last) = found.last().copied()
        && found.len() <= MAX_WRAPPERS
        && let Some(inner) = tables.wrappers.iter().find_map(|wrapper| wrapper.starts(last))
    {
        found.push(inner);
    }
    // A package manager runs a runner by its bare name; anything else there is a command of its own.
    if let Some(at) = found.iter().position(|inner| inner.is_runner_or_nothing)
        && !found[at..].iter().any(|inner| inner.is_check())
    {
        found.truncate(at);
    }
    found
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    wrappers: Vec<Wrapper>,
    /// With one of these words a runner checks nothing.
    unless: Vec<String>,
    runners: Vec<Runner>,
}

/// Programs that start the program that their arguments name.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wrapper {
    names: Vec<String>,
    /// Operands that come before the program, as in `uv run`. One of these, where there are any.
    #[serde(default)]
    words: Vec<String>,
    /// The program may come without them.
    #[serde(default)]
    is_optional: bool,
    /// Options whose value is the next word.
    #[serde(default)]
    values: Vec<String>,
    /// Options after which comes a text in a language, and no program.
    #[serde(default)]
    stops: Vec<String>,
    /// How many operands of its own come before the program.
    #[serde(default)]
    operands: usize,
    /// `NAME=value` may come before the program.
    #[serde(default)]
    assignments: bool,
    /// The program is a file or a module in its language.
    #[serde(default)]
    interprets: bool,
    /// Its options with which a whole suite may be run again; absent if it may not come before one.
    keeps: Option<Vec<String>>,
    /// It counts only where what it starts is a runner.
    #[serde(default)]
    only_runner: bool,
    /// Commands that are checks.
    #[serde(rename = "examples")]
    _examples: Vec<String>,
}

impl Wrapper {
    /// What it starts, if it is the program of `outer`.
    fn starts<'w>(&self, outer: Started<'w>) -> Option<Started<'w>> {
        let (name, arguments) = outer.words.split_first()?;
        let name = basename(name.text()?);
        if !self.names.iter().any(|known| matches(known, name)) {
            return None;
        }
        let mut rest = self.skip_options(arguments)?;
        let before = self.words.iter().find_map(|words| skip_words(rest, words));
        rest = match before {
            Some(after) => self.skip_options(after)?,
            None if self.words.is_empty() || self.is_optional => rest,
            None => return None,
        };
        for _ in 0..self.operands {
            rest = self.skip_options(rest.get(1..)?)?;
        }
        (!rest.is_empty()).then_some(Started {
            words: rest,
            is_interpreted: outer.is_interpreted || self.interprets,
            is_runner_or_nothing: self.only_runner,
        })
    }

    /// Its own words, if all its options may come before a whole suite.
    fn kept<'w>(&self, own: &'w [ShellWord]) -> Option<Vec<&'w str>> {
        let keeps = self.keeps.as_ref()?;
        let may_stand =
            |word: &&str| !word.starts_with(['-', '+']) || *word == "--" || keeps.iter().any(|it| it == word);
        own.iter().map(|word| word.text().filter(may_stand)).collect()
    }

    fn skip_options<'w>(&self, words: &'w [ShellWord]) -> Option<&'w [ShellWord]> {
        let mut rest = words;
        while let Some((word, after)) = rest.split_first() {
            let Some(text) = word.text() else { return Some(rest) };
            if self.stops.iter().any(|stop| stop == text) || self.is_shell_text(text) {
                return None;
            }
            if text == "--" {
                return Some(after);
            }
            let assigns = self.assignments && text.contains('=') && !text.starts_with('=');
            if !text.starts_with('-') && !text.starts_with('+') && !assigns {
                return Some(rest);
            }
            rest = if self.values.iter().any(|option| option == text) { after.get(1..)? } else { after };
        }
        Some(rest)
    }

    /// Whether a cluster of letters holds the `c` of `bash -lc`.
    fn is_shell_text(&self, text: &str) -> bool {
        self.stops.iter().any(|stop| stop == "-c")
            && text.starts_with('-')
            && !text.starts_with("--")
            && text.ends_with('c')
    }
}

/// Programs that check a project.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Runner {
    names: Vec<String>,
    /// The names are ends of paths.
    #[serde(default)]
    is_path: bool,
    /// Its operands begin with one of these; with any, where there are none. A `*` at an end of a word is any text, alone
    /// it is any word; an empty text is no operand.
    #[serde(default)]
    words: Vec<String>,
    /// One of the words may be any operand, not the first.
    #[serde(default)]
    anywhere: bool,
    /// One of these options is there, too.
    #[serde(default)]
    options: Vec<String>,
    /// Options whose value is the next word.
    #[serde(default)]
    values: Vec<String>,
    /// It runs tests, and how all of them are run.
    suite: Option<Suite>,
    /// Commands that are checks.
    #[serde(rename = "examples")]
    _examples: Vec<String>,
    /// Commands that are none.
    #[serde(rename = "not")]
    _not: Vec<String>,
}

/// How a test runner runs all tests: its name and the words of its row, without what selects some of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Suite {
    /// Words that are kept all the same, because they say where the tests are or how they are built.
    #[serde(default)]
    keeps: Vec<String>,
    /// A word that means all tests.
    adds: Option<String>,
    /// Commands, each with the one that runs all tests.
    #[serde(rename = "examples")]
    _examples: Vec<(String, String)>,
}

impl Runner {
    /// The words with which it runs all its tests.
    fn whole<'w>(&'w self, words: &'w [ShellWord]) -> Option<Vec<&'w str>> {
        let suite = self.suite.as_ref()?;
        let texts: Option<Vec<&str>> = words.iter().map(ShellWord::text).collect();
        let (name, arguments) = texts.as_deref()?.split_first().map(|(name, rest)| (*name, rest.to_vec()))?;
        let own = if self.words.is_empty() { Vec::new() } else { self.words_among(&arguments)? };
        let mut missing = own.into_iter().peekable();
        let mut whole = vec![name];
        let mut rest = arguments.into_iter().take_while(|text| *text != "--");
        while let Some(text) = rest.next() {
            let option = text.split_once('=').map_or(text, |(option, _)| option);
            let has_value = self.values.iter().any(|known| known == text);
            if missing.next_if_eq(&text).is_some() {
                whole.push(text);
            } else if suite.keeps.iter().any(|known| known == option) {
                whole.push(text);
                whole.extend(if has_value { Some(rest.next()?) } else { None });
            } else if has_value {
                rest.next();
            }
        }
        whole.extend(suite.adds.as_deref());
        missing.peek().is_none().then_some(whole)
    }

    /// The program with its subcommand, if this is the runner of these words. `npm run test` is `npm test`.
    fn named(&self, words: &[ShellWord], unless: &[String]) -> Option<String> {
        let (name, arguments) = words.split_first()?;
        let path = name.text()?;
        let is_named = if self.is_path {
            self.names.iter().any(|known| path == known || path.ends_with(&format!("/{known}")))
        } else {
            self.names.iter().any(|known| matches(known, basename(path)))
        };
        if !is_named {
            return None;
        }
        let texts: Vec<&str> = arguments.iter().map(|word| word.text().unwrap_or_default()).collect();
        let has = |wanted: &[String]| texts.iter().any(|text| wanted.iter().any(|other| other == text));
        if has(unless) || !(self.options.is_empty() || has(&self.options)) {
            return None;
        }
        let mut subcommand = if self.words.is_empty() { Vec::new() } else { self.words_among(&texts)? };
        subcommand.retain(|word| !matches!(*word, "run" | "run-script"));
        subcommand.insert(0, basename(path));
        Some(subcommand.join(" "))
    }

    /// The operands that are one of the words, if they are among `texts`.
    fn words_among<'t>(&self, texts: &[&'t str]) -> Option<Vec<&'t str>> {
        let mut operands = Vec::new();
        let mut rest = texts.iter();
        while let Some(text) = rest.next() {
            if self.values.iter().any(|option| option == text) {
                rest.next();
            } else if !text.starts_with(['-', '+']) || self.words.iter().any(|word| word == text) {
                operands.push(*text);
            }
        }
        if self.anywhere {
            // A quoted list of commands, as sbt takes it.
            let mut words = operands.iter().flat_map(|operand| operand.split(' '));
            let found = words.find(|operand| self.words.iter().any(|word| matches(word, operand)))?;
            return Some(vec![found]);
        }
        self.words.iter().find_map(|sequence| {
            let wanted: Vec<&str> = sequence.split_whitespace().collect();
            if wanted.is_empty() {
                return operands.is_empty().then(Vec::new);
            }
            let found = operands.get(..wanted.len())?;
            wanted.iter().zip(found).all(|(word, text)| matches(word, text)).then(|| found.to_vec())
        })
    }
}

/// What comes after the words of `sequence`; `None` where these are not its beginning.
fn skip_words<'w>(words: &'w [ShellWord], sequence: &str) -> Option<&'w [ShellWord]> {
    let mut rest = words;
    for wanted in sequence.split_whitespace() {
        let (word, after) = rest.split_first()?;
        if !matches(wanted, word.text()?) {
            return None;
        }
        rest = after;
    }
    Some(rest)
}

fn matches(pattern: &str, text: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(""), _) => !text.is_empty(),
        (Some(end), _) => text.ends_with(end),
        (None, Some(start)) => text.starts_with(start),
        (None, None) => pattern == text,
    }
}

pub(super) fn basename(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::shell::{examine, whole_suite_of};

    #[test]
    fn every_row_knows_its_examples() {
        let tables: Tables = serde_json::from_str(include_str!("runners.json")).unwrap();
        let is_check = |command: &str| examine(command, Some(0), &[]).is_check;
        for wrapper in &tables.wrappers {
            assert!(!wrapper._examples.is_empty(), "{:?}", wrapper.names);
            for example in &wrapper._examples {
                assert!(is_check(example), "{example}");
                assert!(is_check(&format!("cd x && {example} 2>&1 | tail -20")), "{example}");
            }
        }
        for runner in &tables.runners {
            assert!(!runner._examples.is_empty() && !runner._not.is_empty(), "{:?}", runner.names);
            for example in &runner._examples {
                assert!(is_check(example), "{example}");
            }
            for example in &runner._not {
                assert!(!is_check(example), "{example}");
            }
            for (command, whole) in runner.suite.iter().flat_map(|suite| &suite._examples) {
                assert_eq!(whole_suite_of(command, "/w/p").as_ref(), Some(whole), "{command}");
                assert_eq!(whole_suite_of(whole, "/w/p").as_ref(), Some(whole), "{whole}");
            }
        }
    }
}
