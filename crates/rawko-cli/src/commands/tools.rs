//! `rawko tools`: lists the tools, checks who may use them, and makes single calls without a model.

mod batch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use rawko::Rawko;
use rawko::config::LoadedAgent;
use rawko::tools::{Confinement, ToolContext, ToolRegistry};
use rawko_core::agent::{AgentConfig, Permissions};
use rawko_core::message::ToolCall;
use rawko_core::policy::{
    CONTROL_TOOLS, CallContext, Permission, call_permission, effective_permissions, is_control_tool,
    is_of_use, permissions_of_calls, tool_permission,
};
use rawko_core::tool::{ToolAccess, ToolSpec};
use serde_json::{Value, json};

use super::agents;
use crate::console::OutputArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Rows, clean, clean_line, quoted};
use crate::runtime::block_on;
use crate::signals::until_stopped;
use crate::workspace::Workspace;

/// Maximum bytes of a file of arguments.
const LONGEST_INPUT: u64 = 16 * 1024 * 1024;

/// Subcommands of `rawko tools`.
#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// List the tools
    List {
        /// Show what this agent may use
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Check whether an agent may use a tool or run a command, and by which rule; nothing is run
    Check(ToolsCheckArgs),
    /// Call a tool with an agent's permissions
    Call(ToolsCallArgs),
}

/// Options of `rawko tools check`.
#[derive(Debug, Args)]
pub(crate) struct ToolsCheckArgs {
    /// The agent
    #[arg(long, value_name = "NAME", required_unless_present = "batch")]
    agent: Option<String>,
    /// Answer questions from a file (`-`: standard input), one JSON object a line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tool", "input", "command"])]
    batch: Option<PathBuf>,
    /// The tool
    #[arg(long, value_name = "TOOL", default_value = "Bash", required_unless_present_any = ["command", "batch"])]
    tool: String,
    /// Arguments of the tool, as JSON
    #[arg(long, value_name = "JSON", conflicts_with = "command")]
    input: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    /// A shell command, after `--`
    #[arg(last = true)]
    command: Vec<String>,
}

