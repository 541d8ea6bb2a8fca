//! Ctrl-C and similar signals: the first one asks for a clean end, the second one ends at once. Ctrl-Z stops the process
//! after its view has left the terminal.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;
use crate::failure::Failure;

/// The signals that stop a run.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
}

impl StopSignals {
    /// Starts listening. These signals no longer end the process by themselves.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::new(Exit::Failed, format!("cannot listen for signals: {error}")))
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
            quit: listen(SignalKind::quit())?,
        })
    }

    /// The name of the next signal.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hangup.recv() => "SIGHUP",
            _ = self.quit.recv() => "SIGQUIT",
        }
    }
}

/// The result of `work`, or `None` if the user stopped it. Then it is dropped, which ends what it has begun.
pub(crate) async fn until_stopped<T>(work: impl Future<Output = T>) -> Result<Option<T>, Failure> {
    let mut signals = StopSignals::listen()?;
    tokio::select! {
        done = work => Ok(Some(done)),
        _ = signals.next() => Ok(None),
    }
}

/// Ctrl-Z, where the process has a view that must leave the terminal before it is stopped.
pub(crate) struct SuspendSignal(Option<Signal>);

impl SuspendSignal {
    /// Starts listening if there is a view. Then the signal no longer stops the process by itself.
    pub(crate) fn listen(has_view: bool) -> Self {
        let kind = SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw());
        Self(has_view.then(|| signal(kind).ok()).flatten())
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => {
                signal.recv().await;
            }
            None => std::future::pending().await,
        }
    }
}

/// Stops this process until it is continued. To be called on the main thread, which the kernel then stops before this
/// returns; it stops other threads a moment later.
pub(crate) fn stop_here() {
    use rustix::process::{Signal, getpid, kill_process};
    let _ = kill_process(getpid(), Signal::STOP);
}
