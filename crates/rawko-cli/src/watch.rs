//! A run, watched to its end: events to the reporter, signals to the run.
//!
//! Owns the one loop in which a run advances, and the runtime that it needs. The reporter may fail or be slow: the run
//! goes on. Only where the events are themselves the result, and nobody reads them any more, the run is stopped.

use std::pin::pin;
use std::time::Duration;

use rawko::core::session::{Outcome, Status};
use rawko::core::{ErrorInfo, Usage};
use rawko::{Run, RunEvent};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::reporters::Reporter;
use crate::signals::Signals;

/// How often a reporter may redraw while nothing happens.
const FRAME: Duration = Duration::from_millis(100);
/// How long work that cannot be interrupted may hold up the end of the program.
const LAST_WAIT: Duration = Duration::from_millis(300);

/// How watching ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The last event of the run.
    pub(crate) finished: RunEvent,
    /// Why the run could not be carried to its end, where it could not.
    pub(crate) broken: Option<Failure>,
}

/// Runs `work` on a runtime of its own, which ends with it: what is still running then is ended, child processes
/// included.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot start the runtime: {error}")))?;
    let result = runtime.block_on(work);
    runtime.shutdown_timeout(LAST_WAIT);
    result
}

/// Watches `run` to its end. `essential` says that the reporter's output is the result itself.
pub(crate) async fn watch(
    mut run: Run,
    reporter: &mut dyn Reporter,
    essential: bool,
) -> Result<Ended, Failure> {
    let mut signals = Signals::listen()?;
    let mut events = run.events();
    let control = run.control();
    let session = run.session_id().to_owned();
    let mut finish = pin!(run.finish());
    let mut frames = tokio::time::interval(FRAME);
    frames.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let animated = reporter.is_animated();
    let (mut result, mut finished) = (None, None);
    let (mut stopping, mut heard) = (false, true);
    loop {
        tokio::select! {
            biased;
            name = signals.next() => {
                if stopping {
                    let event = RunEvent::finished(&session, &abandoned(name));
                    let _ = reporter.tell(&event);
                    let _ = reporter.close();
                    return Ok(Ended { finished: event, broken: None });
                }
                stopping = true;
                control.cancel(name);
                let _ = reporter.notice("stopping; once more to stop at once");
            }
            event = events.next() => match event {
                Some(event) => {
                    if heard && let Err(_gone) = reporter.tell(&event) {
                        heard = false;
                        if essential {
                            control.cancel("nobody reads the output any more");
                        }
                    }
                    if matches!(event, RunEvent::SessionFinished { .. }) {
                        finished = Some(event);
                    }
                }
                None => break,
            },
            ended = &mut finish, if result.is_none() => result = Some(ended),
            _ = frames.tick(), if animated && heard => heard = reporter.tick().is_ok(),
        }
    }
    let _ = reporter.close();
    let broken = match result {
        Some(Err(error)) => Some(Failure::from(error)),
        Some(Ok(_)) => None,
        None => finish.await.err().map(Failure::from),
    };
    let finished = finished.unwrap_or_else(|| {
        let message = broken.as_ref().map_or("the run ended without saying how", Failure::message);
        RunEvent::finished(&session, &failed(ErrorInfo::new(rawko::core::ErrorCode::Unknown, message)))
    });
    Ok(Ended { finished, broken })
}

/// The end of a run that was not waited for.
fn abandoned(signal: &str) -> Outcome {
    Outcome {
        status: Status::Cancelled,
        summary: format!("Stopped at once by a second {signal}; the session's journal has no end."),
        error: None,
        ..failed(ErrorInfo::new(rawko::core::ErrorCode::Unknown, String::new()))
    }
}

/// The end of a run that did not come to anything.
pub(crate) fn failed(error: ErrorInfo) -> Outcome {
    Outcome {
        status: Status::Failed,
        summary: error.message.clone(),
        iterations: 0,
        usage: Usage::default(),
        cost_usd: None,
        files_modified: Vec::new(),
        duration_ms: 0,
        error: Some(error),
    }
}