/// Options of `rawko tools call`.
#[derive(Debug, Args)]
pub(crate) struct ToolsCallArgs {
    /// The tool
    name: String,
    /// The agent whose permissions apply
    #[arg(long, value_name = "NAME")]
    agent: String,
    /// Arguments of the tool, as JSON or @FILE
    #[arg(long, value_name = "JSON", default_value = "{}")]
    input: String,
    /// Trust this folder's configuration for this call
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the subcommand.
pub(crate) fn run(workspace: &Workspace, action: &ToolsCommand) -> Result<Exit, Failure> {
    match action {
        ToolsCommand::List { agent, output } => list(workspace, agent.as_deref(), output.json),
        ToolsCommand::Check(ToolsCheckArgs { batch: Some(file), agent, .. }) => {
            batch::check(workspace, agent.as_deref(), file)
        }
        ToolsCommand::Check(question) => check(workspace, question),
        ToolsCommand::Call(call) => carry_out(workspace, call),
    }
}

fn names(registry: &ToolRegistry) -> Vec<&str> {
    registry.names().into_iter().chain(CONTROL_TOOLS).collect()
}

fn list(workspace: &Workspace, agent: Option<&str>, as_json: bool) -> Result<Exit, Failure> {
    let rawko = workspace.inspect()?;
    let agent = agent.map(|name| agents::find(&rawko, name)).transpose()?;
    let registry = rawko.tools()?;
    let known = names(&registry);
    let mut specs = registry.specs();
    specs.extend(rawko_core::agent::control_tools());
    let verdict = |tool: &str| {
        let agent = agent?;
        let verdict = tool_permission(&agent.config, tool, &known);
        if !verdict.is_allowed() || is_of_use(tool, &granted(&rawko, agent)) {
            return Some(verdict);
        }
        let message =
            format!("{tool} is not offered: no host is granted. The user can add one to `permissions.net`.");
        Some(Permission::denied("permissions.net", message))
    };
    let entry = |spec: &ToolSpec| {
        let mut entry = json!(spec);
        if let Some(verdict) = verdict(&spec.name) {
            entry["verdict"] = json!(verdict);
        }
        entry
    };
    let entries: Vec<Value> = specs.iter().map(entry).collect();
    workspace.console.output(as_json, &entries, |paint| {
        let name = |spec: &ToolSpec| spec.name.clone();
        let access = |spec: &ToolSpec| match spec.access {
            ToolAccess::ReadOnly => "reads".to_owned(),
            ToolAccess::Mutating => "changes".to_owned(),
        };
        let decided = |spec: &ToolSpec, what: fn(&Permission) -> &str| {
            verdict(&spec.name).as_ref().map(what).unwrap_or_default().to_owned()
        };
        let word = |verdict: &Permission| if verdict.is_allowed() { "allowed" } else { "denied" };
        let rows = Rows::new(paint, &specs);
        match agent {
            None => rows.table(&[
                ("NAME", &name),
                ("ACCESS", &access),
                ("DESCRIPTION", &|spec| first_sentence(&spec.description)),
            ]),
            Some(_) => rows.table(&[
                ("NAME", &name),
                ("ACCESS", &access),
                ("VERDICT", &|spec| decided(spec, word)),
                ("RULE", &|spec| decided(spec, Permission::rule)),
            ]),
        }
    })?;
    Ok(Exit::Success)
}

fn first_sentence(text: &str) -> String {
    let line = clean_line(text);
    let end = line.find(". ").map_or(line.len(), |at| at + 1);
    rawko_core::text::truncate(&line[..end], 90)
}

fn check(workspace: &Workspace, arguments: &ToolsCheckArgs) -> Result<Exit, Failure> {
    let rawko = workspace.inspect()?;
    let agent = agents::find(&rawko, arguments.agent.as_deref().unwrap_or_default())?;
    let registry = rawko.tools()?;
    let (tool, input) = match arguments.command.as_slice() {
        [] => (arguments.tool.as_str(), arguments.input.as_deref().map(parse).transpose()?),
        [line] => ("Bash", Some(json!({ "command": line }))),
        words => {
            let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            ("Bash", Some(json!({ "command": quoted.join(" ") })))
        }
    };
    // Without arguments only the tool is checked.
    let verdict = match &input {
        None => tool_permission(&agent.config, tool, &names(&registry)),
        Some(input) => both_walls(&rawko, agent, &registry, &tool_call(tool, input.clone())),
    };
    let places = rawko.config().places_of_rule(&agent.config.name, verdict.rule());
    let mut entry =
        json!({ "agent": agent.config.name, "tool": tool, "input": input, "configuredAt": places });
    if let (Value::Object(entry), Value::Object(verdict)) = (&mut entry, json!(verdict)) {
        entry.extend(verdict);
    }
    workspace.console.output(arguments.output.json, &entry, |paint| {
        let places = if places.is_empty() { String::new() } else { format!(" ({})", places.join(", ")) };
        let rule = clean_line(&format!("{}{places}", verdict.rule()));
        match verdict.explained() {
            None => format!("{} by {rule}\n", paint.good("allowed")),
            Some(why) => format!("{} by {rule}\n{}\n", paint.bad("denied"), clean(&why)),
        }
    })?;
    Ok(if verdict.is_allowed() { Exit::Success } else { Exit::Failed })
}

/// The verdict of the policy on the request, and then of the tool on the real paths.
fn both_walls(rawko: &Rawko, agent: &LoadedAgent, registry: &ToolRegistry, call: &ToolCall) -> Permission {
    let verdict = policy_permission(rawko, agent, registry, call);
    if !verdict.is_allowed() || is_control_tool(&call.name) {
        return verdict;
    }
    let confinement = match rawko.confinement() {
        Ok(confinement) => confinement,
        Err(error) => return Permission::denied("permissions.require", error.to_string()),
    };
    match registry.check(&call.name, call.input.clone(), &context(rawko, agent, confinement)) {
        Ok(()) => verdict,
        Err(refusal) => Permission::denied(refusal.rule, refusal.message),
    }
}

fn policy_permission(
    rawko: &Rawko,
    agent: &LoadedAgent,
    registry: &ToolRegistry,
    call: &ToolCall,
) -> Permission {
    let project = rawko.project().display().to_string();
    let context = here(rawko, &project, None);
    call_permission(&agent.config, &granted(rawko, agent), context, call, &names(registry))
}

/// Where calls are judged: as in a run that begins now. `is_confined` may be known better.
fn here<'p>(rawko: &Rawko, project: &'p str, is_confined: Option<bool>) -> CallContext<'p> {
    let is_confined = is_confined.unwrap_or_else(|| rawko.is_confined());
    CallContext { project, is_confined }
}

