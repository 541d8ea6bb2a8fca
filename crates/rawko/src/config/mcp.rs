//! Servers of tools (MCP): `mcp:` of `config.yaml`, and `mcpServers` (or `servers`) of the project's `.mcp.json`.
//!
//! Owns names, types and the expansion of `${VARIABLE}`. What a server may do is in `docs/mcp.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rawko_core::TimeSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::address::check_url;
use super::diagnostic::{Diagnostic, printable};
use super::jsonc;
use super::layers::Layers;
use super::plugins::{PluginForm, PluginServer};
use super::source::{Scope, SourceFile};
use super::yaml::escape;
use crate::error::Error;

/// The file of other tools that names servers, relative to the project.
pub(super) const MCP_JSON: &str = ".mcp.json";

/// `mcp:`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct McpSection {
    /// The servers by name. Their tools are called `mcp__NAME__TOOL`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub servers: BTreeMap<String, McpServer>,
}

impl McpSection {
    pub(super) fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }
}

/// One server: a program (`command`) or an address (`url`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct McpServer {
    /// The program: a name that is looked up in `PATH`, or a path; a relative one with a slash begins in the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub command: Option<String>,
    /// Its arguments. `${VARIABLE}` means a variable of your environment, `${VARIABLE:-text}` that or the text,
    /// here and in `env`, `url`, `headers` and `oauth`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables that it gets besides those of every command.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Where it runs, relative to the project. Default: the project; your home for a server of your own configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub cwd: Option<String>,
    /// The address of a server that speaks streamable HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What is sent with every request. They go to the host of `url` alone.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The client that logs in, where you registered one with the server. Without it rawko registers itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth: Option<McpClient>,
    /// Longest time of one call (default 2m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<TimeSpan>,
    /// Longest time until it is ready (default 30s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timeout: Option<TimeSpan>,
    /// The tools of it that are offered, by their names at the server. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// What the program may touch. Default: it reads the project, writes nothing and reaches no host.
    #[serde(skip_serializing_if = "is_default")]
    pub permissions: McpPermissions,
    /// Whether to believe it when it says of a tool that it only reads: such calls run in parallel, and are repeated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub believe_read_only: bool,
    /// Whether it is left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
}

/// `oauth:` of a server at an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpClient {
    /// The id that the registration gave.
    #[schemars(length(min = 1))]
    pub client_id: String,
    /// Its secret, if it has one; name a variable: `${MY_SECRET}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// The port of the registered redirect address, `http://127.0.0.1:PORT/callback`. Default: a free one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub callback_port: Option<u16>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// `permissions:` of a server. They are its own, and do not depend on those of agents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct McpPermissions {
    /// What it may read. Default: the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<Vec<String>>,
    /// What it may write. Default: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<Vec<String>>,
    /// What it may neither read nor write, besides what is denied to all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<Vec<String>>,
    /// The hosts that it may reach. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub net: Option<Vec<String>>,
}

/// A server, and where it is defined.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedServer {
    /// What is configured.
    pub config: McpServer,
    /// The file that defines it, or a part of it.
    pub path: PathBuf,
    /// Whether it is the user's own, or the project has a part in it.
    pub scope: Scope,
    /// The plug-in that it comes from.
    pub plugin: Option<PluginServer>,
}

impl LoadedServer {
    /// Whether it comes from `.mcp.json`.
    #[must_use]
    pub fn is_of_mcp_json(&self) -> bool {
        self.path == Path::new(MCP_JSON)
    }

    /// The variables of the user's environment that it is given.
    #[must_use]
    pub fn variables(&self) -> Vec<String> {
        let Some(plugin) = &self.plugin else { return variables(&self.config) };
        if plugin.form == PluginForm::AgentPlugins {
            return Vec::new();
        }
        let own = plugin.place.variables();
        let is_own = |name: &String| own.iter().any(|(known, _)| known == name);
        variables(&self.config).into_iter().filter(|name| !is_own(name)).collect()
    }

    /// The program with its arguments, or the address.
    #[must_use]
    pub fn target(&self) -> String {
        match (&self.config.command, &self.config.url) {
            (Some(command), _) => std::iter::once(command.as_str())
                .chain(self.config.args.iter().map(String::as_str))
                .collect::<Vec<_>>()
                .join(" "),
            (None, Some(url)) => url.clone(),
            (None, None) => String::new(),
        }
    }
}

/// Whether a server may have this name: it is a part of the names of its tools.
fn is_name(name: &str) -> bool {
    let usable = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=32).contains(&name.len())
        && name.chars().all(usable)
        && !name.contains("__")
        && !name.starts_with('_')
        && !name.ends_with('_')
}

