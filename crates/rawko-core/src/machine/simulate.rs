//! The simulator: events as lines of JSON in, one line of JSON out for each (`docs/cli.md#machine-simulate`).
//!
//! Line by line and pure: the command reads files and prints. A line's `at` field sets the time; without one, time
//! stands still.

use serde::Serialize;
use serde_json::Value;

use super::effect::MachineEffect;
use super::event::{Decision, MachineEvent};
use super::kind::EventKind;
use super::state::{Limits, State};
use super::step::{Machine, Step};
use crate::text;
use crate::time::Timestamp;

/// Longest part of an offending line that an error repeats, in characters.
const QUOTED: usize = 60;

/// Most single-character edits between a misspelled name and the event suggested for it.
const TYPO: usize = 4;

/// A machine that reads its events from text.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulator {
    machine: Machine,
    now: Timestamp,
    line: usize,
}

/// The machine after one event, as it is printed. The order of the fields is part of the format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedStep {
    /// The state.
    pub state: State,
    /// Whether no row of the table applied.
    pub ignored: bool,
    /// The current agent, or the last one; empty before the first.
    pub current_mode: String,
    /// Entries into `executing`.
    pub iteration_count: u32,
    /// Failures since the last success.
    pub consecutive_failures: u32,
    /// Failures in all.
    pub total_failures: u32,
    /// Number of history entries.
    pub history_length: usize,
    /// The plan's `currentStepIndex`.
    pub plan_step: Option<usize>,
    /// The `type` of the last decision.
    pub last_decision: Option<&'static str>,
    /// The effects that the machine asks for.
    pub effects: Vec<MachineEffect>,
}

impl SimulatedStep {
    /// The state of `machine` after `step`.
    #[must_use]
    pub fn new(machine: &Machine, step: Step) -> Self {
        let context = machine.context();
        Self {
            state: machine.state(),
            ignored: step.ignored,
            current_mode: context.current_mode.clone(),
            iteration_count: context.iteration_count,
            consecutive_failures: context.consecutive_failures,
            total_failures: context.total_failures,
            history_length: context.history.len(),
            plan_step: context.plan.as_ref().map(|plan| plan.current_step_index),
            last_decision: context.last_decision.as_ref().map(Decision::kind),
            effects: step.effects,
        }
    }

    /// As one line of JSON, without the line break.
    ///
    /// # Errors
    /// Does not occur: every part has a JSON form.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

impl std::fmt::Display for SimulatedStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_line().map_err(|_| std::fmt::Error)?)
    }
}

/// Why a line is not an event.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// Not JSON at all.
    #[error("line {line} is not JSON: {source}; it reads {quoted:?}. Write one event a line, e.g. {example}")]
    NotJson {
        /// The line's number, from 1.
        line: usize,
        /// The beginning of the line.
        quoted: String,
        /// An example of a correct line.
        example: &'static str,
        /// The parser's error.
        source: serde_json::Error,
    },
    /// JSON, but no object with a `type`.
    #[error("line {line} is no event: {problem}. Write an object with a `type`, e.g. {example}")]
    NoType {
        /// The line's number, from 1.
        line: usize,
        /// What is wrong with it, as a clause.
        problem: &'static str,
        /// An example of a correct line.
        example: &'static str,
    },
    /// The `type` of no event.
    #[error("line {line}: no event is called {found:?}{}. The events are: {}", suggestion(*.nearest), known())]
    UnknownEvent {
        /// The line's number, from 1.
        line: usize,
        /// The name in the line, bounded.
        found: String,
        /// The event with the most similar name, if one is close.
        nearest: Option<EventKind>,
    },
    /// An `at` that is not a time.
    #[error("line {line}: `at` must be milliseconds since 1970 as a whole number, not {found}")]
    BadTime {
        /// The line's number, from 1.
        line: usize,
        /// The value in the line, bounded.
        found: String,
    },
    /// An event with a missing or malformed field.
    #[error("line {line}: this {kind} cannot be read: {source}. One that can: {}", .kind.example())]
    BadEvent {
        /// The line's number, from 1.
        line: usize,
        /// The event's kind.
        kind: EventKind,
        /// The parser's error.
        source: serde_json::Error,
    },
}

impl Default for Simulator {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Simulator {
    /// A simulator that waits for a task, at time 0. [`Limits::default`] is what the command uses without options.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { machine: Machine::new(limits), now: Timestamp(0), line: 0 }
    }

