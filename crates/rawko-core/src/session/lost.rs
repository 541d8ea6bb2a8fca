//! What went with the process that ran a session before, or with the damaged end of its journal
//! (`docs/sessions.md#resume-an-interrupted-run`).
//!
//! How it ended is not known. rawko tells agents and arbiter, because the tree may hold its effects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Reaction;
use super::continuing::CarriedOver;
use super::phase::RunPhase;
use super::run::RunState;
use crate::agent::execution::Execution;
use crate::arbiter::fence;
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

/// Work whose records are damaged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LostWork {
    /// The last record that is intact.
    pub after_record: u64,
    /// The calls in the lost records that may have changed something, as far as they can be read: tool and arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<String>,
    /// How many more calls there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_calls: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Lost {
    /// Whether nothing was lost, which events do not say.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.work.is_none()
    }
}

impl LostWork {
    /// What is known of it, in one sentence for people.
    #[must_use]
    pub fn sentence(&self) -> String {
        let record = self.after_record;
        let calls = match self.listed().as_slice() {
            [] => "no call that changes something can be read there".to_owned(),
            calls => format!("calls that may have been made there: {}", calls.join("; ")),
        };
        format!(
            "the work after record {record} was lost with the damaged part of the journal; its outcome is unknown, and the \
             project may hold its effects ({calls})"
        )
    }

    /// What agents and arbiter read.
    pub(crate) fn text(&self) -> String {
        let text = format!(
            "The journal of this session was damaged and repaired. What was done after its record {} is not known any \
             more, neither the answers nor the outcome of calls. The project may hold effects of that work: look at what \
             is there before you do anything again.",
            self.after_record
        );
        match self.listed().as_slice() {
            [] => text,
            calls => {
                format!("{text} Calls that may have been made:\n{}", fence("lost-calls", &calls.join("\n")))
            }
        }
    }

    /// The calls, and how many are left out.
    fn listed(&self) -> Vec<String> {
        let more = (self.more_calls > 0).then(|| format!("and {} more", self.more_calls));
        self.calls.iter().cloned().chain(more).collect()
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
    /// What `agent` has not heard of its lost jobs; given once.
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
    /// Tells the conversations of what was lost, and the arbiter with its next question.
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
                execution.inbox.tell(job.words());
            }
            if let Some(words) = &words {
                execution.inbox.tell(words.clone());
            }
        };
        let current = self.phase.execution_mut().into_iter().chain(self.previous.as_deref_mut());
        current.chain(self.ledger.carried.executions()).for_each(tell);
        if let (RunPhase::Asking(asking), Some(_)) = (&mut self.phase, work) {
            asking.ask_anew(&mut self.ledger);
        }
    }
}
