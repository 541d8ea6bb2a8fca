//! Budgets as a driver sees them: what is reserved before a call, what is charged after it, and what happens when a
//! budget is used up.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use rawko_core::agent::{AgentBudget, control_tools};
use rawko_core::arbiter::ArbiterQuestion;
use rawko_core::cost::Price;
use rawko_core::machine::Decision;
use rawko_core::message::{Content, Message, Role, StopReason, ToolCall};
use rawko_core::request::ModelRequest;
use rawko_core::session::{
    DecisionPoint, DecisionSource, Effect, EffectAnswer, EffectId, EndedTask, Event, LimitKind, Note,
    Outcome, Override, Session, Stamped, Status, TimerPurpose,
};
use rawko_core::setup::Setup;
use rawko_core::tool::ToolOutcome;
use rawko_core::{ErrorCode, ErrorInfo, TimeSpan, Timestamp, Usage};
use serde_json::{Value, json};

/// Dollars for a million tokens: high prices, so that sums are easy to see.
const PRICE: Price = Price {
    input: 100.0,
    output: 1_000.0,
    cache_read: Some(10.0),
    cache_write: Some(125.0),
    long_prompt: None,
    search: None,
};

fn setup(change: impl FnOnce(&mut Setup)) -> Setup {
    let model = json!({"provider": "p", "model": "m", "maxTokens": 1_000});
    let agent = |name: &str| {
        json!({
            "config": {"name": name, "systemPrompt": "Work.", "limits": {"maxIterations": 100}},
            "source": "test",
            "model": model,
        })
    };
    let mut tools = control_tools();
    tools.push(
        serde_json::from_value(json!({
            "name": "Read", "description": "r", "inputSchema": {"type": "object"}, "access": "read_only",
        }))
        .unwrap(),
    );
    let mut setup: Setup = serde_json::from_value(json!({
        "agents": {"developer": agent("developer"), "tester": agent("tester")},
        "arbiter": {"mode": "llm", "model": model, "templates": {"select": "Who? {task}", "evaluate": "How? {task}"}},
        "limits": {"maxIterations": 50, "maxConsecutiveFailures": 3},
        "prices": {"m": PRICE},
        "tools": tools,
        "place": {"directory": "/p", "platform": "linux", "git": false},
    }))
    .unwrap();
    change(&mut setup);
    setup
}

/// A minimal driver, and a provider that reports the usage it is given.
struct Bench {
    session: Session,
    clock: u64,
    journal: Vec<Stamped>,
    open: BTreeMap<EffectId, Effect>,
    notes: Vec<Note>,
    requests: BTreeMap<EffectId, ModelRequest>,
    outcome: Option<Outcome>,
}

impl Bench {
    fn new() -> Self {
        Self {
            session: Session::new(),
            clock: 0,
            journal: Vec::new(),
            open: BTreeMap::new(),
            notes: Vec::new(),
            requests: BTreeMap::new(),
            outcome: None,
        }
    }

    fn start(setup: Setup) -> Self {
        let mut bench = Self::new();
        bench.give(Event::TaskStarted { task: "do it".into(), setup: Box::new(setup), shared_events: 0 });
        bench
    }

    fn give(&mut self, event: Event) {
        self.clock += 10;
        self.apply(Stamped { at: Timestamp(self.clock), event });
    }

    fn apply(&mut self, stamped: Stamped) {
        if let Some(effect) = stamped.event.answers() {
            self.open.remove(&effect);
        }
        let reaction = self.session.apply(&stamped);
        self.journal.push(stamped);
        for effect in reaction.effects {
            match effect {
                Effect::Abandon { id } => {
                    self.open.remove(&id);
                }
                Effect::Finish { outcome } => self.outcome = Some(*outcome),
                other => {
                    self.open.insert(other.awaits_answer().unwrap(), other);
                }
            }
        }
        self.notes.extend(reaction.notes);
        self.requests.extend(reaction.requests);
    }

