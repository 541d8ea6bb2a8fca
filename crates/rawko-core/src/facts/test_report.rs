//! What test runners print about their own result: a summary line, and how many tests ran. The lines are data, in
//! `test_reports.json`.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex, RegexSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::truncate;

/// Characters of a summary.
const SUMMARY_CHARS: usize = 200;

/// How many tests ran, added up over all suites of one output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestCounts {
    /// Tests that ran, whether they passed or failed.
    pub executed: u64,
    /// Tests that failed or broke off.
    pub failed: u64,
    /// Tests that were left out: skipped, ignored, pending.
    pub skipped: u64,
}

/// What a test runner printed about its own result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunnerSummary {
    /// Its summary line, or the lines that speak of failures; bounded.
    pub line: String,
    /// Whether it speaks of failures.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// How many tests ran; absent where the output does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<TestCounts>,
}

/// How many tests ran according to the output of one or several test runners (pytest, unittest, cargo, nextest, go with
/// `-v`, jest, vitest, mocha, node:test, bun, deno, rspec, minitest, maven, gradle, ctest, phpunit, `ExUnit`, dotnet,
/// sbt). Several suites are added up. `None` where no summary is found, or one that has no figures.
#[must_use]
pub fn parse_test_counts(output: &str) -> Option<TestCounts> {
    match summarize(output) {
        Some(summary) => summary.counts,
        None => PATTERNS.as_ref()?.no_tests.is_match(output).then(TestCounts::default),
    }
}

/// The summary of the test runners whose output this is; `None` if there is none.
#[must_use]
pub fn summarize(output: &str) -> Option<RunnerSummary> {
    let patterns = PATTERNS.as_ref()?;
    let output = without_escapes(output);
    // What depends on the whole output is found out once: an output may have a million lines.
    let reports: Vec<Option<Countable<'_>>> =
        patterns.reports.iter().map(|report| Countable::of(report, &output)).collect();
    let mut tally = Tally::default();
    let mut shown: Vec<(bool, &str)> = Vec::new();
    for line in output.lines() {
        let line = line.trim_end();
        for index in patterns.lines.matches(line) {
            let Some(Some(countable)) = reports.get(index) else { continue };
            let Some(found) = countable.report.line.captures(line) else { continue };
            let is_red = tally.add(countable, &found);
            shown.push((is_red, line.trim()));
        }
    }
    let failed = shown.iter().any(|(is_red, _)| *is_red);
    let lines: Vec<&str> =
        shown.iter().filter(|(is_red, _)| *is_red == failed).map(|(_, line)| *line).collect();
    // The last ones: runners sum up at the end.
    let line = lines.get(lines.len().saturating_sub(3)..).unwrap_or_default().join(" / ");
    (!shown.is_empty()).then(|| RunnerSummary {
        line: truncate(&line, SUMMARY_CHARS),
        failed,
        counts: tally.counts(),
    })
}

/// What a program printed, without colours and the like.
pub(super) fn without_escapes(output: &str) -> Cow<'_, str> {
    static ESCAPES: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\x1b\[[0-9;]*[A-Za-z]").ok());
    ESCAPES.as_ref().map_or(Cow::Borrowed(output), |escapes| escapes.replace_all(output, ""))
}

static PATTERNS: LazyLock<Option<TestReportPatterns>> = LazyLock::new(|| {
    let table: Vec<ReportRow> = serde_json::from_str(include_str!("test_reports.json")).ok()?;
    let lines = RegexSet::new(table.iter().map(|row| &row.line)).ok()?;
    let reports: Option<Vec<ReportPattern>> = table.into_iter().map(ReportPattern::new).collect();
    Some(TestReportPatterns {
        lines,
        reports: reports?,
        no_tests: Regex::new(r"(?m)^\?\s+\S+\s+\[no test files\]\r?$").ok()?,
        word_last: Regex::new(r"(\d+) ([a-z]+(?: [a-z]+)?)").ok()?,
        word_first: Regex::new(r"([a-z]+(?: [a-z]+)?)(?:: *|=| )(\d+)").ok()?,
    })
});

