//! What a project's configuration claims and only a trusted folder gets.
//!
//! Owns the list of such claims (`docs/configuration.md`, `docs/sandbox.md`, attack 5). Whether the
//! folder is trusted, and what to do if it is not, is up to the caller. Only effective values count: a value that the
//! user's environment or flags override claims nothing.

use std::path::{Component, Path};

use rawko_core::agent::{AcpProgram, AgentConfig, SandboxUse, builtin_agents};
use rawko_core::integrity::ChangedChecks;
use rawko_core::policy::{WEB_FETCH, WEB_SEARCH, is_of_use};
use rawko_tools::protected_name;
use serde_json::Value;

use super::address::{host_of, is_loopback};
use super::agent_file::AgentFile;
use super::api_key_env::ApiKeyEnv;
use super::claim::{Claim, ClaimKind, Claims};
use super::diagnostic::whole;
use super::layers::Layers;
use super::mcp::McpServer;
use super::model::Config;
use super::position::Position;
use super::source::{Scope, SourceFile};
use super::trust_keys::{self, Judge};
use super::yaml::escape;
use crate::isolation::{LandingPolicy, Workspace};
use rawko_core::MemoryLimit;

/// The claims of the project's files, by file and line.
pub(super) fn of(
    config: &Config,
    layers: &Layers,
    files: &[AgentFile],
    translated: &[(AgentConfig, SourceFile)],
    project: &Path,
) -> Vec<Claim> {
    let mut claims = Claims { layers, found: Vec::new() };
    for judge in trust_keys::judges() {
        match judge {
            Judge::Agents => claims.agents(config, files, translated),
            Judge::Fleet => claims.fleet(&config.fleet),
            Judge::Hooks => claims.hooks(),
            Judge::Mcp => claims.mcp(config),
            Judge::Notify => claims.notify(&config.notify),
            Judge::Observability => claims.observability(&config.observability),
            Judge::Permissions => claims.permissions(config, project),
            Judge::Prices => claims.prices(config, files),
            Judge::Providers => claims.providers(config),
            Judge::Secrets => claims.secrets(config),
            Judge::Tools => claims.tools(config),
            Judge::Verification => claims.verification(config),
            Judge::Web => claims.web(&config.web),
            Judge::Workspace => claims.workspace(config),
        }
    }
    claims.limits(config);
    claims.agent_limits(files);
    let mut found = claims.found;
    found.sort_by(|a, b| (&a.path, a.line, a.kind).cmp(&(&b.path, b.line, b.kind)));
    found
}

/// The tools by which an agent of the project's reaches more than its files, as far as they work with this
/// configuration. Its instructions are the project's, too.
fn reach(config: &Config) -> Vec<(&str, &'static str)> {
    let mut reach = vec![("Bash", "run shell commands")];
    reach.extend(config.tools.iter().map(|tool| (tool.name.as_str(), "run your own tools")));
    if !config.mcp.servers.is_empty() {
        reach.push(("mcp__", "call the tools of MCP servers"));
    }
    if is_of_use(WEB_FETCH, &config.permissions) {
        reach.push((WEB_FETCH, "read pages of the web"));
    }
    let provider_searches = config.web.search.hosted().is_some()
        && config.provider.named.values().any(|own| own.web_search == Some(true));
    if config.web.search.has_service() || provider_searches {
        reach.push((WEB_SEARCH, "search the web"));
    }
    reach
}

/// Whether an entry of a list is about a tool, or about tools that begin this way.
fn is_for(entry: &str, tool: &str) -> bool {
    entry == tool || tool.ends_with('_') && entry.starts_with(tool)
}

fn may_use(agent: &AgentConfig, tool: &str) -> bool {
    agent.tools.allowed.as_ref().is_none_or(|allowed| allowed.iter().any(|entry| is_for(entry, tool)))
        && !agent.tools.blocked.iter().any(|entry| entry == tool)
}

/// The line that grants a tool: its entry in the list, or the first line if there is no list.
fn line_of_tool(file: &AgentFile, tool: &str) -> usize {
    let allowed = file.config.as_ref().and_then(|agent| agent.tools.allowed.as_ref());
    match allowed.and_then(|allowed| allowed.iter().position(|entry| is_for(entry, tool))) {
        Some(n) => file.document.place(&format!("/tools/allowed/{n}")).line,
        None => Position::START.line,
    }
}