    /// A fork that shares everything that has happened, resumed an hour later.
    fn fork(&self) -> Self {
        let mut shared = self.journal.clone();
        let count = shared.len() as u64;
        let Event::TaskStarted { shared_events, .. } = &mut shared[0].event else { panic!("no task") };
        *shared_events = count;
        let mut fork = Self { clock: self.clock + 3_600_000, ..Self::new() };
        shared.into_iter().for_each(|stamped| fork.apply(stamped));
        fork.give(Event::SessionResumed {
            changed_files: Vec::new(),
            verify: None,
            limits: None,
            lost: rawko_core::session::Lost::default(),
        });
        for effect in fork.open.keys().copied().collect::<Vec<_>>() {
            fork.give(Event::Answered { effect, answer: EffectAnswer::EffectLost });
        }
        fork
    }

    /// The same without the last event.
    fn fork_before_the_end(&self) -> Self {
        let journal = self.journal[..self.journal.len() - 1].to_vec();
        Self { journal, clock: self.clock, ..Self::new() }.fork()
    }

    /// The model call that is open, with the most that its answer may have.
    #[track_caller]
    fn call(&self) -> (EffectId, u32) {
        let call = self.open.iter().find(|(_, effect)| matches!(effect, Effect::CallModel { .. }));
        let (id, _) = call.unwrap_or_else(|| panic!("nothing is asked: {:?} {:?}", self.open, self.outcome));
        (*id, self.requests[id].max_tokens)
    }

    #[track_caller]
    fn reply(&mut self, name: &str, input: Value, usage: Usage) {
        let (effect, _) = self.call();
        let id = format!("c{effect}");
        let call = ToolCall { id, name: name.into(), input, invalid_input: None, withheld: None };
        let message = Message { role: Role::Assistant, content: vec![Content::ToolUse(call)] };
        let stop_reason = StopReason::ToolUse;
        self.give(Event::Answered {
            effect,
            answer: EffectAnswer::ModelReplied { message, usage, stop_reason, duration_ms: 1, cached: false },
        });
    }

    #[track_caller]
    fn decide(&mut self, input: Value) {
        self.reply("decide", input, used(10, 10));
    }

    #[track_caller]
    fn select(&mut self, agent: &str) {
        self.decide(json!({"decision": "SELECT_MODE", "mode": agent, "reason": "r"}));
    }

    /// One turn of an agent that reads on and on.
    #[track_caller]
    fn turn(&mut self, usage: Usage) {
        self.reply("Read", json!({}), usage);
        self.read();
    }

    fn read(&mut self) {
        let tool = self.open.iter().find(|(_, effect)| matches!(effect, Effect::RunTool { .. }));
        let effect = *tool.unwrap().0;
        self.give(Event::Answered {
            effect,
            answer: EffectAnswer::ToolFinished { outcome: ToolOutcome::ok("text") },
        });
    }

    fn report(&mut self) {
        self.reply("Report", json!({"outcome": "success", "summary": "did it"}), used(10, 10));
    }

    /// The usage reported for the last call, and its purpose.
    fn last_used(&self) -> (String, Usage) {
        let used = self.notes.iter().rev().find_map(|note| match note {
            Note::TokensUsed { agent, usage, .. } => Some((agent.clone(), *usage)),
            _ => None,
        });
        used.unwrap()
    }

    /// How the run ended; folding the events again gives the same.
    #[track_caller]
    fn limited(&self, limit: LimitKind) -> &Outcome {
        let outcome = self.outcome.as_ref().expect("the run should be over");
        assert_eq!((outcome.status, outcome.limit), (Status::Limited, Some(limit)), "{outcome:?}");
        let mut folded = Session::new();
        for stamped in &self.journal {
            let _ = folded.apply(stamped);
        }
        assert_eq!(folded, self.session);
        outcome
    }
}

fn used(input_tokens: u64, output_tokens: u64) -> Usage {
    Usage { input_tokens, output_tokens, ..Usage::default() }
}

/// Tokens of the prompt that is being asked, roughly: what the core reserves for it.
#[track_caller]
fn estimate(bench: &mut Bench) -> u64 {
    let before = bench.session.clone();
    bench.call();
    let event = Event::CancelRequested { reason: "to see what was held back".into() };
    let abandoned = bench.session.apply(&Stamped { at: Timestamp(bench.clock), event });
    bench.session = before;
    let used = abandoned.notes.iter().find_map(|note| match note {
        Note::TokensUsed { usage, .. } => Some(usage.input_tokens),
        _ => None,
    });
    used.unwrap()
}

