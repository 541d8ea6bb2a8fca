//! Which addresses a granted name may lead to, and the way there.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Why a host was not reached.
#[derive(Debug)]
pub(super) enum Unreached {
    /// Its name leads to an address that is not on the public Internet, and is not granted itself.
    NotPublic(IpAddr),
    /// The network's answer.
    Failed(io::Error),
}

/// The addresses of a host, as the system knows them.
pub(super) fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    (host, port).to_socket_addrs().map(Iterator::collect)
}

/// Connects to a host that is granted. An address that is not on the public Internet has to be granted itself, because a
/// name can be made to lead anywhere. The name is looked up once: what is judged is what is connected to.
pub(super) fn reach(
    host: &str,
    addresses: io::Result<Vec<SocketAddr>>,
    is_named: &dyn Fn(&str) -> bool,
) -> Result<TcpStream, Unreached> {
    let is_local = host == "localhost" && is_named("localhost");
    let mut last = Unreached::Failed(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    for address in addresses.map_err(Unreached::Failed)? {
        let ip = address.ip().to_canonical();
        if !(is_public(ip) || is_local && ip.is_loopback() || is_named(&ip.to_string())) {
            last = Unreached::NotPublic(ip);
            continue;
        }
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Unreached::Failed(error),
        }
    }
    Err(last)
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_public_v4(v4),
            None => {
                let segments = v6.segments();
                // Global unicast without the ranges for documentation, tunnels and translation.
                (0x2000..0x4000).contains(&segments[0])
                    && segments[0] != 0x2002
                    && !(segments[0] == 0x2001 && (segments[1] < 0x200 || segments[1] == 0xdb8))
                    && !(segments[0] == 0x3fff && segments[1] < 0x1000)
            }
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || address.is_unspecified()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (18..20).contains(&b)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::net::TcpListener;

    use super::*;

    #[test]
    fn public_addresses() {
        for (address, expected) in [
            ("1.1.1.1", true),
            ("127.0.0.1", false),
            ("0.0.0.0", false),
            ("10.0.0.1", false),
            ("172.16.0.1", false),
            ("192.168.0.1", false),
            ("169.254.169.254", false),
            ("100.64.0.1", false),
            ("192.88.99.1", false),
            ("198.18.0.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("2606:4700::1111", true),
            ("::1", false),
            ("::", false),
            ("fe80::1", false),
            ("fc00::1", false),
            ("ff02::1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:1.1.1.1", true),
            ("::127.0.0.1", false),
            // Other ways to write an address of version 4: tunnels and translation.
            ("2002:7f00:1::", false),
            ("2001:0:1::", false),
            ("64:ff9b::7f00:1", false),
            ("64:ff9b:1::7f00:1", false),
            ("2001:db8::1", false),
            ("3fff::1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[track_caller]
    fn check(host: &str, address: &str, named: &[&str], refused: Option<&str>) {
        let reached = reach(host, Ok(vec![address.parse().unwrap()]), &|name| named.contains(&name));
        let found = match &reached {
            Err(Unreached::NotPublic(ip)) => Some(ip.to_string()),
            Ok(_) | Err(Unreached::Failed(_)) => None,
        };
        assert_eq!(found.as_deref(), refused, "{host} at {address}: {reached:?}");
    }

    #[test]
    fn a_name_that_leads_home_needs_the_address_granted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let at = |ip: &str| format!("{ip}:{port}");
        check("a.com", &at("127.0.0.1"), &["a.com"], Some("127.0.0.1"));
        check("a.com", &at("[::ffff:127.0.0.1]"), &["a.com"], Some("127.0.0.1"));
        check("a.com", &at("127.0.0.1"), &["a.com", "127.0.0.1"], None);
        check("a.com", &at("127.0.0.2"), &["a.com", "127.0.0.1"], Some("127.0.0.2"));
        // The grant of localhost is that of this machine, whatever the name leads to.
        check("localhost", &at("127.0.0.1"), &["localhost"], None);
        check("localhost", &at("10.0.0.1"), &["localhost"], Some("10.0.0.1"));
        check("a.com", &at("127.0.0.1"), &["a.com", "localhost"], Some("127.0.0.1"));
    }
}
