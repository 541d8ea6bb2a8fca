//! The tools that reach the web. In its place is `without_web.rs` without the feature `web`.

use std::sync::Arc;

use rawko_provider::Secret;
use rawko_tools::Tool;
use rawko_web::{SearchService, WebFetch, WebSearch};

use crate::config::SearchConfig;

/// Pages always, and a search where a service is configured.
pub(crate) fn tools(search: &SearchConfig, variable: impl Fn(&str) -> Option<String>) -> Vec<Arc<dyn Tool>> {
    let fetch: Arc<dyn Tool> = Arc::new(WebFetch::new());
    let search =
        search.service(variable).map(|service| -> Arc<dyn Tool> { Arc::new(WebSearch::new(service)) });
    std::iter::once(fetch).chain(search).collect()
}

impl SearchConfig {
    /// The configured service, with its key from `variable`.
    #[must_use]
    pub fn service(&self, variable: impl Fn(&str) -> Option<String>) -> Option<SearchService> {
        if let Some(url) = &self.searxng {
            return Some(SearchService::SearXng { url: url.clone() });
        }
        let brave = self.brave.as_ref()?;
        let key = variable(&brave.api_key_env).filter(|key| !key.trim().is_empty()).map(Secret::new);
        Some(SearchService::Brave { url: brave.base_url.clone(), variable: brave.api_key_env.clone(), key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_not_there_is_none() {
        let config: SearchConfig = serde_json::from_str(r#"{"brave": {"apiKeyEnv": "K"}}"#).unwrap();
        for (value, has_key) in [(None, false), (Some(" "), false), (Some("k-123"), true)] {
            let service = config.service(|_| value.map(str::to_owned));
            let Some(SearchService::Brave { key, .. }) = service else { panic!("{service:?}") };
            assert_eq!(key.is_some(), has_key, "{value:?}");
        }
        assert!(SearchConfig::default().service(|_| None).is_none());
    }
}