#[test]
fn a_fork_is_not_charged_again_for_what_it_shares() {
    let mut old = Bench::start(setup(|_| ()));
    old.select("developer");
    old.turn(used(5_000, 100));
    let mut fork = old.fork();
    fork.report();
    fork.decide(json!({"decision": "COMPLETE", "summary": "all done", "reason": "r"}));
    let outcome = fork.outcome.as_ref().unwrap();
    assert_eq!((outcome.status, outcome.iterations), (Status::Claimed, 1));
    assert_eq!((outcome.usage, outcome.cost_usd), (used(20, 20), Some(PRICE.cost(&used(20, 20)))));
    assert_eq!(outcome.duration_ms, 30, "from its first event to its last, without the hour before");
    let shared = outcome.shared.unwrap();
    assert_eq!((shared.iterations, shared.usage), (1, used(5_010, 110)));
    assert!((shared.cost_usd.unwrap() - PRICE.cost(&used(5_010, 110))).abs() < 1e-9);
    // Each call is charged once, however often it is shared.
    let mut again = fork.fork_before_the_end();
    again.decide(json!({"decision": "COMPLETE", "summary": "all done", "reason": "r"}));
    let outcome = again.outcome.unwrap();
    assert_eq!((outcome.usage, outcome.shared.unwrap().usage), (used(10, 10), used(5_020, 120)));
}

#[test]
fn what_a_fork_shares_is_of_the_task_that_it_goes_on_with() {
    let mut old = Bench::start(setup(|_| ()));
    old.select("developer");
    old.report();
    old.decide(json!({"decision": "COMPLETE", "summary": "all done", "reason": "r"}));
    old.give(Event::TaskContinued {
        task: "and more".into(),
        setup: Box::new(setup(|_| ())),
        changed_files: Vec::new(),
        lost: rawko_core::session::Lost::default(),
        ended: Vec::new(),
    });
    old.select("developer");
    old.turn(used(5_000, 100));
    let mut fork = old.fork();
    fork.report();
    fork.decide(json!({"decision": "COMPLETE", "summary": "all done", "reason": "r"}));
    let outcome = fork.outcome.unwrap();
    assert_eq!((outcome.iterations, outcome.shared.unwrap().iterations), (1, 1));
}

#[test]
fn a_task_that_ended_within_the_shared_part_costs_a_fork_nothing() {
    let mut old = Bench::start(setup(|_| ()));
    old.select("developer");
    old.report();
    old.decide(json!({"decision": "COMPLETE", "summary": "all done", "reason": "r"}));
    let first = old.outcome.take().unwrap();
    old.give(Event::TaskContinued {
        task: "and more".into(),
        setup: Box::new(setup(|_| ())),
        changed_files: Vec::new(),
        lost: rawko_core::session::Lost::default(),
        ended: vec![EndedTask::of("make it work", &first)],
    });
    old.select("developer");
    let mut fork = old.fork();
    fork.report();
    fork.decide(json!({"decision": "COMPLETE", "summary": "all done", "reason": "r"}));
    let outcome = fork.outcome.unwrap();
    assert_eq!((outcome.usage, outcome.shared.unwrap().usage), (used(20, 20), used(10, 10)));
    assert_eq!(outcome.earlier_tasks[0].cost_usd, Some(0.0));
}

#[test]
fn what_an_abandoned_call_used_is_an_estimate() {
    let mut bench = Bench::start(setup(|_| ()));
    bench.select("developer");
    bench.give(Event::CancelRequested { reason: "enough".into() });
    assert!(bench.last_used().1.estimated);
    assert!(bench.last_used().1.input_tokens > 0);
}

#[test]
fn a_run_that_is_no_fork_shares_nothing() {
    let mut bench = Bench::start(setup(|_| ()));
    bench.select("developer");
    bench.report();
    bench.decide(json!({"decision": "COMPLETE", "summary": "all done", "reason": "r"}));
    let outcome = bench.outcome.unwrap();
    assert_eq!((outcome.usage, outcome.shared, outcome.duration_ms), (used(30, 30), None, 30));
}

