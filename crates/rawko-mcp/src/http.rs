//! Servers behind an address.
//!
//! The client follows no redirect: what a header holds goes to the configured host alone.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rustls::client::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt as _;

use crate::error::McpError;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);

/// A server behind an address.
#[derive(Clone)]
pub struct HttpServer {
    /// Its address, e.g. `https://mcp.example.com/mcp`.
    pub url: String,
    /// What is sent with every request. May hold a key.
    pub headers: Vec<(String, String)>,
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

    pub(crate) fn client(&self) -> Result<Client, McpError> {
        let url =
            Url::parse(&self.url).map_err(|error| McpError::Address(format!("{}: {error}", self.url)))?;
        client(&url, Policy::none())
    }
}

/// A client for requests to `url`. A proxy cannot reach this machine's loopback.
pub(crate) fn client(url: &Url, redirects: Policy) -> Result<Client, McpError> {
    let mut builder = Client::builder();
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    builder
        .tls_backend_preconfigured(tls()?)
        .redirect(redirects)
        .tcp_nodelay(true)
        .connect_timeout(CONNECT)
        .user_agent(concat!("rawko/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| McpError::Address(crate::error::chain(&error)))
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Created once, because reading the certificates takes milliseconds.
fn tls() -> Result<ClientConfig, McpError> {
    static TLS: OnceLock<Result<ClientConfig, String>> = OnceLock::new();
    TLS.get_or_init(|| {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_platform_verifier())
            .map_err(|error| format!("the system's root certificates cannot be used: {error}"))?;
        Ok(config.with_no_client_auth())
    })
    .clone()
    .map_err(McpError::Address)
}