fn tool_call(name: &str, input: Value) -> ToolCall {
    ToolCall { id: "call_1".to_owned(), name: name.to_owned(), input, invalid_input: None, withheld: None }
}

fn parse(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::usage(format!("the arguments are not JSON: {error}"))
            .with_hint("write an object, e.g. --input '{\"file_path\": \"README.md\"}', or name a file with --input @FILE")
    })
}

fn carry_out(workspace: &Workspace, call: &ToolsCallArgs) -> Result<Exit, Failure> {
    let rawko = workspace.builder().trusted(call.yes).build()?;
    workspace.warn(&rawko);
    let agent = agents::find(&rawko, &call.agent)?;
    let input = match call.input.strip_prefix('@') {
        None => parse(&call.input)?,
        Some(file) => parse(&read(Path::new(file))?)?,
    };
    if is_control_tool(&call.name) {
        return Err(Failure::usage(format!(
            "`{}` is a control tool, which only works inside a run",
            call.name
        ))
        .with_hint("`rawko tools list` shows the others"));
    }
    let registry = rawko.tools()?;
    let request = tool_call(&call.name, input);
    let context = context(&rawko, agent, rawko.confinement()?);
    let verdict = policy_permission(&rawko, agent, &registry, &request);
    if let Some(why) = verdict.explained() {
        return Err(Failure::new(Exit::Failed, format!("denied by {}: {why}", verdict.rule()))
            .with_hint(format!("`rawko tools list --agent {}` shows what it may use", agent.config.name)));
    }
    let outcome = block_on(until_stopped(rawko.call_tool(&registry, request, &context)))?;
    let Some(outcome) = outcome else { return Ok(Exit::Cancelled) };
    let text = |_| format!("{}\n", clean(&outcome.content).trim_end());
    workspace.console.output(call.output.json, &outcome, text)?;
    Ok(if outcome.is_error { Exit::Failed } else { Exit::Success })
}

fn granted(rawko: &Rawko, agent: &LoadedAgent) -> Permissions {
    effective_permissions(&rawko.config().config.permissions, agent.config.permissions.as_ref(), None)
}

fn context(rawko: &Rawko, agent: &LoadedAgent, confinement: Confinement) -> ToolContext {
    context_for(rawko, &agent.config, &granted(rawko, agent), confinement)
}

fn context_for(
    rawko: &Rawko,
    agent: &AgentConfig,
    granted: &Permissions,
    confinement: Confinement,
) -> ToolContext {
    let permissions = permissions_of_calls(agent, granted);
    ToolContext {
        root: rawko.project().to_owned(),
        agent: agent.name.clone(),
        permissions: Arc::new(permissions),
        approved: Vec::new(),
        confinement,
        traceparent: None,
        progress: Arc::new(|_| {}),
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    use std::io::Read as _;
    let mut text = String::new();
    let opened = std::fs::File::open(path);
    match opened.and_then(|file| file.take(LONGEST_INPUT).read_to_string(&mut text)) {
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::usage(format!("cannot read {}: {error}", path.display()))
            .with_hint("name a file of JSON: --input @FILE")),
    }
}
