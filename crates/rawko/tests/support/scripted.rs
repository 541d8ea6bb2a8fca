//! Runs through the SDK whose model follows a script.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::Path;
use std::sync::Arc;

use rawko::journal::{Journal, SessionStore, read};
use rawko::provider::{Script, Scripted};
use rawko::{Outcome, Rawko, RawkoBuilder, Run, RunEvent};
use rawko_core::agent::{Permissions, SandboxUse};
use serde_json::{Value, json};

/// A project whose model gives these answers, without an environment.
pub(crate) fn builder(project: &Path, replies: &Value) -> RawkoBuilder {
    let script: Script = serde_json::from_value(replies.clone()).unwrap();
    Rawko::builder().project(project).env(|_| None).provider(Arc::new(Scripted::new(script)))
}

/// Without a sandbox, which most of these tests are not about.
pub(crate) fn unconfined() -> Permissions {
    Permissions { sandbox: Some(SandboxUse::Off), ..Permissions::default() }
}

/// Carries a prepared run to its end, and gives all its events.
pub(crate) async fn finish(mut run: Run) -> (Outcome, Vec<RunEvent>) {
    let mut events = run.events();
    let outcome = run.await.unwrap();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event);
    }
    (outcome, seen)
}

/// The journal of the latest session.
pub(crate) fn journal_of(project: &Path) -> Journal {
    read(&SessionStore::of_project(project).find("last").unwrap()).unwrap()
}

/// Writes a file of the project.
pub(crate) fn write(project: &Path, name: &str, text: &str) {
    let path = project.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

pub(crate) fn select(mode: &str) -> Value {
    json!({"for": "select", "decision": {"decision": "SELECT_MODE", "mode": mode, "reason": "r"}})
}

pub(crate) fn evaluate(decision: Value) -> Value {
    json!({"for": "evaluate", "decision": decision})
}

pub(crate) fn complete() -> Value {
    evaluate(json!({"decision": "COMPLETE", "summary": "all done", "reason": "r"}))
}

pub(crate) fn tool(agent: &str, name: &str, input: Value) -> Value {
    json!({"for": agent, "tools": [{"name": name, "input": input}]})
}

pub(crate) fn report(agent: &str) -> Value {
    tool(agent, "Report", json!({"outcome": "success", "summary": "did it"}))
}
