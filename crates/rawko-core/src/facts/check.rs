//! The result of a check: a command that rawko ran on one tree. What programs print about it is data, in `failures.json`
//! and `unavailable.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

use super::command::NOT_RUN;
use super::command_run::{CheckResult, CommandRun};
use super::test_report::{TestCounts, without_escapes};
use crate::text::{truncate, without_digits};

/// Failures that are kept. Lists of so many cannot be compared: they may have been cut.
const MAX_FAILURES: usize = 200;
/// Characters of one of them.
const FAILURE_CHARS: usize = 200;

impl CommandRun {
    /// A command that ended with `exit_code` and printed `whole`, of which `output` is kept.
    #[must_use]
    pub fn of(
        command: &str,
        exit_code: Option<i32>,
        output: String,
        whole: &str,
        counts: Option<TestCounts>,
    ) -> Self {
        let run = Self { command: command.to_owned(), exit_code, output, counts, ..Self::default() };
        if run.passed() {
            return run;
        }
        let unavailable = exit_code.and_then(|code| why_unavailable(code, whole, counts));
        let failures = if unavailable.is_some() { Vec::new() } else { failures(whole) };
        Self { unavailable, failures, ..run }
    }

    /// Its result.
    #[must_use]
    pub fn result(&self) -> CheckResult {
        match self {
            run if run.timed_out => CheckResult::TimedOut,
            run if run.unavailable.is_some() => CheckResult::Unavailable,
            run if run.ran_no_test() => CheckResult::NothingToRun,
            run if run.passed() => CheckResult::Passed,
            _ => CheckResult::Failed,
        }
    }

    /// Whether what it lacks is named in the command itself, and is none of the project's files.
    #[must_use]
    pub fn lacks_its_program(&self) -> bool {
        let missing = self.unavailable.as_deref().and_then(|why| why.strip_prefix('`')?.split_once('`'));
        missing.is_some_and(|(program, _)| {
            !program.contains('/') && self.command.split_whitespace().any(|word| word == program)
        })
    }

    /// How it ended, as the end of a sentence: `exited with 1`.
    #[must_use]
    pub fn how(&self) -> String {
        match (self.result(), self.exit_code) {
            (CheckResult::TimedOut, _) => "did not end in time".to_owned(),
            (CheckResult::Unavailable, _) => {
                format!("could not run: {}", self.unavailable.as_deref().unwrap_or_default())
            }
            (CheckResult::NothingToRun, _) => "ran no test".to_owned(),
            (_, Some(code)) => format!("exited with {code}"),
            (_, None) => "did not end by itself".to_owned(),
        }
    }

    /// Whether a check that failed finds something that it did not find in `before`; `None` where that cannot be seen.
    #[must_use]
    pub fn is_worse_than(&self, before: &Self) -> Option<bool> {
        if self.passed() {
            return Some(false);
        }
        if before.passed() {
            return Some(true);
        }
        if let (Some(now), Some(old)) = (self.counts, before.counts) {
            if now.failed > old.failed {
                return Some(true);
            }
            // It stopped early, or tests are gone: what it has not come to may be new.
            if now.executed < old.executed {
                return None;
            }
        }
        let is_cut = self.output.contains(" bytes cut");
        if !self.output.is_empty()
            && !is_cut
            && self.exit_code == before.exit_code
            && without_digits(&self.output) == without_digits(&before.output)
        {
            return Some(false);
        }
        let is_whole = |run: &Self| !run.failures.is_empty() && run.failures.len() < MAX_FAILURES;
        if !is_whole(self) || !is_whole(before) {
            return None;
        }
        let count = |run: &Self| {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for failure in &run.failures {
                *counts.entry(failure.clone()).or_default() += 1;
            }
            counts
        };
        let known = count(before);
        Some(count(self).iter().any(|(failure, times)| known.get(failure).is_none_or(|known| known < times)))
    }
}

