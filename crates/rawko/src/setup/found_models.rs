//! Finds what on this machine can answer as a model, for a user who has configured nothing.
//!
//! Looks for keys in the environment, for a login of the Copilot CLI, and for servers on the usual loopback ports. A server
//! is asked for its list of models and nothing else, and never sent a key: whatever listens on such a port may be anything.

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use rawko_core::error::ErrorCode;
use rawko_provider::ModelInfo;
use rawko_provider::preset::{PRESETS, Preset};
use serde::Serialize;
use serde_json::Value;

use crate::config::{Origin, is_loopback_url};
use crate::http;
use crate::setup::rawko::Rawko;

/// How long a server may take for the list of its models. All are asked at the same time.
const PATIENCE: Duration = Duration::from_millis(300);
/// The variables with a token for Copilot, in the order in which its CLI takes them.
const COPILOT_TOKENS: [&str; 3] = ["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"];
/// The provider that needs no key of a service but a login.
const COPILOT: &str = "copilot";
/// Largest settings file of the Copilot CLI that is read, in bytes.
const MOST_SETTINGS: u64 = 256 * 1024;
/// Parts of the names of models that cannot work as an agent: they embed, rank, listen or speak.
const NO_AGENTS: [&str; 8] = ["embed", "rerank", "whisper", "tts", "clip", "bge-", "minilm", "moderation"];

/// A place where a model may be, and what was found there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelPlace {
    /// What kind of place it is.
    pub kind: PlaceKind,
    /// The provider that uses it; absent for a kind of which nothing was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Where it was looked for: variables, a file, an address.
    pub place: String,
    /// What was found, in words; absent if nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// Whether a run can use it as it is.
    pub is_usable: bool,
    /// The model to name, where the provider has none by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// What kind of place a model is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceKind {
    /// A service whose key is in the environment.
    Key,
    /// GitHub Copilot.
    Copilot,
    /// A server on this machine.
    Server,
}

impl Rawko {
    /// Whether no provider was chosen, and the default one has no key.
    #[must_use]
    pub fn has_no_provider(&self) -> bool {
        let config = &self.config().config;
        let name = config.default_provider();
        let is_unsaid = *self.config().provenance.origin("/provider/default") == Origin::Default
            && !config.provider.named.contains_key(name)
            && self.builder.providers.is_empty();
        let key = config.provider(name).and_then(|provider| provider.key_env().map(str::to_owned));
        is_unsaid && key.is_some_and(|variable| !self.has_variable(&variable))
    }

    /// The provider that runs use because its key is in the environment and no provider was chosen; and the key's
    /// variable.
    #[must_use]
    pub fn provider_by_key(&self) -> Option<(&str, &str)> {
        let config = self.config();
        let Origin::Environment { name } = config.provenance.origin("/provider/default") else { return None };
        let provider = config.config.default_provider();
        let is_key = |preset: &Preset| preset.name == provider && preset.key_env == Some(name.as_str());
        PRESETS.iter().any(is_key).then_some((provider, name.as_str()))
    }

    /// Looks for models on this machine: keys, then Copilot, then servers, each kind in the order in which it would be
    /// used. `copilot_home` is the folder of the Copilot CLI.
    pub async fn look_for_models(&self, copilot_home: Option<&Path>) -> Vec<ModelPlace> {
        let mut places = self.keys();
        places.push(self.copilot(copilot_home));
        let servers = PRESETS.iter().filter(|preset| preset.local);
        places.extend(join_all(servers.map(|preset| self.server(preset))).await);
        places
    }

    fn has_variable(&self, name: &str) -> bool {
        (self.builder.environment)(name).is_some_and(|value| !value.trim().is_empty())
    }

    fn keys(&self) -> Vec<ModelPlace> {
        let config = &self.config().config;
        let place = |preset: &Preset| {
            let variable = preset.key_env.filter(|variable| self.has_variable(variable))?;
            let model = config.provider(preset.name)?.model().map(str::to_owned);
            Some(ModelPlace {
                kind: PlaceKind::Key,
                provider: Some(preset.name.to_owned()),
                place: variable.to_owned(),
                found: Some(format!("{variable} is set")),
                is_usable: model.is_some(),
                model: None,
            })
        };
        let found: Vec<ModelPlace> = PRESETS.iter().filter_map(place).collect();
        if !found.is_empty() {
            return found;
        }
        let variables: Vec<&str> = PRESETS.iter().filter_map(|preset| preset.key_env).collect();
        vec![ModelPlace::absent(PlaceKind::Key, None, variables.join(", "))]
    }

