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
    /// `limits` with the ones that the caller gave in their place; where limits are kept, only those that are lower.
    pub(crate) fn raised(&self, limits: &RunLimits) -> RunLimits {
        let given = &self.builder.overrides;
        let raised = RunLimits {
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
        };
        if self.builder.keeps_limits { lowest(&raised, limits) } else { raised }
    }

    /// The limits of a session's next task: today's; where limits are kept, none above what was set for the task before. A
    /// limit that nobody set does not count.
    pub(crate) fn of_next_task(&self, today: &RunLimits, before: &RunLimits) -> RunLimits {
        if !self.builder.keeps_limits {
            return *today;
        }
        let set = RunLimits {
            max_cost_usd: before.max_cost_usd.filter(|_| !before.cost_is_default),
            max_duration_ms: before.max_duration_ms.filter(|_| !before.duration_is_default),
            ..*before
        };
        lowest(today, &set)
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

/// The lower one of each limit that a caller may give.
fn lowest(one: &RunLimits, other: &RunLimits) -> RunLimits {
    let (cost, cost_is_default) =
        lower((one.max_cost_usd, one.cost_is_default), (other.max_cost_usd, other.cost_is_default));
    let (duration, duration_is_default) = lower(
        (one.max_duration_ms, one.duration_is_default),
        (other.max_duration_ms, other.duration_is_default),
    );
    RunLimits {
        max_iterations: one.max_iterations.min(other.max_iterations),
        max_consecutive_failures: one.max_consecutive_failures,
        max_tokens: lower((one.max_tokens, false), (other.max_tokens, false)).0,
        max_cost_usd: cost,
        cost_is_default,
        max_duration_ms: duration,
        duration_is_default,
    }
}

/// The lower limit, with whether it is the default. Without a number there is none.
fn lower<T: PartialOrd>(one: (Option<T>, bool), other: (Option<T>, bool)) -> (Option<T>, bool) {
    match (&one.0, &other.0) {
        (Some(first), Some(second)) if second < first => other,
        (None, Some(_)) => other,
        _ => one,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limits_are_taken_one_by_one() {
        let session = RunLimits {
            max_iterations: 5,
            max_tokens: None,
            max_cost_usd: Some(1.0),
            max_duration_ms: Some(60_000),
            duration_is_default: true,
            ..RunLimits::default()
        };
        let wanted = RunLimits {
            max_iterations: 9,
            max_tokens: Some(100),
            max_cost_usd: Some(2.0),
            max_duration_ms: Some(30_000),
            ..RunLimits::default()
        };
        let both = RunLimits {
            max_iterations: 5,
            max_tokens: Some(100),
            max_cost_usd: Some(1.0),
            max_duration_ms: Some(30_000),
            ..RunLimits::default()
        };
        assert_eq!(lowest(&wanted, &session), both);
        assert_eq!(lowest(&session, &session), session);
        let lifted = RunLimits { max_cost_usd: None, max_duration_ms: None, ..wanted };
        let kept = lowest(&lifted, &session);
        assert_eq!((kept.max_cost_usd, kept.max_duration_ms), (Some(1.0), Some(60_000)));
        assert!(kept.duration_is_default && !kept.cost_is_default);
    }
}
