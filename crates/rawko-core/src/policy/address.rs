//! Which addresses a granted host may lead to.
//!
//! A name can be made to lead anywhere. So the grant of a host does not cover an address that is not on the public
//! Internet: that address has to be granted itself.

use core::net::{IpAddr, Ipv4Addr};

/// Whether a connection to `host`, which is granted, may go to `address`. `is_named` says whether an entry of
/// `permissions.net` is this very text, and no pattern that holds it.
pub fn address_is_granted(host: &str, address: IpAddr, is_named: &dyn Fn(&str) -> bool) -> bool {
    let address = address.to_canonical();
    let is_local = host == "localhost" && address.is_loopback();
    is_public(address) || is_local && is_named("localhost") || is_named(&address.to_string())
}

/// Whether an address is on the public Internet: no private, local, shared, reserved or documentation one, and no other
/// way to write one of version 4 (tunnels, translation).
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
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
    fn check(host: &str, address: &str, named: &[&str], expected: bool) {
        let granted = address_is_granted(host, address.parse().unwrap(), &|name| named.contains(&name));
        assert_eq!(granted, expected, "{host} at {address}");
    }

    #[test]
    fn an_address_that_is_not_public_is_named_itself() {
        check("a.com", "1.1.1.1", &["a.com"], true);
        check("a.com", "127.0.0.1", &["a.com"], false);
        check("a.com", "::ffff:127.0.0.1", &["a.com"], false);
        check("a.com", "::ffff:127.0.0.1", &["127.0.0.1"], true);
        check("a.com", "127.0.0.2", &["127.0.0.1"], false);
        check("10.0.0.1", "10.0.0.1", &["*"], false);
        check("10.0.0.1", "10.0.0.1", &["10.0.0.1"], true);
        check("localhost", "127.0.0.1", &["localhost"], true);
        check("localhost", "::1", &["localhost"], true);
        check("localhost", "10.0.0.1", &["localhost"], false);
        check("a.com", "127.0.0.1", &["localhost"], false);
    }
}
