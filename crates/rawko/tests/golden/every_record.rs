//! One record of every kind, with every field that it can have: written out in full, so that a new variant or field does
//! not compile until it is thought of here.

use rawko::journal::{ForkedFrom, JournalHeader, StepRecord};
use rawko_core::agent::Importance;
use rawko_core::agent::outside::{
    OutsideAct, OutsideAsked, OutsideEnd, OutsideStop, OutsideUse, OutsideWork,
};
use rawko_core::approval::{Approval, ApprovalQuestion};
use rawko_core::facts::{CommandRun, DiffStat, OtherCheck, Proof, TestCounts, TreeInspection, Verification};
use rawko_core::hook::{HookOccasion, HookReply};
use rawko_core::hosted::{HostedBlock, HostedResult, HostedWire};
use rawko_core::integrity::{
    Baseline, ChangedChecks, CheckChange, CheckChangeKind, Doubt, DoubtReason, Integrity, IntegrityResult,
    OriginalRun,
};
use rawko_core::machine::{Decision, State};
use rawko_core::memory::{Draft, DraftKind, MemoryUse, Recalled, RecalledMemory, Unmet, UseOutcome};
use rawko_core::message::{Content, Image, Message, Role, StopReason, ToolCall};
use rawko_core::request::Purpose;
use rawko_core::session::{
    Compaction, DecisionPoint, DecisionRecord, DecisionSource, Effect, EffectAnswer, EffectId, Event,
    KeptMemory, Landing, LandingConflict, LandingEnd, LimitKind, Lost, LostJob, LostWork, Note, Outcome,
    Override, Stamped, Status, TimerPurpose,
};
use rawko_core::setup::{AgentSetup, RunLimits, Setup, VerifySetup};
use rawko_core::tool::{JobChanges, Refusal, SeenFile, ToolAccess, ToolOutcome};
use rawko_core::usage::Usage;
use rawko_core::{ErrorCode, ErrorInfo, FailedWork, Timestamp};
use serde_json::json;

pub(crate) fn header() -> JournalHeader {
    JournalHeader {
        format: rawko::journal::FORMAT,
        rawko: "0.1.0".into(),
        session: "records".into(),
        created_at: Timestamp(1_750_000_000_000),
        task: "every \"record\"\n".into(),
        config_digest: "0123456789abcdef".repeat(4),
        degraded: Vec::new(),
        confined: None,
        seal: None,
        forked_from: Some(ForkedFrom { session: "another".into(), record: 12, lost: lost().work }),
        traceparent: None,
    }
}

