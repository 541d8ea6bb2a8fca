//! The rules for agents that a schema cannot express: names are unique and exist, patterns compile.
//!
//! They hold for agents from files. A file that could not be parsed was reported already and is skipped here.

use std::collections::HashMap;
use std::path::Path;

use rawko_core::agent::{AgentConfig, AgentProvider, BashFilter};
use rawko_core::policy::{BashFilterError, is_control_tool, is_mcp_tool, validate_filter};
use rawko_tools::looks_like_secret;
use serde_json::Value;

use super::agent_file::AgentFile;
use super::config_rules::{KnownNames, missing_provider, permission_faults};
use super::diagnostic::{Diagnostic, printable};
use super::nearest::nearest;
use super::yaml::escape;

/// The target of a transition that ends the task; no agent can have this name.
pub(super) const COMPLETE: &str = "complete";

/// Checks all rules, and returns every violation.
pub(super) fn check(agents: &[AgentFile], known: &KnownNames<'_>) -> Vec<Diagnostic> {
    let mut findings = Vec::new();
    // Between folders there is an order of precedence.
    let mut seen: HashMap<(Option<&Path>, &str), &AgentFile> = HashMap::new();
    for agent in agents {
        if let Some(first) = seen.insert((agent.source.name.parent(), &agent.name), agent) {
            let message = format!(
                "there are two agents `{}`: the other is in {}",
                agent.name,
                first.source.name.display()
            );
            findings.push(agent.finding("/name", message, Some("rename or remove one of them".to_owned())));
        }
        if let Some(parsed) = &agent.config {
            let mut rules = AgentRules { agent, findings: &mut findings };
            rules.words(parsed);
            rules.transitions(parsed, known.agents);
            rules.tools(parsed, known);
            rules.bash_filter(parsed);
            rules.provider(parsed, known);
            rules.acp(parsed);
            for (pointer, message, help) in parsed.permissions.iter().flat_map(permission_faults) {
                rules.find(&format!("/permissions{pointer}"), message, Some(help.to_owned()));
            }
        }
    }
    findings
}

/// Whether an entry means tools of MCP servers: a name, or a pattern.
fn is_mcp_entry(entry: &str) -> bool {
    is_mcp_tool(entry) && entry.chars().all(|c| c.is_ascii_alphanumeric() || "_-*".contains(c))
}

/// Whether it can be the name of a variable of the environment.
fn is_variable(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

struct AgentRules<'a> {
    agent: &'a AgentFile,
    findings: &'a mut Vec<Diagnostic>,
}

