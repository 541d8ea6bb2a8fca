//! Runs change their phase as the table says, and reach every phase; the documentation shows the table.

#![allow(clippy::unwrap_used)]

#[path = "session_support/mod.rs"]
mod session_support;

use std::collections::BTreeSet;

use rawko_core::agent::outside::{OutsideEnd, OutsideStop, OutsideWork};
use rawko_core::agent::{AcpProgram, Ask};
use rawko_core::approval::Approval;
use rawko_core::arbiter::DECIDE;
use rawko_core::facts::{CommandRun, TreeInspection, Verification};
use rawko_core::hook::{HookEvent, HookReply};
use rawko_core::memory::Recalled;
use rawko_core::message::{Content, Message, Role, StopReason};
use rawko_core::request::Purpose;
use rawko_core::session::{
    Effect, EffectAnswer, Event, KeptMemory, PhaseKind, Session, Stamped, TimerPurpose, phase_diagram,
};
use rawko_core::setup::{CallRetry, ExtractSetup, MemorySetup, Setup, VerifySetup};
use rawko_core::tool::{Refusal, ToolOutcome};
use rawko_core::{ErrorCode, ErrorInfo, Timestamp, Usage};
use serde_json::{Value, json};
use session_support::{call, model, setup};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/phases.md");

/// The same numbers every time, so that a failure can be repeated.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// A run with everything that a phase can wait for.
fn everything(numbers: &mut Numbers) -> Setup {
    let mut setup = setup();
    let extract = ExtractSetup { model: model("small"), prompt: "Learn.".into(), max_tokens: 9_000 };
    setup.memory = match numbers.below(3) {
        0 => None,
        some => Some(MemorySetup { inject: true, extract: Some(extract).filter(|_| some == 1) }),
    };
    let hooks = [HookEvent::SessionStart, HookEvent::SubagentStop, HookEvent::Stop];
    setup.hooks = hooks.into_iter().filter(|_| numbers.below(4) == 0).collect();
    setup.checkpoints = numbers.below(2) == 0;
    setup.verify = (numbers.below(3) > 0).then(|| VerifySetup {
        commands: vec!["true".into()],
        timeout_ms: 1_000,
        ..VerifySetup::default()
    });
    setup.retry = (numbers.below(2) == 0).then_some(CallRetry { patience_ms: 60_000 });
    setup.limits.max_consecutive_failures = 6;
    setup.limits.max_iterations = 40;
    for agent in setup.agents.values_mut() {
        agent.model.context_window = (numbers.below(2) == 0).then_some(3_000);
        agent.config.limits.timeout = Some(600_000);
        if numbers.below(2) == 0 {
            agent.permissions.ask = Some(vec![Ask::Commands, Ask::Hosts, Ask::Paths]);
            agent.permissions.run = Some(Vec::new());
        }
        if numbers.below(4) == 0 {
            let command = vec!["its-program".to_owned()];
            agent.config.acp = Some(AcpProgram { command, ..AcpProgram::default() });
        }
        if numbers.below(6) == 0 {
            agent.config.budget.max_tokens = Some(6_000);
        }
        if numbers.below(2) == 0 {
            agent.config.budget.max_duration = Some(rawko_core::TimeSpan::from_ms(600_000).unwrap());
        }
    }
    setup
}

fn decision(numbers: &mut Numbers) -> Content {
    let input = match numbers.below(5) {
        0 => json!({"decision": "COMPLETE", "summary": "s", "reason": "r"}),
        1 => json!({"decision": "CONTINUE", "reason": "r"}),
        2 => json!({"decision": "RETRY", "reason": "r"}),
        3 => json!({"decision": "SELECT_MODE", "mode": "planner", "reason": "r"}),
        _ => json!({"decision": "SELECT_MODE", "mode": "developer", "reason": "r"}),
    };
    call("d", DECIDE, input)
}

fn turn(numbers: &mut Numbers) -> Vec<Content> {
    match numbers.below(7) {
        6 => vec![call("b", "Bash", json!({"command": "make"})), call("a", "Read", json!({"n": 1}))],
        0 => vec![call("r", "Report", json!({"outcome": "success", "summary": "s"}))],
        1 => vec![call("a", "Read", json!({"n": numbers.below(99)})), call("b", "Write", json!({"n": 1}))],
        2 => vec![call("w", "Write", json!({"n": numbers.below(99)}))],
        3 => vec![],
        _ => vec![call("a", "Read", json!({"n": numbers.below(99)}))],
    }
}

