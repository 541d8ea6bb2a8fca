//! A recorded run, and what each reporter shows of it.

use rawko::RunEvent;
use rawko_core::Timestamp;
use rawko_core::facts::Verification;
use serde_json::{Value, json};

use super::{PlainReporter, Reporter, Summary, Verbosity};
use crate::console::Console;
use crate::output::{Clock, Paint};

/// A clock that stands still at the beginning of the run.
pub(super) fn clock() -> Clock {
    Clock::standing(|| Timestamp(1_795_338_000_000))
}

/// One of every event, with text that tries to take over the terminal.
pub(super) fn events() -> Vec<RunEvent> {
    let usage =
        json!({"inputTokens": 1200, "outputTokens": 340, "cacheReadTokens": 3600, "cacheWriteTokens": 0});
    let lines = json!([
        {"type": "session_started", "session": "20261122-090000-000-abcde", "task": "fix\nthe \u{1b}]0;title\u{7}bug",
         "at": 1_795_338_000_000_u64, "agents": ["developer", "planner"], "journal": "/p/journal.jsonl", "resumed": false,
         "degraded": ["programs are not confined"]},
        {"type": "state_changed", "from": "idle", "to": "selecting", "iteration": 0},
        {"type": "text_delta", "agent": "select", "text": "{\"decision\":"},
        {"type": "tokens_used", "effect": 1, "agent": "select", "usage": usage, "total": usage, "costUsd": 0.0123},
        {"type": "decision_made", "point": "select", "source": "llm", "latencyMs": 120, "usage": {},
         "decision": {"type": "SELECT_MODE", "mode": "planner", "reason": "no plan yet"}},
        {"type": "state_changed", "from": "selecting", "to": "executing", "iteration": 1},
        {"type": "agent_started", "agent": "planner", "iteration": 1, "continued": false},
        {"type": "memories_recalled", "agent": "planner", "iteration": 1, "memories": [
            {"path": "a.md", "title": "Tests need\nport \u{1b}[2J7070", "score": 40.0},
            {"path": "mail/b.md", "title": "Mail is queued", "score": 12.5}]},
        {"type": "text_delta", "agent": "planner", "text": "I look\nat the \u{1b}[3"},
        {"type": "text_delta", "agent": "planner", "text": "1mcode\u{1b}[0"},
        {"type": "text_delta", "agent": "planner", "text": "m \u{202e}first."},
        {"type": "tool_called", "agent": "planner", "call": {"id": "c1", "name": "Read", "input": {"file_path": "a\u{1b}[2J.rs"}},
         "allowed": true, "rule": "tools.allowed"},
        {"type": "tool_called", "agent": "planner", "call": {"id": "c2", "name": "Write", "input": {"file_path": "b.rs", "content": "x"}},
         "allowed": false, "rule": "tools.allowed"},
        {"type": "tool_finished", "agent": "planner", "callId": "c1", "tool": "Read",
         "outcome": {"content": "1\tfn\r\n2\t\u{9b}31mx", "isError": false,
         "filesModified": [], "durationMs": 3}},
        {"type": "tool_finished", "agent": "planner", "callId": "c2", "tool": "Write",
         "outcome": {"content": "Agent `planner` may not use it.",
         "isError": true, "filesModified": [], "durationMs": 0}},
        {"type": "plan_updated", "agent": "planner", "plan": {"currentStepIndex": 0, "isComplete": false, "steps": [
            {"index": 1, "description": "fix\nit", "status": "in_progress", "agentUsed": "planner"},
            {"index": 2, "description": "test it", "status": "pending"}]}},
        {"type": "tool_called", "agent": "planner", "call": {"id": "c3", "name": "Report", "input": {"outcome": "success", "summary": "There is a plan."}},
         "allowed": true, "rule": "control tool"},
        {"type": "tool_finished", "agent": "planner", "callId": "c3", "tool": "Report",
         "outcome": {"content": "Noted.", "isError": false,
         "filesModified": [], "durationMs": 0}},
        {"type": "memories_used", "agent": "planner", "iteration": 1, "uses": [
            {"path": "a.md", "cited": true, "touched": false, "outcome": "success"},
            {"path": "mail/b.md", "cited": false, "touched": false, "outcome": "success"}]},
        {"type": "memory_kept", "agent": "planner", "title": "The build needs\n\u{1b}[31mnode", "kept": {"as": "written", "path": "node.md"}},
        {"type": "memory_kept", "agent": "planner", "title": "Mail is queued", "kept": {"as": "refused", "message": "disk full"}},
        {"type": "decision_made", "point": "evaluate", "source": "fallback", "latencyMs": 0, "usage": {},
         "decision": {"type": "SELECT_MODE", "mode": "developer", "reason": "planner names developer as its successor"}},
        {"type": "agent_started", "agent": "developer", "iteration": 2, "continued": true},
        {"type": "tool_called", "agent": "developer", "call": {"id": "c4", "name": "Bash", "input": {"command": "cargo test"}},
         "allowed": true, "rule": "tools.allowed"},
        {"type": "tool_finished", "agent": "developer", "callId": "c4", "tool": "Bash",
         "outcome": {"content": "running\n1 test failed\n[exit code 101]",
         "isError": false, "exitCode": 101, "filesModified": ["Cargo.lock"], "durationMs": 2345}},
        {"type": "warned", "message": "overloaded: busy; attempt 2 follows"},
        {"type": "waiting", "reason": "rate_limited", "message": "slow\n\u{1b}[2Jdown", "provider": "claude",
         "until": "2026-11-22T09:10:00Z", "afterMs": 600_000, "attempt": 2},
        {"type": "error", "error": {"code": "network_error", "message": "the connection broke", "provider": "claude", "status": 502,
         "requestId": "req_1"}},
        {"type": "conversation_compacted", "agent": "developer\u{7}", "how": "results_cut", "before": 120_000, "after": 60_400},
        {"type": "verification_started", "commands": ["cargo test", "npm\u{1b}[2J test"]},
        {"type": "verification_finished", "verification": {"tree": "0123456789abcdef", "runs": [
            {"command": "cargo test", "exitCode": 0, "output": "ok\n", "durationMs": 2000},
            {"command": "npm\u{1b}[2J test", "exitCode": 1, "output": "1 failed: \u{1b}]0;x\u{7}sum\n", "durationMs": 300}]}},
        {"type": "verification_finished", "verification": {"runs": [
            {"command": "cargo test", "output": "[timed out: the command did not end within 900 s]", "durationMs": 900_000}]}},
        {"type": "verification_finished", "verification": {"tree": "0123456789abcdef", "treeChanged": true,
            "runs": [{"command": "make test", "exitCode": 0, "output": "", "durationMs": 5}]}},
        {"type": "verification_finished", "verification": {"tree": "copy-0123456789abcdef",
            "runs": [{"command": "make test", "exitCode": 0, "output": "", "durationMs": 5}]}},
        finished("failed", json!({"code": "network_error", "message": "the connection broke", "provider": "claude"})),
    ]);
    serde_json::from_value(lines).expect("events")
}

