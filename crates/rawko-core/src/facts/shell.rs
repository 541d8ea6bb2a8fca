//! Reads from the text of a shell command whether it runs checks, whose exit status is whose, and whether it may have
//! written. It works on the parsed command, and knows nothing of a command that cannot be parsed.

use std::collections::BTreeSet;

use super::command::{CommandEffect, OwnStatus};
use super::runners::{Started, basename, started, whole_suite};
use super::statuses::own_status;
use crate::policy::script::{ParsedScript, Pipeline, ShellWord, Simple};
use crate::policy::{effect_of_redirection, effect_of_words, keeps_output, parse_script, writes_its_words};
use crate::text::shell_word;

/// Most scripts within scripts, as in `bash -c "bash -c …"`.
const MAX_NESTED: usize = 3;

/// What is known of a command that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Examined {
    /// Whether it runs a check of the project.
    pub(crate) is_check: bool,
    /// The status of what it is about, where that is not the command's own.
    pub(crate) own_status: Option<OwnStatus>,
    /// What it may have done to files.
    pub(crate) effect: CommandEffect,
    /// What it may have done after the last check in it.
    pub(crate) after_check: CommandEffect,
    /// Whether it holds text that it writes into a file, as `echo x > a` and `sed -i` do. What only names files, as `mv`
    /// does, holds none, and what a check prints is not in its command.
    pub(crate) writes_text: bool,
}

/// Examines a command that ended with `exit_code`, and whose last pipeline had members with the statuses `pipe_status`
/// (empty where that is not known).
pub(crate) fn examine(command: &str, exit_code: Option<i32>, pipe_status: &[i32]) -> Examined {
    let Some(script) = AnalyzedScript::read(command, 0) else {
        let effect = CommandEffect::Unknown;
        return Examined {
            is_check: false,
            own_status: None,
            effect,
            after_check: effect,
            writes_text: false,
        };
    };
    let own = exit_code.and_then(|code| own_status(&script, code, pipe_status));
    Examined {
        is_check: script.is_check(),
        own_status: own.filter(|own| exit_code.map(OwnStatus::Exited) != Some(*own)),
        effect: script.effect(),
        after_check: script.after_check(),
        writes_text: script.writes_text(),
    }
}

/// The runners of the checks in a command, each with its subcommand; empty where there is none.
pub(crate) fn runners_of(command: &str) -> BTreeSet<String> {
    AnalyzedScript::read(command, 0).map(|script| script.runners()).unwrap_or_default()
}

/// The checks in a command as command lines of their own, each to be run in the folder of the project, wherever that
/// is. Checks whose words are not known before they run, or that name a place outside the project, are left out.
pub(crate) fn check_lines(command: &str, project: &str) -> Vec<String> {
    let Some(script) = AnalyzedScript::read(command, 0) else { return Vec::new() };
    let mut lines = Vec::new();
    script.add_check_lines(&mut String::new(), project.trim_end_matches('/'), &mut lines);
    lines
}

/// A command line that runs the whole suite of the last test runner in a command whose suite is known, in the folder of the
/// project.
pub(crate) fn whole_suite_of(command: &str, project: &str) -> Option<String> {
    let whole = |line: &String| {
        let parsed = parse_script(line).ok()?;
        let (check, before) = parsed.commands.split_last()?;
        let words = whole_suite(&check.words)?;
        let shown = |words: &[&str]| words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ");
        let folder: Option<Vec<&str>> = before.iter().flat_map(|cd| &cd.words).map(ShellWord::text).collect();
        let folder =
            folder.filter(|folder| !folder.is_empty()).map(|folder| format!("{} && ", shown(&folder)));
        Some(format!("{}{}", folder.unwrap_or_default(), shown(&words)))
    };
    check_lines(command, project).iter().rev().find_map(whole)
}

/// Whether two commands run the same checks with the same arguments, whatever is around these. Commands without known
/// checks are the same if their texts are.
pub(crate) fn are_same_checks(one: &str, other: &str) -> bool {
    let known = checks_of(one);
    one == other || (!known.is_empty() && known == checks_of(other))
}

