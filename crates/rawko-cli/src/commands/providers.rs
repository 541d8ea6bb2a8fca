//! `rawko providers`: lists providers and checks that they answer.

use std::collections::BTreeSet;

use clap::Subcommand;
use rawko::Rawko;
use rawko::config::{COPILOT, ProviderType, ResolvedProvider};
use rawko::provider::ModelInfo;
use rawko::provider::preset::PRESETS;
use rawko_core::{ErrorInfo, models};
use serde_json::{Value, json};

use crate::console::OutputArgs;
use crate::environment::ProcessEnv;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::newcomer;
use crate::output::{Rows, clean_line, or_dash};
use crate::runtime::block_on;
use crate::signals::until_stopped;
use crate::workspace::Workspace;

/// Subcommands of `rawko providers`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProvidersCommand {
    /// List the providers, and whether their keys are set
    List(OutputArgs),
    /// Check that a provider answers, accepts the key and serves the model
    Check {
        /// The provider's name; by default the one that runs use
        name: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List the models that a provider serves
    Models {
        /// The provider's name; by default the one that runs use
        name: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// Runs the subcommand.
pub(crate) fn run(workspace: &Workspace, action: &ProvidersCommand) -> Result<Exit, Failure> {
    match action {
        ProvidersCommand::List(output) => list(workspace, output.json),
        ProvidersCommand::Check { name, output } => check(workspace, name.as_deref(), output.json),
        ProvidersCommand::Models { name, output } => models(workspace, name.as_deref(), output.json),
    }
}

/// Whether a run sends a key to a provider, and from which variable. Never holds the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProviderKey {
    /// No key is sent.
    NotSent,
    /// The key in this variable.
    Set(String),
    /// The key in this variable, which is not set: a run cannot begin.
    Missing(String),
}

impl ProviderKey {
    /// Looks up the provider's key.
    pub(crate) fn of(provider: &ResolvedProvider, environment: ProcessEnv) -> Self {
        match provider.key_env() {
            None => {
                let set = provider.token_variables().iter().find(|name| environment.var(name).is_some());
                set.map_or(Self::NotSent, |name| Self::Set((*name).to_owned()))
            }
            Some(variable) if environment.var(variable).is_some() => Self::Set(variable.to_owned()),
            Some(variable) => Self::Missing(variable.to_owned()),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::NotSent => "no key is sent".to_owned(),
            Self::Set(variable) => format!("{variable} is set"),
            Self::Missing(variable) => format!("{variable} is not set"),
        }
    }
}

/// All providers: the configured ones and the presets.
pub(crate) fn all(rawko: &Rawko) -> Vec<ResolvedProvider> {
    let config = &rawko.config().config;
    let configured = config.provider.named.keys().map(String::as_str);
    let known = PRESETS.iter().map(|preset| preset.name).chain([COPILOT]);
    let names: BTreeSet<&str> = configured.chain(known).collect();
    names.into_iter().filter_map(|name| config.provider(name)).collect()
}

fn list(workspace: &Workspace, as_json: bool) -> Result<Exit, Failure> {
    let rawko = workspace.inspect()?;
    let config = &rawko.config().config;
    let providers = all(&rawko);
    let usual = newcomer::usual_provider(workspace, &rawko)?;
    let key = |provider: &ResolvedProvider| ProviderKey::of(provider, workspace.environment);
    let entry = |provider: &ResolvedProvider| {
        json!({
            "name": provider.name,
            "type": provider.kind,
            "default": provider.name == usual,
            "configured": config.provider.named.contains_key(&provider.name),
            "model": provider.model(),
            "baseUrl": provider.base_url().map(shown_address),
            "apiKeyEnv": provider.key_env(),
            "keySet": match key(provider) {
                ProviderKey::NotSent => Value::Null,
                ProviderKey::Set(_) => Value::Bool(true),
                ProviderKey::Missing(_) => Value::Bool(false),
            },
        })
    };
    let entries: Vec<Value> = providers.iter().map(entry).collect();
    workspace.console.output(as_json, &entries, |paint| {
        let mark = |provider: &ResolvedProvider| if provider.name == usual { " *" } else { "" };
        let table = Rows::new(paint, &providers).table(&[
            ("NAME", &|provider| format!("{}{}", provider.name, mark(provider))),
            ("MODEL", &|provider| provider.model().unwrap_or("-").to_owned()),
            ("KEY", &|provider| match key(provider) {
                _ if provider.kind == ProviderType::Copilot && !cfg!(feature = "copilot") => {
                    "not in this build".to_owned()
                }
                ProviderKey::NotSent if provider.kind == ProviderType::Copilot => "its own login".to_owned(),
                key => key.text(),
            }),
            ("ADDRESS", &|provider| or_dash(provider.base_url().map(shown_address))),
        ]);
        format!("{table}\n* default\n")
    })?;
    Ok(Exit::Success)
}

/// An address without its possible secrets: credentials and the query string.
fn shown_address(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}[redacted]{}", &rest[at..]),
        None => url.to_owned(),
    }
}

