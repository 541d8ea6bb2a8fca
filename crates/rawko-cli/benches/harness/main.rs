//! What rawko itself costs: the release binary against a model server that answers at once, turn by turn.
//!
//! `cargo bench -p rawko-cli` prints tables; `-- --json` prints the figures, `-- --turns N` changes the length of the
//! run, `-- --only start|read|bash|sandbox|micro` leaves the others out. Beside every figure is a floor: a minimal
//! client that sends the same bytes over the same kind of connection, with and without appending as much to a file as
//! durably. `docs/performance.md` says what was seen. Linux only: the figures come from `/proc`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod answers;
mod floor;
mod micro;
mod process;
mod report;
mod sandbox;
mod server;
mod trial;

use crate::report::Report;
use crate::trial::Mode;

/// What is measured, from the command line.
struct Plan {
    turns: usize,
    starts: usize,
    only: Option<String>,
    json: bool,
}

fn main() {
    // In the measurements of the sandbox this program is its helper.
    rawko::tools::run_helper_if_asked();
    let plan = plan();
    let wants = |name: &str| plan.only.as_deref().is_none_or(|only| only == name);
    let mut report = Report::new();
    if wants("start") {
        report.starts = (0..plan.starts).map(|_| trial::start()).collect();
    }
    for mode in [Mode::Read, Mode::Bash] {
        if wants(mode.name()) {
            report.runs.push(trial::run(mode, plan.turns));
        }
    }
    if wants("sandbox") {
        report.sandbox = Some(sandbox::measure(plan.turns));
    }
    if wants("micro") {
        report.lengths = [100, 10_000].map(micro::measure).into();
    }
    if plan.json {
        println!("{:#}", report.json());
    } else {
        print!("{}", report.text());
    }
}

fn plan() -> Plan {
    let mut plan = Plan { turns: 300, starts: 20, only: None, json: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| panic!("{argument} wants a value"));
        match argument.as_str() {
            "--json" => plan.json = true,
            "--turns" => plan.turns = value().parse().expect("a number of turns"),
            "--starts" => plan.starts = value().parse().expect("a number of starts"),
            "--only" => plan.only = Some(value()),
            // Cargo's own.
            "--bench" => {}
            other => {
                panic!(
                    "unknown argument {other}: --json, --turns N, --starts N, --only start|read|bash|sandbox|micro"
                )
            }
        }
    }
    plan
}
