//! What a request to the proxy asks for. What different programs read differently is refused, and not guessed at.

use std::io::{self, BufRead, Read as _, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The longest line between the chunks of a body, and the most bytes of all lines after the last chunk.
const MAX_CHUNK_LINE: u64 = 4 * 1024;
const MAX_TRAILERS: u64 = 64 * 1024;

/// Where a request wants to go, and what is sent there.
#[derive(Debug)]
pub(super) struct Request {
    /// A name in lower case without a last dot, or an address as the standard library writes it.
    pub(super) host: String,
    pub(super) port: u16,
    /// What is sent there; `None` for a tunnel.
    pub(super) plain: Option<PlainRequest>,
}

/// A request that is no tunnel.
#[derive(Debug)]
pub(super) struct PlainRequest {
    /// The head, rewritten for the server.
    pub(super) head: Vec<u8>,
    pub(super) body: BodyFraming,
}

/// What belongs to a request after its head. Nothing more is sent: the next request might be for another host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFraming {
    Length(u64),
    Chunked,
}

impl Request {
    /// Parses `CONNECT host:port` or `METHOD http://host[:port]/path`.
    pub(super) fn parse(head: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(head).ok()?.strip_suffix("\r\n\r\n")?;
        // A line break that is only half of one ends a line for some servers and not for others.
        let mut lines = text.split("\r\n");
        if text.split("\r\n").any(|line| line.contains(['\r', '\n', '\0'])) {
            return None;
        }
        let words: Vec<&str> = lines.next()?.split(' ').collect();
        let [method, address, version] = words.as_slice() else { return None };
        if !is_token(method) || !matches!(*version, "HTTP/1.0" | "HTTP/1.1") {
            return None;
        }
        if *method == "CONNECT" {
            let (host, port) = split(address, None)?;
            return Some(Self { host, port, plain: None });
        }
        let (authority, path) = match address.strip_prefix("http://")?.split_once('/') {
            Some((authority, path)) => (authority, format!("/{path}")),
            None => (address.strip_prefix("http://")?, "/".to_owned()),
        };
        let (host, port) = split(authority, Some(80))?;
        // The server gets the host that was judged, and is to end after this request.
        let mut head = format!("{method} {path} {version}\r\nHost: {authority}\r\n");
        let (mut length, mut is_chunked) = (None, false);
        for line in lines {
            let (name, value) = line.split_once(':')?;
            if !is_token(name) {
                return None;
            }
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "connection"
                | "host"
                | "keep-alive"
                | "proxy-authorization"
                | "proxy-connection"
                | "upgrade" => {
                    continue;
                }
                "content-length" if length.is_none() && is_digits(value) => {
                    length = Some(value.parse().ok()?);
                }
                "transfer-encoding" if !is_chunked && value.eq_ignore_ascii_case("chunked") => {
                    is_chunked = true;
                }
                "content-length" | "transfer-encoding" => return None,
                _ => {}
            }
            head.push_str(line);
            head.push_str("\r\n");
        }
        head.push_str("Connection: close\r\n\r\n");
        let body = match (length, is_chunked) {
            (Some(_), true) => return None,
            (None, true) => BodyFraming::Chunked,
            (length, false) => BodyFraming::Length(length.unwrap_or(0)),
        };
        Some(Self { host, port, plain: Some(PlainRequest { head: head.into_bytes(), body }) })
    }
}

impl BodyFraming {
    /// Copies the body, and nothing that comes after it.
    pub(super) fn copy(self, from: &mut impl BufRead, to: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Length(length) => io::copy(&mut from.take(length), to).map(drop),
            Self::Chunked => copy_chunks(from, to),
        }
    }
}

fn copy_chunks(from: &mut impl BufRead, to: &mut impl Write) -> io::Result<()> {
    loop {
        let line = read_line(from, MAX_CHUNK_LINE)?;
        let size = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let digits =
            std::str::from_utf8(size).ok().filter(|digits| digits.chars().all(|c| c.is_ascii_hexdigit()));
        let size = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let size = size.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        to.write_all(&line)?;
        if size == 0 {
            break;
        }
        io::copy(&mut from.take(size.saturating_add(2)), to)?;
    }
    let mut left = MAX_TRAILERS;
    loop {
        let line = read_line(from, left)?;
        to.write_all(&line)?;
        if line == b"\r\n" {
            return Ok(());
        }
        left = left.saturating_sub(line.len() as u64);
    }
}

fn read_line(from: &mut impl BufRead, most: u64) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    from.take(most).read_until(b'\n', &mut line)?;
    if line.ends_with(b"\r\n") { Ok(line) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// The host and the port of an authority.
fn split(authority: &str, default: Option<u16>) -> Option<(String, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']')?;
            let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) };
            (address.parse::<Ipv6Addr>().ok()?.to_canonical().to_string(), port)
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (name_of(host)?, Some(port)),
            None => (name_of(authority)?, None),
        },
    };
    let port = match port {
        Some(port) if is_digits(port) => port.parse().ok()?,
        Some(_) => return None,
        None => default?,
    };
    Some((host, port))
}

