//! SearXNG: `GET /search?q=…&format=json` (<https://docs.searxng.org/dev/search_api.html>).

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::{SearchHit, SearchRequest, endpoint};

pub(super) fn question(base: &str, query: &str) -> Result<SearchRequest, String> {
    // People give the address of the instance or that of its search page.
    let base = base.trim_end_matches('/');
    let base = base.strip_suffix("/search").unwrap_or(base);
    Ok(SearchRequest {
        url: endpoint(base, "search", &[("q", query), ("format", "json")])?,
        headers: HeaderMap::new(),
    })
}

pub(super) fn results(mut answer: Value) -> Option<Vec<SearchHit>> {
    let Value::Array(results) = answer.get_mut("results")?.take() else { return None };
    Some(results.into_iter().filter_map(|result| serde_json::from_value(result).ok()).collect())
}