#[test]
fn the_limits_of_a_fork_count_what_it_shares() {
    let mut old = Bench::start(setup(|setup| setup.limits.max_tokens = Some(10_000)));
    old.select("developer");
    old.turn(used(5_000, 0));
    let mut fork = old.fork();
    fork.turn(used(4_900, 0));
    let outcome = fork.limited(LimitKind::Tokens);
    assert_eq!((outcome.usage, outcome.shared.unwrap().usage), (used(4_900, 0), used(5_010, 10)));
    assert!(outcome.summary.contains("9920 of 10000 used"), "{}", outcome.summary);
}

#[test]
fn an_answer_is_asked_for_only_as_long_as_the_budget_allows() {
    let mut bench = Bench::start(setup(|setup| setup.limits.max_tokens = Some(5_000)));
    assert_eq!(bench.call().1, 1_000, "there is room for the whole answer");
    bench.select("developer");
    let prompt = estimate(&mut bench);
    bench.turn(used(5_000 - 20 - prompt - 600, 0));
    // The rest fits the next prompt, a little longer than the last one, and a short answer.
    let (_, answer) = bench.call();
    let next = estimate(&mut bench);
    assert_eq!(u64::from(answer), prompt + 600 - next);
    assert!((256..600).contains(&answer), "{answer}");
    bench.turn(used(next, answer.into()));
    let outcome = bench.limited(LimitKind::Tokens);
    assert_eq!(outcome.usage.total_tokens(), 5_000, "not one token more");
    assert_eq!(outcome.error.as_ref().unwrap().code, ErrorCode::BudgetExceeded);
    assert!(outcome.summary.contains("constraints.maxTokens"), "{}", outcome.summary);
}

#[test]
fn dollars_are_kept_back_for_the_dearest_prompt() {
    let mut bench = Bench::start(setup(|setup| setup.limits.max_cost_usd = Some(1.0)));
    bench.select("developer");
    // 10 tokens in and 10 out cost $0.011; the prompt counts as if all of it were written to the cache.
    let prompt = estimate(&mut bench) as f64 * 125.0 / 1e6;
    let affordable = ((1.0 - 0.011 - prompt) * 1e6 / 1_000.0) as u32;
    let (_, answer) = bench.call();
    assert!(answer.abs_diff(affordable) <= 1, "{answer} for {affordable}");
    bench.turn(used(0, answer.into()));
    bench.limited(LimitKind::Cost);
}

#[test]
fn what_a_failed_call_used_counts() {
    let fail = |usage| {
        let mut bench = Bench::start(setup(|_| {}));
        let prompt = estimate(&mut bench);
        let (effect, _) = bench.call();
        let error = ErrorInfo::new(ErrorCode::NetworkError, "cut");
        bench.give(Event::Answered {
            effect,
            answer: EffectAnswer::ModelFailed { error, duration_ms: 1, usage },
        });
        (bench, prompt)
    };
    let (bench, _) = fail(Some(used(300, 7)));
    assert_eq!(bench.last_used(), ("select".to_owned(), used(300, 7)));
    let (bench, prompt) = fail(Some(used(0, 7)));
    assert_eq!(
        bench.last_used().1,
        Usage { estimated: true, ..used(prompt, 7) },
        "the provider did not count the prompt: the estimate counts"
    );
    let (bench, _) = fail(None);
    assert!(!bench.notes.iter().any(|note| matches!(note, Note::TokensUsed { .. })), "nothing had begun");
    assert_eq!(bench.session.remaining().unwrap(), Default::default());
}

#[test]
fn an_abandoned_call_is_paid_for() {
    let mut bench = Bench::start(setup(|setup| setup.limits.max_tokens = Some(100_000)));
    bench.select("developer");
    let prompt = estimate(&mut bench);
    let left = bench.session.remaining().unwrap().tokens_left.unwrap();
    assert_eq!(left, 100_000 - 20 - prompt - 1_000, "held back for the call that is open");
    let (effect, _) = bench.call();
    bench.give(Event::CancelRequested { reason: "enough".into() });
    let outcome = bench.outcome.as_ref().unwrap();
    assert_eq!((outcome.status, outcome.usage.total_tokens()), (Status::Cancelled, 20 + prompt));
    let before = bench.session.clone();
    let error = ErrorInfo::new(ErrorCode::NetworkError, "late");
    bench.give(Event::Answered {
        effect,
        answer: EffectAnswer::ModelFailed { error, duration_ms: 1, usage: Some(used(5, 5)) },
    });
    assert_eq!(bench.session.remaining(), before.remaining(), "no call is charged twice");
}

