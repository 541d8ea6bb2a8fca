//! How long a run may go on without progress, in model calls of any kind (`docs/spec/tools-and-permissions.md`,
//! "Guards"): agents, arbiter, summaries. Two clocks. What is new to read stops the first one, so a big project may be
//! explored at leisure; only a change stops the second one, so reading has an end.

use super::loop_detector::{Alarm, Bounds};
use crate::arbiter::Repetition;

/// Model calls in a row that brought nothing at all.
const IDLE: Bounds = Bounds { nudge: 20, change: 35, stop: 50 };
/// Model calls in a row that changed nothing. Agents in recorded runs of solved tasks made up to 27.
const UNCHANGED: Bounds = Bounds { nudge: 60, change: 90, stop: 120 };

/// The model calls since the last progress.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Stagnation {
    idle: Clock,
    unchanged: Clock,
}

/// Model calls in a row, and the worst alarm that they have raised so far.
#[derive(Debug, Clone, Default, PartialEq)]
struct Clock {
    calls: u32,
    raised: Alarm,
}

impl Stagnation {
    /// A model is asked.
    pub(super) fn asked(&mut self) {
        self.idle.calls += 1;
        self.unchanged.calls += 1;
    }

    /// Something was learned.
    pub(super) fn learned(&mut self) {
        self.idle = Clock::default();
    }

    /// Something was changed.
    pub(super) fn changed(&mut self) {
        *self = Self::default();
    }

    /// The alarm that is due: once for each level, except that a run that must stop must stop.
    pub(super) fn raise(&mut self) -> Alarm {
        self.idle.raise(IDLE).max(self.unchanged.raise(UNCHANGED))
    }

    /// Whether the run must stop.
    pub(super) fn is_over(&self) -> bool {
        self.alarm() == Alarm::Stop
    }

    /// How bad it is.
    pub(super) fn alarm(&self) -> Alarm {
        IDLE.alarm(self.idle.calls).max(UNCHANGED.alarm(self.unchanged.calls))
    }

    /// What there is to say of it, if it is worth saying.
    pub(super) fn noticed(&self) -> Option<Repetition> {
        if UNCHANGED.alarm(self.unchanged.calls) > IDLE.alarm(self.idle.calls) {
            let what =
                "a model call with no new text in a file, no changed result of a check and no plan step done";
            return UNCHANGED.noticed(self.unchanged.calls, what);
        }
        let what = "a model call with no new text in a file, no changed result of a check, no plan step done and nothing new to read";
        IDLE.noticed(self.idle.calls, what)
    }
}

impl Clock {
    fn raise(&mut self, bounds: Bounds) -> Alarm {
        match bounds.alarm(self.calls) {
            alarm if alarm > self.raised || alarm == Alarm::Stop => {
                self.raised = alarm;
                alarm
            }
            _ => Alarm::Calm,
        }
    }
}

impl Bounds {
    fn noticed(self, times: u32, what: &str) -> Option<Repetition> {
        let what = what.to_owned();
        let noticed = Repetition { what, times, change_at: self.change, stop_at: self.stop };
        (self.alarm(times) > Alarm::Calm).then_some(noticed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls after which each level is raised, when `each` is done after every call.
    fn raised(calls: u32, each: impl Fn(&mut Stagnation, u32)) -> Vec<(u32, Alarm)> {
        let mut stagnation = Stagnation::default();
        let mut raised = Vec::new();
        for call in 1..=calls {
            stagnation.asked();
            each(&mut stagnation, call);
            match stagnation.raise() {
                Alarm::Calm => {}
                alarm => raised.push((call, alarm)),
            }
        }
        raised
    }

    #[test]
    fn each_level_is_raised_once_and_the_last_one_stands() {
        use Alarm::{Change, Nudge, Stop};
        assert_eq!(raised(51, |_, _| ()), [(20, Nudge), (35, Change), (50, Stop), (51, Stop)]);
        assert_eq!(raised(120, |it, _| it.learned()), [(60, Nudge), (90, Change), (120, Stop)]);
        assert_eq!(raised(1_000, |it, _| it.changed()), []);
        assert_eq!(
            raised(1_000, |it, call| if call % 19 == 0 {
                it.changed();
            }),
            []
        );
    }

    #[test]
    fn what_is_said_is_of_the_worse_clock() {
        let mut stagnation = Stagnation::default();
        for _ in 0..59 {
            stagnation.asked();
            stagnation.learned();
        }
        assert_eq!(stagnation.noticed(), None);
        stagnation.asked();
        let noticed = stagnation.noticed().unwrap();
        assert_eq!((noticed.times, noticed.change_at, noticed.stop_at), (60, 90, 120));
        assert!(!noticed.what.contains("read"), "{noticed:?}");
    }
}