/// The words of the checks in a command; empty where none is known.
pub(crate) fn checks_of(command: &str) -> BTreeSet<Vec<String>> {
    AnalyzedScript::read(command, 0).map(|script| script.checks()).unwrap_or_default()
}

/// Whether the last pipeline of a command has several members: then the command's exit status is not that of all of them.
#[must_use]
pub fn ends_with_pipe(command: &str) -> bool {
    let Ok(script) = parse_script(command) else { return false };
    let last = script.list.0.last().filter(|list| !list.in_background);
    let is_pipe = |pipeline: &Pipeline| pipeline.members.len() > 1;
    last.is_some_and(|list| is_pipe(list.rest.last().map_or(&list.first, |(_, pipeline)| pipeline)))
}

/// A parsed command, with what is known of its parts.
pub(super) struct AnalyzedScript {
    pub(super) parsed: ParsedScript,
    /// Of each simple command.
    pub(super) parts: Vec<SimpleCommand>,
}

/// One simple command.
pub(super) struct SimpleCommand {
    pub(super) is_check: bool,
    pub(super) effect: CommandEffect,
    writes_text: bool,
    /// The script that it gives to another shell.
    pub(super) nested: Option<AnalyzedScript>,
}

impl AnalyzedScript {
    fn read(command: &str, depth: usize) -> Option<Self> {
        let parsed = parse_script(command).ok()?;
        let mut parts: Vec<SimpleCommand> =
            parsed.commands.iter().map(|simple| SimpleCommand::of(simple, depth)).collect();
        if parts.iter().any(|part| part.is_check) {
            for (part, simple) in parts.iter_mut().zip(&parsed.commands) {
                // It keeps a copy of what the check prints.
                if simple.words.first().and_then(ShellWord::text) == Some("tee") {
                    part.effect = CommandEffect::Reads;
                    part.writes_text = false;
                }
            }
        }
        Some(Self { parsed, parts })
    }

    pub(super) fn is_check(&self) -> bool {
        self.parts.iter().any(|part| part.is_check)
    }

    fn effect(&self) -> CommandEffect {
        let parts = self.parts.iter().map(|part| part.effect).max().unwrap_or_default();
        let unfollowed =
            if self.parsed.unfollowed.is_empty() { CommandEffect::Reads } else { CommandEffect::Unknown };
        let redirections = self.parsed.redirections.iter().map(effect_of_redirection).max();
        // A group with a check in it may write what the check prints.
        let redirections = redirections.filter(|_| !self.is_check()).unwrap_or_default();
        parts.max(unfollowed).max(redirections)
    }

    fn writes_text(&self) -> bool {
        let by_group = !self.is_check() && self.parsed.redirections.iter().any(keeps_output);
        by_group || self.parts.iter().any(|part| part.writes_text)
    }

    fn runners(&self) -> BTreeSet<String> {
        let parts = self.parts.iter().zip(&self.parsed.commands);
        let runners = parts.flat_map(|(part, simple)| match &part.nested {
            Some(nested) => nested.runners(),
            None => started(&simple.words).iter().find_map(|program| program.runner()).into_iter().collect(),
        });
        runners.collect()
    }

    /// The words of the programs that are checks.
    fn checks(&self) -> BTreeSet<Vec<String>> {
        let parts = self.parts.iter().zip(&self.parsed.commands);
        let checks = parts.flat_map(|(part, simple)| match &part.nested {
            Some(nested) => nested.checks(),
            None => {
                let started = started(&simple.words);
                let check = started.iter().find(|program| program.is_check());
                let words =
                    |program: &Started<'_>| program.words.iter().map(|word| word.shown.clone()).collect();
                check.map(words).into_iter().collect()
            }
        });
        checks.collect()
    }