#[test]
fn a_call_that_went_with_its_process_is_made_again_and_counted_once() {
    let mut bench = Bench::start(setup(|setup| setup.limits.max_tokens = Some(100_000)));
    let prompt = estimate(&mut bench);
    let (effect, _) = bench.call();
    bench.give(Event::SessionResumed {
        changed_files: vec![],
        verify: None,
        limits: None,
        lost: rawko_core::session::Lost::default(),
    });
    bench.give(Event::Answered { effect, answer: EffectAnswer::EffectLost });
    let left = bench.session.remaining().unwrap().tokens_left.unwrap();
    assert_eq!(left, 100_000 - prompt - 1_000, "as in a run that was not killed");
}

#[test]
fn a_cached_answer_costs_nothing() {
    let mut bench = Bench::start(setup(|setup| setup.limits.max_tokens = Some(100_000)));
    let (effect, _) = bench.call();
    let input = json!({"decision": "SELECT_MODE", "mode": "unknown", "reason": "r"});
    let call = ToolCall { id: "c".into(), name: "decide".into(), input, invalid_input: None, withheld: None };
    let message = Message { role: Role::Assistant, content: vec![Content::ToolUse(call)] };
    let (usage, stop_reason) = (Usage::default(), StopReason::ToolUse);
    bench.give(Event::Answered {
        effect,
        answer: EffectAnswer::ModelReplied { message, usage, stop_reason, duration_ms: 1, cached: true },
    });
    assert!(!bench.notes.iter().any(|note| matches!(note, Note::TokensUsed { .. })));
    let prompt = estimate(&mut bench);
    let left = bench.session.remaining().unwrap().tokens_left.unwrap();
    assert_eq!(left, 100_000 - prompt - 1_000, "only the call that is open now is held back");
}

#[test]
fn reasoning_is_not_cut_down_to_nothing() {
    let mut bench = Bench::start(setup(|setup| {
        setup.limits.max_tokens = Some(4_000);
        let model = &mut setup.agents.get_mut("developer").unwrap().model;
        model.max_tokens = 2_500;
        model.extra =
            json!({"thinking": {"type": "enabled", "budget_tokens": 2_000}}).as_object().unwrap().clone();
    }));
    bench.select("developer");
    assert!(bench.call().1 >= 2_256, "{}", bench.call().1);
    bench.turn(used(700, 200));
    bench.limited(LimitKind::Tokens);
}

#[test]
fn a_limit_in_the_providers_own_words_is_lowered_too() {
    let mut bench = Bench::start(setup(|setup| {
        setup.limits.max_tokens = Some(2_400);
        let model = &mut setup.agents.get_mut("developer").unwrap().model;
        model.extra = json!({"max_tokens": 4_000}).as_object().unwrap().clone();
    }));
    bench.select("developer");
    let (effect, answer) = bench.call();
    assert!(answer > 1_000 && answer < 2_400, "{answer}");
    assert_eq!(bench.requests[&effect].extra["max_tokens"], answer);
}

/// The arbiter continues the developer; another agent works in its place, and the reason is reported.
#[track_caller]
fn check_barred(bench: &mut Bench, reason: &str) {
    bench.decide(json!({"decision": "CONTINUE", "reason": "more"}));
    let record = bench.notes.iter().rev().find_map(|note| match note {
        Note::DecisionMade(record) => Some(record.clone()),
        _ => None,
    });
    let record = record.unwrap();
    assert!(matches!(record.instead_of, Some(Decision::Continue { .. })), "{record:?}");
    assert_eq!(record.source, DecisionSource::Rule);
    assert!(record.decision.reason().contains(reason), "{record:?}");
    assert_eq!(bench.session.context().unwrap().current_mode, "tester");
    assert!(record.input.unwrap()["facts"]["barred"][0]["reason"].as_str().unwrap().contains(reason));
}

