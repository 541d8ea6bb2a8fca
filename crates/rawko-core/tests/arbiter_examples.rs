//! Three worked examples of the arbiter's input: a described state goes in, JSON comes out.
//!
//! The snapshots contain more than the examples: all of `ConstraintContext`, `tools`, `startedAt`. The tests compare
//! each value of an example with ours and name the places where an example contradicts the rules.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use rawko_core::agent::{AgentConfig, OneOrMany, builtin_agents};
use rawko_core::arbiter::{HistoryStatistics, RunFacts, Sources, evaluate_input, select_input};
use rawko_core::machine::{
    CommandFact, Context, ExecutionFacts, ExecutionStatus, FailureRecord, HistoryEntry, Limits, Plan,
    PlanStep, StepStatus,
};
use rawko_core::{ErrorCode, ErrorInfo, Timestamp, Usage};
use serde_json::{Value, json};

const START: u64 = 1_769_160_600_000;

fn agents() -> Vec<AgentConfig> {
    let named = |name: &str, display: &str, when: &str| AgentConfig {
        display_name: Some(display.into()),
        when_to_use: OneOrMany::One(when.into()),
        ..builtin_agents().into_iter().find(|agent| agent.name == name).unwrap()
    };
    vec![
        named("planner", "Planning Agent", "Use this agent when starting a new task that needs analysis..."),
        named("developer", "Development Agent", "Use when code modifications are required..."),
    ]
}

fn entry(agent: &str, iteration: u32, result: ExecutionStatus, ms: u64, output: &str) -> HistoryEntry {
    let started_at = Timestamp(START + u64::from(iteration) * 200_000);
    HistoryEntry {
        agent: agent.into(),
        iteration,
        started_at,
        completed_at: Timestamp(started_at.0 + ms),
        result,
        output: Some(output.into()),
        error: None,
        plan_step: None,
        usage: None,
        facts: ExecutionFacts::default(),
    }
}

fn step(index: usize, description: &str, status: StepStatus) -> PlanStep {
    PlanStep { index, description: description.into(), status, agent_used: None }
}

fn state(iteration_count: u32, history: Vec<HistoryEntry>) -> Context {
    Context {
        task: "Implement user authentication".into(),
        started_at: Some(Timestamp(START)),
        current_mode: history.last().map(|entry| entry.agent.clone()).unwrap_or_default(),
        iteration_count,
        history,
        ..Context::default()
    }
}

fn built(context: &Context, select: bool) -> Value {
    let mut statistics = HistoryStatistics::default();
    statistics.update(&context.history);
    let limits = Limits::default();
    let facts = RunFacts::default();
    let now = Timestamp(START + 900_000);
    let sources = Sources {
        context,
        draft: None,
        limits: &limits,
        statistics: &statistics,
        tokens_used: 0,
        facts: &facts,
        now,
        paused_ms: 0,
        earlier_iterations: 0,
        setup: None,
    };
    let agents = agents();
    if select {
        serde_json::to_value(select_input(sources, agents.iter())).unwrap()
    } else {
        serde_json::to_value(evaluate_input(sources).unwrap()).unwrap()
    }
}

/// Every value of the example is in ours, at the same place.
#[track_caller]
fn check(name: &str, ours: &Value, example: &Value) {
    fn holds(ours: &Value, example: &Value, at: &str, missing: &mut Vec<String>) {
        match (ours, example) {
            (Value::Object(ours), Value::Object(example)) => {
                for (key, value) in example {
                    holds(ours.get(key).unwrap_or(&Value::Null), value, &format!("{at}/{key}"), missing);
                }
            }
            (Value::Array(ours), Value::Array(example)) if ours.len() == example.len() => {
                for (number, (a, b)) in ours.iter().zip(example).enumerate() {
                    holds(a, b, &format!("{at}/{number}"), missing);
                }
            }
            (ours, example) if ours == example => {}
            (ours, example) => missing.push(format!("{at}: {example} is {ours}")),
        }
    }
    let mut missing = Vec::new();
    holds(ours, example, "", &mut missing);
    assert!(missing.is_empty(), "{name}: {missing:#?}");
    insta::assert_json_snapshot!(name, ours);
}

#[test]
fn planning_phase() {
    // "First iteration, no plan yet", with `currentIteration: 1` while nothing has run: the machine counts an
    // iteration when an agent begins, so before the first it is 0 and 50 remain.
    let example = json!({
        "task": "Implement user authentication",
        "plan": null,
        "history": [],
        "lastError": null,
        "availableAgents": [
            {
                "name": "planner",
                "displayName": "Planning Agent",
                "whenToUse": "Use this agent when starting a new task that needs analysis..."
            },
            {
                "name": "developer",
                "displayName": "Development Agent",
                "whenToUse": "Use when code modifications are required..."
            }
        ],
        "constraints": {
            "maxIterations": 50,
            "currentIteration": 0,
            "iterationsRemaining": 50,
            "consecutiveFailures": 0,
            "maxConsecutiveFailures": 3
        }
    });
    check("example_1_planning", &built(&state(0, Vec::new()), true), &example);
}

