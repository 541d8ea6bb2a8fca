//! The rules for `config.yaml` that a schema cannot express: names exist, values fit together.
//!
//! Every finding points to where the value was set: a file, a variable or a flag.

use rawko_core::agent::Permissions;
use rawko_provider::preset::{self, PRESETS};
use serde_json::Value;

use super::address::check_url;
use super::diagnostic::{Diagnostic, printable};
use super::layers::Layers;
use super::model::{Config, CustomTool, ProviderConfig, ProviderType};
use super::nearest::nearest;
use super::provider::{COPILOT, kind_of};
use super::unsupported;
use super::yaml::escape;
use crate::integrity::check_glob;

/// Largest command, in bytes: below the system's limit for one argument of a program.
const MAX_COMMAND: usize = 100_000;

/// The names that rules may refer to.
pub(super) struct KnownNames<'a> {
    /// Names of all agents, including those of broken files.
    pub(super) agents: &'a [&'a str],
    /// Names of rawko's and the embedder's tools. Empty: not known, so not checked.
    pub(super) tools: &'a [&'a str],
    /// Names of providers that the embedder registered.
    pub(super) registered: &'a [&'a str],
    /// Names of configured providers, including those of broken entries.
    pub(super) providers: &'a [&'a str],
    /// Names of custom tools, including those of broken entries.
    pub(super) custom_tools: &'a [&'a str],
    /// Whether every configuration file could be read. If not, a missing provider or tool may be defined in the unread one.
    pub(super) is_whole: bool,
}

/// Checks all rules of `config`, which `layers` were merged into.
pub(super) fn check(config: &Config, layers: &Layers, known: &KnownNames<'_>) -> Vec<Diagnostic> {
    let mut rules = ConfigRules { layers, findings: Vec::new() };
    for (name, provider) in &config.provider.named {
        if !known.registered.contains(&name.as_str()) {
            rules.provider(config, name, provider);
        }
    }
    let fallback = config.provider.fallback.iter().enumerate();
    let named = fallback.map(|(n, name)| (format!("/provider/fallback/{n}"), Some(name)));
    let single = [
        ("/provider/default".to_owned(), config.provider.default.as_ref()),
        ("/arbiter/provider".to_owned(), config.arbiter.provider.as_ref()),
    ];
    for (pointer, name) in single.into_iter().chain(named) {
        if let Some((message, help)) = name.and_then(|name| missing_provider(name, known)) {
            rules.find(&pointer, message, Some(help));
        }
    }
    if known.agents.is_empty() {
        let help = "leave a built-in one, or add your own: docs/configuration.md says where".to_owned();
        rules.find("/agents/builtin", "there is no agent".to_owned(), Some(help));
    }
    if let Some(name) = &config.agents.default
        && !known.agents.contains(&name.as_str())
    {
        let help = match nearest(name, known.agents.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are: {}", known.agents.join(", ")),
        };
        rules.find("/agents/default", format!("there is no agent `{}`", printable(name)), Some(help));
    }
    rules.permissions(&config.permissions);
    rules.tools(known.tools);
    rules.verification(config);
    rules.findings.extend(super::mcp::check(&config.mcp, layers));
    for (pointer, message, help) in config.web.search.faults() {
        rules.find(pointer, message, Some(help.to_owned()));
    }
    for (pointer, message, help) in super::notify::faults(&config.notify) {
        rules.find(&pointer, message, Some(help.to_owned()));
    }
    for (pointer, message, help) in super::hooks::faults(layers) {
        rules.find(&pointer, message, Some(help.to_owned()));
    }
    if let Some(wants) = config.observability.fault() {
        let help = "write it like `http://localhost:4318`".to_owned();
        rules.find("/observability/endpoint", format!("this is not a valid address: {wants}"), Some(help));
    }
    for (model, price) in &config.prices {
        let amounts =
            [Some(price.input), Some(price.output), price.cache_read, price.cache_write, price.search];
        if amounts.into_iter().flatten().any(|amount| !amount.is_finite() || amount < 0.0) {
            rules.find(
                &format!("/prices/{}", escape(model)),
                "a price cannot be less than 0".to_owned(),
                None,
            );
        }
    }
    rules.findings
}

/// Message and help for a name that no provider has; `None` if one has it.
pub(super) fn missing_provider(name: &str, known: &KnownNames<'_>) -> Option<(String, String)> {
    // A broken provider is reported where it is configured.
    if !known.is_whole
        || known.registered.contains(&name)
        || known.providers.contains(&name)
        || preset::find(name).is_some()
        || name == COPILOT
    {
        return None;
    }
    if let Some(reason) = unsupported::provider(name) {
        return Some((format!("there is no provider `{name}`"), reason.to_owned()));
    }
    let configured = known.providers.iter().chain(known.registered).copied();
    let help = match nearest(name, configured.chain(preset_names()).chain([COPILOT])) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            format!("configure it under `provider:`, or use a preset: {}", list(preset_names()))
        }
    };
    Some((format!("there is no provider `{}`", printable(name)), help))
}

