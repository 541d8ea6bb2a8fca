//! Tries a helper with a command that does nothing, in a limited time. The program may be no helper at all: it may
//! never answer, or say something else.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rawko_sandbox::{ConfinementPlan, Control, HelperReport};
use rustix::process::Pid;

use crate::process::{HelperProcess, shell};

/// Why a trial failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TrialError {
    /// The program is no helper. It is none for other plans either.
    Helper(String),
    /// The helper could not do this.
    Wall(String),
}

/// What a helper said of a trial.
enum TrialOutcome {
    /// The command ran to its end.
    Done,
    /// What failed.
    Failed(String),
    /// Why it can be no helper.
    Unfit(String),
    /// Nothing more, before it ended.
    Nothing { was_ready: bool },
    /// Nothing more, in all the time that it had.
    NothingInTime { was_ready: bool },
    /// What no helper says.
    Nonsense(io::Error),
}

/// Has `helper` run the plan. What it started has ended when this returns.
pub(super) fn run(helper: &Path, plan: ConfinementPlan, limit: Duration) -> Result<(), TrialError> {
    let deadline = Instant::now() + limit;
    let not_started = |error: io::Error| {
        TrialError::Helper(format!(
            "the sandbox's helper {} could not be started: {error}. {REMEDY}",
            helper.display()
        ))
    };
    let arguments = ["-c", "exit 0"].map(OsString::from);
    let shell = shell().map_err(|error| TrialError::Wall(error.to_string()))?;
    let (mut command, mut control) =
        rawko_sandbox::command(helper, Path::new(shell), &arguments).map_err(not_started)?;
    command.env_clear().process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(not_started)?;
    drop(command);
    let process = HelperProcess::new(Pid::from_child(&child));
    let said = converse(&mut control, &plan, deadline);
    // A helper ends what it started when this closes.
    drop(control);
    let mut has_exited = false;
    let said = match said {
        // A helper that has said its last word ends by itself, and its exit status says more.
        TrialOutcome::Done
        | TrialOutcome::Failed(_)
        | TrialOutcome::Unfit(_)
        | TrialOutcome::Nothing { .. } => {
            has_exited = process.exits_by(deadline);
            match (has_exited, said) {
                (false, TrialOutcome::Nothing { was_ready }) => TrialOutcome::NothingInTime { was_ready },
                (_, said) => said,
            }
        }
        TrialOutcome::NothingInTime { .. } | TrialOutcome::Nonsense(_) => said,
    };
    // To look for what is left takes longer than all else. A helper that is done has ended its command.
    if !(has_exited && matches!(said, TrialOutcome::Done)) {
        process.kill();
    }
    let status = child.wait().map_err(not_started)?;
    verdict(helper, said, status, limit)
}

fn converse(control: &mut Control, plan: &ConfinementPlan, deadline: Instant) -> TrialOutcome {
    // Where it does not read, it says nothing either.
    let _ = control.send(plan, None, None);
    let mut was_ready = false;
    loop {
        match control.report_by(deadline) {
            Ok(Some(HelperReport::Ready)) => was_ready = true,
            Ok(Some(HelperReport::Failed { what })) => return TrialOutcome::Failed(what),
            Ok(Some(HelperReport::Unfit { why })) => return TrialOutcome::Unfit(why),
            Ok(Some(HelperReport::Ended { code: Some(0), .. })) => return TrialOutcome::Done,
            Ok(Some(HelperReport::Ended { code, signal, .. })) => {
                return TrialOutcome::Failed(format!(
                    "a command that does nothing ended with {code:?}, {signal:?}"
                ));
            }
            Ok(None) => return TrialOutcome::Nothing { was_ready },
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return TrialOutcome::NothingInTime { was_ready };
            }
            // It ended and left the plan unread.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                return TrialOutcome::Nothing { was_ready };
            }
            Err(error) => return TrialOutcome::Nonsense(error),
        }
    }
}

const REMEDY: &str = "The helper has to be `rawko`, or a program whose plain `fn main` begins with \
                      `rawko::tools::run_helper_if_asked()`";

fn verdict(helper: &Path, said: TrialOutcome, status: ExitStatus, limit: Duration) -> Result<(), TrialError> {
    let helper = helper.display();
    let no_helper =
        |what: String| Err(TrialError::Helper(format!("the sandbox's helper {helper} {what}. {REMEDY}")));
    let seconds = limit.as_secs();
    match said {
        TrialOutcome::Done => Ok(()),
        TrialOutcome::Failed(what) => Err(TrialError::Wall(what)),
        TrialOutcome::Unfit(why) => no_helper(why),
        TrialOutcome::Nonsense(error) => no_helper(format!("said what no helper says ({error})")),
        TrialOutcome::NothingInTime { was_ready: false } => {
            no_helper(format!("did not answer within {seconds} seconds"))
        }
        TrialOutcome::NothingInTime { was_ready: true } => {
            Err(TrialError::Wall(format!("the helper did not run a command within {seconds} seconds")))
        }
        // What the kernel kills for a system call, it may let do the next trial.
        TrialOutcome::Nothing { was_ready } if was_ready || status.signal().is_some() => {
            Err(TrialError::Wall(format!("the helper ended with {status} and said nothing")))
        }
        TrialOutcome::Nothing { .. } => no_helper(format!("ended with {status} and said nothing")),
    }
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
