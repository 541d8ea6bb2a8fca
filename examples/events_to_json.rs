//! Prints every event of a run as one line of JSON, as `rawko --output stream-json` does.
//!
//! ```text
//! cargo run --example events_to_json
//! ```
//!
//! A scripted provider stands in for a model, so no key is needed.

use std::sync::Arc;

use rawko::Rawko;
use rawko::provider::{Script, Scripted};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    rawko::tools::run_helper_if_asked();
    let script: Script = serde_json::from_value(json!([
        { "for": "select", "decision": { "decision": "SELECT_MODE", "mode": "planner", "reason": "first" } },
        { "for": "planner", "tools": [{ "name": "Report", "input": { "outcome": "success", "summary": "planned" } }] },
        { "for": "evaluate", "decision": { "decision": "COMPLETE", "summary": "planned", "reason": "there is a plan" } },
    ]))?;
    let rawko = Rawko::builder().project(".").provider(Arc::new(Scripted::new(script))).build()?;

    let mut run = rawko.run("Plan the release")?;
    let mut events = run.events();
    let printer = tokio::spawn(async move {
        while let Some(event) = events.next().await {
            println!("{}", json!(event));
        }
    });
    run.await?;
    printer.await?;
    Ok(())
}
