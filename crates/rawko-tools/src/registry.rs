//! All tools of a run by name, and the only way to call them.
//!
//! Validates the arguments before a tool sees them, and turns every failure, a panic included, into a result that the
//! model can act on. The core decides who may call what.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use futures_util::FutureExt as _;
use jsonschema::Validator;
use rawko_core::agent::AgentConfig;
use rawko_core::error::ErrorCode;
use rawko_core::policy::{MCP_CALL, TOOL_SEARCH, is_control_tool, nearest_name, offered_tools};
use rawko_core::tool::{ToolOutcome, ToolSpec};
use serde_json::Value;

use crate::canonical::make_canonical;
use crate::tool::{CallRefusal, Tool, ToolContext};

/// The most faults named in one message.
const FAULTS_NAMED: usize = 5;
/// The most bytes shown of one fault, which may quote the input.
const FAULT_BYTES: usize = 300;

/// Why a tool cannot be added.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Another tool has the name.
    #[error("There are two tools named `{0}`: give one of them another name.")]
    Taken(String),
    /// The name belongs to a tool of the core.
    #[error("`{0}` is a control tool that rawko answers itself: give the tool another name.")]
    Reserved(String),
    /// Providers do not accept the name.
    #[error("`{0}` is not a valid tool name: use 1 to 64 letters, digits, `_` and `-`.")]
    BadName(String),
}

/// All tools of a run.
#[derive(Default)]
pub struct ToolRegistry {
    tools: BTreeMap<String, RegisteredTool>,
}

struct RegisteredTool {
    tool: Arc<dyn Tool>,
    /// Compiled on the first call: most tools of a large registry are never called.
    validator: OnceLock<Result<Validator, String>>,
}

impl ToolRegistry {
    /// A registry without tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// If its name is taken, reserved or not valid.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        let name = tool.spec().name.clone();
        if is_control_tool(&name) || name == TOOL_SEARCH || name == MCP_CALL {
            return Err(RegistryError::Reserved(name));
        }
        let usable = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(usable) {
            return Err(RegistryError::BadName(name.escape_debug().to_string()));
        }
        if self.tools.contains_key(&name) {
            return Err(RegistryError::Taken(name));
        }
        self.tools.insert(name, RegisteredTool { tool, validator: OnceLock::new() });
        Ok(())
    }

    /// The tool with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name).map(|entry| &entry.tool)
    }

    /// All names, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.tools.keys().map(String::as_str).collect()
    }

    /// All specs, sorted by name: providers cache requests that begin alike.
    #[must_use]
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.values().map(|entry| entry.tool.spec().clone()).collect()
    }

    /// The specs that a request of `agent` offers.
    #[must_use]
    pub fn offered(&self, agent: &AgentConfig) -> Vec<ToolSpec> {
        offered_tools(agent, &self.specs())
    }

    /// Checks arguments against the schema of the tool.
    ///
    /// # Errors
    /// The result for the model: there is no such tool, or which field is wrong and what was expected.
    pub fn validate(&self, name: &str, input: &Value) -> Result<(), ToolOutcome> {
        self.entry(name).and_then(|entry| entry.validate(name, input))
    }

    /// Whether a call would be refused: by the schema, or by the tool itself, which checks the real paths. Runs nothing.
    ///
    /// # Errors
    /// The rule that refuses it, and why.
    pub fn check(&self, name: &str, mut input: Value, context: &ToolContext) -> Result<(), CallRefusal> {
        let refused = |rule: &str, outcome: ToolOutcome| CallRefusal {
            rule: rule.to_owned(),
            message: outcome.content,
        };
        let entry = self.entry(name).map_err(|outcome| refused("unknown tool", outcome))?;
        make_canonical(&mut input, &entry.tool.spec().input_schema);
        entry.validate(name, &input).map_err(|outcome| refused("input", outcome))?;
        entry.tool.check(&input, context)
    }

    /// Validates and runs one call. Dropping the future ends the work.
    pub async fn call(&self, name: &str, mut input: Value, context: &ToolContext) -> ToolOutcome {
        let started = Instant::now();
        let mut outcome = match self.entry(name) {
            Err(outcome) => outcome,
            Ok(entry) => {
                make_canonical(&mut input, &entry.tool.spec().input_schema);
                match entry.validate(name, &input) {
                    Err(outcome) => outcome,
                    Ok(()) => run(name, &entry.tool, input, context).await,
                }
            }
        };
        outcome.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        outcome
    }

    /// Cleans up after a call whose process was killed before it returned.
    pub fn abandoned(&self, name: &str, input: &Value, context: &ToolContext) {
        if let Some(entry) = self.tools.get(name) {
            entry.tool.abandoned(input, context);
        }
    }

    /// The session goes on in this process: before it, `jobs` background jobs had been started.
    pub fn resumed(&self, jobs: u32) {
        self.tools.values().for_each(|entry| entry.tool.resumed(jobs));
    }

    /// Ends what the tools keep between calls, such as background jobs. Does not wait: [`settle`](crate::settle) does.
    pub fn end(&self) {
        self.tools.values().for_each(|entry| entry.tool.end());
    }

    /// Ends what the tools still run; they may start it again. Does not wait: [`settle`](crate::settle) does.
    pub fn interrupt(&self) {
        self.tools.values().for_each(|entry| entry.tool.interrupt());
    }

    fn entry(&self, name: &str) -> Result<&RegisteredTool, ToolOutcome> {
        self.tools.get(name).ok_or_else(|| {
            let names = self.names();
            let shown = rawko_core::text::truncate(name, 100);
            let hint = match nearest_name(name, &names) {
                Some(near) if near.eq_ignore_ascii_case(name) => {
                    format!("names are case-sensitive, call `{near}`.")
                }
                Some(near) => format!("did you mean `{near}`?"),
                None => "call one of the tools that this conversation offers.".to_owned(),
            };
            ToolOutcome::error(ErrorCode::ValidationError, format!("There is no tool `{shown}`: {hint}"))
        })
    }
}

