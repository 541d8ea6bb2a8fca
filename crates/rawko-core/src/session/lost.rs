//! Work that was lost with an earlier process of a session, or with the damaged end of its journal
//! (`docs/sessions.md#resume-an-interrupted-run`).
//!
//! How it ended is not known. Agents and arbiter are informed, because the tree may hold its effects.

use serde::{Deserialize, Serialize};

use super::continuing::CarriedOver;
use super::phase::RunPhase;
use super::reaction::Reaction;
use super::run::RunState;
use crate::agent::execution::Execution;
pub use crate::lost_work::LostWork;
use crate::text::truncate;

/// Bytes of a command that are shown.
const COMMAND_BYTES: usize = 200;

/// What was lost before a process took a session up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Lost {
    /// The background jobs that ended with the process before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<LostJob>,
    /// What the damaged end of the journal recorded, in a repaired copy that is taken up for the first time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<LostWork>,
}

/// A background job whose end was not seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LostJob {
    /// The agent that began it.
    pub agent: String,
    /// Its number.
    pub job: u32,
    /// The command.
    pub command: String,
}

impl Lost {
    /// Whether nothing was lost, which events do not say.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.work.is_none()
    }
}

impl LostJob {
    /// What is known of it, for its agent.
    pub(super) fn words(&self) -> String {
        format!(
            "[background job {}: lost with the process that ran it; how it ended, and what it printed since your last \
             Bash call, is unknown. Its process id may belong to another process now: do not use it. The command was \
             `{}`. Start it again if you still need it.]",
            self.job,
            truncate(&self.command, COMMAND_BYTES)
        )
    }
}

impl CarriedOver {
    /// The lost jobs of `agent` that are not reported to it yet; each is given once.
    pub(super) fn take_lost_jobs(&mut self, agent: &str) -> Vec<String> {
        let own = self.lost_jobs.extract_if(.., |job| job.agent == agent);
        own.map(|job| job.words()).collect()
    }
}

impl Reaction {
    /// Reports what was lost to people.
    pub(super) fn lost(&mut self, lost: &Lost) {
        if let Some(work) = &lost.work {
            self.warn(work.sentence());
        }
        for LostJob { agent, job, command } in &lost.jobs {
            let command = truncate(command, COMMAND_BYTES);
            self.warn(format!(
                "background job {job} of {agent} was lost with the process that ran it; how it ended is unknown: {command}"
            ));
        }
    }
}

impl RunState {
    /// Informs the conversations of what was lost, and the arbiter with its next question.
    pub(super) fn tell_lost(&mut self, lost: &Lost) {
        let Lost { jobs, work } = lost;
        if let Some(work) = work {
            self.ledger.carried.lost_work = Some(work.clone());
        }
        let words = work.as_ref().map(LostWork::text);
        // An agent that is not at work may begin a new conversation next.
        let at_work = self.phase.execution().map(|execution| execution.agent().to_owned());
        let others = jobs.iter().filter(|job| Some(&job.agent) != at_work.as_ref());
        self.ledger.carried.lost_jobs.extend(others.cloned());
        let tell = |execution: &mut Execution| {
            let agent = execution.agent().to_owned();
            for job in jobs.iter().filter(|job| job.agent == agent) {
                execution.inbox.notify(job.words());
            }
            if let Some(words) = &words {
                execution.inbox.notify(words.clone());
            }
        };
        let current = self.phase.execution_mut().into_iter().chain(self.previous.as_deref_mut());
        current.chain(self.ledger.carried.executions()).for_each(tell);
        if let (RunPhase::Asking(asking), Some(_)) = (&mut self.phase, work) {
            asking.ask_anew(&mut self.ledger);
        }
    }
}