impl AgentRules<'_> {
    fn find(&mut self, pointer: &str, message: impl Into<String>, help: Option<String>) {
        self.findings.push(self.agent.finding(pointer, message, help));
    }

    fn words(&mut self, agent: &AgentConfig) {
        if agent.name == COMPLETE {
            let help =
                "choose another name; as the target of a transition, `complete` means that the task is done";
            self.find("/name", "an agent cannot be named `complete`", Some(help.to_owned()));
        }
        if agent.system_prompt.trim().is_empty() {
            self.find(
                "/systemPrompt",
                "the system prompt is empty",
                Some("describe the agent's job".to_owned()),
            );
        }
        if let Some(tags) = agent.metadata.get("tags")
            && !tags.as_array().is_some_and(|tags| tags.iter().all(Value::is_string))
        {
            let help = "write `tags: [one, two]`; they select the memories that the agent gets";
            self.find("/metadata/tags", "`metadata.tags` should be a list of strings", Some(help.to_owned()));
        }
    }

    fn transitions(&mut self, agent: &AgentConfig, agents: &[&str]) {
        let transitions = &agent.transitions;
        let named = [
            ("/transitions/onSuccess".to_owned(), transitions.on_success.as_deref()),
            ("/transitions/onFailure".to_owned(), transitions.on_failure.as_deref()),
            ("/transitions/onMaxIterations".to_owned(), transitions.on_max_iterations.as_deref()),
        ];
        let custom = transitions.custom.iter().enumerate();
        let custom =
            custom.map(|(n, t)| (format!("/transitions/custom/{n}/target"), Some(t.target.as_str())));
        for (pointer, target) in named.into_iter().chain(custom) {
            let Some(target) = target.filter(|target| *target != COMPLETE && !agents.contains(target)) else {
                continue;
            };
            let help = match nearest(target, agents.iter().copied().chain([COMPLETE])) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are: {}, {COMPLETE}", agents.join(", ")),
            };
            self.find(&pointer, format!("there is no agent `{}`", printable(target)), Some(help));
        }
    }

    fn tools(&mut self, agent: &AgentConfig, known: &KnownNames<'_>) {
        if known.tools.is_empty() || !known.is_whole {
            return;
        }
        let all = || known.tools.iter().chain(known.custom_tools).copied();
        let allowed =
            agent.tools.allowed.iter().flatten().enumerate().map(|(n, t)| (format!("/tools/allowed/{n}"), t));
        let blocked = agent.tools.blocked.iter().enumerate().map(|(n, t)| (format!("/tools/blocked/{n}"), t));
        for (pointer, tool) in allowed.chain(blocked) {
            // A server may be the user's own, and not be there for others.
            if is_control_tool(tool) || is_mcp_entry(tool) || all().any(|known| known == tool) {
                continue;
            }
            let help = match nearest(tool, all()) {
                Some(near) if near.eq_ignore_ascii_case(tool) => {
                    format!("write `{near}`: names are case-sensitive")
                }
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are: {}", all().collect::<Vec<_>>().join(", ")),
            };
            self.find(&pointer, format!("there is no tool `{}`", printable(tool)), Some(help));
        }
    }

    /// Checks each entry with the policy that will use it, one by one, so that each error has its own position.
    fn bash_filter(&mut self, agent: &AgentConfig) {
        let Some(filter) = &agent.tools.bash_filter else { return };
        for (n, command) in filter.allowed_commands.iter().flatten().enumerate() {
            let alone =
                BashFilter { allowed_commands: Some(vec![command.clone()]), blocked_patterns: Vec::new() };
            if validate_filter(&alone).is_err() {
                let help = "list programs by their bare names; use `blockedPatterns` to restrict arguments";
                let message = format!("`{}` is not the name of a program", printable(command));
                self.find(&format!("/tools/bashFilter/allowedCommands/{n}"), message, Some(help.to_owned()));
            }
        }
        for (n, pattern) in filter.blocked_patterns.iter().enumerate() {
            let pointer = format!("/tools/bashFilter/blockedPatterns/{n}");
            if pattern.is_empty() {
                self.find(&pointer, "an empty pattern blocks every command", Some("remove it".to_owned()));
                continue;
            }
            let alone = BashFilter { allowed_commands: None, blocked_patterns: vec![pattern.clone()] };
            for error in validate_filter(&alone).err().into_iter().flatten() {
                let reason = match &error {
                    BashFilterError::BadPattern { why, .. } => why.lines().last().unwrap_or_default(),
                    BashFilterError::NotAName { entry } => entry,
                };
                let reason = reason.trim_start_matches("error: ");
                let help = "escape special characters with `\\`: . + * ? ( ) [ ] { } ^ $ | \\";
                let message = format!("this is not a valid regular expression: {reason}");
                self.find(&pointer, message, Some(help.to_owned()));
            }
        }
    }

    /// What rawko cannot hold another program to is not promised.
    fn acp(&mut self, agent: &AgentConfig) {
        let Some(acp) = &agent.acp else { return };
        if acp.program().trim().is_empty() {
            let help =
                "name its program and arguments: command: [npx, \"@agentclientprotocol/claude-agent-acp\"]";
            self.find("/acp/command", "an ACP agent needs a command", Some(help.to_owned()));
        }
        for name in acp.env.keys().filter(|name| looks_like_secret(name)) {
            let help = format!("put it into your environment, and write `key: {}`", printable(name));
            let message = format!("`{}` is no name for a value in a file", printable(name));
            self.find(&format!("/acp/env/{}", escape(name)), message, Some(help));
        }
        if let Some(key) = acp.key.as_ref().filter(|key| !is_variable(key)) {
            let help =
                "name the variable, as in `key: ANTHROPIC_API_KEY`; its value stays in your environment";
            let message = format!("`{}` is not the name of a variable", printable(key));
            self.find("/acp/key", message, Some(help.to_owned()));
        }
        let unheld = [
            ("/provider", agent.provider != AgentProvider::default()),
            ("/tools/bashFilter", agent.tools.bash_filter.is_some()),
            ("/limits/maxIterations", agent.limits.max_iterations.is_some()),
            ("/limits/maxTokens", agent.limits.max_tokens.is_some()),
        ];
        for (pointer, _) in unheld.into_iter().filter(|(_, is_set)| *is_set) {
            let name = pointer.trim_start_matches('/').replace('/', ".");
            let message = format!("`{name}` does not hold the program of an ACP agent");
            let help = "remove it; `tools.allowed`, `limits.timeout` and `budget` do hold it";
            self.find(pointer, message, Some(help.to_owned()));
        }
    }

    fn provider(&mut self, agent: &AgentConfig, known: &KnownNames<'_>) {
        let missing = agent.provider.name.as_deref().and_then(|name| missing_provider(name, known));
        if let Some((message, help)) = missing {
            self.find("/provider/name", message, Some(help));
        }
    }
}