impl Claims<'_> {
    /// The project's agents that reach more than files.
    fn agents(&mut self, config: &Config, files: &[AgentFile], translated: &[(AgentConfig, SourceFile)]) {
        let builtin = builtin_agents();
        let own = files.iter().filter(|file| file.source.scope == Scope::Project);
        let translated = translated.iter().filter(|(_, source)| source.scope == Scope::Project);
        let own = own.filter_map(|file| Some((file.config.as_ref()?, &file.source, Some(file))));
        for (agent, source, file) in own.chain(translated.map(|(agent, source)| (agent, source, None))) {
            if builtin.contains(agent) {
                continue;
            }
            if let Some(acp) = &agent.acp {
                let line = file.map_or(1, |file| file.document.place("/acp").line);
                let message = acp_claim(&agent.name, acp);
                self.found.push(Claim {
                    kind: ClaimKind::CustomTool,
                    path: source.name.clone(),
                    line,
                    message,
                });
                continue;
            }
            if let Some((tool, does)) = reach(config).into_iter().find(|(tool, _)| may_use(agent, tool)) {
                let message = format!("the agent `{}` may {does}", agent.name);
                let line = file.map_or(1, |file| line_of_tool(file, tool));
                self.found.push(Claim { kind: ClaimKind::Shell, path: source.name.clone(), line, message });
            }
        }
    }

    fn providers(&mut self, config: &Config) {
        for (name, provider) in &config.provider.named {
            let at = format!("/provider/{}", escape(name));
            let Some(resolved) = config.provider(name) else { continue };
            if let Some(url) = &provider.base_url {
                let shown = whole(url);
                match resolved.key_env() {
                    Some(key) => self.add(
                        ClaimKind::Server,
                        &format!("{at}/baseUrl"),
                        format!("the provider `{name}` would send the key in {key} to {shown}"),
                    ),
                    // Without a key only a server on this machine is harmless. Any other would see the task
                    // and the code, and its answers would control the agents.
                    None if !is_loopback(host_of(url)) => self.add(
                        ClaimKind::Server,
                        &format!("{at}/baseUrl"),
                        format!("the provider `{name}` would ask the server {shown}"),
                    ),
                    None => {}
                }
            }
            if let ApiKeyEnv::Variable(key) = &provider.api_key_env
                && resolved.usual_key_env() != Some(key.as_str())
            {
                let message = format!("the provider `{name}` would send {key} as its key");
                self.add(ClaimKind::Key, &format!("{at}/apiKeyEnv"), message);
                // The user configured the key, and the project the server that it goes to.
                if !self.layers.provenance.is_projects(&format!("{at}/apiKeyEnv")) {
                    for part in ["preset", "type"] {
                        let message = format!(
                            "the provider `{name}` would send {key} to a server of the project's choice"
                        );
                        self.add(ClaimKind::Server, &format!("{at}/{part}"), message);
                    }
                }
            }
            if let Some(cli) = &provider.cli {
                let message = format!("the provider `{name}` would run the program `{}`", whole(cli));
                self.add(ClaimKind::CustomTool, &format!("{at}/cli"), message);
            }
            if let Some(script) = &provider.script {
                let message = format!("the provider `{name}` would replay the script {}", whole(script));
                self.add(ClaimKind::Script, &format!("{at}/script"), message);
            }
            for (field, value) in &provider.extra {
                let message =
                    format!("the provider `{name}` would send the field `{}` of its own", whole(field));
                let parts = leaves(&format!("{at}/extra/{}", escape(field)), value);
                if let Some(part) = parts.iter().find(|part| self.layers.provenance.is_projects(part)) {
                    self.add(ClaimKind::Request, part, message);
                }
            }
        }
    }

    fn tools(&mut self, config: &Config) {
        for (n, tool) in config.tools.iter().enumerate() {
            let command = tool.command.join(" ");
            let message = format!("the tool `{}` would run `{}`", tool.name, whole(&command));
            self.add(ClaimKind::CustomTool, &format!("/tools/{n}/command"), message);
        }
    }

    fn mcp(&mut self, config: &Config) {
        for (name, server) in config.mcp.servers.iter().filter(|(_, server)| !server.disabled) {
            let pointer = format!("/mcp/servers/{}", escape(name));
            self.add(ClaimKind::McpServer, &pointer, mcp_claim(name, server));
        }
    }

    fn verification(&mut self, config: &Config) {
        let list = if self.layers.get("/verify").is_some_and(Value::is_array) { "" } else { "/commands" };
        for (n, command) in config.verify.commands.iter().flatten().enumerate() {
            let message = format!("`{}` would be run to verify that a task is done", whole(command));
            self.add(ClaimKind::Verification, &format!("/verify{list}/{n}"), message);
        }
        let users = self.layers.value_in(Scope::User, "/verify/changedChecks").and_then(Value::as_str);
        if config.verify.changed_checks == Some(ChangedChecks::Allow) {
            let message = "runs could change the checks that verify them".to_owned();
            self.add(ClaimKind::Verification, "/verify/changedChecks", message);
        } else if users == Some("deny") && config.verify.changed_checks != Some(ChangedChecks::Deny) {
            let message = "your own `verify.changedChecks: deny` would be lifted".to_owned();
            self.add(ClaimKind::Verification, "/verify", message);
        }
        // A list or a mapping without commands takes the place of the user's list.
        let own = ["/verify", "/verify/commands"].map(|at| self.layers.value_in(Scope::User, at));
        let own = own.into_iter().flatten().find_map(Value::as_array);
        if own.is_some_and(|own| !own.is_empty()) && config.verify.commands.iter().flatten().next().is_none()
        {
            let message = "your own verification commands would not be run".to_owned();
            self.add(ClaimKind::Verification, "/verify", message);
        }
    }

    fn permissions(&mut self, config: &Config, project: &Path) {
        let granted = &config.permissions;
        let users = self.layers.value_in(Scope::User, "/permissions/sandbox").and_then(Value::as_str);
        if granted.sandbox == Some(SandboxUse::Off) && users != Some("off") {
            let message = "commands would run without a sandbox".to_owned();
            self.add(ClaimKind::Permission, "/permissions/sandbox", message);
        }
        let users = self.layers.value_in(Scope::User, "/permissions/memory").and_then(Value::as_str);
        let users = users.and_then(|text| MemoryLimit::parse(text).ok()).unwrap_or_default();
        if let Some(memory) = granted.memory.filter(|memory| !memory.is_within(users)) {
            let message = format!(
                "a command could use memory up to `{memory}`, and the limit is `{users}` without this file"
            );
            self.add(ClaimKind::Permission, "/permissions/memory", message);
        }
        let users = self.layers.value_in(Scope::User, "/permissions/ask").and_then(Value::as_array);
        for (n, ask) in granted.ask.iter().flatten().enumerate() {
            if !users.is_some_and(|users| users.iter().any(|user| user.as_str() == Some(ask.as_str()))) {
                let message = format!("agents would ask you for {} that are not granted", ask.as_str());
                self.add(ClaimKind::Permission, &format!("/permissions/ask/{n}"), message);
            }
        }
        let lists = [
            ("read", &granted.read),
            ("write", &granted.write),
            ("net", &granted.net),
            ("env", &granted.env),
            ("run", &granted.run),
            ("caches", &granted.caches),
        ];
        for (key, items) in lists {
            let pointer = format!("/permissions/{key}");
            let users = self.layers.value_in(Scope::User, &pointer).and_then(Value::as_array);
            for (n, item) in items.iter().flatten().enumerate() {
                let granted_anyway = match (users, key) {
                    (Some(users), _) => users.iter().any(|user| user.as_str() == Some(item)),
                    // Nothing can grant writing there, but the attempt is still reported.
                    (None, "write") if names_protected(item, project) => false,
                    (None, "read" | "write") => stays_inside(item, project),
                    // An absent list of programs grants all programs, so listing some narrows it.
                    (None, "run") => true,
                    (None, _) => false,
                };
                if !granted_anyway {
                    let message = format!("agents would get the permission `{key}` for `{}`", whole(item));
                    self.add(ClaimKind::Permission, &format!("{pointer}/{n}"), message);
                }
            }
        }
    }

    /// A run in the user's files that the user would have isolated, and a landing of more than the user has land.
    fn workspace(&mut self, config: &Config) {
        let users = |pointer| self.layers.value_in(Scope::User, pointer).and_then(Value::as_str);
        let is_isolated = users("/workspace") == Some(Workspace::Isolated.as_str());
        let users_land =
            LandingPolicy::ALL.into_iter().find(|policy| users("/land") == Some(policy.as_str()));
        if is_isolated && config.workspace == Workspace::Project {
            let message = "runs would work in your own files, and not in a tree of their own".to_owned();
            self.add(ClaimKind::Permission, "/workspace", message);
        }
        if config.land.lands_more_than(users_land.unwrap_or_default()) {
            let message = format!("work of isolated runs would land as by `land: {}`", config.land.as_str());
            self.add(ClaimKind::Permission, "/land", message);
        }
    }

    fn secrets(&mut self, config: &Config) {
        if !config.secrets.mask_tokens {
            let message = "models would be shown the tokens in your files".to_owned();
            self.add(ClaimKind::Permission, "/secrets/maskTokens", message);
        }
    }
}

