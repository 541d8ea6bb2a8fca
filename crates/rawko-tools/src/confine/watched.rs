//! A command that runs in the sandbox, and what is undone when it has ended.

use std::io;
use std::time::{Duration, Instant};

use rawko_sandbox::{Control, HelperReport};

use super::absent::{self, Absent};
use super::{Sandbox, WayOut, cgroup};
use crate::refusals::Refusals;

/// How long the processes of a command may still be there when it has ended or was killed. The helper gives them five seconds.
const ENDS_WITHIN: Duration = Duration::from_secs(15);

/// The line to the helper of a command that runs. When it is dropped, the command has ended, and what it has made in the
/// repository to decide what git runs is removed.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(super) control: Control,
    sandbox: Sandbox,
    absent: Absent,
    pub(super) way: WayOut,
    /// Limits what it takes, until it has ended.
    pub(super) group: Option<cgroup::Leaf>,
    /// Whether it may write in the project, or beside it.
    writes: bool,
}

impl Watched {
    /// `writes`: whether it may write in the project, or beside it, and which names are protected besides those that always
    /// are.
    pub(super) fn new(
        control: Control,
        sandbox: &Sandbox,
        way: WayOut,
        (writes, protect): (bool, &[String]),
    ) -> Self {
        let repositories = &sandbox.0.new_repositories;
        let theirs = if writes { repositories.theirs() } else { Vec::new() };
        let absent = absent::absent(sandbox.0.repository.as_ref(), repositories.root(), &theirs, protect);
        repositories.command_begins();
        Self { control, sandbox: sandbox.clone(), absent, way, group: None, writes }
    }

    /// How much memory, in MiB, was exceeded, if the command was ended for that.
    pub(crate) fn exceeded(&self) -> Option<u64> {
        self.group.as_ref()?.exceeded()
    }

    /// The next report of a command that has ended; `None` once all its processes have.
    pub(crate) fn report(&mut self) -> io::Result<Option<HelperReport>> {
        self.control.report_by(Instant::now() + ENDS_WITHIN)
    }

    /// What the command is refused.
    pub(crate) fn refusals(&self) -> Refusals {
        self.way.client.refusals.clone()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // A command that was killed has processes for another moment.
        let deadline = Instant::now() + ENDS_WITHIN;
        while let Ok(Some(_)) = self.control.report_by(deadline) {}
        for (name, aside) in self.absent.remove() {
            self.way.client.refusals.note_aside(&name, &aside);
        }
        self.sandbox.0.new_repositories.command_ended(self.writes);
    }
}
