//! The network of confined commands: those of one agent share one, and a proxy is the only way out of it.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rawko_sandbox::{
    ConfinementPlan, Control, HelperReport, Network, SharedNamespaces, Wall, landlock_version,
};

use super::proxy::{self, Clients, Proxy, ProxyClient};
use super::{Sandbox, Watched};
use crate::confinement::Confined;

/// How long the helper may take to build what commands see.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// The first version of Landlock that holds TCP to ports.
const HOLDS_PORTS: i32 = 4;

/// The network that the commands of one agent share.
#[derive(Debug)]
pub(super) struct AgentNetwork {
    shared: Arc<SharedNamespaces>,
    /// The way out, for as long as this lives.
    _proxy: Option<Proxy>,
}

/// The way out of one command. When it is dropped, the command has ended, and its connections end.
#[derive(Debug)]
pub(crate) struct WayOut {
    pub(super) network: Network,
    pub(super) client: Arc<ProxyClient>,
    clients: Clients,
    /// Where commands of an agent share no network, each has a proxy of its own.
    proxy: Option<Proxy>,
}

impl Drop for WayOut {
    fn drop(&mut self) {
        self.clients.remove(&self.client);
    }
}

impl Sandbox {
    /// Has the helper begin, in the network of the agent's earlier commands if there were some.
    fn begin(&self, watched: &mut Watched, plan: &ConfinementPlan, who: &str) -> io::Result<()> {
        let (control, clients) = (&mut watched.control, &watched.way.clients);
        // The next process that takes the session up waits until no helper holds it.
        let keeps = self.0.private.run().lock();
        if plan.wall == Wall::Landlock {
            return control.send(plan, None, keeps);
        }
        if matches!(plan.wall, Wall::Bubblewrap { .. }) {
            control.send(plan, None, keeps)?;
            await_ready(control)?;
            let listener = control.take_listener();
            watched.way.proxy =
                listener.map(|listener| Proxy::start(listener, clients.clone())).transpose()?;
            return Ok(());
        }
        // Held until the first command of an agent has made its network, so that the second finds it.
        let mut networks = self.networks();
        // Two mounts with one upper folder would be undefined. Another command that runs has the old one for itself.
        if let Some(shared) = networks.get_mut(who).and_then(|network| Arc::get_mut(&mut network.shared))
            && !shared.has_base_of(plan)
        {
            shared.forget_base();
        }
        let known = networks.get(who).map(|network| Arc::clone(&network.shared));
        if let Some(shared) = known.as_deref().filter(|shared| shared.has_base_of(plan)) {
            drop(networks);
            return control.send(plan, Some(shared), keeps);
        }
        control.send(plan, known.as_deref(), keeps)?;
        await_ready(control)?;
        if let Some((shared, listener)) = control.take_shared(plan, known.as_deref())? {
            if let Some(network) = networks.get_mut(who) {
                network.shared = Arc::new(shared);
                return Ok(());
            }
            let proxy = listener.map(|listener| Proxy::start(listener, clients.clone())).transpose()?;
            let network = AgentNetwork { shared: Arc::new(shared), _proxy: proxy };
            networks.insert(who.to_owned(), network);
        }
        Ok(())
    }

    /// What a command of `who` may reach, and the way there. With namespaces there always is a proxy, which says what it
    /// refuses. Without, it listens on the machine's own loopback, where a command reaches its port and no other.
    fn way_out(&self, who: &str, hosts: &[String]) -> io::Result<WayOut> {
        if self.wall() != Wall::Landlock {
            let clients = if self.wall() == Wall::Namespaces {
                let mut agents = self.0.clients.lock().unwrap_or_else(PoisonError::into_inner);
                agents.entry(who.to_owned()).or_default().clone()
            } else {
                // Each command has a network of its own.
                Clients::default()
            };
            let client = ProxyClient::new(proxy::next_address(), hosts);
            clients.add(Arc::clone(&client));
            let network = Network::Proxy { address: client.address, port: proxy::PORT };
            return Ok(WayOut { network, client, clients, proxy: None });
        }
        let (client, clients) = (ProxyClient::new(Ipv4Addr::LOCALHOST, hosts), Clients::default());
        if hosts.is_empty() || landlock_version() < HOLDS_PORTS {
            return Ok(WayOut { network: Network::Own, client, clients, proxy: None });
        }
        clients.add(Arc::clone(&client));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let network = Network::Proxy { address: Ipv4Addr::LOCALHOST, port: listener.local_addr()?.port() };
        let proxy = Proxy::start(listener, clients.clone())?;
        Ok(WayOut { network, client, clients, proxy: Some(proxy) })
    }

    fn networks(&self) -> MutexGuard<'_, BTreeMap<String, AgentNetwork>> {
        self.0.networks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Confined {
    /// The way out of a command that is about to begin.
    pub(crate) fn way_out(&self) -> io::Result<WayOut> {
        self.sandbox.way_out(&self.network_name(), &self.hosts())
    }

    /// Has a helper that was started begin with the command.
    pub(crate) fn begin(&self, watched: &mut Watched, plan: &ConfinementPlan) -> io::Result<()> {
        self.sandbox.begin(watched, plan, &self.network_name())
    }

    /// The hosts that the command may reach.
    fn hosts(&self) -> Vec<String> {
        self.permissions.net.iter().flatten().chain(&self.approved_hosts).cloned().collect()
    }

    /// The name of the network that the command is in. Hosts that were approved for a command are reached from a network of
    /// their own, because another command of the agent can use this one's way out.
    fn network_name(&self) -> String {
        if self.approved_hosts.is_empty() {
            return self.who.clone();
        }
        format!("{} with {}", self.who, self.approved_hosts.join(", "))
    }
}

/// Waits until the network and the base are there.
fn await_ready(control: &mut Control) -> io::Result<()> {
    let report = control.report_by(Instant::now() + READY_WITHIN).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => io::Error::other(format!(
            "the sandbox was not made within {} seconds: end what else keeps this machine's disks busy, and try again",
            READY_WITHIN.as_secs()
        )),
        _ => error,
    });
    match report? {
        Some(HelperReport::Failed { what } | HelperReport::Unfit { why: what }) => {
            Err(io::Error::other(format!("the sandbox could not be made: {what}")))
        }
        Some(HelperReport::Ready | HelperReport::Ended { .. }) | None => Ok(()),
    }
}
