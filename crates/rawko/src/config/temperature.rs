//! Finds sampling temperatures that the API or the model does not accept.
//!
//! A configured temperature is never silently ignored: one that would be refused is an error here. rawko's
//! default temperature for decisions is not sent to models that accept none, so that value is no
//! error either when a file repeats it.

use rawko_core::agent::AgentConfig;
use rawko_core::models::{self, When};
use rawko_core::thinking::Thinking;
use serde_json::Value;

use super::address::host_of;
use super::diagnostic::{Diagnostic, dotted};
use super::layers::Layers;
use super::model::{ArbiterConfig, Config, ProviderType};
use super::provider::ResolvedProvider;
use super::yaml::escape;

/// The highest temperature that Anthropic's Messages API accepts
/// (<https://platform.claude.com/docs/en/api/messages>). The schema has the limit of Chat Completions.
const MOST_OVER_MESSAGES: f64 = 1.0;

/// The fixed temperature of models that accept none. Configuring this value is not an error.
const USUAL: f64 = 1.0;

/// Returns all errors in the temperatures of `config` and of `agents`, the agents from files.
pub(super) fn check<'a>(
    config: &Config,
    layers: &Layers,
    agents: impl Iterator<Item = &'a AgentConfig>,
) -> Vec<Diagnostic> {
    let mut findings = Vec::new();
    let agents: Vec<&AgentConfig> = agents.collect();
    for (name, provider) in &config.provider.named {
        let Some((temperature, resolved)) = provider.temperature.zip(config.provider(name)) else { continue };
        let usual = thinks(&resolved.config.extra, provider.thinking);
        let own = resolved.model().map(|model| (model, usual, None));
        let of_agents = agents.iter().filter_map(|agent| {
            let chosen = agent.provider.name.as_deref().unwrap_or_else(|| config.default_provider());
            let model = agent.provider.model.as_deref();
            // Without a model and a setting of its own it is the provider's case.
            let model = model.or_else(|| resolved.model().filter(|_| agent.provider.thinking.is_some()));
            let thinks = thinks(&resolved.config.extra, agent.provider.thinking.or(provider.thinking));
            Some((model.filter(|_| chosen == name)?, thinks, Some(agent.name.as_str())))
        });
        let pointer = format!("/provider/{}/temperature", escape(name));
        let extractor = &config.memory.extractor;
        let extracts = extractor.provider.as_deref().unwrap_or_else(|| config.default_provider()) == name;
        let of_extractor = extractor.model.as_deref().filter(|_| extracts).map(|model| (model, None, None));
        let mut models = own.into_iter().chain(of_agents).chain(of_extractor);
        let refused =
            models.find_map(|(model, thinks, agent)| refusal(&resolved, model, thinks, temperature, agent));
        findings.extend(refused.map(|why| finding(layers, &pointer, temperature, &why)));
    }
    findings.extend(arbiter(config, layers));
    findings
}

fn arbiter(config: &Config, layers: &Layers) -> Option<Diagnostic> {
    let temperature = config.arbiter.temperature;
    if (temperature - ArbiterConfig::default().temperature).abs() < f64::EPSILON {
        return None;
    }
    let name = config.arbiter.provider.as_deref().unwrap_or_else(|| config.default_provider());
    let resolved = config.provider(name)?;
    let model = config.arbiter.model.as_deref().or_else(|| resolved.model())?;
    // A provider's `extra` is not sent with decisions.
    let why = refusal(&resolved, model, None, temperature, None)?;
    Some(finding(layers, "/arbiter/temperature", temperature, &why))
}

fn finding(layers: &Layers, pointer: &str, temperature: f64, why: &str) -> Diagnostic {
    let message = format!("`{}` is `{temperature}`, but {why}", dotted(pointer));
    let help = "remove it to use the model's default";
    layers.finding(pointer, message, Some(help.to_owned()))
}

/// Whether the configuration turns thinking on or off; `None` if it does neither.
fn thinks(extra: &serde_json::Map<String, Value>, thinking: Option<Thinking>) -> Option<bool> {
    if let Some(thinking) = thinking {
        return Some(!matches!(thinking, Thinking::Off(_)));
    }
    let kind = extra.get("thinking").and_then(|thinking| thinking.get("type")).and_then(Value::as_str);
    let over_responses = extra.get("reasoning").and_then(|reasoning| reasoning.get("effort"));
    let effort = extra.get("reasoning_effort").or(over_responses).and_then(Value::as_str);
    match (kind, effort) {
        (None, None) => None,
        (Some("disabled" | "between_tools"), _) | (None, Some("none")) => Some(false),
        (Some(_), _) | (None, Some(_)) => Some(true),
    }
}

/// Why `temperature` would be refused. `agent` is set if `model` is the agent's and not the provider's.
fn refusal(
    provider: &ResolvedProvider,
    model: &str,
    thinks: Option<bool>,
    temperature: f64,
    agent: Option<&str>,
) -> Option<String> {
    let is_known_service = match provider.kind {
        ProviderType::Claude | ProviderType::Responses => true,
        // Servers that imitate a vendor's API have their own rules.
        ProviderType::OpenAi => provider.base_url().map(host_of) == Some("api.openai.com"),
        ProviderType::Copilot | ProviderType::Scripted => false,
    };
    if !is_known_service {
        return None;
    }
    if provider.kind == ProviderType::Claude && temperature > MOST_OVER_MESSAGES {
        return Some("the Messages API accepts at most 1".to_owned());
    }
    let model = provider.full_name(model);
    let facts = models::find(model);
    let thinks = thinks.or(facts.thinks).unwrap_or(false);
    let is_usual = (temperature - USUAL).abs() < f64::EPSILON;
    let when = facts.temperature.filter(|when| !is_usual && !when.allows(thinks))?;
    let whose = agent.map_or_else(String::new, |agent| format!(" (of the agent `{agent}`)"));
    Some(match when {
        When::Never => format!("the model `{model}`{whose} accepts no temperature"),
        When::WithoutThinking => format!("the model `{model}`{whose} accepts no temperature while it thinks"),
    })
}
