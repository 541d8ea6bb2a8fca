//! The tool contract (`docs/tools.md`).

use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use rawko_core::agent::Permissions;
use rawko_core::tool::{Refusal, ToolOutcome, ToolSpec};
use serde_json::Value;

use crate::access::AccessError;
use crate::confinement::{Confined, Confinement};
use crate::process::environment;

/// A boxed future, so that tools can be kept in one registry.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something that an agent can call: a built-in tool or the embedder's own.
pub trait Tool: Send + Sync {
    /// Name, description, schema and access, as offered to models. Must not change during the life of the tool.
    fn spec(&self) -> &ToolSpec;

    /// Does the work. The input has been validated against the schema. Failures are outcomes, not panics. Dropping the
    /// future ends the work, child processes included.
    fn run<'a>(&'a self, input: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome>;

    /// Whether this call would be refused as things are now. Must have no effect; the call itself checks again. The input
    /// has been validated against the schema.
    ///
    /// # Errors
    /// The rule that refuses it, and why.
    fn check(&self, input: &Value, context: &ToolContext) -> Result<(), CallRefusal> {
        let _ = (input, context);
        Ok(())
    }

    /// The process that ran this call was killed, and how far the call came is unknown. Removes what the call would have
    /// removed itself; neither finishes nor undoes the call.
    fn abandoned(&self, input: &Value, context: &ToolContext) {
        let _ = (input, context);
    }

    /// The session goes on in this process. The numbers of its background jobs up to `jobs` are taken.
    fn resumed(&self, jobs: u32) {
        let _ = jobs;
    }

    /// The run is over: ends what the tool keeps between calls, without waiting for it.
    fn end(&self) {}

    /// Ends what the tool still runs before something that nothing may disturb. It may start again. Does not wait.
    fn interrupt(&self) {}
}

/// Why a call would be refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRefusal {
    /// The rule that refuses it, e.g. `permissions.write`.
    pub rule: String,
    /// What is refused and why, for the model and for people.
    pub message: String,
}

impl From<AccessError> for CallRefusal {
    fn from(error: AccessError) -> Self {
        Self { rule: error.rule(), message: error.to_string() }
    }
}

/// Where a call runs, and for which agent.
#[derive(Clone)]
pub struct ToolContext {
    /// The project's root: relative paths start here.
    pub root: PathBuf,
    /// Name of the calling agent.
    pub agent: String,
    /// What the agent may access; what is not granted is denied. `run` holds the programs that all of its lists name.
    pub permissions: Arc<Permissions>,
    /// What a person approved for this call alone, besides the permissions.
    pub approved: Vec<Refusal>,
    /// What holds the run's commands to the permissions.
    pub confinement: Confinement,
    /// The call's place in a trace (W3C Trace Context), which commands find in `TRACEPARENT`.
    pub traceparent: Option<String>,
    /// Reports progress to those who watch; never blocks.
    pub progress: Arc<dyn Fn(&str) + Send + Sync>,
}

impl ToolContext {
    /// The environment of a command that the agent runs.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        let named = self.permissions.env.as_deref().unwrap_or_default();
        let mut variables = environment(std::env::vars_os(), named);
        if let Some(traceparent) = &self.traceparent {
            variables.retain(|(name, _)| name != "TRACEPARENT");
            variables.push(("TRACEPARENT".into(), traceparent.into()));
        }
        variables
    }

    /// The sandbox of a command that the agent runs, if it has one.
    ///
    /// # Errors
    /// Why the command may not run.
    pub(crate) fn confined(&self) -> Result<Option<Confined>, String> {
        Ok(self.confinement.sandbox()?.map(|sandbox| Confined {
            sandbox: sandbox.clone(),
            who: format!("agent {}", self.agent),
            permissions: Arc::clone(&self.permissions),
            approved_hosts: self.approved.iter().filter_map(host_of).collect(),
            root: self.root.clone(),
            also: Vec::new(),
            layered: Vec::new(),
            changes: None,
            lasts: true,
        }))
    }

    /// Refuses a call that would run a command where none may run.
    pub(crate) fn may_run_commands(&self) -> Result<(), CallRefusal> {
        let refusal = |message| CallRefusal { rule: "permissions.sandbox".to_owned(), message };
        self.confinement.sandbox().map(drop).map_err(refusal)
    }
}

fn host_of(need: &Refusal) -> Option<String> {
    match need {
        Refusal::Host { host } => Some(host.clone()),
        Refusal::Command | Refusal::Read { .. } | Refusal::Write { .. } => None,
    }
}
