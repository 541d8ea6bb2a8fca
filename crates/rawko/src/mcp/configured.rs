//! The servers of a configuration, for the one that runs with it.

use std::path::Path;
use std::sync::Arc;

use rawko_mcp::{Question, Reply};
use rawko_tools::Tool;

use super::report::McpState;
use super::server::{McpHandle, ServerContext, servers};
use super::tool::tools;
use crate::config::Diagnostic;
use crate::setup::builder::RawkoBuilder;
use crate::setup::rawko::Rawko;

impl RawkoBuilder {
    /// Sets the function that answers what a server of tools wants to know from a person while it works on a call
    /// (elicitation). Without it, rawko tells the server that the person declines. The future is dropped once the call
    /// is over.
    #[must_use]
    pub fn on_server_question<F, Answer>(mut self, ask: F) -> Self
    where
        F: Fn(Question) -> Answer + Send + Sync + 'static,
        Answer: Future<Output = Reply> + Send + 'static,
    {
        self.asked_by_servers = Some(Arc::new(move |question| Box::pin(ask(question))));
        self
    }
}

impl Rawko {
    /// The configured servers of tools, sorted by name. None is started.
    #[must_use]
    pub fn mcp_servers(&self) -> Vec<McpHandle> {
        let builder = &self.builder;
        servers(
            &self.loaded,
            &ServerContext {
                project: &builder.project,
                tree: self.tree(),
                state: builder.trust_store.as_ref().and_then(|store| store.path().parent()),
                environment: builder.environment.as_ref(),
                person: builder.asked_by_servers.clone(),
            },
        )
    }

    /// Says which servers are not used, and what to do about it.
    pub(crate) fn warn_of_servers(&mut self) {
        let servers = self.mcp_servers();
        // Where the answer cannot be read, the run says so.
        let is_trusted = self.builder.trusts(&self.loaded).unwrap_or(false);
        for server in &servers {
            let name = server.name();
            let (message, help) = match server.state() {
                McpState::Approved { .. } => continue,
                McpState::NotApproved if server.loaded().is_of_mcp_json() && !is_trusted => (
                    format!(
                        "the tools of the MCP server `{name}` are not approved, so agents do not have them"
                    ),
                    format!(
                        "this folder is not trusted, and `rawko mcp` does not start its servers: look at .mcp.json, then: \
                         rawko trust; then: rawko mcp check {name}"
                    ),
                ),
                McpState::NotApproved => (
                    format!(
                        "the tools of the MCP server `{name}` are not approved, so agents do not have them"
                    ),
                    format!(
                        "look at them: rawko mcp check {name}; approve them: rawko mcp check {name} --accept"
                    ),
                ),
                McpState::Unusable { why } => (
                    format!("the MCP server `{name}` cannot be used: {why}"),
                    "set it, or add `disabled: true`".to_owned(),
                ),
            };
            let path = server.loaded().path.clone();
            self.loaded.warnings.push(Diagnostic::of_file(&path, message, Some(help)));
        }
        for left_out in tools(&servers).1 {
            let message = format!("agents do not have {left_out}");
            self.loaded.warnings.push(Diagnostic::of_file(Path::new("mcp"), message, None));
        }
    }

    /// The tools of approved servers.
    pub(crate) fn tools_of_servers(&self) -> Vec<Arc<dyn Tool>> {
        tools(&self.mcp_servers()).0
    }

    /// The secrets in the definitions of servers.
    pub(crate) fn secrets_of_servers(&self) -> impl Iterator<Item = String> {
        self.mcp_servers().into_iter().flat_map(|server| server.secrets())
    }
}