    /// `folder` is where the commands run, below the project; empty for the project itself.
    fn add_check_lines(&self, folder: &mut String, project: &str, lines: &mut Vec<String>) {
        for (part, simple) in self.parts.iter().zip(&self.parsed.commands) {
            let words: Option<Vec<&str>> = simple.words.iter().map(ShellWord::text).collect();
            if let Some(["cd", to]) = words.as_deref() {
                match inside(to, project) {
                    Some(to) if to.is_empty() || to == "." => {}
                    Some(to) if folder.is_empty() => *folder = to.to_owned(),
                    Some(to) => *folder = format!("{folder}/{to}"),
                    None => return,
                }
            } else if let Some(nested) = &part.nested {
                nested.add_check_lines(&mut folder.clone(), project, lines);
            } else if part.is_check
                && simple.assignments.is_empty()
                && let Some(words) = words
                && !project.is_empty()
                && !words.iter().any(|word| word.contains(project) || lies_elsewhere(word))
            {
                let words: Vec<String> = words.into_iter().map(shell_word).collect();
                let line = words.join(" ");
                let line =
                    if folder.is_empty() { line } else { format!("cd {} && {line}", shell_word(folder)) };
                if !lines.contains(&line) {
                    lines.push(line);
                }
            }
        }
    }

    fn after_check(&self) -> CommandEffect {
        let Some(last) = self.parts.iter().rposition(|part| part.is_check) else {
            return CommandEffect::Reads;
        };
        let after = self.parts[last + 1..].iter().map(|part| part.effect).max().unwrap_or_default();
        let nested = self.parts[last].nested.as_ref().map_or(CommandEffect::Reads, Self::after_check);
        after.max(nested)
    }

    /// Whether the command at `place` is what the whole is about: a check, or where there is none, a program that does
    /// more than read.
    pub(super) fn is_subject(&self, place: usize) -> bool {
        let Some(part) = self.parts.get(place) else { return false };
        if self.is_check() { part.is_check } else { part.effect != CommandEffect::Reads }
    }
}

impl SimpleCommand {
    fn of(simple: &Simple, depth: usize) -> Self {
        let redirections = simple.redirections.iter().map(effect_of_redirection).max().unwrap_or_default();
        let programs = started(&simple.words);
        if programs.iter().any(|program| program.is_check()) {
            return Self { is_check: true, effect: CommandEffect::Reads, writes_text: false, nested: None };
        }
        let writes_text = simple.redirections.iter().any(keeps_output);
        let Some(last) = programs.last() else {
            return Self { is_check: false, effect: redirections, writes_text, nested: None };
        };
        if let Some(script) = given_script(last.words).filter(|_| depth < MAX_NESTED) {
            let nested = AnalyzedScript::read(script, depth + 1);
            let (is_check, effect) = nested
                .as_ref()
                .map_or((false, CommandEffect::Unknown), |nested| (nested.is_check(), nested.effect()));
            let writes_text = writes_text || nested.as_ref().is_some_and(AnalyzedScript::writes_text);
            return Self { is_check, effect: effect.max(redirections), writes_text, nested };
        }
        let writes_text = writes_text || (!last.is_interpreted && writes_its_words(last.words));
        let effect = if last.is_interpreted { CommandEffect::Unknown } else { effect_of_words(last.words) };
        Self { is_check: false, effect: effect.max(redirections), writes_text, nested: None }
    }
}

/// A folder as seen from the project; `None` if it may be outside it.
fn inside<'a>(folder: &'a str, project: &str) -> Option<&'a str> {
    let within = match folder.strip_prefix(project) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
        _ => folder,
    };
    let stays = !within.starts_with('-') && !lies_elsewhere(within);
    stays.then(|| within.trim_end_matches('/'))
}

/// Whether a word names a place outside the project.
fn lies_elsewhere(word: &str) -> bool {
    word.starts_with(['/', '~']) || word.split('/').any(|part| part == "..")
}

