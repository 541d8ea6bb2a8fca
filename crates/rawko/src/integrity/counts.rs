//! Where runners count, fewer tests than at the beginning, or more that are skipped, are changed checks.

use rawko_core::facts::{CommandRun, parse_test_counts};
use rawko_core::integrity::{Baseline, CheckChange, CheckChangeKind};

/// What the counts of commands that passed say against them.
pub(super) fn miscounted(baseline: Option<&Baseline>, runs: &[CommandRun]) -> Vec<CheckChange> {
    let before = |run: &CommandRun| {
        let same = baseline?.runs.iter().find(|before| before.command == run.command)?;
        parse_test_counts(&same.output)
    };
    let how = |run: &CommandRun| {
        let now = parse_test_counts(&run.output);
        if now.is_some_and(|now| now.failed > 0) {
            return Some(CheckChangeKind::HidesFailures);
        }
        match (before(run)?, now) {
            (before, Some(now)) if now.executed < before.executed => Some(CheckChangeKind::FewerTests),
            (before, Some(now)) if now.skipped > before.skipped => Some(CheckChangeKind::MoreSkipped),
            (_, Some(_)) => None,
            // A runner that printed a summary before does so always, unless it did not come to its end.
            (before, None) => (before.executed > 0).then_some(CheckChangeKind::FewerTests),
        }
    };
    let changes = runs.iter().filter(|run| run.passed());
    changes.filter_map(|run| Some(CheckChange { path: run.command.clone(), how: how(run)? })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: Option<&str>, now: &str, expected: Option<CheckChangeKind>) {
        let run = |output: &str| CommandRun {
            command: "pytest".to_owned(),
            exit_code: Some(0),
            output: output.to_owned(),
            duration_ms: 1,
        };
        let baseline = before.map(|before| Baseline { runs: vec![run(before)], tree: "t".to_owned() });
        let got = miscounted(baseline.as_ref(), &[run(now)]);
        assert_eq!(got.first().map(|change| change.how), expected, "{before:?} {now}");
    }

    #[test]
    fn counts_speak_against_an_exit_status() {
        let summary = |text: &str| format!("\n=========== {text} in 0.10s ===========\n");
        let three = summary("2 passed, 1 failed");
        check(Some(&three), &summary("3 passed"), None);
        check(Some(&three), &summary("4 passed"), None);
        check(Some(&three), &summary("2 passed"), Some(CheckChangeKind::FewerTests));
        check(Some(&three), &summary("3 passed, 1 skipped"), Some(CheckChangeKind::MoreSkipped));
        check(Some(&three), "", Some(CheckChangeKind::FewerTests));
        check(Some(&three), &summary("2 passed, 1 failed"), Some(CheckChangeKind::HidesFailures));
        check(None, &summary("2 passed, 1 failed"), Some(CheckChangeKind::HidesFailures));
        check(None, "", None);
        check(Some("built\n"), "", None);
    }
}
