//! Whether a host may be reached, and at which addresses: the same rules by which the sandbox's proxy lets commands out.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use rawko_core::policy::{address_is_granted, host_is_granted};
use rawko_core::tool::Refusal;

use crate::target::WebAddress;

/// How names are looked up.
pub type LookUp = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// The addresses of a host, as the system knows them.
#[must_use]
pub fn system_look_up() -> LookUp {
    Arc::new(|host, port| (host, port).to_socket_addrs().map(Iterator::collect))
}

/// Why a host is not reached.
#[derive(Debug)]
pub(crate) enum NotAdmitted {
    /// `permissions.net` does not grant it.
    Host(String),
    /// It is granted, and leads to an address that is not on the public Internet, and is not granted itself.
    Address { host: String, address: IpAddr },
    /// Its name has no address.
    Unknown { host: String, error: io::Error },
}

/// What an agent can do where a host is refused.
const INSTEAD: &str = "Do without it, or say in your report that the task needs it.";

impl NotAdmitted {
    /// What a person can grant.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Host(host) => Some(Refusal::Host { host: host.clone() }),
            Self::Address { address, .. } => Some(Refusal::Host { host: address.to_string() }),
            Self::Unknown { .. } => None,
        }
    }
}

impl fmt::Display for NotAdmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => {
                write!(f, "no permission grants {host}. {INSTEAD}")
            }
            Self::Address { host, address } if *host == address.to_string() => {
                write!(f, "{address} is not on the public Internet, and no permission names it. {INSTEAD}")
            }
            Self::Address { host, address } => write!(
                f,
                "{host} leads to {address}, which is not on the public Internet, and no permission names that \
                 address. {INSTEAD}"
            ),
            Self::Unknown { host, error } => write!(f, "the name {host} could not be looked up: {error}"),
        }
    }
}

/// Whether the grants let `target` be asked for, as far as its spelling says: names are not looked up.
pub(crate) fn is_granted(target: &WebAddress, granted: &[String]) -> Result<(), NotAdmitted> {
    if !host_is_granted(granted, &target.host) {
        return Err(NotAdmitted::Host(target.host.clone()));
    }
    match target.ip {
        Some(ip) => allowed(target, granted, ip),
        None => Ok(()),
    }
}

fn allowed(target: &WebAddress, granted: &[String], address: IpAddr) -> Result<(), NotAdmitted> {
    let is_named = |name: &str| granted.iter().any(|entry| entry == name);
    if address_is_granted(&target.host, address, &is_named) {
        return Ok(());
    }
    Err(NotAdmitted::Address { host: target.host.clone(), address: address.to_canonical() })
}

/// The addresses at which `target` may be reached, never none. The name is looked up once: who connects uses these and asks
/// no name server again, so that a second answer changes nothing. Blocks.
pub(crate) fn admit(
    target: &WebAddress,
    granted: &[String],
    look_up: &LookUp,
) -> Result<Vec<SocketAddr>, NotAdmitted> {
    is_granted(target, granted)?;
    if let Some(ip) = target.ip {
        return Ok(vec![SocketAddr::new(ip, target.port)]);
    }
    let unknown = |error| NotAdmitted::Unknown { host: target.host.clone(), error };
    let mut last = unknown(io::Error::new(io::ErrorKind::NotFound, "it has no address"));
    let mut admitted = Vec::new();
    for address in look_up(&target.host, target.port).map_err(unknown)? {
        match allowed(target, granted, address.ip()) {
            Ok(()) => admitted.push(SocketAddr::new(address.ip(), target.port)),
            Err(refused) => last = refused,
        }
    }
    if admitted.is_empty() { Err(last) } else { Ok(admitted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leading_to(addresses: &'static [&'static str]) -> LookUp {
        Arc::new(move |_, port| {
            Ok(addresses.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), port)).collect())
        })
    }

    #[track_caller]
    fn check(
        url: &str,
        granted: &[&str],
        leads_to: &'static [&'static str],
        expected: Result<&[&str], &str>,
    ) {
        let granted: Vec<String> = granted.iter().map(|entry| (*entry).to_owned()).collect();
        let admitted = admit(&WebAddress::parse(url).unwrap(), &granted, &leading_to(leads_to));
        match (admitted, expected) {
            (Ok(found), Ok(expected)) => {
                let found: Vec<String> = found.iter().map(ToString::to_string).collect();
                assert_eq!(found, expected, "{url}");
            }
            (Err(refused), Err(words)) => {
                let text = refused.to_string();
                assert!(text.contains(words), "{url}: {text}");
            }
            (found, expected) => panic!("{url}: {found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn a_host_is_granted_and_so_is_where_it_leads() {
        let public: &[&str] = &["1.1.1.1"];
        check("https://docs.rs/", &["docs.rs"], public, Ok(&["1.1.1.1:443"]));
        check("https://docs.rs/", &[], public, Err("no permission grants docs.rs. Do without it"));
        check("https://crates.io/", &["docs.rs"], public, Err("no permission grants crates.io"));
        check("https://static.crates.io/", &["cargo"], public, Ok(&["1.1.1.1:443"]));
        check("https://x.docs.rs/", &["docs.rs"], public, Err("no permission grants x.docs.rs"));
        check("http://a.com:8080/", &["*.com"], &["1.1.1.1", "10.0.0.1"], Ok(&["1.1.1.1:8080"]));
        check("http://a.com/", &["a.com"], &["10.0.0.1"], Err("a.com leads to 10.0.0.1"));
        check("http://a.com/", &["*"], &["::ffff:10.0.0.1"], Err("leads to 10.0.0.1"));
        check("http://a.com/", &["a.com", "10.0.0.1"], &["10.0.0.1"], Ok(&["10.0.0.1:80"]));
        check("http://a.com/", &["a.com"], &[], Err("has no address"));
        check("http://127.0.0.1:1/", &["*"], &[], Err("127.0.0.1 is not on the public Internet"));
        check("http://127.0.0.1:1/", &["127.0.0.1"], &[], Ok(&["127.0.0.1:1"]));
        check("http://[::1]:1/", &["::1"], &[], Ok(&["[::1]:1"]));
        check("http://localhost:1/", &["localhost"], &["127.0.0.1"], Ok(&["127.0.0.1:1"]));
        check("http://localhost./", &["localhost"], &["10.0.0.1"], Err("leads to 10.0.0.1"));
    }

    /// What an attacker would write to reach this machine or its network: all of it is refused even to an agent that
    /// may reach any host, wherever names lead.
    #[test]
    fn no_spelling_leads_inside() {
        let list = include_str!("../tests/spellings.txt");
        let spellings: Vec<&str> =
            list.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("# ")).collect();
        assert!(spellings.len() >= 60, "{}", spellings.len());
        let granted = ["*", "*.com", "cargo", "docs.rs"].map(str::to_owned);
        for written in spellings {
            // What cannot be written in a list of lines.
            let url = written.replace("\\t", "\t").replace("\\0", "\0").replace("\\n", "\n");
            let Ok(target) = WebAddress::parse(&url) else { continue };
            let admitted = admit(&target, &granted, &leading_to(&["127.0.0.1", "::1", "::ffff:10.0.0.1"]));
            assert!(matches!(admitted, Err(NotAdmitted::Address { .. })), "{written}: {admitted:?}");
        }
    }
}
