//! Two things that must not slow down as a run grows: what the arbiter reads, and an append to the journal.

use std::time::{Duration, Instant};

use rawko::journal::{FORMAT, JournalHeader, SessionStore};
use rawko_core::agent::builtin_agents;
use rawko_core::arbiter::{HistoryStatistics, RunFacts, Sources, Templates, evaluate_input, select_input};
use rawko_core::facts::DiffStat;
use rawko_core::machine::{AgentResult, Decision, Limits, Machine, MachineEvent};
use rawko_core::session::{EffectAnswer, EffectId, Event, Stamped};
use rawko_core::tool::ToolOutcome;
use rawko_core::{ErrorCode, ErrorInfo, Timestamp};

/// What was measured of one length of history.
pub(crate) struct Length {
    pub(crate) entries: usize,
    /// Microseconds for both of the arbiter's prompts, from the machine's memory to the finished text.
    pub(crate) prompts_us: f64,
    /// Microseconds for an append of two kilobytes to a journal of as many records, not made durable.
    pub(crate) append_us: f64,
}

/// Measures at a history of so many entries.
pub(crate) fn measure(entries: usize) -> Length {
    Length { entries, prompts_us: prompts(entries), append_us: append(entries) }
}

fn prompts(entries: usize) -> f64 {
    let agents = builtin_agents();
    let mut machine = Machine::new(Limits {
        agents: agents.iter().map(|agent| agent.name.clone()).collect(),
        max_iterations: u32::MAX,
        max_consecutive_failures: u32::MAX,
    });
    let mut statistics = HistoryStatistics::default();
    let select = || Decision::SelectMode {
        mode: "developer".to_owned(),
        reason: "it is the developer's turn".to_owned(),
    };
    let _ = machine.apply(Timestamp(0), &MachineEvent::StartTask { task: "Go on and on.".to_owned() });
    let _ = machine.apply(Timestamp(1), &MachineEvent::AgentSelected { decision: select() });
    for entry in 0..entries as u64 {
        let output = format!("Step {entry}: {}", "something was done. ".repeat(30));
        // Some failures in between, which a window of failures could be made to look for far back.
        let event = if entry % 7 == 0 {
            let error = ErrorInfo::new(ErrorCode::ValidationError, "the agent answered in a wrong form");
            MachineEvent::AgentError { error, facts: Default::default(), usage: None }
        } else {
            MachineEvent::AgentComplete {
                result: AgentResult { success: true, output, ..AgentResult::default() },
            }
        };
        for event in [
            event,
            MachineEvent::ArbiterDecision { decision: select() },
            MachineEvent::AgentSelected { decision: select() },
        ] {
            let _ = machine.apply(Timestamp(entry * 10), &event);
            statistics.update(&machine.context().history);
        }
    }
    assert!(machine.context().history.len() >= entries, "{} entries", machine.context().history.len());
    let templates = Templates::default();
    let facts = RunFacts {
        changes: Some(DiffStat {
            files: 40,
            insertions: 900,
            deletions: 300,
            names: vec!["src/a.rs +20 -7".into(); 20],
        }),
        ..RunFacts::default()
    };
    let sources = || Sources {
        context: machine.context(),
        draft: None,
        limits: machine.limits(),
        statistics: &statistics,
        tokens_used: 5,
        facts: &facts,
        now: Timestamp(entries as u64 * 10),
        paused_ms: 0,
        earlier_iterations: 0,
        setup: None,
    };
    each(|| {
        let input = select_input(sources(), agents.iter());
        let evaluation = evaluate_input(sources()).unwrap();
        let (one, two) = (templates.select(&input), templates.evaluate(&evaluation, &input.available_agents));
        one.user.len() + two.user.len()
    })
}

fn append(records: usize) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let header = JournalHeader {
        format: FORMAT,
        rawko: String::new(),
        session: "bench".to_owned(),
        created_at: Timestamp(0),
        task: String::new(),
        config_digest: String::new(),
        degraded: Vec::new(),
        confined: None,
        seal: None,
        forked_from: None,
        traceparent: None,
    };
    let mut writer = SessionStore::at(folder.path().to_owned()).create(&header).unwrap();
    let outcome = ToolOutcome::ok("a line of a file\n".repeat(120));
    let stamped = Stamped {
        at: Timestamp(1),
        event: Event::Answered { effect: EffectId(1), answer: EffectAnswer::ToolFinished { outcome } },
    };
    for _ in 0..records {
        writer.event(&stamped).unwrap();
    }
    each(|| writer.event(&stamped).is_ok())
}

/// Microseconds for one `work`, over enough of them to tell.
fn each<T>(mut work: impl FnMut() -> T) -> f64 {
    let begun = Instant::now();
    let mut times = 0_u32;
    while begun.elapsed() < Duration::from_millis(200) {
        std::hint::black_box(work());
        times += 1;
    }
    begun.elapsed().as_secs_f64() * 1e6 / f64::from(times)
}
