//! `rawko tools check --batch`: many questions, one JSON object a line, each with an answer on a line of its own.

use std::path::Path;

use rawko::Rawko;
use rawko::config::LoadedAgent;
use rawko::tools::{Confinement, ToolRegistry};
use rawko_core::agent::{AgentConfig, BashFilter, Permissions};
use rawko_core::policy::{
    BASH, Verdict, bash_verdict, call_verdict, effective_permissions, is_control_tool, validate_filter,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{context_for, here, names, tool_call};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lines::LineReader;
use crate::workspace::Workspace;

/// One line. Other fields are ignored, so that a list may say more for its readers.
#[derive(Debug, Deserialize)]
struct Question {
    id: Value,
    /// A command for Bash.
    command: Option<String>,
    /// The filter, in place of the agent's.
    filter: Option<BashFilter>,
    /// A path, in place of a command.
    path: Option<String>,
    /// What is to be done with the path: `read` or `write`.
    access: Option<Access>,
    /// The file tool that is to do it, in place of `access`.
    tool: Option<String>,
    /// The permissions, in place of the configuration's.
    permissions: Option<Permissions>,
    /// Whether the sandbox confines commands, in place of what the configuration says.
    enforced: Option<bool>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Access {
    Read,
    Write,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    id: &'a Value,
    verdict: &'static str,
    rule: &'a str,
    /// Why it is denied, and what would allow it.
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    configured_at: Vec<String>,
}

/// A line that could not be understood.
#[derive(Debug, Serialize)]
struct BadLine {
    line: u64,
    error: String,
}

/// Answers every line of `file`, in order. A line that is no question gets an error, and the exit status says so at the end.
pub(super) fn check(workspace: &Workspace, agent: Option<&str>, file: &Path) -> Result<Exit, Failure> {
    let rawko = workspace.inspect()?;
    let agent = agent.map(|name| super::agents::find(&rawko, name)).transpose()?;
    let registry = rawko.tools()?;
    let judge = Judge { rawko: &rawko, agent, registry: &registry };
    let mut lines = LineReader::open(Some(file), "questions")?;
    let mut exit = Exit::Success;
    while let Some(line) = lines.next()? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let judged = serde_json::from_slice::<Question>(line)
            .map_err(|error| format!("no question: {error}"))
            .and_then(|question| Ok((judge.verdict(&question)?, question)));
        match judged {
            Ok((verdict, question)) => {
                let (verdict_word, reason) = match &verdict {
                    Verdict::Allowed { .. } => ("allow", None),
                    Verdict::Denied { message, .. } => ("deny", Some(message.as_str())),
                };
                let places =
                    |agent: &LoadedAgent| rawko.config().places_of_rule(&agent.config.name, verdict.rule());
                workspace.console.json_line(&Answer {
                    id: &question.id,
                    verdict: verdict_word,
                    rule: verdict.rule(),
                    reason,
                    configured_at: agent.map(places).unwrap_or_default(),
                })?;
            }
            Err(error) => {
                exit = Exit::Usage;
                workspace.console.json_line(&BadLine { line: lines.number(), error })?;
            }
        }
    }
    Ok(exit)
}

/// Whose rights count where a line does not say otherwise.
struct Judge<'a> {
    rawko: &'a Rawko,
    /// The agent; without one, whoever has all tools and what a line grants.
    agent: Option<&'a LoadedAgent>,
    registry: &'a ToolRegistry,
}

impl Judge<'_> {
    fn verdict(&self, question: &Question) -> Result<Verdict, String> {
        if let Some(Err(errors)) = question.filter.as_ref().map(validate_filter) {
            let message: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return Ok(Verdict::denied("tools.bashFilter", message.join(" ")));
        }
        match (&question.command, &question.path) {
            (Some(command), None) => self.command(question, command),
            (None, Some(path)) => self.path(question, path),
            _ => Err("a question has either a `command` or a `path`".to_owned()),
        }
    }

    fn command(&self, question: &Question, command: &str) -> Result<Verdict, String> {
        let alone = self.agent.is_none() && question.permissions.is_none() && question.enforced.is_none();
        if let (true, Some(filter)) = (alone, &question.filter) {
            return Ok(bash_verdict(filter, &self.rawko.project().display().to_string(), command));
        }
        self.call(question, BASH, json!({ "command": command }))
    }

    fn path(&self, question: &Question, path: &str) -> Result<Verdict, String> {
        let tool = match (&question.tool, question.access) {
            (Some(tool), _) => tool.as_str(),
            (None, Some(Access::Write)) => "Write",
            (None, Some(Access::Read) | None) => "Read",
        };
        let input = match tool {
            "Read" => json!({ "file_path": path }),
            "Write" => json!({ "file_path": path, "content": "" }),
            "Edit" => json!({ "file_path": path, "old_string": "a", "new_string": "b" }),
            "Glob" => json!({ "pattern": path }),
            "Grep" => json!({ "pattern": "a", "path": path }),
            _ => return Err(format!("`{tool}` is no file tool: Read, Write, Edit, Glob or Grep")),
        };
        self.call(question, tool, input)
    }

    fn call(&self, question: &Question, tool: &str, input: Value) -> Result<Verdict, String> {
        let mut agent = match self.agent {
            Some(agent) => agent.config.clone(),
            None => anyone()?,
        };
        if question.filter.is_some() {
            agent.tools.bash_filter.clone_from(&question.filter);
        }
        let global = question.permissions.as_ref().unwrap_or(&self.rawko.config().config.permissions);
        let granted = effective_permissions(global, agent.permissions.as_ref(), None);
        let project = self.rawko.project().display().to_string();
        let context = here(self.rawko, &project, question.enforced);
        let call = tool_call(tool, input);
        let verdict = call_verdict(&agent, &granted, context, &call, &names(self.registry));
        if !verdict.is_allowed() || is_control_tool(tool) {
            return Ok(verdict);
        }
        let context = context_for(self.rawko, &agent, &granted, Confinement::Off);
        Ok(match self.registry.check(tool, call.input, &context) {
            Ok(()) => verdict,
            Err(refusal) => Verdict::denied(refusal.rule, refusal.message),
        })
    }
}

/// An agent with all tools.
fn anyone() -> Result<AgentConfig, String> {
    serde_json::from_value(json!({ "name": "anyone", "systemPrompt": "-" }))
        .map_err(|error| error.to_string())
}
