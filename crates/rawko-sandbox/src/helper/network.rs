//! The network inside: a loopback interface, and a port there that the parent serves.

use std::net::{Ipv4Addr, TcpListener};

use super::{StepResult, during};
use crate::plan::Network;
use crate::sys;

/// Sets a new network up. Returns the socket at which the parent is to listen, if there is to be one.
pub(super) fn set_up(network: Network) -> StepResult<Option<TcpListener>> {
    if network != Network::Shared {
        during("bringing the loopback interface up", sys::loopback_up())?;
    }
    listen(network)
}

/// The socket at which the parent is to listen, if there is to be one.
pub(super) fn listen(network: Network) -> StepResult<Option<TcpListener>> {
    match network {
        // Nothing but this namespace reaches its addresses.
        Network::Proxy { port, .. } => {
            during("listening for the proxy", TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))).map(Some)
        }
        Network::Own | Network::Shared => Ok(None),
    }
}
