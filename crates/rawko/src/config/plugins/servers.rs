//! The MCP servers of a plug-in: `mcp.json` by the specification, `.mcp.json` and the manifest for Claude Code.
//!
//! A server that cannot be used is left out with a finding, and the others are used. Each reads the project and the plug-in,
//! writes what it keeps in a folder of its own, and reaches the hosts that the user named.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::files::{JsonFile, relative};
use super::manifest::{ManifestPart, PluginManifest};
use super::{PluginForm, PluginPlace, PluginServer};
use crate::config::address::{host_of, is_loopback};
use crate::config::diagnostic::{Diagnostic, printable};
use crate::config::mcp::{LoadedServer, McpServer, server_of_entry};
use crate::config::source::Scope;
use crate::config::yaml::escape;

/// The file of the specification.
const AGENT_PLUGINS: &str = "mcp.json";
/// The file of Claude Code.
const CLAUDE_CODE: &str = ".mcp.json";
/// The `$schema` of the version that is read.
const SCHEMA: &str = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json";
/// The variables of a server that only its client sets.
const RESERVED: [&str; 2] = ["PLUGIN_ROOT", "PLUGIN_DATA"];

/// The servers by name.
pub(super) fn read(
    place: &PluginPlace,
    shown: &Path,
    manifest: &PluginManifest,
    findings: &mut Vec<Diagnostic>,
) -> BTreeMap<String, LoadedServer> {
    let mut reader = ServerReader { place, shown, form: manifest.form, servers: BTreeMap::new(), findings };
    match manifest.form {
        PluginForm::AgentPlugins => reader.agent_plugins(),
        PluginForm::ClaudeCode => reader.claude_code(manifest),
    }
    reader.servers
}

struct ServerReader<'a> {
    place: &'a PluginPlace,
    shown: &'a Path,
    form: PluginForm,
    servers: BTreeMap<String, LoadedServer>,
    findings: &'a mut Vec<Diagnostic>,
}

impl ServerReader<'_> {
    fn file(&mut self, inside: &Path) -> Option<JsonFile> {
        match JsonFile::read(&self.place.root, self.shown, inside) {
            Ok(file) => file,
            Err(error) => {
                self.findings.push(*error);
                None
            }
        }
    }

    fn agent_plugins(&mut self) {
        let Some(file) = self.file(Path::new(AGENT_PLUGINS)) else { return };
        let fields = file.value.as_object();
        let wrong = match fields.map(|fields| (fields.get("$schema").and_then(Value::as_str), fields)) {
            None => Some(("", "it is no object")),
            Some((schema, _)) if schema != Some(SCHEMA) => {
                Some(("/$schema", "`$schema` is missing, or names another version than 1.0.0"))
            }
            Some((_, fields)) if !fields.get("mcpServers").is_some_and(Value::is_object) => {
                Some(("/mcpServers", "`mcpServers` is missing, or no object"))
            }
            Some((_, fields)) if fields.len() > 2 => Some(("", "it has other fields than these two")),
            Some(_) => None,
        };
        if let Some((pointer, why)) = wrong {
            let help = format!(r#"write {{"$schema": "{SCHEMA}", "mcpServers": {{…}}}}"#);
            self.findings.push(file.finding(pointer, format!("its servers are left out: {why}"), &help));
            return;
        }
        for (name, entry) in file.value["mcpServers"].as_object().into_iter().flatten() {
            let pointer = format!("/mcpServers/{}", escape(name));
            match specified(entry) {
                Ok(entry) => self.add(&file, &pointer, name, &entry),
                Err((why, help)) => self.leave_out(&file, &pointer, name, &why, help),
            }
        }
    }

    fn claude_code(&mut self, manifest: &PluginManifest) {
        if let Some(file) = self.file(Path::new(CLAUDE_CODE)) {
            self.entries(&file, "", &file.value);
        }
        for part in &manifest.servers {
            match part {
                ManifestPart::Inline(pointer, value) => self.entries(&manifest.file, pointer, value),
                ManifestPart::File(path) if path == Path::new(CLAUDE_CODE) => {}
                ManifestPart::File(path) => match self.file(path) {
                    Some(file) => self.entries(&file, "", &file.value),
                    None if self.place.root.join(path).exists() => {}
                    None => {
                        let message = "there is no such file, so its servers are not there";
                        let help = Some("correct `mcpServers` in the manifest".to_owned());
                        self.findings.push(Diagnostic::of_file(&self.shown.join(path), message, help));
                    }
                },
            }
        }
    }

    /// The servers of a value, which may be around them: `{"mcpServers": {…}}`.
    fn entries(&mut self, file: &JsonFile, pointer: &str, value: &Value) {
        let (pointer, value) = match value.get("mcpServers") {
            Some(inner) => (format!("{pointer}/mcpServers"), inner),
            None => (pointer.to_owned(), value),
        };
        let Some(entries) = value.as_object() else {
            let help = r#"write {"mcpServers": {"name": {"command": …}}}"#;
            self.findings.push(file.finding(&pointer, "its servers are left out: they are no object", help));
            return;
        };
        for (name, entry) in entries {
            self.add(file, &format!("{pointer}/{}", escape(name)), name, entry);
        }
    }

    fn add(&mut self, file: &JsonFile, pointer: &str, name: &str, entry: &Value) {
        let mut server = match server_of_entry(name, entry) {
            Ok(server) => server,
            Err((why, help)) => return self.leave_out(file, pointer, name, &why, help),
        };
        server.cwd = entry.get("cwd").and_then(Value::as_str).map(str::to_owned);
        if let Err((why, help)) = self.check_paths(&server) {
            return self.leave_out(file, pointer, name, &why, help);
        }
        if self.servers.contains_key(name) {
            return self.leave_out(
                file,
                pointer,
                name,
                "there is one of this name already",
                "rename one of the two",
            );
        }
        let text = |path: &Path| path.to_string_lossy().into_owned();
        server.permissions.read = Some(vec![".".to_owned(), text(&self.place.root)]);
        server.permissions.write = Some(vec![text(&self.place.data)]);
        let plugin = PluginServer { place: self.place.clone(), form: self.form };
        let path = file.source.name.clone();
        let loaded = LoadedServer { config: server, path, scope: Scope::User, plugin: Some(plugin) };
        self.servers.insert(name.to_owned(), loaded);
    }

    fn leave_out(&mut self, file: &JsonFile, pointer: &str, name: &str, why: &str, help: &str) {
        let message = format!("the server `{}` is left out: {why}", printable(name));
        self.findings.push(file.finding_at_key(pointer, message, help));
    }

    /// Whether program and folder stay in the plug-in.
    fn check_paths(&self, server: &McpServer) -> Result<(), ServerFault> {
        let leads_out = |what: &str, given: &str| {
            (format!("its {what} `{}` is not a path in the plug-in", printable(given)), "write ./PATH")
        };
        if let Some(command) = &server.command {
            let is_path = command.contains('/');
            let is_good = match self.form {
                PluginForm::AgentPlugins => !is_path || inside(command.strip_prefix("./")),
                PluginForm::ClaudeCode => !is_path || self.is_own(command),
            };
            if !is_good {
                return Err(leads_out("command", command));
            }
        }
        match &server.cwd {
            Some(cwd) if !self.is_own(cwd) => Err(leads_out("cwd", cwd)),
            _ => Ok(()),
        }
    }

    /// Whether a path is in one of the plug-in's folders, by its text: links were checked with all files.
    fn is_own(&self, path: &str) -> bool {
        let own = match self.form {
            PluginForm::AgentPlugins => &["${PLUGIN_ROOT}", "${PLUGIN_DATA}"][..],
            PluginForm::ClaudeCode => {
                &["${CLAUDE_PLUGIN_ROOT}", "${CLAUDE_PLUGIN_DATA}", "${PLUGIN_ROOT}", "${PLUGIN_DATA}"][..]
            }
        };
        let below = own.iter().find_map(|variable| path.strip_prefix(variable));
        match below {
            Some("") => true,
            Some(rest) => inside(rest.strip_prefix('/')),
            None => path.starts_with("./") && inside(path.strip_prefix("./")),
        }
    }
}