impl std::fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.tools.keys()).finish()
    }
}

impl RegisteredTool {
    fn validate(&self, name: &str, input: &Value) -> Result<(), ToolOutcome> {
        let schema = &self.tool.spec().input_schema;
        let compiled =
            self.validator.get_or_init(|| jsonschema::validator_for(schema).map_err(|e| e.to_string()));
        let validator = match compiled {
            Ok(validator) => validator,
            Err(why) => {
                let message =
                    format!("The schema of the tool `{name}` is not valid, so it cannot be called: {why}.");
                return Err(ToolOutcome::error(ErrorCode::ConfigError, message));
            }
        };
        let faults: Vec<String> =
            validator.iter_errors(input).take(FAULTS_NAMED).map(|e| fault(&e)).collect();
        if faults.is_empty() {
            return Ok(());
        }
        let message = format!(
            "{name}: the arguments are wrong: {}. Expected: {}.",
            faults.join("; "),
            expected(schema)
        );
        Err(ToolOutcome::error(ErrorCode::ValidationError, message))
    }
}

fn fault(error: &jsonschema::ValidationError<'_>) -> String {
    let place = error.instance_path().to_string();
    let place = place.trim_start_matches('/');
    let text = rawko_core::text::keep_ends(&error.to_string(), FAULT_BYTES);
    if place.is_empty() { text } else { format!("`{place}`: {text}") }
}

/// A short list of the fields that a schema describes.
fn expected(schema: &Value) -> String {
    let Some(Value::Object(properties)) = schema.get("properties") else { return "an object".into() };
    let is_required = |name: &str| {
        schema.get("required").and_then(Value::as_array).is_some_and(|r| r.iter().any(|f| f == name))
    };
    let fields: Vec<String> = properties
        .iter()
        .map(|(name, field)| {
            let kind = field.get("type").and_then(Value::as_str).unwrap_or("any");
            let needed = if is_required(name) { "required" } else { "optional" };
            format!("`{name}` ({kind}, {needed})")
        })
        .collect();
    fields.join(", ")
}

async fn run(name: &str, tool: &Arc<dyn Tool>, input: Value, context: &ToolContext) -> ToolOutcome {
    // A tool may also panic before it returns its future.
    let work = AssertUnwindSafe(async { tool.run(input, context).await });
    work.catch_unwind().await.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        let text = rawko_core::text::keep_ends(&text, FAULT_BYTES);
        let message =
            format!("The tool `{name}` crashed ({text}). This is a fault of the tool, not of the call.");
        ToolOutcome::error(ErrorCode::ToolFailure, message)
    })
}
