//! `rawko mcp`: lists the servers of tools, checks and approves what they list, and calls them; and serves rawko itself.

mod callback;
mod serve;

use clap::{Args, Subcommand};
use rawko::mcp_client::{Answer, ListedTool};
use rawko::{McpChange, McpCheck, McpHandle, McpState, Rawko};
use serde_json::{Value, json};

use crate::console::OutputArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Rows, clean, clean_line, counted};
use crate::runtime::block_on;
use crate::signals::until_stopped;
use crate::workspace::Workspace;

/// How arguments are written.
const INPUT_FORM: &str = r#"write the arguments by name: --input '{"text": "hello"}'"#;
/// The most characters of a text that are shown.
const LONGEST: usize = 4_000;
/// Said where no server is configured.
const NO_SERVER: &str = "No server is configured. Name some under `mcp.servers`, or in .mcp.json.";
/// Characters of a digest that are shown.
const DIGEST_CHARS: usize = 12;

/// Subcommands of `rawko mcp`.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// List the configured servers; none is started
    List(OutputArgs),
    /// Start servers, and show what they list and what of it is not approved
    Check(McpCheckArgs),
    /// Call a tool of a server, read a resource, or get a prompt
    Call(McpCallArgs),
    /// Log in at a server that has an address
    Login {
        /// The server
        #[arg(value_name = "SERVER")]
        server: String,
    },
    /// Serve this project to another program's agent: start, watch, steer and continue tasks
    Serve(serve::McpServeArgs),
}

