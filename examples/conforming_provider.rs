//! A provider of your own, held to the contract: `cargo run --example conforming_provider`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream;
use rawko::provider::{conformance, scripted::ScriptPlayer};
use rawko::{Content, ErrorInfo, EventStream, Message, ModelRequest, Provider};
use rawko::{ProviderEvent, ProviderSession, Role, StopReason, ToolCall};

/// Yours would call a model. This one plays the replies that the checks ask for.
struct Mine(Arc<Mutex<ScriptPlayer>>);

impl Provider for Mine {
    fn name(&self) -> &str {
        "mine"
    }
    fn default_model(&self) -> &str {
        "mine-1"
    }
    fn open(&self) -> Box<dyn ProviderSession> {
        Box::new(Self(Arc::clone(&self.0)))
    }
}

impl ProviderSession for Mine {
    fn send(&mut self, request: ModelRequest) -> EventStream<'_> {
        let failed = |error| {
            let error = ErrorInfo { provider: Some("mine".to_owned()), ..error };
            ProviderEvent::Error { error, usage: None }
        };
        Box::pin(stream::once(async move { self.answer(&request).await.unwrap_or_else(failed) }))
    }
}

impl Mine {
    async fn answer(&self, request: &ModelRequest) -> Result<ProviderEvent, ErrorInfo> {
        let reply = self.0.lock().unwrap_or_else(PoisonError::into_inner).take("developer")?;
        tokio::time::sleep(Duration::from_millis(reply.delay_ms)).await;
        if let Some(error) = reply.error {
            return Err(ErrorInfo::new(error.code, error.message));
        }
        let thinking = Content::Thinking { thinking: reply.thinking, signature: None };
        let mut content = vec![thinking, Content::text(reply.text)];
        let stop_reason = if reply.tools.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        for (n, call) in reply.tools.into_iter().enumerate() {
            // What is not JSON goes back to the model as it was written.
            let invalid_input = call.input.as_str().map(str::to_owned);
            let input = if invalid_input.is_some() { serde_json::json!({}) } else { call.input };
            let id = format!("call_{}_{n}", request.messages.len());
            let call = ToolCall { id, name: call.name, input, invalid_input, withheld: None };
            content.push(Content::ToolUse(call));
        }
        let message = Message { role: Role::Assistant, content };
        Ok(ProviderEvent::MessageDone { message, usage: reply.usage, stop_reason })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mine = |script| Mine(Arc::new(Mutex::new(ScriptPlayer::new(script))));
    let broken = conformance::check(|script| conformance::Subject::new(mine(script))).await;
    broken.iter().for_each(|violation| println!("broken: {violation}"));
    println!("{} rules of the contract are broken", broken.len());
}
