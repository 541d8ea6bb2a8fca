//! The worker's command that makes a merge request of a branch. It is a setting of the worker, never of the task or its
//! repository, and runs outside the sandbox, as the worker itself does.

use std::process::Stdio;
use std::time::Duration;

use rawko_core::session::{Outcome, Status};
use rawko_core::text::truncate;
use temporalio_common::ActivityError;
use tokio::process::Command;

use crate::failed::of_store;
use crate::store::Creation;
use crate::task::ActivityInput;
use crate::workspace::Workspaces;

/// Longest time of the command.
const LONGEST: Duration = Duration::from_secs(300);
/// Characters of its output that are kept.
const OUTPUT_CHARS: usize = 2_000;

/// Runs the command for a task that ended well and asked for it, once: what an earlier attempt printed is given again.
pub(crate) async fn make(
    all: &Workspaces,
    place: &ActivityInput,
    outcome: &Outcome,
) -> Result<Option<String>, ActivityError> {
    let is_good = matches!(outcome.status, Status::Verified | Status::Claimed) && place.head != place.base;
    let Some(command) = all.merge_request.as_ref().filter(|_| place.spec.options.merge_request && is_good)
    else {
        return Ok(None);
    };
    let key = format!("tasks/{}/merge-request", place.spec.id);
    if let Some(done) = all.store.get(&key).await.map_err(of_store)? {
        return Ok(Some(String::from_utf8_lossy(&done).into_owned()));
    }
    let workspace = all.of(&place.spec.id);
    let mut inner = workspace.inner.lock().await;
    // An agent may have written the settings of the clone, which the command's git obeys: they are written anew.
    inner.at = None;
    let tree = all.tree(&place.spec, &mut inner, &place.head).await?;
    let mut child = Command::new("sh");
    child
        .args(["-c", command])
        .current_dir(tree.path())
        .env("RAWKO_TASK", &place.spec.id)
        .env("RAWKO_TASK_TEXT", &place.spec.task)
        .env("RAWKO_BRANCH", place.spec.branch())
        .env("RAWKO_BASE", place.base.to_string())
        .env("RAWKO_HEAD", place.head.to_string())
        .env("RAWKO_STATUS", outcome.status.as_str())
        .env("RAWKO_SUMMARY", outcome.agent_summary.as_ref().unwrap_or(&outcome.summary))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let printed = match tokio::time::timeout(LONGEST, child.output()).await {
        Ok(Ok(output)) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        Ok(Ok(output)) => {
            format!(
                "the command failed ({}): {}",
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            )
        }
        Ok(Err(error)) => format!("the command could not be started: {error}"),
        Err(_) => format!("the command took longer than {} s", LONGEST.as_secs()),
    };
    let printed = truncate(&printed, OUTPUT_CHARS);
    match all.store.create(&key, printed.clone().into()).await.map_err(of_store)? {
        Creation::Created => Ok(Some(printed)),
        Creation::Existing(theirs) => Ok(Some(String::from_utf8_lossy(&theirs).into_owned())),
    }
}
