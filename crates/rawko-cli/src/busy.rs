//! Waits for the end of another session that runs in the folder.

use std::time::Duration;

use rawko::{Run, RunningSession};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Clock, clean_line, shortened};
use crate::runtime::block_on;
use crate::signals::StopSignals;
use crate::workspace::Workspace;

/// How often rawko looks whether the folder is free.
const LOOK: Duration = Duration::from_millis(300);
/// Characters of a task that are shown.
const TASK_CHARS: usize = 80;

/// Prepares a run with `begin`, again and again until nothing else runs in the folder. The configuration is read anew each
/// time, because the other session may have changed it. `begin` gets whether it is the first time.
///
/// # Errors
/// What `begin` returns, or if the user stops the waiting.
pub(crate) fn begin_when_free(
    workspace: &Workspace,
    mut begin: impl FnMut(bool) -> Result<Result<Run, rawko::Error>, Failure>,
) -> Result<Run, Failure> {
    let mut is_first = true;
    loop {
        match begin(is_first)? {
            Err(rawko::Error::Busy { running, .. }) => wait(workspace, &running)?,
            run => return Ok(run?),
        }
        is_first = false;
    }
}

fn wait(workspace: &Workspace, running: &[RunningSession]) -> Result<(), Failure> {
    let paint = workspace.console.error_paint();
    let clock = Clock::local();
    let mut text = String::new();
    for RunningSession { session, task, since, process, .. } in running {
        text.push_str(&format!(
            "{} for session {} in this folder (process {process}, since {}): {}\n",
            paint.warning("waiting:"),
            clean_line(session),
            clock.time(*since),
            shortened(task, TASK_CHARS),
        ));
    }
    text.push_str(&format!(
        "{} Ctrl-C stops waiting; --isolated works in a tree of its own, --anyway in the same files\n",
        paint.hint("hint:")
    ));
    block_on(async {
        // First, so that Ctrl-C works as soon as it is named.
        let mut signals = StopSignals::listen()?;
        let _ = workspace.console.write_error(&text);
        loop {
            tokio::select! {
                name = signals.next() => {
                    let message = format!("{name} while waiting for the folder: nothing was started");
                    return Err(Failure::new(Exit::Cancelled, message));
                }
                () = tokio::time::sleep(LOOK) => {
                    if !running.iter().any(RunningSession::is_running) {
                        return Ok(());
                    }
                }
            }
        }
    })
}