/// What is wrong, and what to do.
type ServerFault = (String, &'static str);

fn inside(path: Option<&str>) -> bool {
    path.is_some_and(|path| path.is_empty() || relative(path).is_some())
}

/// An entry of `mcp.json`, if it is as the specification says, in the form of other files.
fn specified(entry: &Value) -> Result<Value, ServerFault> {
    let fields = entry.as_object().ok_or_else(|| fault("it is no object"))?;
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    let known: &[&str] = match kind {
        "stdio" => &["type", "command", "args", "env", "cwd"],
        "streamable-http" | "sse" => &["type", "url", "headers"],
        _ => {
            return Err((
                "`type` is missing, or none that is known".to_owned(),
                "write stdio or streamable-http",
            ));
        }
    };
    if let Some(field) = fields.keys().find(|field| !known.contains(&field.as_str())) {
        return Err(fault(format!("a server of type {kind} has no field `{}`", printable(field))));
    }
    let texts = |field: &str| match fields.get(field) {
        Some(Value::Object(pairs)) => pairs.iter().all(|(_, value)| value.is_string()),
        found => found.is_none(),
    };
    match kind {
        "stdio" => {
            let command = fields.get("command").and_then(Value::as_str).unwrap_or_default();
            if command.is_empty() || !texts("env") || fields.get("cwd").is_some_and(|cwd| !cwd.is_string()) {
                return Err(fault("`command` is missing, or `env` or `cwd` has not its form"));
            }
            let env = fields.get("env").and_then(Value::as_object);
            if let Some(name) = RESERVED.iter().find(|name| env.is_some_and(|env| env.contains_key(**name))) {
                return Err(fault(format!("`env` sets {name}, which rawko sets")));
            }
        }
        _ => {
            let url = fields.get("url").and_then(Value::as_str).unwrap_or_default();
            if !is_endpoint(url) {
                let help = "write https://host/path; http only for localhost, and neither a login nor `#`";
                return Err(("`url` is no address that may be used".to_owned(), help));
            }
            if !texts("headers") || !has_good_headers(fields) {
                return Err(fault("`headers` has not its form, or a name twice"));
            }
        }
    }
    let mut entry = fields.clone();
    // The only types that other files know are these two, and that without one.
    if kind != "sse" {
        entry.remove("type");
    }
    Ok(Value::Object(entry))
}

fn fault(why: impl Into<String>) -> ServerFault {
    (why.into(), "see mcp.json in the Agent Plugins specification 1.0.0")
}

fn is_endpoint(url: &str) -> bool {
    let rest = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => rest,
        (None, Some(rest)) if is_loopback(host_of(url)) => rest,
        _ => return false,
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    !authority.is_empty()
        && !authority.contains('@')
        && !url.contains(['#', ' '])
        && !url.contains(char::is_control)
}

fn has_good_headers(fields: &Map<String, Value>) -> bool {
    let headers = fields.get("headers").and_then(Value::as_object);
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let mut names: Vec<String> = Vec::new();
    headers.into_iter().flatten().all(|(name, value)| {
        let lower = name.to_ascii_lowercase();
        let is_new = !names.contains(&lower);
        names.push(lower);
        let value = value.as_str().unwrap_or_default();
        is_new && !name.is_empty() && name.chars().all(is_token) && !value.contains(char::is_control)
    })
}