fn finished(status: &str, error: Value) -> Value {
    let mut event = json!({
        "type": "session_finished", "status": status, "summary": "It went\nas it \u{1b}[31mwent.",
        "agentSummary": "So they \u{1b}[31msay.", "session": "20261122-090000-000-abcde",
        "iterations": 2, "costUsd": 0.0123, "filesModified": ["a.rs", "b\u{7}.rs"], "durationMs": 65_000,
        "usage": {"inputTokens": 1200, "outputTokens": 340, "cacheReadTokens": 3600, "cacheWriteTokens": 0},
    });
    if let (Value::Object(map), false) = (&mut event, error.is_null()) {
        map.insert("error".to_owned(), error);
    }
    event
}

fn plain(verbosity: Verbosity) -> String {
    let mut out = Vec::new();
    let mut reporter = PlainReporter::new(Paint::new(false), verbosity, clock(), &mut out);
    for event in events() {
        reporter.event(&event).unwrap();
    }
    reporter.notice("stopping").unwrap();
    reporter.close().unwrap();
    drop(reporter);
    String::from_utf8(out).unwrap()
}

#[test]
fn lines_without_a_terminal() {
    let shown = plain(Verbosity::Normal);
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "no control codes: {shown:?}");
    insta::assert_snapshot!(shown);
}

#[test]
fn lines_with_every_detail() {
    insta::assert_snapshot!(plain(Verbosity::Verbose));
}

#[test]
fn the_end_is_reported_truly() {
    let auth = json!({"code": "authentication_failed", "message": "no", "provider": "claude"});
    let mut shown = String::new();
    let proof = |changed: bool, tree: Option<&str>| {
        let run =
            |command: &str| json!({"command": command, "exitCode": 0, "output": "ok\n", "durationMs": 5});
        json!({"runs": [run("cargo test"), run("npm \u{1b}[1mtest")], "tree": tree, "treeChanged": changed})
    };
    let weakened = || {
        let mut proof = proof(false, Some("0123456789abcdef"));
        let changed =
            json!([{"path": "tests/a.py", "how": "deleted"}, {"path": "python3", "how": "shadowed"}]);
        proof["integrity"] = json!({"result": "originals_fail", "changed": changed});
        proof["baseline"] =
            json!({"runs": [{"command": "x", "exitCode": 1, "output": "", "durationMs": 1}], "tree": "t"});
        proof
    };
    for (status, verification) in [
        ("verified", proof(false, Some("0123456789abcdef"))),
        ("claimed", proof(true, Some("0123456789abcdef"))),
        ("claimed", proof(false, None)),
        ("claimed", weakened()),
    ] {
        let mut event = finished(status, Value::Null);
        if let Value::Object(fields) = &mut event {
            let proven: Verification = serde_json::from_value(verification.clone()).unwrap();
            fields.insert("doubt".to_owned(), json!(proven.doubt()));
            fields.insert("verification".to_owned(), verification);
        }
        let event: RunEvent = serde_json::from_value(event).unwrap();
        let summary = Summary::of(&event, None, false).unwrap().text(&Console::plain());
        shown.push_str(&format!("{summary}---\n"));
    }
    for (status, error, dry_run) in [
        ("claimed", Value::Null, false),
        ("failed", auth, false),
        ("limited", Value::Null, false),
        ("limited", Value::Null, true),
        ("cancelled", Value::Null, false),
    ] {
        let event: RunEvent = serde_json::from_value(finished(status, error)).unwrap();
        let summary = Summary::of(&event, Some("/p/journal.jsonl".to_owned()), dry_run).unwrap();
        shown.push_str(&format!("{}---\n", summary.text(&Console::plain())));
    }
    insta::assert_snapshot!(shown);
}
