//! What each tool does. A tool that cannot do what it was asked says so in its result, with what to try.

mod look;
mod start;
mod steer;
mod watch;

use rmcp::model::{CallToolResult, ContentBlock, CreateTaskResult, JsonObject};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bounded;
use crate::project::ToolProblem;
use crate::schema::ToolName;
use crate::server::RawkoServer;

/// What a client can do besides calling tools.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientSkills {
    /// It polls tasks.
    pub(crate) tasks: bool,
    /// It asks its user.
    pub(crate) elicitation: bool,
}

/// What came of a call.
pub(crate) enum ToolAnswer {
    /// A result.
    Done(DoneAnswer),
    /// A task that the client polls.
    Task(CreateTaskResult),
}

/// A result: words for a model, and the same for a program.
#[derive(Debug, Clone)]
pub(crate) struct DoneAnswer {
    pub(crate) text: String,
    pub(crate) value: Value,
}

impl DoneAnswer {
    pub(crate) fn new(text: impl Into<String>, value: Value) -> Self {
        Self { text: text.into(), value }
    }

    /// Bounded, for the wire.
    pub(crate) fn into_result(self) -> CallToolResult {
        let text = bounded::text(&self.text, bounded::ANSWER_BYTES);
        let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
        result.structured_content = Some(bounded::answer(&self.value));
        result
    }
}

/// Calls the tool.
pub(crate) async fn call(
    server: &RawkoServer,
    tool: ToolName,
    arguments: JsonObject,
    client: ClientSkills,
) -> Result<ToolAnswer, ToolProblem> {
    let done = match tool {
        ToolName::Start => start::start(server, parsed(tool, arguments)?).await?,
        ToolName::Continue => start::continue_session(server, parsed(tool, arguments)?).await?,
        ToolName::Watch => return watch::watch(server, parsed(tool, arguments)?, client).await,
        ToolName::Steer => steer::steer(server, parsed(tool, arguments)?).await?,
        ToolName::Answer => steer::answer(server, parsed(tool, arguments)?).await?,
        ToolName::Diff => {
            let asked = parsed(tool, arguments)?;
            server.blocking(move |server| look::diff(server, &asked)).await?
        }
        ToolName::Explain => {
            let asked = parsed(tool, arguments)?;
            server.blocking(move |server| look::explained(server, &asked)).await?
        }
    };
    Ok(ToolAnswer::Done(done))
}

fn parsed<T: DeserializeOwned>(tool: ToolName, arguments: JsonObject) -> Result<T, ToolProblem> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        let message = format!("the arguments of `{}` cannot be read: {error}", tool.as_str());
        ToolProblem::new(message, "compare them with the tool's input schema")
    })
}
