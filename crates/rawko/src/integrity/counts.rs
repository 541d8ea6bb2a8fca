//! Where runners count, fewer tests than at the beginning, or more that are skipped, are changed checks.

use rawko_core::facts::CommandRun;
use rawko_core::integrity::{Baseline, CheckChange, CheckChangeKind};

/// What the counts of commands that passed say against them.
pub(super) fn miscounted(baseline: Option<&Baseline>, runs: &[CommandRun]) -> Vec<CheckChange> {
    let before =
        |run: &CommandRun| baseline?.runs.iter().find(|before| before.command == run.command)?.counts;
    let how = |run: &CommandRun| {
        let now = run.counts;
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
    use rawko_core::facts::TestCounts;

    type Counts = Option<(u64, u64, u64)>;

    #[track_caller]
    fn check(before: Option<Counts>, now: Counts, expected: Option<CheckChangeKind>) {
        let run = |counts: Counts| CommandRun {
            command: "pytest".to_owned(),
            exit_code: Some(0),
            counts: counts.map(|(executed, failed, skipped)| TestCounts { executed, failed, skipped }),
            ..CommandRun::default()
        };
        let baseline = before.map(|before| Baseline { runs: vec![run(before)], tree: "t".to_owned() });
        let got = miscounted(baseline.as_ref(), &[run(now)]);
        assert_eq!(got.first().map(|change| change.how), expected, "{before:?} {now:?}");
    }

    #[test]
    fn counts_speak_against_an_exit_status() {
        let three = Some(Some((3, 1, 0)));
        check(three, Some((3, 0, 0)), None);
        check(three, Some((4, 0, 0)), None);
        check(three, Some((2, 0, 0)), Some(CheckChangeKind::FewerTests));
        check(three, Some((3, 0, 1)), Some(CheckChangeKind::MoreSkipped));
        check(three, None, Some(CheckChangeKind::FewerTests));
        check(three, Some((3, 1, 0)), Some(CheckChangeKind::HidesFailures));
        check(None, Some((3, 1, 0)), Some(CheckChangeKind::HidesFailures));
        check(None, None, None);
        check(Some(None), None, None);
        check(Some(None), Some((3, 0, 0)), None);
    }
}
