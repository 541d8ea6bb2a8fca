//! The commands that a proxy serves, and their connections.
//!
//! The commands of one agent share a network and its proxy. Each reaches the proxy at a loopback address of its own, so
//! a connection says whose it is. A program can use the address of another command of its agent, or one that belongs to
//! no command: a connection to such a one counts for all that run, and reaches what is granted to all of them. So what
//! is recorded for a command is a report, and no proof.

use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rawko_core::policy::host_is_granted;

use crate::refusals::{Refusals, RefusedHost};

/// A command, as its proxy knows it.
#[derive(Debug)]
pub(in super::super) struct ProxyClient {
    /// Where it reaches the proxy.
    pub(in super::super) address: Ipv4Addr,
    hosts: Vec<String>,
    pub(in super::super) refusals: Refusals,
    has_ended: AtomicBool,
    connections: Mutex<Vec<Weak<ProxiedConnection>>>,
}

impl ProxyClient {
    pub(in super::super) fn new(address: Ipv4Addr, hosts: &[String]) -> Arc<Self> {
        Arc::new(Self {
            address,
            hosts: hosts.to_owned(),
            refusals: Refusals::default(),
            has_ended: AtomicBool::new(false),
            connections: Mutex::default(),
        })
    }
}

/// An address of loopback that no command had before, or long ago.
pub(in super::super) fn next_address() -> Ipv4Addr {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // From 127.1.0.1 on, and never the last one, which is that of a broadcast.
    let number = COUNT.fetch_add(1, Ordering::Relaxed) % 0x00fe_0000;
    Ipv4Addr::from_bits(0x7f01_0001 + number)
}

/// The commands that one proxy serves now. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Clients(Arc<Mutex<Vec<Arc<ProxyClient>>>>);

impl Clients {
    pub(in super::super) fn add(&self, client: Arc<ProxyClient>) {
        lock(&self.0).push(client);
    }

    /// Takes a command out that has ended, and ends its connections: a server may hold its end open forever.
    pub(in super::super) fn remove(&self, client: &Arc<ProxyClient>) {
        lock(&self.0).retain(|other| !Arc::ptr_eq(other, client));
        client.has_ended.store(true, Ordering::SeqCst);
        let connections = std::mem::take(&mut *lock(&client.connections));
        connections.iter().filter_map(Weak::upgrade).for_each(|connection| connection.close_if_unused());
    }

    /// Whose a connection to this address is.
    pub(super) fn at(&self, address: IpAddr) -> Vec<Arc<ProxyClient>> {
        let clients = lock(&self.0);
        match clients.iter().find(|client| IpAddr::V4(client.address) == address) {
            Some(client) => vec![Arc::clone(client)],
            None => clients.clone(),
        }
    }
}

/// A connection, and that to the server.
#[derive(Debug)]
pub(super) struct ProxiedConnection {
    clients: Vec<Arc<ProxyClient>>,
    /// `None` once it was closed.
    streams: Mutex<Option<Vec<Arc<TcpStream>>>>,
}

impl ProxiedConnection {
    pub(super) fn new(clients: Vec<Arc<ProxyClient>>) -> Arc<Self> {
        let connection = Arc::new(Self { clients, streams: Mutex::new(Some(Vec::new())) });
        for client in &connection.clients {
            let mut others = lock(&client.connections);
            others.retain(|other| other.strong_count() > 0);
            others.push(Arc::downgrade(&connection));
        }
        // One that ended meanwhile did not see this connection.
        connection.close_if_unused();
        connection
    }

    /// Has the stream end with the command.
    pub(super) fn hold(&self, stream: &Arc<TcpStream>) {
        match &mut *lock(&self.streams) {
            Some(streams) => streams.push(Arc::clone(stream)),
            None => shut(stream),
        }
    }

    pub(super) fn grants(&self, host: &str) -> bool {
        self.clients.iter().all(|client| host_is_granted(&client.hosts, host))
    }

    /// Whether an entry of the permissions is this text, and no pattern that holds it.
    pub(super) fn names(&self, host: &str) -> bool {
        self.clients.iter().all(|client| client.hosts.iter().any(|entry| entry == host))
    }

    pub(super) fn note(&self, refused: &RefusedHost) {
        self.clients.iter().for_each(|client| client.refusals.note(refused.clone()));
    }

    pub(super) fn close(&self) {
        lock(&self.streams).take().iter().flatten().for_each(|stream| shut(stream));
    }

    fn close_if_unused(&self) {
        if self.clients.iter().all(|client| client.has_ended.load(Ordering::SeqCst)) {
            self.close();
        }
    }
}

fn shut(stream: &TcpStream) {
    // It may be closed already.
    let _ = stream.shutdown(Shutdown::Both);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