fn model_answer(purpose: &Purpose, numbers: &mut Numbers) -> EffectAnswer {
    if numbers.below(12) == 0 {
        let codes = [ErrorCode::RateLimited, ErrorCode::ToolFailure, ErrorCode::ContextLengthExceeded];
        let retry_after_ms = (numbers.below(2) == 0).then_some(0);
        let error = ErrorInfo { retry_after_ms, ..ErrorInfo::new(codes[numbers.below(codes.len())], "m") };
        return EffectAnswer::ModelFailed { error, duration_ms: 1, usage: None };
    }
    let draft: Value = json!({
        "learned": numbers.below(2) == 0, "title": "A title", "whenToUse": ["some task"], "body": "Text."
    });
    let content = match purpose {
        Purpose::Select | Purpose::Evaluate => vec![decision(numbers)],
        Purpose::Agent { .. } => turn(numbers),
        Purpose::Remember { .. } => vec![call("m", "remember", draft)],
        Purpose::Summarize { .. } => vec![Content::text("It went on.")],
    };
    let calls = content.iter().any(|content| matches!(content, Content::ToolUse(_)));
    let stop_reason = match numbers.below(20) {
        0 => StopReason::ContextWindow,
        _ if calls => StopReason::ToolUse,
        _ => StopReason::EndTurn,
    };
    let message = Message { role: Role::Assistant, content };
    EffectAnswer::ModelReplied {
        message,
        usage: Usage { input_tokens: 300, ..Usage::default() },
        stop_reason,
        duration_ms: 1,
        cached: false,
    }
}

fn outside(numbers: &mut Numbers) -> OutsideWork {
    let stops = [OutsideStop::EndTurn, OutsideStop::EndTurn, OutsideStop::MaxTurns, OutsideStop::Refusal];
    let reason = stops[numbers.below(stops.len())];
    let error = ErrorInfo::new(ErrorCode::ToolFailure, "m");
    OutsideWork {
        end: if numbers.below(5) == 0 {
            OutsideEnd::Failed { error }
        } else {
            OutsideEnd::Stopped { reason }
        },
        text: "Did it.".repeat(numbers.below(2)),
        asked: Vec::new(),
        usage: (numbers.below(2) == 0).then(|| Usage { output_tokens: 300, ..Usage::default() }),
        cost_usd: (numbers.below(2) == 0).then_some(0.25),
        duration_ms: 1,
    }
}

/// A likely answer to an effect; now and then it is lost.
fn answer(effect: &Effect, numbers: &mut Numbers) -> EffectAnswer {
    if numbers.below(40) == 0 {
        return EffectAnswer::EffectLost;
    }
    let fails = numbers.below(8) == 0;
    let message = "m".to_owned();
    match effect {
        Effect::CallModel { purpose, .. } => model_answer(purpose, numbers),
        Effect::RunTool { grants, .. } if grants.is_empty() && numbers.below(6) == 0 => {
            let path = "/elsewhere".to_owned();
            let refused = match numbers.below(3) {
                0 => Refusal::Host { host: "example.com".to_owned() },
                1 => Refusal::Write { path },
                _ => Refusal::Read { path },
            };
            let outcome = ToolOutcome::error(ErrorCode::PermissionError, "refused");
            EffectAnswer::ToolFinished { outcome: ToolOutcome { refused: vec![refused], ..outcome } }
        }
        Effect::RunTool { .. } => {
            EffectAnswer::ToolFinished { outcome: ToolOutcome::ok("text ".repeat(numbers.below(500))) }
        }
        Effect::RunOutsideAgent { .. } => {
            EffectAnswer::OutsideAgentEnded { work: Box::new(outside(numbers)) }
        }
        Effect::AskUser { .. } => EffectAnswer::ApprovalAnswered {
            approval: match numbers.below(3) {
                0 => Approval::Expired,
                1 => Approval::Denied { by: "terminal".to_owned() },
                _ => Approval::Allowed { by: "terminal".to_owned() },
            },
        },
        Effect::TakeCheckpoint { .. } if fails => EffectAnswer::CheckpointFailed { message },
        Effect::TakeCheckpoint { .. } => EffectAnswer::CheckpointTaken { checkpoint: "c".into() },
        Effect::Recall { .. } => EffectAnswer::MemoriesRecalled { recalled: Recalled::default() },
        Effect::Remember { .. } => EffectAnswer::MemoryKept { kept: KeptMemory::Refused { message } },
        Effect::InspectTree { .. } if fails => EffectAnswer::TreeInspectionFailed { message },
        Effect::InspectTree { .. } => EffectAnswer::TreeInspected { inspection: TreeInspection::default() },
        Effect::Verify { commands, .. } => {
            let exit_code = Some(i32::from(numbers.below(2) == 0));
            let run = CommandRun {
                command: commands[0].clone(),
                exit_code,
                output: String::new(),
                duration_ms: 1,
                ..CommandRun::default()
            };
            let tree = Some(format!("t{}", numbers.below(99)));
            let verification = Verification { runs: vec![run], tree, ..Verification::default() };
            EffectAnswer::VerificationFinished { verification }
        }
        Effect::RunHooks { .. } => {
            let reply = match numbers.below(3) {
                0 => HookReply::refusal("no"),
                1 => HookReply { may_have_changed: true, ..HookReply::default() },
                _ => HookReply::default(),
            };
            EffectAnswer::HooksAnswered { reply }
        }
        Effect::StartTimer { .. } => EffectAnswer::TimerFired,
        Effect::Abandon { .. } | Effect::Finish { .. } => unreachable!("{effect:?} has no answer"),
    }
}

