//! Gives the agents a tool that is written in Rust.
//!
//! ```text
//! cargo run --example custom_tool
//! ```
//!
//! A scripted provider stands in for a model, so no key is needed.

use std::sync::Arc;

use rawko::provider::{Script, Scripted};
use rawko::{BoxFuture, Note, Rawko, RunEvent, Tool, ToolAccess, ToolContext, ToolOutcome, ToolSpec};
use serde_json::{Value, json};

struct CountRows {
    spec: ToolSpec,
}

impl CountRows {
    fn new() -> Self {
        let spec = ToolSpec {
            name: "CountRows".to_owned(),
            description: "Counts the rows of a table of the application's database.".to_owned(),
            // Arguments are checked against this schema before `run` sees them.
            input_schema: json!({
                "type": "object",
                "properties": { "table": { "type": "string", "description": "Name of the table" } },
                "required": ["table"],
                "additionalProperties": false,
            }),
            // Read-only calls of one turn run at the same time.
            access: ToolAccess::ReadOnly,
        };
        Self { spec }
    }
}

impl Tool for CountRows {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, input: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move { ToolOutcome::ok(format!("{} has 42 rows", input["table"])) })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    rawko::tools::run_helper_if_asked();
    let script: Script = serde_json::from_value(json!([
        { "for": "select", "decision": { "decision": "SELECT_MODE", "mode": "analyst", "reason": "it knows the tables" } },
        { "for": "analyst", "tools": [{ "name": "CountRows", "input": { "table": "users" } }] },
        { "for": "analyst", "tools": [{ "name": "Report", "input": { "outcome": "success", "summary": "42 users" } }] },
        { "for": "evaluate", "decision": { "decision": "COMPLETE", "summary": "42 users", "reason": "counted" } },
    ]))?;
    let rawko = Rawko::builder()
        .project(".")
        .provider(Arc::new(Scripted::new(script)))
        .tool(Arc::new(CountRows::new()))
        // An agent has to be allowed to use the tool.
        .agent("name: analyst\nsystemPrompt: You answer questions about the database.\ntools: { allowed: [CountRows] }\n")
        .build()?;

    let mut run = rawko.run("How many users are there?")?;
    let mut events = run.events();
    let outcome = run.await?;
    while let Some(event) = events.next().await {
        if let RunEvent::Note(Note::ToolFinished { tool, outcome, .. }) = event {
            println!("{tool}: {}", outcome.content);
        }
    }
    println!("{}", outcome.summary);
    println!("{}", outcome.agent_summary.unwrap_or_default());
    Ok(())
}
