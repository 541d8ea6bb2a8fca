//! Search services that a configuration names. Their addresses are the user's own choice, so `permissions.net` says nothing
//! of them, and a service on this machine is as good as any.

mod brave;
mod searxng;

use std::time::Duration;

use rawko_core::text::truncate;
use rawko_provider::{Secret, http};
use reqwest::Url;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, HeaderValue, RETRY_AFTER};
use serde::Deserialize;
use serde_json::Value;

use crate::body::{self, BodyLimits};

const CONNECT: Duration = Duration::from_secs(10);
const TOTAL: Duration = Duration::from_secs(30);
const LIMITS: BodyLimits = BodyLimits { received: 2 * 1024 * 1024, decoded: 4 * 1024 * 1024 };
/// The most results of a search.
const MAX_RESULTS: usize = 10;
const MAX_TITLE: usize = 200;
const MAX_URL: usize = 500;
const MAX_WORDS: usize = 500;
const MAX_ERROR: usize = 300;

/// A service that answers `WebSearch`.
#[derive(Debug, Clone)]
pub enum SearchService {
    /// A SearXNG instance (<https://docs.searxng.org/dev/search_api.html>).
    SearXng {
        /// Its address.
        url: String,
    },
    /// Brave's Search API (<https://api-dashboard.search.brave.com/app/documentation/web-search/get-started>).
    Brave {
        /// Its address, if it is not Brave's own.
        url: Option<String>,
        /// The variable that holds the key, for messages.
        variable: String,
        /// The key; `None` if the variable is not set.
        key: Option<Secret>,
    },
}

/// One result of a search.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct SearchHit {
    #[serde(default)]
    pub(crate) title: Option<String>,
    #[serde(default)]
    pub(crate) url: Option<String>,
    /// Words of the page.
    #[serde(default, alias = "content")]
    pub(crate) description: Option<String>,
}

/// A request to a service that searches.
struct SearchRequest {
    url: Url,
    headers: HeaderMap,
}

impl SearchService {
    /// The results of a query, in the service's order.
    ///
    /// # Errors
    /// Why there are none, in words, and what the user can do.
    pub(crate) async fn search(&self, query: &str) -> Result<Vec<SearchHit>, String> {
        let question = match self {
            Self::SearXng { url } => searxng::question(url, query)?,
            Self::Brave { url, variable, key } => {
                brave::question(url.as_deref(), variable, key.as_ref(), query)?
            }
        };
        let host = question.url.host_str().unwrap_or_default().to_owned();
        let answer = tokio::time::timeout(TOTAL, ask(question)).await;
        let (status, retry_after, bytes) = answer
            .map_err(|_| format!("{host} did not answer within {} s", TOTAL.as_secs()))?
            .map_err(|error| format!("{host} could not be asked: {error}"))?;
        if !(200..300).contains(&status) {
            return Err(self.refusal(&host, status, retry_after.as_deref(), &bytes));
        }
        let value: Value = serde_json::from_slice(&bytes)
            .map_err(|_| format!("{host} did not answer with JSON{}", self.hint(status)))?;
        let found = match self {
            Self::SearXng { .. } => searxng::results(value),
            Self::Brave { .. } => brave::results(value),
        };
        let found = found.ok_or_else(|| format!("{host} answered with JSON that has no list of results"))?;
        Ok(found.into_iter().filter_map(SearchHit::cleared).take(MAX_RESULTS).collect())
    }

    fn refusal(&self, host: &str, status: u16, retry_after: Option<&str>, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        let said = match serde_json::from_slice::<Value>(bytes) {
            Ok(value) => ["/error/detail", "/error/message", "/error", "/message"]
                .iter()
                .find_map(|at| value.pointer(at).and_then(Value::as_str).map(str::to_owned)),
            Err(_) => (!text.trim_start().starts_with('<') && !text.trim().is_empty())
                .then(|| text.trim().to_owned()),
        };
        let mut words = format!("{host} answered with status {status}");
        if let Some(said) = said {
            words.push_str(&format!(": {}", truncate(&said, MAX_ERROR)));
        }
        if let Some(after) = retry_after.filter(|_| status == 429) {
            words.push_str(&format!(" (it asks to wait {} s)", truncate(after, 40)));
        }
        words.push_str(&self.hint(status));
        words
    }

    /// What the user can do about an answer with this status.
    fn hint(&self, status: u16) -> String {
        match (self, status) {
            (Self::SearXng { .. }, 200 | 403) => {
                "; the instance has to allow JSON: `json` under `search.formats` of its settings.yml"
                    .to_owned()
            }
            (Self::Brave { variable, .. }, 401 | 403 | 422) => format!("; check the key in {variable}"),
            (_, 300..=399) => "; it redirects: configure the address that it leads to".to_owned(),
            (_, 429) => "; search less often, or later".to_owned(),
            _ => String::new(),
        }
    }
}

/// Status, `Retry-After` and body of what a service answered.
type ServiceResponse = (u16, Option<String>, Vec<u8>);

async fn ask(question: SearchRequest) -> Result<ServiceResponse, String> {
    let client = http::client(&question.url, CONNECT)?;
    let request = client
        .get(question.url)
        .header(ACCEPT, HeaderValue::from_static("application/json"))
        .header(ACCEPT_ENCODING, HeaderValue::from_static(body::ACCEPTED))
        .headers(question.headers);
    // The address holds the query, which a person may not want in every message.
    let response = request.send().await.map_err(|error| http::chain(&error.without_url()))?;
    let status = response.status().as_u16();
    let retry_after =
        response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
    Ok((status, retry_after, body::read(response, LIMITS).await?.bytes))
}

impl SearchHit {
    /// Bounded, in one line each, without markup; `None` if it leads nowhere.
    fn cleared(self) -> Option<Self> {
        let url = Url::parse(self.url.as_deref()?.trim()).ok()?;
        if !matches!(url.scheme(), "http" | "https") || url.as_str().len() > MAX_URL {
            return None;
        }
        let one_line = |text: Option<String>, most| {
            let text = plain(&text.unwrap_or_default());
            Some(truncate(&text.split_whitespace().collect::<Vec<_>>().join(" "), most))
        };
        Some(Self {
            title: one_line(self.title, MAX_TITLE),
            url: Some(url.to_string()),
            description: one_line(self.description, MAX_WORDS),
        })
    }
}

/// The text of a piece of HTML, as services give it in part.
fn plain(text: &str) -> String {
    // A longer text is cut anyway.
    let text = truncate(text, 4 * MAX_WORDS);
    if !text.contains(['<', '&']) {
        return text;
    }
    match crate::html::markdown(&text) {
        Ok(page) => page.text,
        Err(_) => text,
    }
}

/// The address of an endpoint below that of a service.
fn endpoint(base: &str, path: &str, query: &[(&str, &str)]) -> Result<Url, String> {
    let address = format!("{}/{path}", base.trim_end_matches('/'));
    let mut url = Url::parse(&address)
        .map_err(|error| format!("the address of the search service is wrong: {error}"))?;
    url.query_pairs_mut().extend_pairs(query);
    Ok(url)
}