/// Runs the developer under `budget` until it cannot continue; returns what the arbiter sees of it.
#[track_caller]
fn check_agent(budget: AgentBudget, reason: &str, work: impl FnOnce(&mut Bench)) {
    let mut bench = Bench::start(setup(|setup| {
        setup.agents.get_mut("developer").unwrap().config.budget = budget;
    }));
    bench.select("developer");
    work(&mut bench);
    let history = &bench.session.context().unwrap().history;
    let entry = history.last().expect("an execution that is over");
    let output = entry.output.as_deref().unwrap();
    assert!(output.contains(reason), "{output}");
    assert_eq!(entry.facts.ended.map(|end| json!(end)), Some(json!("budget")));
    assert!(!entry.result.is_failure() && bench.outcome.is_none(), "it is no failure, and the run goes on");
    check_barred(&mut bench, reason);
    // If the user chooses it anyway, it does nothing.
    let command = Override::ForceAgent { agent: "developer".into() };
    bench.give(Event::OverrideRequested { command, request: None });
    let context = bench.session.context().unwrap();
    let entry = context.history.last().unwrap();
    assert_eq!((entry.agent.as_str(), entry.facts.turns), ("developer", 0));
    // Others have budgets of their own.
    bench.select("tester");
    bench.turn(used(10, 10));
    assert_eq!(bench.last_used().0, "tester");
}

#[test]
fn tokens_of_an_agent() {
    let budget = AgentBudget { max_tokens: Some(3_000), ..AgentBudget::default() };
    check_agent(budget, "budget.maxTokens", |bench| {
        bench.turn(used(800, 600));
        let (_, answer) = bench.call();
        assert!(answer < 1_000, "{answer}");
        bench.turn(used(300, answer.into()));
    });
}

#[test]
fn cost_of_an_agent() {
    let budget = AgentBudget { max_cost_usd: Some(1.0), ..AgentBudget::default() };
    check_agent(budget, "budget.maxCostUsd", |bench| bench.turn(used(0, 900)));
}

#[test]
fn time_of_an_agent_over_its_executions_and_without_pauses() {
    let budget = AgentBudget { max_duration: TimeSpan::from_ms(100), ..AgentBudget::default() };
    check_agent(budget, "budget.maxDuration", |bench| {
        let timer = |bench: &Bench| {
            let timers = bench.open.iter().filter_map(|(id, effect)| match effect {
                Effect::StartTimer { after_ms, purpose: TimerPurpose::AgentBudget, .. } => {
                    Some((*id, *after_ms))
                }
                _ => None,
            });
            timers.collect::<Vec<_>>()
        };
        assert_eq!(timer(bench).iter().map(|(_, ms)| *ms).collect::<Vec<_>>(), [100]);
        bench.report();
        assert!(timer(bench).is_empty(), "no agent works");
        bench.clock += 5_000;
        bench.decide(json!({"decision": "CONTINUE", "reason": "more"}));
        let (id, left) = timer(bench)[0];
        assert_eq!(left, 90, "ten were used by the first execution");
        bench.clock += 60_000;
        bench.give(Event::SessionResumed {
            changed_files: vec![],
            verify: None,
            limits: None,
            lost: rawko_core::session::Lost::default(),
        });
        bench.give(Event::Answered { effect: id, answer: EffectAnswer::EffectLost });
        let (id, left) = timer(bench)[0];
        assert_eq!(left, 80, "the pause does not count");
        bench.give(Event::Answered { effect: id, answer: EffectAnswer::TimerFired });
    });
}

#[test]
fn executions_of_an_agent() {
    let budget = AgentBudget { max_iterations: Some(1), ..AgentBudget::default() };
    let mut bench = Bench::start(setup(|setup| {
        setup.agents.get_mut("developer").unwrap().config.budget = budget;
    }));
    bench.select("developer");
    bench.report();
    check_barred(&mut bench, "budget.maxIterations");
}

#[test]
fn the_end_of_the_runs_budget_goes_before_the_end_of_an_agents() {
    let mut bench = Bench::start(setup(|setup| {
        setup.limits.max_tokens = Some(3_000);
        setup.agents.get_mut("developer").unwrap().config.budget.max_tokens = Some(3_000);
    }));
    bench.select("developer");
    bench.turn(used(2_900, 0));
    bench.limited(LimitKind::Tokens);
}

