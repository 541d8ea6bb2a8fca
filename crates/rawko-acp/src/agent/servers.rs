//! Servers of tools (MCP) that a client hands over. They are the user's own and get what such a server gets
//! (`docs/mcp.md`): a sandbox for a program, and an approval of exactly the tools that they list, for which the person at the
//! client is asked.

use std::collections::BTreeMap;

use agent_client_protocol::v1::schema::{
    McpServer as GivenServer, ToolCallStatus, ToolCallUpdateFields, ToolKind,
};
use rawko::Rawko;
use rawko::config::McpServer;
use rawko_core::text::{harmless, truncate};

use super::permission::ClientAsker;
use super::tool_calls::text_content;

/// The most servers of a session.
const MOST: usize = 50;
/// The longest name.
const NAME_CHARS: usize = 32;
/// Bytes of tools that a person is shown in a question. Nobody approves what is not shown.
const SHOWN_BYTES: usize = 48 * 1024;

/// The servers of a session, by names that rawko accepts.
#[derive(Debug, Clone, Default)]
pub(super) struct HandedServers {
    pub(super) servers: BTreeMap<String, McpServer>,
    /// What is wrong with the others, for the person.
    pub(super) problems: Vec<String>,
}

impl HandedServers {
    /// Those that the client gives.
    pub(super) fn of(given: Vec<GivenServer>) -> Self {
        let mut handed = Self::default();
        if given.len() > MOST {
            handed.problems.push(format!("only {MOST} of {} MCP servers are used", given.len()));
        }
        for server in given.into_iter().take(MOST) {
            handed.take(server);
        }
        handed
    }

    fn take(&mut self, given: GivenServer) {
        let (name, server) = match given {
            GivenServer::Stdio(server) => {
                let env = server.env.into_iter().map(|variable| (variable.name, literal(&variable.value)));
                let program = McpServer {
                    command: Some(literal(&server.command.to_string_lossy())),
                    args: server.args.iter().map(|argument| literal(argument)).collect(),
                    env: env.collect(),
                    ..McpServer::default()
                };
                (server.name, program)
            }
            GivenServer::Http(server) => {
                let headers = server.headers.into_iter().map(|header| (header.name, literal(&header.value)));
                let address = McpServer {
                    url: Some(literal(&server.url)),
                    headers: headers.collect(),
                    ..McpServer::default()
                };
                (server.name, address)
            }
            GivenServer::Sse(server) => {
                let name = truncate(&server.name, NAME_CHARS);
                self.problems.push(format!(
                    "the MCP server `{name}` is not used: it speaks HTTP with SSE, as before 2025; many such servers speak \
                     streamable HTTP at another address"
                ));
                return;
            }
            _ => {
                self.problems.push("an MCP server of an unknown kind is not used".to_owned());
                return;
            }
        };
        let usable = usable_name(&name);
        if usable.is_empty() || self.servers.contains_key(&usable) {
            let name = truncate(&name, NAME_CHARS);
            self.problems.push(format!(
                "the MCP server `{name}` is not used: another one has this name, or none is left"
            ));
            return;
        }
        self.servers.insert(usable, server);
    }
}

/// Text in which rawko's configuration names no variable: clients fill them in themselves.
fn literal(text: &str) -> String {
    text.replace("${", "${:-$}{")
}

/// The name in a form that can be part of the name of a tool.
fn usable_name(name: &str) -> String {
    let mut usable = String::new();
    for c in name.chars() {
        let c = if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
        if !(c == '-' && (usable.is_empty() || usable.ends_with('-'))) {
            usable.push(c);
        }
    }
    truncate_name(&usable)
}

fn truncate_name(name: &str) -> String {
    name.get(..name.len().min(NAME_CHARS)).unwrap_or_default().trim_end_matches('-').to_owned()
}

/// Asks for the approval of what the session's servers list, where it is missing. Gives what the person should know.
pub(super) async fn approve(rawko: &Rawko, handed: &HandedServers, asker: &ClientAsker) -> Vec<String> {
    let mut problems = handed.problems.clone();
    let confinement = match rawko.confinement() {
        Ok(confinement) => confinement,
        Err(error) => return vec![error.to_string()],
    };
    for server in rawko.mcp_servers().iter().filter(|server| handed.servers.contains_key(server.name())) {
        let name = server.name();
        let checked = server.check(rawko.project(), &confinement).await;
        server.end();
        let checked = match checked {
            Ok(checked) if checked.is_approved => continue,
            Ok(checked) => checked,
            Err(why) => {
                problems.push(format!("the MCP server `{name}` is not used: {why}"));
                continue;
            }
        };
        let mut list = format!("`{}`\n\nIts tools, as it describes them:\n", server.loaded().target());
        for tool in &checked.tools {
            let (description, arguments) = (harmless(&tool.description), tool.input_schema.to_string());
            list.push_str(&format!(
                "- `{}`: {description}\n  arguments: `{}`\n",
                tool.name,
                harmless(&arguments)
            ));
        }
        if list.len() > SHOWN_BYTES {
            problems.push(format!(
                "agents do not have the tools of the MCP server `{name}`: what it says of them is too long for a question; \
                 put the server into .mcp.json and run `rawko mcp check NAME`, which shows all of it"
            ));
            continue;
        }
        let title = format!("Give agents the {} tools of the MCP server `{name}`", checked.tools.len());
        let fields = ToolCallUpdateFields::new()
            .title(title)
            .kind(ToolKind::Other)
            .status(ToolCallStatus::Pending)
            .content(vec![text_content(&list)]);
        if !asker.ask(asker.names.another(), fields).await {
            problems.push(format!(
                "agents do not have the tools of the MCP server `{name}`: they are not approved"
            ));
        } else if let Err(why) = server.accept(&checked) {
            problems.push(format!("the MCP server `{name}` is not used: {why}"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn servers_of_clients_become_servers_of_rawko() {
        let given = json!([
            {"name": "My Server!", "command": "/bin/s", "args": ["${A}"], "env": [{"name": "K", "value": "v"}]},
            {"type": "http", "name": "web", "url": "https://example.com/mcp",
             "headers": [{"name": "Authorization", "value": "Bearer x"}]},
            {"type": "sse", "name": "old", "url": "https://example.com/sse", "headers": []},
            {"type": "http", "name": "WEB?", "url": "https://example.com/", "headers": []},
            {"name": "web", "command": "x", "args": [], "env": []},
            {"name": "??", "command": "x", "args": [], "env": []},
        ]);
        let handed = HandedServers::of(serde_json::from_value(given).unwrap());
        assert_eq!(handed.servers.keys().collect::<Vec<_>>(), ["My-Server", "WEB", "web"]);
        assert_eq!(handed.servers["My-Server"].env["K"], "v");
        assert_eq!(handed.servers["web"].headers["Authorization"], "Bearer x");
        assert_eq!(handed.problems.len(), 3, "{:?}", handed.problems);
    }
}
