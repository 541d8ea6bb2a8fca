//! The end of runs whose server ends: each is suspended, so that `rawko resume` goes on with it.

use std::time::Duration;

use crate::runs::ServedRun;

/// How long commands and calls of runs may take to end when they are asked to. Clients kill a server after a few seconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the rest may take once they are killed.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// Suspends these runs, with all commands that they began. The journals hold everything that happened.
pub(crate) async fn suspend(runs: Vec<ServedRun>) {
    for run in &runs {
        run.control.suspend();
    }
    let mut ended: Vec<_> = runs.into_iter().map(|run| run.ended).collect();
    let all = async {
        for run in &mut ended {
            let _ = run.wait_for(|has_ended| *has_ended).await;
        }
    };
    tokio::pin!(all);
    let is_over = tokio::time::timeout(PATIENCE, &mut all).await.is_ok();
    // Also what outlived its run.
    rawko::tools::kill_all_now();
    if !is_over {
        let _ = tokio::time::timeout(LAST_PATIENCE, all).await;
    }
}
