//! Which addresses a granted name may lead to, and the way there.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use rawko_core::policy::address_is_granted;

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
    let mut last = Unreached::Failed(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    for address in addresses.map_err(Unreached::Failed)? {
        let ip = address.ip().to_canonical();
        if !address_is_granted(host, ip, is_named) {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::net::TcpListener;

    use super::*;

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