    /// The machine in its current state.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Applies one line. `Ok(None)` for a blank one.
    ///
    /// # Errors
    /// The line is not an event. The machine is unchanged, and the next line may follow.
    pub fn line(&mut self, text: &str) -> Result<Option<SimulatedStep>, SimulateError> {
        self.line += 1;
        // Some editors put a byte order mark before the first line; JSON does not allow one.
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() {
            return Ok(None);
        }
        let (at, event) = read(self.line, text)?;
        self.now = at.unwrap_or(self.now);
        Ok(Some(self.event(&event)))
    }

    /// Applies one event, at the time of the last line.
    pub fn event(&mut self, event: &MachineEvent) -> SimulatedStep {
        let step = self.machine.apply(self.now, event);
        SimulatedStep::new(&self.machine, step)
    }
}

fn read(line: usize, text: &str) -> Result<(Option<Timestamp>, MachineEvent), SimulateError> {
    let example = EventKind::StartTask.example();
    let value: Value = serde_json::from_str(text).map_err(|source| SimulateError::NotJson {
        line,
        quoted: text::truncate(text, QUOTED),
        example,
        source,
    })?;
    let no_type = |problem| SimulateError::NoType { line, problem, example };
    let object = value.as_object().ok_or_else(|| no_type("it is not an object"))?;
    let name = object.get("type").ok_or_else(|| no_type("it has no `type`"))?;
    let name = name.as_str().ok_or_else(|| no_type("its `type` is not a string"))?;
    let kind = EventKind::from_name(name).ok_or_else(|| SimulateError::UnknownEvent {
        line,
        found: text::truncate(name, QUOTED),
        nearest: nearest(name),
    })?;
    let at = match object.get("at") {
        None | Some(Value::Null) => None,
        Some(at) => {
            let bad = || SimulateError::BadTime { line, found: text::truncate(&at.to_string(), QUOTED) };
            Some(Timestamp(at.as_u64().ok_or_else(bad)?))
        }
    };
    let event =
        serde_json::from_value(value).map_err(|source| SimulateError::BadEvent { line, kind, source })?;
    Ok((at, event))
}

/// The event with the most similar name, if one is close enough to be meant.
fn nearest(name: &str) -> Option<EventKind> {
    let name = text::truncate(name, QUOTED).to_uppercase().replace(['-', ' ', '.'], "_");
    let distance = |kind: &EventKind| strsim::damerau_levenshtein(&name, kind.as_str());
    EventKind::ALL.into_iter().min_by_key(distance).filter(|kind| distance(kind) <= TYPO.min(name.len() / 2))
}

fn suggestion(nearest: Option<EventKind>) -> String {
    nearest.map(|kind| format!(" (did you mean {kind}?)")).unwrap_or_default()
}

