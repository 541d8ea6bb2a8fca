//! `rawko agents`: the agents that can be selected.

mod rights;

use clap::Subcommand;
use rawko::Rawko;
use rawko::config::{AgentSource, LoadedAgent, Scope};
use rawko_core::agent::{AgentConfig, SkillChoice};
use serde_json::{Value, json};

use crate::console::OutputArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Paint, Rows, clean, clean_line, fit, indent, shortened};
use crate::workspace::Workspace;

/// Subcommands of `rawko agents`.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentsCommand {
    /// List the agents
    List(OutputArgs),
    /// Show an agent with its prompt
    Show {
        /// The agent's name
        name: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Check the agents' files
    Check(OutputArgs),
}

/// Runs the subcommand.
pub(crate) fn run(workspace: &Workspace, action: &AgentsCommand) -> Result<Exit, Failure> {
    let console = &workspace.console;
    let rawko = match (action, workspace.inspect_or_errors()?) {
        (_, Ok(rawko)) => rawko,
        (AgentsCommand::Check(OutputArgs { json: true }), Err(errors)) => {
            console.json(&json!({ "valid": false, "errors": errors.errors }))?;
            return Ok(Exit::Usage);
        }
        (_, Err(errors)) => return Err(rawko::Error::Config(errors).into()),
    };
    let config = rawko.config();
    match action {
        AgentsCommand::List(output) => {
            let agents: Vec<&LoadedAgent> = config.agents.values().collect();
            let entries: Vec<Value> = config.agents.values().map(entry).collect();
            console.output(output.json, &entries, |paint| list(&agents, paint))?;
        }
        AgentsCommand::Show { name, output } => {
            let agent = find(&rawko, name)?;
            let (is_confined, source) = rights::sandbox(&rawko);
            let value = json!({
                "source": agent.source.to_string(),
                "agent": agent.config,
                "rights": rights::of(&rawko, agent),
                "sandbox": { "confined": is_confined, "source": source },
            });
            console.output(output.json, &value, |paint| page(&rawko, agent, paint))?;
        }
        AgentsCommand::Check(output) => {
            let names: Vec<&String> = config.agents.keys().collect();
            let value = json!({ "valid": true, "agents": names, "warnings": config.warnings });
            console.output(output.json, &value, |_| {
                let of = |scope| config.agents.values().filter(|agent| agent.scope == Some(scope)).count();
                let (all, own) = (config.agents.len(), of(Scope::Project));
                let users = match of(Scope::User) {
                    0 => String::new(),
                    users => format!(", and {users} of yours"),
                };
                format!("{all} agents are valid, {own} of them from this folder{users}\n")
            })?;
        }
    }
    Ok(Exit::Success)
}

/// The agent of that name.
pub(crate) fn find<'a>(rawko: &'a Rawko, name: &str) -> Result<&'a LoadedAgent, Failure> {
    let agents = &rawko.config().agents;
    agents.get(name).ok_or_else(|| {
        let known: Vec<&str> = agents.keys().map(String::as_str).collect();
        let nearest = rawko_core::policy::nearest_name(name, &known);
        let hint = match nearest {
            Some(near) => format!("did you mean `{near}`? The agents are: {}", known.join(", ")),
            None => format!("the agents are: {}", known.join(", ")),
        };
        Failure::usage(format!("there is no agent `{name}`")).with_hint(hint)
    })
}