/// Names of the providers that work without configuration.
fn preset_names<'a>() -> impl Iterator<Item = &'a str> {
    PRESETS.iter().map(|preset| preset.name)
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

struct ConfigRules<'a> {
    layers: &'a Layers,
    findings: Vec<Diagnostic>,
}

impl ConfigRules<'_> {
    fn find(&mut self, pointer: &str, message: String, help: Option<String>) {
        self.findings.push(self.layers.finding(pointer, message, help));
    }

    fn provider(&mut self, config: &Config, name: &str, provider: &ProviderConfig) {
        let at = format!("/provider/{}", escape(name));
        if ["type", "preset", "baseUrl", "script"]
            .iter()
            .any(|key| self.layers.is_unsound(&format!("{at}/{key}")))
        {
            return;
        }
        if let Some(reason) = unsupported::provider(name).filter(|_| provider.kind.is_none()) {
            self.find(&at, format!("there is no provider `{name}`"), Some(reason.to_owned()));
            return;
        }
        if let Some(wrong) = provider.preset.as_deref().filter(|name| preset::find(name).is_none()) {
            let help = match nearest(wrong, preset_names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are: {}", list(preset_names())),
            };
            self.find(
                &format!("{at}/preset"),
                format!("there is no preset `{}`", printable(wrong)),
                Some(help),
            );
            return;
        }
        let Some(resolved) = config.provider(name) else {
            let help = "add `type: claude`, `type: openai` or `type: responses`, or `preset:` with the name of a known server";
            self.find(
                &at,
                format!("the provider `{}` has neither `type` nor `preset`", printable(name)),
                Some(help.to_owned()),
            );
            return;
        };
        if let (Some(kind), Some(preset)) = (provider.kind, provider.preset.as_deref().and_then(preset::find))
            && kind != kind_of(preset)
        {
            let message = format!("the preset `{}` has another type", preset.name);
            self.find(
                &format!("{at}/type"),
                message,
                Some("remove `type`: the preset implies it".to_owned()),
            );
        }
        let scripted = resolved.kind == ProviderType::Scripted;
        let copilot = resolved.kind == ProviderType::Copilot;
        if copilot && provider.base_url.is_some() {
            let help =
                "remove it; for a server of your own, set COPILOT_PROVIDER_BASE_URL (docs/providers.md)";
            let message = "the Copilot CLI has no address to configure".to_owned();
            self.find(&format!("{at}/baseUrl"), message, Some(help.to_owned()));
        }
        if !copilot && provider.cli.is_some() {
            let help = "remove it, or add `type: copilot`";
            let message = "only a provider of type `copilot` has a program".to_owned();
            self.find(&format!("{at}/cli"), message, Some(help.to_owned()));
        }
        match (scripted, &provider.script, resolved.base_url()) {
            (true, None, _) => {
                let help = "add `script: FILE` with the model's answers";
                self.find(
                    &at,
                    format!("the scripted provider `{}` has no script", printable(name)),
                    Some(help.to_owned()),
                );
            }
            (false, Some(_), _) => {
                let help = "remove it, or add `type: scripted`";
                self.find(
                    &format!("{at}/script"),
                    "only a provider of type `scripted` can have a script".to_owned(),
                    Some(help.to_owned()),
                );
            }
            (false, None, None) if !copilot => {
                let help = format!("add `baseUrl:`, or `preset:` with one of: {}", list(preset_names()));
                self.find(&at, format!("the provider `{}` has no address", printable(name)), Some(help));
            }
            _ => {}
        }
        if let Some(url) = &provider.base_url
            && let Err(wants) = check_url(url)
        {
            let help = "write it like `https://api.example.com/v1`";
            self.find(
                &format!("{at}/baseUrl"),
                format!("this is not a valid address: {wants}"),
                Some(help.to_owned()),
            );
        }
    }

    fn verification(&mut self, config: &Config) {
        let list = if self.layers.get("/verify").is_some_and(Value::is_array) { "" } else { "/commands" };
        for (n, command) in config.verify.commands.iter().flatten().enumerate() {
            let says_nothing = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
            let (message, help) = if command.lines().all(says_nothing) {
                ("the command is empty", "remove it; `verify: []` runs no commands")
            } else if command.contains('\0') {
                ("the command contains a NUL byte", "remove the byte")
            } else if command.len() > MAX_COMMAND {
                ("the command is too long", "move it to a script in the project, and call the script")
            } else {
                continue;
            };
            self.find(&format!("/verify{list}/{n}"), message.to_owned(), Some(help.to_owned()));
        }
        for (n, glob) in config.verify.tests.iter().enumerate() {
            if let Err(why) = check_glob(glob) {
                let help = "write a path relative to the project, with * and **: checks/**/*.py";
                self.find(
                    &format!("/verify/tests/{n}"),
                    format!("this glob cannot be read: {why}"),
                    Some(help.to_owned()),
                );
            }
        }
    }

    fn permissions(&mut self, permissions: &Permissions) {
        for (pointer, message, help) in permission_faults(permissions) {
            self.find(&format!("/permissions{pointer}"), message, Some(help.to_owned()));
        }
    }

    /// Reads each tool on its own, so that an error in one does not hide the errors of the next.
    fn tools(&mut self, known: &[&str]) {
        let items = self.layers.written("/tools").and_then(Value::as_array).cloned().unwrap_or_default();
        let parsed = items.into_iter().enumerate();
        let tools: Vec<(usize, CustomTool)> =
            parsed.filter_map(|(n, item)| Some((n, serde_json::from_value(item).ok()?))).collect();
        for (position, (n, tool)) in tools.iter().enumerate() {
            let at = format!("/tools/{n}");
            let name = format!("{at}/name");
            if tools[..position].iter().any(|(_, earlier)| earlier.name == tool.name) {
                self.find(
                    &name,
                    format!("there are two tools named `{}`", tool.name),
                    Some("rename one of them".to_owned()),
                );
            } else if known.iter().any(|known| known.eq_ignore_ascii_case(&tool.name)) {
                let help = "choose another name";
                self.find(&name, format!("rawko has a built-in tool `{}`", tool.name), Some(help.to_owned()));
            }
            if tool.command.first().is_some_and(|program| program.trim().is_empty()) {
                let help = "the first item is the program; each argument is a separate item";
                self.find(&format!("{at}/command"), "the program is empty".to_owned(), Some(help.to_owned()));
            }
            let schema = Value::Object(tool.input_schema.clone());
            if schema.get("type").and_then(Value::as_str) != Some("object") {
                let help = "add `type: object`; models pass arguments by name";
                self.find(
                    &format!("{at}/inputSchema"),
                    "the schema does not describe an object".to_owned(),
                    Some(help.to_owned()),
                );
            } else if let Err(error) = jsonschema::validator_for(&schema) {
                let message = format!("the schema is not valid: {}", printable(&error.to_string()));
                self.find(&format!("{at}/inputSchema{}", error.instance_path().as_str()), message, None);
            }
        }
    }
}

