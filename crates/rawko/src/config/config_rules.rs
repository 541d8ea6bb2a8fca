//! What a schema cannot say of `config.yaml`: names that must exist, values that must fit together.
//!
//! Owns these rules. Everything found is placed where the value was written, be that a file, a variable or a flag.

use rawko_core::agent::Permissions;
use rawko_provider::preset::{self, PRESETS};
use serde_json::Value;

use super::diagnostic::{Diagnostic, printable};
use super::layers::Layers;
use super::model::{Config, CustomTool, ProviderConfig, ProviderType};
use super::nearest::nearest;
use super::provider::kind_of;
use super::unsupported;
use super::yaml::escape;

/// Most bytes of a command: what one argument of a program may hold, with room to spare.
const MAX_COMMAND: usize = 100_000;

/// What exists besides the configuration.
pub(super) struct Known<'a> {
    /// Names of all agents, those of broken files included.
    pub(super) agents: &'a [&'a str],
    /// Names of the tools that come with rawko or from the embedder; empty: not known, not checked.
    pub(super) tools: &'a [&'a str],
    /// Names of providers that the embedder registered.
    pub(super) registered: &'a [&'a str],
    /// Names of configured providers, those of broken entries included.
    pub(super) providers: &'a [&'a str],
    /// Names of custom tools, those of broken entries included.
    pub(super) custom_tools: &'a [&'a str],
    /// Whether every configuration file could be read. If not, a provider or tool may only seem to be missing.
    pub(super) is_whole: bool,
}

/// All rules of `config`, which is what `layers` add up to.
pub(super) fn check(config: &Config, layers: &Layers, known: &Known<'_>) -> Vec<Diagnostic> {
    let mut rules = Rules { layers, findings: Vec::new() };
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
    if config.memory.semantic && !cfg!(feature = "semantic") {
        let help =
            "build it with `cargo install --path crates/rawko-cli --features semantic`, or set it to false";
        let message = "this build of rawko cannot find memories by meaning".to_owned();
        rules.find("/memory/semantic", message, Some(help.to_owned()));
    }
    for (model, price) in &config.prices {
        let amounts = [Some(price.input), Some(price.output), price.cache_read, price.cache_write];
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

/// What to say where no provider has this name.
pub(super) fn missing_provider(name: &str, known: &Known<'_>) -> Option<(String, String)> {
    // One that is configured but broken is reported where it is configured.
    if !known.is_whole
        || known.registered.contains(&name)
        || known.providers.contains(&name)
        || preset::find(name).is_some()
    {
        return None;
    }
    if let Some(reason) = unsupported::provider(name) {
        return Some((format!("there is no provider `{name}`"), reason.to_owned()));
    }
    let configured = known.providers.iter().chain(known.registered).copied();
    let help = match nearest(name, configured.chain(preset_names())) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            format!("configure it under `provider:`, or take one that is known: {}", list(preset_names()))
        }
    };
    Some((format!("there is no provider `{}`", printable(name)), help))
}

/// Names of providers that work without being configured.
fn preset_names<'a>() -> impl Iterator<Item = &'a str> {
    PRESETS.iter().map(|preset| preset.name)
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

struct Rules<'a> {
    layers: &'a Layers,
    findings: Vec<Diagnostic>,
}

