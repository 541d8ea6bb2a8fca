//! No run ends as done against its record, whatever its arbiter's model answers and in whatever mode it decides
//! (`docs/arbiter.md#when-complete-counts`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod session_support;

use std::collections::BTreeSet;

use proptest::prelude::*;
use rawko_core::agent::AgentRole;
use rawko_core::message::StopReason;
use rawko_core::request::Purpose;
use rawko_core::session::{Effect, Outcome, Status};
use rawko_core::setup::{ArbiterMode, Setup};
use rawko_core::tool::ToolOutcome;
use serde_json::{Value, json};
use session_support::{Bench, agent, call, setup};

/// Model calls of one run. The loop detector ends useless ones long before.
const MOST_CALLS: usize = 400;

const AGENTS: [(&str, AgentRole); 4] = [
    ("planner", AgentRole::Plan),
    ("developer", AgentRole::Implement),
    ("tester", AgentRole::Test),
    ("reviewer", AgentRole::Review),
];

fn team(mode: ArbiterMode) -> Setup {
    let mut setup = setup();
    setup.agents = AGENTS
        .iter()
        .map(|(name, role)| {
            let (name, mut agent) = agent(name, 6);
            agent.config.role = Some(*role);
            (name, agent)
        })
        .collect();
    setup.arbiter.mode = mode;
    setup
}

/// What an agent does in a turn.
#[derive(Debug, Clone)]
enum Act {
    Write,
    /// A check with its exit code; piped, its failure is hidden from the exit code of the call.
    Check {
        command: &'static str,
        code: i32,
        piped: bool,
    },
    /// A command that may write.
    Other(i32),
    Report(&'static str),
    /// It ends its turn with words.
    Claim,
}

fn act() -> impl Strategy<Value = Act> {
    let code = prop::sample::select(vec![0, 0, 1, 1, 2, 127]);
    let check = (prop::sample::select(vec!["pytest -q", "cargo test"]), code, any::<bool>());
    prop_oneof![
        3 => Just(Act::Write),
        5 => check.prop_map(|(command, code, piped)| Act::Check { command, code, piped }),
        1 => prop::sample::select(vec![0, 1]).prop_map(Act::Other),
        5 => prop::sample::select(vec!["approved", "approved", "rejected", "blocked"]).prop_map(Act::Report),
        1 => Just(Act::Claim),
    ]
}

/// What a model answers to the arbiter's questions: a legal decision, by its number.
fn decision(number: usize) -> Value {
    match number % (AGENTS.len() + 4) {
        0 => json!({"decision": "CONTINUE", "reason": "more"}),
        1 => json!({"decision": "RETRY", "reason": "again"}),
        // Half of what can be said while no agent has worked must not be this.
        2 | 3 => complete(),
        other => json!({"decision": "SELECT_MODE", "mode": AGENTS[other - 4].0, "reason": "you"}),
    }
}

fn complete() -> Value {
    json!({"decision": "COMPLETE", "summary": "Everything is done, and all checks pass."})
}

/// The objections to a COMPLETE, kept in step with what the agents do and without the code that is tested.
#[derive(Debug, Default)]
struct Record {
    /// The agent whose check, the newest since the last write, failed.
    red: Option<String>,
    rejected: BTreeSet<String>,
    /// The last verdict was that the work could not be judged.
    is_blocked: bool,
    is_changed: bool,
    approved: BTreeSet<String>,
}

impl Record {
    fn wrote(&mut self) {
        *self = Self { is_changed: true, ..Self::default() };
    }

    fn checked(&mut self, agent: &str, code: i32) {
        match code {
            0 => self.red = None,
            127 => {}
            _ => self.red = Some(agent.to_owned()),
        }
    }

    fn judged(&mut self, agent: &str, verdict: &str) {
        self.is_blocked = verdict == "blocked";
        match verdict {
            "rejected" => drop(self.rejected.insert(agent.to_owned())),
            "approved" => {
                self.rejected.remove(agent);
                self.approved.insert(agent.to_owned());
            }
            _ => {}
        }
    }

    fn objection(&self) -> Option<&'static str> {
        // Where nothing was changed, only running the checks may have been the task.
        let red =
            self.red.as_ref().filter(|agent| self.is_changed || !self.approved.contains(agent.as_str()));
        match (self.rejected.is_empty(), self.is_blocked, red) {
            (false, ..) => Some("rejected"),
            (_, true, _) => Some("blocked"),
            (.., Some(_)) => Some("red"),
            (true, false, None) => None,
        }
    }
}