pub(crate) fn events() -> Vec<Stamped> {
    let mut events = vec![
        Event::TaskStarted { task: "every record".into(), setup: Box::new(setup()), shared_events: 0 },
        Event::Answered {
            effect: EffectId(3),
            answer: EffectAnswer::ModelFailed { error: error(), duration_ms: 12, usage: Some(usage()) },
        },
        Event::Answered { effect: EffectId(4), answer: EffectAnswer::ToolFinished { outcome: outcome() } },
        Event::Answered {
            effect: EffectId(5),
            answer: EffectAnswer::CheckpointTaken { checkpoint: "c0ffee".into() },
        },
        Event::Answered {
            effect: EffectId(6),
            answer: EffectAnswer::CheckpointFailed { message: "no room".into() },
        },
        Event::Answered {
            effect: EffectId(12),
            answer: EffectAnswer::MemoriesRecalled { recalled: recalled() },
        },
        Event::Answered {
            effect: EffectId(13),
            answer: EffectAnswer::MemoryKept { kept: KeptMemory::Written { path: "a.md".into() } },
        },
        Event::Answered {
            effect: EffectId(13),
            answer: EffectAnswer::MemoryKept { kept: KeptMemory::NotedOn { path: "a.md".into() } },
        },
        Event::Answered {
            effect: EffectId(13),
            answer: EffectAnswer::MemoryKept { kept: KeptMemory::Refused { message: "full".into() } },
        },
        Event::Answered {
            effect: EffectId(9),
            answer: EffectAnswer::TreeInspected { inspection: inspection() },
        },
        Event::Answered {
            effect: EffectId(10),
            answer: EffectAnswer::TreeInspectionFailed { message: "no git".into() },
        },
        Event::Answered {
            effect: EffectId(11),
            answer: EffectAnswer::VerificationFinished { verification: verification() },
        },
        Event::TaskContinued {
            task: "document it".into(),
            setup: Box::new(setup()),
            changed_files: vec!["a.rs".into()],
            lost: lost(),
            ended: vec![],
        },
        Event::TaskTakenUp {
            limits: RunLimits { max_cost_usd: Some(20.0), ..RunLimits::default() },
            changed_files: vec!["a.rs".into()],
            verify: Some(VerifySetup {
                commands: vec!["true".into()],
                timeout_ms: 1,
                ..VerifySetup::default()
            }),
            lost: lost(),
        },
        Event::SessionResumed {
            limits: Some(RunLimits { max_tokens: Some(9_000), ..RunLimits::default() }),
            changed_files: vec!["a.txt".into(), "b/ü.txt".into()],
            verify: Some(rawko_core::setup::VerifySetup {
                commands: vec!["make test".into()],
                timeout_ms: 1,
                found: false,
                tests: vec!["checks/**".into()],
                changed_checks: ChangedChecks::Deny,
            }),
            lost: lost(),
        },
        Event::Answered { effect: EffectId(7), answer: EffectAnswer::TimerFired },
        Event::Answered { effect: EffectId(14), answer: EffectAnswer::HooksAnswered { reply: hook_reply() } },
        Event::Answered { effect: EffectId(8), answer: EffectAnswer::EffectLost },
        Event::OverrideRequested { command: Override::ForceAgent { agent: "tester".into() }, request: None },
        Event::OverrideRequested { command: Override::SkipStep, request: None },
        Event::OverrideRequested { command: Override::Reset, request: None },
        Event::OverrideRequested { command: Override::Retry, request: None },
        Event::OverrideRequested {
            command: Override::Pause,
            request: Some("20261122-094512-417-x7f2k".into()),
        },
        Event::OverrideRequested { command: Override::Go, request: None },
        Event::OverrideRequested { command: Override::Say { text: "use ü\n".into() }, request: None },
        Event::CancelRequested { reason: "Ctrl-C".into() },
        Event::FinalTreeInspected { inspection: inspection() },
        Event::WorkLanded { landing: landing() },
        Event::RanBeside { sessions: vec!["20260123-094000-123-abcde".into()] },
        Event::AgentsReloaded { agents: [("developer".to_owned(), agent())].into() },
    ];
    events.extend(every_approval().map(|approval| Event::Answered {
        effect: EffectId(9),
        answer: EffectAnswer::ApprovalAnswered { approval },
    }));
    events.extend(every_outside_work().into_iter().map(|work| Event::Answered {
        effect: EffectId(10),
        answer: EffectAnswer::OutsideAgentEnded { work: Box::new(work) },
    }));
    let stops = [
        StopReason::EndTurn,
        StopReason::ToolUse,
        StopReason::MaxTokens,
        StopReason::Refusal,
        StopReason::ContextWindow,
        StopReason::Paused,
    ];
    events.extend(stops.map(|stop_reason| Event::Answered {
        effect: EffectId(2),
        answer: EffectAnswer::ModelReplied {
            message: message(),
            usage: usage(),
            stop_reason,
            duration_ms: 900,
            cached: false,
        },
    }));
    for event in &events {
        // A new kind of event belongs into the list above, and changes the format.
        match event {
            Event::TaskStarted { .. }
            | Event::Answered { answer: EffectAnswer::ModelReplied { .. }, .. }
            | Event::Answered { answer: EffectAnswer::ModelFailed { .. }, .. }
            | Event::Answered { answer: EffectAnswer::ToolFinished { .. }, .. }
            | Event::Answered { answer: EffectAnswer::OutsideAgentEnded { .. }, .. }
            | Event::Answered { answer: EffectAnswer::ApprovalAnswered { .. }, .. }
            | Event::Answered { answer: EffectAnswer::CheckpointTaken { .. }, .. }
            | Event::Answered { answer: EffectAnswer::CheckpointFailed { .. }, .. }
            | Event::Answered { answer: EffectAnswer::TreeInspected { .. }, .. }
            | Event::Answered { answer: EffectAnswer::MemoriesRecalled { .. }, .. }
            | Event::Answered { answer: EffectAnswer::MemoryKept { .. }, .. }
            | Event::Answered { answer: EffectAnswer::TreeInspectionFailed { .. }, .. }
            | Event::Answered { answer: EffectAnswer::VerificationFinished { .. }, .. }
            | Event::TaskContinued { .. }
            | Event::TaskTakenUp { .. }
            | Event::SessionResumed { .. }
            | Event::Answered { answer: EffectAnswer::TimerFired, .. }
            | Event::Answered { answer: EffectAnswer::HooksAnswered { .. }, .. }
            | Event::Answered { answer: EffectAnswer::EffectLost, .. }
            | Event::OverrideRequested { .. }
            | Event::CancelRequested { .. }
            | Event::FinalTreeInspected { .. }
            | Event::WorkLanded { .. }
            | Event::RanBeside { .. }
            | Event::AgentsReloaded { .. } => {}
        }
    }
    (1..).zip(events).map(|(n, event)| Stamped { at: Timestamp(1_750_000_000_000 + n), event }).collect()
}