/// What a server does that a project defines, in words.
pub(super) fn mcp_claim(name: &str, server: &McpServer) -> String {
    let mut message = match (&server.command, &server.url) {
        (Some(command), _) => {
            let line: Vec<&str> = std::iter::once(command).chain(&server.args).map(String::as_str).collect();
            format!("the MCP server `{name}` would run `{}`", whole(&line.join(" ")))
        }
        (None, url) => {
            format!("the MCP server `{name}` would be asked at {}", whole(url.as_deref().unwrap_or_default()))
        }
    };
    let variables = super::mcp::variables(server);
    if !variables.is_empty() {
        message.push_str(&format!(" and be given {} of your environment", whole(&variables.join(", "))));
    }
    for (what, list) in [("write", &server.permissions.write), ("reach", &server.permissions.net)] {
        if let Some(list) = list.as_ref().filter(|list| !list.is_empty()) {
            message.push_str(&format!("; it may {what} {}", whole(&list.join(", "))));
        }
    }
    message
}

/// What the program of an agent does, in words.
fn acp_claim(name: &str, acp: &AcpProgram) -> String {
    let mut message = format!("the agent `{name}` would run `{}`", whole(&acp.command.join(" ")));
    if let Some(key) = &acp.key {
        message.push_str(&format!(" and be given {key} of your environment"));
    }
    // A variable can change what the program is, or where the key goes.
    if !acp.env.is_empty() {
        let set: Vec<String> = acp.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        message.push_str(&format!("; it would set {}", whole(&set.join(", "))));
    }
    if !acp.net.is_empty() {
        message.push_str(&format!("; it may reach {}", whole(&acp.net.join(", "))));
    }
    message
}

