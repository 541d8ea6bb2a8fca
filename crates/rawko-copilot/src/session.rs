//! One conversation, held by a session of the CLI.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use github_copilot_sdk::handler::DenyAllHandler;
use github_copilot_sdk::rpc::HandlePendingToolCallRequest;
use github_copilot_sdk::session::Session;
use github_copilot_sdk::subscription::EventSubscription;
use github_copilot_sdk::tool::try_tool_parameters;
use github_copilot_sdk::types::{
    DeferMode, InfiniteSessionConfig, LargeToolOutputConfig, MemoryConfiguration, ProviderConfig,
    SessionConfig, SystemMessageConfig, Tool, ToolSearchConfig,
};
use rawko_core::error::{ErrorCode, ErrorInfo};
use rawko_core::message::Message;
use rawko_core::request::ModelRequest;
use rawko_core::tool::ToolSpec;
use rawko_provider::{EventStream, Events, ProviderEvent, ProviderSession};
use serde_json::{Map, Value};

use crate::cli::Cli;
use crate::history::{Held, Next, first_message};
use crate::provider::Shared;
use crate::turn::{End, Turn};

/// Events that may wait to be read. The CLI reports several for each piece of text.
const BUFFERED: usize = 8_192;

/// How much time the CLI gets to create a session or to take a message.
const REQUEST: Duration = Duration::from_secs(60);

/// The only field of `extra:` that the CLI has a place for.
const EFFORT: &str = "reasoning_effort";

/// One conversation.
pub(crate) struct CopilotSession {
    shared: Arc<Shared>,
    live: Option<Live>,
}

impl CopilotSession {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, live: None }
    }
}

impl ProviderSession for CopilotSession {
    fn send(&mut self, request: ModelRequest) -> EventStream<'_> {
        let asking =
            Asking { of: self, request: Some(request), answering: None, out: Events::new(), is_over: false };
        futures_util::stream::unfold(asking, |mut asking| async move {
            asking.next().await.map(|event| (event, asking))
        })
        .boxed()
    }
}

/// What a session of the CLI was created with. Another one needs another session.
#[derive(PartialEq)]
struct Head {
    model: String,
    system: Arc<str>,
    tools: Arc<[ToolSpec]>,
    extra: Map<String, Value>,
}

/// A session of the CLI.
struct Live {
    cli: Arc<Cli>,
    session: Arc<Session>,
    events: EventSubscription,
    head: Head,
    held: Held,
    /// Whether the CLI works on an answer.
    is_busy: bool,
}

impl Drop for Live {
    /// Ends the session and what it is doing, and has its files removed.
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (cli, session, is_busy) = (Arc::clone(&self.cli), Arc::clone(&self.session), self.is_busy);
        runtime.spawn(async move {
            if is_busy {
                let _ = session.abort().await;
            }
            let _ = session.disconnect().await;
            let _ = cli.client.delete_session(session.id()).await;
        });
    }
}

/// A request under way.
struct Asking<'a> {
    of: &'a mut CopilotSession,
    request: Option<ModelRequest>,
    answering: Option<Answering>,
    out: Events,
    is_over: bool,
}

/// An answer under way.
struct Answering {
    live: Live,
    turn: Turn,
    messages: Vec<Arc<Message>>,
    until: Instant,
}

