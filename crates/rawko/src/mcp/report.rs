//! What a person sees of servers, and what they can do about them.

use std::path::Path;
use std::sync::Arc;

use rawko_mcp::{Answer, Connection, Login, McpError, StoreCredentials, login};
use rawko_tools::Confinement;
use serde::Serialize;
use serde_json::{Map, Value};

use super::approval::Catalogue;
use super::server::{ConfiguredServer, McpHandle, ServerTransport};

/// What is known of a server without starting it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "camelCase")]
pub enum McpState {
    /// Its tools were approved.
    Approved {
        /// How many.
        tools: usize,
    },
    /// Its tools are not approved, so agents do not have them.
    NotApproved,
    /// It cannot be started.
    Unusable {
        /// Why.
        why: String,
    },
}

/// What a server lists now, against what was approved.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct McpCheck {
    /// The revision of the protocol that it speaks.
    pub protocol: String,
    /// What it calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The tools that it lists.
    pub tools: Vec<rawko_mcp::ListedTool>,
    /// Tools that it lists and that cannot be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unusable: Vec<rawko_mcp::UnusableTool>,
    /// SHA-256 of names, descriptions and schemas, in hexadecimal: what an approval is for.
    pub digest: String,
    /// Whether exactly this was approved.
    pub is_approved: bool,
    /// What differs from what was approved. Everything, where nothing was.
    pub changes: Vec<McpChange>,
    #[serde(skip)]
    catalogue: Catalogue,
}

/// One difference to what was approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "camelCase")]
pub enum McpChange {
    /// A tool is new.
    Added {
        /// Its name.
        tool: String,
    },
    /// A tool is gone.
    Removed {
        /// Its name.
        tool: String,
    },
    /// The description of a tool is another.
    Description {
        /// Its name.
        tool: String,
        /// What was approved.
        before: String,
        /// What it is now.
        now: String,
    },
    /// The schema of a tool is another, or what it says of itself.
    Schema {
        /// Its name.
        tool: String,
    },
    /// It offers resources or prompts, or no longer does.
    Offers,
}

impl McpHandle {
    /// What is known of it without starting it.
    #[must_use]
    pub fn state(&self) -> McpState {
        match (&self.0.target, &self.0.approval) {
            (Err(why), _) => McpState::Unusable { why: why.clone() },
            (Ok(_), Some(approval)) => McpState::Approved { tools: approval.catalogue.tools.len() },
            (Ok(_), None) => McpState::NotApproved,
        }
    }

    /// How many of `tools` agents are offered: those that `tools` of its configuration names, where it names some.
    #[must_use]
    pub fn offered(&self, tools: &[rawko_mcp::ListedTool]) -> usize {
        let wanted = self.0.loaded.config.tools.as_ref();
        tools.iter().filter(|tool| wanted.is_none_or(|wanted| wanted.contains(&tool.name))).count()
    }

    /// Starts it, has it list its tools, and ends it.
    ///
    /// # Errors
    /// Why it does not work.
    pub async fn check(&self, root: &Path, confinement: &Confinement) -> Result<McpCheck, String> {
        let server = &self.0;
        let connection = server.connect_anew(root, confinement).await?;
        let catalogue = match server.catalogue(&connection).await {
            Ok(catalogue) => Ok(catalogue),
            Err(error) => Err(server.explained(&error).await),
        };
        let (protocol, called) = (connection.version().0, connection.server());
        connection.close().await;
        let catalogue = catalogue?;
        let approved = server.approval.as_ref().map(|approval| &approval.catalogue);
        Ok(McpCheck {
            protocol,
            server: called,
            tools: catalogue.tools.clone(),
            unusable: catalogue.unusable.clone(),
            digest: catalogue.digest(),
            is_approved: approved.is_some_and(|approved| approved.digest() == catalogue.digest()),
            changes: changes(approved.unwrap_or(&Catalogue::default()), &catalogue),
            catalogue,
        })
    }

    /// Approves what the check found. From now on runs have these tools.
    ///
    /// # Errors
    /// If it cannot be kept.
    pub fn accept(&self, check: &McpCheck) -> Result<(), String> {
        let file = self.0.file.as_ref().ok_or("there is no folder to keep approvals in")?;
        let version = rawko_mcp::ProtocolRevision(check.protocol.clone());
        file.write(version, check.catalogue.clone())
            .map_err(|error| format!("the approval cannot be kept: {error}"))
    }