    fn copilot(&self, home: Option<&Path>) -> ModelPlace {
        let is_built_in = cfg!(feature = "copilot");
        let token = COPILOT_TOKENS.iter().find(|name| self.has_variable(name));
        let login = home.map(|home| home.join("config.json")).filter(|file| is_logged_in(file));
        let (place, found) = match (token, login) {
            (Some(token), _) => ((*token).to_owned(), Some(format!("{token} is set"))),
            (None, Some(file)) => (file.display().to_string(), Some("somebody is logged in".to_owned())),
            (None, None) => (format!("{}, a login of the Copilot CLI", COPILOT_TOKENS.join(", ")), None),
        };
        let missing = if is_built_in { "" } else { ", but this build of rawko has no Copilot in it" };
        ModelPlace {
            kind: PlaceKind::Copilot,
            provider: Some(COPILOT.to_owned()),
            place,
            is_usable: found.is_some() && is_built_in,
            found: found.map(|found| format!("{found}{missing}")),
            model: None,
        }
    }

    async fn server(&self, preset: &Preset) -> ModelPlace {
        let known = self.config().config.provider(preset.name);
        let url = known.as_ref().and_then(|known| known.base_url()).unwrap_or(preset.base_url);
        let absent = ModelPlace::absent(PlaceKind::Server, Some(preset.name), url.to_owned());
        let Some(settings) = known.as_ref().and_then(|known| known.settings()) else { return absent };
        if !is_loopback_url(url) {
            return absent;
        }
        let Ok(provider) = http::connect(settings.with_key(None)) else { return absent };
        let models = match tokio::time::timeout(PATIENCE, provider.list_models()).await {
            Ok(Ok(models)) => models,
            Ok(Err(error)) if error.code == ErrorCode::AuthenticationFailed => {
                return ModelPlace { found: Some("a server that asks for a key".to_owned()), ..absent };
            }
            Ok(Err(_)) | Err(_) => return absent,
        };
        let own = known.as_ref().and_then(|known| known.model());
        let model = own.or_else(|| first_for_agents(&models)).map(str::to_owned);
        let found = match (models.len(), &model) {
            (0, _) => "a server without a model".to_owned(),
            (_, None) => "a server without a model for agents".to_owned(),
            (1, Some(_)) => "a server with 1 model".to_owned(),
            (count, Some(_)) => format!("a server with {count} models"),
        };
        let is_usable = model.is_some() && !models.is_empty();
        ModelPlace { found: Some(found), is_usable, model, ..absent }
    }
}

impl ModelPlace {
    fn absent(kind: PlaceKind, provider: Option<&str>, place: String) -> Self {
        let provider = provider.map(str::to_owned);
        Self { kind, provider, place, found: None, is_usable: false, model: None }
    }
}

/// The first model that can be an agent, by its name.
fn first_for_agents(models: &[ModelInfo]) -> Option<&str> {
    let is_agent = |id: &str| {
        let name = id.to_ascii_lowercase();
        !name.trim().is_empty() && !NO_AGENTS.iter().any(|part| name.contains(part))
    };
    models.iter().map(|model| model.id.as_str()).find(|id| is_agent(id))
}

/// Whether the Copilot CLI's settings name a user who is logged in. The token itself is not read.
fn is_logged_in(file: &Path) -> bool {
    use std::io::Read as _;
    let mut text = String::new();
    let read = std::fs::File::open(file).and_then(|file| file.take(MOST_SETTINGS).read_to_string(&mut text));
    let Ok(Value::Object(settings)) = read.map(|_| serde_json::from_str(&text).unwrap_or_default()) else {
        return false;
    };
    let is_user = |value: &Value| match value {
        Value::Array(users) => !users.is_empty(),
        Value::Object(user) => !user.is_empty(),
        Value::String(user) => !user.is_empty(),
        _ => false,
    };
    let keys = ["logged_in_users", "loggedInUsers", "last_logged_in_user", "lastLoggedInUser"];
    keys.iter().filter_map(|key| settings.get(*key)).any(is_user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_first(ids: &[&str], expected: Option<&str>) {
        let models: Vec<ModelInfo> =
            ids.iter().map(|id| ModelInfo { id: (*id).to_owned(), display_name: None }).collect();
        assert_eq!(first_for_agents(&models), expected);
    }

    #[test]
    fn a_model_that_embeds_or_speaks_is_no_agent() {
        check_first(&["nomic-embed-text:latest", "qwen3:8b", "llama3.2"], Some("qwen3:8b"));
        check_first(&["whisper-large", "BAAI/bge-m3", "kokoro-TTS", ""], None);
        check_first(&[], None);
    }

    #[track_caller]
    fn check_login(settings: &str, expected: bool) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        assert!(!is_logged_in(&file));
        std::fs::write(&file, settings).unwrap();
        assert_eq!(is_logged_in(&file), expected, "{settings}");
    }

    #[test]
    fn a_login_of_copilot_is_known_by_its_users() {
        check_login(r#"{"logged_in_users": [{"host": "https://github.com", "login": "me"}]}"#, true);
        check_login(r#"{"lastLoggedInUser": {"login": "me"}}"#, true);
        check_login(r#"{"logged_in_users": [], "banner": "never"}"#, false);
        check_login("no settings", false);
    }
}
