//! Measures progress (`docs/tools.md#guards`): what a tool call achieved that is new, judged by its results and not by
//! its words.
//!
//! A text is compared as the sequence of its words, without figures and blanks: a counter, a time or an empty line makes
//! no new text, nor does a word that is written once more. Text that was in the same file before is not new when it comes
//! back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

use super::loop_detector::{TextDigest, print, without_figures};
use crate::facts::{self, CommandFact, CommandResult, CommandRun};
use crate::message::ToolCall;
use crate::policy::BASH;
use crate::tool::{ToolAccess, ToolOutcome};

/// Words of one text that are compared.
const WORDS: usize = 20_000;
/// Words that are compared together.
const PHRASE: usize = 3;
/// Tools whose arguments are the text that they write.
const WRITERS: &[&str] = &["Write", "Edit"];
/// The argument of `Edit` that says what is replaced.
const REPLACED: &str = "old_string";

/// How much progress a call made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProgressLevel {
    /// Nothing.
    #[default]
    None,
    /// A result that was not seen before.
    NewOutput,
    /// New text in a file, or another result of a check.
    NewChange,
    /// A change in a place that the run had not changed: text of the beginning, or a file for the first time.
    NewPlace,
    /// A check passes for the first time, or again.
    Passed,
    /// Fewer tests fail than ever.
    Better,
}

/// The texts and results that a run has seen, by which it judges what is new.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ProgressTracker {
    /// Files that were changed.
    files: BTreeSet<TextDigest>,
    /// The phrases that were written into each file, or replaced.
    phrases: BTreeSet<TextDigest>,
    /// Results, whatever call they came from.
    results: BTreeSet<TextDigest>,
    /// Checks by their command.
    checks: BTreeMap<TextDigest, CheckRecord>,
    /// Calls that wrote, and those of them that wrote new text.
    writes: u32,
    changes: u32,
}

/// What is known of one check.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct CheckRecord {
    result: TextDigest,
    /// The same with its figures.
    exact: TextDigest,
    failed: bool,
    /// Whether it failed in a way that was not seen before, since it last passed.
    failed_anew: bool,
    /// Different changes after which it failed alike, in a row.
    alike: u32,
    /// Writes and changes before its last run.
    writes: u32,
    changes: u32,
    /// Whether it has ever passed.
    has_passed: bool,
    /// The fewest tests that ever failed; absent where no output gave their number.
    fewest_failed: Option<u64>,
}

/// What a command is, as far as it matters here, and how it went.
struct Ran {
    is_check: bool,
    /// It holds text that it writes.
    writes_text: bool,
    /// It is there to write files.
    writes: bool,
    exit_code: Option<i32>,
    failed: bool,
    failed_tests: Option<u64>,
}

impl Ran {
    fn of(command: &str, outcome: &ToolOutcome) -> Self {
        let facts::Examined { is_check, own_status, effect, writes_text, after_check: _ } =
            facts::examine(command, outcome.exit_code, &outcome.pipe_status);
        let fact = CommandFact {
            exit_code: outcome.exit_code,
            own_status,
            summary: if is_check { facts::summarize(&outcome.content) } else { None },
            ..CommandFact::default()
        };
        let failed = matches!(fact.result(), CommandResult::Failed | CommandResult::NotRun);
        let writes = effect == facts::CommandEffect::Writes;
        let counts = fact.summary.as_ref().and_then(|summary| summary.counts);
        let failed_tests = counts.map(|counts| counts.failed);
        Self { is_check, writes_text, writes, exit_code: fact.own_exit_code(), failed, failed_tests }
    }

    /// A check that rawko ran itself.
    fn of_check(run: &CommandRun) -> Self {
        Self {
            is_check: true,
            writes_text: false,
            writes: false,
            exit_code: run.exit_code,
            failed: !run.passed(),
            failed_tests: run.counts.map(|counts| counts.failed),
        }
    }
}

