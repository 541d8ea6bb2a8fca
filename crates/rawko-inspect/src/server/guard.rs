//! Decides which requests are answered. Other programs of this machine reach the port, and so does every page that a
//! browser shows.
//!
//! - The host must be this server's own address. So a name that another party's DNS leads here (DNS rebinding) is
//!   refused.
//! - A request that another page makes is refused, by its origin and by what the browser says of it.
//! - Data needs the token in a header, which no link, form or picture of another page can send. There is no cookie:
//!   browsers send the cookies of a host to all of its ports, whatever listens there.

use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, StatusCode};
use subtle::ConstantTimeEq as _;

/// Everything from this server alone, and nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Below this, the token is needed.
pub(super) const DATA: &str = "/api/";

/// What a request is checked against.
pub(super) struct RequestGuard {
    hosts: [String; 2],
    origins: [String; 2],
    token: String,
}

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RejectedRequest {
    pub(super) status: StatusCode,
    pub(super) why: &'static str,
}

impl RequestGuard {
    pub(super) fn new(port: u16, token: String) -> Self {
        let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        let origins = hosts.each_ref().map(|host| format!("http://{host}"));
        Self { hosts, origins, token }
    }

    /// Whether the request may be answered.
    pub(super) fn check<B>(&self, request: &Request<B>) -> Result<(), RejectedRequest> {
        let refused = |status, why| Err(RejectedRequest { status, why });
        let headers = request.headers();
        if request.method() != Method::GET {
            return refused(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered");
        }
        let mut named = headers.get_all(HOST).iter();
        let host = named.next().and_then(|host| host.to_str().ok());
        if named.next().is_some() || !host.is_some_and(|host| self.hosts.iter().any(|own| own == host)) {
            return refused(StatusCode::FORBIDDEN, "this is not the server's host");
        }
        let is_own = |origin: &HeaderValue| {
            origin.to_str().is_ok_and(|origin| self.origins.iter().any(|own| own == origin))
        };
        if !headers.get_all(ORIGIN).iter().all(is_own) {
            return refused(StatusCode::FORBIDDEN, "another origin asks");
        }
        if !is_for_data(request) {
            return Ok(());
        }
        let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        if !matches!(site, None | Some(b"same-origin" | b"none")) {
            return refused(StatusCode::FORBIDDEN, "another site asks");
        }
        let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
        let given = given.strip_prefix(b"Bearer ").unwrap_or_default();
        if !bool::from(given.ct_eq(self.token.as_bytes())) {
            return refused(StatusCode::UNAUTHORIZED, "the token is missing or wrong");
        }
        Ok(())
    }
}

/// Whether a request is for what only the token gives.
pub(super) fn is_for_data<B>(request: &Request<B>) -> bool {
    request.uri().path().starts_with(DATA)
}

/// What every answer says, refusals included.
pub(super) fn protect(headers: &mut HeaderMap) {
    let opener = HeaderName::from_static("cross-origin-opener-policy");
    let resource = HeaderName::from_static("cross-origin-resource-policy");
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (opener, "same-origin"),
        (resource, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &str, path: &str, headers: &[(&str, &str)], expected: u16) {
        let guard = RequestGuard::new(7, "secret".into());
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let status = match guard.check(&request.body(()).unwrap()) {
            Ok(()) => 200,
            Err(refused) => refused.status.as_u16(),
        };
        assert_eq!(status, expected, "{method} {path} {headers:?}");
    }

    #[test]
    fn only_the_page_with_the_token_gets_data() {
        let host = ("host", "127.0.0.1:7");
        let token = ("authorization", "Bearer secret");
        check("GET", "/", &[host], 200);
        check("GET", "/", &[("host", "localhost:7")], 200);
        check("GET", "/api/sessions", &[host, token], 200);
        check("GET", "/api/sessions", &[host, token, ("origin", "http://127.0.0.1:7")], 200);
        check("GET", "/api/sessions", &[host, token, ("sec-fetch-site", "same-origin")], 200);

        for wrong in ["", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets", "Bearer SECRET", "secret"] {
            check("GET", "/api/sessions", &[host, ("authorization", wrong)], 401);
        }
        check("GET", "/api/sessions", &[host], 401);
        check("GET", "/api/sessions?token=secret", &[host, ("cookie", "token=secret")], 401);
        for method in ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"] {
            check(method, "/", &[host, token], 405);
        }
        for wrong in
            ["evil.example", "evil.example:7", "127.0.0.1", "127.0.0.1:8", "127.0.0.1:7.evil.example"]
        {
            check("GET", "/", &[("host", wrong), token], 403);
        }
        check("GET", "/", &[token], 403);
        check("GET", "/", &[host, ("host", "evil.example")], 403);
        for wrong in ["null", "http://evil.example", "http://127.0.0.1:8", "https://127.0.0.1:7"] {
            check("GET", "/", &[host, token, ("origin", wrong)], 403);
        }
        for wrong in ["cross-site", "same-site"] {
            check("GET", "/api/sessions", &[host, token, ("sec-fetch-site", wrong)], 403);
        }
    }
}
