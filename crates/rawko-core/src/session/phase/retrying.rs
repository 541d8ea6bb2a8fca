//! A model call that failed for a reason that may pass: the same request is made again after a pause, in the same
//! conversation (`docs/providers.md#patience`).
//!
//! What the machine counts as a failure is a call that was given up. rawko distinguishes two kinds: an answer that had
//! begun and was cut off costs tokens, so it is asked for only a few times; an outage costs nothing and is waited out
//! as long as the setup's patience lasts. A quota names its own end, which is waited for within the run's time.
//!
//! Only agents wait out an outage or a quota. The arbiter does not, because the rules can decide in its place.

use super::{FollowUp, RunPhase};
use crate::error::{ErrorCode, ErrorInfo};
use crate::session::answer::OpenEffect;
use crate::session::effect::TimerPurpose;
use crate::session::ledger::Ledger;
use crate::session::reaction::Reaction;
use crate::time::Timestamp;

/// How often an answer is asked for that is cut off every time.
const CUT_ATTEMPTS: u32 = 3;
/// The first pause, in milliseconds; it doubles from attempt to attempt.
const FIRST_PAUSE_MS: u64 = 1_000;
/// The longest pause that the server did not ask for, in milliseconds.
const LONGEST_PAUSE_MS: u64 = 60_000;

/// A phase whose model call is made again after a pause.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct Retrying {
    pub(super) phase: RunPhase,
    error: ErrorInfo,
    /// When the pause began, or was last counted.
    since: Timestamp,
    /// When it ends.
    until: Timestamp,
}

/// How a model call failed.
pub(super) struct CallFailure {
    pub(super) error: ErrorInfo,
    /// Whether a part of the answer had arrived.
    pub(super) was_cut: bool,
}

impl Retrying {
    /// Repeats the call of `phase` after a pause. Gives the phase back if the call is not repeated.
    pub(super) fn after(
        failure: &CallFailure,
        phase: RunPhase,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> Result<FollowUp, RunPhase> {
        let Some(after_ms) = ledger.pause_after(failure, &phase) else {
            ledger.failing.given_up(!failure.was_cut && may_pass(failure.error.code));
            return Err(phase);
        };
        ledger.start_timer(TimerPurpose::Retry, after_ms, reaction);
        let since = ledger.now;
        let until = Timestamp(since.0.saturating_add(after_ms));
        let error = failure.error.clone();
        Ok(FollowUp::Phase(RunPhase::Retrying(Box::new(Self { phase, error, since, until }))))
    }

    /// The pause is over, and the call is made again.
    pub(super) fn again(
        mut self,
        timer: OpenEffect,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        self.count(ledger);
        self.phase.on_loss(timer, ledger, reaction)
    }

    /// The process that waited is gone: the rest of the pause is waited for.
    pub(super) fn resumed(self: Box<Self>, ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
        let left = self.until.since(ledger.now).max(1);
        ledger.start_timer(TimerPurpose::Retry, left, reaction);
        FollowUp::Phase(RunPhase::Retrying(self))
    }

    /// Takes the time that was waited until now off the working time of the agent.
    pub(super) fn count(&mut self, ledger: &mut Ledger) {
        ledger.spend.waited(ledger.now.since(self.since));
        self.since = ledger.now;
    }

    pub(in crate::session) fn error(&self) -> &ErrorInfo {
        &self.error
    }
}

impl Ledger {
    /// How long to wait before a failed call is made again, in milliseconds; `None` if it is not.
    fn pause_after(&mut self, failure: &CallFailure, phase: &RunPhase) -> Option<u64> {
        let CallFailure { error, was_cut } = failure;
        let execution = phase.execution();
        let retry = self.setup.retry.filter(|_| may_pass(error.code))?;
        // Only an agent that has no other model waits out an outage.
        if !was_cut && execution.is_none_or(|execution| execution.dialogue.has_alternative()) {
            return None;
        }
        let sent = error.attempts.map_or(1, |sent| sent.get().into());
        let failing = self.failing.failed(execution.is_some(), self.now, sent, *was_cut);
        let pause = error.retry_after_ms.unwrap_or_else(|| backoff(failing.attempts));
        if *was_cut {
            return (failing.cut < CUT_ATTEMPTS).then_some(pause);
        }
        if retry.patience_ms == 0 {
            return None;
        }
        let left = retry.patience_ms.saturating_sub(self.now.since(failing.since));
        match error.retry_after_ms {
            None => (left > 0).then(|| pause.min(left)),
            Some(asked) if error.code == ErrorCode::RateLimited => {
                self.remaining().time_left_ms.is_none_or(|left| asked <= left).then_some(asked)
            }
            Some(asked) => (asked <= left).then_some(asked),
        }
    }
}

/// Whether the same request may succeed later.
pub(super) fn may_pass(code: ErrorCode) -> bool {
    match code {
        ErrorCode::RateLimited | ErrorCode::Overloaded | ErrorCode::NetworkError | ErrorCode::Timeout => true,
        ErrorCode::ToolFailure
        | ErrorCode::ValidationError
        | ErrorCode::AuthenticationFailed
        | ErrorCode::ConfigError
        | ErrorCode::PermissionError
        | ErrorCode::ContextLengthExceeded
        | ErrorCode::BudgetExceeded
        | ErrorCode::Stalled
        | ErrorCode::InvalidRequest
        | ErrorCode::ModelUnavailable
        | ErrorCode::Blocked
        | ErrorCode::JournalIncomplete
        | ErrorCode::Unknown => false,
    }
}

fn backoff(attempts: u32) -> u64 {
    let doublings = attempts.saturating_sub(1).min(16);
    (FIRST_PAUSE_MS << doublings).min(LONGEST_PAUSE_MS)
}
