//! The network inside: a loopback interface, and a port there that the parent serves.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::{StepResult, during};
use crate::control::Report;
use crate::plan::Network;
use crate::sys;

/// Sets the network up, and tells the parent that the sandbox is ready. Returns the proxy's port.
pub(super) fn prepare(network: Network, socket: &UnixStream) -> StepResult<Option<u16>> {
    if network != Network::Shared {
        during("bringing the loopback interface up", sys::loopback_up())?;
    }
    let listener = match network {
        Network::Proxy => Some(during("listening for the proxy", TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?),
        Network::Own | Network::Shared => None,
    };
    let port = match &listener {
        Some(listener) => Some(during("listening for the proxy", listener.local_addr())?.port()),
        None => None,
    };
    let mut line = during("reporting", serde_json::to_vec(&Report::Ready))?;
    line.push(b'\n');
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = listener.as_ref().map(|listener| [listener.as_fd()]);
    if let Some(descriptors) = &descriptors {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let sent = sendmsg(socket, &[IoSlice::new(&line)], &mut ancillary, SendFlags::NOSIGNAL);
    during("passing the proxy's socket out", sent)?;
    Ok(port)
}