#[test]
fn the_pause_between_two_processes_is_not_the_runs_time() {
    let mut bench = Bench::start(setup(|setup| setup.limits.max_duration_ms = Some(1_000)));
    let mut deadline = EffectId(1);
    for expected in [980, 960] {
        bench.clock += 60_000;
        bench.give(Event::SessionResumed {
            changed_files: vec![],
            verify: None,
            limits: None,
            lost: rawko_core::session::Lost::default(),
        });
        bench.give(Event::Answered { effect: deadline, answer: EffectAnswer::EffectLost });
        let timers = bench.open.iter().filter_map(|(id, effect)| match effect {
            Effect::StartTimer { after_ms, .. } => Some((*id, *after_ms)),
            _ => None,
        });
        let timers: Vec<_> = timers.collect();
        assert!(timers.len() == 1 && timers[0].1.abs_diff(expected) <= 20, "{timers:?}");
        deadline = timers[0].0;
    }
}

#[test]
fn the_pause_between_two_processes_is_in_no_figure() {
    let mut bench = Bench::start(setup(|_| ()));
    bench.select("developer");
    bench.clock += 3_600_000;
    bench.give(Event::SessionResumed {
        changed_files: vec![],
        verify: None,
        limits: None,
        lost: rawko_core::session::Lost::default(),
    });
    bench.report();
    let question = bench.session.arbiter_question(DecisionPoint::Evaluate).unwrap();
    let ArbiterQuestion::Evaluate { input, .. } = question else { panic!("{question:?}") };
    assert!(input.constraints.time_elapsed_ms < 1_000, "{}", input.constraints.time_elapsed_ms);
    bench.decide(json!({"decision": "COMPLETE", "summary": "all done", "reason": "r"}));
    let outcome = bench.outcome.unwrap();
    assert!(outcome.duration_ms < 1_000, "{}", outcome.duration_ms);
}

#[test]
fn a_limited_run_says_what_was_achieved() {
    let mut bench = Bench::start(setup(|setup| setup.limits.max_tokens = Some(20_000)));
    bench.select("developer");
    let steps: Vec<Value> = ["a", "b", "c"].map(|step| json!({"description": step})).to_vec();
    bench.reply("UpdatePlan", json!({ "steps": steps }), used(10, 10));
    let done =
        json!([{"description": "a", "status": "complete"}, {"description": "b"}, {"description": "c"}]);
    bench.reply("UpdatePlan", json!({ "steps": done }), used(10, 10));
    bench.reply("Read", json!({}), used(10, 10));
    let tool = *bench.open.iter().find(|(_, effect)| matches!(effect, Effect::RunTool { .. })).unwrap().0;
    let files_modified = (0..7).map(|n| format!("f{n}")).collect();
    bench.give(Event::Answered {
        effect: tool,
        answer: EffectAnswer::ToolFinished { outcome: ToolOutcome { files_modified, ..ToolOutcome::ok("") } },
    });
    bench.report();
    bench.decide(json!({"decision": "CONTINUE", "reason": "more"}));
    bench.turn(used(20_000, 0));
    let outcome = bench.limited(LimitKind::Tokens);
    let summary = &outcome.summary;
    for part in [
        "token budget is used up",
        "Plan: 1 of 3 steps done.",
        "Files changed: f0, f1, f2, f3, f4 and 2 more.",
    ] {
        assert!(summary.contains(part), "{part:?} is missing in {summary:?}");
    }
    assert_eq!(outcome.agent_summary.as_deref(), Some("did it"));
}