/// Options of `rawko mcp check`.
#[derive(Debug, Args)]
pub(crate) struct McpCheckArgs {
    /// The servers (default: all)
    #[arg(value_name = "SERVER")]
    servers: Vec<String>,
    /// Approve what they list now: from now on agents have these tools. With the digest of a list, only if that is still it
    #[arg(long, value_name = "DIGEST", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    accept: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Options of `rawko mcp call`.
#[derive(Debug, Args)]
pub(crate) struct McpCallArgs {
    /// The server
    #[arg(value_name = "SERVER")]
    server: String,
    /// The tool, by its name at the server
    #[arg(value_name = "TOOL", required_unless_present_any = ["resource", "prompt"])]
    tool: Option<String>,
    /// The arguments as a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}")]
    input: String,
    /// Read this resource instead
    #[arg(long, value_name = "URI", conflicts_with_all = ["tool", "prompt"])]
    resource: Option<String>,
    /// Get this prompt instead
    #[arg(long, value_name = "NAME", conflicts_with = "tool")]
    prompt: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the subcommand.
pub(crate) fn run(workspace: &Workspace, action: &McpCommand) -> Result<Exit, Failure> {
    match action {
        McpCommand::List(output) => list(workspace, output.json),
        McpCommand::Check(arguments) => check(workspace, arguments),
        McpCommand::Call(arguments) => call(workspace, arguments),
        McpCommand::Login { server } => login(workspace, server),
        McpCommand::Serve(arguments) => serve::serve(workspace, arguments),
    }
}

fn list(workspace: &Workspace, as_json: bool) -> Result<Exit, Failure> {
    let rawko = workspace.inspect()?;
    let servers = rawko.mcp_servers();
    let entry = |server: &McpHandle| {
        let loaded = server.loaded();
        json!({
            "name": server.name(), "target": loaded.target(), "path": loaded.path, "scope": loaded.scope,
            "approval": server.state(),
            "plugin": loaded.plugin.as_ref().map(|plugin| &plugin.place.name),
        })
    };
    let entries: Vec<Value> = servers.iter().map(entry).collect();
    workspace.console.output(as_json, &entries, |paint| {
        if servers.is_empty() {
            return format!("{NO_SERVER}\n");
        }
        Rows::new(paint, &servers).table(&[
            ("NAME", &|server| server.name().to_owned()),
            ("APPROVED", &|server| match server.state() {
                McpState::Approved { tools } => counted(tools as u64, "tool"),
                McpState::NotApproved => "no".to_owned(),
                McpState::Unusable { .. } => "unusable".to_owned(),
            }),
            ("FROM", &|server| match &server.loaded().plugin {
                Some(plugin) => format!("plug-in {}", plugin.place.name),
                None => server.loaded().path.to_string_lossy().into_owned(),
            }),
            ("TARGET", &|server| server.loaded().target()),
        ])
    })?;
    Ok(Exit::Success)
}

/// What to do about servers of a folder that is not trusted.
const TRUST_FIRST: &str = "look at .mcp.json, then: rawko trust";

/// The names of the servers of .mcp.json that are left out because the folder is not trusted.
fn left_out(workspace: &Workspace, rawko: &Rawko) -> Result<Vec<String>, Failure> {
    let there = rawko.mcp_servers();
    let all = workspace.builder().trusted(true).build()?.mcp_servers();
    let is_left_out = |server: &&McpHandle| !there.iter().any(|known| known.name() == server.name());
    Ok(all.iter().filter(is_left_out).map(|server| clean_line(server.name())).collect())
}

/// The server of this name.
fn find(workspace: &Workspace, rawko: &Rawko, name: &str) -> Result<McpHandle, Failure> {
    if left_out(workspace, rawko)?.iter().any(|left_out| left_out == name) {
        let message = format!("the MCP server `{name}` is not started: this folder is not trusted");
        return Err(Failure::usage(message).with_hint(TRUST_FIRST));
    }
    let servers = rawko.mcp_servers();
    let known: Vec<String> = servers.iter().map(|server| server.name().to_owned()).collect();
    servers.into_iter().find(|server| server.name() == name).ok_or_else(|| {
        let there = if known.is_empty() {
            "there is none".to_owned()
        } else {
            format!("there are: {}", known.join(", "))
        };
        Failure::usage(format!("there is no MCP server `{}`", clean_line(name))).with_hint(there)
    })
}

fn check(workspace: &Workspace, arguments: &McpCheckArgs) -> Result<Exit, Failure> {
    let rawko = workspace.open_quietly()?;
    let servers = match arguments.servers.as_slice() {
        [] => rawko.mcp_servers(),
        names => names.iter().map(|name| find(workspace, &rawko, name)).collect::<Result<_, _>>()?,
    };
    let confinement = rawko.confinement()?;
    let console = &workspace.console;
    let (mut entries, mut failed) = (Vec::new(), false);
    if arguments.servers.is_empty() {
        let left_out = left_out(workspace, &rawko)?;
        if !left_out.is_empty() {
            failed = true;
            let names = left_out.join(", ");
            console.write_error(&format!(
                "not started, because this folder is not trusted: {names}; {TRUST_FIRST}\n"
            ))?;
        } else if servers.is_empty() && !arguments.output.json {
            console.line(NO_SERVER)?;
        }
    }
    for server in &servers {
        let Some(checked) = block_on(until_stopped(server.check(rawko.project(), &confinement)))? else {
            return Ok(Exit::Cancelled);
        };
        server.end();
        let checked = checked.and_then(|mut checked| {
            if let Some(digest) = &arguments.accept {
                if !checked.digest.starts_with(digest) {
                    return Err("it lists something else than what has that digest: look again".to_owned());
                }
                server.accept(&checked)?;
                checked.is_approved = true;
            }
            Ok(checked)
        });
        failed |= !checked.as_ref().is_ok_and(|checked| checked.is_approved);
        if arguments.output.json {
            entries.push(match &checked {
                Ok(checked) => json!({"name": server.name(), "check": checked}),
                Err(why) => json!({"name": server.name(), "error": why}),
            });
        } else {
            console.write(&match &checked {
                Ok(checked) => shown(server, checked, arguments.accept.is_some()),
                Err(why) => format!("{}: does not work: {}\n", clean_line(server.name()), clean(why)),
            })?;
        }
    }
    if arguments.output.json {
        console.json(&entries)?;
    }
    Ok(if failed { Exit::Failed } else { Exit::Success })
}

fn shown(server: &McpHandle, checked: &McpCheck, is_accepted: bool) -> String {
    let name = clean_line(server.name());
    let called =
        checked.server.as_deref().map(|called| format!(" ({})", clean_line(called))).unwrap_or_default();
    let offered = server.offered(&checked.tools);
    let mut tools = counted(checked.tools.len() as u64, "tool");
    if offered < checked.tools.len() {
        tools.push_str(&format!(", of which `tools` offers {offered} to agents"));
    }
    let mut text = format!("{name}{called}: {tools}, protocol {}", clean_line(&checked.protocol));
    text.push_str(match (checked.is_approved, is_accepted) {
        (true, true) => ", approved now\n",
        (true, false) => ", as approved\n",
        (false, _) => ", not approved\n",
    });
    for tool in &checked.unusable {
        text.push_str(&format!("  ! {}: left out, {}\n", clean_line(&tool.name), clean_line(&tool.why)));
    }
    for change in &checked.changes {
        text.push_str(&change_shown(change, &checked.tools));
    }
    if !checked.is_approved {
        let digest = checked.digest.get(..DIGEST_CHARS).unwrap_or_default();
        text.push_str(&format!("  To approve exactly this: rawko mcp check {name} --accept={digest}\n"));
    }
    text
}

fn change_shown(change: &McpChange, tools: &[ListedTool]) -> String {
    match change {
        McpChange::Added { tool } => {
            let listed = tools.iter().find(|listed| listed.name == *tool);
            let description = listed.map(|listed| listed.description.as_str()).unwrap_or_default();
            format!("  + {}: {}\n{}", clean_line(tool), whole(description), schema(listed))
        }
        McpChange::Removed { tool } => format!("  - {}\n", clean_line(tool)),
        McpChange::Description { tool, before, now } => {
            let tool = clean_line(tool);
            // A change may be at the end of a long text, so both are shown whole.
            format!(
                "  ~ {tool}: another description\n    was: {}\n    is:  {}\n",
                clean_line(before),
                clean_line(now)
            )
        }
        McpChange::Schema { tool } => {
            let listed = tools.iter().find(|listed| listed.name == *tool);
            format!("  ~ {}: other arguments\n{}", clean_line(tool), schema(listed))
        }
        McpChange::Offers => "  ~ whether it has resources and prompts\n".to_owned(),
    }
}

/// The arguments of a tool. Their descriptions go into prompts, too.
fn schema(tool: Option<&ListedTool>) -> String {
    tool.map(|tool| format!("      arguments: {}\n", whole(&tool.input_schema.to_string())))
        .unwrap_or_default()
}

/// A text on one line. It says if something does not fit, because users must not approve what they cannot see.
fn whole(text: &str) -> String {
    let text = clean_line(text);
    match text.chars().count() {
        0..=LONGEST => text,
        _ => format!("{} NOT ALL OF IT IS SHOWN: `--json` does", rawko_core::text::truncate(&text, LONGEST)),
    }
}

fn call(workspace: &Workspace, arguments: &McpCallArgs) -> Result<Exit, Failure> {
    let rawko = workspace.open_quietly()?;
    let server = find(workspace, &rawko, &arguments.server)?;
    let input: Value = serde_json::from_str(&arguments.input).map_err(|error| {
        Failure::usage(format!("--input is not valid JSON: {error}")).with_hint(INPUT_FORM)
    })?;
    let Value::Object(input) = input else {
        return Err(Failure::usage("--input is not a JSON object").with_hint(INPUT_FORM));
    };
    let (root, confinement) = (rawko.project(), rawko.confinement()?);
    let answered = block_on(until_stopped(async {
        match (&arguments.resource, &arguments.prompt) {
            (Some(uri), _) => server.read(uri, root, &confinement).await,
            (None, Some(name)) => server.prompt(name, input, root, &confinement).await,
            (None, None) => {
                let tool = arguments.tool.as_deref().unwrap_or_default();
                server.call(tool, input, root, &confinement).await
            }
        }
    }))?;
    server.end();
    let Some(answered) = answered else { return Ok(Exit::Cancelled) };
    let answer = answered.map_err(|why| {
        Failure::new(Exit::Failed, format!("the MCP server `{}`: {}", server.name(), clean(&why)))
    })?;
    let Answer { text, pictures, is_error } = answer;
    let shown: Vec<Value> = pictures
        .iter()
        .map(|picture| json!({"mediaType": picture.media_type, "data": picture.data}))
        .collect();
    let value = json!({"text": text, "pictures": shown, "isError": is_error});
    workspace.console.output(arguments.output.json, &value, |_| {
        let mut lines = format!("{}\n", clean(&text).trim_end());
        for picture in &pictures {
            lines.push_str(&format!("[a picture of the type {}]\n", clean_line(&picture.media_type)));
        }
        lines
    })?;
    Ok(if is_error { Exit::Failed } else { Exit::Success })
}

fn login(workspace: &Workspace, name: &str) -> Result<Exit, Failure> {
    let rawko = workspace.open_quietly()?;
    let server = find(workspace, &rawko, name)?;
    let port = server.callback_port();
    let listener = callback::CallbackListener::new(port).map_err(|error| {
        let at = port.map(|port| format!(" at the port {port}")).unwrap_or_default();
        Failure::new(Exit::Failed, format!("cannot listen on this machine's loopback{at}: {error}"))
    })?;
    let console = &workspace.console;
    let logged_in = block_on(until_stopped(server.login(listener.address(), async |address| {
        let said = console.line(&format!(
            "Open this address in your browser:\n{}\nThen wait here, 5 minutes at most. Ctrl-C ends the login.",
            clean_line(&address)
        ));
        said.map_err(|error| error.to_string())?;
        listener.wait().await
    })))?;
    match logged_in {
        None => Ok(Exit::Cancelled),
        Some(Ok(())) => {
            console.line(&format!("Logged in at `{}`.", server.name()))?;
            Ok(Exit::Success)
        }
        Some(Err(why)) => {
            Err(Failure::new(Exit::Failed, format!("the MCP server `{}`: {}", server.name(), clean(&why))))
        }
    }
}
