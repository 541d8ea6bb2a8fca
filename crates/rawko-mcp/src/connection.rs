//! One connection to a server.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    GetPromptRequestParams, JsonObject, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ServerNotification, ServerPeerInfo, SubscriptionFilter,
};
use rmcp::service::{RunningService, ServiceError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::{AuthClient, IntoTransport, StreamableHttpClientTransport};
use rmcp::{ClientLifecycleMode, ClientServiceExt as _, RoleClient};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;

use crate::answer::Answer;
use crate::bounded::{BoundedLineReader, DisconnectReason};
use crate::call;
use crate::error::{McpError, short};
use crate::handler::Handler;
use crate::http::HttpServer;
use crate::mend::unusable;
use crate::oauth::{StoreCredentials, authorized};
use crate::pages::{MOST_ENTRIES, Pages};
use crate::person::AskPerson;

/// The most bytes of one message of a server.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// How a connection is used.
#[derive(Clone)]
pub struct Options {
    /// How long the server has until it is ready, and for a list.
    pub start: Duration,
    /// How long a call may take. What the server says of its progress starts this time anew, ten times at most.
    pub call: Duration,
    /// The most bytes of one message.
    pub most_bytes: usize,
    /// The version of this program, as servers see it.
    pub version: String,
    /// The revision that the server spoke before, where it is known: then nothing is tried out.
    pub known: Option<ProtocolRevision>,
    /// Asks a person what servers want to know. Without one the answer is no.
    pub person: Option<AskPerson>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(30),
            call: Duration::from_secs(120),
            most_bytes: MOST_BYTES,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            known: None,
            person: None,
        }
    }
}

/// A revision of the protocol, e.g. `2025-11-25`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProtocolRevision(pub String);

impl ProtocolRevision {
    /// Whether a connection of this revision begins with `initialize`.
    #[must_use]
    pub fn is_stateful(&self) -> bool {
        self.0.as_str() < ProtocolVersion::NO_INITIALIZE.as_str()
    }
}

/// A tool as its server lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedTool {
    /// Its name at the server.
    pub name: String,
    /// What the server says of it. May say anything.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
    /// Whether the server says that it only reads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads_only: bool,
}

/// The tools that a server lists.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tools {
    /// Those that can be used, sorted by name.
    pub usable: Vec<ListedTool>,
    /// The others.
    pub unusable: Vec<UnusableTool>,
}

/// A tool that a server lists and that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnusableTool {
    /// Its name at the server.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
}

/// A resource as its server lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceInfo {
    /// Its address at the server.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// What the server says of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// A prompt as its server lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptInfo {
    /// Its name.
    pub name: String,
    /// What the server says of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The names of its arguments; those that it needs end with `*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
}

/// A connection to a server that is ready. Dropping it ends it.
pub struct Connection {
    pub(crate) service: RunningService<RoleClient, Handler>,
    pub(crate) options: Options,
    fault: DisconnectReason,
    /// Waits for notifications of changed tools, where the revision has a request for that.
    listener: Option<AbortHandle>,
}

