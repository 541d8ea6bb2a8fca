//! The addresses of a provider's endpoints.

use rawko_core::error::{ErrorCode, ErrorInfo};
use reqwest::Url;

use crate::settings::{ProviderSettings, shown_url};

impl ProviderSettings {
    /// The address of `path` under the base URL.
    ///
    /// # Errors
    /// `config_error` if the base URL is not valid; the message shows it without credentials.
    pub(crate) fn endpoint(&self, path: &str) -> Result<Url, ErrorInfo> {
        let base = self.base_url.trim().trim_end_matches('/');
        let parsed = Url::parse(&format!("{base}/{path}"));
        match parsed {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
            _ => {
                let mut error = ErrorInfo::new(
                    ErrorCode::ConfigError,
                    format!(
                        "provider {}: baseUrl `{}` is not an http or https address; \
                         give it like `https://api.example.com/v1`",
                        self.name,
                        shown_url(&self.base_url)
                    ),
                );
                error.provider = Some(self.name.clone());
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ProviderKind;

    #[track_caller]
    fn check(base: &str, expected: Result<&str, &str>) {
        let settings = ProviderSettings::new("test", ProviderKind::OpenAi, base);
        let found = settings.endpoint("chat/completions").map(|u| u.to_string()).map_err(|e| e.message);
        match expected {
            Ok(url) => assert_eq!(found.as_deref(), Ok(url)),
            Err(part) => assert!(found.as_ref().is_err_and(|e| e.contains(part)), "{found:?} lacks {part}"),
        }
    }

    #[test]
    fn every_preset_has_an_address() {
        for preset in crate::preset::PRESETS {
            assert!(ProviderSettings::from_preset(preset).endpoint("models").is_ok(), "{}", preset.name);
        }
    }

    #[test]
    fn endpoints_follow_the_base_url() {
        check("https://api.openai.com/v1", Ok("https://api.openai.com/v1/chat/completions"));
        check("http://localhost:11434/v1/", Ok("http://localhost:11434/v1/chat/completions"));
        check("api.openai.com/v1", Err("`api.openai.com/v1` is not an http or https address"));
        check("ftp://host/", Err("not an http or https address"));
        check("https://user:hunter2@:bad/", Err("https://[redacted]@"));
        check("", Err("``"));
    }
}