/// What is wrong with a server, and what to do.
fn fault(name: &str, server: &McpServer) -> Option<(&'static str, String, &'static str)> {
    if !is_name(name) {
        let message = format!("`{}` cannot be the name of a server", printable(name));
        return Some(("", message, "use 1 to 32 letters, digits, `-` and single `_`"));
    }
    match (&server.command, &server.url) {
        // It may be a plug-in's.
        (None, None) if server.disabled => None,
        (None, None) => {
            let message = format!("the server `{name}` has neither `command` nor `url`");
            Some(("", message, "add `command: PROGRAM`, or `url: ADDRESS`"))
        }
        (Some(_), Some(_)) => {
            let message = format!("the server `{name}` has both `command` and `url`");
            Some(("/url", message, "remove one of them"))
        }
        (Some(_), None) if !server.headers.is_empty() => {
            Some(("/headers", "only a server with `url` has headers".to_owned(), "remove them"))
        }
        (Some(_), None) if server.oauth.is_some() => {
            Some(("/oauth", "only a server with `url` has a login".to_owned(), "remove it"))
        }
        (None, Some(_)) if !server.args.is_empty() || !server.env.is_empty() || server.cwd.is_some() => {
            Some(("/url", "`args`, `env` and `cwd` are for servers with `command`".to_owned(), "remove them"))
        }
        (None, Some(url)) if !is_address(url) => {
            Some(("/url", "this is not an address".to_owned(), "write it like `https://mcp.example.com/mcp`"))
        }
        (Some(_), None) | (None, Some(_)) => None,
    }
}

/// Checks a server that an embedding program adds.
///
/// # Errors
/// [`Error::Setup`] if it cannot be used.
pub(crate) fn check_server(name: &str, server: &McpServer) -> Result<(), Error> {
    let fault = fault(name, server).map(|(_, message, help)| (message, help.to_owned()));
    fault.map_or(Ok(()), |(message, hint)| Err(Error::Setup { message, hint }))
}

/// Whether this can be an address. The value of a variable is not known here.
fn is_address(url: &str) -> bool {
    let before_query = url.split(['?', '#']).next().unwrap_or_default();
    url.starts_with("${") || check_url(before_query).is_ok()
}

/// Checks the servers of `config.yaml`.
pub(super) fn check(section: &McpSection, layers: &Layers) -> Vec<Diagnostic> {
    let found = section.servers.iter().filter_map(|(name, server)| Some((name, fault(name, server)?)));
    found
        .map(|(name, (part, message, help))| {
            let pointer = format!("/mcp/servers/{}{part}", escape(name));
            layers.finding(&pointer, message, Some(help.to_owned()))
        })
        .collect()
}

/// The servers of `config.yaml`, with where they come from.
pub(super) fn of_config(section: &McpSection, layers: &Layers) -> BTreeMap<String, LoadedServer> {
    let loaded = |(name, server): (&String, &McpServer)| {
        let (path, scope) = layers.file_of(&format!("/mcp/servers/{}", escape(name)));
        (name.clone(), LoadedServer { config: server.clone(), path, scope, plugin: None })
    };
    section.servers.iter().filter(|(_, server)| !server.disabled).map(loaded).collect()
}

/// Adds the servers of `.mcp.json`. One that `config.yaml` has too is left out, and so is one that rawko cannot use; both
/// are warned of.
pub(super) fn add_mcp_json(
    source: &SourceFile,
    configured: &McpSection,
    servers: &mut BTreeMap<String, LoadedServer>,
    warnings: &mut Vec<Diagnostic>,
) {
    let mut warn = |message: String, help: &str| {
        warnings.push(Diagnostic::of_file(&source.name, message, Some(help.to_owned())));
    };
    let file: Value = match jsonc::parse(&source.text) {
        Ok(file) => file,
        Err(error) => {
            return warn(format!("this is not JSON, so its servers are not used: {error}"), "correct it");
        }
    };
    // As editors call them.
    let entries = file.get("mcpServers").or_else(|| file.get("servers")).and_then(Value::as_object);
    for (name, entry) in entries.into_iter().flatten() {
        if configured.servers.contains_key(name) {
            warn(
                format!("the server `{}` is left out: config.yaml has one of this name", printable(name)),
                "rename one of them to use both",
            );
            continue;
        }
        match server_of_entry(name, entry) {
            Err((why, help)) => warn(format!("the server `{}` is left out: {why}", printable(name)), help),
            Ok(config) => {
                let (path, scope) = (source.name.clone(), Scope::Project);
                servers.insert(name.clone(), LoadedServer { config, path, scope, plugin: None });
            }
        }
    }
}

/// The server of an entry of another tool's file, or why it cannot be used and what to do.
pub(super) fn server_of_entry(name: &str, entry: &Value) -> Result<McpServer, (String, &'static str)> {
    if entry.get("type").and_then(Value::as_str) == Some("sse") {
        return Err((
            "it speaks HTTP with SSE, as before 2025".to_owned(),
            "many such servers speak streamable HTTP at another address: give that, with type http",
        ));
    }
    let server: McpServer = serde_json::from_value(known_fields(entry))
        .map_err(|error| (error.to_string(), "correct its entry"))?;
    match fault(name, &server) {
        Some((_, message, help)) => Err((message, help)),
        None => Ok(server),
    }
}

