//! How plug-ins are shown: everything that an approval is about, and nothing shortened in which a program could hide.

use std::fmt::Write as _;

use rawko::config::{LoadedServer, Plugin, PluginForm};
use rawko::plugins::{InstalledPlugin, PluginError, PluginState};
use serde_json::{Map, Value, json};

use crate::output::{Paint, Rows, clean, clean_line, counted, escaped, shortened};

/// Said where none is installed.
pub(super) const NONE: &str = "No plug-in is installed. To add one: rawko plugins add PATH|GIT-URL\n";

/// What a plug-in contains, for programs.
pub(super) fn content(plugin: &Plugin, digest: &str) -> Value {
    let server = |(name, server): (&String, &LoadedServer)| {
        let config = &server.config;
        let value = json!({
            "target": server.target(), "env": config.env, "headers": config.headers, "cwd": config.cwd,
            "variables": server.variables(),
        });
        (name.clone(), value)
    };
    let skills =
        plugin.skills.iter().map(|skill| json!({"name": skill.name, "description": skill.description}));
    let agents = plugin.agents.iter().map(|agent| {
        let config = &agent.config;
        json!({
            "name": config.name, "whenToUse": config.when_to_use.joined(), "tools": config.tools.allowed,
        })
    });
    json!({
        "name": plugin.place.name,
        "version": plugin.version,
        "description": plugin.description,
        "form": plugin.form,
        "digest": digest,
        "skills": skills.collect::<Vec<_>>(),
        "agents": agents.collect::<Vec<_>>(),
        "servers": plugin.servers.iter().map(server).collect::<Map<_, _>>(),
        "hooks": plugin.hook_commands(),
        "unused": plugin.unused,
        "findings": plugin.findings,
    })
}

/// An installed plug-in, for programs.
pub(super) fn installed(installed: &InstalledPlugin) -> Value {
    let digest = installed.digest.as_deref().unwrap_or_default();
    let mut value = installed.plugin.as_ref().map_or_else(|| json!({}), |plugin| content(plugin, digest));
    let record = &installed.record;
    for (key, field) in [
        ("name", json!(installed.name)),
        ("approval", json!(installed.state)),
        ("approved", json!(record.digest)),
        ("source", json!(record.source)),
        ("ref", json!(record.reference)),
        ("commit", json!(record.commit)),
        ("folder", json!(record.folder)),
        ("net", json!(record.net)),
    ] {
        value[key] = field;
    }
    value
}

/// A folder that is no usable plug-in, for programs.
pub(super) fn invalid(path: &str, error: &PluginError) -> Value {
    match error {
        PluginError::Invalid(errors) => json!({"path": path, "errors": errors}),
        error => json!({"path": path, "error": error.to_string()}),
    }
}

/// The same for people.
pub(super) fn errors(error: &PluginError, paint: Paint) -> String {
    format!("{} {}\n", paint.error("error:"), clean(&error.to_string()))
}

/// A line for each installed plug-in.
pub(super) fn list(plugins: &[InstalledPlugin], paint: Paint) -> String {
    if plugins.is_empty() {
        return NONE.to_owned();
    }
    let of = |one: &InstalledPlugin, text: fn(&Plugin) -> Option<String>| {
        one.plugin.as_ref().and_then(text).unwrap_or_else(|| "-".to_owned())
    };
    let mut text = Rows::new(paint, plugins).table(&[
        ("NAME", &|one| one.name.clone()),
        ("VERSION", &|one| of(one, |plugin| plugin.version.clone())),
        ("USED", &|one| if one.state == PluginState::Approved { "yes" } else { "no" }.to_owned()),
        ("CONTAINS", &|one| of(one, |plugin| Some(contains(plugin)))),
        ("FROM", &|one| shortened(&source(one), 60)),
    ]);
    for one in plugins {
        if let Some(why) = why_not(one) {
            let _ = writeln!(text, "{}", paint.faint(&clean_line(&format!("{}: {why}", one.name))));
        }
    }
    text
}

fn source(installed: &InstalledPlugin) -> String {
    let record = &installed.record;
    match (&record.reference, &record.commit) {
        (Some(reference), _) => format!("{} at {reference}", record.source),
        (None, Some(commit)) => format!("{} at {}", record.source, commit.get(..10).unwrap_or(commit)),
        (None, None) => record.source.clone(),
    }
}

fn why_not(installed: &InstalledPlugin) -> Option<String> {
    let name = &installed.name;
    match &installed.state {
        PluginState::Approved => None,
        PluginState::Changed { files } => Some(format!(
            "not used: its files are not those that you approved ({}). Look at it: rawko plugins check {name}",
            files.join(", ")
        )),
        PluginState::Unusable { .. } => Some(format!("not used. See why: rawko plugins check {name}")),
    }
}