const EMPTY: (&str, &str) = ("this entry is empty", "remove it");

/// What is wrong with the name of a host that may be reached, and what helps.
pub(crate) fn host_fault(host: &str) -> Option<(&'static str, &'static str)> {
    if host.trim().is_empty() {
        return Some(EMPTY);
    }
    host.contains('/').then_some((
        "this should be a host name, not an address",
        "write `api.example.com` or `*.example.com`",
    ))
}

/// Errors in lists of permissions: pointer, message and help of each.
pub(super) fn permission_faults(permissions: &Permissions) -> Vec<(String, String, &'static str)> {
    let lists = [
        ("read", &permissions.read),
        ("write", &permissions.write),
        ("deny", &permissions.deny),
        ("protect", &permissions.protect),
        ("net", &permissions.net),
        ("env", &permissions.env),
        ("run", &permissions.run),
        ("caches", &permissions.caches),
    ];
    let mut faults = Vec::new();
    for (key, items) in lists {
        for (n, item) in items.iter().flatten().enumerate() {
            let fault = match key {
                "net" => host_fault(item),
                _ if item.trim().is_empty() => Some(EMPTY),
                "protect"
                    if item.contains('/')
                        || item.contains(['*', '?', '['])
                        || item == "."
                        || item == ".." =>
                {
                    Some((
                        "this should be the name of a file or a folder, without a path and without a pattern",
                        "write the name only, `.vscode`: it holds in every folder",
                    ))
                }
                "read" | "write" | "deny" if item == "~" || item.starts_with("~/") => {
                    Some(("`~` is not expanded here", "write the whole path"))
                }
                "caches" if !item.starts_with('/') && !item.starts_with("~/") => Some((
                    "this should be a folder of your caches",
                    "write the whole path, or begin with `~/`: `~/.cargo/registry`",
                )),
                "env" if item.contains('=') => {
                    Some(("this should be the name of a variable, without a value", "write the name only"))
                }
                "run" if item.contains(char::is_whitespace) => Some((
                    "this should be the name of a program, without arguments",
                    "write the program only",
                )),
                _ => None,
            };
            if let Some((message, help)) = fault {
                faults.push((format!("/{key}/{n}"), message.to_owned(), help));
            }
        }
    }
    faults
}
