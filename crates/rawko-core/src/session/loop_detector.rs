//! The loop detector (`docs/tools.md#guards`): notices that a run repeats itself, or goes on
//! without progress.
//!
//! It counts fingerprints: of tool calls as (tool, input, result, tree), of agent switches as (from, to, tree, plan),
//! of failed verifications as (commands, output, tree). "Tree" is what the run itself has done to it. Doing and undoing
//! is a circle too. Only progress resets the counts, or the user who takes up a run that was stopped: no override does.
//! [`ProgressTracker`] says what progress is, and [`Stagnation`] how long a run may go without.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::executions::{Executions, PlanProgress};
use super::progress::{ProgressLevel, ProgressTracker};
use super::stagnation::Stagnation;
use crate::arbiter::Repetition;
use crate::facts::{TreeInspection, Verification};
use crate::machine::Plan;
use crate::message::ToolCall;
use crate::text::truncate;
use crate::tool::{ToolAccess, ToolOutcome};

/// How often something may repeat until agent and arbiter are warned, another agent must work, and the run stops.
#[derive(Debug, Clone, Copy)]
pub(super) struct RepetitionLimits {
    pub(super) nudge: u32,
    pub(super) change: u32,
    pub(super) stop: u32,
}

/// The same call with the same result on the same tree.
const CALLS: RepetitionLimits = RepetitionLimits { nudge: 3, change: 6, stop: 9 };
/// The same switch of agents on the same tree and plan.
const SWITCHES: RepetitionLimits = RepetitionLimits { nudge: 3, change: 5, stop: 7 };
/// Executions in a row that changed neither tree nor plan.
const NO_PROGRESS: RepetitionLimits = RepetitionLimits { nudge: 4, change: 6, stop: 9 };
/// The same failed verification of the same tree.
const VERIFICATIONS: RepetitionLimits = RepetitionLimits { nudge: 2, change: 3, stop: 5 };

/// The same failure of a check after different changes: the agent is warned. Runs that solved their task saw the same
/// one four times.
const SAME_RED: u32 = 5;

/// Characters of a call that are quoted.
const CALL_CHARS: usize = 160;

/// How bad a repetition is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    /// Nothing was repeated too often.
    #[default]
    Calm,
    /// The arbiter and the agent should know.
    Nudge,
    /// The agent's work ends, and the checks run.
    Check,
    /// Another agent must work.
    Change,
    /// The run must stop.
    Stop,
}

/// The digest of a text, or of several in their order.
pub(super) type TextDigest = [u8; 16];

/// What a run has done and how often.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct LoopDetector {
    /// How often each call was seen since the last new result, and each switch since the last progress.
    calls: BTreeMap<TextDigest, u32>,
    switches: BTreeMap<TextDigest, u32>,
    /// Failed verifications by tree. Their tree is the real one: progress in anything else does not excuse them.
    failed: BTreeMap<TextDigest, u32>,
    progress: ProgressTracker,
    /// After how many different changes the check that was run last has failed alike.
    alike: Option<u32>,
    stagnation: Stagnation,
    executions: Executions,
    noticed: Option<Repetition>,
    /// The worst alarm that was raised since an agent last began to work.
    pending: Alarm,
}

impl LoopDetector {
    /// A model is asked, by any caller.
    pub(super) fn asked(&mut self) {
        self.stagnation.asked();
    }

    /// Counts the result of a tool call.
    pub(super) fn call(&mut self, call: &ToolCall, access: ToolAccess, outcome: &ToolOutcome) -> Alarm {
        let (progress, alike) = self.progress.judge(call, access, outcome);
        self.record(progress);
        self.alike = alike;
        self.repeated(call, outcome)
    }

    /// How often the check that was counted last has failed alike, if that is worth saying. It is said once.
    pub(super) fn failed_alike(&mut self) -> Option<u32> {
        self.alike.take().filter(|times| *times == SAME_RED)
    }

    /// Counts a call that was refused, by the policy or because its arguments were malformed.
    pub(super) fn refused(&mut self, call: &ToolCall, outcome: &ToolOutcome) -> Alarm {
        self.repeated(call, outcome)
    }

