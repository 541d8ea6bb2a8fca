//! Watches a run, pauses it after its first tool call, tells its agent something, and then stops it.
//!
//! ```text
//! cargo run --example programmatic_control
//! ```
//!
//! A scripted provider stands in for a model, so no key is needed.

use std::sync::Arc;

use rawko::provider::{Script, Scripted};
use rawko::{Note, Rawko, RunEvent, Status};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    rawko::tools::run_helper_if_asked();
    let script: Script = serde_json::from_value(json!([
        { "for": "select", "decision": { "decision": "SELECT_MODE", "mode": "developer", "reason": "first" } },
        { "for": "developer", "tools": [{ "name": "Glob", "input": { "pattern": "**/*" } }] },
        { "for": "developer", "text": "I will never finish.", "delayMs": 600_000 },
    ]))?;
    let rawko = Rawko::builder().project(".").provider(Arc::new(Scripted::new(script))).build()?;

    let mut run = rawko.run("Count the files")?;
    let mut events = run.events();
    let control = run.control();

    // The watcher runs beside the run, on this thread or another. `control` can also force an agent, skip a step or retry.
    let watcher = tokio::spawn(async move {
        while let Some(event) = events.next().await {
            match event {
                RunEvent::Note(Note::StateChanged { to, .. }) => println!("state: {to}"),
                RunEvent::Note(Note::ToolFinished { .. }) => {
                    control.pause();
                    control.say("Only the sources count.");
                    control.go();
                }
                RunEvent::Note(Note::Steered { command, ignored: None, .. }) => {
                    println!("steered: {}", command.word());
                }
                RunEvent::Note(Note::RunUnpaused { .. }) => control.cancel("one call is enough"),
                RunEvent::Note(Note::TokensUsed { cost_usd: Some(cost), .. }) if cost > 1.0 => {
                    control.cancel("too expensive");
                }
                _ => {}
            }
        }
    });

    let outcome = run.await?;
    watcher.await?;
    println!("{}", outcome.summary);
    assert_eq!(outcome.status, Status::Cancelled);
    Ok(())
}
