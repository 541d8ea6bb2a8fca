//! Well-known servers by name: their addresses, and the variables that hold their keys.

use crate::settings::ProviderKind;

/// The model of `claude` if none is named: Anthropic's balance of speed and ability for agents.
pub const CLAUDE_DEFAULT_MODEL: &str = "claude-sonnet-5-5";

/// The model of `openai` and `responses` if none is named.
const OPENAI_DEFAULT_MODEL: &str = "gpt-5.6-terra";

/// A known server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// The name to configure it by.
    pub name: &'static str,
    /// The wire format it speaks.
    pub kind: ProviderKind,
    /// Its address.
    pub base_url: &'static str,
    /// The environment variable that holds its key; `None` if it needs none.
    pub key_env: Option<&'static str>,
    /// A model that it serves to everyone; `None` if that depends on what is installed or paid for.
    pub default_model: Option<&'static str>,
    /// Whether it runs on the user's own machine.
    pub local: bool,
    /// Whether it forces a tool by its name ([`ProviderSettings::forces_by_name`]).
    ///
    /// [`ProviderSettings::forces_by_name`]: crate::settings::ProviderSettings::forces_by_name
    pub forces_by_name: bool,
}

/// The preset called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

const fn hosted(
    name: &'static str,
    base_url: &'static str,
    key_env: &'static str,
    default_model: Option<&'static str>,
) -> Preset {
    Preset {
        name,
        kind: ProviderKind::OpenAi,
        base_url,
        key_env: Some(key_env),
        default_model,
        local: false,
        forces_by_name: true,
    }
}

const fn local(name: &'static str, base_url: &'static str) -> Preset {
    Preset {
        name,
        kind: ProviderKind::OpenAi,
        base_url,
        key_env: None,
        default_model: None,
        local: true,
        forces_by_name: true,
    }
}

/// llama.cpp ignores a tool choice that is not a word, and LM Studio refuses it.
const fn local_with_words(name: &'static str, base_url: &'static str) -> Preset {
    Preset { forces_by_name: false, ..local(name, base_url) }
}

/// All presets. If the user has chosen none, rawko takes the first that can be used: keys in this order, then local
/// servers.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "claude",
        kind: ProviderKind::Claude,
        base_url: "https://api.anthropic.com",
        key_env: Some("ANTHROPIC_API_KEY"),
        default_model: Some(CLAUDE_DEFAULT_MODEL),
        local: false,
        forces_by_name: true,
    },
    hosted("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", Some(OPENAI_DEFAULT_MODEL)),
    Preset {
        name: "responses",
        kind: ProviderKind::Responses,
        base_url: "https://api.openai.com/v1",
        key_env: Some("OPENAI_API_KEY"),
        default_model: Some(OPENAI_DEFAULT_MODEL),
        local: false,
        forces_by_name: true,
    },
    hosted("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", Some("openrouter/auto")),
    hosted("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", None),
    hosted("gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY", None),
    hosted("deepseek", "https://api.deepseek.com", "DEEPSEEK_API_KEY", None),
    hosted("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", Some("mistral-large-latest")),
    hosted("xai", "https://api.x.ai/v1", "XAI_API_KEY", None),
    hosted("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY", None),
    hosted("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", None),
    hosted("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", None),
    local("ollama", "http://localhost:11434/v1"),
    local_with_words("llamacpp", "http://localhost:8080/v1"),
    local_with_words("lmstudio", "http://localhost:1234/v1"),
    local("vllm", "http://localhost:8000/v1"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ProviderSettings, Timeouts};

    #[test]
    fn every_preset_makes_settings_that_work() {
        for preset in PRESETS {
            let settings = ProviderSettings::preset(preset.name).expect("found by its own name");
            let scheme = if preset.local { "http://" } else { "https://" };
            assert!(settings.base_url.starts_with(scheme), "{}", preset.name);
            assert_eq!(preset.key_env.is_none(), preset.local, "{}", preset.name);
            assert_eq!(settings.timeouts == Timeouts::local(), preset.local);
            assert_eq!(find(preset.name), Some(preset), "names are unique");
        }
        assert_eq!(find("unknown"), None);
    }
}
