//! Model calls that fail, and since when. `phase/retrying.rs` decides how long the run waits for them.

use crate::request::Purpose;
use crate::time::Timestamp;

/// What is known of providers that do not answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct FailingCalls {
    /// The call that is made again, while it fails.
    call: Option<FailingCall>,
    /// The arbiter's provider did not answer the last question, so that the rules decided.
    arbiter_is_down: bool,
}

/// Model calls that keep failing: one, and those that follow when it was given up.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FailingCall {
    /// When the first of them failed. Time in which no process carried the run moves this forward.
    pub(super) since: Timestamp,
    /// How often a request was sent.
    pub(super) attempts: u32,
    /// How many answers were cut off.
    pub(super) cut: u32,
    /// Whether an agent made the first of them, and not the arbiter.
    by_agent: bool,
}

impl FailingCalls {
    /// A call of an agent or of the arbiter has failed, for which so many requests were sent.
    pub(super) fn failed(
        &mut self,
        by_agent: bool,
        now: Timestamp,
        sent: u32,
        was_cut: bool,
    ) -> &FailingCall {
        let call = self.call.get_or_insert(FailingCall { since: now, attempts: 0, cut: 0, by_agent });
        call.attempts = call.attempts.saturating_add(sent);
        call.cut += u32::from(was_cut);
        call
    }

    /// The call is given up. The patience with an outage is not given again to the calls that follow.
    pub(super) fn given_up(&mut self, is_outage: bool) {
        self.call = self.call.take().filter(|_| is_outage);
    }

    /// A call was answered, which an agent made or the arbiter. That the arbiter has a model does not end the outage of the
    /// agents' one.
    pub(super) fn answered(&mut self, to_agent: bool) {
        self.call = self.call.take().filter(|call| call.by_agent != to_agent);
        self.arbiter_is_down &= to_agent;
    }

    /// The arbiter's provider does not answer. Returns whether that is new.
    pub(super) fn arbiter_failed(&mut self) -> bool {
        !std::mem::replace(&mut self.arbiter_is_down, true)
    }

    /// Another process carries the run, after a pause of so many milliseconds.
    pub(super) fn resumed(&mut self, paused_ms: u64) {
        if let Some(call) = &mut self.call {
            call.since.0 = call.since.0.saturating_add(paused_ms);
        }
        self.arbiter_is_down = false;
    }

    /// The number of the next attempt of the call that keeps failing.
    pub(super) fn next_attempt(&self) -> u32 {
        self.call.as_ref().map_or(1, |call| call.attempts.saturating_add(1))
    }

    /// Whether the call that is made now for `purpose` is one that the session repeats by itself. `is_patient` says whether it
    /// waits out an outage of the agents' provider.
    pub(super) fn is_repeating(&self, purpose: &Purpose, is_patient: bool) -> bool {
        let by_agent = !matches!(purpose, Purpose::Select | Purpose::Evaluate);
        let is_own = self.call.as_ref().is_some_and(|call| call.by_agent == by_agent);
        is_own && is_patient || !by_agent && self.arbiter_is_down
    }
}
