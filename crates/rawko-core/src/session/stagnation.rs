//! How long a run may go on without progress, in model calls of any kind (`docs/tools.md#guards`): agents, arbiter,
//! summaries. Progress resets one clock over the whole run. Only proven progress resets the other, which is for changes
//! in ever new places that come to nothing.

use super::loop_detector::{Alarm, RepetitionLimits};
use super::progress::ProgressLevel;
use crate::arbiter::Repetition;

/// Model calls in a row without progress. Useless work may begin with some changes in places of its own: with them, it ends
/// within 150 calls.
const IDLE: RepetitionLimits = RepetitionLimits { nudge: 60, change: 100, stop: 140 };
/// Model calls in a row without a better check, a settled step or an approval, whatever was changed where. Agents in
/// recorded runs that solved their task made up to 189, without any check.
const UNPROVEN: RepetitionLimits = RepetitionLimits { nudge: 190, change: 220, stop: 250 };

/// How often a run is proven by what can be had for nothing: a check that passes, a call that is allowed. Fewer failures than
/// ever, and fewer open steps than ever, have an end of their own.
const CHEAP_PROOFS: u32 = 10;

/// The model calls since the last progress.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Stagnation {
    idle: CallStreak,
    unproven: CallStreak,
    cheap_proofs: u32,
}

/// Model calls in a row, and the worst alarm that they have raised so far.
#[derive(Debug, Clone, Default, PartialEq)]
struct CallStreak {
    calls: u32,
    raised: Alarm,
}

impl Stagnation {
    /// A model is asked.
    pub(super) fn asked(&mut self) {
        self.idle.calls += 1;
        self.unproven.calls += 1;
    }

    /// Records the progress of a call or a check.
    pub(super) fn record(&mut self, progress: ProgressLevel) {
        match progress {
            ProgressLevel::None | ProgressLevel::NewOutput | ProgressLevel::NewChange => {}
            ProgressLevel::NewPlace => self.idle = CallStreak::default(),
            ProgressLevel::Passed => self.proven_cheaply(),
            ProgressLevel::Better => self.proven(),
        }
    }

    /// Something is certainly further: fewer tests fail, or fewer steps are open.
    pub(super) fn proven(&mut self) {
        (self.idle, self.unproven) = Default::default();
    }

    /// Something seems further: a check passes, or a call was allowed.
    pub(super) fn proven_cheaply(&mut self) {
        self.idle = CallStreak::default();
        if self.cheap_proofs < CHEAP_PROOFS {
            self.cheap_proofs += 1;
            self.unproven = CallStreak::default();
        }
    }

    /// The alarm that is due: once for each level, except that a run that must stop must stop.
    pub(super) fn raise(&mut self) -> Alarm {
        self.idle.raise(IDLE).max(self.unproven.raise(UNPROVEN))
    }

    /// Whether the run must stop.
    pub(super) fn is_over(&self) -> bool {
        self.alarm() == Alarm::Stop
    }

    /// How bad it is.
    pub(super) fn alarm(&self) -> Alarm {
        IDLE.patience(self.idle.calls).max(UNPROVEN.patience(self.unproven.calls))
    }

    /// What there is to say of it, if it is worth saying.
    pub(super) fn noticed(&self) -> Option<Repetition> {
        if UNPROVEN.patience(self.unproven.calls) > IDLE.patience(self.idle.calls) {
            let what =
                "a model call with no check that is better than ever, and no plan step settled by a change";
            return UNPROVEN.noticed(self.unproven.calls, what);
        }
        let what = "a model call with no check that is better than ever, no plan step settled by a change, and no change \
                    in a place that was not changed before";
        IDLE.noticed(self.idle.calls, what)
    }
}

impl CallStreak {
    fn raise(&mut self, bounds: RepetitionLimits) -> Alarm {
        match bounds.patience(self.calls) {
            alarm if alarm > self.raised || alarm == Alarm::Stop => {
                self.raised = alarm;
                alarm
            }
            _ => Alarm::Calm,
        }
    }
}

impl RepetitionLimits {
    /// The alarm of a clock: the checks run before another agent has to.
    fn patience(self, calls: u32) -> Alarm {
        match self.alarm(calls) {
            Alarm::Change => Alarm::Check,
            alarm => alarm,
        }
    }

    fn noticed(self, times: u32, what: &str) -> Option<Repetition> {
        let what = what.to_owned();
        let noticed = Repetition { what, times, change_at: self.change, stop_at: self.stop };
        (self.alarm(times) > Alarm::Calm).then_some(noticed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls after which each level is raised, when every call brings what `each` says.
    #[track_caller]
    fn check(calls: u32, each: impl Fn(u32) -> ProgressLevel, expected: &[(u32, Alarm)]) {
        let mut stagnation = Stagnation::default();
        let mut raised = Vec::new();
        for call in 1..=calls {
            stagnation.asked();
            stagnation.record(each(call));
            match stagnation.raise() {
                Alarm::Calm => {}
                alarm => raised.push((call, alarm)),
            }
        }
        assert_eq!(raised, expected);
    }

    #[test]
    fn each_level_is_raised_once_and_the_last_one_stands() {
        use Alarm::{Check, Nudge, Stop};
        let in_vain = [(60, Nudge), (100, Check), (140, Stop), (141, Stop)];
        check(141, |_| ProgressLevel::None, &in_vain);
        check(141, |_| ProgressLevel::NewOutput, &in_vain);
        check(141, |_| ProgressLevel::NewChange, &in_vain);
        check(250, |_| ProgressLevel::NewPlace, &[(190, Nudge), (220, Check), (250, Stop)]);
        let now_and_then = |progress| move |call| if call % 59 == 0 { progress } else { ProgressLevel::None };
        check(189, now_and_then(ProgressLevel::NewPlace), &[]);
        check(1_000, now_and_then(ProgressLevel::Better), &[]);
        // Ten times, and then no more.
        let last = 59 * 10;
        let in_the_end = [(last + 190, Nudge), (last + 220, Check), (last + 250, Stop)];
        check(last + 250, now_and_then(ProgressLevel::Passed), &in_the_end);
    }

    #[test]
    fn what_is_said_is_of_the_worse_clock() {
        let mut stagnation = Stagnation::default();
        for _ in 0..189 {
            stagnation.asked();
            stagnation.record(ProgressLevel::NewPlace);
        }
        assert_eq!(stagnation.noticed(), None);
        stagnation.asked();
        stagnation.record(ProgressLevel::NewPlace);
        let noticed = stagnation.noticed().unwrap();
        assert_eq!((noticed.times, noticed.change_at, noticed.stop_at), (190, 220, 250));
        assert!(!noticed.what.contains("place"), "{noticed:?}");
    }
}