impl Rules<'_> {
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
            let help = "add `type: claude` or `type: openai`, or `preset:` with one of the known servers";
            self.find(
                &at,
                format!("what does the provider `{}` speak?", printable(name)),
                Some(help.to_owned()),
            );
            return;
        };
        if let (Some(kind), Some(preset)) = (provider.kind, provider.preset.as_deref().and_then(preset::find))
            && kind != kind_of(preset)
        {
            let message = format!("the preset `{}` speaks something else than this type", preset.name);
            self.find(&format!("{at}/type"), message, Some("remove `type`: the preset says it".to_owned()));
        }
        let scripted = resolved.kind == ProviderType::Scripted;
        match (scripted, &provider.script, resolved.base_url()) {
            (true, None, _) => {
                let help = "add `script: FILE` with the answers it gives";
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
                    "only a `scripted` provider has a script".to_owned(),
                    Some(help.to_owned()),
                );
            }
            (false, None, None) => {
                let help = format!("add `baseUrl:`, or `preset:` with one of: {}", list(preset_names()));
                self.find(&at, format!("where is the provider `{}`?", printable(name)), Some(help));
            }
            _ => {}
        }
        if let Some(url) = &provider.base_url
            && let Err(wants) = check_url(url)
        {
            let help = "give it like `https://api.example.com/v1`";
            self.find(
                &format!("{at}/baseUrl"),
                format!("this is no address: {wants}"),
                Some(help.to_owned()),
            );
        }
    }

    fn verification(&mut self, config: &Config) {
        let list = if self.layers.get("/verify").is_some_and(Value::is_array) { "" } else { "/commands" };
        for (n, command) in config.verify.commands.iter().flatten().enumerate() {
            let says_nothing = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
            let (message, help) = if command.lines().all(says_nothing) {
                ("there is no command here", "remove it; `verify: []` runs nothing")
            } else if command.contains('\0') {
                ("the command contains a NUL", "remove it")
            } else if command.len() > MAX_COMMAND {
                ("the command is too long", "put it into a script of the project, and call that")
            } else {
                continue;
            };
            self.find(&format!("/verify{list}/{n}"), message.to_owned(), Some(help.to_owned()));
        }
    }

    fn permissions(&mut self, permissions: &Permissions) {
        for (pointer, message, help) in permission_faults(permissions) {
            self.find(&format!("/permissions{pointer}"), message, Some(help.to_owned()));
        }
    }

    /// Each tool by itself, so that one that breaks its schema does not hide what is wrong with the next.
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
                    format!("there are two tools `{}`", tool.name),
                    Some("rename one of them".to_owned()),
                );
            } else if known.iter().any(|known| known.eq_ignore_ascii_case(&tool.name)) {
                let help = "choose another name";
                self.find(&name, format!("rawko has a tool `{}` itself", tool.name), Some(help.to_owned()));
            }
            if tool.command.first().is_some_and(|program| program.trim().is_empty()) {
                let help = "the first item is the program, each argument is an item of its own";
                self.find(
                    &format!("{at}/command"),
                    "the program is missing".to_owned(),
                    Some(help.to_owned()),
                );
            }
            let schema = Value::Object(tool.input_schema.clone());
            if schema.get("type").and_then(Value::as_str) != Some("object") {
                let help = "add `type: object`: models pass arguments by name";
                self.find(
                    &format!("{at}/inputSchema"),
                    "the schema is not one of an object".to_owned(),
                    Some(help.to_owned()),
                );
            } else if let Err(error) = jsonschema::validator_for(&schema) {
                let message = format!("the schema is not valid: {}", printable(&error.to_string()));
                self.find(&format!("{at}/inputSchema{}", error.instance_path().as_str()), message, None);
            }
        }
    }
}

/// What is wrong with lists of permissions: where, what, and what to try.
pub(super) fn permission_faults(permissions: &Permissions) -> Vec<(String, String, &'static str)> {
    let lists = [
        ("read", &permissions.read),
        ("write", &permissions.write),
        ("deny", &permissions.deny),
        ("net", &permissions.net),
        ("env", &permissions.env),
        ("run", &permissions.run),
    ];
    let mut faults = Vec::new();
    for (key, items) in lists {
        for (n, item) in items.iter().flatten().enumerate() {
            let fault = match key {
                _ if item.trim().is_empty() => Some(("this is empty", "remove it")),
                "net" if item.contains("://") || item.contains('/') => {
                    Some(("a host is wanted, not an address", "write `api.example.com` or `*.example.com`"))
                }
                "env" if item.contains('=') => {
                    Some(("the name of a variable is wanted, without a value", "write the name only"))
                }
                "run" if item.contains(char::is_whitespace) => {
                    Some(("the name of a program is wanted, without arguments", "write the program only"))
                }
                _ => None,
            };
            if let Some((message, help)) = fault {
                faults.push((format!("/{key}/{n}"), message.to_owned(), help));
            }
        }
    }
    faults
}

/// Whether `url` is an http or https address without credentials; else what is wrong, without showing it.
fn check_url(url: &str) -> Result<(), &'static str> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))
        .ok_or("it should begin with `https://` or `http://`")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("it contains credentials; name the variable that holds the key in `apiKeyEnv`");
    }
    if authority.is_empty() || authority.starts_with(':') {
        return Err("the host is missing");
    }
    if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("there is a blank in it");
    }
    if rest.contains(['?', '#']) {
        return Err("it should end with the path, without `?` and `#`");
    }
    Ok(())
}

/// The host of a valid address, without its port.
pub(super) fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit('@').next().unwrap_or_default();
    match authority.strip_prefix('[') {
        Some(six) => six.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_address(url: &str, expected: Result<&str, &str>) {
        match expected {
            Ok(host) => {
                assert_eq!(check_url(url), Ok(()), "{url}");
                assert_eq!(host_of(url), host, "{url}");
            }
            Err(part) => {
                assert!(check_url(url).is_err_and(|e| e.contains(part)), "{url}: {:?}", check_url(url));
            }
        }
    }

    #[test]
    fn addresses_are_checked_without_being_shown() {
        check_address("https://api.example.com/v1", Ok("api.example.com"));
        check_address("http://localhost:11434/v1", Ok("localhost"));
        check_address("http://[::1]:8080/v1", Ok("::1"));
        check_address("localhost:8080", Err("begin with"));
        check_address("ftp://host", Err("begin with"));
        check_address("https://", Err("host is missing"));
        check_address("https://:80/", Err("host is missing"));
        check_address("https://user:pass@host/", Err("credentials"));
        check_address("https://host/v 1", Err("blank"));
        check_address("https://host/v1?key=x", Err("end with the path"));
    }
}