impl ProgressTracker {
    /// The progress of `call`, and, if it is a check that failed, after how many different changes it has failed alike.
    pub(super) fn judge(
        &mut self,
        call: &ToolCall,
        access: ToolAccess,
        outcome: &ToolOutcome,
    ) -> (ProgressLevel, Option<u32>) {
        if outcome.is_error && outcome.exit_code.is_none() {
            return (ProgressLevel::None, None);
        }
        let writes = access == ToolAccess::Mutating
            && (WRITERS.contains(&call.name.as_str()) || !outcome.files_modified.is_empty());
        if writes {
            return (self.wrote(&call.input, &outcome.files_modified), None);
        }
        let input = call.input.get("command").filter(|_| call.name == BASH);
        let (Some(input), Some(command)) = (input, input.and_then(Value::as_str)) else {
            return (self.learned(&outcome.content), None);
        };
        let ran = Ran::of(command, outcome);
        let changed = &outcome.named_files_changed;
        // What a check prints into a file is no work.
        let writes = ran.writes_text || (!ran.is_check && !changed.is_empty());
        let wrote = if writes { self.wrote(input, changed) } else { ProgressLevel::None };
        self.writes += u32::from(ran.writes && !writes);
        let output = without_chance(&output(command, &outcome.content));
        let learned = self.learned(&output);
        let (checked, alike) = if ran.is_check {
            self.checked(command, &ran, &output, learned)
        } else {
            (ProgressLevel::None, None)
        };
        (wrote.max(checked).max(learned), alike)
    }

    /// The progress of a check that rawko ran itself.
    pub(super) fn judge_check(&mut self, run: &CommandRun) -> ProgressLevel {
        let output = without_chance(&run.output);
        let learned = self.learned(&output);
        self.checked(&run.command, &Ran::of_check(run), &output, learned).0
    }

    /// A text was written into `files`, where they are known.
    fn wrote(&mut self, input: &Value, files: &[String]) -> ProgressLevel {
        self.writes += 1;
        let unknown = [String::new()];
        let mut progress = ProgressLevel::None;
        for file in if files.is_empty() { &unknown } else { files } {
            let is_new_file = !file.is_empty() && self.files.insert(print([file]));
            let replaced = input.get(REPLACED).and_then(Value::as_str);
            let in_new_place = replaced.is_some_and(|text| self.take_in_text(file, text));
            let is_new_text = self.take_in(file, input);
            progress = progress.max(match (is_new_file || in_new_place, is_new_text) {
                (true, _) => ProgressLevel::NewPlace,
                (false, true) => ProgressLevel::NewChange,
                (false, false) => ProgressLevel::None,
            });
        }
        self.changes += u32::from(progress > ProgressLevel::None);
        progress
    }