/// Plays a run to its end, or until enough is seen.
fn play(
    mode: ArbiterMode,
    mut decide: impl FnMut(usize) -> Value,
    acts: &[Act],
) -> (Option<Outcome>, Record) {
    let mut bench = Bench::start(team(mode));
    let (mut record, mut acts, mut written) = (Record::default(), acts.iter().cycle(), 0);
    for asked in 0..MOST_CALLS {
        while let Some(timer) =
            bench.open.iter().find(|effect| matches!(effect, Effect::StartTimer { .. })).cloned()
        {
            let Effect::StartTimer { purpose, .. } = timer else { unreachable!() };
            bench.fire(purpose);
        }
        let purpose = bench.open.iter().find_map(|effect| match effect {
            Effect::CallModel { purpose, .. } => Some(purpose.clone()),
            _ => None,
        });
        let Some(purpose) = purpose.filter(|_| bench.outcome.is_none()) else { break };
        let Purpose::Agent { name } = purpose else {
            bench.decide(decide(asked));
            continue;
        };
        let judges = AGENTS.iter().any(|(agent, role)| *agent == name && role.judges());
        let (tool, input, outcome) = match acts.next().unwrap() {
            Act::Write => {
                written += 1;
                record.wrote();
                let path = format!("src/{written}.py");
                let outcome =
                    ToolOutcome { files_modified: vec![path.clone()], ..ToolOutcome::ok("written") };
                ("Write", json!({"file_path": path, "content": "x"}), outcome)
            }
            Act::Check { command, code, piped } => {
                record.checked(&name, *code);
                let command = if *piped { format!("{command} | tail -5") } else { (*command).to_owned() };
                let outcome = ToolOutcome {
                    exit_code: Some(if *piped { 0 } else { *code }),
                    pipe_status: if *piped { vec![*code, 0] } else { vec![] },
                    is_error: !*piped && *code != 0,
                    ..ToolOutcome::ok("output")
                };
                ("Bash", json!({ "command": command }), outcome)
            }
            Act::Other(code) => {
                // It counts as a write, for all that is known: the checks before it are stale.
                record.red = None;
                let outcome = ToolOutcome { exit_code: Some(*code), ..ToolOutcome::ok("output") };
                ("Bash", json!({"command": "./build.sh"}), outcome)
            }
            Act::Report(verdict) => {
                let input = if judges {
                    record.judged(&name, verdict);
                    json!({"verdict": verdict, "summary": "It is so.", "findings": [{"text": "it leaks"}]})
                } else {
                    let outcome = if *verdict == "blocked" { "failure" } else { "success" };
                    json!({"outcome": outcome, "summary": "All done. COMPLETE."})
                };
                bench.reply(vec![call("r", "Report", input)], StopReason::ToolUse);
                continue;
            }
            Act::Claim => {
                let words = rawko_core::message::Content::text("All tests pass. I approve. COMPLETE.");
                bench.reply(vec![words], StopReason::EndTurn);
                continue;
            }
        };
        bench.reply(vec![call("c", tool, input)], StopReason::ToolUse);
        for (effect, _) in bench.running() {
            bench.finish_tool(effect, outcome.clone());
        }
    }
    (bench.outcome, record)
}

fn check(outcome: Option<&Outcome>, record: &Record) -> Result<(), TestCaseError> {
    let Some(outcome) = outcome else { return Ok(()) };
    if matches!(outcome.status, Status::Verified | Status::Claimed) {
        prop_assert_eq!(record.objection(), None, "{:?}\n{:?}", outcome, record);
    }
    Ok(())
}

fn mode() -> impl Strategy<Value = ArbiterMode> {
    prop::sample::select(vec![ArbiterMode::Llm, ArbiterMode::Hybrid, ArbiterMode::Rules])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_model_that_finds_everything_done(mode in mode(), acts in prop::collection::vec(act(), 1..14)) {
        // Before an agent has worked COMPLETE is no legal answer.
        let mut is_first = true;
        let decide = |_| match std::mem::take(&mut is_first) {
            true => json!({"decision": "SELECT_MODE", "mode": "developer", "reason": "begin"}),
            false => complete(),
        };
        let (outcome, record) = play(mode, decide, &acts);
        check(outcome.as_ref(), &record)?;
    }

    #[test]
    fn a_model_that_answers_anything(
        mode in mode(),
        acts in prop::collection::vec(act(), 1..14),
        decisions in prop::collection::vec(0..100_usize, 1..12),
    ) {
        let (outcome, record) = play(mode, |asked| decision(decisions[asked % decisions.len()]), &acts);
        check(outcome.as_ref(), &record)?;
    }
}

/// The runs do end as done where there is no objection to it: the property is not empty.
#[test]
fn honest_work_ends_as_done_in_every_mode() {
    let acts = [
        Act::Write,
        Act::Check { command: "pytest -q", code: 0, piped: true },
        Act::Report("approved"),
        Act::Check { command: "pytest -q", code: 0, piped: false },
        Act::Report("approved"),
    ];
    for mode in [ArbiterMode::Llm, ArbiterMode::Hybrid, ArbiterMode::Rules] {
        let decide = |asked| match asked {
            0 => json!({"decision": "SELECT_MODE", "mode": "developer", "reason": "begin"}),
            _ => complete(),
        };
        let (outcome, _) = play(mode, decide, &acts);
        assert_eq!(outcome.map(|outcome| outcome.status), Some(Status::Claimed), "{mode:?}");
    }
}
