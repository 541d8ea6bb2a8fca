//! Resolves the name of a provider: its own settings over those of a preset.
//!
//! Owns this resolution and the choice of the default provider. It handles only names of key variables, never keys.

use rawko_copilot::{DEFAULT_MODEL as COPILOT_MODEL, TOKEN_VARIABLES};
use rawko_core::models;
use rawko_provider::preset::{self, PRESETS, Preset};
use rawko_provider::{ProviderKind, ProviderSettings};

use super::api_key_env::ApiKeyEnv;
use super::layers::{Origin, Provenance};
use super::model::{Config, ProviderConfig, ProviderType};

/// The provider that is GitHub Copilot, if its configuration names no other type.
pub const COPILOT: &str = "copilot";

/// A provider from the configuration or a preset.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedProvider {
    /// Its name.
    pub name: String,
    /// The API it speaks.
    pub kind: ProviderType,
    /// The preset of a known server, if it uses one.
    pub preset: Option<&'static Preset>,
    /// Its own settings.
    pub config: ProviderConfig,
}

impl ResolvedProvider {
    /// The address of its API; `None` if it needs none.
    #[must_use]
    pub fn base_url(&self) -> Option<&str> {
        self.config.base_url.as_deref().or_else(|| self.preset.map(|preset| preset.base_url))
    }

    /// The environment variable that holds its key; `None` if no key is sent. A preset at its own address has a
    /// default variable. Any other server gets a key only through its own `apiKeyEnv`: the key of one service is never sent to
    /// another.
    #[must_use]
    pub fn key_env(&self) -> Option<&str> {
        match &self.config.api_key_env {
            ApiKeyEnv::NoKey => None,
            ApiKeyEnv::Variable(name) => Some(name),
            ApiKeyEnv::NotSet => self.usual_key_env().filter(|_| !self.is_elsewhere()),
        }
    }

    /// The variable that holds the preset's key.
    #[must_use]
    pub fn usual_key_env(&self) -> Option<&'static str> {
        self.preset.and_then(|preset| preset.key_env)
    }

    /// Whether its address is that of another server than the preset's.
    fn is_elsewhere(&self) -> bool {
        let server = |url: &str| -> String {
            let host = url.split_once("://").map_or(0, |(scheme, _)| scheme.len() + "://".len());
            let end = url[host..].find('/').map_or(url.len(), |slash| host + slash);
            url[..end].to_ascii_lowercase()
        };
        let known = self.preset.map(|preset| server(preset.base_url));
        self.config.base_url.as_deref().is_some_and(|url| known != Some(server(url)))
    }

    /// The model to use if nothing else names one, with its full name; `None` if neither configuration nor preset has
    /// one.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        let own = self.config.model.as_deref().map(|model| self.full_name(model));
        let usual = self.preset.and_then(|preset| preset.default_model);
        let usual = usual.or_else(|| (self.kind == ProviderType::Copilot).then_some(COPILOT_MODEL));
        own.or(usual)
    }

    /// The full name of `model`, which may be a short name at this service ([`models::aliases`]).
    ///
    /// A server with an address of its own may have a model of such a name, so there the name is taken literally; unless
    /// the preset's own key is sent to it, as to a gateway to the service.
    #[must_use]
    pub fn full_name<'a>(&self, model: &'a str) -> &'a str {
        self.service().and_then(|preset| models::find_alias(preset.name, model)).unwrap_or(model)
    }

    /// The known service that it is: at its own address, or behind a gateway that is sent the service's own key.
    fn service(&self) -> Option<&'static Preset> {
        let is_gateway = self.key_env().is_some() && self.key_env() == self.usual_key_env();
        self.preset.filter(|_| is_gateway || !self.is_elsewhere())
    }

    /// The services whose short name `model` is, if it is none of this one's and this is a service with known models.
    #[must_use]
    pub fn foreign_alias(&self, model: &str) -> Option<Vec<&'static str>> {
        let service = self.service().filter(|preset| !preset.local)?;
        let has_aliases = models::aliases(service.name).next().is_some();
        let others: Vec<&str> = models::services_with_alias(model).collect();
        (has_aliases && !others.is_empty() && !others.contains(&service.name)).then_some(others)
    }

    /// Whether it searches the web itself while `model` answers. Where the configuration does not say: a service at its own
    /// address whose models are known to.
    #[must_use]
    pub fn searches(&self, model: &str) -> bool {
        let has_a_form = matches!(self.kind, ProviderType::Claude | ProviderType::Responses);
        let is_known =
            || self.preset.is_some() && !self.is_elsewhere() && models::find(model).search_price.is_some();
        has_a_form && self.config.web_search.unwrap_or_else(is_known)
    }

    /// The variables that may hold its key, if it looks for one in several: the first that is set counts.
    #[must_use]
    pub fn token_variables(&self) -> &'static [&'static str] {
        let looks = self.kind == ProviderType::Copilot && self.config.api_key_env == ApiKeyEnv::NotSet;
        if looks { TOKEN_VARIABLES } else { &[] }
    }

    /// The settings of its client, without the key; `None` for a provider that rawko sends no HTTP requests to: a script,
    /// Copilot.
    #[must_use]
    pub fn settings(&self) -> Option<ProviderSettings> {
        let kind = match self.kind {
            ProviderType::Claude => ProviderKind::Claude,
            ProviderType::OpenAi => ProviderKind::OpenAi,
            ProviderType::Copilot | ProviderType::Scripted => return None,
            ProviderType::Responses => ProviderKind::Responses,
        };
        let mut settings = match self.preset {
            Some(preset) => ProviderSettings::from_preset(preset),
            None => ProviderSettings::new(self.name.clone(), kind, ""),
        };
        settings.name.clone_from(&self.name);
        settings.base_url = self.base_url().unwrap_or_default().to_owned();
        settings.default_model = self.model().unwrap_or_default().to_owned();
        settings.retry = self.config.retry;
        let timeouts = &self.config.timeouts;
        timeouts.set(&mut settings.timeouts);
        Some(settings)
    }
}