    fn repeated(&mut self, call: &ToolCall, outcome: &ToolOutcome) -> Alarm {
        let input = call.input.to_string();
        let print = print(&["call", &call.name, &input, &without_figures(&outcome.content)]);
        let times = count(&mut self.calls, print);
        let what = format!("{} {} with the same result", call.name, truncate(&input, CALL_CHARS));
        // Once each: an agent is not warned again at every call, and the next agent starts afresh.
        match self.judge(times, CALLS, what) {
            Alarm::Nudge if times > CALLS.nudge => Alarm::Calm,
            Alarm::Change if times > CALLS.change => Alarm::Calm,
            alarm => alarm,
        }
    }

    /// `to` begins to work after `from`.
    fn switched(&mut self, from: &str, to: &str) -> Alarm {
        if self.executions.is_changing() {
            // The user intervened before the execution was over.
            self.made_progress();
        }
        let times = count(&mut self.switches, switch(from, to));
        let switch = self.judge(times, SWITCHES, switch_words(from, to));
        let without_progress =
            self.judge(self.executions.without_progress() + 1, NO_PROGRESS, no_progress_words());
        switch.max(without_progress)
    }

    /// The alarm that would follow if `to` worked now, after `from`.
    pub(super) fn if_switched(&self, from: &str, to: &str) -> Alarm {
        let times = self.switches.get(&switch(from, to)).copied().unwrap_or_default() + 1;
        SWITCHES.alarm(times).max(NO_PROGRESS.alarm(self.executions.without_progress() + 1))
    }

    /// The tree at the end of an execution that may have changed it.
    pub(super) fn tree_is(&mut self, inspection: &TreeInspection) {
        self.executions.tree_is(inspection);
    }

    /// An execution is over, and this is the plan now.
    pub(super) fn execution_ended(&mut self, plan: Option<&Plan>) {
        if let Some(plan) = plan {
            self.plan_is(plan);
        }
        if self.executions.end() {
            self.made_progress();
        }
    }

    /// The plan as it is now, during an execution or at its end.
    pub(super) fn plan_is(&mut self, plan: &Plan) {
        match self.executions.further(plan) {
            PlanProgress::None => return,
            PlanProgress::Further => {}
            PlanProgress::FewerOpen => self.stagnation.proven(),
        }
        self.learned();
    }

    /// What the agent's permissions do not grant was allowed.
    pub(super) fn approved(&mut self) {
        self.stagnation.proven_cheaply();
    }

    /// rawko ran the checks between two executions: their results belong to neither.
    pub(super) fn checked(&mut self, verification: &Verification) {
        for run in &verification.runs {
            let progress = self.progress.judge_check(run);
            self.stagnation.record(progress);
        }
    }

    /// The user takes the run up again that was stopped: the counts begin anew. Texts and results that were seen stay
    /// known.
    pub(super) fn taken_up(&mut self) {
        let (progress, mut executions) =
            (std::mem::take(&mut self.progress), std::mem::take(&mut self.executions));
        executions.made_progress();
        *self = Self { progress, executions, ..Self::default() };
    }

    fn made_progress(&mut self) {
        self.executions.made_progress();
        self.switches.clear();
    }

    /// Counts a failed verification of a task that was reported as done.
    pub(super) fn verification_failed(&mut self, verification: &Verification) -> Alarm {
        let tree = verification.tree.as_deref().unwrap_or_default();
        let mut parts = vec!["verification".to_owned(), tree.to_owned()];
        for run in &verification.runs {
            parts.extend([run.command.clone(), format!("{:?}", run.exit_code), without_figures(&run.output)]);
        }
        let times = self.failed.entry(print(&parts)).or_default();
        *times += 1;
        let times = *times;
        self.judge(
            times,
            VERIFICATIONS,
            "COMPLETE while the verification fails alike on the same tree".to_owned(),
        )
    }

    /// Counts a COMPLETE that the record contradicts.
    pub(super) fn completion_refused(&mut self, objection: &str, tree: &str) -> Alarm {
        let times = self.failed.entry(print(&["record", tree, &without_figures(objection)])).or_default();
        *times += 1;
        let times = *times;
        self.judge(times, VERIFICATIONS, "COMPLETE while the record stands against it".to_owned())
    }