fn landing() -> Landing {
    Landing {
        end: LandingEnd::Landed,
        written: vec!["a.rs".into()],
        removed: vec!["b.rs".into()],
        merged: vec!["a.rs".into()],
        conflicts: vec![LandingConflict { path: "c.rs".into(), why: "both changed it".into() }],
        left: vec!["large.bin (larger than 100 MB)".into()],
        branch: Some("rawko/one".into()),
        problem: Some("no room".into()),
    }
}

fn every_outside_work() -> Vec<OutsideWork> {
    let asked =
        [OutsideAct::Read, OutsideAct::Edit, OutsideAct::Execute, OutsideAct::Fetch, OutsideAct::Other]
            .map(|act| OutsideAsked { act, title: "a title".into(), allowed: true, rule: "a rule".into() });
    let stops = [
        OutsideStop::EndTurn,
        OutsideStop::MaxTokens,
        OutsideStop::MaxTurns,
        OutsideStop::Refusal,
        OutsideStop::Cancelled,
    ];
    let stopped = stops.map(|reason| OutsideWork {
        end: OutsideEnd::Stopped { reason },
        text: "I did it.".into(),
        asked: asked.to_vec(),
        usage: Some(usage()),
        cost_usd: Some(0.25),
        duration_ms: 7_000,
    });
    stopped.into_iter().chain([OutsideWork::failed(error())]).collect()
}

