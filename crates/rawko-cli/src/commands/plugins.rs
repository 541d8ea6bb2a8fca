//! `rawko plugins`: installs plug-ins, shows what they contain and run, and takes the user's approval of exactly that.

mod shown;

use std::io::{self, BufRead as _, Read as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use rawko::config::Plugin;
use rawko::plugins::{
    InstalledPlugin, PluginError, PluginFetch, PluginSource, PluginState, PluginStore, PreparedPlugin,
    check_hosts,
};
use serde_json::{Value, json};

use crate::console::{OutputArgs, can_ask};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{clean_line, quoted};
use crate::workspace::Workspace;

/// Answers that are none, after which nothing is approved.
const PATIENCE: usize = 5;

/// Subcommands of `rawko plugins`.
#[derive(Debug, Subcommand)]
pub(crate) enum PluginsCommand {
    /// List the installed plug-ins, and say which are used
    List(OutputArgs),
    /// Install a plug-in, or its newest version, once you approved what it contains
    Add(PluginAddArgs),
    /// Show what plug-ins contain, whether that is as approved, and what is wrong with them
    Check(PluginCheckArgs),
    /// Remove a plug-in with all that it kept
    Remove {
        /// Its name
        name: String,
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// Options of `rawko plugins add`.
#[derive(Debug, Args)]
pub(crate) struct PluginAddArgs {
    /// A folder, or the address of a git repository (https, ssh, file)
    #[arg(value_name = "PATH|GIT-URL")]
    source: String,
    /// The branch, tag or whole commit of the repository
    #[arg(long = "ref", value_name = "REF")]
    reference: Option<String>,
    /// The plug-in's folder, where it is not the whole source
    #[arg(long, value_name = "PATH")]
    folder: Option<PathBuf>,
    /// Approve the content with this digest, without a question
    #[arg(long, value_name = "DIGEST")]
    approve: Option<String>,
    /// Hosts that its servers may reach, with commas between them (default: those of the installed version, else none)
    #[arg(long = "allow-net", value_name = "HOSTS", value_delimiter = ',')]
    net: Vec<String>,
    /// Its servers reach no host, also where those of the installed version do
    #[arg(long, conflicts_with = "net")]
    no_net: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Options of `rawko plugins check`.
#[derive(Debug, Args)]
pub(crate) struct PluginCheckArgs {
    /// Names of installed plug-ins, or folders of others (default: all that are installed)
    #[arg(value_name = "NAME|PATH")]
    plugins: Vec<String>,
    /// Approve the installed plug-in as it is now, if this is its digest
    #[arg(long, value_name = "DIGEST")]
    approve: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the subcommand.
pub(crate) fn run(workspace: &Workspace, action: &PluginsCommand) -> Result<Exit, Failure> {
    let store = store(workspace)?;
    match action {
        PluginsCommand::List(output) => list(workspace, &store, output.json),
        PluginsCommand::Add(arguments) => add(workspace, &store, arguments),
        PluginsCommand::Check(arguments) => check(workspace, &store, arguments),
        PluginsCommand::Remove { name, output } => {
            store.remove(name).map_err(failure)?;
            let value = json!({ "name": name, "removed": true });
            workspace
                .console
                .output(output.json, &value, |_| format!("Removed the plug-in {}.\n", clean_line(name)))?;
            Ok(Exit::Success)
        }
    }
}

fn store(workspace: &Workspace) -> Result<PluginStore, Failure> {
    let environment = workspace.environment;
    match (environment.data_dir(), environment.state_dir()) {
        (Some(data), Some(state)) => Ok(PluginStore::new(&data, &state)),
        _ => Err(Failure::usage("there is no folder for plug-ins: HOME is not set")
            .with_hint("set HOME, or XDG_DATA_HOME and XDG_STATE_HOME")),
    }
}

fn failure(error: PluginError) -> Failure {
    match error {
        PluginError::Refused { message, hint } => Failure::usage(message).with_hint(hint),
        PluginError::Invalid(errors) => {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Failure::new(Exit::Failed, format!("the plug-in cannot be used\n{}", errors.join("\n")))
        }
        error => Failure::new(Exit::Failed, error.to_string())
            .with_hint("check the permissions of that file and its folder"),
    }
}

fn list(workspace: &Workspace, store: &PluginStore, as_json: bool) -> Result<Exit, Failure> {
    let plugins = store.list().map_err(failure)?;
    let entries: Vec<Value> = plugins.iter().map(shown::installed).collect();
    workspace.console.output(as_json, &entries, |paint| shown::list(&plugins, paint))?;
    Ok(Exit::Success)
}

fn add(workspace: &Workspace, store: &PluginStore, arguments: &PluginAddArgs) -> Result<Exit, Failure> {
    let source = PluginSource::parse(&arguments.source, arguments.reference.as_deref(), workspace.folder());
    let source = source.map_err(failure)?;
    check_hosts(&arguments.net).map_err(failure)?;
    let environment = workspace.environment;
    let around = workspace.project().unwrap_or_else(|_| workspace.folder().to_owned());
    let git = environment.program_outside("git", &around);
    let env = |name: &str| environment.var(name);
    let fetching = PluginFetch { git: git.as_deref(), env: &env };
    let prepared = store.prepare(source, arguments.folder.as_deref(), fetching).map_err(failure)?;
    // A newer version keeps the hosts of the older one, unless others are named or none.
    let keeps = arguments.net.is_empty() && !arguments.no_net;
    let net = if keeps { prepared.granted.clone() } else { arguments.net.clone() };
    if !is_approved(workspace, &prepared, &net, arguments)? {
        return Ok(Exit::Untrusted);
    }
    let mut value = shown::content(&prepared.plugin, &prepared.digest);
    let servers: Vec<String> = prepared.plugin.servers.keys().map(|name| clean_line(name)).collect();
    let done = if prepared.is_update { "Updated" } else { "Installed" };
    let name = store.install(prepared, net.clone()).map_err(failure)?;
    value["installed"] = json!(true);
    workspace.console.output(arguments.output.json, &value, |_| {
        let mut text = format!("{done} the plug-in {name}. To remove it: rawko plugins remove {name}\n");
        if !net.is_empty() && !servers.is_empty() {
            text.push_str(&format!("Its servers that are programs reach {}\n", clean_line(&net.join(", "))));
        }
        for server in &servers {
            text.push_str(&format!(
                "Agents have the tools of its server {server} once you approve them: rawko mcp check {server}\n"
            ));
        }
        text
    })?;
    Ok(Exit::Success)
}

/// Whether the user approves what was fetched: by its digest, or at the terminal.
fn is_approved(
    workspace: &Workspace,
    prepared: &PreparedPlugin,
    net: &[String],
    arguments: &PluginAddArgs,
) -> Result<bool, Failure> {
    let (console, digest) = (&workspace.console, &prepared.digest);
    if let Some(approved) = &arguments.approve {
        if approved == digest {
            return Ok(true);
        }
        let message =
            format!("the content has not the digest {}, so it is not installed", clean_line(approved));
        let hint = format!("its digest is {digest}; see what it contains: leave --approve out");
        return Err(Failure::new(Exit::Untrusted, message).with_hint(hint));
    }
    let text = shown::page(&prepared.plugin, digest, net, console.error_paint());
    if can_ask() {
        console.write_error(&text)?;
        return asked(workspace, "Install it as it is? [y/N] ");
    }
    match arguments.output.json {
        true => console.json(&shown::content(&prepared.plugin, digest))?,
        false => console.write_error(&text)?,
    }
    let command = command(arguments, digest);
    console.write_error(&format!("Not installed. To approve exactly this: {command}\n"))?;
    Ok(false)
}

/// The same command with an approval.
fn command(arguments: &PluginAddArgs, digest: &str) -> String {
    let mut line = format!("rawko plugins add {}", quoted(&arguments.source));
    if let Some(reference) = &arguments.reference {
        line.push_str(&format!(" --ref {}", quoted(reference)));
    }
    if let Some(folder) = &arguments.folder {
        line.push_str(&format!(" --folder {}", quoted(&folder.to_string_lossy())));
    }
    for host in &arguments.net {
        line.push_str(&format!(" --allow-net {}", quoted(host)));
    }
    format!("{line} --approve {digest}")
}

/// Asks a question that is answered with yes or no.
fn asked(workspace: &Workspace, question: &str) -> Result<bool, Failure> {
    for _ in 0..PATIENCE {
        workspace.console.write_error(question)?;
        let mut line = String::new();
        // The end of the input is no consent.
        let _ = io::stdin().lock().take(1_000).read_line(&mut line);
        match line.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => return Ok(true),
            "" | "n" | "no" => return Ok(false),
            _ => {}
        }
    }
    Ok(false)
}

/// A plug-in that is looked at.
enum CheckedPlugin {
    Installed(Box<InstalledPlugin>),
    Folder(Box<Plugin>, String),
    Invalid(String, PluginError),
}

fn check(workspace: &Workspace, store: &PluginStore, arguments: &PluginCheckArgs) -> Result<Exit, Failure> {
    if let Some(digest) = &arguments.approve {
        let [name] = arguments.plugins.as_slice() else {
            return Err(Failure::usage("--approve is for one plug-in")
                .with_hint("name it: rawko plugins check NAME --approve DIGEST"));
        };
        store.approve(name, digest).map_err(failure)?;
    }
    let checked = looked_at(workspace, store, &arguments.plugins)?;
    let mut exit = Exit::Success;
    let (mut values, mut text) = (Vec::new(), String::new());
    let paint = workspace.console.paint();
    for one in &checked {
        let is_good = match one {
            CheckedPlugin::Installed(installed) => {
                values.push(shown::installed(installed));
                text.push_str(&shown::installed_page(installed, paint));
                installed.state == PluginState::Approved
                    && installed.plugin.as_ref().is_some_and(|plugin| plugin.findings.is_empty())
            }
            CheckedPlugin::Folder(plugin, digest) => {
                values.push(shown::content(plugin, digest));
                text.push_str(&shown::page(plugin, digest, &[], paint));
                plugin.findings.is_empty()
            }
            CheckedPlugin::Invalid(path, error) => {
                values.push(shown::invalid(path, error));
                text.push_str(&shown::errors(error, paint));
                false
            }
        };
        if !is_good {
            exit = Exit::Failed;
        }
    }
    if checked.is_empty() {
        text.push_str(shown::NONE);
    }
    workspace.console.output(arguments.output.json, &values, |_| text)?;
    Ok(exit)
}

/// The plug-ins of these names and folders; all that are installed where none is named.
fn looked_at(
    workspace: &Workspace,
    store: &PluginStore,
    named: &[String],
) -> Result<Vec<CheckedPlugin>, Failure> {
    let mut installed = store.list().map_err(failure)?;
    if named.is_empty() {
        return Ok(installed.into_iter().map(|one| CheckedPlugin::Installed(Box::new(one))).collect());
    }
    let mut checked = Vec::new();
    for name in named {
        if let Some(at) = installed.iter().position(|one| one.name == *name) {
            checked.push(CheckedPlugin::Installed(Box::new(installed.remove(at))));
            continue;
        }
        let folder = workspace.folder().join(name);
        if !folder.is_dir() {
            let message = format!("`{}` is neither an installed plug-in nor a folder", clean_line(name));
            return Err(
                Failure::usage(message).with_hint("rawko plugins list names those that are installed")
            );
        }
        checked.push(match store.look_at(&folder, Path::new(name)) {
            Ok((plugin, digest)) => CheckedPlugin::Folder(Box::new(plugin), digest),
            Err(error) => CheckedPlugin::Invalid(name.clone(), error),
        });
    }
    Ok(checked)
}