    /// The worst that was noticed since the last progress, for the arbiter.
    pub(super) fn noticed(&self) -> Option<Repetition> {
        let is_worse = |noticed: &Repetition| noticed.times >= noticed.change_at;
        // Before the checks run, a clock is a remark to the agent and no circle.
        let clock = self.stagnation.noticed().filter(|clock| clock.times >= clock.change_at);
        match (&self.noticed, clock) {
            (Some(noticed), _) if is_worse(noticed) => Some(noticed.clone()),
            (Some(noticed), None) => Some(noticed.clone()),
            (_, clock) => clock,
        }
    }

    /// What there is to say of the model calls without progress.
    pub(super) fn impatience(&self) -> Option<Repetition> {
        self.stagnation.noticed()
    }

    /// The alarm that the model calls without progress raise.
    pub(super) fn patience(&mut self) -> Alarm {
        self.stagnation.raise()
    }

    /// Another agent must work, or the run must stop, until [`Self::begin`].
    pub(super) fn raise(&mut self, alarm: Alarm) {
        self.pending = self.pending.max(alarm);
    }

    /// What must follow from the alarms so far.
    pub(super) fn pending_alarm(&self) -> Alarm {
        self.pending
    }

    /// `to` begins to work after `from`. Returns whether the run must stop instead.
    pub(super) fn begin(&mut self, from: &str, to: &str) -> bool {
        let alarm = self.switched(from, to);
        let stops = self.pending.max(alarm) == Alarm::Stop || self.stagnation.is_over();
        self.pending = if self.pending == Alarm::Stop { Alarm::Stop } else { Alarm::Calm };
        stops
    }

    /// Records the progress of a call or a check.
    fn record(&mut self, progress: ProgressLevel) {
        self.executions.record(progress);
        self.stagnation.record(progress);
        if progress > ProgressLevel::None {
            self.learned();
        }
    }

    /// Forgets the repeated calls: something new is known.
    fn learned(&mut self) {
        self.calls.clear();
        self.noticed = None;
    }

    fn judge(&mut self, times: u32, bounds: RepetitionLimits, what: String) -> Alarm {
        let alarm = bounds.alarm(times);
        if alarm > Alarm::Calm {
            self.noticed = Some(Repetition { what, times, change_at: bounds.change, stop_at: bounds.stop });
        }
        alarm
    }
}

fn count(counts: &mut BTreeMap<TextDigest, u32>, print: TextDigest) -> u32 {
    let times = counts.entry(print).or_default();
    *times += 1;
    *times
}

impl RepetitionLimits {
    pub(super) fn alarm(self, times: u32) -> Alarm {
        match times {
            times if times >= self.stop => Alarm::Stop,
            times if times >= self.change => Alarm::Change,
            times if times >= self.nudge => Alarm::Nudge,
            _ => Alarm::Calm,
        }
    }
}

fn switch(from: &str, to: &str) -> TextDigest {
    print(&["switch", from, to])
}

fn switch_words(from: &str, to: &str) -> String {
    match from {
        "" => format!("{to} begins, and neither the tree nor the plan changes"),
        from if from == to => format!("{to} works again, and neither the tree nor the plan changes"),
        from => format!("{from} hands over to {to}, and neither the tree nor the plan changes"),
    }
}

fn no_progress_words() -> String {
    "an execution that changes neither the tree nor the plan".to_owned()
}

/// The fingerprint of a list of texts. Lengths are included, so that no text can imitate the border between two.
pub(super) fn print(parts: impl IntoIterator<Item: AsRef<str>>) -> TextDigest {
    let mut hash = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let mut print = TextDigest::default();
    print.copy_from_slice(&hash.finalize()[..16]);
    print
}