pub(crate) fn step() -> StepRecord {
    let purposes = [
        Purpose::Select,
        Purpose::Evaluate,
        Purpose::Agent { name: "developer".into() },
        Purpose::Summarize { agent: "developer".into() },
        Purpose::Remember { agent: "developer".into() },
    ];
    let mut effects: Vec<Effect> = purposes
        .into_iter()
        .map(|purpose| Effect::CallModel {
            id: EffectId(1),
            purpose,
            provider: "claude".into(),
            model: "m".into(),
            conversation: 2,
            messages: 3,
            digest: "d1".into(),
            cache_key: Some("k1".into()),
        })
        .collect();
    for input in [json!({"file_path": "a"}), json!({"long": "x".repeat(600)})] {
        effects.push(Effect::RunTool {
            id: EffectId(2),
            agent: "developer".into(),
            call: ToolCall {
                id: "call-1".into(),
                name: "Write".into(),
                input,
                invalid_input: None,
                withheld: None,
            },
            access: ToolAccess::Mutating,
            rule: "a rule".into(),
            grants: every_refusal(),
        });
    }
    effects.push(Effect::RunOutsideAgent {
        id: EffectId(10),
        agent: "coder".into(),
        prompt: "Do it.".into(),
        access: ToolAccess::Mutating,
    });
    effects.push(Effect::AskUser { id: EffectId(9), question: Box::new(question()) });
    effects.push(Effect::TakeCheckpoint { id: EffectId(3), iteration: 1 });
    effects.push(Effect::Recall {
        id: EffectId(7),
        agent: "developer".into(),
        task: "fix it".into(),
        step: Some("write".into()),
    });
    for kind in [DraftKind::Fact, DraftKind::Avoid] {
        effects.push(Effect::Remember {
            id: EffectId(8),
            agent: "developer".into(),
            iteration: 2,
            draft: Box::new(draft(kind)),
            files: vec!["a.txt".into()],
        });
    }
    effects.push(Effect::InspectTree { id: EffectId(5), iteration: 1 });
    for occasion in [
        HookOccasion::SessionStart { continued: true },
        HookOccasion::UserPromptSubmit { prompt: "fix it".into() },
        HookOccasion::SubagentStop { agent: "developer".into(), output: "done".into() },
        HookOccasion::Stop { output: "done".into(), again: true },
    ] {
        effects.push(Effect::RunHooks { id: EffectId(10), occasion });
    }
    effects.push(Effect::Verify {
        id: EffectId(6),
        commands: vec!["cargo test".into()],
        others: vec!["ruff check .".to_owned()],
        timeout_ms: 900_000,
        tests: vec!["checks/**".into()],
        changed_checks: ChangedChecks::Allow,
        seen_red: false,
        found: true,
        adopted: true,
    });
    for purpose in [
        TimerPurpose::Backoff,
        TimerPurpose::Retry,
        TimerPurpose::ExecutionDeadline,
        TimerPurpose::AgentBudget,
        TimerPurpose::RunDeadline,
    ] {
        effects.push(Effect::StartTimer { id: EffectId(4), after_ms: 1_000, purpose });
    }
    effects.push(Effect::Abandon { id: EffectId(4) });
    for status in [Status::Verified, Status::Claimed, Status::Failed, Status::Limited, Status::Cancelled] {
        let outcome = Outcome {
            proof: Some(Proof::Regression),
            doubt: (status == Status::Claimed).then(|| Doubt {
                reason: DoubtReason::ChecksChanged,
                message: "the run changed what checks it".into(),
            }),
            status,
            summary: "how it ended".into(),
            agent_summary: Some("all done".into()),
            iterations: 3,
            usage: usage(),
            cost_usd: Some(0.125),
            shared: None,
            files_modified: vec!["a.txt".into()],
            more_files_modified: 7,
            runs_later: vec![".envrc".into()],
            files_modified_partial: true,
            duration_ms: 5_000,
            limit: Some(LimitKind::Stalled),
            verification: Some(verification()),
            error: Some(error()),
            earlier_tasks: vec![],
            beside: vec!["20260123-094000-123-abcde".into()],
            landing: (status == Status::Verified).then(landing),
            outside: vec![OutsideUse {
                agent: "coder".into(),
                program: "claude-code-acp".into(),
                key: Some("ANTHROPIC_API_KEY".into()),
            }],
        };
        effects.push(Effect::Finish { outcome: Box::new(outcome) });
    }
    for effect in &effects {
        match effect {
            Effect::CallModel { .. }
            | Effect::RunTool { .. }
            | Effect::RunOutsideAgent { .. }
            | Effect::AskUser { .. }
            | Effect::TakeCheckpoint { .. }
            | Effect::InspectTree { .. }
            | Effect::Recall { .. }
            | Effect::Remember { .. }
            | Effect::Verify { .. }
            | Effect::RunHooks { .. }
            | Effect::StartTimer { .. }
            | Effect::Abandon { .. }
            | Effect::Finish { .. } => {}
        }
    }
    StepRecord::of(&effects, &notes())
}

