//! Confines the commands of agents and of verification to what their permissions grant (`docs/spec/bash-and-sandbox.md`).
//!
//! Owns what a command may see and change: the view is computed here, from permissions and from what this machine and
//! this project look like. `rawko-sandbox` makes it true.

mod git;
mod machine;
mod places;
mod private;
mod proxy;
mod survey;
mod view;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rawko_core::agent::Permissions;
use rawko_sandbox::{Control, Network, Plan, Report, Shared, Wall, landlock_version};

use crate::access::FileAccess;

use git::{Absent, Repository};
pub use machine::{Offer, Shortage};
use places::Places;
use private::PrivateFolders;
use proxy::{Hosts, Proxy};
use survey::Survey;

/// The most processes that one command may have at the same time.
const MAX_PROCESSES: u64 = 8_192;
/// The first version of Landlock that holds TCP to ports.
const HOLDS_PORTS: i32 = 4;

/// The sandbox of one run. Clones are the same sandbox.
#[derive(Debug, Clone)]
pub struct Sandbox(Arc<RunSandbox>);

#[derive(Debug)]
struct RunSandbox {
    helper: PathBuf,
    offer: Offer,
    places: Places,
    private: PrivateFolders,
    survey: Mutex<Option<Arc<Survey>>>,
    /// The project's repository, as it was before the first command.
    repository: Option<Repository>,
    /// The network of each agent's commands, by its name.
    networks: Mutex<BTreeMap<String, AgentNetwork>>,
    /// The same where there are no namespaces.
    ways: Mutex<BTreeMap<String, WayOut>>,
}

/// The way out of an agent's commands that have no network of their own.
#[derive(Debug)]
struct WayOut {
    port: u16,
    hosts: Hosts,
    _proxy: Proxy,
}

/// The network that the commands of one agent share.
#[derive(Debug)]
struct AgentNetwork {
    shared: Arc<Shared>,
    hosts: Hosts,
    /// The way out, for as long as this lives.
    _proxy: Option<Proxy>,
}

/// Who runs a command, and what they may touch.
#[derive(Debug, Clone)]
pub(crate) struct Confined {
    pub(crate) sandbox: Sandbox,
    /// The name of the folders that hold what the command's tools keep: an agent's name.
    pub(crate) who: String,
    pub(crate) permissions: Arc<Permissions>,
    /// Hosts that a person approved for this command alone.
    pub(crate) approved_hosts: Vec<String>,
    /// The project.
    pub(crate) root: PathBuf,
    /// What it may read besides.
    pub(crate) also: Vec<PathBuf>,
    /// Folders that it may change for itself.
    pub(crate) layered: Vec<PathBuf>,
    /// Whether its home and caches last. Else they are new for each command: what one leaves decides nothing.
    pub(crate) lasts: bool,
}

impl Sandbox {
    /// The sandbox of a run in the project at `root`, if this machine has what it takes. `cache` is the user's
    /// folder for what can be made again; `variable` reads the environment.
    ///
    /// # Errors
    /// What is missing.
    pub fn new(
        root: &Path,
        cache: Option<&Path>,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Shortage> {
        let helper = rawko_sandbox::own_helper().ok_or_else(Shortage::no_helper)?;
        let private = PrivateFolders::new(cache, root).map_err(|error| Shortage::folders(&error))?;
        let offer = machine::try_out(helper, &private)?;
        let places = Places::new(variable);
        let repository = std::fs::canonicalize(root).ok().and_then(|root| git::repository_of(&root));
        let helper = helper.to_owned();
        Ok(Self(Arc::new(RunSandbox {
            helper,
            offer,
            places,
            private,
            survey: Mutex::default(),
            repository,
            networks: Mutex::default(),
            ways: Mutex::default(),
        })))
    }

    /// What this machine offers.
    #[must_use]
    pub fn offer(&self) -> &Offer {
        &self.0.offer
    }

    /// By what commands are confined, for people.
    #[must_use]
    pub fn walls(&self) -> String {
        self.0.offer.walls()
    }

    /// What this machine does not enforce, for people.
    #[must_use]
    pub fn lost(&self) -> Vec<String> {
        self.0.offer.lost()
    }

    /// A folder that is held for as long as a command lives.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.0.private.place()
    }

    /// How a command is confined.
    pub(crate) fn wall(&self) -> Wall {
        self.0.offer.wall()
    }

    pub(crate) fn helper(&self) -> &Path {
        &self.0.helper
    }

    /// Has the helper begin, in the network of the agent's earlier commands if there were some.
    fn begin(&self, control: &mut Control, plan: &Plan, who: &str, hosts: &[String]) -> io::Result<()> {
        // The next process that takes the session up waits until no helper holds it.
        let keeps = Some(self.0.private.run().lock());
        if plan.wall == Wall::Landlock {
            return control.send(plan, None, keeps);
        }
        // Held until the first command of an agent has made its network, so that the second finds it.
        let mut networks = self.networks();
        let known = networks.get(who).map(|network| Arc::clone(&network.shared));
        if let Some(network) = networks.get(who) {
            hosts.clone_into(&mut network.hosts.lock().unwrap_or_else(PoisonError::into_inner));
        }
        if let Some(shared) = known.as_deref().filter(|shared| shared.has_base_of(plan)) {
            drop(networks);
            return control.send(plan, Some(shared), keeps);
        }
        control.send(plan, known.as_deref(), keeps)?;
        match control.report()? {
            Some(Report::Failed { what }) => {
                return Err(io::Error::other(format!("the sandbox could not be made: {what}")));
            }
            Some(Report::Ready | Report::Ended { .. }) | None => {}
        }
        if let Some((shared, listener)) = control.take_shared(plan, known.as_deref())? {
            if let Some(network) = networks.get_mut(who) {
                network.shared = Arc::new(shared);
                return Ok(());
            }
            let granted: Hosts = Arc::new(Mutex::new(hosts.to_owned()));
            let proxy = listener.map(|listener| Proxy::start(listener, Arc::clone(&granted))).transpose()?;
            let network = AgentNetwork { shared: Arc::new(shared), hosts: granted, _proxy: proxy };
            networks.insert(who.to_owned(), network);
        }
        Ok(())
    }

