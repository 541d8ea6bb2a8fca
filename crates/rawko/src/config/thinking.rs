//! Checks the thinking settings of providers and agents, and turns them into request fields.
//!
//! A setting that the model or its API does not have is an error: none is silently without effect.

use rawko_core::agent::AgentConfig;
use rawko_core::models;
use rawko_core::thinking::{Thinking, ThinkingWire};
use serde_json::{Map, Value};

use super::agent_file::AgentFile;
use super::diagnostic::Diagnostic;
use super::layers::Layers;
use super::model::{Config, ProviderType};
use super::provider::ResolvedProvider;
use super::yaml::escape;

impl ResolvedProvider {
    /// The request fields that make `model` think as `thinking` says. `max_tokens` is the longest response, if it is known.
    ///
    /// # Errors
    /// In words, why that is not possible, and what to write instead.
    pub(crate) fn thinking_fields(
        &self,
        model: &str,
        thinking: Thinking,
        max_tokens: Option<u32>,
    ) -> Result<Map<String, Value>, String> {
        let wire = match self.kind {
            ProviderType::Claude => ThinkingWire::Messages,
            ProviderType::OpenAi => ThinkingWire::Chat,
            ProviderType::Responses => ThinkingWire::Responses,
            ProviderType::Copilot => return Err("Copilot decides itself; remove the setting".to_owned()),
            ProviderType::Scripted => return Err("a script does not think; remove the setting".to_owned()),
        };
        let fields = thinking
            .fields(wire, &models::find(model))
            .map_err(|why| format!("the model `{model}` cannot do that: {why}"))?;
        if let Some(field) = fields.keys().find(|field| self.config.extra.contains_key(*field)) {
            return Err(format!("`extra.{field}` of the provider says it too; remove one of them"));
        }
        match (thinking.budget(), max_tokens) {
            (Some(budget), Some(most)) if budget >= most => Err(format!(
                "the budget of {budget} tokens leaves nothing for the answer: the longest response has {most}; raise `maxTokens`, or \
                 lower the budget"
            )),
            _ => Ok(fields),
        }
    }
}

/// Returns all errors in the thinking settings of `config`, and of the agents in `files`.
pub(super) fn check(config: &Config, layers: &Layers, files: &[AgentFile]) -> Vec<Diagnostic> {
    let mut findings = Vec::new();
    for (name, provider) in &config.provider.named {
        let Some((thinking, resolved)) = provider.thinking.zip(config.provider(name)) else { continue };
        let Some(model) = resolved.model().or(is_scripted(&resolved)) else { continue };
        if let Err(why) = resolved.thinking_fields(model, thinking, provider.max_tokens) {
            let pointer = format!("/provider/{}/thinking", escape(name));
            findings.push(layers.finding(&pointer, why, None));
        }
    }
    for (file, agent) in files.iter().filter_map(|file| Some((file, file.config.as_ref()?))) {
        let own = agent.provider.thinking.is_some();
        if let Some(Err(why)) = of_agent(config, agent) {
            // The provider's setting is right or wrong for its own model; this one is for the agent's.
            let pointer = if own { "/provider/thinking" } else { "/provider/model" };
            findings.push(file.finding(pointer, why, None));
        }
    }
    findings
}

fn is_scripted(provider: &ResolvedProvider) -> Option<&'static str> {
    (provider.kind == ProviderType::Scripted).then_some("scripted")
}

/// The fields for an agent that has a model or a setting of its own; `None` if it has neither.
fn of_agent(config: &Config, agent: &AgentConfig) -> Option<Result<Map<String, Value>, String>> {
    let own = &agent.provider;
    let resolved = config.provider(own.name.as_deref().unwrap_or_else(|| config.default_provider()))?;
    let thinking = own.thinking.or(resolved.config.thinking.filter(|_| own.model.is_some()))?;
    let model = own.model.as_deref().or_else(|| resolved.model()).or(is_scripted(&resolved))?;
    let max_tokens = agent.limits.max_tokens.or(resolved.config.max_tokens);
    Some(resolved.thinking_fields(model, thinking, max_tokens))
}