    /// Whether the texts in `input` have a phrase that was not in `file` before. Paths are not part of what is written.
    fn take_in(&mut self, file: &str, input: &Value) -> bool {
        match input {
            Value::String(text) => self.take_in_text(file, text),
            Value::Array(items) => items.iter().fold(false, |new, item| self.take_in(file, item) | new),
            Value::Object(fields) => fields
                .iter()
                .filter(|(name, _)| !name.ends_with("path"))
                .fold(false, |new, (_, value)| self.take_in(file, value) | new),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    fn take_in_text(&mut self, file: &str, text: &str) -> bool {
        let plain = without_figures(text);
        let words: Vec<&str> = words(&plain).collect();
        let mut new = false;
        for phrase in words.windows(PHRASE.min(words.len().max(1))) {
            let says_something = phrase.iter().any(|word| word.contains(char::is_alphabetic));
            let phrase = phrase.iter().copied();
            new |= says_something && self.phrases.insert(print([file].into_iter().chain(phrase)));
        }
        new
    }

    /// A check gave this result. Another one counts as a change only if new text was written since its last run, or if
    /// something was written and it passes for the first time: what differs may be there by chance. For the same reason it
    /// is better only if fewer tests fail than ever, or if it passes again after a failure that was not seen before.
    fn checked(
        &mut self,
        command: &str,
        ran: &Ran,
        output: &str,
        learned: ProgressLevel,
    ) -> (ProgressLevel, Option<u32>) {
        let failed = ran.failed;
        let exit = format!("{:?}", ran.exit_code);
        let checks = facts::checks_of(command);
        let key = match checks.is_empty() {
            true => print(words(&without_figures(command))),
            // Whatever is around them, such as an edit in the same command.
            false => print(checks.iter().flatten().map(|word| without_figures(word))),
        };
        let before = self.checks.get(&key).copied();
        let fewest_before = before.and_then(|before| before.fewest_failed);
        let mut now = CheckRecord {
            result: print(std::iter::once(exit.as_str()).chain(words(&without_figures(output)))),
            exact: print([exit.as_str(), output]),
            failed,
            failed_anew: failed
                && (learned > ProgressLevel::None || before.is_some_and(|before| before.failed_anew)),
            alike: u32::from(failed),
            writes: self.writes,
            changes: self.changes,
            has_passed: !failed || before.is_some_and(|before| before.has_passed),
            fewest_failed: ran.failed_tests.into_iter().chain(fewest_before).min(),
        };
        let progress = match before {
            None => ProgressLevel::NewOutput,
            // What differs is there by chance.
            Some(before) if before.writes == now.writes && before.result != now.result => ProgressLevel::None,
            Some(before) if passes_anew(&before, &now) => ProgressLevel::Passed,
            Some(before) if fails_less(&before, &now, ran.failed_tests) => ProgressLevel::Better,
            Some(before) if before.result == now.result => {
                now.alike = before.alike + u32::from(failed && before.changes != now.changes);
                let has_other_figures = before.exact != now.exact && before.writes != now.writes;
                if has_other_figures { ProgressLevel::NewOutput } else { ProgressLevel::None }
            }
            Some(before) if before.changes != now.changes => ProgressLevel::NewChange,
            Some(_) => ProgressLevel::NewOutput,
        };
        self.checks.insert(key, now);
        (progress, failed.then_some(now.alike))
    }

    /// A result: new if no call gave it before.
    fn learned(&mut self, result: &str) -> ProgressLevel {
        let plain = without_figures(result);
        let mut says_something = false;
        let fingerprint = print(words(&plain).inspect(|word| {
            says_something = says_something || *word == "#" || word.contains(char::is_alphanumeric);
        }));
        if says_something && self.results.insert(fingerprint) {
            ProgressLevel::NewOutput
        } else {
            ProgressLevel::None
        }
    }
}

/// Whether a check passes for the first time after something was written, or again after a failure that was not seen before
/// and new text.
fn passes_anew(before: &CheckRecord, now: &CheckRecord) -> bool {
    let again = before.failed_anew && before.changes != now.changes;
    before.failed && !now.failed && (again || (!before.has_passed && before.writes != now.writes))
}

/// Whether fewer tests fail than ever, after new text, or their number is known for the first time.
fn fails_less(before: &CheckRecord, now: &CheckRecord, failed_tests: Option<u64>) -> bool {
    let is_less = |now: u64| before.fewest_failed.is_none_or(|fewest| now < fewest);
    before.failed && now.failed && before.changes != now.changes && failed_tests.is_some_and(is_less)
}

/// What a command printed: without what the shell tool adds, and without what is in the command itself.
fn output(command: &str, content: &str) -> String {
    let added = |line: &str| (line.starts_with('[') && line.ends_with(']')) || line == "(no output)";
    let lines = content.lines().filter(|line| !added(line) && !command.contains(line.trim()));
    lines.collect::<Vec<_>>().join("\n")
}

/// Random names, such as those of temporary files and addresses.
static CHANCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let folders = "(?:/tmp|/var/tmp|/dev/shm|/private/tmp)/";
    Regex::new(&format!(r"(?<folder>{folders})[^\s/:;,'\x22`()<>]+|\b0x[0-9A-Fa-f]+\b|\b[0-9A-Za-z]{{8,}}\b"))
        .ok()
});

/// A text without what is there by chance.
fn without_chance(text: &str) -> String {
    let Some(chance) = CHANCE.as_ref() else { return text.to_owned() };
    let masked = chance.replace_all(text, |found: &Captures<'_>| {
        let word = &found[0];
        match found.name("folder") {
            Some(folder) => format!("{}#", folder.as_str()),
            None if word.starts_with("0x") || is_random(word) => "#".to_owned(),
            None => word.to_owned(),
        }
    });
    masked.into_owned()
}

/// Whether a word of letters and figures looks as if it was drawn by lot: all kinds are in it, as in `Xa9kQ2LmT1`, or it
/// is a hexadecimal number.
fn is_random(word: &str) -> bool {
    let has = |kind: fn(char) -> bool| word.contains(kind);
    let has_figure = has(|c| c.is_ascii_digit());
    let has_both_cases = has(|c| c.is_ascii_lowercase()) && has(|c| c.is_ascii_uppercase());
    has_figure && (has_both_cases || word.chars().all(|c| c.is_ascii_hexdigit()))
}