/// Whether a run may wait for this effect. Deadlines only expire now and then, or no run would get far.
fn is_likely(effect: &Effect, numbers: &mut Numbers) -> bool {
    match effect {
        Effect::StartTimer { purpose: TimerPurpose::Backoff | TimerPurpose::Retry, .. } => true,
        Effect::StartTimer { .. } => numbers.below(30) == 0,
        _ => true,
    }
}

/// The changes of phase in one random run.
fn run(seed: u64) -> BTreeSet<(PhaseKind, PhaseKind)> {
    let mut numbers = Numbers(seed);
    let (mut session, mut open, mut seen) = (Session::new(), Vec::<Effect>::new(), BTreeSet::new());
    let setup = Box::new(everything(&mut numbers));
    let mut event = Event::TaskStarted { task: "t".into(), setup, shared_events: 0 };
    for clock in 0..200 {
        let before = session.phase();
        let reaction = session.apply(&Stamped { at: Timestamp(clock), event });
        let after = session.phase();
        // A phase may always keep waiting, for another answer or for the same effect again.
        if !session.state().is_final() && before != after {
            seen.insert((before, after));
        }
        for effect in reaction.effects {
            match effect {
                Effect::Abandon { id } => open.retain(|other| other.awaits_answer() != Some(id)),
                Effect::Finish { .. } => {}
                effect => open.push(effect),
            }
        }
        let likely = (0..9).find_map(|_| {
            let at = numbers.below(open.len().max(1));
            open.get(at).is_some_and(|effect| is_likely(effect, &mut numbers)).then_some(at)
        });
        let Some(at) = likely else { break };
        let effect = open.remove(at);
        let answer = answer(&effect, &mut numbers);
        event = Event::answered(effect.awaits_answer().unwrap(), answer);
    }
    seen
}

#[test]
fn runs_change_their_phase_as_the_table_says() {
    let seen: BTreeSet<(PhaseKind, PhaseKind)> = (0..120).flat_map(run).collect();
    let table = PhaseKind::ALL
        .into_iter()
        .flat_map(|from| from.transitions().iter().map(move |to| (from, *to)))
        .collect::<BTreeSet<_>>();
    // A rare change, such as a budget that ends in the middle of a summary, need not come up in these runs.
    let unknown: Vec<_> = seen.difference(&table).collect();
    assert!(unknown.is_empty(), "not in the table: {unknown:?}");
    let reached: BTreeSet<PhaseKind> = seen.iter().map(|(_, to)| *to).collect();
    let never: Vec<_> = PhaseKind::ALL.into_iter().filter(|phase| !reached.contains(phase)).collect();
    assert_eq!(
        never,
        [PhaseKind::Idle],
        "a run that goes on is never idle, and every other phase is reached"
    );
}

/// `docs/phases.md` has the table as a diagram. `RAWKO_UPDATE_DOCS=1` writes it there.
#[test]
fn the_documentation_shows_the_phases_as_they_are() {
    let page = std::fs::read_to_string(PAGE).expect("docs/phases.md");
    let (begin, end) = ("<!-- begin diagram -->\n", "<!-- end diagram -->");
    let (before, rest) = page.split_once(begin).expect("the begin of the diagram");
    let (_, after) = rest.split_once(end).expect("the end of the diagram");
    let current = format!("{before}{begin}\n```mermaid\n{}```\n\n{end}{after}", phase_diagram());
    if page != current && std::env::var_os("RAWKO_UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &current).expect("to write docs/phases.md");
        return;
    }
    assert!(
        page == current,
        "docs/phases.md does not show the phases as they are; run\n    \
         RAWKO_UPDATE_DOCS=1 cargo test -p rawko-core --test phases\nand look at the difference"
    );
}