fn known() -> String {
    EventKind::ALL.map(EventKind::as_str).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let mut simulator = Simulator::default();
        let before = simulator.machine().clone();
        let error = simulator.line(line).expect_err("should be refused");
        assert_eq!(error.to_string().replace(&known(), "(all)"), expected);
        assert_eq!(*simulator.machine(), before);
    }

    #[test]
    fn a_step_is_printed_in_the_documented_order() {
        let mut simulator = Simulator::default();
        let step = simulator.line(EventKind::StartTask.example()).unwrap().unwrap();
        assert_eq!(
            step.to_string(),
            r#"{"state":"selecting","ignored":false,"currentMode":"","iterationCount":0,"consecutiveFailures":0,"totalFailures":0,"historyLength":0,"planStep":null,"lastDecision":null,"effects":[{"type":"selectAgent","afterMs":0}]}"#
        );
        let step = simulator.line(EventKind::AgentSelected.example()).unwrap().unwrap();
        assert_eq!(
            step.to_string(),
            r#"{"state":"executing","ignored":false,"currentMode":"planner","iterationCount":1,"consecutiveFailures":0,"totalFailures":0,"historyLength":0,"planStep":null,"lastDecision":"SELECT_MODE","effects":[{"type":"executeAgent","agent":"planner","conversation":"new"}]}"#
        );
    }

    #[test]
    fn blank_lines_and_marks_are_passed_over() {
        let mut simulator = Simulator::default();
        for blank in ["", "  ", "\r\n", "\u{feff}"] {
            assert_eq!(simulator.line(blank).unwrap(), None);
        }
        let step = simulator.line("\u{feff}{\"type\":\"CANCEL\"}\r\n").unwrap().unwrap();
        assert!(step.ignored);
    }

    #[test]
    fn time_is_what_the_lines_say() {
        let mut simulator = Simulator::default();
        let mut feed = |line: &str| simulator.line(line).unwrap().unwrap();
        feed(r#"{"type":"START_TASK","task":"t","at":1000}"#);
        feed(
            r#"{"type":"AGENT_SELECTED","at":2500,"decision":{"type":"SELECT_MODE","mode":"tester","reason":"r"}}"#,
        );
        feed(r#"{"type":"AGENT_MESSAGE","message":null,"at":null}"#);
        feed(r#"{"type":"AGENT_COMPLETE","result":{"success":true,"output":"o"},"at":4000}"#);
        let context = simulator.machine().context();
        assert_eq!(context.started_at, Some(Timestamp(1000)));
        assert_eq!(context.history[0].started_at, Timestamp(2500));
        assert_eq!(context.history[0].completed_at, Timestamp(4000));
    }

    #[test]
    fn a_bad_line_is_explained() {
        check(
            "START",
            "line 1 is not JSON: expected value at line 1 column 1; it reads \"START\". Write one event a line, e.g. {\"type\":\"START_TASK\",\"task\":\"add a test\"}",
        );
        check(
            "[]",
            "line 1 is no event: it is not an object. Write an object with a `type`, e.g. {\"type\":\"START_TASK\",\"task\":\"add a test\"}",
        );
        check(
            "{}",
            "line 1 is no event: it has no `type`. Write an object with a `type`, e.g. {\"type\":\"START_TASK\",\"task\":\"add a test\"}",
        );
        check(
            r#"{"type":7}"#,
            "line 1 is no event: its `type` is not a string. Write an object with a `type`, e.g. {\"type\":\"START_TASK\",\"task\":\"add a test\"}",
        );
        check(
            r#"{"type":"start-tsak"}"#,
            "line 1: no event is called \"start-tsak\" (did you mean START_TASK?). The events are: (all)",
        );
        check(r#"{"type":"BOOM"}"#, "line 1: no event is called \"BOOM\". The events are: (all)");
        check(
            r#"{"type":"RESET","at":-1}"#,
            "line 1: `at` must be milliseconds since 1970 as a whole number, not -1",
        );
        check(
            r#"{"type":"FORCE_AGENT"}"#,
            "line 1: this FORCE_AGENT cannot be read: missing field `agentName`. One that can: {\"type\":\"FORCE_AGENT\",\"agentName\":\"tester\"}",
        );
        check(
            r#"{"type":"AGENT_SELECTED","decision":{"type":"DANCE"}}"#,
            "line 1: this AGENT_SELECTED cannot be read: unknown variant `DANCE`, expected one of `SELECT_MODE`, `CONTINUE`, `COMPLETE`, `RETRY`, `BLOCKED`. One that can: {\"type\":\"AGENT_SELECTED\",\"decision\":{\"type\":\"SELECT_MODE\",\"mode\":\"planner\",\"reason\":\"no plan yet\"}}",
        );
    }

    #[test]
    fn lines_are_counted_with_the_blank_and_the_bad_ones() {
        let mut simulator = Simulator::default();
        assert!(simulator.line("").is_ok());
        assert!(simulator.line("x").is_err());
        assert!(simulator.line("{}").unwrap_err().to_string().starts_with("line 3 "));
    }

    /// An event's line with one character replaced, or anything at all.
    fn garbage() -> impl Strategy<Value = String> {
        let spoilt =
            (prop::sample::select(EventKind::ALL.to_vec()), any::<prop::sample::Index>(), any::<char>())
                .prop_map(|(kind, at, other)| {
                    let at = at.index(kind.example().chars().count());
                    let replace = |(i, old): (usize, char)| if i == at { other } else { old };
                    kind.example().chars().enumerate().map(replace).collect()
                });
        prop_oneof![spoilt, "\\PC{0,40}", r#"\{"type":"[A-Z_]{0,12}"(,"at":-?[0-9]{1,25})?\}"#]
    }

    proptest! {
        #[test]
        fn no_line_panics_and_a_refused_one_changes_nothing(line in garbage()) {
            let mut simulator = Simulator::default();
            let before = simulator.machine().clone();
            match simulator.line(&line) {
                Ok(Some(step)) => prop_assert_eq!(step.ignored, *simulator.machine() == before),
                Ok(None) => {
                    let is_blank = line.chars().all(|c| c.is_whitespace() || c == '\u{feff}');
                    prop_assert!(is_blank);
                }
                Err(error) => {
                    prop_assert!(error.to_string().starts_with("line 1"));
                    prop_assert_eq!(simulator.machine(), &before);
                }
            }
        }
    }
}