/// A name in lower case without a last dot, or an address of version 4 in its usual form. Other forms (`0x7f000001`,
/// `127.1`, `017700000001`) are names to this proxy and addresses to the system.
fn name_of(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    if name.len() > 253 || !name.split('.').all(is_label) {
        return None;
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    let hex = last.strip_prefix("0x").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_hexdigit()));
    if hex || is_digits(last) { Some(name.parse::<Ipv4Addr>().ok()?.to_string()) } else { Some(name) }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_token(text: &str) -> bool {
    let is_mark = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_mark(byte))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[track_caller]
    fn check(head: &str, expected: Option<(&str, u16)>) {
        let request = Request::parse(head.as_bytes());
        let found = request.as_ref().map(|request| (request.host.as_str(), request.port));
        assert_eq!(found, expected, "{head:?}");
    }

    #[test]
    fn a_host_has_one_spelling() {
        let connect = |authority: &str, host| check(&format!("CONNECT {authority} HTTP/1.1\r\n\r\n"), host);
        connect("Example.COM:443", Some(("example.com", 443)));
        connect("example.com.:443", Some(("example.com", 443)));
        connect("1.2.3.4:80", Some(("1.2.3.4", 80)));
        connect("[::1]:80", Some(("::1", 80)));
        connect("[0:0::0:1]:80", Some(("::1", 80)));
        connect("[::ffff:127.0.0.1]:80", Some(("127.0.0.1", 80)));
        connect("[::ffff:7f00:1]:80", Some(("127.0.0.1", 80)));
        for spelling in [
            "2130706433:80",
            "0x7f000001:80",
            "0X7F.1:80",
            "0177.0.0.1:80",
            "127.1:80",
            "127.0.0.01:80",
            "1.2.3.4.5:80",
            "127.0.0.0x1:80",
            "[fe80::1%eth0]:80",
            "[fe80::1%25eth0]:80",
            "[::1:80",
            "[::1]80",
            "[1.2.3.4]:80",
            "::1:80",
            "example.com",
            "example.com:",
            "example.com:+443",
            "example.com:443:443",
            "example.com:99999",
            "example.com..:443",
            ".example.com:443",
            ":443",
            "user@example.com:443",
            "user:pass@example.com:443",
            "exämple.com:443",
            "example.com%2eevil.com:443",
            "example.com\\evil.com:443",
            "example.com/evil.com:443",
        ] {
            connect(spelling, None);
        }
        connect(&format!("{}.com:443", "a".repeat(64)), None);
        connect(&format!("{}com:443", "a.".repeat(200)), None);
        check("GET http://example.com HTTP/1.1\r\n\r\n", Some(("example.com", 80)));
        check("GET http://example.com:8080/a HTTP/1.0\r\n\r\n", Some(("example.com", 8080)));
        check("GET http://granted.com@evil.com/ HTTP/1.1\r\n\r\n", None);
        check("GET http://granted.com?@evil.com/ HTTP/1.1\r\n\r\n", None);
        check("GET http://granted.com#@evil.com/ HTTP/1.1\r\n\r\n", None);
        check("GET //evil.com/ HTTP/1.1\r\n\r\n", None);
        check("GET https://evil.com/ HTTP/1.1\r\n\r\n", None);
    }

    #[test]
    fn a_request_that_servers_read_differently_is_refused() {
        for head in [
            "GET http://a.com/ HTTP/1.1\r\nX: y\rHost: evil.com\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nX: y\nHost: evil.com\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nHost:\r\n evil.com\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nHost : evil.com\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nnot a field\r\n\r\n",
            "GET http://a.com/ HTTP/1.1 HTTP/1.1\r\n\r\n",
            "GET http://a.com/ HTTP/2\r\n\r\n",
            "GET\thttp://a.com/ HTTP/1.1\r\n\r\n",
            "POST http://a.com/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 9\r\n\r\n",
            "POST http://a.com/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
            "POST http://a.com/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST http://a.com/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        ] {
            check(head, None);
        }
    }

    #[track_caller]
    fn check_body(body: BodyFraming, bytes: &str, copied: Option<&str>) {
        let mut to = Vec::new();
        let result = body.copy(&mut bytes.as_bytes(), &mut to);
        match copied {
            Some(copied) => assert_eq!(String::from_utf8(to).unwrap(), copied),
            None => assert!(result.is_err(), "{bytes:?}"),
        }
    }

    #[test]
    fn a_body_ends_where_it_says() {
        check_body(BodyFraming::Length(3), "abcGET", Some("abc"));
        check_body(BodyFraming::Length(0), "GET", Some(""));
        let chunks = "3\r\nabc\r\n1;x=y\r\nd\r\n0\r\nT: v\r\n\r\n";
        check_body(BodyFraming::Chunked, &format!("{chunks}GET"), Some(chunks));
        check_body(BodyFraming::Chunked, "+3\r\nabc\r\n0\r\n\r\n", None);
        check_body(BodyFraming::Chunked, "3\nabc\r\n0\r\n\r\n", None);
        check_body(BodyFraming::Chunked, "zz\r\n", None);
        check_body(BodyFraming::Chunked, &format!("0\r\n{}", "a: b\r\n".repeat(100_000)), None);
    }
}
