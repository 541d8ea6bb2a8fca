//! A configured server, ready to be started.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rawko_core::agent::Permissions;
use rawko_mcp::{AskPerson, Client, HttpServer, Options, Question};
use rawko_tools::ServerProgram;
use serde_json::json;

use super::approval::{ApprovalFile, ServerApproval};
use super::credentials::CredentialFile;
use super::live::RunningServer;
use crate::config::{Loaded, LoadedServer, McpPermissions, PluginForm, Scope, expand};

/// How to get at a server.
#[derive(Debug, Clone)]
pub(crate) enum ServerTransport {
    /// It is a program.
    Program(ServerProgram),
    /// It is at an address.
    Http(HttpServer),
}

/// A configured server. Clones are the same server: it is started once, when it is first needed.
#[derive(Clone)]
pub struct McpHandle(pub(super) Arc<ConfiguredServer>);

/// What is known of a server before it is started.
pub(super) struct ConfiguredServer {
    pub(super) name: String,
    pub(super) loaded: LoadedServer,
    /// How to get at it, or why that is not known.
    pub(super) target: Result<ServerTransport, String>,
    /// What it may touch, where it is a program.
    pub(super) permissions: Arc<Permissions>,
    pub(super) options: Options,
    /// Where its approval is kept; `None` where the program keeps nothing.
    pub(super) file: Option<ApprovalFile>,
    pub(super) approval: Option<ServerApproval>,
    pub(super) credentials: Option<Arc<CredentialFile>>,
    pub(super) live: RunningServer,
}

/// What servers are made of, besides their definitions.
pub(crate) struct ServerContext<'a> {
    /// The project.
    pub(crate) project: &'a Path,
    /// Where agents work.
    pub(crate) tree: &'a Path,
    /// The user's folder for approvals and logins.
    pub(crate) state: Option<&'a Path>,
    pub(crate) environment: &'a dyn Fn(&str) -> Option<String>,
    pub(crate) person: Option<AskPerson>,
}

/// The servers of a configuration, sorted by name.
pub(crate) fn servers(loaded: &Loaded, place: &ServerContext<'_>) -> Vec<McpHandle> {
    let server = |(name, server): (&String, &LoadedServer)| {
        McpHandle(Arc::new(ConfiguredServer::new(name, server, &loaded.config.permissions, place)))
    };
    loaded.mcp.iter().map(server).collect()
}

/// Asks the person, and says which server asks.
fn named(ask: AskPerson, name: &str) -> AskPerson {
    let name = name.to_owned();
    Arc::new(move |question| ask(Question { server: name.clone(), ..question }))
}

