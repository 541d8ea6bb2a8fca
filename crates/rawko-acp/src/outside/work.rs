//! One task of an outside agent, from `initialize` to the end of its turn.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentBlock, ErrorCode as AcpErrorCode, Implementation, InitializeRequest, NewSessionRequest,
    PermissionOption, PermissionOptionKind, PromptRequest, PromptResponse, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome, SessionNotification,
    StopReason, TextContent, ToolKind,
};
use agent_client_protocol::{Agent, Client, Error, Lines};
use rawko::outside::{OutsideAct, OutsideEnd, OutsideStop, OutsideTask, OutsideWork};
use rawko::{ErrorCode, ErrorInfo, Usage};

use super::lines;
use super::message::Said;

/// How long a program may take until it has a session. `npx` may have to load it first.
const READY_WITHIN: Duration = Duration::from_secs(180);

/// What the program was at when something failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Beginning,
    Working,
}

/// Has the program at the other end of `line` carry out `task`.
pub(super) async fn work(line: tokio::net::UnixStream, task: OutsideTask) -> OutsideWork {
    let said = Arc::new(Mutex::new(Said::default()));
    let step = Arc::new(Mutex::new(Step::Beginning));
    let answered = converse(line, task, &said, &step).await;
    let step = *step.lock().unwrap_or_else(PoisonError::into_inner);
    let said = said.lock().unwrap_or_else(PoisonError::into_inner);
    let (end, usage) = match answered {
        Ok(answer) => (OutsideEnd::Stopped { reason: stop(answer.stop_reason) }, used(&answer)),
        Err(error) => (OutsideEnd::Failed { error: failure(&error, step) }, None),
    };
    let (text, cost_usd) = (said.text(), said.cost_usd);
    OutsideWork { end, text, asked: Vec::new(), usage, cost_usd, duration_ms: 0 }
}

async fn converse(
    line: tokio::net::UnixStream,
    task: OutsideTask,
    said: &Arc<Mutex<Said>>,
    step: &Arc<Mutex<Step>>,
) -> Result<PromptResponse, Error> {
    let (outgoing, incoming) = lines::split(line);
    let OutsideTask { prompt, directory, watcher } = task;
    let (heard, hears, calls) = (Arc::clone(said), Arc::clone(&watcher), Arc::clone(said));
    let step = Arc::clone(step);
    Client
        .v1()
        .name("rawko")
        .on_receive_notification(
            async move |notification: SessionNotification, _connection| {
                let text = heard.lock().unwrap_or_else(PoisonError::into_inner).take(&notification.update);
                if let Some(text) = text {
                    hears.said(&text);
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _connection| {
                let call = calls.lock().unwrap_or_else(PoisonError::into_inner).call(&request.tool_call);
                let allowed = watcher.may(act(call.kind), &call.title);
                responder.respond(RequestPermissionResponse::new(choice(&request.options, allowed)))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(Lines::new(outgoing, incoming), async move |connection: ConnectionTo<Agent>| {
            let version = env!("CARGO_PKG_VERSION");
            let ready = async {
                let hello = InitializeRequest::new(ProtocolVersion::V1)
                    .client_info(Implementation::new("rawko", version));
                let agent = connection.send_request(hello).block_task().await?;
                if agent.protocol_version != ProtocolVersion::V1 {
                    let message =
                        "it speaks another version of the Agent Client Protocol, and rawko speaks version 1";
                    return Err(Error::new(i32::from(AcpErrorCode::InvalidRequest), message));
                }
                connection.send_request(NewSessionRequest::new(directory)).block_task().await
            };
            let Ok(session) = tokio::time::timeout(READY_WITHIN, ready).await else {
                let message = format!("it had no session after {} seconds", READY_WITHIN.as_secs());
                return Err(Error::new(i32::from(AcpErrorCode::InternalError), message));
            };
            let session = session?;
            *step.lock().unwrap_or_else(PoisonError::into_inner) = Step::Working;
            let prompt = vec![ContentBlock::Text(TextContent::new(prompt))];
            connection.send_request(PromptRequest::new(session.session_id, prompt)).block_task().await
        })
        .await
}

fn act(kind: ToolKind) -> OutsideAct {
    match kind {
        ToolKind::Read | ToolKind::Search => OutsideAct::Read,
        ToolKind::Edit | ToolKind::Delete | ToolKind::Move => OutsideAct::Edit,
        ToolKind::Execute => OutsideAct::Execute,
        ToolKind::Fetch => OutsideAct::Fetch,
        _ => OutsideAct::Other,
    }
}

/// The option that says it for this once; nothing that the program remembers, if there is such an option.
fn choice(options: &[PermissionOption], allowed: bool) -> RequestPermissionOutcome {
    let wanted = if allowed {
        [PermissionOptionKind::AllowOnce, PermissionOptionKind::AllowAlways]
    } else {
        [PermissionOptionKind::RejectOnce, PermissionOptionKind::RejectAlways]
    };
    let option = wanted.iter().find_map(|kind| options.iter().find(|option| option.kind == *kind));
    match option {
        Some(option) => {
            RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.option_id.clone()))
        }
        None => RequestPermissionOutcome::Cancelled,
    }
}

fn stop(reason: StopReason) -> OutsideStop {
    match reason {
        StopReason::EndTurn => OutsideStop::EndTurn,
        StopReason::MaxTokens => OutsideStop::MaxTokens,
        StopReason::MaxTurnRequests => OutsideStop::MaxTurns,
        StopReason::Refusal => OutsideStop::Refusal,
        _ => OutsideStop::Cancelled,
    }
}

fn used(answer: &PromptResponse) -> Option<Usage> {
    let usage = answer.usage.as_ref()?;
    Some(Usage {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens.saturating_add(usage.thought_tokens.unwrap_or(0)),
        cache_read_tokens: usage.cached_read_tokens.unwrap_or(0),
        cache_write_tokens: usage.cached_write_tokens.unwrap_or(0),
        ..Usage::default()
    })
}

/// What went wrong, in words. Another attempt helps against some of it.
fn failure(error: &Error, step: Step) -> ErrorInfo {
    if error.code == AcpErrorCode::AuthRequired {
        let message = "it wants a login. Name the variable of its key under `acp.key`, and set that variable";
        return ErrorInfo::new(ErrorCode::AuthenticationFailed, message);
    }
    let when = match step {
        Step::Beginning => "before it had a session",
        Step::Working => "while it worked",
    };
    let detail = error.data.as_ref().map(|data| match data {
        serde_json::Value::String(text) => format!(" ({text})"),
        data => format!(" ({data})"),
    });
    let message = format!("{when}: {}{}", error.message, detail.unwrap_or_default());
    ErrorInfo::new(ErrorCode::ToolFailure, rawko_core::text::truncate(&message, 1_000))
}
