//! Servers that are reached over HTTP.
//!
//! The client follows no redirect: what a header holds goes to the configured host alone.

use std::collections::HashMap;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use crate::error::McpError;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);

/// A server that is reached over HTTP.
#[derive(Clone)]
pub struct HttpServer {
    /// Its address, e.g. `https://mcp.example.com/mcp`.
    pub url: String,
    /// What is sent with every request. May hold a key.
    pub headers: Vec<(String, String)>,
    /// The client that logs in, where one was registered by hand.
    pub client: Option<Client>,
}

/// A client that was registered with an authorization server.
#[derive(Clone)]
pub struct Client {
    /// Its id.
    pub id: String,
    /// Its secret, if it has one.
    pub secret: Option<String>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("id", &self.id).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpServer").field("url", &self.url).field("headers", &names).finish()
    }
}

impl HttpServer {
    pub(crate) fn config(&self, most: usize) -> Result<StreamableHttpClientTransportConfig, McpError> {
        let mut headers = HashMap::new();
        for (name, value) in &self.headers {
            let bad = || McpError::Address(format!("the header `{name}` cannot be sent"));
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
            value.set_sensitive(true);
            headers.insert(key, value);
        }
        let mut config =
            StreamableHttpClientTransportConfig::with_uri(self.url.as_str()).custom_headers(headers);
        config.max_sse_event_size = most;
        config.max_json_response_size = most;
        Ok(config)
    }

    pub(crate) fn http_client(&self) -> Result<reqwest::Client, McpError> {
        let url =
            Url::parse(&self.url).map_err(|error| McpError::Address(format!("{}: {error}", self.url)))?;
        rawko_provider::http::client(&url, CONNECT).map_err(McpError::Address)
    }
}