/// The argument of `bash -c`, in its usual forms.
fn given_script(words: &[ShellWord]) -> Option<&str> {
    let (name, arguments) = words.split_first()?;
    if !matches!(basename(name.text()?), "bash" | "sh" | "zsh" | "dash") {
        return None;
    }
    let at =
        arguments.iter().position(|word| !word.text().is_some_and(|text| text.starts_with(['-', '+'])))?;
    let is_text = arguments[..at]
        .iter()
        .filter_map(ShellWord::text)
        .any(|option| !option.starts_with("--") && option.ends_with('c'));
    arguments[at].text().filter(|_| is_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_effect(command: &str, effect: CommandEffect, after_check: CommandEffect) {
        let examined = examine(command, Some(0), &[]);
        assert_eq!((examined.effect, examined.after_check), (effect, after_check), "{command}");
    }

    #[test]
    fn a_command_that_is_not_known_to_read_may_write() {
        use CommandEffect::{Reads, Unknown, Writes};
        for command in [
            "cat a | grep b | wc -l",
            "git status && git --no-pager diff",
            "cd x && sed -n '1,20p' a.py 2>/dev/null",
            "find . -name '*.py' | xargs grep -n foo",
            "grep -rn x . > /tmp/found.txt; head /tmp/found.txt",
            "for f in *.py; do echo \"$f\"; head -3 \"$f\"; done",
            "timeout 5 cat a",
            "source venv/bin/activate && git log -1",
            "bash -c 'ls | head'",
            "git stash list",
            "python3 --version && pip list | grep -i pytest; command -v pytest",
            "",
        ] {
            check_effect(command, Reads, Reads);
        }
        for command in [
            "python fix.py",
            "python -c 'print(1)'",
            "./build.sh",
            "npm install",
            "$TOOL x",
            "find . -delete",
            "awk '{print > \"x\"}' a",
            "bash deploy.sh",
            "ls $(make x)",
            "f() { ls; }; f",
            "an 'unclosed quote",
        ] {
            check_effect(command, Unknown, if command.starts_with("an ") { Unknown } else { Reads });
        }
        for command in [
            "sed -i s/a/b/ x.py",
            "sed -ni p x",
            "perl -pi -e s/a/b/ x",
            "echo x > a.py",
            "cat > a.py <<'EOF'\nx\nEOF",
            "ls | tee out.txt",
            "git checkout -- .",
            "git stash",
            "mv a b",
            "timeout 5 rm a",
            "bash -c 'echo x > y'",
            "{ ls; } > list",
        ] {
            check_effect(command, Writes, Reads);
        }
        for command in ["pytest", "pytest | tee log.txt", "pytest > log.txt 2>&1", "{ pytest; } > log.txt"] {
            check_effect(command, Reads, Reads);
        }
        check_effect("sed -i s/a/b/ x && pytest", Writes, Reads);
        check_effect("pytest; sed -i s/a/b/ x", Writes, Writes);
        check_effect("pytest; ./deploy", Unknown, Unknown);
        check_effect("bash -c 'pytest; rm x'", Writes, Writes);
    }

    #[test]
    fn text_that_is_written_stands_in_the_command() {
        for (command, expected) in [
            ("echo hi > notes.txt", true),
            ("cat >> src/a.py <<'EOF'\nx = 1\nEOF", true),
            ("cat > /tmp/try.py <<'EOF'\nx = 1\nEOF", true),
            ("cd src && sed -i 's/a/b/' lib.rs", true),
            ("sed --in-place=.bak s/a/b/ lib.rs", true),
            ("timeout 5 perl -pi -e s/a/b/ lib.rs", true),
            ("ls | tee list", true),
            ("git apply <<'E'\nx\nE", true),
            ("for f in *.py; do sed -i s/a/b/ $f; done", true),
            ("{ echo a; echo b; } > both", true),
            ("bash -c 'echo x > y'", true),
            ("sed -i s/a/b/ lib.rs && pytest", true),
            ("echo hi", false),
            ("echo hi > /dev/null", false),
            ("make test 2>&1 | tail -5", false),
            ("make test | tee log", false),
            ("pytest -k new > log.txt", false),
            ("sed -n 1,20p lib.rs", false),
            ("git -C x log > /dev/null", false),
            ("grep '>' a", false),
            // These only name files.
            ("touch new_name", false),
            ("mv old new && rm -r other", false),
            ("git mv old new", false),
            ("echo 'unfinished > a", false),
        ] {
            assert_eq!(examine(command, Some(0), &[]).writes_text, expected, "{command}");
        }
    }

    #[test]
    fn a_runner_is_a_program_with_its_subcommand() {
        for (command, expected) in [
            ("cargo test -p x 2>&1 | tail -5", "cargo test"),
            ("cd x && RUST_LOG=1 cargo +nightly nextest run", "cargo nextest"),
            ("python3 -m pytest -q", "pytest"),
            ("uv run pytest -q", "pytest"),
            ("poetry run mypy .", "mypy"),
            ("timeout 60 npx jest", "jest"),
            ("python manage.py test app", "manage.py test"),
            ("bash -lc 'go test ./...'", "go test"),
            ("make -C web test", "make test"),
            ("npm run test:unit", "npm test:unit"),
            ("npm run test", "npm test"),
            ("node --test", "node"),
            ("./test.sh", "test.sh"),
            ("bash scripts/test.sh", "test.sh"),
            ("ruff check . && pytest", "pytest, ruff check"),
            ("ls", ""),
            ("an 'unclosed quote", ""),
        ] {
            let runners: Vec<String> = runners_of(command).into_iter().collect();
            assert_eq!(runners.join(", "), expected, "{command}");
        }
    }

    #[test]
    fn a_check_is_the_same_whatever_stands_around_it() {
        for (one, other, expected) in [
            ("pytest -q", "cd x && timeout 5 pytest -q 2>&1 | tail -3", true),
            ("uv run pytest tests", "python -m pytest tests > log", true),
            ("pytest -q", "pytest -q tests/one.py", false),
            ("ruff check . && pytest", "pytest", false),
            ("bash <<X", "bash <<X", true),
            ("ls", "cat a", false),
        ] {
            assert_eq!(are_same_checks(one, other), expected, "{one} / {other}");
        }
    }

    #[test]
    fn a_check_can_be_run_again_without_what_stands_around_it() {
        for (command, expected) in [
            ("ruff check . 2>&1 | tail -5", "ruff check ."),
            ("cd /w/p && timeout 60 mypy src > log; true", "timeout 60 mypy src"),
            ("cd web && cd app && npx eslint 'a b'", "cd web/app && npx eslint 'a b'"),
            (
                "cargo fmt --check; cargo clippy -- -D warnings",
                "cargo fmt --check | cargo clippy -- -D warnings",
            ),
            ("bash -lc 'cd web && npm run lint'", "cd web && npm run lint"),
            ("for f in a b; do ruff check $f; done", ""),
            ("ruff check \"$F\"", ""),
            ("cd .. && make lint", ""),
            ("cd /elsewhere && make lint", ""),
            ("ruff check /w/p/a.py", ""),
            ("X=1 make lint", ""),
            ("ls", ""),
        ] {
            assert_eq!(check_lines(command, "/w/p").join(" | "), expected, "{command}");
        }
    }

    /// What an agent ran must not have a say in what its runner does, beside which runner it is.
    #[test]
    fn a_suite_that_is_not_known_is_none() {
        for command in [
            "ruff check .",
            "cargo clippy && mypy src",
            "make lint",
            "bash -n test.sh",
            "python3 -O -m pytest",
            "env PYTEST_ADDOPTS=--co pytest",
            "PYTEST_ADDOPTS=--co pytest",
            "uv run --with ./mine pytest",
            "docker exec web pytest",
            "/tmp/pytest",
            "cd web && ../mine/pytest",
            "npx playwright test a",
            "ls",
        ] {
            assert_eq!(whole_suite_of(command, "/w/p"), None, "{command}");
        }
        assert_eq!(whole_suite_of("ruff check . && pytest -k a; mypy .", "/w/p").as_deref(), Some("pytest"));
        assert_eq!(whole_suite_of("cd /w/p/a && ./test.sh x", "/w/p").as_deref(), Some("cd a && ./test.sh"));
    }

    #[test]
    fn a_pipe_at_the_end_is_seen() {
        for command in ["a | b", "x; a | b", "a && b | c", "(a) | b", "a 2>&1 | tail -20 # why"] {
            assert!(ends_with_pipe(command), "{command}");
        }
        for command in ["a", "a | b; c", "a | b && c", "a | b &", "(a | b)", "a || b", "a | '"] {
            assert!(!ends_with_pipe(command), "{command}");
        }
    }
}
