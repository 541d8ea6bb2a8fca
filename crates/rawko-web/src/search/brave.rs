//! Brave's Search API: `GET /res/v1/web/search?q=…`, the key in `X-Subscription-Token`
//! (<https://api-dashboard.search.brave.com/app/documentation/web-search/get-started>).

use rawko_provider::Secret;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::{MAX_RESULTS, SearchHit, SearchRequest, endpoint};

const ADDRESS: &str = "https://api.search.brave.com";
/// The most characters and words of a query that the service takes.
const MAX_QUERY: (usize, usize) = (400, 50);

pub(super) fn question(
    base: Option<&str>,
    variable: &str,
    key: Option<&Secret>,
    query: &str,
) -> Result<SearchRequest, String> {
    let (characters, words) = MAX_QUERY;
    if query.chars().count() > characters || query.split_whitespace().count() > words {
        return Err(format!(
            "the service takes queries of at most {characters} characters and {words} words"
        ));
    }
    let key = key.ok_or_else(|| {
        format!(
            "the variable {variable}, which web.search.brave.apiKeyEnv names, is not set; the user can set it"
        )
    })?;
    let key = key
        .as_header()
        .ok_or_else(|| format!("the key in {variable} has characters that no header can hold"))?;
    let mut headers = HeaderMap::new();
    headers.insert("x-subscription-token", key);
    let count = MAX_RESULTS.to_string();
    let parameters = [("q", query), ("count", count.as_str()), ("text_decorations", "false")];
    Ok(SearchRequest { url: endpoint(base.unwrap_or(ADDRESS), "res/v1/web/search", &parameters)?, headers })
}

/// An answer without `web` found nothing.
pub(super) fn results(mut answer: Value) -> Option<Vec<SearchHit>> {
    let is_answer = answer.get("type").is_some() || answer.get("query").is_some();
    let Some(results) = answer.pointer_mut("/web/results") else { return is_answer.then(Vec::new) };
    let Value::Array(results) = results.take() else { return None };
    Some(results.into_iter().filter_map(|result| serde_json::from_value(result).ok()).collect())
}