struct TestReportPatterns {
    /// The lines of all `reports`, in their order: most lines of an output match none of them.
    lines: RegexSet,
    reports: Vec<ReportPattern>,
    /// What a runner prints that found no test, and that is no summary: go, for a package.
    no_tests: Regex,
    /// `3 passed`
    word_last: Regex,
    /// `passed 3`, `Passed: 3`, `passed=3`
    word_first: Regex,
}

/// A row of the table.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReportRow {
    /// For reviewers.
    #[serde(rename = "runner")]
    _runner: String,
    /// Matches one line. Groups: `total`, `list` (figures with words), `pass1`, `fail1`, `skip1` (one test each), `red`
    /// (it failed, whatever the figures).
    line: String,
    /// The output must hold this, too.
    needs: Option<String>,
    /// Its figures are part of the total of another line.
    #[serde(default)]
    in_total: bool,
    /// It says how the run ended and not how many tests ran.
    #[serde(default)]
    uncountable: bool,
    /// The same, unless the output holds this.
    uncountable_without: Option<String>,
    /// Outputs, and what is counted in them: executed, failed, skipped; nothing where that is impossible.
    #[serde(rename = "examples")]
    _examples: serde_json::Value,
}

struct ReportPattern {
    row: ReportRow,
    line: Regex,
}

impl ReportPattern {
    fn new(row: ReportRow) -> Option<Self> {
        Some(Self { line: Regex::new(&row.line).ok()?, row })
    }
}

/// A row of the table in one output.
struct Countable<'a> {
    report: &'a ReportPattern,
    /// Whether its figures say how many tests ran.
    is_countable: bool,
}

impl<'a> Countable<'a> {
    /// `None` if the row does not apply to the output.
    fn of(report: &'a ReportPattern, output: &str) -> Option<Self> {
        let holds = |text: &Option<String>| text.as_ref().is_none_or(|text| output.contains(text.as_str()));
        let ReportRow { needs, uncountable, uncountable_without, .. } = &report.row;
        holds(needs).then(|| Self { report, is_countable: !uncountable && holds(uncountable_without) })
    }
}

/// Figures while they are added up.
#[derive(Debug, Default)]
struct Tally {
    counts: TestCounts,
    /// A line with figures was seen.
    is_counted: bool,
    /// A line was seen whose figures are missing.
    is_uncountable: bool,
}

impl Tally {
    /// Adds the figures of one line, and says whether it speaks of failures.
    fn add(&mut self, countable: &Countable<'_>, found: &Captures<'_>) -> bool {
        let mut words = words(found.name("list").map_or("", |list| list.as_str()));
        words.passed += u64::from(found.name("pass1").is_some());
        words.failed += u64::from(found.name("fail1").is_some());
        words.skipped += u64::from(found.name("skip1").is_some());
        let total = found.name("total").map(|total| total.as_str().parse().unwrap_or_default());
        self.counts.failed += words.failed;
        self.counts.skipped += words.skipped;
        if countable.report.row.in_total {
            self.counts.executed = self.counts.executed.saturating_sub(words.skipped);
        } else {
            let ran = |total: u64| total.saturating_sub(words.skipped).max(words.failed);
            self.counts.executed += total.map_or(words.passed + words.failed, ran);
        }
        self.is_counted |= countable.is_countable;
        self.is_uncountable |= !countable.is_countable;
        words.failed > 0 || found.name("red").is_some()
    }

    fn counts(&self) -> Option<TestCounts> {
        (self.is_counted && !self.is_uncountable).then_some(self.counts)
    }
}

/// How often tests passed, failed or were skipped, by the words of a report.
#[derive(Debug, Default)]
struct LabelledCounts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

