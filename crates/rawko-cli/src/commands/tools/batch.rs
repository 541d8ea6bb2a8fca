//! `rawko tools check --batch`: many questions, one JSON object a line, each with an answer on a line of its own.

use std::path::Path;

use rawko::Rawko;
use rawko::config::LoadedAgent;
use rawko::tools::{Confinement, ToolRegistry};
use rawko_core::agent::{AgentConfig, BashFilter, Permissions};
use rawko_core::policy::{
    BASH, Permission, bash_permission, call_permission, effective_permissions, is_control_tool,
    validate_filter,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{context_for, here, names, tool_call};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lines::LineReader;
use crate::workspace::Workspace;

/// One line: what is to be judged. Other fields are ignored, so that a list may say more for its readers.
#[derive(Debug)]
struct BatchLine {
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

/// What is printed for one line.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchVerdict<'a> {
    id: &'a Value,
    verdict: &'static str,
    rule: &'a str,
    /// Why it is denied, and what would allow it.
    reason: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    configured_at: Vec<String>,
}

/// A line that could not be understood.
#[derive(Debug, Serialize)]
struct BadLine {
    line: u64,
    error: String,
}

impl BatchLine {
    /// Reads a line.
    fn read(line: &[u8]) -> Result<Self, String> {
        let mut fields: Map<String, Value> = serde_json::from_slice(line).map_err(|error| {
            let what = if error.is_data() { "an object" } else { "JSON" };
            let at = if error.is_data() { String::new() } else { format!(": {error}") };
            format!("this line is not {what}{at}; write e.g. {EXAMPLE}")
        })?;
        let id = fields.remove("id").ok_or_else(|| format!("`id` is missing; write e.g. {EXAMPLE}"))?;
        // A filter whose list is misspelt would allow everything.
        let lists = fields.get("filter").and_then(Value::as_object);
        let is_unknown = |name: &&String| !["allowedCommands", "blockedPatterns"].contains(&name.as_str());
        if let Some(name) = lists.and_then(|lists| lists.keys().find(is_unknown)) {
            return Err(format!(
                "`filter`: `{name}` is not known; it has allowedCommands and blockedPatterns"
            ));
        }
        Ok(Self {
            id,
            command: field(&mut fields, "command", "a string")?,
            filter: field(
                &mut fields,
                "filter",
                "an object with lists of strings, {\"allowedCommands\": [\"ls\"], \"blockedPatterns\": []}",
            )?,
            path: field(&mut fields, "path", "a string")?,
            access: field(&mut fields, "access", "`read` or `write`")?,
            tool: field(&mut fields, "tool", "the name of a file tool")?,
            permissions: field(
                &mut fields,
                "permissions",
                "an object with lists of strings, {\"read\": [\".\"], \"write\": [\"src\"]}",
            )?,
            enforced: field(&mut fields, "enforced", "true or false")?,
        })
    }

    /// Whether the question itself brings what `rule` is about, in place of the configuration.
    fn brings(&self, rule: &str) -> bool {
        (rule.starts_with("tools.bashFilter") && self.filter.is_some())
            || (rule.starts_with("permissions.") && self.permissions.is_some())
    }

    /// A reason in the words of the question, where its own filter or permissions decided.
    fn reason(&self, verdict: &Permission) -> Option<String> {
        let Permission::Denied { rule, message, would_allow, .. } = verdict else { return None };
        let list = rule.strip_prefix("tools.bashFilter.");
        let (Some(list), Some(change), true) = (list, would_allow, self.brings(rule)) else {
            return verdict.explained();
        };
        // The policy takes the question's own filter for that of the agent.
        let what = change.split(&format!(" under {rule}")).next().unwrap_or(change);
        Some(format!("{message} To allow it, {what} under {rule} (`filter.{list}` of this question)."))
    }
}

/// What a line may look like.
const EXAMPLE: &str = r#"{"id": 1, "command": "ls", "filter": {"allowedCommands": ["ls"]}}"#;

/// A field of a question; absent and `null` are the same.
fn field<T: DeserializeOwned>(
    fields: &mut Map<String, Value>,
    name: &str,
    expected: &str,
) -> Result<Option<T>, String> {
    let Some(value) = fields.remove(name).filter(|value| !value.is_null()) else { return Ok(None) };
    let unknown = |error: &serde_json::Error| {
        let text = error.to_string();
        // Which key is not known is worth saying; the rest names types of this program.
        let key = text.strip_prefix("unknown field ").and_then(|rest| rest.split(',').next());
        key.map(|key| format!(" {key} is not known in it.")).unwrap_or_default()
    };
    serde_json::from_value(value)
        .map(Some)
        .map_err(|error| format!("`{name}` must be {expected}.{}", unknown(&error)))
}

/// Answers every line of `file`, in order. A line that is no question gets an error, and the exit status says so at the end.
pub(super) fn check(workspace: &Workspace, agent: Option<&str>, file: &Path) -> Result<Exit, Failure> {
    let rawko = workspace.inspect()?;
    let agent = agent.map(|name| super::agents::find(&rawko, name)).transpose()?;
    let registry = rawko.tools()?;
    let judge = CallJudge { rawko: &rawko, agent, registry: &registry, sandbox: sandbox(&rawko) };
    let mut lines = LineReader::open(Some(file), "questions")?;
    let mut exit = Exit::Success;
    while let Some(line) = lines.next()? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let judged = BatchLine::read(line).and_then(|question| Ok((judge.verdict(&question)?, question)));
        match judged {
            Ok((verdict, question)) => {
                let places =
                    |agent: &LoadedAgent| rawko.config().places_of_rule(&agent.config.name, verdict.rule());
                let configured = agent.filter(|_| !question.brings(verdict.rule()));
                workspace.console.json_line(&BatchVerdict {
                    id: &question.id,
                    verdict: if verdict.is_allowed() { "allow" } else { "deny" },
                    rule: verdict.rule(),
                    reason: question.reason(&verdict),
                    configured_at: configured.map(places).unwrap_or_default(),
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
struct CallJudge<'a> {
    rawko: &'a Rawko,
    /// The agent; if there is none, calls are judged with all tools and what a line grants.
    agent: Option<&'a LoadedAgent>,
    registry: &'a ToolRegistry,
    /// What confines commands here, if something does.
    sandbox: Option<Confinement>,
}

fn sandbox(rawko: &Rawko) -> Option<Confinement> {
    rawko.confinement().ok().filter(|confinement| matches!(confinement, Confinement::Sandboxed(_)))
}

impl CallJudge<'_> {
    fn verdict(&self, question: &BatchLine) -> Result<Permission, String> {
        if let Some(Err(errors)) = question.filter.as_ref().map(validate_filter) {
            let message: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return Ok(Permission::denied("tools.bashFilter", message.join(" ")));
        }
        match (&question.command, &question.path) {
            (Some(command), None) => self.command(question, command),
            (None, Some(path)) => self.path(question, path),
            _ => Err("a question has either a `command` or a `path`".to_owned()),
        }
    }

    fn command(&self, question: &BatchLine, command: &str) -> Result<Permission, String> {
        let alone = self.agent.is_none() && question.permissions.is_none() && question.enforced.is_none();
        if let (true, Some(filter)) = (alone, &question.filter) {
            return Ok(bash_permission(filter, &self.rawko.project().display().to_string(), command));
        }
        self.call(question, BASH, json!({ "command": command }))
    }

    fn path(&self, question: &BatchLine, path: &str) -> Result<Permission, String> {
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

    fn call(&self, question: &BatchLine, tool: &str, input: Value) -> Result<Permission, String> {
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
        let verdict = call_permission(&agent, &granted, context, &call, &names(self.registry));
        if !verdict.is_allowed() || is_control_tool(tool) {
            return Ok(verdict);
        }
        let confinement = self.sandbox.clone().filter(|_| context.is_confined).unwrap_or(Confinement::Off);
        let context = context_for(self.rawko, &agent, &granted, confinement);
        Ok(match self.registry.check(tool, call.input, &context) {
            Ok(()) => verdict,
            Err(refusal) => Permission::denied(refusal.rule, refusal.message),
        })
    }
}

/// An agent with all tools.
fn anyone() -> Result<AgentConfig, String> {
    serde_json::from_value(json!({ "name": "anyone", "systemPrompt": "-" }))
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, words: &[&str]) {
        let error = BatchLine::read(line.as_bytes()).unwrap_err();
        for word in words {
            assert!(error.contains(word), "{word:?} is missing in {error}");
        }
        for word in ["struct", "enum", "sequence", "BashFilter"] {
            assert!(!error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_line_that_is_no_question_says_what_is_wrong_in_words_of_the_file() {
        check("{", &["not JSON", "write e.g."]);
        check("[1]", &["not an object"]);
        check("\"ls\"", &["not an object"]);
        check(r#"{"command": "ls"}"#, &["`id` is missing"]);
        check(r#"{"id": 1, "command": ["ls"]}"#, &["`command` must be a string"]);
        check(r#"{"id": 1, "filter": "ls"}"#, &["`filter` must be an object", "allowedCommands"]);
        check(
            r#"{"id": 1, "filter": {"allowedCommands": "ls"}}"#,
            &["`filter` must be an object with lists"],
        );
        check(r#"{"id": 1, "filter": {"allowed": []}}"#, &["`filter`", "`allowed` is not known"]);
        check(r#"{"id": 1, "permissions": ["ls"]}"#, &["`permissions` must be"]);
        check(r#"{"id": 1, "access": "own"}"#, &["`access` must be `read` or `write`"]);
        check(r#"{"id": 1, "enforced": "yes"}"#, &["`enforced` must be true or false"]);
    }

    #[test]
    fn a_denial_by_the_question_own_filter_names_it() {
        let question = BatchLine::read(EXAMPLE.as_bytes()).unwrap();
        let verdict = bash_permission(question.filter.as_ref().unwrap(), "/project", "rm x");
        let reason = question.reason(&verdict).unwrap();
        assert!(reason.contains("(`filter.allowedCommands` of this question)"), "{reason}");
        assert!(!reason.to_lowercase().contains("agent"), "{reason}");
    }
}
