//! The exported config behaves in XState as the machine behaves here: `node` loads it with the real `xstate`,
//! walks every recorded trace and several hundred random runs, and compares state, context and effects.
//!
//! Needs Node.js 20 or newer, and once npm and the network. Without them the test is skipped and says so; with
//! `RAWKO_NO_SKIP`, which `.ci/run` sets, it fails.

#![allow(clippy::expect_used, clippy::panic)]

mod machine_support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use machine_support::{draw, limits, run};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use rawko_core::Timestamp;
use rawko_core::machine::{Limits, Machine, MachineEvent, SimulatedStep, Step, export};
use serde_json::{Value, json};

const TRACES: &str = include_str!("fixtures/machine_traces.jsonl");
const BINDINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings/xstate");
const RANDOM_RUNS: usize = 400;

#[test]
fn xstate_follows_traces_and_random_runs() {
    let config: Value = serde_json::from_str(&export::xstate().expect("the config")).expect("JSON");
    let mut cases = recorded_cases();
    cases.extend(corner_cases());
    cases.extend(random_cases());
    let count = cases.len();

    let Some(installed) = install_xstate() else { return };
    let walk = tempfile::tempdir_in(&installed).expect("a directory beside node_modules");
    copy(Path::new(BINDINGS), "rawko-machine.mjs", walk.path());
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/xstate"), "walk.mjs", walk.path());
    let input = walk.path().join("cases.json");
    fs::write(&input, json!({"config": config, "cases": cases}).to_string()).expect("the cases");

    let output = call(Command::new("node").arg("walk.mjs").arg(&input).current_dir(walk.path()));
    let report: Value = serde_json::from_str(&output).expect("a report");
    assert_eq!(report["cases"], count);
    assert!(report["events"].as_u64().expect("a number") > 5_000, "the random runs are short: {report}");
}

/// The expected state of XState after one event. The context covers what the printed step leaves out.
fn expected(machine: &Machine, step: &Step) -> Value {
    let shown = SimulatedStep::new(machine, step.clone());
    let mut fields = serde_json::to_value(shown).expect("a step");
    fields["status"] = json!(if machine.state().is_final() { "done" } else { "active" });
    fields["context"] = serde_json::to_value(machine.context()).expect("a context");
    fields
}

fn at(now: Timestamp, event: &MachineEvent) -> Value {
    let mut event = serde_json::to_value(event).expect("an event");
    event["at"] = json!(now);
    event
}

/// The traces, compared with both the recorded states and the machine.
fn recorded_cases() -> Vec<Value> {
    TRACES.lines().enumerate().map(|(number, line)| recorded_case(number, line)).collect()
}

fn recorded_case(number: usize, line: &str) -> Value {
    let trace: Value = serde_json::from_str(line).expect("a trace");
    let limits: Limits = serde_json::from_value(trace.clone()).expect("limits");
    let mut machine = Machine::new(limits.clone());
    let events = trace["events"].as_array().expect("events");
    let recorded = trace["expected"].as_array().expect("expectations");
    assert_eq!(events.len(), recorded.len());
    let steps: Vec<Value> = events
        .iter()
        .zip(recorded)
        .map(|(event, recorded)| {
            let event: MachineEvent = serde_json::from_value(event.clone()).expect("an event");
            let step = machine.apply(Timestamp(0), &event);
            let mut expected = expected(&machine, &step);
            for (field, value) in recorded.as_object().expect("an object") {
                expected[field] = value.clone();
            }
            json!({"event": at(Timestamp(0), &event), "expected": expected})
        })
        .collect();
    json!({"name": format!("trace {number}"), "limits": limits, "steps": steps})
}

/// What random runs seldom reach: the cap of the backoff, a skipped step with a pending one before it, and a skipped
/// last step.
fn corner_cases() -> Vec<Value> {
    let start = json!({"type": "START_TASK", "task": "t"});
    let error = json!({"code": "overloaded", "message": "m"});
    let failed = json!({"type": "AGENT_SELECTION_FAILED", "error": error});
    let failing = std::iter::once(start.clone()).chain(std::iter::repeat_n(failed, 9)).collect();
    let skipping = |statuses: &[&str]| {
        let step = |status: &&str| json!({"index": 1, "description": "d", "status": status});
        let steps: Vec<Value> = statuses.iter().map(step).collect();
        let plan = json!({"steps": steps, "currentStepIndex": 1});
        let decision = json!({"type": "SELECT_MODE", "mode": "a", "reason": "r"});
        let skip = json!({"type": "SKIP_STEP"});
        vec![
            start.clone(),
            json!({"type": "AGENT_SELECTED", "decision": decision}),
            json!({"type": "AGENT_COMPLETE", "result": {"success": true, "output": "o", "planUpdates": plan}}),
            skip.clone(),
            skip,
        ]
    };
    vec![
        case("nine failures", failing),
        case("a pending step before", skipping(&["pending", "pending", "in_progress", "failed", "pending"])),
        case("the last step", skipping(&["complete", "pending"])),
    ]
}

