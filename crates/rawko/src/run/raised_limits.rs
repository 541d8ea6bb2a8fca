//! New limits for a resumed session. What it spent before counts.

use rawko_core::session::{LimitKind, Outcome, Status};
use rawko_core::setup::RunLimits;
use rawko_core::{ErrorCode, ErrorInfo};

use crate::clock::now;
use crate::config::TimeLimit;
use crate::error::Error;
use crate::journal::Folded;
use crate::setup::rawko::Rawko;

impl Rawko {
    /// `limits` with the ones that the caller gave in their place.
    pub(crate) fn raised(&self, limits: &RunLimits) -> RunLimits {
        let given = &self.builder.overrides;
        RunLimits {
            max_iterations: given.max_iterations.unwrap_or(limits.max_iterations),
            max_consecutive_failures: limits.max_consecutive_failures,
            max_tokens: given.max_tokens.map(u64::from).or(limits.max_tokens),
            // 0 lifts a limit.
            max_cost_usd: given
                .max_cost_usd
                .map_or(limits.max_cost_usd, |max| Some(max).filter(|max| *max > 0.0)),
            cost_is_default: limits.cost_is_default && given.max_cost_usd.is_none(),
            max_duration_ms: given.timeout.map_or(limits.max_duration_ms, TimeLimit::as_ms),
            duration_is_default: limits.duration_is_default && given.timeout.is_none(),
        }
    }

    /// The limit that ended a session with `outcome` and that the caller has not raised. A run that repeated itself needs
    /// none raised: the user who resumes it wants it to go on.
    pub(crate) fn standing(&self, limits: &RunLimits, outcome: &Outcome) -> Option<LimitKind> {
        let limit = outcome.limit.unwrap_or(LimitKind::Iterations);
        let stands = outcome.status == Status::Limited
            && limit != LimitKind::Stalled
            && self.raised(limits) == *limits;
        stands.then_some(limit)
    }

    /// Refuses a limit that the session has passed already: the run would end before it began.
    ///
    /// # Errors
    /// [`Error::LimitSpent`] with both figures.
    pub(crate) fn check_spent(&self, session: &str, folded: &Folded) -> Result<(), Error> {
        let given = &self.builder.overrides;
        let so_far = folded.session.broken_off(now(), ErrorInfo::new(ErrorCode::Unknown, ""));
        let shared = so_far.shared.as_ref();
        let spent = |limit: LimitKind, given: String, spent: String| {
            Err(Error::LimitSpent { session: session.to_owned(), limit, given, spent })
        };
        let cost = so_far.cost_usd.map(|own| own + shared.and_then(|shared| shared.cost_usd).unwrap_or(0.0));
        if let (Some(max), Some(cost)) = (given.max_cost_usd.filter(|max| *max > 0.0), cost)
            && max <= cost
        {
            return spent(LimitKind::Cost, format!("${max}"), format!("${cost:.4}"));
        }
        let tokens = so_far.usage.total_tokens() + shared.map_or(0, |shared| shared.usage.total_tokens());
        if let Some(max) = given.max_tokens
            && u64::from(max) <= tokens
        {
            return spent(LimitKind::Tokens, format!("{max} tokens"), format!("{tokens} tokens"));
        }
        // The last of them may still be under way.
        let done = so_far.iterations.saturating_sub(u32::from(!folded.session.state().is_final()));
        if let Some(max) = given.max_iterations
            && max <= done
        {
            return spent(LimitKind::Iterations, format!("{max} executions"), format!("{done} executions"));
        }
        Ok(())
    }
}