impl ConfiguredServer {
    fn new(name: &str, loaded: &LoadedServer, global: &Permissions, place: &ServerContext<'_>) -> Self {
        let config = &loaded.config;
        let folder = place.state.map(|state| state.join("mcp"));
        // The values of variables do not belong to it: a new key is no other server.
        let mut identity = json!({
            "project": (loaded.scope == Scope::Project).then(|| place.project.to_string_lossy()),
            "command": config.command, "args": config.args, "cwd": config.cwd,
            "env": config.env.keys().collect::<Vec<_>>(),
            "url": config.url, "headers": config.headers.keys().collect::<Vec<_>>(),
        });
        // Two plug-ins may have the same `./server`.
        if let Some(plugin) = &loaded.plugin {
            identity["plugin"] = json!(plugin.place.name);
        }
        let file =
            folder.as_deref().map(|folder| ApprovalFile::new(folder, name, identity.to_string().as_bytes()));
        let approval = file.as_ref().and_then(ApprovalFile::read);
        let defaults = Options::default();
        let time = |set: Option<rawko_core::TimeSpan>, default: Duration| {
            set.map_or(default, |time| time.as_duration())
        };
        let options = Options {
            start: time(config.start_timeout, defaults.start),
            call: time(config.timeout, defaults.call),
            known: approval.as_ref().map(|approval| approval.version.clone()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            person: place.person.clone().map(|ask| named(ask, name)),
            ..defaults
        };
        let permissions = Arc::new(config.permissions.of_program(global));
        let target = target(name, loaded, &permissions, place);
        let credentials = match (&target, &folder) {
            (Ok(ServerTransport::Http(_)), Some(folder)) => {
                let file = ApprovalFile::new(
                    &folder.join("logins"),
                    name,
                    config.url.as_deref().unwrap_or_default().as_bytes(),
                );
                Some(Arc::new(CredentialFile(file.path().to_owned())))
            }
            _ => None,
        };
        Self {
            name: name.to_owned(),
            loaded: loaded.clone(),
            target,
            permissions,
            options,
            file,
            approval,
            credentials,
            live: RunningServer::default(),
        }
    }

    /// Whether the user's configuration says to believe what it says of its tools.
    pub(super) fn is_believed(&self) -> bool {
        self.loaded.config.believe_read_only && self.loaded.scope == Scope::User
    }
}

impl McpPermissions {
    /// What the program may touch, where `global` denies something to all.
    pub(crate) fn of_program(&self, global: &Permissions) -> Permissions {
        let denied = global.deny.iter().flatten().chain(self.deny.iter().flatten());
        Permissions {
            read: Some(self.read.clone().unwrap_or_else(|| vec![".".to_owned()])),
            write: Some(self.write.clone().unwrap_or_default()),
            deny: Some(denied.cloned().collect()),
            net: Some(self.net.clone().unwrap_or_default()),
            env: Some(Vec::new()),
            memory: global.memory,
            ..Permissions::default()
        }
    }
}

fn target(
    name: &str,
    loaded: &LoadedServer,
    permissions: &Arc<Permissions>,
    place: &ServerContext<'_>,
) -> Result<ServerTransport, String> {
    let config = &loaded.config;
    let plugin = loaded.plugin.as_ref();
    let filled = |text: &str| {
        let filled = match plugin {
            Some(plugin) => plugin.place.filled(plugin.form, text, place.environment),
            None => expand(text, place.environment),
        };
        filled.map_err(|variable| format!("the variable {variable} of its definition is not set"))
    };
    // By the specification of plug-ins, nothing is filled in but in `args`, `env` and `cwd`.
    let is_literal = plugin.is_some_and(|plugin| plugin.form == PluginForm::AgentPlugins);
    let outside = |text: &str| if is_literal { Ok(text.to_owned()) } else { filled(text) };
    type Pairs = std::collections::BTreeMap<String, String>;
    let pairs = |pairs: &Pairs, filled: &dyn Fn(&str) -> Result<String, String>| {
        pairs
            .iter()
            .map(|(name, value)| Ok((name.clone(), filled(value)?)))
            .collect::<Result<Vec<_>, String>>()
    };
    match (&config.command, &config.url) {
        (Some(command), _) => {
            // Programs like `npx` and `python3 -m` look for code in their working folder. In a clone that code is
            // someone else's, and this server has the user's keys.
            let home = (place.environment)("HOME").map(PathBuf::from);
            let home = home.filter(|home| loaded.scope == Scope::User && home.is_absolute() && home.is_dir());
            let directory = match (&config.cwd, plugin) {
                (Some(cwd), Some(plugin)) => plugin.place.root.join(filled(cwd)?),
                (None, Some(plugin)) => plugin.place.root.clone(),
                (Some(cwd), None) => place.tree.join(cwd),
                (None, None) => home.unwrap_or_else(|| place.tree.to_owned()),
            };
            let mut program = PathBuf::from(outside(command)?);
            let mut variables = pairs(&config.env, &filled)?;
            if let Some(plugin) = plugin {
                if command.contains('/') {
                    program = plugin.place.root.join(program);
                }
                let own = plugin.place.variables();
                variables.retain(|(name, _)| !own.iter().any(|(own, _)| own == name));
                variables.extend(own);
            }
            Ok(ServerTransport::Program(ServerProgram {
                name: format!("mcp server {name}"),
                program,
                arguments: config.args.iter().map(|argument| filled(argument)).collect::<Result<_, _>>()?,
                variables,
                directory,
                permissions: Arc::clone(permissions),
            }))
        }
        (None, Some(url)) => {
            let client = config.oauth.as_ref().map(|client| {
                let secret = client.client_secret.as_deref().map(filled).transpose()?;
                Ok::<_, String>(Client { id: filled(&client.client_id)?, secret })
            });
            let client = client.transpose()?;
            Ok(ServerTransport::Http(HttpServer {
                url: outside(url)?,
                headers: pairs(&config.headers, &outside)?,
                client,
            }))
        }
        (None, None) => Err("it has neither `command` nor `url`".to_owned()),
    }
}

impl McpHandle {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What is configured, and where.
    #[must_use]
    pub fn loaded(&self) -> &LoadedServer {
        &self.0.loaded
    }

    /// The secrets that its definition holds once the variables are filled in.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let mut secrets = Vec::new();
        match &self.0.target {
            Ok(ServerTransport::Http(server)) => {
                secrets.extend(server.client.iter().filter_map(|client| client.secret.clone()));
                let is_key = |name: &str| {
                    ["authorization", "cookie"].contains(&name.to_ascii_lowercase().as_str())
                        || rawko_tools::looks_like_secret(name)
                };
                for (_, value) in server.headers.iter().filter(|(name, _)| is_key(name)) {
                    secrets.push(value.clone());
                    // The word after `Bearer`.
                    secrets.extend(value.rsplit_once(' ').map(|(_, last)| last.to_owned()));
                }
            }
            Ok(ServerTransport::Program(program)) => {
                let named = program.variables.iter().filter(|(name, _)| rawko_tools::looks_like_secret(name));
                secrets.extend(named.map(|(_, value)| value.clone()));
            }
            Err(_) => {}
        }
        secrets
    }
}

impl std::fmt::Debug for McpHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpHandle").field("name", &self.0.name).finish_non_exhaustive()
    }
}