impl Connection {
    /// Connects to a server that reads lines from `writer` and writes lines to `reader`.
    ///
    /// # Errors
    /// Why the server is not ready.
    pub async fn over_stream<R, W>(reader: R, writer: W, options: Options) -> Result<Self, McpError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let fault = DisconnectReason::default();
        let reader = BoundedLineReader::new(reader, options.most_bytes, fault.clone());
        let transport = AsyncRwTransport::<RoleClient, _, _>::new(reader, writer);
        // The bound above comes first, and says why.
        let transport = transport.with_max_line_length(usize::MAX);
        Self::begin(transport, options, fault).await
    }

    /// Connects to a server over HTTP. `credentials` holds what an earlier [`login`](crate::login) gave.
    ///
    /// # Errors
    /// Why the server is not ready; [`McpError::LoginNeeded`] where it wants a login.
    pub async fn over_http(
        server: &HttpServer,
        credentials: Option<Arc<dyn StoreCredentials>>,
        options: Options,
    ) -> Result<Self, McpError> {
        let tried = Self::try_http(server, credentials.clone(), options.clone()).await;
        match tried {
            // Servers of the older revisions should refuse what they do not know. Some say yes to everything.
            Err(McpError::Protocol(_)) if options.known.is_none() => {
                let stateful = ProtocolRevision(ProtocolVersion::LATEST_WITH_INITIALIZE.as_str().to_owned());
                Self::try_http(server, credentials, Options { known: Some(stateful), ..options }).await
            }
            tried => tried,
        }
    }

    async fn try_http(
        server: &HttpServer,
        credentials: Option<Arc<dyn StoreCredentials>>,
        options: Options,
    ) -> Result<Self, McpError> {
        let (client, config) = (server.http_client()?, server.config(options.most_bytes)?);
        let manager = match credentials {
            Some(store) => within("the login", options.start, authorized(server, store)).await?,
            None => None,
        };
        match manager {
            Some(manager) => {
                let client = AuthClient::new(client, manager);
                let transport = StreamableHttpClientTransport::with_client(client, config);
                Self::begin(transport, options, DisconnectReason::default()).await
            }
            None => {
                let transport = StreamableHttpClientTransport::with_client(client, config);
                Self::begin(transport, options, DisconnectReason::default()).await
            }
        }
    }

    async fn begin<T, E, A>(transport: T, options: Options, fault: DisconnectReason) -> Result<Self, McpError>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let handler = Handler::new(options.person.clone(), options.version.clone());
        let begun = handler.serve_with_lifecycle(transport, lifecycle(options.known.as_ref()));
        let begun = tokio::time::timeout(options.start, begun).await;
        let service = match begun {
            Err(_) => {
                return Err(McpError::Timeout { what: "the first request".to_owned(), after: options.start });
            }
            Ok(Err(error)) => return Err(of_fault(&fault, McpError::starting(&error))),
            Ok(Ok(service)) => service,
        };
        let mut connection = Self { service, options, fault, listener: None };
        connection.listen();
        Ok(connection)
    }

    /// In revisions without a handshake, only a client that asked for notifications of changed tools gets them.
    fn listen(&mut self) {
        let Some(info) = self.service.peer_info() else { return };
        let announces =
            info.capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true));
        if self.version().is_stateful() || !announces {
            return;
        }
        let peer = self.service.peer().clone();
        let flag = self.service.service().flag();
        let task = tokio::spawn(async move {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            let Ok(mut subscription) = peer.listen(filter).await else { return };
            while let Ok(Some(notification)) = subscription.next().await {
                if matches!(notification, ServerNotification::ToolListChangedNotification(_)) {
                    flag.raise();
                }
            }
        });
        self.listener = Some(task.abort_handle());
    }

    fn info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.service.peer_info()
    }

    /// The revision that both speak.
    #[must_use]
    pub fn version(&self) -> ProtocolRevision {
        ProtocolRevision(
            self.info().map(|info| info.protocol_version.as_str().to_owned()).unwrap_or_default(),
        )
    }

    /// What the server calls itself, with its version. May say anything.
    #[must_use]
    pub fn server(&self) -> Option<String> {
        let info = self.info()?;
        let server = info.server_info.as_ref()?;
        Some(short(&format!("{} {}", server.name, server.version)))
    }

    /// Whether it offers resources, and whether it offers prompts.
    #[must_use]
    pub fn offers(&self) -> (bool, bool) {
        let info = self.info();
        let capabilities = info.as_ref().map(|info| &info.capabilities);
        (
            capabilities.is_some_and(|capabilities| capabilities.resources.is_some()),
            capabilities.is_some_and(|capabilities| capabilities.prompts.is_some()),
        )
    }

    /// Whether the connection has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.service.is_transport_closed() || self.fault.get().is_some()
    }

    /// Whether the server said that its tools changed since this was last asked.
    #[must_use]
    pub fn take_changed(&self) -> bool {
        self.service.service().take_changed()
    }

    /// The server's tools. One that cannot be used costs no other.
    ///
    /// # Errors
    /// If it does not list them, or more than 1,000.
    pub async fn tools(&self) -> Result<Tools, McpError> {
        if self.info().is_some_and(|info| info.capabilities.tools.is_none()) {
            return Ok(Tools::default());
        }
        let listed = within("tools/list", self.options.start, async {
            let mut pages = Pages::new();
            while let Some(cursor) = pages.next() {
                let page = self.service.list_tools(Some(page(cursor))).await.map_err(|e| self.failure(&e))?;
                pages.add(page.tools, page.next_cursor);
            }
            Ok(pages)
        });
        let listed = listed.await?;
        if !listed.is_whole() {
            return Err(McpError::Protocol(format!("it lists more than {MOST_ENTRIES} tools")));
        }
        let mut tools = Tools::default();
        for tool in listed.entries {
            if let Some(why) = unusable(&tool) {
                let (name, why) = (short(&tool.name), short(why));
                tools.unusable.push(UnusableTool { name, why });
                continue;
            }
            tools.usable.push(ListedTool {
                name: tool.name.into_owned(),
                description: tool
                    .description
                    .map(std::borrow::Cow::into_owned)
                    .or(tool.title)
                    .unwrap_or_default(),
                input_schema: Value::Object(tool.input_schema.as_ref().clone()),
                reads_only: tool.annotations.is_some_and(|hints| hints.read_only_hint == Some(true)),
            });
        }
        tools.usable.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(tools)
    }

    /// Calls a tool. `watch` gets what the server says of its progress. Dropping the future cancels the call.
    ///
    /// # Errors
    /// If the server did not answer in time, refused, or is gone. A tool that failed is no error here.
    pub async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
        watch: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Answer, McpError> {
        call::call(self, tool, arguments, watch).await
    }

    /// The server's resources.
    ///
    /// # Errors
    /// As [`Self::tools`].
    pub async fn resources(&self) -> Result<Vec<ResourceInfo>, McpError> {
        let listed = within("resources/list", self.options.start, async {
            let mut pages = Pages::new();
            while let Some(cursor) = pages.next() {
                let page =
                    self.service.list_resources(Some(page(cursor))).await.map_err(|e| self.failure(&e))?;
                pages.add(page.resources, page.next_cursor);
            }
            Ok(pages)
        });
        let listed = listed.await?;
        Ok(listed
            .entries
            .into_iter()
            .take(MOST_ENTRIES)
            .map(|resource| ResourceInfo {
                uri: resource.uri,
                name: resource.title.unwrap_or(resource.name),
                description: resource.description.unwrap_or_default(),
            })
            .collect())
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn read_resource(&self, uri: &str) -> Result<Answer, McpError> {
        within("resources/read", self.options.call, async {
            let read = self.service.read_resource(ReadResourceRequestParams::new(uri)).await;
            read.map(Answer::of_resource).map_err(|error| self.failure(&error))
        })
        .await
    }

    /// The server's prompts.
    ///
    /// # Errors
    /// As [`Self::tools`].
    pub async fn prompts(&self) -> Result<Vec<PromptInfo>, McpError> {
        let listed = within("prompts/list", self.options.start, async {
            let mut pages = Pages::new();
            while let Some(cursor) = pages.next() {
                let page =
                    self.service.list_prompts(Some(page(cursor))).await.map_err(|e| self.failure(&e))?;
                pages.add(page.prompts, page.next_cursor);
            }
            Ok(pages)
        });
        let listed = listed.await?;
        Ok(listed
            .entries
            .into_iter()
            .take(MOST_ENTRIES)
            .map(|prompt| PromptInfo {
                name: prompt.name,
                description: prompt.description.unwrap_or_default(),
                arguments: prompt
                    .arguments
                    .unwrap_or_default()
                    .into_iter()
                    .map(|argument| {
                        let mark = if argument.required == Some(true) { "*" } else { "" };
                        format!("{}{mark}", argument.name)
                    })
                    .collect(),
            })
            .collect())
    }

    /// The text of a prompt.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn prompt(&self, name: &str, arguments: JsonObject) -> Result<Answer, McpError> {
        within("prompts/get", self.options.call, async {
            let mut params = GetPromptRequestParams::new(name);
            params.arguments = Some(arguments).filter(|arguments| !arguments.is_empty());
            let got = self.service.get_prompt(params).await;
            got.map(Answer::of_prompt).map_err(|error| self.failure(&error))
        })
        .await
    }

    /// Ends the connection, and waits for that a moment.
    pub async fn close(mut self) {
        // Anything still open after that ends with this value.
        let _ = self.service.close_with_timeout(Duration::from_secs(2)).await;
    }

    /// An error, or why this side ended the connection.
    pub(crate) fn failure(&self, error: &ServiceError) -> McpError {
        of_fault(&self.fault, McpError::of(error))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.abort();
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("server", &self.server())
            .field("version", &self.version())
            .finish()
    }
}

/// How to begin with a server: as it spoke before, or by trying the newest first.
fn lifecycle(known: Option<&ProtocolRevision>) -> ClientLifecycleMode {
    match known {
        Some(version) if version.is_stateful() => ClientLifecycleMode::Initialize,
        Some(_) => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] },
        None => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
    }
}

fn of_fault(fault: &DisconnectReason, error: McpError) -> McpError {
    fault.get().map_or(error, |why| McpError::Closed { why })
}

fn page(cursor: Option<String>) -> PaginatedRequestParams {
    PaginatedRequestParams::default().with_cursor(cursor)
}

/// The result of `work`, if it comes in time.
pub(crate) async fn within<T>(
    what: &str,
    time: Duration,
    work: impl Future<Output = Result<T, McpError>>,
) -> Result<T, McpError> {
    let timeout = || McpError::Timeout { what: what.to_owned(), after: time };
    tokio::time::timeout(time, work).await.unwrap_or_else(|_| Err(timeout()))
}
