//! A provider in less than 60 lines: `cargo run --example custom_provider`. It answers by rules; a real one asks a model.

use std::sync::Arc;

use futures_util::stream;
use rawko::{Content, EventStream, Message, ModelRequest, Provider, ProviderEvent, ProviderSession};
use rawko::{Purpose, Rawko, Role, StopReason, ToolCall, Usage};
use serde_json::json;

struct Rules;

impl Provider for Rules {
    fn name(&self) -> &str {
        "rules"
    }
    fn default_model(&self) -> &str {
        "rules-1"
    }
    fn open(&self) -> Box<dyn ProviderSession> {
        Box::new(Self)
    }
}

impl ProviderSession for Rules {
    fn send(&mut self, request: ModelRequest) -> EventStream<'_> {
        let (message, stop_reason) = answer(&request.purpose);
        let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
        // Text and tool calls may be streamed before; a stream ends with exactly one `MessageDone` or `Error`.
        Box::pin(stream::iter([ProviderEvent::MessageDone { message, usage, stop_reason }]))
    }
}

/// The arbiter's questions are answered in JSON, an agent's by calling `Report`.
fn answer(purpose: &Purpose) -> (Message, StopReason) {
    let text = match purpose {
        Purpose::Select => r#"{"decision": "SELECT_MODE", "mode": "planner", "reason": "there is no plan"}"#,
        Purpose::Evaluate => r#"{"decision": "COMPLETE", "summary": "planned", "reason": "there is a plan"}"#,
        Purpose::Agent { name } => {
            let input = json!({ "outcome": "success", "summary": format!("{name} is done") });
            let (id, name) = ("call-1".to_owned(), "Report".to_owned());
            let call = ToolCall { id, name, input, invalid_input: None, withheld: None };
            let content = vec![Content::ToolUse(call)];
            return (Message { role: Role::Assistant, content }, StopReason::ToolUse);
        }
        Purpose::Remember { .. } | Purpose::Summarize { .. } => "nothing",
    };
    (Message::assistant(text), StopReason::EndTurn)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), rawko::Error> {
    rawko::tools::run_helper_if_asked();
    let rawko = Rawko::builder().project(".").provider(Arc::new(Rules)).build()?;
    let outcome = rawko.run("Plan the release")?.await?;
    println!("{}", outcome.summary);
    println!("{}", outcome.agent_summary.unwrap_or_default());
    Ok(())
}