fn entry(agent: &LoadedAgent) -> Value {
    let config = &agent.config;
    json!({
        "name": config.name,
        "displayName": config.display_name(),
        "whenToUse": config.when_to_use.joined(),
        "tools": config.tools.allowed,
        "source": agent.source.to_string(),
        "scope": scope(agent),
        "replaces": agent.replaces.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// Whose the agent is.
fn scope(agent: &LoadedAgent) -> &'static str {
    match agent.scope {
        None => "built in",
        Some(Scope::User) if matches!(agent.source, AgentSource::Plugin { .. }) => "plug-in",
        Some(Scope::User) => "user",
        Some(Scope::Project) => "project",
    }
}

/// What the agent takes the place of; empty if that is nothing.
fn replaced(agent: &LoadedAgent) -> String {
    let replaced: Vec<String> = agent
        .replaces
        .iter()
        .map(|source| match source {
            AgentSource::BuiltIn => "the built-in one".to_owned(),
            AgentSource::File(_) | AgentSource::ClaudeCode(_) | AgentSource::Plugin { .. } => {
                source.to_string()
            }
        })
        .collect();
    replaced.join(" and ")
}

fn list(agents: &[&LoadedAgent], paint: Paint) -> String {
    let mut text = Rows::new(paint, agents).table(&[
        ("NAME", &|agent| agent.config.name.clone()),
        ("TOOLS", &|agent| tools(&agent.config)),
        ("SOURCE", &|agent| scope(agent).to_owned()),
        ("FROM", &|agent| agent.scope.map_or_else(String::new, |_| agent.source.to_string())),
        ("WHEN TO USE", &|agent| shortened(&agent.config.when_to_use.joined(), 60)),
    ]);
    for agent in agents.iter().filter(|agent| !agent.replaces.is_empty()) {
        let line = format!("{} replaces {}", agent.config.name, replaced(agent));
        text.push_str(&format!("{}\n", paint.faint(&clean_line(&line))));
    }
    text
}

fn tools(config: &AgentConfig) -> String {
    let mut text = match &config.tools.allowed {
        None => "all".to_owned(),
        Some(names) if names.is_empty() => "none".to_owned(),
        Some(names) => names.join(", "),
    };
    if !config.tools.blocked.is_empty() {
        text.push_str(&format!(" without {}", config.tools.blocked.join(", ")));
    }
    text
}

fn page(rawko: &Rawko, agent: &LoadedAgent, paint: Paint) -> String {
    let config = &agent.config;
    let mut rows = vec![
        ("name", config.name.clone()),
        ("from", agent.source.to_string()),
        ("replaces", replaced(agent)),
        ("when to use", config.when_to_use.joined()),
    ];
    let transitions = &config.transitions;
    for (name, target) in [
        ("on success", &transitions.on_success),
        ("on failure", &transitions.on_failure),
        ("out of turns", &transitions.on_max_iterations),
    ] {
        rows.extend(target.clone().map(|target| (name, target)));
    }
    rows.push(("turns", config.max_turns().to_string()));
    rows.extend(config.limits.timeout.map(|ms| ("time", crate::output::duration(ms))));
    rows.extend(config.provider.name.clone().map(|name| ("provider", name)));
    rows.extend(config.provider.model.clone().map(|model| ("model", model)));
    let skills = match &config.skills {
        None | Some(SkillChoice::All(true)) => String::new(),
        Some(SkillChoice::All(false)) => "none".to_owned(),
        Some(SkillChoice::Named(names)) => names.join(", "),
    };
    rows.push(("skills", skills));
    let mut text = format!("{}\n", paint.strong(&clean_line(config.display_name())));
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        text.push_str(&row(name, value, paint));
    }
    text.push_str(&rights_of(rawko, agent, paint));
    text.push_str(&format!("\n{}\n", indent(&clean(config.system_prompt.trim_end()), 2)));
    text
}

/// What the agent may do, each line with its source.
fn rights_of(rawko: &Rawko, agent: &LoadedAgent, paint: Paint) -> String {
    let (is_confined, source) = rights::sandbox(rawko);
    let held = if is_confined { "commands are held to these rights" } else { "commands are not confined" };
    let rights = rights::of(rawko, agent);
    let rows = rights.iter().map(|right| (right.name, right.text(), right.source.as_str()));
    let mut text = format!("\n{}\n", paint.strong("May do"));
    for (name, value, source) in rows.chain([("sandbox", held.to_owned(), source.as_str())]) {
        let source = format!("({})", clean_line(source));
        let line = row(name, &format!("{value}  {source}"), paint);
        text.push_str(&line.replace(&source, &paint.faint(&source)));
    }
    text
}

/// A line of the page, or several.
fn row(name: &str, value: &str, paint: Paint) -> String {
    let value = fit(&clean_line(value), 16);
    format!("  {} {}\n", paint.faint(&format!("{name:<13}")), value.trim_start())
}
