//! `web:` — how agents search the web. Which pages they may read is `permissions.net`.

use rawko_core::hosted::HostedSearch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::address::check_url;
use super::claim::{ClaimKind, Claims};
use super::diagnostic::whole;

/// `web:`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct WebConfig {
    /// Who searches: a service of yours, else the provider of the model where it has a search. Otherwise there is no
    /// `WebSearch`.
    #[serde(skip_serializing_if = "SearchConfig::is_none")]
    pub search: SearchConfig,
}

/// `web.search:` — one service, or how providers search.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SearchConfig {
    /// Address of a SearXNG instance that answers in JSON, e.g. `http://localhost:8888`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub searxng: Option<String>,
    /// Brave's Search API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brave: Option<BraveConfig>,
    /// The provider's own search, which is used where no service is configured.
    #[serde(skip_serializing_if = "ProviderSearchConfig::is_default")]
    pub provider: ProviderSearchConfig,
}

/// `web.search.provider:`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ProviderSearchConfig {
    /// Whether it is offered at all.
    pub enabled: bool,
    /// Most searches in one turn of a model.
    #[schemars(range(min = 1, max = 100))]
    pub max_uses: u32,
    /// Only results of these domains, e.g. `docs.rs`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_domains: Vec<String>,
    /// No results of these domains. Not together with `allowedDomains`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked_domains: Vec<String>,
}

impl Default for ProviderSearchConfig {
    fn default() -> Self {
        Self { enabled: true, max_uses: 5, allowed_domains: Vec::new(), blocked_domains: Vec::new() }
    }
}

impl ProviderSearchConfig {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// `web.search.brave:`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BraveConfig {
    /// Name of the environment variable that holds the key. Never write the key itself into a file.
    #[schemars(regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub api_key_env: String,
    /// Another address than Brave's own, without the path of the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
}

impl WebConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl SearchConfig {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The provider's own search; `None` if it is off, or if a service is configured, which is asked instead.
    #[must_use]
    pub fn hosted(&self) -> Option<HostedSearch> {
        let ProviderSearchConfig { enabled, max_uses, allowed_domains, blocked_domains } = &self.provider;
        let is_used = *enabled && !self.has_service();
        is_used.then(|| HostedSearch {
            max_uses: *max_uses,
            allowed_domains: allowed_domains.clone(),
            blocked_domains: blocked_domains.clone(),
        })
    }

    /// Whether a service is configured.
    pub(crate) fn has_service(&self) -> bool {
        self.searxng.is_some() || self.brave.is_some()
    }

    /// What is wrong with it: pointer, message and help.
    pub(super) fn faults(&self) -> Vec<(&'static str, String, &'static str)> {
        let mut faults = Vec::new();
        if self.searxng.is_some() && self.brave.is_some() {
            faults.push((
                "/web/search",
                "there are two search services".to_owned(),
                "keep one of `searxng` and `brave`",
            ));
        }
        let ProviderSearchConfig { allowed_domains, blocked_domains, .. } = &self.provider;
        if !allowed_domains.is_empty() && !blocked_domains.is_empty() {
            faults.push((
                "/web/search/provider",
                "providers take either a list of allowed domains or one of blocked domains".to_owned(),
                "keep one of `allowedDomains` and `blockedDomains`",
            ));
        }
        for (pointer, domains) in [
            ("/web/search/provider/allowedDomains", allowed_domains),
            ("/web/search/provider/blockedDomains", blocked_domains),
        ] {
            let is_wrong = |domain: &&String| {
                let is_allowed =
                    |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '/' | '_' | '*');
                !domain.contains('.') || domain.contains("//") || !domain.chars().all(is_allowed)
            };
            if let Some(domain) = domains.iter().find(is_wrong) {
                let message = format!("`{}` is not a domain", whole(domain));
                faults.push((pointer, message, "write it like `docs.rs`, without `https://`"));
            }
        }
        let brave = self.brave.as_ref().and_then(|brave| brave.base_url.as_deref());
        for (pointer, url) in
            [("/web/search/searxng", self.searxng.as_deref()), ("/web/search/brave/baseUrl", brave)]
        {
            if let Some(Err(wants)) = url.map(check_url) {
                faults.push((
                    pointer,
                    format!("this is not a valid address: {wants}"),
                    "write it like `https://search.example.com`",
                ));
            }
        }
        faults
    }
}