/// What an entry of `.mcp.json` has in common with `config.yaml`. Other tools have further fields.
fn known_fields(entry: &Value) -> Value {
    const KNOWN: [&str; 5] = ["command", "args", "env", "url", "headers"];
    let fields = entry.as_object().into_iter().flatten();
    fields
        .filter(|(name, _)| KNOWN.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// `text` with the variables that it names in place of `${NAME}` and `${NAME:-default}`.
///
/// # Errors
/// The name of a variable that is not set and has no default.
pub(crate) fn expand(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let Some(length) = rest[at..].find('}') else { break };
        let inside = &rest[at + 2..at + length];
        expanded.push_str(&rest[..at]);
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        let value = env(name).filter(|value| !value.is_empty()).or_else(|| default.map(str::to_owned));
        expanded.push_str(&value.ok_or_else(|| name.to_owned())?);
        rest = &rest[at + length + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// The names of the variables that a server's definition mentions, each once.
pub(super) fn variables(server: &McpServer) -> Vec<String> {
    let texts =
        server.args.iter().chain(server.env.values()).chain(&server.url).chain(server.headers.values());
    let mut names = std::cell::RefCell::new(Vec::new());
    let client =
        server.oauth.iter().flat_map(|client| [Some(&client.client_id), client.client_secret.as_ref()]);
    for text in texts.chain(&server.command).chain(client.flatten()) {
        let note = |name: &str| {
            names.borrow_mut().push(name.to_owned());
            Some("x".to_owned())
        };
        // Every variable is there, so this cannot fail.
        let _ = expand(text, &note);
    }
    let names = names.get_mut();
    names.sort();
    names.dedup();
    std::mem::take(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_expand(text: &str, expected: Result<&str, &str>) {
        let env = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let got = expand(text, &env);
        assert_eq!(got.as_deref().map_err(String::as_str), expected, "{text}");
    }

    #[test]
    fn variables_are_expanded() {
        check_expand("x", Ok("x"));
        check_expand("x${A}y${A}", Ok("x1y1"));
        check_expand("${B:-d}", Ok("d"));
        check_expand("${B:-}", Ok(""));
        check_expand("${A:-d}", Ok("1"));
        check_expand("${EMPTY:-d}", Ok("d"));
        check_expand("${B}", Err("B"));
        check_expand("$A ${A", Ok("$A ${A"));
    }

    #[test]
    fn names_are_parts_of_the_names_of_tools() {
        for good in ["github", "my-server", "a_b", "A1"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "a__b", "_a", "a_", "a b", "ä", "a/b", &"x".repeat(33)] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[track_caller]
    fn check_json(text: &str, names: &[&str], warned: &[&str]) {
        let source = SourceFile::new(Path::new(MCP_JSON), Scope::Project, text);
        let (mut servers, mut warnings) = (BTreeMap::new(), Vec::new());
        let mut configured = McpSection::default();
        configured.servers.insert("taken".to_owned(), McpServer::default());
        add_mcp_json(&source, &configured, &mut servers, &mut warnings);
        assert_eq!(servers.keys().map(String::as_str).collect::<Vec<_>>(), names);
        let warnings = format!("{warnings:?}");
        for part in warned {
            assert!(warnings.contains(part), "{part:?} is missing in {warnings}");
        }
    }

    #[test]
    fn the_file_of_other_tools_is_read() {
        check_json(
            r#"{"mcpServers": {
                "a": {"command": "npx", "args": ["-y", "x"], "env": {"K": "${K}"}, "autoApprove": []},
                "b": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${K}"}}
            }}"#,
            &["a", "b"],
            &[],
        );
        check_json("{}", &[], &[]);
        check_json("[", &[], &["not JSON"]);
        check_json(r#"{"mcpServers": {"taken": {"command": "x"}}}"#, &[], &["config.yaml has one"]);
        check_json(r#"{"mcpServers": {"a__b": {"command": "x"}}}"#, &[], &["cannot be the name"]);
        check_json(
            r#"{"mcpServers": {"a": {"type": "sse", "url": "https://x.example/sse"}}}"#,
            &[],
            &["before 2025"],
        );
        check_json(r#"{"mcpServers": {"a": {}, "b": {"command": 7}}}"#, &[], &["neither", "invalid type"]);
    }

    #[test]
    fn the_variables_of_a_definition_are_known() {
        let server = McpServer {
            url: Some("https://${H:-x}/".to_owned()),
            headers: [("a".to_owned(), "Bearer ${K}${K}".to_owned())].into(),
            ..McpServer::default()
        };
        assert_eq!(variables(&server), ["H", "K"]);
    }
}