/// Why a command with this exit status checked nothing; `None` if it did, as far as its output shows.
fn why_unavailable(exit_code: i32, output: &str, counts: Option<TestCounts>) -> Option<String> {
    if counts.is_some_and(|counts| counts.executed > 0) {
        return None;
    }
    let missing = || "a program that it needs is missing".to_owned();
    let found = output.lines().find_map(|line| {
        UNAVAILABLE.iter().flatten().find_map(|(row, pattern)| {
            let found = pattern.captures(line.trim_end())?;
            let program = found.name("program").map(|program| format!("`{}` is missing", program.as_str()));
            Some(program.or_else(|| row.why.clone()).unwrap_or_else(missing))
        })
    });
    found.map(|why| truncate(&why, FAILURE_CHARS)).or_else(|| NOT_RUN.contains(&exit_code).then(missing))
}

/// What failed: the names of tests; where there are none, lines that name a place in a file, without its number.
fn failures(output: &str) -> Vec<String> {
    let Some(patterns) = PATTERNS.as_ref() else { return Vec::new() };
    let output = without_escapes(output);
    let mut tests = BTreeSet::new();
    let mut places = Vec::new();
    for line in output.lines() {
        if tests.len() >= MAX_FAILURES {
            break;
        }
        let found = patterns.tests.iter().find_map(|pattern| pattern.captures(line.trim_end()));
        if let Some(name) = found.as_ref().and_then(|found| found.name("name").or(found.name("other"))) {
            tests.insert(truncate(name.as_str().trim(), FAILURE_CHARS));
        } else if places.len() < MAX_FAILURES && patterns.place.is_match(line) {
            places.push(truncate(&without_digits(line.trim()), FAILURE_CHARS));
        }
    }
    if tests.is_empty() { places } else { tests.into_iter().collect() }
}

/// A row of `unavailable.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnavailableRow {
    /// Matches one line. The group `program` names what is missing.
    line: String,
    /// What is missing, where the line does not name it.
    why: Option<String>,
    /// Lines that it matches.
    #[serde(rename = "examples")]
    _examples: Vec<String>,
}

/// A row of `failures.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FailureRow {
    /// For reviewers.
    #[serde(rename = "runner")]
    _runner: String,
    /// Matches one line. The group `name` or `other` is the name of a test that failed.
    line: String,
    /// Lines, each with the name in it.
    #[serde(rename = "examples")]
    _examples: Vec<(String, String)>,
}

static UNAVAILABLE: LazyLock<Option<Vec<(UnavailableRow, Regex)>>> = LazyLock::new(|| {
    let rows: Vec<UnavailableRow> = serde_json::from_str(include_str!("unavailable.json")).ok()?;
    let compiled = |row: UnavailableRow| Regex::new(&row.line).ok().map(|pattern| (row, pattern));
    rows.into_iter().map(compiled).collect()
});

static PATTERNS: LazyLock<Option<CheckPatterns>> = LazyLock::new(|| {
    let rows: Vec<FailureRow> = serde_json::from_str(include_str!("failures.json")).ok()?;
    let tests: Option<Vec<Regex>> = rows.iter().map(|row| Regex::new(&row.line).ok()).collect();
    Some(CheckPatterns {
        tests: tests?,
        place: Regex::new(r"[\w.@/\\-]+\.\w{1,8}(?::\d+|\(\d+|\x22, line \d+)").ok()?,
    })
});

struct CheckPatterns {
    tests: Vec<Regex>,
    /// `src/lib.rs:3`, `src/a.ts(3`, `"a.py", line 3`
    place: Regex,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_matches_its_examples() {
        let rows: Vec<FailureRow> = serde_json::from_str(include_str!("failures.json")).unwrap();
        for row in rows {
            assert!(!row._examples.is_empty());
            for (line, name) in row._examples {
                assert!(Regex::new(&row.line).unwrap().is_match(&line), "{}: {line}", row.line);
                assert_eq!(failures(&line), [name], "{line}");
            }
        }
        for (row, pattern) in UNAVAILABLE.as_ref().unwrap() {
            assert!(!row._examples.is_empty());
            for line in &row._examples {
                assert!(pattern.is_match(line), "{line}");
                assert!(why_unavailable(1, line, None).is_some(), "{line}");
            }
        }
    }