#[test]
fn only_the_first_attempt_may_come_from_the_cache() {
    let mut bench = Bench::start(setup(|setup| setup.arbiter.cache.select = true));
    let key = |bench: &Bench| match bench.open.get(&bench.call().0) {
        Some(Effect::CallModel { cache_key, .. }) => cache_key.clone(),
        other => panic!("{other:?}"),
    };
    let first = key(&bench).expect("a key");
    bench.reply("decide", json!({"decision": "SELECT_MODE", "mode": "unknown"}), used(1, 1));
    assert_eq!(key(&bench), None, "the repair is another question");
    bench.select("developer");
    assert_eq!(key(&bench), None, "an agent is always asked");
    let decided = |bench: &Bench| {
        let decided = bench.notes.iter().rev().find_map(|note| match note {
            Note::DecisionMade(record) => Some(record.cache_key.clone()),
            _ => None,
        });
        decided.unwrap()
    };
    assert_eq!(decided(&bench), None, "the answer of a repair is not cached");
    bench.report();
    assert_eq!(key(&bench), None, "judgements are not cached unless that is configured");
    let mut again = Bench::start(setup(|setup| setup.arbiter.cache.select = true));
    assert_eq!(key(&again).as_ref(), Some(&first), "the same question has the same name");
    again.select("developer");
    assert_eq!(decided(&again), Some(first));
    assert_eq!(key(&Bench::start(setup(|_| {}))), None, "nothing is cached where nothing says so");
}

/// How far above the estimate a prompt of these tests is at most, in tokens.
const ERROR: u64 = 40;

proptest! {
    /// Whatever the calls use, within their estimate's error and the answer they were granted: no budget is exceeded
    /// by more than the error of the last call.
    #[test]
    fn no_budget_is_exceeded_by_more_than_an_estimate_was_wrong(
        turns in proptest::collection::vec((0_u64..=ERROR, 0.0_f64..=1.0, 0_u8..12), 1..40),
        max_tokens in proptest::option::of(500_u64..20_000),
        max_cost_usd in proptest::option::of(0.1_f64..8.0),
        own_tokens in proptest::option::of(500_u64..20_000),
    ) {
        let mut bench = Bench::start(setup(|setup| {
            setup.limits.max_tokens = max_tokens;
            setup.limits.max_cost_usd = max_cost_usd;
            setup.agents.get_mut("developer").unwrap().config.budget.max_tokens = own_tokens;
        }));
        let mut of_developer = 0;
        for (error, share, what) in turns {
            if bench.outcome.is_some() {
                break;
            }
            let prompt = estimate(&mut bench) + error;
            let (effect, answer) = bench.call();
            let usage = Usage {
                cache_write_tokens: prompt,
                output_tokens: (f64::from(answer) * share) as u64,
                ..Usage::default()
            };
            let asked = bench.open.get(&effect).unwrap();
            let Effect::CallModel { purpose, .. } = asked else { unreachable!() };
            let who = purpose.to_string();
            match (who.as_str(), what) {
                (_, 0) => {
                    let error = ErrorInfo::new(ErrorCode::InvalidRequest, "no");
                    bench.give(Event::Answered { effect, answer: EffectAnswer::ModelFailed { error, duration_ms: 1, usage: Some(usage) } });
                }
                (_, 1) => {
                    // What it used is unknown: it is made again.
                    bench.give(Event::Answered { effect, answer: EffectAnswer::EffectLost });
                    continue;
                }
                ("select", _) => bench.reply("decide", json!({"decision": "SELECT_MODE", "mode": "developer", "reason": "r"}), usage),
                ("evaluate", _) => bench.reply("decide", json!({"decision": "CONTINUE", "reason": "r"}), usage),
                (_, 2) => bench.reply("Report", json!({"outcome": "success", "summary": "s"}), usage),
                _ => {
                    bench.reply("Read", json!({}), usage);
                    bench.read();
                }
            }
            if who == "developer" {
                of_developer += bench.last_used().1.total_tokens();
            }
            let Some(Note::TokensUsed { total, cost_usd, .. }) =
                bench.notes.iter().rev().find(|note| matches!(note, Note::TokensUsed { .. })) else { unreachable!() };
            if let Some(max) = max_tokens {
                prop_assert!(total.total_tokens() <= max + ERROR, "{} of {max}", total.total_tokens());
            }
            if let Some(max) = max_cost_usd {
                let error = ERROR as f64 * 125.0 / 1e6;
                prop_assert!(cost_usd.unwrap() <= max + error + 1e-9, "{cost_usd:?} of {max}");
            }
            if let Some(max) = own_tokens {
                prop_assert!(of_developer <= max + ERROR, "{of_developer} of {max}");
            }
        }
    }
}