/// Without numbers: times, durations, process ids and counters differ where nothing else does.
pub(super) fn without_figures(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    // Digits are no part of another character. Long texts come here at every turn.
    while let Some(at) = rest.bytes().position(|byte| byte.is_ascii_digit()) {
        let (before, figure) = rest.split_at(at);
        plain.push_str(before);
        plain.push('#');
        rest = figure.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | ':'));
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{PlanStep, StepStatus};
    use serde_json::json;

    /// One step of a run: `r` reads, `w` writes, `b` runs a command (each with its argument), `p` plans.
    fn play(detector: &mut LoopDetector, step: &str) -> Alarm {
        let (kind, argument) = step.split_at(1);
        let call = |name: &str| ToolCall {
            id: "c".into(),
            name: name.into(),
            input: json!({ "command": argument }),
            invalid_input: None,
            withheld: None,
        };
        match kind {
            "r" => detector.call(&call("Read"), ToolAccess::ReadOnly, &ToolOutcome::ok("text")),
            "w" => detector.call(&call("Write"), ToolAccess::Mutating, &ToolOutcome::ok("written")),
            "b" => {
                let outcome =
                    ToolOutcome { exit_code: Some(1), is_error: true, ..ToolOutcome::ok("took 0.31 s") };
                detector.call(&call("Bash"), ToolAccess::Mutating, &outcome)
            }
            "d" => detector.refused(&call("Bash"), &ToolOutcome::ok("denied")),
            "s" => {
                let (from, to) = argument.split_once('>').unwrap();
                detector.switched(from, to)
            }
            "e" => {
                detector.execution_ended(None);
                Alarm::Calm
            }
            "p" => {
                let step = PlanStep {
                    index: 1,
                    description: argument.into(),
                    status: StepStatus::Pending,
                    agent_used: None,
                };
                detector.execution_ended(Some(&Plan { steps: vec![step], ..Plan::default() }));
                Alarm::Calm
            }
            other => panic!("{other}"),
        }
    }

    /// The alarms of the steps, repeated for 40 rounds.
    #[track_caller]
    fn check(round: &[&str], expected: &[(usize, Alarm)]) {
        let mut detector = LoopDetector::default();
        let mut first = Vec::new();
        for number in 1..=40 {
            let worst = round.iter().map(|step| play(&mut detector, step)).max().unwrap();
            if first.last().map_or(Alarm::Calm, |(_, alarm)| *alarm) < worst {
                first.push((number, worst));
            }
        }
        assert_eq!(first, expected, "{round:?}");
    }

    #[test]
    fn a_repetition_warns_then_switches_the_agent_then_stops() {
        use Alarm::{Change, Nudge, Stop};
        check(&["ra"], &[(3, Nudge), (6, Change), (9, Stop)]);
        check(&["bx"], &[(3, Nudge), (6, Change), (9, Stop)]);
        check(&["dx"], &[(3, Nudge), (6, Change), (9, Stop)]);
        // Doing and undoing, in any number of calls.
        check(&["wa", "wb"], &[(3, Nudge), (6, Change), (9, Stop)]);
        check(&["sa>a", "e"], &[(3, Nudge), (5, Change), (7, Stop)]);
        // Two agents that hand over to each other: what they do not change counts.
        check(&["sa>b", "e", "sb>a", "e"], &[(2, Nudge), (3, Change), (5, Stop)]);
        // Making the same plan again is not progress; nor is going back and forth between two.
        check(&["sa>a", "pone"], &[(4, Nudge), (6, Change), (8, Stop)]);
        check(&["sa>a", "pone", "sa>a", "ptwo"], &[(2, Nudge), (3, Change), (4, Stop)]);
    }

    /// A tree that was there before takes back what the calls seemed to bring.
    #[test]
    fn an_execution_counts_by_the_tree_that_it_leaves() {
        let stat = crate::facts::DiffStat { files: 1, ..Default::default() };
        let inspection = |tree: &str| TreeInspection {
            tree: tree.into(),
            execution: stat.clone(),
            run: stat.clone(),
            ..TreeInspection::default()
        };
        let mut detector = LoopDetector::default();
        for (step, tree, without_progress) in [
            ("wfirst", "a", 0),
            ("wsecond", "b", 0),
            ("wthird", "a", 1),
            ("rfile", "b", 2),
            ("rother", "c", 3),
            ("wfourth", "d", 0),
            ("btouch", "e", 0),
        ] {
            play(&mut detector, step);
            detector.tree_is(&inspection(tree));
            detector.execution_ended(None);
            assert_eq!(detector.executions.without_progress(), without_progress, "{step}");
        }
    }

    #[test]
    fn a_plan_counts_by_what_is_settled() {
        use StepStatus::{Complete, Pending};
        let plan = |words: &str, settled: &[StepStatus]| {
            let steps = settled.iter().enumerate().map(|(index, status)| PlanStep {
                index,
                description: format!("{words} {index}"),
                status: *status,
                agent_used: None,
            });
            Plan { steps: steps.collect(), ..Plan::default() }
        };
        let mut detector = LoopDetector::default();
        for (worked, plan, without_progress) in [
            (false, plan("first", &[Pending, Pending]), 0),
            (false, plan("other words", &[Pending, Pending]), 1),
            (false, plan("other words", &[Complete, Pending]), 2),
            (true, plan("other words", &[Complete, Pending]), 3),
            (true, plan("other words", &[Complete, Complete]), 0),
            (true, plan("again", &[Complete, Pending]), 1),
        ] {
            if worked {
                detector.record(ProgressLevel::NewOutput);
            }
            detector.execution_ended(Some(&plan));
            assert_eq!(detector.executions.without_progress(), without_progress, "{plan:?}");
        }
    }

    /// A word for a number, because figures make no new text.
    fn word(number: u32) -> String {
        number.to_string().chars().map(|c| char::from(b'a' + (c as u8 - b'0'))).collect()
    }

    #[test]
    fn the_fifth_same_failure_after_other_changes_is_said_once() {
        let mut detector = LoopDetector::default();
        let mut said = Vec::new();
        for number in 0..70_u32 {
            assert_eq!(play(&mut detector, &format!("wtry {} now", word(number))), Alarm::Calm);
            assert_eq!(play(&mut detector, "bmake test"), Alarm::Calm);
            said.extend(detector.failed_alike().map(|times| (number + 1, times)));
        }
        assert_eq!(said, [(5, 5)]);
    }

    #[test]
    fn progress_sets_the_counts_back() {
        let mut detector = LoopDetector::default();
        for number in 0..100_u32 {
            for step in ["btest", "ra", "btest", "sa>b", "e"] {
                assert_eq!(play(&mut detector, step), Alarm::Calm, "{number}: {step}");
            }
            play(&mut detector, &format!("w{}", word(number)));
        }
        assert_eq!(detector.noticed(), None);
    }

    #[test]
    fn a_repetition_is_reported_until_there_is_progress() {
        let mut detector = LoopDetector::default();
        for _ in 0..4 {
            play(&mut detector, "ra");
        }
        let noticed = detector.noticed().unwrap();
        assert_eq!((noticed.times, noticed.change_at, noticed.stop_at), (4, 6, 9));
        assert!(noticed.what.contains("Read"), "{noticed:?}");
        play(&mut detector, "wnew");
        assert_eq!(detector.noticed(), None);
    }

    #[test]
    fn a_verification_that_fails_alike_on_the_same_tree_is_a_circle_whatever_else_is_done() {
        let verification = |tree: &str, output: &str| Verification {
            runs: vec![crate::facts::CommandRun {
                command: "cargo test".into(),
                exit_code: Some(101),
                output: output.into(),
                duration_ms: 1,
                ..crate::facts::CommandRun::default()
            }],
            tree: Some(tree.into()),
            ..Verification::default()
        };
        let mut detector = LoopDetector::default();
        let mut alarms = Vec::new();
        for number in 0..5 {
            play(&mut detector, &format!("b{number}"));
            alarms.push(detector.verification_failed(&verification("t", &format!("failed in 0.{number} s"))));
        }
        use Alarm::{Calm, Change, Nudge, Stop};
        assert_eq!(alarms, [Calm, Nudge, Change, Change, Stop]);
        assert_eq!(detector.verification_failed(&verification("u", "failed")), Calm);
    }

    #[test]
    fn figures_do_not_matter() {
        assert_eq!(without_figures("3 passed in 0.12s at 10:22:01."), "# passed in #s at #");
        assert_eq!(without_figures("no figures: none."), "no figures: none.");
    }
}