/// The provider with this name, and the models that it serves.
fn ask(workspace: &Workspace, name: Option<&str>) -> Result<(ResolvedProvider, Vec<ModelInfo>), Failure> {
    let rawko = workspace.open()?;
    let config = &rawko.config().config;
    let usual = match name {
        Some(_) => None,
        None => Some(newcomer::usual_provider(workspace, &rawko)?),
    };
    let name = name.or(usual.as_deref()).unwrap_or_default();
    let known = config.provider(name).ok_or_else(|| {
        let names: Vec<String> = all(&rawko).into_iter().map(|provider| provider.name).collect();
        let near = rawko_core::policy::nearest_name(name, &names);
        let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
        Failure::usage(format!("there is no provider `{name}`"))
            .with_hint(format!("{near}`rawko providers list` shows all providers"))
    })?;
    if known.kind == ProviderType::Scripted {
        return Ok((known, Vec::new()));
    }
    let provider = rawko.provider(name)?;
    let models = block_on(until_stopped(provider.list_models()))?.ok_or_else(Failure::interrupted)?;
    let models = models.map_err(|error| refused(name, &error))?;
    Ok((known, models))
}

fn refused(name: &str, error: &ErrorInfo) -> Failure {
    let exit = match Exit::of_error(error) {
        Exit::Usage => Exit::Usage,
        _ => Exit::Provider,
    };
    let status = error.status.map(|status| format!(", HTTP {status}")).unwrap_or_default();
    Failure::new(exit, format!("provider `{name}`: {} ({}{status})", error.message, error.code))
        .with_hint("check the key, the address and the connection; `rawko providers list` shows the settings")
}

fn check(workspace: &Workspace, name: Option<&str>, as_json: bool) -> Result<Exit, Failure> {
    let (provider, models) = match ask(workspace, name) {
        Err(failure) if as_json && failure.exit() == Exit::Provider => {
            workspace.console.json(&json!({ "reachable": false, "error": failure.message() }))?;
            return Ok(Exit::Provider);
        }
        other => other?,
    };
    let wanted = provider.model();
    // Some servers list no models, or accept names that they do not list.
    let listed = wanted.map(|wanted| models.iter().any(|model| model.id == wanted));
    let value = json!({
        "name": provider.name,
        "reachable": true,
        "apiKeyEnv": provider.key_env(),
        "models": models.len(),
        "model": wanted,
        "modelListed": listed,
    });
    workspace.console.output(as_json, &value, |paint| {
        let name = clean_line(&provider.name);
        let answers = match provider.key_env() {
            None if provider.kind == ProviderType::Copilot => format!("`{name}` answers"),
            Some(variable) => format!("`{name}` answers with the key in {variable}"),
            None => format!("`{name}` answers without a key"),
        };
        match (provider.kind, listed, wanted) {
            (ProviderType::Scripted, ..) => {
                format!("{} `{name}` has scripted answers: there is no server to check\n", paint.good("ok"))
            }
            (_, Some(false), Some(wanted)) => format!(
                "{} {answers} and lists {} models, but not `{}`: rawko providers models {name}\n",
                paint.warning("warning"),
                models.len(),
                clean_line(wanted)
            ),
            _ => format!("{} {answers} and lists {} models\n", paint.good("ok"), models.len()),
        }
    })?;
    Ok(Exit::Success)
}

fn models(workspace: &Workspace, name: Option<&str>, as_json: bool) -> Result<Exit, Failure> {
    let (provider, models) = ask(workspace, name)?;
    let aliases: Vec<(&str, &str)> = provider
        .preset
        .into_iter()
        .flat_map(|preset| models::aliases(preset.name))
        .filter(|(short, full)| provider.full_name(short) == *full)
        .collect();
    let entries: Vec<Value> = models.iter().map(|model| entry(model, &aliases)).collect();
    workspace.console.output(as_json, &entries, |_| {
        let mut text = String::new();
        for model in &models {
            let name = model.display_name.as_ref().map(|name| format!("  {}", clean_line(name)));
            text.push_str(&format!("{}{}\n", clean_line(&model.id), name.unwrap_or_default()));
        }
        if !aliases.is_empty() {
            let all: Vec<String> = aliases.iter().map(|(short, full)| format!("{short} = {full}")).collect();
            text.push_str(&format!("\nshort names: {}\n", all.join(", ")));
        }
        text
    })?;
    Ok(Exit::Success)
}

/// What the server says of a model, and what rawko knows of it.
fn entry(model: &ModelInfo, aliases: &[(&str, &str)]) -> Value {
    let known = models::find(&model.id);
    let of_model = aliases.iter().filter(|(_, full)| *full == model.id);
    json!({
        "id": model.id,
        "displayName": model.display_name,
        "aliases": of_model.map(|(short, _)| *short).collect::<Vec<_>>(),
        "contextWindow": known.context_window,
        "maxOutput": known.max_output,
        "price": known.price,
        "priceSource": known.price_source,
        "asOf": known.as_of,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_what_may_be_secret() {
        for (url, expected) in [
            ("https://api.example.com/v1", "https://api.example.com/v1"),
            ("https://me:canary@host/v1", "https://[redacted]@host/v1"),
            ("https://host/v1?key=canary", "https://host/v1"),
            ("me:canary@host", "[redacted]@host"),
            ("https://host/@scope", "https://host/@scope"),
        ] {
            assert_eq!(shown_address(url), expected);
        }
    }
}