/// The parts that a plug-in has, counted.
fn contains(plugin: &Plugin) -> String {
    let parts = [
        (plugin.skills.len(), "skill"),
        (plugin.agents.len(), "agent"),
        (plugin.servers.len(), "server"),
        (plugin.hook_commands().len(), "hook"),
    ];
    let there = parts.iter().filter(|(number, _)| *number > 0);
    let there: Vec<String> = there.map(|(number, part)| counted(*number as u64, part)).collect();
    if there.is_empty() { "nothing".to_owned() } else { there.join(", ") }
}

/// An installed plug-in with its state.
pub(super) fn installed_page(installed: &InstalledPlugin, paint: Paint) -> String {
    let digest = installed.digest.as_deref().unwrap_or("unknown");
    let mut text = match &installed.plugin {
        Some(plugin) => page(plugin, digest, &installed.record.net, paint),
        None => format!("{}\n", paint.strong(&clean_line(&installed.name))),
    };
    row(&mut text, paint, "from", &source(installed));
    match &installed.state {
        PluginState::Approved => row(&mut text, paint, "used", "yes, as approved"),
        PluginState::Changed { files } => {
            row(&mut text, paint, "used", "no: its files are not those that you approved");
            row(&mut text, paint, "changed", &files.join(", "));
            let name = &installed.name;
            let command = format!("rawko plugins check {name} --approve {digest}");
            let _ = writeln!(text, "  To approve exactly this: {command}");
        }
        PluginState::Unusable { errors } => {
            row(&mut text, paint, "used", "no");
            for error in errors {
                let _ = writeln!(text, "{} {}", paint.error("error:"), clean(&error.to_string()));
            }
        }
    }
    text
}

/// What a plug-in contains, whole. Its servers may reach the hosts of `net`.
pub(super) fn page(plugin: &Plugin, digest: &str, net: &[String], paint: Paint) -> String {
    let version = plugin.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
    let title = clean_line(&format!("{}{version}", plugin.place.name));
    let mut text = format!("{}\n", paint.strong(&title));
    if let Some(description) = &plugin.description {
        row(&mut text, paint, "description", description);
    }
    let form = match plugin.form {
        PluginForm::AgentPlugins => "Agent Plugins 1.0.0",
        PluginForm::ClaudeCode => "Claude Code",
    };
    row(&mut text, paint, "form", form);
    for skill in &plugin.skills {
        row(&mut text, paint, "skill", &format!("{}: {}", skill.name, skill.description));
    }
    for agent in &plugin.agents {
        let allowed = agent.config.tools.allowed.as_ref();
        let tools = allowed.map_or_else(|| "all tools".to_owned(), |tools| tools.join(", "));
        let when = agent.config.when_to_use.joined();
        row(&mut text, paint, "agent", &format!("{} ({tools}): {when}", agent.config.name));
    }
    for (name, loaded) in &plugin.servers {
        row(&mut text, paint, "server", &server(name, loaded));
    }
    if plugin.servers.values().any(|server| server.config.command.is_some()) {
        let hosts = if net.is_empty() { "no host (see --allow-net)".to_owned() } else { net.join(", ") };
        row(&mut text, paint, "reach", &format!("its servers that are programs reach {hosts}"));
    }
    for hook in plugin.hook_commands() {
        let matcher = hook.matcher.as_deref().map(|matcher| format!(" ({matcher})")).unwrap_or_default();
        row(&mut text, paint, "hook", &format!("{}{matcher}: {}", hook.event, hook.command));
    }
    if !plugin.unused.is_empty() {
        row(&mut text, paint, "not used", &plugin.unused.join(", "));
    }
    row(&mut text, paint, "digest", digest);
    for finding in &plugin.findings {
        let _ = writeln!(text, "{} {}", paint.warning("warning:"), clean(&finding.to_string()));
    }
    text
}

/// What a server starts or asks, with what, and what it gets.
fn server(name: &str, loaded: &LoadedServer) -> String {
    let config = &loaded.config;
    let mut line = format!("{name}: {}", loaded.target());
    let sets = config.env.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
    let sends = config.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let works_in = config.cwd.iter().cloned().collect();
    for (what, items) in [
        ("sets", sets),
        ("sends", sends),
        ("works in", works_in),
        ("gets of your environment", loaded.variables()),
    ] {
        if !items.is_empty() {
            let _ = write!(line, "; {what} {}", items.join(", "));
        }
    }
    line
}

/// Nothing of the value is left out: a person approves it, and a line break begins another command.
fn row(text: &mut String, paint: Paint, name: &str, value: &str) {
    let value = escaped(value).replace('\n', "\\n").replace('\t', "\\t");
    let _ = writeln!(text, "  {} {value}", paint.faint(&format!("{name:<12}")));
}