    /// Calls a tool of it for a person, who needs no approval for that.
    ///
    /// # Errors
    /// Why it does not work.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        root: &Path,
        confinement: &Confinement,
    ) -> Result<Answer, String> {
        self.with(root, confinement, async |connection| {
            if let Err(why) = fits(&connection.tools().await?.usable, tool, &arguments) {
                return Ok(Err(why));
            }
            connection.call(tool, arguments, &|_: &str| {}).await.map(Ok)
        })
        .await?
    }

    /// Reads a resource of it.
    ///
    /// # Errors
    /// Why it does not work.
    pub async fn read(&self, uri: &str, root: &Path, confinement: &Confinement) -> Result<Answer, String> {
        self.with(root, confinement, async |connection| connection.read_resource(uri).await).await
    }

    /// Gets a prompt of it.
    ///
    /// # Errors
    /// Why it does not work.
    pub async fn prompt(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        root: &Path,
        confinement: &Confinement,
    ) -> Result<Answer, String> {
        self.with(root, confinement, async |connection| connection.prompt(name, arguments).await).await
    }

    async fn with<T>(
        &self,
        root: &Path,
        confinement: &Confinement,
        work: impl AsyncFnOnce(&Connection) -> Result<T, McpError>,
    ) -> Result<T, String> {
        let connection = self.0.connect_anew(root, confinement).await?;
        let done = match work(&connection).await {
            Ok(done) => Ok(done),
            Err(error) => Err(self.0.explained(&error).await),
        };
        connection.close().await;
        done
    }

    /// Logs in at a server that has an address. `visit` gets the address that a person is to open, and gives the one that
    /// they were sent back to, which begins with `redirect`.
    ///
    /// # Errors
    /// Why it does not work.
    pub async fn login<V>(&self, redirect: String, visit: impl FnOnce(String) -> V) -> Result<(), String>
    where
        V: Future<Output = Result<String, String>>,
    {
        let ServerTransport::Http(server) = self.0.target.clone()? else {
            return Err("it is a program, and needs no login".to_owned());
        };
        let file = self.0.credentials.clone().ok_or("there is no folder to keep a login in")?;
        let store: Arc<dyn StoreCredentials> = file;
        store.save(None)?;
        // What the server says when it refuses tells where to log in.
        let challenge = match Connection::over_http(&server, None, self.0.options.clone()).await {
            Err(McpError::LoginNeeded { challenge }) => Some(challenge),
            Ok(connection) => {
                connection.close().await;
                None
            }
            Err(error) => return Err(self.0.explained(&error).await),
        };
        let wanted = Login { url: server.url, challenge, redirect, client: server.client, document: None };
        let is_registered = wanted.client.is_some();
        login(wanted, store, visit).await.map_err(|error| match error {
            McpError::NotRegistered(_) if !is_registered => {
                format!(
                    "{error}; register a client there, and name it in mcp.servers.{}.oauth.clientId",
                    self.name()
                )
            }
            error => error.to_string(),
        })
    }

    /// The port to which the authorization server sends a browser back, where the registration names one.
    #[must_use]
    pub fn callback_port(&self) -> Option<u16> {
        self.loaded().config.oauth.as_ref()?.callback_port
    }

    /// Ends it, without waiting.
    pub fn end(&self) {
        self.0.end();
    }
}

impl ConfiguredServer {
    /// A connection that finds out anew which revision the server speaks.
    async fn connect_anew(&self, root: &Path, confinement: &Confinement) -> Result<Connection, String> {
        self.connect_with(root, confinement, rawko_mcp::Options { known: None, ..self.options.clone() }).await
    }
}

/// Whether there is such a tool, and whether it is given what it needs.
fn fits(tools: &[rawko_mcp::ListedTool], name: &str, arguments: &Map<String, Value>) -> Result<(), String> {
    let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let there =
            if names.is_empty() { "it has none".to_owned() } else { format!("it has: {}", names.join(", ")) };
        return Err(format!("there is no tool `{name}`; {there}"));
    };
    let needed = tool.input_schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let missing: Vec<&str> =
        needed.filter_map(Value::as_str).filter(|needed| !arguments.contains_key(*needed)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let properties = tool.input_schema.get("properties").and_then(Value::as_object);
    let takes: Vec<&str> = properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    Err(format!("`{name}` needs {}; it takes: {}", missing.join(", "), takes.join(", ")))
}

fn changes(before: &Catalogue, now: &Catalogue) -> Vec<McpChange> {
    let mut changes = Vec::new();
    for tool in &now.tools {
        let name = tool.name.clone();
        match before.tools.iter().find(|known| known.name == tool.name) {
            None => changes.push(McpChange::Added { tool: name }),
            Some(known) => {
                if known.description != tool.description {
                    let (before, now) = (known.description.clone(), tool.description.clone());
                    changes.push(McpChange::Description { tool: name.clone(), before, now });
                }
                if (&known.input_schema, known.reads_only) != (&tool.input_schema, tool.reads_only) {
                    changes.push(McpChange::Schema { tool: name });
                }
            }
        }
    }
    for known in &before.tools {
        if !now.tools.iter().any(|tool| tool.name == known.name) {
            changes.push(McpChange::Removed { tool: known.name.clone() });
        }
    }
    if (before.resources, before.prompts) != (now.resources, now.prompts) {
        changes.push(McpChange::Offers);
    }
    changes
}
