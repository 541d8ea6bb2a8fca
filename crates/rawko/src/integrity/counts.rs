//! Where runners count, fewer tests than at the beginning, or more that are skipped, are changed checks.

use rawko_core::facts::CommandRun;
use rawko_core::integrity::{Baseline, CheckChange, CheckChangeKind};

/// What the counts of commands that passed say against them. `asked`: their runners were asked to name each test.
pub(super) fn miscounted(baseline: Option<&Baseline>, runs: &[CommandRun], asked: bool) -> Vec<CheckChange> {
    let before = |run: &CommandRun| baseline?.runs.iter().find(|before| before.command == run.command);
    let how = |run: &CommandRun| {
        if run.counts.is_some_and(|now| now.failed > 0) {
            return Some(CheckChangeKind::HidesFailures);
        }
        let before = before(run)?;
        // Many runners stop at a failure: what they had skipped until then says nothing of what they skip in all.
        let came_to_its_end = before.passed();
        match (before.counts?, run.counts) {
            (before, Some(now)) if now.executed < before.executed => Some(CheckChangeKind::FewerTests),
            (before, Some(now)) if came_to_its_end && now.skipped > before.skipped => {
                Some(CheckChangeKind::MoreSkipped)
            }
            (_, Some(_)) => None,
            // A runner that printed a summary before does so always, unless it did not come to its end.
            (_, None) if !asked && names_no_tests(run) => None,
            (before, None) => (before.executed > 0).then_some(CheckChangeKind::FewerTests),
        }
    };
    let changes = runs.iter().filter(|run| run.passed());
    changes.filter_map(|run| Some(CheckChange { path: run.command.clone(), how: how(run)? })).collect()
}

/// The commands whose tests were counted in the baseline, and are not in `runs` because their names were not asked for.
pub(super) fn uncounted(baseline: Option<&Baseline>, runs: &[CommandRun]) -> Vec<CheckChange> {
    let all = miscounted(baseline, runs, true);
    let known = miscounted(baseline, runs, false);
    all.into_iter().filter(|change| !known.contains(change)).collect()
}

/// Whether it has the summary of a Go that names no test.
fn names_no_tests(run: &CommandRun) -> bool {
    run.counts.is_none() && run.output.lines().any(|line| line.starts_with("ok  \t"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rawko_core::facts::TestCounts;

    type Counts = Option<(u64, u64, u64)>;

    #[track_caller]
    fn check(before: Option<Counts>, now: Counts, expected: Option<CheckChangeKind>) {
        let run = |counts: Counts, is_over: bool| CommandRun {
            command: "pytest".to_owned(),
            exit_code: Some(i32::from(!is_over && counts.is_some_and(|(_, failed, _)| failed > 0))),
            counts: counts.map(|(executed, failed, skipped)| TestCounts { executed, failed, skipped }),
            ..CommandRun::default()
        };
        let baseline = before.map(|before| Baseline { runs: vec![run(before, false)], tree: "t".to_owned() });
        let got = miscounted(baseline.as_ref(), &[run(now, true)], false);
        assert_eq!(got.first().map(|change| change.how), expected, "{before:?} {now:?}");
    }

    #[test]
    fn counts_speak_against_an_exit_status() {
        let (red, green) = (Some(Some((3, 1, 0))), Some(Some((3, 0, 0))));
        check(red, Some((3, 0, 0)), None);
        check(red, Some((4, 0, 0)), None);
        check(red, Some((2, 0, 0)), Some(CheckChangeKind::FewerTests));
        check(green, Some((3, 0, 1)), Some(CheckChangeKind::MoreSkipped));
        check(red, None, Some(CheckChangeKind::FewerTests));
        check(red, Some((3, 1, 0)), Some(CheckChangeKind::HidesFailures));
        check(None, Some((3, 1, 0)), Some(CheckChangeKind::HidesFailures));
        check(None, None, None);
        check(Some(None), None, None);
        check(Some(None), Some((3, 0, 0)), None);
    }

    /// Go names its tests only where it is asked to.
    #[test]
    fn tests_that_are_not_named_are_uncounted() {
        let run = |counts: Option<TestCounts>, output: &str| CommandRun {
            command: "go test ./...".to_owned(),
            exit_code: Some(0),
            output: output.to_owned(),
            counts,
            ..CommandRun::default()
        };
        let counts = Some(TestCounts { executed: 2, failed: 0, skipped: 0 });
        let baseline = Baseline { runs: vec![run(counts, "")], tree: "t".to_owned() };
        for (now, expected) in [
            (run(None, "ok  \texample.com/a\t0.1s\n"), 1),
            (run(None, "nothing\n"), 0),
            (run(counts, "ok  \texample.com/a\t0.1s\n"), 0),
        ] {
            assert_eq!(uncounted(Some(&baseline), &[now]).len(), expected);
        }
        let now = [run(None, "ok  \texample.com/a\t0.1s\n")];
        assert_eq!(miscounted(Some(&baseline), &now, false), []);
        assert_eq!(miscounted(Some(&baseline), &now, true).len(), 1);
        assert!(uncounted(None, &now).is_empty());
    }

    /// The first test program of a workspace failed, so that the ignored tests of the second one appear only now.
    #[test]
    fn tests_that_are_skipped_after_a_failure_are_not_more() {
        check(Some(Some((1, 1, 0))), Some((3, 0, 2)), None);
    }
}
