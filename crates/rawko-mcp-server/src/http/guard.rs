//! Decides which requests are answered. Every program of this machine reaches the port, and so does every page that a
//! browser shows.
//!
//! - The host must be the server's own address, so that a name which another party's DNS leads here (DNS rebinding) is
//!   refused.
//! - A request of a page from elsewhere is refused by its origin.
//! - Everything needs the token, which is compared in constant time.

use std::net::SocketAddr;

use hyper::header::{AUTHORIZATION, HOST, HeaderValue, ORIGIN};
use hyper::{Request, StatusCode};

use super::token::McpToken;

/// Where the protocol is spoken.
pub(super) const PATH: &str = "/mcp";

/// What a request is checked against.
pub(super) struct HttpGuard {
    hosts: [String; 2],
    origins: [String; 2],
    token: McpToken,
}

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnansweredRequest {
    pub(super) status: StatusCode,
    pub(super) why: &'static str,
}

impl HttpGuard {
    pub(super) fn new(address: SocketAddr, token: McpToken) -> Self {
        let hosts = [address.to_string(), format!("localhost:{}", address.port())];
        let origins = hosts.each_ref().map(|host| format!("http://{host}"));
        Self { hosts, origins, token }
    }

    /// Whether the request may be answered.
    pub(super) fn check<B>(&self, request: &Request<B>) -> Result<(), UnansweredRequest> {
        let refused = |status, why| Err(UnansweredRequest { status, why });
        let headers = request.headers();
        let mut named = headers.get_all(HOST).iter();
        let host = named.next().and_then(|host| host.to_str().ok());
        if named.next().is_some() || !host.is_some_and(|host| self.hosts.iter().any(|own| own == host)) {
            return refused(StatusCode::FORBIDDEN, "this is not the server's host");
        }
        let is_own = |origin: &HeaderValue| {
            origin.to_str().is_ok_and(|origin| self.origins.iter().any(|own| own == origin))
        };
        if !headers.get_all(ORIGIN).iter().all(is_own) {
            return refused(StatusCode::FORBIDDEN, "a page of another origin asks");
        }
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let token = given.next().and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        if given.next().is_some() || !token.is_some_and(|token| self.token.is(token)) {
            return refused(
                StatusCode::UNAUTHORIZED,
                "the token is missing or wrong: send `Authorization: Bearer TOKEN`",
            );
        }
        if request.uri().path() != PATH {
            return refused(StatusCode::NOT_FOUND, "the protocol is spoken at /mcp");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "a-token-of-a-user";

    #[track_caller]
    fn check(path: &str, headers: &[(&str, &str)], expected: u16) {
        let guard = HttpGuard::new("127.0.0.1:7".parse().unwrap(), McpToken::new(TOKEN).unwrap());
        let mut request = Request::builder().method("POST").uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let status = match guard.check(&request.body(()).unwrap()) {
            Ok(()) => 200,
            Err(refused) => refused.status.as_u16(),
        };
        assert_eq!(status, expected, "{path} {headers:?}");
    }

    #[test]
    fn only_this_host_with_the_token_is_answered() {
        let host = ("host", "127.0.0.1:7");
        let token = ("authorization", "Bearer a-token-of-a-user");
        check("/mcp", &[host, token], 200);
        check("/mcp", &[("host", "localhost:7"), token], 200);
        check("/mcp", &[host, token, ("origin", "http://localhost:7")], 200);
        check("/", &[host, token], 404);
        check("/mcp", &[host], 401);
        for wrong in ["", "Bearer", "Bearer ", "Bearer a-token-of-a-use", "bearer a-token-of-a-user", TOKEN] {
            check("/mcp", &[host, ("authorization", wrong)], 401);
        }
        check("/mcp", &[host, token, ("authorization", "Bearer x")], 401);
        check("/mcp?token=a-token-of-a-user", &[host], 401);
        check("/mcp", &[token], 403);
        for wrong in
            ["evil.example", "evil.example:7", "127.0.0.1", "127.0.0.1:8", "127.0.0.1:7.evil.example"]
        {
            check("/mcp", &[("host", wrong), token], 403);
        }
        check("/mcp", &[host, ("host", "evil.example"), token], 403);
        for wrong in ["null", "http://evil.example", "http://127.0.0.1:8", "https://127.0.0.1:7"] {
            check("/mcp", &[host, token, ("origin", wrong)], 403);
        }
    }
}