#[test]
fn mid_execution_with_error() {
    let failure = ErrorInfo {
        tool: Some("Bash".into()),
        ..ErrorInfo::new(ErrorCode::ToolFailure, "Command failed with exit code 1")
    };
    let mut failed = entry("developer", 3, ExecutionStatus::Failure, 30_000, "Failed at import statement...");
    failed.plan_step = Some(1);
    failed.error = Some(ErrorInfo::new(ErrorCode::ToolFailure, "Cannot find module 'jsonwebtoken'"));
    failed.facts.commands = vec![CommandFact {
        command: "npm install jsonwebtoken".into(),
        exit_code: Some(1),
        is_check: false,
        ..CommandFact::default()
    }];
    let at = failed.completed_at;
    let history = vec![
        entry("planner", 1, ExecutionStatus::Success, 45_000, "Analysis complete. Created 5-step plan..."),
        entry("developer", 2, ExecutionStatus::Success, 90_000, "Middleware created successfully..."),
        failed,
    ];
    let context = Context {
        plan: Some(Plan {
            steps: vec![
                step(1, "Create middleware", StepStatus::Complete),
                step(2, "Login endpoint", StepStatus::Failed),
            ],
            current_step_index: 1,
            is_complete: false,
        }),
        consecutive_failures: 1,
        last_error: Some(FailureRecord { error: failure, agent: "developer".into(), at }),
        ..state(4, history)
    };
    // The recovery options are those of `docs/arbiter.md#errors`, with `fallback` last, "always offered":
    // the example words them freely and leaves `fallback` out. `lastError.planStep` is the step's number (2), the
    // plan's `currentStepIndex` its position (1), as in the example.
    let example = json!({
        "task": "Implement user authentication",
        "plan": {
            "steps": [
                {"index": 1, "description": "Create middleware", "status": "complete"},
                {"index": 2, "description": "Login endpoint", "status": "failed"}
            ],
            "currentStepIndex": 1,
            "isComplete": false
        },
        "history": [
            {
                "agent": "planner", "iteration": 1, "status": "success", "duration_ms": 45000,
                "output": {"summary": "Analysis complete. Created 5-step plan..."}
            },
            {
                "agent": "developer", "iteration": 2, "status": "success", "duration_ms": 90000,
                "output": {"summary": "Middleware created successfully..."}
            },
            {
                "agent": "developer", "iteration": 3, "status": "failure",
                "output": {"summary": "Failed at import statement..."},
                "error": {"message": "Cannot find module 'jsonwebtoken'", "category": "tool_failure"}
            }
        ],
        "lastError": {
            "agent": "developer",
            "tool": "Bash",
            "planStep": 2,
            "attempted": "npm install jsonwebtoken",
            "message": "Command failed with exit code 1",
            "category": "tool_failure",
            "recoveryOptions": [{"action": "retry"}, {"action": "skip"}, {"action": "fallback"}]
        },
        "constraints": {
            "maxIterations": 50,
            "currentIteration": 4,
            "iterationsRemaining": 46,
            "consecutiveFailures": 1,
            "maxConsecutiveFailures": 3
        }
    });
    check("example_2_error", &built(&context, true), &example);
}

#[test]
fn evaluation_phase() {
    let mut last = entry(
        "developer",
        4,
        ExecutionStatus::Success,
        60_000,
        "Login endpoint implemented. Created src/auth/login.ts with POST /login...",
    );
    last.facts.files_modified = vec!["src/auth/login.ts".into()];
    last.usage = Some(Usage { input_tokens: 2_100, output_tokens: 1_230, ..Usage::default() });
    let history = vec![
        entry("developer", 2, ExecutionStatus::Success, 90_000, "Middleware created successfully..."),
        entry("developer", 3, ExecutionStatus::Failure, 30_000, "Failed at import statement..."),
        last,
    ];
    let context = Context {
        plan: Some(Plan {
            steps: vec![
                step(1, "Create middleware", StepStatus::Complete),
                step(2, "Login endpoint", StepStatus::Complete),
                step(3, "Tests", StepStatus::Pending),
            ],
            current_step_index: 2,
            is_complete: false,
        }),
        ..state(5, history)
    };
    let example = json!({
        "task": "Implement user authentication",
        "plan": {"currentStepIndex": 2, "isComplete": false},
        "lastExecution": {
            "agent": "developer",
            "status": "success",
            "output": {
                "summary": "Login endpoint implemented. Created src/auth/login.ts with POST /login...",
                "filesModified": ["src/auth/login.ts"]
            },
            "tokens": {"input": 2100, "output": 1230, "total": 3330}
        },
        "history": [
            {"agent": "developer", "iteration": 2, "status": "success"},
            {"agent": "developer", "iteration": 3, "status": "failure"},
            {"agent": "developer", "iteration": 4, "status": "success"}
        ],
        "constraints": {"maxIterations": 50, "currentIteration": 5, "iterationsRemaining": 45}
    });
    check("example_3_evaluation", &built(&context, false), &example);
}