fn notes() -> Vec<Note> {
    let decisions = [
        Decision::Blocked { reason: "no compiler".into() },
        Decision::Continue { reason: "r".into() },
        Decision::Retry { reason: "r".into() },
        Decision::Complete { summary: "s".into() },
        Decision::SelectMode { mode: "developer".into(), reason: "r".into() },
    ];
    let sources = [
        DecisionSource::Llm,
        DecisionSource::Rule,
        DecisionSource::Fallback,
        DecisionSource::Human,
        DecisionSource::Cache,
    ];
    let mut notes: Vec<Note> = decisions
        .into_iter()
        .zip(sources)
        .map(|(decision, source)| {
            Note::DecisionMade(Box::new(DecisionRecord {
                point: DecisionPoint::Evaluate,
                decision,
                source,
                input: Some(json!({"task": "t", "numbers": [1, 2.5, -3, null, true]})),
                calls: vec![EffectId(1), EffectId(2)],
                rejected: vec!["no JSON".into()],
                rule: Some("planFirst".into()),
                instead_of: Some(Decision::Continue { reason: "r".into() }),
                cache_key: Some("k1".into()),
                latency_ms: 40,
                usage: usage(),
            }))
        })
        .collect();
    let states = [
        State::Idle,
        State::Selecting,
        State::Executing,
        State::Evaluating,
        State::ErrorHandling,
        State::Complete,
        State::Failed,
        State::Cancelled,
    ];
    notes.extend(states.map(|to| Note::StateChanged { from: State::Selecting, to, iteration: 2 }));
    notes.push(Note::Warned { message: "w".into() });
    notes.push(Note::Steered {
        command: Override::Say { text: "t".into() },
        request: Some("r".into()),
        ignored: None,
    });
    notes.push(Note::Steered {
        command: Override::Go,
        request: None,
        ignored: Some("it is not paused".into()),
    });
    notes.push(Note::RunPaused);
    notes.push(Note::RunUnpaused { after_ms: 5 });
    notes.push(Note::ApprovalRequested(Box::new(question())));
    notes.extend(every_approval().map(|approval| Note::ApprovalAnswered {
        agent: "developer".into(),
        call_id: "call-1".into(),
        digest: "d1ge57".into(),
        approval,
    }));
    notes.push(Note::CheckpointTaken { iteration: 1, checkpoint: "c0ffee".into() });
    notes.push(Note::MemoriesRecalled {
        agent: "developer".into(),
        iteration: 2,
        memories: recalled().memories,
        unmet: recalled().unmet,
    });
    let uses = [UseOutcome::Success, UseOutcome::Failure, UseOutcome::Unknown];
    let uses = uses.map(|outcome| MemoryUse { path: "a.md".into(), cited: true, touched: true, outcome });
    notes.push(Note::MemoriesUsed { agent: "developer".into(), iteration: 2, uses: uses.into() });
    notes.push(Note::MemoryKept {
        agent: "developer".into(),
        title: "t".into(),
        kept: KeptMemory::Written { path: "a.md".into() },
    });
    notes.push(Note::VerificationFinished { verification: verification() });
    for how in [Compaction::ResultsCut, Compaction::Summarized] {
        notes.push(Note::ConversationCompacted {
            agent: "developer".into(),
            how,
            before: 190_000,
            after: 90_000,
        });
    }
    notes.push(Note::ToolCalled {
        agent: "developer".into(),
        call: ToolCall {
            id: "c".into(),
            name: "Bash".into(),
            input: json!({"command": "rm"}),
            invalid_input: None,
            withheld: None,
        },
        allowed: false,
        rule: "never".into(),
    });
    for note in &notes {
        // Those that are not in the list above are not recorded.
        match note {
            Note::DecisionMade(_)
            | Note::StateChanged { .. }
            | Note::Warned { .. }
            | Note::Steered { .. }
            | Note::RunPaused
            | Note::RunUnpaused { .. }
            | Note::ApprovalRequested(_)
            | Note::ApprovalAnswered { .. }
            | Note::CheckpointTaken { .. }
            | Note::VerificationStarted { .. }
            | Note::MemoriesRecalled { .. }
            | Note::MemoriesUsed { .. }
            | Note::MemoryKept { .. }
            | Note::VerificationFinished { .. }
            | Note::ConversationCompacted { .. }
            | Note::CachePrefixChanged { .. }
            | Note::ToolCalled { .. }
            | Note::AgentStarted { .. }
            | Note::ToolFinished { .. }
            | Note::PlanUpdated { .. }
            | Note::TokensUsed { .. } => {}
        }
    }
    notes
}

fn recalled() -> Recalled {
    let memory = RecalledMemory {
        path: "a.md".into(),
        title: "t".into(),
        score: 42.5,
        files: vec!["src/*.rs".into()],
    };
    let unmet = Unmet { no_place: 3, too_weak: 2, too_unimportant: 1 };
    Recalled { block: "## Background".into(), memories: vec![memory], unmet, problems: vec!["p".into()] }
}

fn draft(kind: DraftKind) -> Draft {
    Draft {
        learned: true,
        title: "t".into(),
        when_to_use: vec!["testing".into()],
        importance: Importance::High,
        kind,
        tags: vec!["tag".into()],
        paths: vec!["a.txt".into()],
        body: "b".into(),
    }
}

fn inspection() -> TreeInspection {
    let diff = DiffStat { files: 2, insertions: 12, deletions: 3, names: vec!["a.txt +12 -3".into()] };
    TreeInspection {
        tree: "abc123".into(),
        execution: diff.clone(),
        run: diff,
        files: vec!["a.txt".into()],
        execution_files: vec!["a.txt".into(), "b/ü.txt".into()],
        patch: Some("diff --git a/a.txt b/a.txt\n".into()),
        runs_later: vec![".envrc".into()],
        outside: Some("0f".into()),
    }
}

