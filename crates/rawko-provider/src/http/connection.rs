//! The HTTP client: TLS, proxies, connections.
//!
//! Uses HTTP/1.1 over rustls with the operating system's root certificates and the proxies of the environment, without
//! compression or redirects: a key is sent only to the configured host. Nothing is loaded before the first request, and
//! no certificates at all for plain HTTP. What else of rawko speaks HTTP builds on the same.

use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use rustls::client::ClientConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls_platform_verifier::BuilderVerifierExt as _;

/// Identifies rawko to servers.
pub const USER_AGENT: &str = concat!("rawko/", env!("CARGO_PKG_VERSION"));

/// The variables that may name a proxy which is itself reached over TLS.
const PROXY_VARIABLES: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// A client for requests to `url`, through the proxies of the environment.
///
/// # Errors
/// A message, if the certificates of the operating system cannot be used.
pub fn client(url: &Url, connect: Duration) -> Result<Client, String> {
    let tls = if proxy_wants_tls() { verifying_tls()? } else { tls(url)? };
    let mut builder = Client::builder();
    if is_loopback(url) {
        // A proxy cannot reach this machine's loopback, so a local server would be unreachable through one.
        builder = builder.no_proxy();
    }
    builder
        .tls_backend_preconfigured(tls)
        .redirect(Policy::none())
        .tcp_nodelay(true)
        .connect_timeout(connect)
        .pool_max_idle_per_host(4)
        .user_agent(USER_AGENT)
        .build()
        .map_err(|e| chain(&e))
}

/// Posts a JSON document to `url` within `patience`. The answer's body is not read.
///
/// # Errors
/// A message without the address, whose path may be a secret.
pub async fn post_json(url: &str, body: String, patience: Duration) -> Result<(), String> {
    let url = Url::parse(url).map_err(|_| "the address is not valid".to_owned())?;
    let request = client(&url, patience)?
        .post(url)
        .timeout(patience)
        .header(reqwest::header::CONTENT_TYPE, "application/json")
        .body(body);
    let response = request.send().await.map_err(|error| chain(&error.without_url()))?;
    let status = response.status();
    if status.is_success() { Ok(()) } else { Err(format!("the server answered with {status}")) }
}

/// A client that speaks HTTP/2 to `url` and nothing else, as gRPC needs it: at once, or agreed on in the TLS handshake. Proxies of
/// the environment are not used, because many of them do not speak it.
///
/// # Errors
/// A message, if the certificates of the operating system cannot be used.
#[cfg(feature = "http2")]
pub fn http2_client(url: &Url, connect: Duration) -> Result<Client, String> {
    let mut tls = tls(url)?;
    tls.alpn_protocols = vec![b"h2".to_vec()];
    Client::builder()
        .no_proxy()
        .tls_backend_preconfigured(tls)
        .http2_prior_knowledge()
        .redirect(Policy::none())
        .tcp_nodelay(true)
        .connect_timeout(connect)
        .user_agent(USER_AGENT)
        .build()
        .map_err(|e| chain(&e))
}

/// What a connection to `url` itself needs of TLS.
///
/// # Errors
/// A message, if the certificates of the operating system cannot be used.
pub fn tls(url: &Url) -> Result<ClientConfig, String> {
    if url.scheme() == "https" { verifying_tls() } else { unused_tls() }
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|a| a.is_loopback())
}

fn proxy_wants_tls() -> bool {
    PROXY_VARIABLES.iter().any(|name| std::env::var(name).is_ok_and(|v| v.starts_with("https:")))
}

/// A TLS configuration that verifies servers. Created once, because reading the certificates takes milliseconds.
fn verifying_tls() -> Result<ClientConfig, String> {
    static TLS: OnceLock<Result<ClientConfig, String>> = OnceLock::new();
    TLS.get_or_init(|| {
        let config = ClientConfig::builder_with_provider(crypto())
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_platform_verifier())
            .map_err(|e| without_roots(&e, |name| std::env::var(name).ok()))?;
        Ok(config.with_no_client_auth())
    })
    .clone()
}

/// Why there are no root certificates. The variables that name others are the usual cause.
fn without_roots(error: &rustls::Error, env: impl Fn(&str) -> Option<String>) -> String {
    let set = ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().find_map(|name| Some((name, env(name)?)));
    let hint = match set {
        Some((name, value)) => format!("{name} is `{value}`: name certificates in the form PEM, or unset it"),
        None => "install the system's certificates (`ca-certificates`), or name others by SSL_CERT_FILE"
            .to_owned(),
    };
    format!("the root certificates cannot be used: {error}; {hint}")
}

/// A TLS configuration that trusts no server, for clients that use plain HTTP only.
fn unused_tls() -> Result<ClientConfig, String> {
    let config = ClientConfig::builder_with_provider(crypto())
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?;
    Ok(config.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
}

fn crypto() -> Arc<CryptoProvider> {
    static CRYPTO: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(CRYPTO.get_or_init(|| Arc::new(ring::default_provider())))
}

/// An error and its causes in one line, outermost first, without repetitions.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_loopback(url: &str, expected: bool) {
        assert_eq!(is_loopback(&Url::parse(url).expect("a valid address")), expected, "{url}");
    }

    #[test]
    fn this_machine_is_known_by_all_its_names() {
        check_loopback("http://localhost:11434/v1", true);
        check_loopback("http://127.0.0.1/", true);
        check_loopback("http://127.9.9.9/", true);
        check_loopback("http://[::1]:8080/", true);
        check_loopback("https://api.example.com/", false);
        check_loopback("http://localhost.example.com/", false);
        check_loopback("http://192.168.0.2/", false);
    }

    #[test]
    fn a_variable_without_certificates_is_named() {
        let error = rustls::Error::General("none loaded".to_owned());
        let of = |name: &'static str| move |asked: &str| (asked == name).then(|| "/x.pem".to_owned());
        let said = without_roots(&error, of("SSL_CERT_FILE"));
        assert!(said.contains("none loaded; SSL_CERT_FILE is `/x.pem`: name"), "{said}");
        assert!(without_roots(&error, of("SSL_CERT_DIR")).contains("SSL_CERT_DIR is `/x.pem`"));
        assert!(without_roots(&error, |_| None).contains("ca-certificates"));
    }

    #[test]
    fn clients_are_made_for_both_schemes() {
        for url in ["http://127.0.0.1:1/v1", "https://api.example.com/v1"] {
            let url = Url::parse(url).expect("a valid address");
            client(&url, Duration::from_secs(1)).expect("a client");
        }
    }
}
