//! The network inside: a loopback interface, and a port there that the parent serves.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use super::{StepResult, during};
use crate::control::{Report, send_with};
use crate::plan::Network;
use crate::sys;

/// Sets a new network up, and passes the namespaces out.
pub(super) fn set_up(network: Network, socket: &UnixStream) -> StepResult<()> {
    if network != Network::Shared {
        during("bringing the loopback interface up", sys::loopback_up())?;
    }
    let listener = match network {
        Network::Proxy { port } => {
            Some(during("listening for the proxy", TcpListener::bind((Ipv4Addr::LOCALHOST, port)))?)
        }
        Network::Own | Network::Shared => None,
    };
    let open = |name| during("opening a namespace", File::open(format!("/proc/self/ns/{name}")));
    let (user, net) = (open("user")?, open("net")?);
    let mut descriptors = vec![user.as_fd(), net.as_fd()];
    descriptors.extend(listener.as_ref().map(|listener| listener.as_fd()));
    tell_ready(socket, &descriptors)
}

/// Tells the parent that the network is there.
pub(super) fn tell_ready(socket: &UnixStream, descriptors: &[std::os::fd::BorrowedFd<'_>]) -> StepResult<()> {
    let mut line = during("reporting", serde_json::to_vec(&Report::Ready))?;
    line.push(b'\n');
    during("reporting", send_with(socket, &line, descriptors))
}
