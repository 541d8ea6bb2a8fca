//! What an address names: one host in one spelling.
//!
//! Addresses are parsed as browsers do (<https://url.spec.whatwg.org>), which turns every spelling of an address of
//! version 4 (decimal, hexadecimal, octal, short, in other digits) into the usual one. What other programs would read
//! differently is refused, and not guessed at.

use std::fmt;
use std::net::IpAddr;

use reqwest::Url;

/// The longest address.
const MAX_BYTES: usize = 8_000;

/// An address that may be asked for, if its host is granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WebAddress {
    /// The address as it is sent, without a fragment.
    pub(crate) url: Url,
    /// The host as `permissions.net` names it: a name in lower case without a last dot, or an address.
    pub(crate) host: String,
    /// The host, if it is an address.
    pub(crate) ip: Option<IpAddr>,
    pub(crate) port: u16,
}

/// Why an address is refused, whatever is granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TargetError {
    TooLong,
    Unclear(&'static str),
    Scheme(String),
    Account,
    Invalid(String),
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "it has more than {MAX_BYTES} bytes"),
            Self::Unclear(what) => {
                write!(f, "it has {what}, which not all programs read alike; encode it as in `%20`")
            }
            Self::Scheme(scheme) => write!(f, "`{scheme}:` is not fetched; use `https://` or `http://`"),
            Self::Account => f.write_str(
                "it has a user name or a password, and rawko sends none; leave out what is before the `@`",
            ),
            Self::Invalid(why) => {
                write!(f, "it is not valid ({why}); write it as in `https://docs.rs/regex`")
            }
        }
    }
}

impl WebAddress {
    /// Parses an address that was written down.
    pub(crate) fn parse(text: &str) -> Result<Self, TargetError> {
        let text = text.trim_matches(' ');
        clear(text)?;
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(TargetError::Invalid("it has no `https://`".to_owned()));
        };
        if !is_scheme(scheme) {
            return Err(TargetError::Scheme(rawko_core::text::truncate(scheme, 40)));
        }
        // Browsers add or leave out slashes here; others take the host for a path.
        let Some(rest) = rest.strip_prefix("//").filter(|rest| !rest.starts_with('/')) else {
            return Err(TargetError::Invalid("two slashes belong after the scheme".to_owned()));
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        // The parser drops an account that is empty.
        if authority.contains('@') {
            return Err(TargetError::Account);
        }
        Self::of(Url::parse(text).map_err(|error| TargetError::Invalid(error.to_string()))?)
    }

    /// Where a redirect from here leads.
    pub(crate) fn join(&self, location: &str) -> Result<Self, TargetError> {
        clear(location)?;
        Self::of(self.url.join(location).map_err(|error| TargetError::Invalid(error.to_string()))?)
    }

