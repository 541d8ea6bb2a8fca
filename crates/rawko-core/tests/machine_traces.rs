//! The recorded traces: the state expected after each event, as an XState machine written from
//! `docs/machine.md` gave it.

#![allow(clippy::expect_used)]

use rawko_core::machine::{Limits, MachineEvent, Simulator};
use serde::Deserialize;
use serde_json::{Map, Value};

const TRACES: &str = include_str!("fixtures/machine_traces.jsonl");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Trace {
    agents: Vec<String>,
    max_iterations: u32,
    max_consecutive_failures: u32,
    events: Vec<Value>,
    expected: Vec<Map<String, Value>>,
}

impl Trace {
    fn limits(&self) -> Limits {
        Limits {
            agents: self.agents.clone(),
            max_iterations: self.max_iterations,
            max_consecutive_failures: self.max_consecutive_failures,
        }
    }
}

/// After each event, every field that the trace names must have its value.
fn check(number: usize, trace: &Trace) {
    assert_eq!(trace.events.len(), trace.expected.len(), "trace {number} is incomplete");
    let mut simulator = Simulator::new(trace.limits());
    for (index, (event, expected)) in trace.events.iter().zip(&trace.expected).enumerate() {
        let place = format!("trace {number}, event {index}: {event}");
        let step = simulator.line(&event.to_string()).expect(&place).expect(&place);
        let step: Value = serde_json::from_str(&step.to_string()).expect(&place);
        for (field, value) in expected {
            assert_eq!(step.get(field), Some(value), "{field} after {place}");
        }
    }
}

#[test]
fn every_trace_is_followed() {
    let traces: Vec<Trace> = TRACES.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(traces.len(), 60);
    for (number, trace) in traces.iter().enumerate() {
        check(number, trace);
    }
}

/// The machine reads what it writes: a trace's events survive a round trip through JSON.
#[test]
fn every_event_of_the_traces_survives_serialisation() {
    for line in TRACES.lines() {
        let trace: Trace = serde_json::from_str(line).unwrap();
        for event in trace.events {
            let parsed: MachineEvent = serde_json::from_value(event.clone()).unwrap();
            let again: MachineEvent = serde_json::from_str(&serde_json::to_string(&parsed).unwrap()).unwrap();
            assert_eq!(again, parsed, "{event}");
        }
    }
}