fn verification() -> Verification {
    let run = CommandRun {
        command: "cargo test".into(),
        exit_code: Some(101),
        output: "1 failed".into(),
        duration_ms: 800,
        counts: Some(TestCounts { executed: 3, failed: 1, skipped: 2 }),
        failures: vec!["tests::adds".to_owned()],
        unavailable: Some("`tox` is missing".to_owned()),
        timed_out: true,
    };
    let integrity = Integrity {
        advice: None,
        result: IntegrityResult::OriginalsFail,
        changed: vec![CheckChange { path: "tests/a.py".into(), how: CheckChangeKind::Deleted }],
        more: 7,
    };
    Verification {
        adopted: true,
        stale: false,
        nothing_ran: false,
        runs: vec![run.clone()],
        tree: Some("abc123".into()),
        tree_changed: true,
        integrity: Some(integrity),
        baseline: Some(Baseline { runs: vec![run.clone()], tree: "abc122".into() }),
        original: Some(OriginalRun { runs: vec![run.clone()], problem: Some("took too long".into()) }),
        flaky: vec![run.clone()],
        new_tests: vec!["tests::adds".into()],
        others: vec![OtherCheck { now: run.clone(), before: Some(run), names_changes: true }],
    }
}

fn message() -> Message {
    let call = |id: &str, invalid_input: Option<&str>| {
        Content::ToolUse(ToolCall {
            id: id.into(),
            name: "Bash".into(),
            input: json!({"command": "true", "nested": {"b": [1, 1.5, "x"], "a": null}}),
            invalid_input: invalid_input.map(str::to_owned),
            withheld: None,
        })
    };
    let content = vec![
        Content::Thinking { thinking: "hm".into(), signature: Some("proof".into()) },
        Content::Thinking { thinking: String::new(), signature: None },
        Content::RedactedThinking { data: "b3BhcXVl".into() },
        Content::text("text with \u{1b}, \"quotes\", \\ and – 日本"),
        call("a", None),
        call("b", Some("{\"a\": ")),
        Content::ToolResult {
            tool_use_id: "a".into(),
            content: "answer".into(),
            is_error: true,
            images: vec![image()],
        },
        Content::Hosted(HostedBlock {
            wire: HostedWire::Messages,
            block: r#"{"type":"server_tool_use","id":"s"}"#.into(),
            call: Some(ToolCall {
                id: "s".into(),
                name: "WebSearch".into(),
                input: json!({"query": "q"}),
                invalid_input: None,
                withheld: None,
            }),
            result: Some(HostedResult { call_id: "s".into(), content: "1. T".into(), is_error: false }),
        }),
    ];
    Message { role: Role::Assistant, content }
}

fn image() -> Image {
    Image { media_type: "image/png".into(), data: "iVBORw0KGgo=".into() }
}

fn hook_reply() -> HookReply {
    HookReply {
        blocked: Some("the changelog is missing".into()),
        context: vec!["deploys are frozen".into()],
        warnings: vec!["a hook ended with exit code 1".into()],
        may_have_changed: true,
    }
}

fn outcome() -> ToolOutcome {
    ToolOutcome {
        content: "line\nline\n".into(),
        is_error: true,
        error_code: Some(ErrorCode::ToolFailure),
        exit_code: Some(-1),
        pipe_status: vec![1, 0],
        files_modified: vec!["a.txt".into()],
        named_files_changed: vec!["b.txt".into()],
        files_seen: vec![SeenFile { path: "a.txt".into(), digest: "ab".repeat(32) }],
        jobs: Some(Box::new(JobChanges { started: Some(3), ended: vec![1, 2] })),
        refused: vec![
            Refusal::Host { host: "example.com".into() },
            Refusal::Read { path: "/a".into() },
            Refusal::Write { path: "/b".into() },
        ],
        would_allow: Some("add `- make` under permissions.run".into()),
        hooks: Some(Box::new(hook_reply())),
        images: vec![image()],
        duration_ms: 77,
    }
}

fn error() -> ErrorInfo {
    ErrorInfo {
        code: ErrorCode::RateLimited,
        message: "slow down".into(),
        provider: Some("claude".into()),
        status: Some(429),
        request_id: Some("req-1".into()),
        retry_after_ms: Some(1_500),
        attempts: std::num::NonZeroU16::new(5),
        tool: Some("Bash".into()),
        work: Some(Box::new(FailedWork {
            command: Some("make test".into()),
            exit_code: Some(2),
            attempts: Some(3),
        })),
    }
}