/// The values in a mapping of mappings, by their pointers: files are merged value by value.
fn leaves(pointer: &str, value: &Value) -> Vec<String> {
    match value.as_object().filter(|fields| !fields.is_empty()) {
        Some(fields) => fields
            .iter()
            .flat_map(|(name, value)| leaves(&format!("{pointer}/{}", escape(name)), value))
            .collect(),
        None => vec![pointer.to_owned()],
    }
}

/// Whether a path of a permission is lexically inside the project. Links are not followed.
fn stays_inside(item: &str, project: &Path) -> bool {
    if item.starts_with(['~', '$']) {
        return false;
    }
    let path = Path::new(item);
    let relative = if path.is_absolute() {
        match path.strip_prefix(project) {
            Ok(relative) => relative,
            Err(_) => return false,
        }
    } else {
        path
    };
    !relative
        .components()
        .any(|part| matches!(part, Component::ParentDir | Component::RootDir | Component::Prefix(_)))
}

/// Whether a path of a permission names something that controls what rawko and git run.
fn names_protected(item: &str, project: &Path) -> bool {
    let path = Path::new(item);
    protected_name(path.strip_prefix(project).unwrap_or(path)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_project_are_seen() {
        let project = Path::new("/home/me/project");
        for inside in [".", "src", "./src/../", "/home/me/project", "/home/me/project/src"] {
            assert_eq!(stays_inside(inside, project), !inside.contains(".."), "{inside}");
        }
        for outside in
            ["..", "../x", "a/../../x", "/", "/home/me", "~", "~/x", "$HOME", "/home/me/project/../x"]
        {
            assert!(!stays_inside(outside, project), "{outside}");
        }
    }
}