    fn of(mut url: Url) -> Result<Self, TargetError> {
        if !is_scheme(url.scheme()) {
            return Err(TargetError::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(TargetError::Account);
        }
        url.set_fragment(None);
        let written = url.host_str().unwrap_or_default().to_owned();
        let ip = written.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
        let host = match ip {
            Some(ip) => ip.to_canonical().to_string(),
            None => written.strip_suffix('.').unwrap_or(&written).to_ascii_lowercase(),
        };
        if host.is_empty() || host.split('.').any(str::is_empty) {
            return Err(TargetError::Invalid("the host has an empty part".to_owned()));
        }
        if ip.is_none() && written != host {
            // The last dot would be sent as a part of the name, and no certificate has it.
            url.set_host(Some(&host)).map_err(|error| TargetError::Invalid(error.to_string()))?;
        }
        let port = url.port_or_known_default().unwrap_or_default();
        if port == 0 {
            return Err(TargetError::Invalid("nothing listens at port 0".to_owned()));
        }
        Ok(Self { url, host, ip: ip.map(|ip| ip.to_canonical()), port })
    }
}

fn is_scheme(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http")
}

fn clear(text: &str) -> Result<(), TargetError> {
    if text.len() > MAX_BYTES {
        return Err(TargetError::TooLong);
    }
    match text.chars().find(|c| c.is_control() || c.is_whitespace() || *c == '\\') {
        Some('\\') => Err(TargetError::Unclear("a backslash")),
        Some(c) if c.is_control() => Err(TargetError::Unclear("a control character")),
        Some(_) => Err(TargetError::Unclear("a space")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, host: &str) {
        assert_eq!(WebAddress::parse(text).map(|target| target.host), Ok(host.to_owned()), "{text}");
    }

    #[test]
    fn a_host_has_one_spelling() {
        check("https://Docs.RS/regex", "docs.rs");
        check("https://docs.rs.:443/x#y", "docs.rs");
        check("http://bücher.example/", "xn--bcher-kva.example");
        check("http://0x7f.1/", "127.0.0.1");
        check("http://[::FFFF:10.0.0.1]/", "10.0.0.1");
        check("http://[0:0::1]:8080/", "::1");
        assert_eq!(WebAddress::parse("https://a.com/x#y").unwrap().url.as_str(), "https://a.com/x");
    }

    #[track_caller]
    fn check_refused(text: &str, words: &str) {
        let error = WebAddress::parse(text).expect_err(text).to_string();
        assert!(error.contains(words), "{text}: {error}");
    }

    #[test]
    fn an_unclear_address_is_refused_with_the_reason() {
        check_refused("file:///etc/passwd", "`file:` is not fetched");
        check_refused("docs.rs", "no `https://`");
        check_refused("http:/docs.rs", "two slashes");
        check_refused("http:///docs.rs", "two slashes");
        check_refused("http://a@b.com/", "user name");
        check_refused("http://@b.com/", "user name");
        check_refused("http://a.com\\@b.com/", "a backslash");
        check_refused("http://a\t.com/", "a control character");
        check_refused("http://a.com/a b", "a space");
        check_refused("http://a..com/", "empty part");
        check_refused("http://a.com:0/", "port 0");
        check_refused(&format!("http://a.com/{}", "x".repeat(9_000)), "more than 8000 bytes");
    }

    #[test]
    fn a_redirect_is_read_from_where_it_came() {
        let from = WebAddress::parse("https://a.com/x/y").unwrap();
        let joined = |location: &str| from.join(location).map(|target| target.url.to_string());
        assert_eq!(joined("z").unwrap(), "https://a.com/x/z");
        assert_eq!(joined("//b.com").unwrap(), "https://b.com/");
        assert_eq!(joined("//u:p@b.com"), Err(TargetError::Account));
        assert!(matches!(joined("gopher://a.com"), Err(TargetError::Scheme(_))));
        assert!(matches!(joined("http:\\\\a.com"), Err(TargetError::Unclear(_))));
    }

    /// A part of an address of version 4 in one of the bases that are read.
    fn part(value: u32, base: u8) -> String {
        match base % 4 {
            0 => value.to_string(),
            1 => format!("0x{value:x}"),
            2 => format!("0X{value:08X}"),
            _ => format!("0{value:o}"),
        }
    }

    proptest! {
        #[test]
        fn every_spelling_of_an_address_is_that_address(
            octets in any::<[u8; 4]>(), bases in any::<[u8; 4]>(), parts in 1_usize..=4, dot in any::<bool>(),
        ) {
            let address = Ipv4Addr::from(octets);
            // The last part holds all that the parts before it leave.
            let mut words: Vec<String> =
                octets.iter().zip(bases).take(parts - 1).map(|(octet, base)| part(u32::from(*octet), base)).collect();
            let rest = octets[parts - 1..].iter().fold(0, |all: u32, octet| all << 8 | u32::from(*octet));
            words.push(part(rest, bases[3]));
            let text = format!("http://{}{}/", words.join("."), if dot { "." } else { "" });
            let target = WebAddress::parse(&text).expect("an address");
            prop_assert_eq!(target.ip, Some(IpAddr::V4(address)), "{}", text);
            prop_assert_eq!(target.host, address.to_string());
        }

        #[test]
        fn every_address_of_version_6_is_read_as_the_standard_library_does(segments in any::<[u16; 8]>()) {
            let address = Ipv6Addr::from(segments);
            let long: Vec<String> = segments.iter().map(|segment| format!("{segment:04X}")).collect();
            for text in [format!("http://[{address}]/"), format!("http://[{}]:80/", long.join(":"))] {
                let target = WebAddress::parse(&text).expect("an address");
                prop_assert_eq!(target.ip, Some(IpAddr::V6(address).to_canonical()), "{}", text);
            }
        }

        #[test]
        fn what_is_judged_is_what_the_client_would_connect_to(text in "https?://[ -~\u{ff0e}\u{3002}０１ⓐ]{0,30}") {
            if let Ok(target) = WebAddress::parse(&text) {
                let host = target.url.host_str().unwrap().trim_matches(['[', ']']);
                let same = host == target.host
                    || host.parse::<IpAddr>().is_ok_and(|ip| Some(ip.to_canonical()) == target.ip);
                prop_assert!(same, "{text}: {host} is not {}", target.host);
                prop_assert!(target.url.username().is_empty() && target.url.password().is_none());
            }
        }
    }
}
