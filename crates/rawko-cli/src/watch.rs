//! A run, watched to its end: events to the reporter, signals to the run.
//!
//! Owns the loop in which a run advances, the runtime that it needs, and the thread on which the reporter writes: a
//! reader that is slow, stopped or gone never holds the run back. Only where the events are themselves the result, and
//! nobody reads them any more, the run is stopped.

use std::io;
use std::pin::pin;
use std::time::Duration;

use rawko::core::session::Outcome;
use rawko::core::{ErrorCode, ErrorInfo};
use rawko::{Run, RunControl, RunEvent, RunEvents};
use tokio::sync::{mpsc, oneshot};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::reporters::Reporter;
use crate::signals::Signals;
use crate::so_far::SoFar;

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
    /// Why what was to be told could not be written. That the reader went away is nothing to complain about.
    pub(crate) unwritten: Option<Failure>,
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
    let (mut events, mut so_far) = (run.events(), SoFar::default());
    let mut finish = pin!(run.finish());
    let (mut result, mut last, mut stopping) = (None, None, false);
    while result.is_none() || last.is_none() {
        tokio::select! {
            biased;
            name = signals.next() => {
                if stopping {
                    rawko::tools::kill_all_now();
                    while let Ok(Some(event)) = tokio::time::timeout(Duration::ZERO, events.next()).await {
                        so_far.take(&event);
                    }
                    let event = RunEvent::finished(&session, &so_far.abandoned(name));
                    let _ = tell.send(Word::End(Box::new(event.clone())));
                    if last.is_none() {
                        let _ = tokio::time::timeout(LAST_WAIT, &mut told).await;
                    }
                    return Ok(Ended { finished: event, broken: None, unwritten: None });
                }
                stopping = true;
                control.cancel(name);
                let _ = tell.send(Word::Notice("stopping; once more to stop at once".to_owned()));
            }
            ended = &mut finish, if result.is_none() => result = Some(ended),
            // The narrator ends when everything was told, and not before the run.
            all = &mut told, if last.is_none() => last = Some(all.unwrap_or_default()),
            Some(event) = events.next() => so_far.take(&event),
        }
    }
    let broken = match result {
        Some(Err(error)) => Some(Failure::from(error)),
        Some(Ok(_)) | None => None,
    };
    let AllTold { last, unwritten } = last.unwrap_or_default();
    let finished = last.unwrap_or_else(|| {
        let message = broken.as_ref().map_or("the run ended without saying how", Failure::message);
        RunEvent::finished(&session, &Outcome::failed(ErrorInfo::new(ErrorCode::Unknown, message)))
    });
    let unwritten = unwritten.filter(|error| error.kind() != io::ErrorKind::BrokenPipe).map(Failure::from);
    Ok(Ended { finished, broken, unwritten })
}

/// What is said besides the run's events.
#[derive(Debug)]
enum Word {
    /// Something that is no event.
    Notice(String),
    /// This is the end, whatever the run may still do.
    End(Box<RunEvent>),
}

/// What telling a run came to.
#[derive(Debug, Default)]
struct AllTold {
    /// The run's last event.
    last: Option<RunEvent>,
    /// The first failure to tell an event.
    unwritten: Option<io::Error>,
}

type Told = oneshot::Receiver<AllTold>;

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
        let (mut last, mut unwritten, mut heard, mut open) = (None, None, true, true);
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
                    if heard && let Err(error) = reporter.tell(&event) {
                        heard = false;
                        unwritten = Some(error);
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
        let _ = done.send(AllTold { last, unwritten });
    };
    std::thread::Builder::new()
        .name("reporter".to_owned())
        .spawn(move || runtime.block_on(work))
        .map_err(|error| no_runtime(&error))?;
    Ok((tell, told))
}