    /// What a command of `who` may reach, and the way there. Without namespaces, the proxy listens on the machine's own
    /// loopback, where a command reaches its port and no other.
    fn network(&self, who: &str, hosts: &[String]) -> io::Result<Network> {
        if self.wall() == Wall::Namespaces {
            return Ok(Network::Proxy { port: proxy::PORT });
        }
        if hosts.is_empty() || landlock_version() < HOLDS_PORTS {
            return Ok(Network::Own);
        }
        let mut ways = self.0.ways.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(way) = ways.get(who) {
            hosts.clone_into(&mut way.hosts.lock().unwrap_or_else(PoisonError::into_inner));
            return Ok(Network::Proxy { port: way.port });
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (port, hosts) = (listener.local_addr()?.port(), Arc::new(Mutex::new(hosts.to_owned())));
        let _proxy = Proxy::start(listener, Arc::clone(&hosts))?;
        ways.insert(who.to_owned(), WayOut { port, hosts, _proxy });
        Ok(Network::Proxy { port })
    }

    fn networks(&self) -> MutexGuard<'_, BTreeMap<String, AgentNetwork>> {
        self.0.networks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The line to the helper of a command that runs. When it is dropped, the command has ended, and what it has made in the
/// repository to decide what git runs is removed.
#[derive(Debug)]
pub(crate) struct Watched {
    control: Control,
    absent: Absent,
}

impl Watched {
    /// The next report; `None` once all processes of the command have ended.
    pub(crate) fn report(&mut self) -> io::Result<Option<Report>> {
        self.control.report()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // A command that was killed has processes for another moment.
        while let Ok(Some(_)) = self.control.report() {}
        self.absent.remove();
    }
}

impl Confined {
    /// Watches over a command that is about to begin.
    pub(crate) fn watch(&self, control: Control) -> Watched {
        let repository = self.sandbox.0.repository.as_ref();
        Watched { control, absent: repository.map(git::absent).unwrap_or_default() }
    }

    /// Has a helper that was started begin with the command.
    pub(crate) fn begin(&self, watched: &mut Watched, plan: &Plan) -> io::Result<()> {
        self.sandbox.begin(&mut watched.control, plan, &self.network_name(), &self.hosts())
    }

    /// The hosts that the command may reach.
    fn hosts(&self) -> Vec<String> {
        self.permissions.net.iter().flatten().chain(&self.approved_hosts).cloned().collect()
    }

    /// The name of the network that the command is in. Hosts that were approved for a command are reached from a network of
    /// their own, so that they do not leak to other commands of the agent that run at the same time.
    fn network_name(&self) -> String {
        if self.approved_hosts.is_empty() {
            return self.who.clone();
        }
        format!("{} with {}", self.who, self.approved_hosts.join(", "))
    }

    /// The plan for one command.
    pub(crate) fn plan(&self, directory: &Path, input: &[u8]) -> io::Result<Plan> {
        let run = &self.sandbox.0;
        let access = FileAccess::new(&self.root, &self.permissions).map_err(io::Error::other)?;
        let wall = self.sandbox.wall();
        // Without namespaces a home holds links, where nothing could be mounted.
        let who =
            if wall == Wall::Landlock { format!("{} without mounts", self.who) } else { self.who.clone() };
        let own = if self.lasts { run.private.of(&who)? } else { run.private.once()? };
        let (denied, has_patterns) = access.denied_places();
        // Their other names have to be looked for.
        let has_links = denied.iter().any(|path| view::file_with_links(path).is_some());
        // What an agent leaves in a cache does not decide about its work.
        let caches = self.permissions.caches.as_deref().filter(|_| self.lasts).unwrap_or_default();
        let shared = run.places.shared(caches).map_err(io::Error::other)?;
        let survey = {
            let mut last = run.survey.lock().unwrap_or_else(PoisonError::into_inner);
            Survey::renewed(&mut last, access.root(), has_patterns || has_links)
        };
        if survey.is_cut && (has_patterns || has_links) {
            return Err(io::Error::other(
                "the project has too many files to find those that match the patterns of permissions.deny: \
                 list the paths instead",
            ));
        }
        let builder = view::Builder {
            access: &access,
            places: &run.places,
            own: &own,
            survey: &survey,
            repository: run
                .repository
                .as_ref()
                .filter(|repository| access.root().starts_with(&repository.top)),
            also: &self.also,
            layered: &self.layered,
            shared: &shared,
            can_layer: run.offer.layers,
        };
        let (base, view) = builder.steps();
        Ok(Plan {
            wall,
            directory: std::fs::canonicalize(directory)?,
            base,
            view,
            temporary: own.temporary.clone(),
            network: self.sandbox.network(&self.network_name(), &self.hosts())?,
            input: input.to_owned(),
            max_processes: MAX_PROCESSES,
        })
    }
}
