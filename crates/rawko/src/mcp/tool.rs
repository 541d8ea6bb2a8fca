//! The tools of approved servers, as runs have them.

use std::collections::BTreeSet;
use std::sync::Arc;

use rawko_core::error::ErrorCode;
use rawko_core::text::{keep_ends, truncate};
use rawko_core::tool::{ToolAccess, ToolOutcome, ToolSpec};
use rawko_mcp::{Answer, Connection, McpError};
use rawko_tools::{BoxFuture, Tool, ToolContext, picture};
use serde_json::{Map, Value, json};

use super::live::Unusable;
use super::names::tool_name;
use super::server::{ConfiguredServer, McpHandle};

/// Bytes of an answer that the model gets.
const MAX_SHOWN: usize = 30_000;
/// The most pictures of one answer.
const MAX_PICTURES: usize = 5;
/// Characters of a description that a request holds.
const MAX_DESCRIPTION: usize = 2_000;
/// The largest schema of one tool, in bytes.
const MAX_SCHEMA: usize = 32_768;

/// What of its server a tool gives access to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ServerFeature {
    /// Calls its tool of this name.
    Tool(String),
    /// Lists its resources, or reads one.
    Resource,
    /// Lists its prompts, or gets one.
    Prompt,
}

/// A tool of a server.
struct McpTool {
    spec: ToolSpec,
    server: Arc<ConfiguredServer>,
    call: ServerFeature,
}

/// The tools of the approved servers, sorted by name, and what is left out, for people.
pub(crate) fn tools(servers: &[McpHandle]) -> (Vec<Arc<dyn Tool>>, Vec<String>) {
    let (mut tools, mut left_out): (Vec<Arc<dyn Tool>>, Vec<String>) = (Vec::new(), Vec::new());
    for McpHandle(server) in servers {
        of_server(server, &mut tools, &mut left_out);
    }
    (tools, left_out)
}

fn of_server(server: &Arc<ConfiguredServer>, tools: &mut Vec<Arc<dyn Tool>>, left_out: &mut Vec<String>) {
    let Some(approval) = &server.approval else { return };
    let catalogue = &approval.catalogue;
    let mut taken = BTreeSet::new();
    let mut add = |spec: ToolSpec, call: ServerFeature| {
        if taken.insert(spec.name.clone()) {
            tools.push(Arc::new(McpTool { spec, server: Arc::clone(server), call }));
            true
        } else {
            false
        }
    };
    let wanted = server.loaded.config.tools.as_ref();
    for tool in &catalogue.tools {
        if wanted.is_some_and(|wanted| !wanted.contains(&tool.name)) {
            continue;
        }
        let shown = truncate(&tool.name.escape_debug().to_string(), 100);
        let Some(name) = tool_name(&server.name, &tool.name) else {
            left_out.push(format!("the tool `{shown}` of `{}`: its name is too long or empty", server.name));
            continue;
        };
        if tool.input_schema.to_string().len() > MAX_SCHEMA {
            left_out.push(format!("the tool `{shown}` of `{}`: its schema is too large", server.name));
            continue;
        }
        let reads = tool.reads_only && server.is_believed();
        let spec = ToolSpec {
            name,
            description: truncate(&tool.description, MAX_DESCRIPTION),
            input_schema: tool.input_schema.clone(),
            access: if reads { ToolAccess::ReadOnly } else { ToolAccess::Mutating },
        };
        if !add(spec, ServerFeature::Tool(tool.name.clone())) {
            left_out.push(format!("the tool `{shown}` of `{}`: another one has its name", server.name));
        }
    }
    // These are rawko's own. Where the server has a tool of the same name, that is the one that is meant.
    let object = |properties: Value| json!({"type": "object", "properties": properties, "additionalProperties": false});
    let access = if server.is_believed() { ToolAccess::ReadOnly } else { ToolAccess::Mutating };
    let own = [
        (
            catalogue.resources,
            "read_resource",
            "Reads a resource of this server by its `uri`; without one, lists its resources.",
            object(json!({"uri": {"type": "string"}})),
            ServerFeature::Resource,
        ),
        (
            catalogue.prompts,
            "get_prompt",
            "Gives the text of a prompt of this server by its `name`; without one, lists its prompts.",
            object(json!({"name": {"type": "string"}, "arguments": {"type": "object"}})),
            ServerFeature::Prompt,
        ),
    ];
    for (_, name, description, input_schema, call) in own.into_iter().filter(|(is_there, ..)| *is_there) {
        let is_wanted = wanted.is_none_or(|wanted| wanted.iter().any(|tool| tool == name));
        if let Some(name) = tool_name(&server.name, name).filter(|_| is_wanted) {
            let spec = ToolSpec { name, description: description.to_owned(), input_schema, access };
            add(spec, call);
        }
    }
}

impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, input: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let name = &self.spec.name;
            let connection = match self.server.approved(&context.root, &context.confinement).await {
                Ok(connection) => connection,
                Err(Unusable::NotApproved(why)) => {
                    return ToolOutcome::error(ErrorCode::PermissionError, format!("{name}: {why}"));
                }
                Err(Unusable::Broken(why)) => {
                    let why = format!("{name}: the MCP server `{}` does not work: {why}", self.server.name);
                    return ToolOutcome::error(ErrorCode::ToolFailure, why);
                }
            };
            let arguments = input.as_object().cloned().unwrap_or_default();
            match answer(&self.call, &connection, arguments, &*context.progress).await {
                Ok(answer) => outcome(name, answer).await,
                Err(error) => {
                    let code = match error {
                        McpError::Timeout { .. } => ErrorCode::Timeout,
                        _ => ErrorCode::ToolFailure,
                    };
                    let mut why = format!("{name}: {}", self.server.explained(&error).await);
                    if code == ErrorCode::Timeout {
                        why = format!("{why}; {}", self.server.give_up(&connection).await);
                    }
                    ToolOutcome::error(code, why)
                }
            }
        })
    }

    fn end(&self) {
        self.server.end();
    }

    fn interrupt(&self) {
        self.server.interrupt();
    }
}

async fn answer(
    call: &ServerFeature,
    connection: &Connection,
    arguments: Map<String, Value>,
    watch: &(dyn Fn(&str) + Send + Sync),
) -> Result<Answer, McpError> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let listed = |text: String| Answer { text, ..Answer::default() };
    match call {
        ServerFeature::Tool(tool) => connection.call(tool, arguments, watch).await,
        ServerFeature::Resource => match text("uri") {
            Some(uri) => connection.read_resource(uri).await,
            None => {
                let lines = connection.resources().await?.into_iter();
                let lines = lines
                    .map(|resource| format!("{}: {} {}", resource.uri, resource.name, resource.description));
                Ok(listed(lines.collect::<Vec<_>>().join("\n")))
            }
        },
        ServerFeature::Prompt => match text("name") {
            Some(name) => {
                let values =
                    arguments.get("arguments").and_then(Value::as_object).cloned().unwrap_or_default();
                connection.prompt(name, values).await
            }
            None => {
                let lines = connection.prompts().await?.into_iter();
                let lines = lines.map(|prompt| {
                    format!("{}({}): {}", prompt.name, prompt.arguments.join(", "), prompt.description)
                });
                Ok(listed(lines.collect::<Vec<_>>().join("\n")))
            }
        },
    }
}

/// An answer as the model gets it: bounded, with pictures that models take.
async fn outcome(name: &str, answer: Answer) -> ToolOutcome {
    let mut text = keep_ends(answer.text.trim_end(), MAX_SHOWN);
    let mut images = Vec::new();
    let left_out = answer.pictures.len().saturating_sub(MAX_PICTURES);
    for shown in answer.pictures.into_iter().take(MAX_PICTURES) {
        let of = format!("a picture of {name}");
        let shown = tokio::task::spawn_blocking(move || picture(&of, &shown.data)).await;
        let Ok(shown) = shown else { continue };
        line(&mut text, &shown.content);
        images.extend(shown.images);
    }
    if left_out > 0 {
        line(&mut text, &format!("[{left_out} more pictures, not shown]"));
    }
    if text.is_empty() {
        text.push_str("(no output)");
    }
    let outcome = if answer.is_error {
        ToolOutcome::error(ErrorCode::ToolFailure, text)
    } else {
        ToolOutcome::ok(text)
    };
    ToolOutcome { images, ..outcome }
}

fn line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}