impl Asking<'_> {
    async fn next(&mut self) -> Option<ProviderEvent> {
        loop {
            if let Some(mut event) = self.out.pop_front() {
                if let ProviderEvent::Retrying { error, .. } = &mut event {
                    *error = self.of.shared.finished(error.clone());
                }
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            if let Some(request) = self.request.take() {
                match self.begin(request).await {
                    Ok(answering) => self.answering = Some(answering),
                    Err(error) => self.fail(error, None),
                }
            } else {
                self.advance().await;
            }
        }
    }

    fn fail(&mut self, error: ErrorInfo, usage: Option<rawko_core::usage::Usage>) {
        self.is_over = true;
        let error = self.of.shared.finished(error);
        self.out.push_back(ProviderEvent::Error { error, usage });
    }

    /// Sends what is new to the session that holds the conversation, or the whole to a new one.
    async fn begin(&mut self, request: ModelRequest) -> Result<Answering, ErrorInfo> {
        let total = Duration::from_millis(self.of.shared.settings.timeouts.total_ms);
        let turn = Turn::answer_to(&request.messages, &request.tools);
        let head = Head {
            model: request.model.clone(),
            system: Arc::clone(&request.system),
            tools: Arc::clone(&request.tools),
            extra: request.extra.clone(),
        };
        let live = self.of.live.take().filter(|live| live.head == head && live.cli.is_alive());
        let known = live.and_then(|live| Some((live.held.next(&request.messages)?, live)));
        let (next, mut live) = match known {
            Some(known) => known,
            None => {
                let live = Live::create(&self.of.shared, &request, head).await?;
                (Next::Message(first_message(&request.messages)), live)
            }
        };
        live.is_busy = true;
        tokio::time::timeout(REQUEST, live.tell(next)).await.unwrap_or_else(|_| Err(late()))?;
        let messages = Arc::unwrap_or_clone(request.messages);
        Ok(Answering { live, turn, messages, until: Instant::now() + total })
    }

    /// Waits for the next event of the session.
    async fn advance(&mut self) {
        let Some(answering) = self.answering.as_mut() else {
            self.is_over = true;
            return;
        };
        let idle = Duration::from_millis(self.of.shared.settings.timeouts.idle_ms);
        let left = answering.until.saturating_duration_since(Instant::now());
        let event = tokio::time::timeout(idle.min(left), answering.live.events.next()).await;
        let end = match event {
            Ok(Some(Ok(event))) if event.agent_id.as_deref().is_some_and(|id| !id.is_empty()) => None,
            Ok(Some(Ok(event))) => answering.turn.take(&event.event_type, &event.data, &mut self.out),
            Ok(Some(Err(lagged))) => Some(answering.turn.failed(ErrorInfo::new(
                ErrorCode::Unknown,
                format!("events of the Copilot CLI were lost: {lagged}"),
            ))),
            Ok(None) => {
                let error = answering.live.cli.gone("its connection closed in the middle of an answer");
                Some(answering.turn.failed(error))
            }
            Err(_) => Some(answering.turn.failed(ErrorInfo::new(
                ErrorCode::Timeout,
                format!("the Copilot CLI sent nothing for {} s", idle.min(left).as_secs()),
            ))),
        };
        if let Some(end) = end {
            self.end(end);
        }
    }

    fn end(&mut self, end: End) {
        let Some(Answering { mut live, mut messages, .. }) = self.answering.take() else { return };
        match end {
            End::Failed { error, usage } => self.fail(*error, usage),
            End::Done { event, pending } => {
                self.is_over = true;
                if let (Some(pending), ProviderEvent::MessageDone { message, .. }) = (pending, &event) {
                    messages.push(Arc::new(message.clone()));
                    live.is_busy = false;
                    live.held = Held { messages, pending };
                    self.of.live = Some(live);
                }
                self.out.push_back(event);
            }
        }
    }
}

impl Live {
    async fn create(shared: &Shared, request: &ModelRequest, head: Head) -> Result<Self, ErrorInfo> {
        let cli = shared.cli().await?;
        let config = config(shared, &cli, request)?;
        let refused = |error: github_copilot_sdk::Error| cli.failed(&error);
        let prepared = cli.client.prepare_session(config).map_err(refused)?;
        let events = prepared.subscribe();
        let started = tokio::time::timeout(REQUEST, prepared.start()).await;
        let session = Arc::new(started.map_err(|_| late())?.map_err(refused)?);
        Ok(Self { cli, session, events, head, held: Held::default(), is_busy: false })
    }