    fn run(exit_code: i32, output: &str) -> CommandRun {
        let counts = super::super::parse_test_counts(output);
        CommandRun::of("t", Some(exit_code), output.to_owned(), output, counts)
    }

    #[track_caller]
    fn check(exit_code: i32, output: &str, expected: CheckResult, how: &str) {
        let run = run(exit_code, output);
        assert_eq!((run.result(), run.how().as_str()), (expected, how), "{output}");
    }

    #[test]
    fn a_check_that_could_not_run_has_not_failed() {
        use CheckResult::{Failed, NothingToRun, Passed, Unavailable};
        check(0, "bash: line 1: tox: command not found", Passed, "exited with 0");
        check(127, "bash: line 1: tox: command not found", Unavailable, "could not run: `tox` is missing");
        check(127, "", Unavailable, "could not run: a program that it needs is missing");
        check(
            2,
            "tox\nmake: tox: No such file or directory\nmake: *** [Makefile:2: test] Error 127",
            Unavailable,
            "could not run: `tox` is missing",
        );
        check(
            1,
            "/usr/bin/python3: No module named flake8",
            Unavailable,
            "could not run: `flake8` is missing",
        );
        check(0, "Ran 0 tests in 0.0s\n\nOK", NothingToRun, "ran no test");
        // Tests that ran and failed have failed, whatever they print.
        check(1, "x: command not found\n1 failed, 2 passed in 0.1s", Failed, "exited with 1");
        let named =
            |command: &str| CommandRun { command: command.to_owned(), ..run(127, "sh: 1: tox: not found") };
        assert!(named("tox -q").lacks_its_program() && !named("make test").lacks_its_program());
        check(1, "ModuleNotFoundError: No module named 'calc'", Failed, "exited with 1");
        check(1, "grep: a.txt: No such file or directory", Failed, "exited with 1");
        let hangs = CommandRun { timed_out: true, ..CommandRun::default() };
        assert_eq!((hangs.result(), hangs.how().as_str()), (CheckResult::TimedOut, "did not end in time"));
    }

    #[test]
    fn results_are_compared_by_what_they_find() {
        let worse = |now: &str, before: &str| run(1, now).is_worse_than(&run(1, before));
        let red = "FAILED t.py::a - x\n1 failed, 1 passed in 0.1s";
        assert_eq!(worse(red, "FAILED t.py::a - y\nFAILED t.py::b - y\n2 failed in 0.2s"), Some(false));
        assert_eq!(worse(red, "FAILED t.py::b - y\n1 failed in 0.2s"), Some(true));
        // A finding may move within its file; a second one of its kind is new.
        assert_eq!(worse("a.py:9:1: E501 too long", "a.py:2:1: E501 too long"), Some(false));
        assert_eq!(worse("a.py:9: E501\na.py:12: E501", "a.py:2: E501"), Some(true));
        assert_eq!(worse("src/a.ts(3,4): error TS1", "src/b.ts(3,4): error TS1"), Some(true));
        assert_eq!(worse("it is bad", "it is worse"), None);
        assert_eq!(worse("bad after 3 ms", "bad after 12 ms"), Some(false));
        // Another test of the same name fails, and fewer ran.
        assert_eq!(
            worse("FAILED t.py::a\n2 failed in 0.1s", "FAILED t.py::a\n1 failed, 1 passed in 0.2s"),
            Some(true)
        );
        assert_eq!(
            worse("FAILED t.py::a\n1 failed in 0.1s", "FAILED t.py::a\n1 failed, 1 passed in 0.2s"),
            None
        );
        assert_eq!(run(1, "bad").is_worse_than(&run(0, "")), Some(true));
        assert_eq!(run(0, "").is_worse_than(&run(1, "bad")), Some(false));
        let many = |number: usize| (0..number).map(|at| format!("f{at}.py:1: x\n")).collect::<String>();
        assert_eq!(worse(&many(MAX_FAILURES + 9), &many(MAX_FAILURES + 8)), None, "what was cut is not seen");
    }
}
