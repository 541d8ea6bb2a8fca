//! Carries a run to its end: sends its events to the reporter, and signals to the run.
//!
//! The reporter writes on a thread of its own, so a slow or stopped reader never holds the run back. If the output is
//! `stream-json` and its reader is gone, the run is cancelled.

use std::io;
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rawko::{Run, RunControl, RunEvent, RunEvents, TelemetryEnd};
use rawko_core::session::Outcome;
use rawko_core::{ErrorCode, ErrorInfo};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::{mpsc, oneshot};

use crate::console::Console;
use crate::failure::Failure;
use crate::output::clean_line;
use crate::recorded::abandoned;
use crate::reporters::Reporter;
use crate::runtime::{LAST_WAIT, no_runtime};
use crate::signals::{StopSignals, SuspendSignal, stop_here};

/// How often a reporter may redraw while nothing happens.
const FRAME: Duration = Duration::from_millis(80);

/// How often the output is looked at for a reader that has gone while nothing is written.
const LOOK: Duration = Duration::from_millis(500);

/// How long the last spans of a run may take.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// How a watched run ended.
#[derive(Debug)]
pub(crate) struct EndedRun {
    /// The last event of the run.
    pub(crate) finished: RunEvent,
    /// Why the run broke off, if it did.
    pub(crate) broken: Option<Failure>,
    /// Why the output could not be written. A reader that went away is not an error.
    pub(crate) unwritten: Option<Failure>,
    /// Waits until telemetry is sent.
    telemetry: Option<TelemetryEnd>,
}

impl EndedRun {
    /// Gives the telemetry of the run a moment to be sent, and says what was not. Call it after everything else was
    /// reported: a collector may be slow or gone.
    pub(crate) fn send_telemetry(&mut self, console: &Console) {
        let Some(problem) = self.telemetry.take().and_then(|end| end.wait(LAST_SPANS)) else { return };
        let warning = console.error_paint().warning("warning:");
        let _ = console.write_error(&format!("{warning} telemetry: {}\n", clean_line(&problem)));
    }
}

/// Carries out `run` and reports it. `essential` says that the reporter's output is the result itself.
pub(crate) async fn watch(
    mut run: Run,
    reporter: Box<dyn Reporter + Send>,
    essential: bool,
) -> Result<EndedRun, Failure> {
    let mut signals = StopSignals::listen()?;
    let mut suspend = SuspendSignal::listen(reporter.is_animated());
    let (control, telemetry) = (run.control(), run.telemetry());
    let (session, journal) = (run.session_id().to_owned(), run.journal_path().to_owned());
    let (narrator, mut narrated) = narrate(reporter, run.events(), essential.then(|| control.clone()))?;
    let mut finish = pin!(run.finish());
    let (mut result, mut last, mut stopping) = (None, None, false);
    while result.is_none() || last.is_none() {
        tokio::select! {
            biased;
            name = signals.next() => {
                if stopping {
                    rawko::tools::kill_all_now();
                    let event = RunEvent::finished(&session, abandoned(&journal, name));
                    let _ = narrator.send(NarratorMessage::End(Box::new(event.clone())));
                    if last.is_none() {
                        let _ = tokio::time::timeout(LAST_WAIT, &mut narrated).await;
                    }
                    return Ok(EndedRun { finished: event, broken: None, unwritten: None, telemetry: None });
                }
                stopping = true;
                control.cancel(name);
                let _ = narrator.send(NarratorMessage::Notice("stopping; press Ctrl-C again to stop at once".to_owned()));
            }
            () = suspend.next() => {
                let (gone, view_is_gone) = channel();
                let (going_on, continued) = channel();
                let _ = narrator.send(NarratorMessage::Suspend { gone, continued });
                // A writer that hangs does not keep the process from being stopped.
                let _ = view_is_gone.recv_timeout(LAST_WAIT);
                stop_here();
                let _ = going_on.send(());
            }
            ended = &mut finish, if result.is_none() => result = Some(ended),
            // The narrator ends after the last event, so not before the run.
            all = &mut narrated, if last.is_none() => last = Some(all.unwrap_or_default()),
        }
    }
    let broken = match result {
        Some(Err(error)) => Some(Failure::from(error)),
        Some(Ok(_)) | None => None,
    };
    let NarratorResult { last, unwritten } = last.unwrap_or_default();
    let finished = last.unwrap_or_else(|| {
        let message = broken.as_ref().map_or("the run ended without an outcome", Failure::message);
        RunEvent::finished(&session, Outcome::failed(ErrorInfo::new(ErrorCode::Unknown, message)))
    });
    let unwritten = unwritten.filter(|error| error.kind() != io::ErrorKind::BrokenPipe).map(Failure::from);
    Ok(EndedRun { finished, broken, unwritten, telemetry })
}

