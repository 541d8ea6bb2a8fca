//! Addresses of servers.

use std::net::IpAddr;

/// Checks that `url` is an http or https address without credentials. The error does not contain the address.
pub(super) fn check_url(url: &str) -> Result<(), &'static str> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))
        .ok_or("it should begin with `https://` or `http://`")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("it contains credentials; put the key into a variable, and its name into `apiKeyEnv`");
    }
    if authority.is_empty() || authority.starts_with(':') {
        return Err("the host is missing");
    }
    if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("it contains a space");
    }
    if rest.contains(['?', '#']) {
        return Err("it should end with the path, without `?` and `#`");
    }
    Ok(())
}

/// The host of a valid address, without its port.
pub(super) fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit('@').next().unwrap_or_default();
    match authority.strip_prefix('[') {
        Some(six) => six.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// Whether the address `url` is on this machine.
pub(crate) fn is_loopback_url(url: &str) -> bool {
    is_loopback(host_of(url))
}

/// Whether `host` is this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_address(url: &str, expected: Result<&str, &str>) {
        match expected {
            Ok(host) => {
                assert_eq!(check_url(url), Ok(()), "{url}");
                assert_eq!(host_of(url), host, "{url}");
            }
            Err(part) => {
                assert!(check_url(url).is_err_and(|e| e.contains(part)), "{url}: {:?}", check_url(url));
            }
        }
    }

    #[test]
    fn addresses_are_checked_without_being_shown() {
        check_address("https://api.example.com/v1", Ok("api.example.com"));
        check_address("http://localhost:11434/v1", Ok("localhost"));
        check_address("http://[::1]:8080/v1", Ok("::1"));
        check_address("localhost:8080", Err("begin with"));
        check_address("ftp://host", Err("begin with"));
        check_address("https://", Err("host is missing"));
        check_address("https://:80/", Err("host is missing"));
        check_address("https://user:pass@host/", Err("credentials"));
        check_address("https://host/v 1", Err("a space"));
        check_address("https://host/v1?key=x", Err("end with the path"));
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for host in ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "::1"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["", "localhost.example.com", "10.0.0.1", "0.0.0.0", "128.0.0.1", "2130706433"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
