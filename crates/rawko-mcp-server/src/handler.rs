//! The protocol: what the server says of itself, its tools, and its tasks.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock, GetTaskParams,
    GetTaskResult, Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    Tool, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use crate::schema;
use crate::server::RawkoServer;
use crate::tools::{self, ClientSkills, ToolAnswer};

/// What a client reads first.
const INSTRUCTIONS: &str = "\
rawko carries a software task of this project from a sentence to a verified change: several agents work under a state \
machine, and rawko itself runs the project's checks. `start` begins a task and gives its session; `watch` follows it until \
it ends or waits for an answer; `answer` allows or denies a call that waits; `steer` pauses it, speaks to it or cancels it; \
`diff` shows what it changed and `explain` why it did what; `continue` gives a session its next task. Trust the status: \
`verified` means that all of the project's checks passed, `claimed` that only the agents say so. You can neither add a check \
nor leave one out, and lower limits but not raise them.";

/// Answers one client. All clients share the server.
#[derive(Clone)]
pub(crate) struct Handler {
    server: RawkoServer,
}

impl Handler {
    pub(crate) fn new(server: RawkoServer) -> Self {
        Self { server }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tasks().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("rawko", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(schema::tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        schema::tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = schema::ToolName::of(&request.name) else {
            let known =
                schema::tools().iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>().join(", ");
            let message = format!("there is no tool `{}`; the tools are: {known}", request.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        let capabilities = context.client_capabilities();
        let client = ClientSkills {
            tasks: capabilities.as_ref().is_some_and(|able| able.supports_tasks()),
            elicitation: capabilities.as_ref().is_some_and(|able| able.elicitation.is_some()),
        };
        let call = tools::call(&self.server, tool, request.arguments.unwrap_or_default(), client);
        let answered = tokio::select! {
            answered = call => answered,
            () = context.ct.cancelled() => {
                return Err(ErrorData::internal_error("the call was cancelled", None));
            }
        };
        Ok(match answered {
            Ok(ToolAnswer::Done(done)) => done.into_result().into(),
            Ok(ToolAnswer::Task(task)) => CallToolResponse::Task(task),
            Err(problem) => CallToolResult::error(vec![ContentBlock::text(problem.text())]).into(),
        })
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.server.tasks.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.server.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.server.tasks.cancel_task(&request.task_id)
    }
}

/// One handler for each connection or request of HTTP.
pub(crate) fn factory(
    server: &RawkoServer,
) -> impl Fn() -> std::io::Result<Handler> + Send + Sync + 'static + use<> {
    let server = Arc::new(server.clone());
    move || Ok(Handler::new(RawkoServer::clone(&server)))
}