fn usage() -> Usage {
    Usage {
        input_tokens: 1,
        output_tokens: 2,
        cache_read_tokens: 3,
        cache_write_tokens: 4,
        web_searches: 5,
        ..Usage::default()
    }
}

/// Configuration is data: it is read from the form that people write.
fn agent() -> AgentSetup {
    serde_json::from_value(json!({
        "source": "built in",
        "model": {"provider": "claude", "model": "m", "maxTokens": 100, "temperature": 0.5, "extra": {"k": [1]}},
        "config": {
            "name": "developer", "displayName": "Dev", "role": "implement", "whenToUse": ["always", "never"], "systemPrompt": "p",
            "tools": {"allowed": ["Read"], "blocked": ["Bash"],
                "bashFilter": {"allowedCommands": ["ls"], "blockedPatterns": ["rm"]}},
            "transitions": {"onSuccess": "a", "onFailure": "b", "onMaxIterations": "c",
                "custom": [{"condition": "x", "target": "y"}]},
            "limits": {"maxIterations": 4, "timeout": 1000, "maxTokens": 50},
            "provider": {"name": "claude", "model": "m"},
            "memory": {"maxInjected": 2, "minImportance": "high", "scoreBonus": 0.25},
            "permissions": {"read": ["/"], "write": [], "deny": ["x"], "net": ["h"], "env": ["E"], "run": ["ls"]},
            "skills": ["pdf"],
            "metadata": {"tags": ["t"]},
        },
        "permissions": {"read": ["/"]},
        "confined": true,
    }))
    .unwrap()
}

fn lost() -> Lost {
    Lost {
        jobs: vec![LostJob { agent: "developer".into(), job: 2, command: "sleep 9 &".into() }],
        work: Some(LostWork {
            after_record: 4,
            calls: vec!["Bash {\"command\":\"make\"}".into()],
            more_calls: 5,
        }),
    }
}

fn setup() -> Setup {
    serde_json::from_value(json!({
        "agents": {"developer": agent()},
        "defaultAgent": "developer",
        "firstAgent": "developer",
        "arbiter": {
            "mode": "rules",
            "model": {"provider": "claude", "model": "m", "maxTokens": 100},
            "templates": {"select": "s", "evaluate": "e"},
        },
        "fallback": [{"provider": "openai", "model": "n", "maxTokens": 100}],
        "limits": {"maxIterations": 1, "maxConsecutiveFailures": 2, "maxTokens": 3, "maxCostUsd": 4.5, "maxDurationMs": 6},
        "retry": {"patienceMs": 7},
        "prices": {"m": {"input": 1.0, "output": 2.0, "cacheRead": 0.1, "cacheWrite": 1.25,
            "longPrompt": {"aboveTokens": 200_000, "inputFactor": 2.0, "outputFactor": 1.5}}},
        "tools": [{"name": "Read", "description": "d", "inputSchema": {"type": "object"}, "access": "read_only"}],
        "checkpoints": true,
        "place": {"directory": "/p", "platform": "linux", "git": true, "skills": [
            {"name": "pdf", "description": "Fills forms.", "folder": ".agents/skills/pdf", "digest": "d"},
        ]},
    }))
    .unwrap()
}

fn every_refusal() -> Vec<Refusal> {
    vec![
        Refusal::Command,
        Refusal::Host { host: "example.com".into() },
        Refusal::Read { path: "/etc/hosts".into() },
        Refusal::Write { path: "/srv/x/".into() },
    ]
}

fn every_approval() -> [Approval; 4] {
    let by = || "terminal".to_owned();
    [Approval::Allowed { by: by() }, Approval::Denied { by: by() }, Approval::Expired, Approval::Unattended]
}

fn question() -> ApprovalQuestion {
    ApprovalQuestion {
        digest: "d1ge57".into(),
        agent: "developer".into(),
        call: ToolCall {
            id: "call-1".into(),
            name: "Bash".into(),
            input: json!({"command": "make"}),
            invalid_input: None,
            withheld: None,
        },
        needs: every_refusal(),
        why: "`make` is not listed".into(),
        until: Timestamp(1_000_000),
    }
}