impl Config {
    /// The provider named `name`, if it is configured or a preset.
    #[must_use]
    pub fn provider(&self, name: &str) -> Option<ResolvedProvider> {
        let config = self.provider.named.get(name);
        let preset_name = config.and_then(|config| config.preset.as_deref());
        let preset = match (preset_name, config.and_then(|config| config.kind)) {
            (Some(preset), _) => preset::find(preset),
            // A provider named `openai` with another type is not that server.
            (None, Some(kind)) => preset::find(name).filter(|preset| kind_of(preset) == kind),
            (None, None) => preset::find(name),
        };
        let kind = config
            .and_then(|config| config.kind)
            .or_else(|| preset.map(kind_of))
            .or_else(|| (name == COPILOT).then_some(ProviderType::Copilot))
            .or_else(|| (config.is_some() && name == "scripted").then_some(ProviderType::Scripted))?;
        Some(ResolvedProvider {
            name: name.to_owned(),
            kind,
            preset,
            config: config.cloned().unwrap_or_default(),
        })
    }

    /// The provider to use if nothing else names one. Loading always sets it.
    #[must_use]
    pub fn default_provider(&self) -> &str {
        self.provider.default.as_deref().unwrap_or(FALLBACK_PROVIDER)
    }
}

/// Sends a preset's key to the address that the user's environment gives, as with the pair `ANTHROPIC_BASE_URL`
/// and `ANTHROPIC_API_KEY`, unless a file sets `apiKeyEnv`. A server that `OPENAI_BASE_URL` names often runs on the
/// user's machine and needs no key: there the key is sent only if it is set.
pub(super) fn move_keys(
    config: &mut Config,
    provenance: &mut Provenance,
    env: &dyn Fn(&str) -> Option<String>,
) {
    for preset in PRESETS {
        let Some(key) = preset.key_env else { continue };
        let at = format!("/provider/{}", preset.name);
        let Origin::Environment { name } = provenance.origin(&format!("{at}/baseUrl")).clone() else {
            continue;
        };
        let is_the_known_one = config.provider(preset.name).is_some_and(|found| found.preset == Some(preset));
        let goes_along =
            preset.kind == ProviderKind::Claude || env(key).is_some_and(|key| !key.trim().is_empty());
        let Some(settings) = config.provider.named.get_mut(preset.name) else { continue };
        if is_the_known_one && goes_along && settings.api_key_env == ApiKeyEnv::NotSet {
            settings.api_key_env = ApiKeyEnv::Variable(key.to_owned());
            provenance.set(&format!("{at}/apiKeyEnv"), Origin::Environment { name });
        }
    }
}

/// The default provider if no key is set.
const FALLBACK_PROVIDER: &str = "claude";

/// The API that a preset's server speaks.
pub(super) fn kind_of(preset: &Preset) -> ProviderType {
    match preset.kind {
        ProviderKind::Claude => ProviderType::Claude,
        ProviderKind::OpenAi => ProviderType::OpenAi,
        ProviderKind::Responses => ProviderType::Responses,
    }
}

/// The default provider if the configuration names none: the embedder's own, else the only configured one,
/// else the first preset whose key is set, else `claude`.
pub(super) fn choose_default(
    configured: &[String],
    registered: &[&str],
    env: &dyn Fn(&str) -> Option<String>,
) -> (String, Origin) {
    match (registered, configured) {
        ([own, ..], _) => return ((*own).to_owned(), Origin::Default),
        ([], [only]) => return (only.clone(), Origin::Default),
        ([], _) => {}
    }
    let keyed = PRESETS.iter().find_map(|preset| {
        let variable = preset.key_env?;
        env(variable).filter(|key| !key.trim().is_empty()).map(|_| (preset.name, variable))
    });
    match keyed {
        Some((name, variable)) => (name.to_owned(), Origin::Environment { name: variable.to_owned() }),
        None => (FALLBACK_PROVIDER.to_owned(), Origin::Default),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(config: &str, name: &str, foreign: bool) {
        let named = serde_json::from_str(config).unwrap();
        let mut all = Config::default();
        all.provider.named.insert(name.to_owned(), named);
        let resolved = all.provider(name).unwrap();
        assert_eq!(resolved.foreign_alias("sonnet").is_some(), foreign, "{config}");
    }

    #[test]
    fn a_short_name_of_another_service_is_wrong_at_a_service_and_at_its_gateway() {
        check("{}", "openai", true);
        check(r#"{"baseUrl": "https://gateway.example/v1", "apiKeyEnv": "OPENAI_API_KEY"}"#, "openai", true);
        check(r#"{"preset": "openai", "apiKeyEnv": "OPENAI_API_KEY"}"#, "work", true);
        // A server of its own may have a model of that name.
        check(r#"{"baseUrl": "https://gateway.example/v1"}"#, "openai", false);
        check(
            r#"{"type": "openai", "baseUrl": "https://gateway.example/v1", "apiKeyEnv": "K"}"#,
            "work",
            false,
        );
        check("{}", "claude", false);
    }
}
