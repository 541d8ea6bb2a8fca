//! Handles the requests and notifications that servers send to the client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::model::{
    CancelledNotificationParam, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationCapability, ErrorData, FormElicitationCapability, Implementation,
    InputRequest, InputRequests, InputResponses, JsonObject, ProgressNotificationParam, ProtocolVersion,
    TASKS_EXTENSION_ID, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use serde_json::Value;
use tokio::sync::watch;

use crate::error::McpError;
use crate::person::{AskPerson, Question, Reply};

/// What the server says of its progress, and how often it has.
pub(crate) type Progress = (u64, String);

/// Raised when the server says that its tools changed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flag(Arc<AtomicBool>);

impl Flag {
    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The client's side of one connection.
pub(crate) struct Handler {
    person: Option<AskPerson>,
    /// The version of rawko.
    version: String,
    changed: Flag,
    progress: watch::Sender<Progress>,
}

impl Handler {
    pub(crate) fn new(person: Option<AskPerson>, version: String) -> Self {
        Self { person, version, changed: Flag::default(), progress: watch::channel((0, String::new())).0 }
    }

    /// The progress from now on.
    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Whether the server said that its tools changed since this was last asked.
    pub(crate) fn take_changed(&self) -> bool {
        self.changed.0.swap(false, Ordering::AcqRel)
    }

    /// What is raised when the tools change.
    pub(crate) fn flag(&self) -> Flag {
        self.changed.clone()
    }

    /// Asks the person, if there is one. Else the answer is no.
    async fn ask(&self, params: ElicitRequestParams) -> ElicitResult {
        let question = match params {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => Question {
                server: String::new(),
                message,
                schema: Some(serde_json::to_value(requested_schema).unwrap_or_default()),
                url: None,
            },
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                Question { server: String::new(), message, schema: None, url: Some(url) }
            }
            _ => return ElicitResult::new(ElicitationAction::Decline),
        };
        let wants_values = question.schema.is_some();
        let reply = match &self.person {
            Some(ask) => ask(question).await,
            None => Reply::Declined,
        };
        match reply {
            Reply::Given(values) if wants_values => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(values))
            }
            Reply::Given(_) => ElicitResult::new(ElicitationAction::Accept),
            Reply::Declined => ElicitResult::new(ElicitationAction::Decline),
            Reply::Cancelled => ElicitResult::new(ElicitationAction::Cancel),
        }
    }

    /// Answers what the server needs before it can go on with a call.
    pub(crate) async fn answers(&self, requests: InputRequests) -> Result<InputResponses, McpError> {
        let mut responses = InputResponses::new();
        for (key, request) in requests {
            let response = match request {
                InputRequest::Elicitation(request) => serde_json::to_value(self.ask(request.params).await),
                InputRequest::ListRoots(_) => Ok(serde_json::json!({"roots": []})),
                _ => {
                    return Err(McpError::Protocol(
                        "it wants what rawko did not offer, such as the answer of a model".to_owned(),
                    ));
                }
            };
            responses.insert(key, response.map_err(|error| McpError::Protocol(error.to_string()))?);
        }
        Ok(responses)
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        let tasks = [(TASKS_EXTENSION_ID.to_owned(), JsonObject::new())];
        capabilities.extensions = Some(tasks.into_iter().collect());
        if self.person.is_some() {
            let form = FormElicitationCapability::new().with_schema_validation(true);
            let elicitation = ElicitationCapability::new().with_form(form);
            capabilities.elicitation = Some(elicitation.with_url(UrlElicitationCapability::default()));
        }
        let client = Implementation::new("rawko", self.version.clone());
        ClientConfig::new(capabilities, client).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(self.ask(request).await)
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let text = match (params.message, params.total) {
            (Some(message), _) => crate::error::short(&message),
            (None, Some(total)) => format!("{} of {total}", params.progress),
            (None, None) => params.progress.to_string(),
        };
        self.progress.send_modify(|(count, last)| {
            *count += 1;
            *last = text;
        });
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.raise();
    }

    async fn on_cancelled(&self, _: CancelledNotificationParam, _: NotificationContext<RoleClient>) {}
}