/// The figures of a list, by the words beside them.
fn words(list: &str) -> LabelledCounts {
    let mut words = LabelledCounts::default();
    let Some(patterns) = PATTERNS.as_ref() else { return words };
    let list = list.to_lowercase();
    let begins_with_figure = list.starts_with(|c: char| c.is_ascii_digit());
    let (pattern, figure, word) =
        if begins_with_figure { (&patterns.word_last, 1, 2) } else { (&patterns.word_first, 2, 1) };
    for found in pattern.captures_iter(&list) {
        let figure: u64 = found[figure].parse().unwrap_or_default();
        let last = found[word].split(' ').next_back().unwrap_or_default();
        match (&found[word], last) {
            ("expected failures" | "expected failure" | "unexpected successes", _) => {}
            (_, "passed" | "pass" | "passing" | "succeeded" | "xfailed" | "xpassed") => {
                words.passed += figure;
            }
            (
                _,
                "failed" | "fail" | "failing" | "failure" | "failures" | "error" | "errors" | "occurred"
                | "cancelled" | "canceled" | "out" | "invalid",
            ) => words.failed += figure,
            (
                _,
                "skipped" | "skip" | "skips" | "ignored" | "pending" | "pendings" | "todo" | "omissions"
                | "incomplete" | "excluded",
            ) => words.skipped += figure,
            _ => {}
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn every_row_counts_its_examples() {
        let table: Vec<ReportRow> = serde_json::from_str(include_str!("test_reports.json")).unwrap();
        assert!(PATTERNS.is_some());
        for row in table {
            let examples = row._examples.as_array().unwrap();
            assert!(!examples.is_empty(), "{} has no example", row.line);
            let line = Regex::new(&row.line).unwrap();
            for example in examples {
                let output = example[0].as_str().unwrap();
                assert!(output.lines().any(|text| line.is_match(text)), "{}: {output}", row.line);
                let figure = |at: usize| example.get(at).and_then(Value::as_u64);
                let expected = figure(1).map(|executed| TestCounts {
                    executed,
                    failed: figure(2).unwrap(),
                    skipped: figure(3).unwrap(),
                });
                assert_eq!(parse_test_counts(output), expected, "{output}");
            }
        }
    }

    #[test]
    fn a_runner_without_tests_ran_none() {
        let none = Some(TestCounts::default());
        assert_eq!(parse_test_counts("?   \tm\t[no test files]\n?   \tm/x\t[no test files]\n"), none);
        assert_eq!(parse_test_counts("?   \tm\t[no test files]\nok  \tm/x\t0.1s\n"), None);
        assert_eq!(parse_test_counts("Ran 0 tests in 0.000s\n\nOK"), none);
        assert_eq!(parse_test_counts("all is well"), None);
    }

    /// Where each line searched the whole output, this took an hour and not a second: the test did not end.
    #[test]
    fn a_long_output_is_summed_up_in_time() {
        let output = format!("{}=== RUN   TestA\n--- PASS: TestA (0.00s)\n", "a line\n".repeat(200_000));
        assert_eq!(parse_test_counts(&output), Some(TestCounts { executed: 1, failed: 0, skipped: 0 }));
    }

    #[track_caller]
    fn check(output: &str, failed: Option<bool>, line: &str) {
        let summary = summarize(output);
        assert_eq!(summary.as_ref().map(|summary| summary.failed), failed, "{output}");
        assert_eq!(summary.map(|summary| summary.line).unwrap_or_default(), line);
    }

    #[test]
    fn the_runners_own_words_say_whether_it_failed() {
        check("collected 2 items\n\n=== 2 passed in 0.1s ===", Some(false), "=== 2 passed in 0.1s ===");
        check(
            "F\n\u{1b}[31m==== \u{1b}[1m1 failed\u{1b}[0m, 2 passed in 0.1s ====\u{1b}[0m",
            Some(true),
            "==== 1 failed, 2 passed in 0.1s ====",
        );
        check("Ran 1 test in 0.0s\n\nFAILED (failures=1)", Some(true), "FAILED (failures=1)");
        check("Ran 1 test in 0.0s\n\nOK", Some(false), "Ran 1 test in 0.0s / OK");
        check("OK", None, "");
        check("FAIL\tx/y\t0.1s\nok  \tx/z\t0.1s", Some(true), "FAIL\tx/y\t0.1s");
        check("error: could not compile `x` (lib)", Some(true), "error: could not compile `x` (lib)");
        check("nothing of the kind: 3 failed attempts", None, "");
    }
}
