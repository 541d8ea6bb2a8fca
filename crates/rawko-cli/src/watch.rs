//! A run, watched to its end: events to the reporter, signals to the run.
//!
//! Owns the loop in which a run advances, the runtime that it needs, and the thread on which the reporter writes: a
//! reader that is slow, stopped or gone never holds the run back. Only where the events are themselves the result, and
//! nobody reads them any more, the run is stopped.

use std::pin::pin;
use std::time::Duration;

use rawko::core::session::{Outcome, Status};
use rawko::core::{ErrorCode, ErrorInfo, Usage};
use rawko::{Run, RunControl, RunEvent, RunEvents};
use tokio::sync::{mpsc, oneshot};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::reporters::Reporter;
use crate::signals::Signals;

/// How often a reporter may redraw while nothing happens.
const FRAME: Duration = Duration::from_millis(100);
/// How long work that cannot be interrupted, or a reader that does not read, may hold up an end that was asked for twice.
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
        .map_err(|error| no_runtime(&error))?;
    let result = runtime.block_on(work);
    runtime.shutdown_timeout(LAST_WAIT);
    // What was dropped just now is given time to end in order; nobody would end it after us. What the kernel itself
    // cannot end is no reason to stay.
    let _ = rawko::tools::settle();
    result
}

fn no_runtime(error: &std::io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("cannot start the runtime: {error}"))
        .with_hint("the system may be short of file descriptors or threads: ulimit -n, ulimit -u")
}

/// Watches `run` to its end. `essential` says that the reporter's output is the result itself.
pub(crate) async fn watch(
    mut run: Run,
    reporter: Box<dyn Reporter + Send>,
    essential: bool,
) -> Result<Ended, Failure> {
    let mut signals = Signals::listen()?;
    let control = run.control();
    let session = run.session_id().to_owned();
    let (tell, mut told) = narrate(reporter, run.events(), essential.then(|| control.clone()))?;
    let mut finish = pin!(run.finish());
    let (mut result, mut last, mut stopping) = (None, None, false);
    while result.is_none() || last.is_none() {
        tokio::select! {
            biased;
            name = signals.next() => {
                if stopping {
                    rawko::tools::kill_all_now();
                    let event = RunEvent::finished(&session, &abandoned(name));
                    let _ = tell.send(Word::End(Box::new(event.clone())));
                    if last.is_none() {
                        let _ = tokio::time::timeout(LAST_WAIT, &mut told).await;
                    }
                    return Ok(Ended { finished: event, broken: None });
                }
                stopping = true;
                control.cancel(name);
                let _ = tell.send(Word::Notice("stopping; once more to stop at once".to_owned()));
            }
            ended = &mut finish, if result.is_none() => result = Some(ended),
            // The narrator ends when everything was told, and not before the run.
            event = &mut told, if last.is_none() => last = Some(event.ok().flatten()),
        }
    }
    let broken = match result {
        Some(Err(error)) => Some(Failure::from(error)),
        Some(Ok(_)) | None => None,
    };
    let finished = last.flatten().unwrap_or_else(|| {
        let message = broken.as_ref().map_or("the run ended without saying how", Failure::message);
        RunEvent::finished(&session, &failed(ErrorInfo::new(ErrorCode::Unknown, message)))
    });
    Ok(Ended { finished, broken })
}

/// What is said besides the run's events.
#[derive(Debug)]
enum Word {
    /// Something that is no event.
    Notice(String),
    /// This is the end, whatever the run may still do.
    End(Box<RunEvent>),
}

type Told = oneshot::Receiver<Option<RunEvent>>;

/// Tells the events on a thread of its own. Gives the run's last event when everything was told; where nobody listens
/// any more, `stop_if_gone` is stopped.
fn narrate(
    mut reporter: Box<dyn Reporter + Send>,
    mut events: RunEvents,
    stop_if_gone: Option<RunControl>,
) -> Result<(mpsc::UnboundedSender<Word>, Told), Failure> {
    let (tell, mut words) = mpsc::unbounded_channel();
    let (done, told) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| no_runtime(&error))?;
    let work = async move {
        let mut frames = tokio::time::interval(FRAME);
        frames.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let animated = reporter.is_animated();
        let (mut last, mut heard, mut open) = (None, true, true);
        loop {
            tokio::select! {
                biased;
                word = words.recv(), if open => match word {
                    Some(Word::Notice(text)) => heard = heard && reporter.notice(&text).is_ok(),
                    Some(Word::End(event)) => {
                        let _ = reporter.tell(&event);
                        last = Some(*event);
                        break;
                    }
                    None => open = false,
                },
                event = events.next() => {
                    let Some(event) = event else { break };
                    if heard && reporter.tell(&event).is_err() {
                        heard = false;
                        if let Some(control) = &stop_if_gone {
                            control.cancel("nobody reads the output any more");
                        }
                    }
                    if matches!(event, RunEvent::SessionFinished { .. }) {
                        last = Some(event);
                    }
                }
                _ = frames.tick(), if animated && heard => heard = reporter.tick().is_ok(),
            }
        }
        let _ = reporter.close();
        // Whoever asked may be gone; then the end was told all the same.
        let _ = done.send(last);
    };
    std::thread::Builder::new()
        .name("reporter".to_owned())
        .spawn(move || runtime.block_on(work))
        .map_err(|error| no_runtime(&error))?;
    Ok((tell, told))
}

/// The end of a run that was not waited for.
fn abandoned(signal: &str) -> Outcome {
    let summary = format!("Stopped at once by a second {signal}; the session's journal has no end.");
    outcome(Status::Cancelled, summary, None)
}

/// The end of a run that did not come to anything.
pub(crate) fn failed(error: ErrorInfo) -> Outcome {
    outcome(Status::Failed, error.message.clone(), Some(error))
}

fn outcome(status: Status, summary: String, error: Option<ErrorInfo>) -> Outcome {
    Outcome {
        status,
        summary,
        iterations: 0,
        usage: Usage::default(),
        cost_usd: None,
        files_modified: Vec::new(),
        duration_ms: 0,
        error,
    }
}
