//! From the name of a provider to what it is: its own settings over those of a known server.
//!
//! Owns this resolution and the choice of the default provider. Keys are not here: only the name of the variable that holds one.

use rawko_provider::preset::{self, PRESETS, Preset};
use rawko_provider::{ProviderKind, ProviderSettings};

use super::layers::Origin;
use super::model::{Config, ProviderConfig, ProviderType};

/// A configured or known provider.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedProvider {
    /// The name it is used by.
    pub name: String,
    /// What it speaks.
    pub kind: ProviderType,
    /// The known server that it is, if it is one.
    pub preset: Option<&'static Preset>,
    /// What the configuration says of it.
    pub config: ProviderConfig,
}

impl ResolvedProvider {
    /// The address of its API; `None` for one that needs none.
    #[must_use]
    pub fn base_url(&self) -> Option<&str> {
        self.config.base_url.as_deref().or_else(|| self.preset.map(|preset| preset.base_url))
    }

    /// The environment variable that holds its key; `None` where it is given none.
    #[must_use]
    pub fn key_env(&self) -> Option<&str> {
        self.config.api_key_env.as_deref().or_else(|| self.usual_key_env())
    }

    /// The variable that holds the key where the configuration does not say.
    #[must_use]
    pub fn usual_key_env(&self) -> Option<&'static str> {
        match (self.preset, self.kind) {
            (Some(preset), _) => preset.key_env,
            (None, ProviderType::Claude) => Some("ANTHROPIC_API_KEY"),
            (None, ProviderType::OpenAi) => Some("OPENAI_API_KEY"),
            (None, ProviderType::Scripted) => None,
        }
    }

    /// The model to use where nothing else names one; `None` where only the server knows what it has.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.config.model.as_deref().or_else(|| self.preset.and_then(|preset| preset.default_model))
    }

    /// What a client of it must know, still without the key; `None` for a scripted one, which has no server.
    #[must_use]
    pub fn settings(&self) -> Option<ProviderSettings> {
        let kind = match self.kind {
            ProviderType::Claude => ProviderKind::Claude,
            ProviderType::OpenAi => ProviderKind::OpenAi,
            ProviderType::Scripted => return None,
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
        for (slot, span) in [
            (&mut settings.timeouts.connect_ms, timeouts.connect),
            (&mut settings.timeouts.idle_ms, timeouts.idle),
            (&mut settings.timeouts.total_ms, timeouts.total),
        ] {
            if let Some(span) = span {
                *slot = span.as_ms();
            }
        }
        Some(settings)
    }
}

impl Config {
    /// The provider called `name`, if it is configured or known by that name.
    #[must_use]
    pub fn provider(&self, name: &str) -> Option<ResolvedProvider> {
        let config = self.provider.named.get(name);
        let preset_name = config.and_then(|config| config.preset.as_deref());
        let preset = match (preset_name, config.and_then(|config| config.kind)) {
            (Some(preset), _) => preset::find(preset),
            // A provider that is called `openai` but says it speaks something else is not that server.
            (None, Some(kind)) => preset::find(name).filter(|preset| kind_of(preset) == kind),
            (None, None) => preset::find(name),
        };
        let kind = config
            .and_then(|config| config.kind)
            .or_else(|| preset.map(kind_of))
            .or_else(|| (config.is_some() && name == "scripted").then_some(ProviderType::Scripted))?;
        Some(ResolvedProvider {
            name: name.to_owned(),
            kind,
            preset,
            config: config.cloned().unwrap_or_default(),
        })
    }

    /// The provider to use where nothing else names one. Loading sees to it that there is one.
    #[must_use]
    pub fn default_provider(&self) -> &str {
        self.provider.default.as_deref().unwrap_or(FALLBACK_PROVIDER)
    }
}

/// The provider where nothing at all is known.
const FALLBACK_PROVIDER: &str = "claude";

/// What the server of a preset speaks.
pub(super) fn kind_of(preset: &Preset) -> ProviderType {
    match preset.kind {
        ProviderKind::Claude => ProviderType::Claude,
        ProviderKind::OpenAi => ProviderType::OpenAi,
    }
}

/// The default provider where the configuration names none: the embedder's own, else the only one that is configured,
/// else the first known one whose key is there, else `claude`.
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