/// What the narrator gets besides the run's events.
#[derive(Debug)]
enum NarratorMessage {
    /// A text that is not an event.
    Notice(String),
    /// The process is to be stopped, once the terminal is free.
    Suspend { gone: Sender<()>, continued: Receiver<()> },
    /// The last event, whatever the run may still send.
    End(Box<RunEvent>),
}

/// What the narrator returns at its end.
#[derive(Debug, Default)]
struct NarratorResult {
    /// The run's last event.
    last: Option<RunEvent>,
    /// The first error while writing an event.
    unwritten: Option<io::Error>,
}

type NarratorHandle = oneshot::Receiver<NarratorResult>;

/// Reports the events on a thread of its own, and returns the last one at the end. If the output cannot be written any
/// more, `stop_if_gone` is cancelled.
fn narrate(
    mut reporter: Box<dyn Reporter + Send>,
    mut events: RunEvents,
    stop_if_gone: Option<RunControl>,
) -> Result<(mpsc::UnboundedSender<NarratorMessage>, NarratorHandle), Failure> {
    let (sender, mut messages) = mpsc::unbounded_channel();
    let (done, handle) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| no_runtime(&error))?;
    let work = async move {
        let mut frames = tokio::time::interval(FRAME);
        frames.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let looks_on = stop_if_gone.is_some() && !output_has_name();
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let animated = reporter.is_animated();
        let (mut last, mut unwritten, mut writable, mut open) = (None, None, true, true);
        let stop = || {
            if let Some(control) = &stop_if_gone {
                control.cancel("the reader of the output is gone");
            }
        };
        loop {
            tokio::select! {
                biased;
                message = messages.recv(), if open => match message {
                    Some(NarratorMessage::Notice(text)) => writable = writable && reporter.notice(&text).is_ok(),
                    Some(NarratorMessage::Suspend { gone, continued }) => {
                        writable = writable && reporter.suspend().is_ok();
                        let _ = gone.send(());
                        // The other thread stops the process. Nothing is drawn until it goes on.
                        let _ = continued.recv();
                    }
                    Some(NarratorMessage::End(event)) => {
                        let _ = reporter.event(&event);
                        last = Some(*event);
                        break;
                    }
                    None => open = false,
                },
                // Before the events, of which there may be more than can ever be drawn.
                _ = frames.tick(), if animated && writable => writable = reporter.tick().is_ok(),
                // A model may think for minutes before the next event shows that nobody reads it.
                _ = looks.tick(), if looks_on && writable => {
                    if reader_is_gone() {
                        writable = false;
                        stop();
                    }
                }
                event = events.next() => {
                    let Some(event) = event else { break };
                    if writable && let Err(error) = reporter.event(&event) {
                        writable = false;
                        unwritten = Some(error);
                        stop();
                    }
                    if matches!(event, RunEvent::SessionFinished { .. }) {
                        last = Some(event);
                    }
                }
            }
        }
        let _ = reporter.close();
        // The receiver may be gone after a second signal.
        let _ = done.send(NarratorResult { last, unwritten });
    };
    std::thread::Builder::new()
        .name("reporter".to_owned())
        .spawn(move || runtime.block_on(work))
        .map_err(|error| no_runtime(&error))?;
    Ok((sender, handle))
}

/// Whether standard output can be opened by its name: a file, or a pipe that a second program may read after the first. There,
/// that nobody reads now says nothing.
fn output_has_name() -> bool {
    std::fs::read_link("/proc/self/fd/1").is_ok_and(|place| place.is_absolute())
}

/// Whether a write to standard output would find no reader.
fn reader_is_gone() -> bool {
    let output = io::stdout();
    let mut fds = [PollFd::new(&output, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut fds, Some(&now)), Ok(ready) if ready > 0)
        && fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}