fn case(name: &str, events: Vec<Value>) -> Value {
    let limits = Limits { agents: vec!["a".to_owned()], max_iterations: 9, max_consecutive_failures: 9 };
    let mut machine = Machine::new(limits.clone());
    let steps: Vec<Value> = events
        .into_iter()
        .map(|event| {
            let event: MachineEvent = serde_json::from_value(event).expect("an event");
            let step = machine.apply(Timestamp(5), &event);
            json!({"event": at(Timestamp(5), &event), "expected": expected(&machine, &step)})
        })
        .collect();
    json!({"name": name, "limits": limits, "steps": steps})
}

/// The same runs every time, so that a failure can be reproduced.
fn random_cases() -> Vec<Value> {
    let mut runner = TestRunner::deterministic();
    let strategy = (limits(), proptest::collection::vec(draw(), 10..40));
    let mut case = |number: usize| {
        let (limits, draws) = strategy.new_tree(&mut runner).expect("a run").current();
        let mut steps = Vec::new();
        run(&limits, &draws, |_, now, event, machine, step| {
            steps.push(json!({"event": at(now, event), "expected": expected(machine, step)}));
        });
        json!({"name": format!("random run {number}"), "limits": limits, "steps": steps})
    };
    (0..RANDOM_RUNS).map(&mut case).collect()
}

/// The directory that has the pinned `xstate` in its `node_modules`; installed on first use. Installing goes to a
/// directory of its own that is then renamed: of several tests at once one wins, and none sees half of it.
/// `None`, with a message, where that is not possible on this machine.
fn install_xstate() -> Option<PathBuf> {
    let package = fs::read_to_string(Path::new(BINDINGS).join("package.json")).expect("package.json");
    let package: Value = serde_json::from_str(&package).expect("package.json is JSON");
    let version = package["dependencies"]["xstate"].as_str().expect("xstate is pinned");
    assert!(
        version.starts_with("5.") && version.bytes().all(|b| b == b'.' || b.is_ascii_digit()),
        "{version}"
    );

    if let Err(error) = Command::new("node").arg("--version").output() {
        return skip(&format!("node cannot be run: {error}"));
    }
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let installed = cache.join(format!("xstate-{version}"));
    if !installed.join("node_modules/xstate/package.json").exists() {
        let fresh = tempfile::tempdir_in(cache).expect("a directory for npm");
        fs::write(fresh.path().join("package.json"), r#"{"private":true}"#).expect("package.json");
        let spec = format!("xstate@{version}");
        let flags = ["--no-audit", "--no-fund", "--no-save", "--no-package-lock", "--ignore-scripts"];
        let mut npm = Command::new("npm");
        match npm.arg("install").args(flags).arg(spec).current_dir(fresh.path()).output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                let printed = String::from_utf8_lossy(&output.stderr);
                return skip(&format!("npm cannot install xstate: {printed}"));
            }
            Err(error) => return skip(&format!("npm cannot be run: {error}")),
        }
        let fresh = fresh.keep();
        if let Err(error) = fs::rename(&fresh, &installed) {
            // Another test was faster; anything else leaves nothing installed.
            fs::remove_dir_all(&fresh).expect("to clear up");
            assert!(
                installed.join("node_modules/xstate").exists(),
                "cannot rename to {installed:?}: {error}"
            );
        }
    }
    Some(installed)
}

#[track_caller]
fn skip<T>(reason: &str) -> Option<T> {
    assert!(std::env::var_os("RAWKO_NO_SKIP").is_none(), "skipped, which RAWKO_NO_SKIP forbids: {reason}");
    eprintln!("SKIPPED, nothing was checked: {reason}");
    None
}

fn copy(from: &Path, name: &str, to: &Path) {
    fs::copy(from.join(name), to.join(name)).unwrap_or_else(|error| panic!("{name} in {from:?}: {error}"));
}

/// The command's output; panics with it if the command cannot be run or fails.
fn call(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} failed:\n{stderr}\n{stdout}");
    stdout.into_owned()
}