    async fn tell(&self, next: Next) -> Result<(), ErrorInfo> {
        let refused = |error: github_copilot_sdk::Error| self.cli.failed(&error);
        match next {
            Next::Message(text) => self.session.send(text).await.map(drop).map_err(refused),
            Next::Results(results) => {
                for one in results {
                    let request = HandlePendingToolCallRequest {
                        request_id: one.request.into(),
                        result: Some(one.result),
                        error: None,
                    };
                    self.session.rpc().tools().handle_pending_tool_call(request).await.map_err(refused)?;
                }
                Ok(())
            }
        }
    }
}

fn late() -> ErrorInfo {
    let message = format!("the Copilot CLI did not take the request within {} s", REQUEST.as_secs());
    ErrorInfo::new(ErrorCode::Timeout, message)
}

/// A session with rawko's prompt and rawko's tools, and nothing else.
fn config(shared: &Shared, cli: &Cli, request: &ModelRequest) -> Result<SessionConfig, ErrorInfo> {
    let wrong = |message: String| ErrorInfo::new(ErrorCode::ConfigError, message);
    let tools = request.tools.iter().map(tool).collect::<Result<Vec<_>, _>>();
    let tools = tools.map_err(|error| wrong(format!("a tool's schema is not an object: {error}")))?;
    let mut config = SessionConfig::default()
        .with_model(request.model.as_str())
        .with_client_name("rawko")
        .with_streaming(true)
        .with_system_message(SystemMessageConfig::new().with_mode("replace").with_content(&*request.system))
        .with_tools(tools)
        // None of the CLI's own, none of MCP servers.
        .with_available_tools(["custom:*"])
        .with_permission_handler(Arc::new(DenyAllHandler))
        .with_working_directory(cli.work.clone())
        .with_event_buffer_capacity(BUFFERED)
        .with_enable_config_discovery(false)
        .with_skip_custom_instructions(true)
        .with_enable_on_demand_instruction_discovery(false)
        .with_enable_file_hooks(false)
        .with_enable_host_git_operations(false)
        .with_enable_session_store(false)
        .with_enable_skills(false)
        .with_included_builtin_skills(Vec::<String>::new())
        .with_custom_agents_local_only(true)
        .with_enable_experimental_mode(false)
        .with_coauthor_enabled(false)
        .with_manage_schedule_enabled(false)
        .with_enable_session_telemetry(false)
        .with_skip_embedding_retrieval(true)
        .with_embedding_cache_storage("in-memory")
        .with_mcp_oauth_token_storage("in-memory")
        .with_memory(MemoryConfiguration::disabled())
        // rawko compacts its conversations, bounds its results and lists its tools by itself.
        .with_infinite_sessions(InfiniteSessionConfig::new().with_enabled(false))
        .with_large_output(LargeToolOutputConfig::new().with_enabled(false))
        .with_tool_search(ToolSearchConfig::new().with_enabled(false));
    for (field, value) in &request.extra {
        match value {
            Value::String(effort) if field == EFFORT => {
                config = config.with_reasoning_effort(effort.as_str());
            }
            _ => {
                return Err(wrong(format!(
                    "provider.{}.extra: the Copilot CLI cannot send the field `{field}`; it takes `{EFFORT}` alone",
                    shared.settings.name
                )));
            }
        }
    }
    if let Some(own) = &shared.settings.own_server {
        let provider: ProviderConfig =
            serde_json::from_value(own.exposed(request.max_tokens)).map_err(|_| {
                wrong("the variables COPILOT_PROVIDER_… are not valid: `copilot help providers`".into())
            })?;
        config = config.with_provider(provider);
    }
    Ok(config)
}

/// A tool that the CLI declares to the model and never runs: it has no handler.
fn tool(spec: &ToolSpec) -> Result<Tool, serde_json::Error> {
    let mut tool = Tool::new(spec.name.as_str())
        .with_description(spec.description.as_str())
        .with_overrides_built_in_tool(true)
        // The policy of rawko decides.
        .with_skip_permission(true)
        .with_defer(DeferMode::Never);
    tool.parameters = try_tool_parameters(spec.input_schema.clone())?;
    Ok(tool)
}
