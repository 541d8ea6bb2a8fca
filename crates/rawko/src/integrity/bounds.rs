//! What a copy of the project may cost. Above these bounds no copy is made, and what needs one is unknown.

use std::io;
use std::time::{Duration, Instant};

/// The limits of a copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) bytes: u64,
    pub(super) time: Duration,
}

impl Bounds {
    /// Of a copy that a verification waits for.
    pub(super) const WAITED_FOR: Self = Self { bytes: 2 * 1024 * 1024 * 1024, time: Duration::from_secs(20) };

    /// The same for a copy that is made beside other work.
    pub(super) const fn within(self, time: Duration) -> Self {
        Self { time, ..self }
    }
}

/// What is left of the limits while a copy is made.
#[derive(Debug)]
pub(super) struct Allowance {
    bounds: Bounds,
    left: u64,
    since: Instant,
}

impl Allowance {
    /// Begins now.
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { bounds, left: bounds.bytes, since: Instant::now() }
    }

    /// Called before so many bytes are copied.
    ///
    /// # Errors
    /// If that is more than there may be, or the time is up.
    pub(super) fn spend(&mut self, bytes: u64) -> io::Result<()> {
        let Bounds { bytes: most, time } = self.bounds;
        let Some(left) = self.left.checked_sub(bytes) else {
            return Err(io::Error::other(format!("it has more than {} MB", most / 1024 / 1024)));
        };
        self.left = left;
        if self.since.elapsed() > time {
            return Err(io::Error::other(format!("it takes longer than {} s", time.as_secs())));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rawko_core::facts::Verification;
    use rawko_core::integrity::IntegrityResult;
    use rawko_tools::CommandRunner;
    use testkit::git;

    use super::*;
    use crate::checkpoint::Checkpoints;
    use crate::integrity::{IntegrityGuard, VerifyPlan};

    const SESSION: &str = "20261122-094512-417-x7f2k";
    const GENEROUS: Bounds = Bounds { bytes: 1024 * 1024, time: Duration::from_secs(60) };

    /// A run that does its work and changes a check in form only, in a project with 4,000 bytes that git tracks and as many
    /// that it ignores.
    async fn check(bounds: Bounds, expected: IntegrityResult, problem: Option<&str>) {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        let directory = project.join(".rawko/sessions").join(SESSION);
        std::fs::create_dir_all(&directory).unwrap();
        let write = |name: &str, text: &str| std::fs::write(project.join(name), text).unwrap();
        write("work", "0\n");
        write("test.sh", "grep -q 1 work && test -e local.env\n");
        write("data", &"x".repeat(4000));
        write(".gitignore", ".rawko\nlocal.env\n");
        git(&project, &["init", "--quiet"]);
        git(&project, &["add", "--all"]);
        git(&project, &["commit", "--quiet", "--message", "first"]);
        write("local.env", &"y".repeat(4000));
        let plan = VerifyPlan {
            commands: vec!["sh test.sh".to_owned()],
            timeout: Duration::from_secs(60),
            ..VerifyPlan::default()
        };
        let checkpoints = Checkpoints::new(&project, &directory, SESSION);
        let runner = CommandRunner::new(&project, Vec::new());
        let mut guard =
            IntegrityGuard::new(checkpoints.clone(), &project, &directory, runner, Some(plan.clone()));
        guard.bounds = bounds;
        let guard = Arc::new(guard);
        checkpoints.take(1).unwrap();
        drop(guard.begin().await);
        write("work", "1\n");
        write("test.sh", "grep -q 1 work && test -e local.env # more\n");
        let runs = guard.runner().run_all(&plan.commands, plan.timeout).await;
        let verification = Verification { runs, tree: Some("t".to_owned()), ..Verification::default() };
        assert!(verification.passed());
        let judged = guard.judge(&plan, verification).await;
        let original = judged.original.unwrap();
        assert_eq!(judged.integrity.unwrap().result, expected, "{bounds:?}: {original:?}");
        match (problem, original.problem) {
            (None, None) => {
                assert!(original.runs.iter().all(|run| run.passed()) && !original.runs.is_empty());
            }
            (Some(expected), Some(said)) => assert!(said.contains(expected), "{said}"),
            (expected, said) => panic!("{expected:?} was expected: {said:?}"),
        }
    }

    #[tokio::test]
    async fn beyond_the_limits_of_a_copy_the_original_checks_are_unknown() {
        use IntegrityResult::{OriginalsPass, OriginalsUnknown};
        check(GENEROUS, OriginalsPass, None).await;
        // The tree alone, and together with what git ignores.
        for bytes in [3000, 6000] {
            let small = Bounds { bytes, ..GENEROUS };
            check(small, OriginalsUnknown, Some("a copy of the project could not be made")).await;
            check(small, OriginalsUnknown, Some("it has more than 0 MB")).await;
        }
        let short = GENEROUS.within(Duration::ZERO);
        check(short, OriginalsUnknown, Some("it takes longer than 0 s")).await;
    }
}