/// The words of a text without figures. A sign is a word, blanks are none, and a word of hexadecimal digits is a figure.
fn words(plain: &str) -> impl Iterator<Item = &str> {
    let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '_' | '#');
    let mut rest = plain;
    let next = move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let end = if is_letter(first) { rest.find(|c| !is_letter(c)) } else { Some(first.len_utf8()) };
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        let is_figure = word.contains('#') && word.chars().all(|c| c == '#' || c.is_ascii_hexdigit());
        Some(if is_figure { "#" } else { word })
    };
    std::iter::from_fn(next).take(WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bash(
        tracker: &mut ProgressTracker,
        command: &str,
        exit: i32,
        output: &str,
    ) -> (ProgressLevel, Option<u32>) {
        // As the tool sees it.
        let changed =
            command.split_once("> ").map(|(_, rest)| rest.split([' ', '\n']).next().unwrap_or_default());
        let outcome = ToolOutcome {
            exit_code: Some(exit),
            is_error: exit != 0,
            named_files_changed: changed.into_iter().map(str::to_owned).collect(),
            ..ToolOutcome::ok(format!("{output}\n[exit code {exit}]"))
        };
        tracker.judge(&call("Bash", json!({ "command": command })), ToolAccess::Mutating, &outcome)
    }

    fn write(tracker: &mut ProgressTracker, path: &str, text: &str) -> ProgressLevel {
        let input = json!({"file_path": path, "content": text});
        let outcome = ToolOutcome { files_modified: vec![path.to_owned()], ..ToolOutcome::ok("written") };
        tracker.judge(&call("Write", input), ToolAccess::Mutating, &outcome).0
    }

    fn call(name: &str, input: Value) -> ToolCall {
        ToolCall { id: "c".into(), name: name.into(), input, invalid_input: None, withheld: None }
    }

    /// The progress that the second text counts as after the first.
    #[track_caller]
    fn check_text(first: &str, second: &str, expected: ProgressLevel) {
        let mut tracker = ProgressTracker::default();
        assert_eq!(write(&mut tracker, "a", first), ProgressLevel::NewPlace, "{first}");
        assert_eq!(write(&mut tracker, "a", second), expected, "{first} / {second}");
    }

    #[test]
    fn counters_times_and_blanks_are_no_new_text() {
        for (first, second) in [
            ("tick 1\n", "tick 2\n"),
            ("at 10:22:01", "at 10:22:02.5"),
            ("a = b;\n", "a = b;\n\n\n"),
            ("a = b;", "  a   =\tb;"),
            ("tick tick tick", "tick tick tick tick tick"),
            ("one a\ntwo b\nthree c\n", "two b\nthree c\n"),
            ("id deadbeef01", "id 0badcafe"),
        ] {
            check_text(first, second, ProgressLevel::None);
        }
        check_text("a = b;", "a = c;", ProgressLevel::NewChange);
        check_text("if a < b {", "if a <= b {", ProgressLevel::NewChange);
        let edit = |old: &str, new: &str| {
            call("Edit", json!({"file_path": "a", "old_string": old, "new_string": new}))
        };
        let mut tracker = ProgressTracker::default();
        let ok = ToolOutcome { files_modified: vec!["a".into()], ..ToolOutcome::ok("done") };
        let mut judge = |call: ToolCall| tracker.judge(&call, ToolAccess::Mutating, &ok).0;
        assert_eq!(judge(edit("let x = one();", "let x = two();")), ProgressLevel::NewPlace);
        assert_eq!(judge(edit("let x = two();", "let x = one();")), ProgressLevel::None, "there and back");
        assert_eq!(
            judge(edit("let x = one();", "let x = ten();")),
            ProgressLevel::NewChange,
            "its own words"
        );
        assert_eq!(judge(edit("unused line", "")), ProgressLevel::NewPlace, "something went");
        assert_eq!(
            judge(edit("let y = z;", "let y = z;\nlet w;")),
            ProgressLevel::NewPlace,
            "something came"
        );
        assert_eq!(
            judge(edit("let y = z;", "let y = z;\nlet v;")),
            ProgressLevel::NewChange,
            "at the same place"
        );
    }

    #[test]
    fn a_command_is_judged_by_what_came_of_it() {
        let mut tracker = ProgressTracker::default();
        let mut run = |command: &str, output: &str| bash(&mut tracker, command, 0, output).0;
        assert_eq!(run("ls", "a.rs\nb.rs"), ProgressLevel::NewOutput);
        assert_eq!(run("ls -a", "a.rs\nb.rs"), ProgressLevel::None, "another command, the same result");
        assert_eq!(run("echo alpha", "alpha"), ProgressLevel::None, "it prints its own argument");
        assert_eq!(run("sleep 5", "(no output)"), ProgressLevel::None);
        assert_eq!(run("date", "Mon 10:22:01"), ProgressLevel::NewOutput);
        assert_eq!(run("date -u", "Mon 10:23:07"), ProgressLevel::None);
        assert_eq!(run("cat > a.py <<'E'\nx = f()\nE", "(no output)"), ProgressLevel::NewPlace);
        assert_eq!(
            run("cat > b.py <<'E'\nx = f()\nE", "(no output)"),
            ProgressLevel::NewPlace,
            "another file"
        );
        assert_eq!(run("echo 1 >> n", "(no output)"), ProgressLevel::NewPlace);
        assert_eq!(run("echo 2 >> n", "(no output)"), ProgressLevel::None);
        assert_eq!(
            run("echo more >> n", "(no output)"),
            ProgressLevel::NewChange,
            "other words, the same place"
        );
    }

    #[test]
    fn a_check_counts_by_its_result_after_a_write() {
        let mut tracker = ProgressTracker::default();
        assert_eq!(bash(&mut tracker, "make test", 1, "a failed"), (ProgressLevel::NewOutput, Some(1)));
        assert_eq!(bash(&mut tracker, "make test", 1, "a failed"), (ProgressLevel::None, Some(1)));
        for alike in 2..5 {
            let progress = if alike == 2 { ProgressLevel::NewPlace } else { ProgressLevel::NewChange };
            assert_eq!(write(&mut tracker, "a", &format!("try {}", "x".repeat(alike as usize))), progress);
            assert_eq!(bash(&mut tracker, "make test", 1, "a failed"), (ProgressLevel::None, Some(alike)));
        }
        write(&mut tracker, "a", "try 2");
        assert_eq!(
            bash(&mut tracker, "make test", 1, "a failed, 2 left"),
            (ProgressLevel::NewChange, Some(1))
        );
        write(&mut tracker, "a", "try 3");
        assert_eq!(
            bash(&mut tracker, "make test", 1, "a failed, 1 left"),
            (ProgressLevel::NewOutput, Some(1))
        );
        assert_eq!(
            bash(&mut tracker, "make test", 0, "ok").0,
            ProgressLevel::NewOutput,
            "nothing was written"
        );
    }

    /// Runs of one check, each after new text (`+`) or after a write without any (`.`), as exit status and output.
    #[track_caller]
    fn check_better(runs: &[(char, i32, &str)], expected: &[bool]) {
        let mut tracker = ProgressTracker::default();
        let mut number = 0;
        let better: Vec<bool> = runs
            .iter()
            .map(|(write_before, exit, output)| {
                number += usize::from(*write_before == '+');
                write(&mut tracker, "a", &format!("some {}", "y".repeat(number)));
                bash(&mut tracker, "pytest", *exit, output).0 >= ProgressLevel::Passed
            })
            .collect();
        assert_eq!(better, expected, "{runs:?}");
    }

    #[test]
    fn a_check_is_better_when_fewer_tests_fail_than_ever() {
        let failed = |count: u32| format!("=== {count} failed, 2 passed in 0.1s ===");
        let (one, three, five) = (failed(1), failed(3), failed(5));
        check_better(
            &[('+', 1, &five), ('+', 1, &three), ('+', 1, &five), ('+', 1, &three), ('+', 1, &one)],
            &[false, true, false, false, true],
        );
        check_better(&[('+', 1, &five), ('.', 1, &three)], &[false, false]);
        // It can say now how many fail.
        check_better(&[('+', 2, "SyntaxError"), ('+', 1, &five)], &[false, true]);
    }

    #[test]
    fn a_check_is_better_when_it_passes_after_a_failure_that_was_not_seen_before() {
        check_better(&[('+', 1, "one"), ('.', 0, "ok")], &[false, true]);
        check_better(&[('+', 0, "ok"), ('+', 0, "ok")], &[false, false]);
        // Another test was written first each time.
        check_better(
            &[('+', 1, "one"), ('+', 0, "ok"), ('+', 1, "two"), ('+', 1, "two"), ('+', 0, "ok")],
            &[false, true, false, false, true],
        );
        // By chance.
        check_better(
            &[
                ('+', 1, "one"),
                ('+', 0, "ok"),
                ('+', 1, "one"),
                ('+', 0, "ok"),
                ('+', 1, "one"),
                ('+', 0, "ok"),
            ],
            &[false, true, false, false, false, false],
        );
    }

    #[test]
    fn a_check_that_rawko_ran_counts_too() {
        let mut tracker = ProgressTracker::default();
        let mut check = |passes: bool| {
            tracker.writes += 1;
            let exit_code = Some(i32::from(!passes));
            let output = if passes { "ok" } else { "failed" }.to_owned();
            tracker.judge_check(&CommandRun {
                command: "make".into(),
                exit_code,
                output,
                ..CommandRun::default()
            })
        };
        assert_eq!([check(false), check(true)], [ProgressLevel::NewOutput, ProgressLevel::Passed]);
    }

    #[test]
    fn a_check_in_a_pipe_or_a_wrapper_counts_by_its_own_status() {
        let mut tracker = ProgressTracker::default();
        let mut run = |command: &str, statuses: &[i32], output: &str| {
            let outcome = ToolOutcome {
                exit_code: Some(0),
                pipe_status: statuses.to_vec(),
                ..ToolOutcome::ok(format!("{output}\n[exit code 0]"))
            };
            let call = call("Bash", json!({ "command": command }));
            tracker.judge(&call, ToolAccess::Mutating, &outcome)
        };
        assert_eq!(
            run("uv run pytest -q | tail -5", &[1, 0], "a failed"),
            (ProgressLevel::NewOutput, Some(1))
        );
        assert_eq!(run("mv a.py b.py", &[], ""), (ProgressLevel::None, None), "no text, but a write");
        assert_eq!(
            run("uv run pytest -q | tail -5", &[1, 0], "b failed"),
            (ProgressLevel::NewOutput, Some(1))
        );
        assert_eq!(run("sed -i s/one/two/ a.py", &[], ""), (ProgressLevel::NewChange, None));
        assert_eq!(run("uv run pytest -q | tail -5", &[1, 0], "b failed"), (ProgressLevel::None, Some(2)));
        assert_eq!(run("mv b.py c.py", &[], ""), (ProgressLevel::None, None));
        assert_eq!(
            run("uv run pytest -q | tail -5", &[0, 0], "b failed"),
            (ProgressLevel::Passed, None),
            "green"
        );
    }

    #[test]
    fn another_failure_without_new_text_is_no_change() {
        use ProgressLevel::{NewOutput, Passed};
        let mut tracker = ProgressTracker::default();
        bash(&mut tracker, "make test", 1, "no rule");
        let progress = [(1, "ka lo"), (1, "mi"), (0, "nu"), (1, "pe")].map(|(exit, output)| {
            bash(&mut tracker, "mv a b", 0, "");
            bash(&mut tracker, "make test", exit, output).0
        });
        assert_eq!(progress, [NewOutput, NewOutput, Passed, NewOutput]);
    }

    #[test]
    fn random_differences_are_no_other_result() {
        let same = |one: &str, other: &str| without_chance(one) == without_chance(other);
        assert!(same("cannot open /tmp/Xa9kQ2LmTb", "cannot open /tmp/qQQkTTmbzz"));
        assert!(same("<Object at 0x7f3a12>", "<Object at 0x7f99bb>"));
        assert!(same("token Zk29aLq0Pd", "token aP93KKq01x"));
        assert!(same("commit 8f14e45f", "commit c9f0f895"));
        assert!(!same("/tmp/project/src/one.py:3", "/tmp/project/src/two.py:3"));
        assert!(!same("FAILED test_addition", "FAILED test_division"));
        assert!(!same("getUserName is not defined", "setUserName is not defined"));
        let mut tracker = ProgressTracker::default();
        bash(&mut tracker, "make test", 1, "cannot open /tmp/Xa9kQ2LmTb");
        write(&mut tracker, "a", "new words here");
        let again = bash(&mut tracker, "make test", 1, "cannot open /tmp/qQQkTTmbzz");
        assert_eq!(again, (ProgressLevel::None, Some(2)));
    }

    #[test]
    fn a_failed_call_is_no_progress() {
        let mut tracker = ProgressTracker::default();
        let failed = ToolOutcome { is_error: true, ..ToolOutcome::ok("no such file: a") };
        let read = call("Read", json!({"file_path": "a"}));
        assert_eq!(tracker.judge(&read, ToolAccess::ReadOnly, &failed).0, ProgressLevel::None);
        assert_eq!(
            tracker.judge(&read, ToolAccess::ReadOnly, &ToolOutcome::ok("text")).0,
            ProgressLevel::NewOutput
        );
        assert_eq!(
            tracker.judge(&read, ToolAccess::ReadOnly, &ToolOutcome::ok("text")).0,
            ProgressLevel::None
        );
    }
}
