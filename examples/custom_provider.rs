//! Answers the questions of a run with a provider that is written in Rust. Here it answers from fixed rules; a real one
//! would call a model.
//!
//! ```text
//! cargo run --example custom_provider
//! ```

use std::sync::Arc;

use futures_util::stream;
use rawko::{
    Content, EventStream, Message, ModelRequest, Provider, ProviderEvent, ProviderSession, Purpose, Rawko,
    Role, StopReason, ToolCall, Usage,
};
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
        Box::new(Conversation)
    }
}

/// One conversation. A real provider keeps here what it has already encoded.
struct Conversation;

impl ProviderSession for Conversation {
    fn send(&mut self, request: ModelRequest) -> EventStream<'_> {
        let message = answer(&request.purpose);
        let calls_tool = message.tool_calls().next().is_some();
        let stop_reason = if calls_tool { StopReason::ToolUse } else { StopReason::EndTurn };
        let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
        // Text and tool calls may be streamed before; a stream ends with exactly one `MessageDone` or `Error`.
        let done = ProviderEvent::MessageDone { message, usage, stop_reason };
        Box::pin(stream::iter([done]))
    }
}

/// The arbiter's questions are answered in JSON, an agent's by calling `Report`.
fn answer(purpose: &Purpose) -> Message {
    match purpose {
        Purpose::Select => Message::assistant(
            json!({ "decision": "SELECT_MODE", "mode": "planner", "reason": "there is no plan" }).to_string(),
        ),
        Purpose::Evaluate => Message::assistant(
            json!({ "decision": "COMPLETE", "summary": "planned", "reason": "there is a plan" }).to_string(),
        ),
        Purpose::Agent { name } => Message {
            role: Role::Assistant,
            content: vec![Content::ToolUse(ToolCall {
                id: "call-1".to_owned(),
                name: "Report".to_owned(),
                input: json!({ "outcome": "success", "summary": format!("{name} is done") }),
                invalid_input: None,
                withheld: None,
            })],
        },
        Purpose::Remember { .. } | Purpose::Summarize { .. } => Message::assistant("nothing"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), rawko::Error> {
    rawko::tools::run_helper_if_asked();
    let rawko = Rawko::builder().project(".").provider(Arc::new(Rules)).build()?;
    let outcome = rawko.run("Plan the release")?.await?;
    println!("{}: {}", outcome.status.as_str(), outcome.summary);
    Ok(())
}
