//! Steers a run from the program that started it. Another process does the same through the session's folder: see
//! `steering.rs`.

use rawko_core::session::{Event, Override};
use rawko_tools::BoxFuture;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::run::event::RunEvent;

/// A message to the driver.
pub(crate) enum DriverMessage {
    /// An event to journal and apply.
    Happened(Event),
    /// A command of the user.
    Steer {
        /// What the user wants.
        command: Override,
        /// The name that its sender gave it.
        request: Option<String>,
        /// Who waits for what becomes of it.
        reply: Option<oneshot::Sender<Steered>>,
    },
    /// An event for the event streams only.
    Progress(RunEvent),
    /// Work that is to go on beside the effects.
    Accompany(BoxFuture<'static, ()>),
    /// Stop, and leave a session that can be resumed.
    Suspend,
}

impl std::fmt::Debug for DriverMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Happened(_) => "Happened",
            Self::Steer { .. } => "Steer",
            Self::Progress(_) => "Progress",
            Self::Accompany(_) => "Accompany",
            Self::Suspend => "Suspend",
        })
    }
}

/// Sends messages to the driver.
pub(crate) type Signals = UnboundedSender<DriverMessage>;

/// Steers and stops a run. Cheap to clone; without effect once the run is over.
///
/// Each command is journaled as an event, so that a replay of the session shows it and a resumed session knows it. A
/// command that has no meaning in the present state is ignored; [`RunEvent::Note`](crate::RunEvent::Note) with
/// [`Note::Steered`](crate::Note::Steered) says why, and so does the [`SteerReply`].
///
/// ```no_run
/// # async fn example() -> Result<(), rawko::Error> {
/// let rawko = rawko::Rawko::builder().project(".").build()?;
/// let run = rawko.run("Reject dates after 2100, with a test")?;
/// let control = run.control();
/// tokio::spawn(async move {
///     control.pause();
///     control.say("Dates of exactly 2100-12-31 are fine.");
///     if let rawko::Steered::Ignored { reason } = control.go().answer().await {
///         eprintln!("not continued: {reason}");
///     }
/// });
/// let outcome = run.await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RunControl {
    signals: Signals,
}

impl RunControl {
    pub(crate) fn new(signals: Signals) -> Self {
        Self { signals }
    }

    /// Ends the run: model streams are dropped, child processes ended, the journal closed as cancelled.
    pub fn cancel(&self, reason: &str) {
        let _ =
            self.signals.send(DriverMessage::Happened(Event::CancelRequested { reason: reason.to_owned() }));
    }

    /// Stops the run and leaves a session that [`Rawko::resume`](crate::Rawko::resume) and `rawko resume` take up: model
    /// streams are dropped and child processes ended, as when the run is cancelled, and the journal gets no end. Awaiting the
    /// run gives [`Error::Suspended`](crate::Error::Suspended). A dry run, which leaves no session, is cancelled.
    pub fn suspend(&self) {
        let _ = self.signals.send(DriverMessage::Suspend);
    }

    /// Pauses the run: model calls and tool calls that are under way end, and nothing new begins until [`Self::go`]. The
    /// run's own time limit goes on and ends a paused run too; the time limits of agents do not.
    pub fn pause(&self) -> SteerReply {
        self.steer(Override::Pause)
    }

    /// Ends the pause.
    pub fn go(&self) -> SteerReply {
        self.steer(Override::Go)
    }

    /// Makes this agent work now, in a new conversation. What is under way is given up, and a pause ends.
    pub fn force(&self, agent: &str) -> SteerReply {
        self.steer(Override::ForceAgent { agent: agent.to_owned() })
    }

    /// Skips the current step of the plan. What is under way is given up, and a pause ends.
    pub fn skip(&self) -> SteerReply {
        self.steer(Override::SkipStep)
    }

    /// Lets the same agent try again, in a new conversation. What is under way is given up, and a pause ends.
    pub fn retry(&self) -> SteerReply {
        self.steer(Override::Retry)
    }

    /// Begins the task anew: agents, plan and messages are forgotten, and so is what is under way. Files, spending and the
    /// run's limits stay.
    pub fn reset(&self) -> SteerReply {
        self.steer(Override::Reset)
    }

    /// Gives a message to the working agent with its next model request; if none works, to the next one. The arbiter
    /// is shown it too, and a task is not complete before an agent has read it.
    pub fn say(&self, text: &str) -> SteerReply {
        self.steer(Override::Say { text: text.to_owned() })
    }

    /// Gives the run any of these commands.
    pub fn steer(&self, command: Override) -> SteerReply {
        let (reply, answer) = oneshot::channel();
        // If the run is over, the reply is dropped with the signal.
        let _ = self.signals.send(DriverMessage::Steer { command, request: None, reply: Some(reply) });
        SteerReply(answer)
    }
}

/// Says what became of a command. Dropping it changes nothing.
#[derive(Debug)]
pub struct SteerReply(oneshot::Receiver<Steered>);

impl SteerReply {
    /// Waits until the run has taken note of the command. The run advances only while it is awaited, so await this in
    /// another task than the run.
    pub async fn answer(self) -> Steered {
        self.0.await.unwrap_or_else(|_| Steered::over())
    }
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Steered {
    /// It was carried out.
    Taken,
    /// It has no meaning in the present state, and changed nothing.
    Ignored {
        /// Why, for people.
        reason: String,
    },
}

impl Steered {
    /// Of a command that changed nothing for this reason, if there is one.
    pub(crate) fn of(ignored: Option<String>) -> Self {
        ignored.map_or(Self::Taken, |reason| Self::Ignored { reason })
    }

    pub(crate) fn over() -> Self {
        Self::Ignored { reason: "the run is over".to_owned() }
    }
}
