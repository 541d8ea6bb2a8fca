//! A run that is configured in code, watched by its snapshots, suspended, and resumed.

use std::sync::Arc;

use rawko::provider::{Script, Scripted};
use rawko::types::Price;
use rawko::{Error, Rawko, Status};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    rawko::tools::run_helper_if_asked();
    let script: Script = serde_json::from_value(json!([
        { "for": "select", "decision": { "decision": "SELECT_MODE", "mode": "writer", "reason": "it writes" } },
        { "for": "writer", "tools": [{ "name": "UpdatePlan", "input": { "steps": [{ "description": "write" }] } }] },
        { "for": "writer", "tools": [{ "name": "Report", "input": { "outcome": "success", "summary": "written" } }],
          "delayMs": 2_000, "repeat": true },
        { "for": "evaluate", "decision": { "decision": "COMPLETE", "summary": "written", "reason": "it says so" } },
    ]))?;
    let rawko = Rawko::builder()
        .project(".")
        // As in `.rawko/config.yaml` and `.rawko/agents/writer.yaml`.
        .config("agents: { builtin: false }\nconstraints: { maxIterations: 5 }\n")
        .agent(json!({ "name": "writer", "systemPrompt": "You write.", "tools": { "allowed": ["Read", "Write"] } }))
        .price("scripted", Price { input: 1.0, output: 5.0, ..Price::default() })
        .isolated_from_user()
        .trusted(true)
        .provider(Arc::new(Scripted::new(script)))
        .build()?;

    let run = rawko.run("Write a greeting")?;
    let (control, mut snapshots) = (run.control(), run.snapshots());
    let watcher = tokio::spawn(async move {
        while snapshots.changed().await.is_ok() {
            let snapshot = snapshots.borrow_and_update().clone();
            println!("{} in iteration {}", snapshot.state, snapshot.iteration);
            if snapshot.plan.is_some() {
                control.suspend();
            }
        }
    });
    let Err(Error::Suspended { session }) = run.await else { return Err("it was not suspended".into()) };
    watcher.await?;
    println!("suspended");

    // Later, in this process or another; `rawko resume` does the same.
    let outcome = rawko.resume(Some(&session))?.await?;
    println!("{}", outcome.summary);
    assert_eq!(outcome.status, Status::Claimed);
    Ok(())
}