impl Claims<'_> {
    /// Queries say what agents work on, and results steer them, regardless of which service answers.
    pub(super) fn web(&mut self, config: &WebConfig) {
        let search = &config.search;
        let ProviderSearchConfig { enabled: _, max_uses: _, allowed_domains, blocked_domains } =
            &search.provider;
        for (key, domains, which) in
            [("allowedDomains", allowed_domains, "only"), ("blockedDomains", blocked_domains, "no")]
        {
            if !domains.is_empty() {
                let message =
                    format!("web searches would give {which} results of {}", whole(&domains.join(", ")));
                self.add(ClaimKind::Server, &format!("/web/search/provider/{key}"), message);
            }
        }
        if let Some(url) = &search.searxng {
            let message = format!("agents would search the web by {}", whole(url));
            self.add(ClaimKind::Server, "/web/search/searxng", message);
        }
        if let Some(brave) = &search.brave {
            let key = &brave.api_key_env;
            let to = brave.base_url.as_deref().unwrap_or("Brave's Search API");
            let message = format!("searches would send {key} as the key of {}", whole(to));
            self.add(ClaimKind::Key, "/web/search/brave/apiKeyEnv", message.clone());
            self.add(ClaimKind::Server, "/web/search/brave/baseUrl", message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(yaml: &str, expected: &[&str]) {
        let config: SearchConfig = serde_json::from_str(yaml).unwrap();
        let faults: Vec<String> =
            config.faults().into_iter().map(|(at, message, _)| format!("{at}: {message}")).collect();
        assert_eq!(faults, expected, "{yaml}");
    }

    #[test]
    fn addresses_are_checked_and_there_is_one_service() {
        check(r#"{"searxng": "http://localhost:8888"}"#, &[]);
        check(r#"{"brave": {"apiKeyEnv": "BRAVE_API_KEY"}}"#, &[]);
        check(
            r#"{"searxng": "http://a", "brave": {"apiKeyEnv": "K"}}"#,
            &["/web/search: there are two search services"],
        );
        check(
            r#"{"searxng": "localhost:8888"}"#,
            &[
                "/web/search/searxng: this is not a valid address: it should begin with `https://` or `http://`",
            ],
        );
        check(
            r#"{"brave": {"apiKeyEnv": "K", "baseUrl": "http://a b"}}"#,
            &["/web/search/brave/baseUrl: this is not a valid address: it contains a space"],
        );
    }

    #[test]
    fn the_providers_search_steps_back_for_a_service_and_takes_one_list_of_domains() {
        let hosted = |yaml: &str| serde_json::from_str::<SearchConfig>(yaml).unwrap().hosted();
        assert_eq!(hosted("{}").map(|search| search.max_uses), Some(5));
        assert_eq!(hosted(r#"{"provider": {"enabled": false}}"#), None);
        assert_eq!(hosted(r#"{"searxng": "http://a"}"#), None);
        let found = hosted(r#"{"provider": {"maxUses": 2, "allowedDomains": ["docs.rs"]}}"#).unwrap();
        assert_eq!((found.max_uses, found.allowed_domains), (2, vec!["docs.rs".to_owned()]));
        check(
            r#"{"provider": {"allowedDomains": ["a.b"], "blockedDomains": ["https://c.d"]}}"#,
            &[
                "/web/search/provider: providers take either a list of allowed domains or one of blocked domains",
                "/web/search/provider/blockedDomains: `https://c.d` is not a domain",
            ],
        );
    }
}
