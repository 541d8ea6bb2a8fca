//! Confines the commands of agents and of verification to what their permissions grant (`docs/sandbox.md`).
//!
//! Owns what a command may see and change: the view is computed here, from permissions and from what this machine and
//! this project look like. `rawko-sandbox` makes it true.

mod absent;
mod bubblewrap;
mod cgroup;
mod disarm;
mod every_folder;
mod git;
mod git_settings;
mod held;
mod helper;
mod index;
mod listeners;
mod machine;
mod new_repositories;
mod owners_alone;
mod placeholders;
mod places;
mod private;
mod programs;
mod proxy;
mod rebase;
mod secrets;
mod sockets;
mod survey;
mod trial;
mod view;
mod watched;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rawko_core::MemoryLimit;
use rawko_core::agent::{Enforcement, Permissions};
use rawko_sandbox::{
    ConfinementPlan, Control, HelperReport, Network, SharedNamespaces, ViewStep, Wall, landlock_version,
};

use crate::access::FileAccess;
use crate::confinement::Shortage;

use git::ProjectRepository;
use held::HeldFolders;
pub use machine::Offer;
use new_repositories::NewRepositories;
pub(crate) use new_repositories::settle_after;
use places::Places;
use private::PrivateFolders;
use proxy::{Clients, Proxy, ProxyClient};
use survey::{Survey, SurveyTarget};
pub(crate) use watched::Watched;

/// The most processes that one command may have at the same time.
const MAX_PROCESSES: u64 = 8_192;
/// How long the helper may take to build what commands see.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// The first version of Landlock that holds TCP to ports.
const HOLDS_PORTS: i32 = 4;

/// The sandbox of one run. Clones are the same sandbox.
#[derive(Debug, Clone)]
pub struct Sandbox(Arc<RunSandbox>);

#[derive(Debug)]
struct RunSandbox {
    helper: PathBuf,
    offer: Offer,
    /// Where commands get control groups, if this machine lets it.
    groups: Option<cgroup::Parent>,
    /// What the configuration says about it.
    memory: Option<MemoryLimit>,
    places: Places,
    /// The repositories that commands make. Dropped before the folder that holds what is known of them.
    new_repositories: NewRepositories,
    private: PrivateFolders,
    /// The user's settings of git, as commands get them.
    git_settings: Option<String>,
    survey: Mutex<Option<Arc<Survey>>>,
    sockets: Mutex<sockets::Relative>,
    /// The project's repository, as it was before the first command.
    repository: Option<ProjectRepository>,
    /// What the project does not have and no command may make.
    held: HeldFolders,
    /// The network of each agent's commands, by its name.
    networks: Mutex<BTreeMap<String, AgentNetwork>>,
    /// The commands of each agent that run in that network.
    clients: Mutex<BTreeMap<String, Clients>>,
}

/// The network that the commands of one agent share.
#[derive(Debug)]
struct AgentNetwork {
    shared: Arc<SharedNamespaces>,
    /// The way out, for as long as this lives.
    _proxy: Option<Proxy>,
}

/// The way out of one command. When it is dropped, the command has ended, and its connections end.
#[derive(Debug)]
pub(crate) struct WayOut {
    network: Network,
    client: Arc<ProxyClient>,
    clients: Clients,
    /// Where commands of an agent share no network, each has a proxy of its own.
    proxy: Option<Proxy>,
}

impl Drop for WayOut {
    fn drop(&mut self) {
        self.clients.remove(&self.client);
    }
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
    /// The folder over the project that takes its changes, if they do not go to the project itself.
    pub(crate) changes: Option<PathBuf>,
    /// Whether its home and caches last. Else they are new for each command: what one leaves decides nothing.
    pub(crate) lasts: bool,
}

impl Sandbox {
    /// The sandbox of a run in the project at `root`, if this machine has what it takes. `helper` is the program to confine
    /// commands by; without, it is this program if it can be that, else an installed `rawko`. `cache` is the user's
    /// folder for what can be made again, `memory` limits each command; `variable` reads the environment.
    ///
    /// # Errors
    /// What is missing.
    pub fn new(
        root: &Path,
        helper: Option<&Path>,
        cache: Option<&Path>,
        memory: Option<MemoryLimit>,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Shortage> {
        let path = variable("PATH");
        let helper = helper::find(helper, path.as_deref(), root)?;
        let private = PrivateFolders::new(cache, root).map_err(|error| machine::no_folders(&error))?;
        let bubblewrap = path.and_then(|path| bubblewrap::find(&path, root));
        let places = Places::new(variable);
        let real_root = std::fs::canonicalize(root).ok();
        let home = places.home.as_deref();
        // The trial waits for processes most of its time.
        let (offer, repository, git_settings) = std::thread::scope(|scope| {
            let trial = scope.spawn(|| {
                machine::try_out(&helper, &private, bubblewrap.as_deref(), machine::ANSWERS_WITHIN)
            });
            let repository = real_root.as_deref().and_then(git::repository_of);
            let git_settings = home.and_then(|home| git_settings::reduced(home, root));
            let offer = trial.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (offer, repository, git_settings)
        });
        let offer = offer?;
        Ok(Self(Arc::new(RunSandbox {
            helper,
            offer,
            groups: cgroup::Parent::find(memory.unwrap_or_default()),
            memory,
            places,
            new_repositories: NewRepositories::new(
                real_root.as_deref(),
                repository.as_ref(),
                private.place(),
            ),
            private,
            git_settings,
            survey: Mutex::default(),
            sockets: Mutex::default(),
            repository,
            held: HeldFolders::of(real_root),
            networks: Mutex::default(),
            clients: Mutex::default(),
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

    /// What commands do without on this machine, for people.
    #[must_use]
    pub fn lost(&self) -> Vec<String> {
        let mut lost = self.0.offer.lost();
        let limit = self.0.memory.filter(|limit| *limit != MemoryLimit::Off);
        if let Some(limit) = limit.filter(|_| self.0.groups.is_none()) {
            lost.push(format!(
                "permissions.memory is `{limit}`, but rawko can make no control groups here: start it by \
                 `systemd-run --user --scope`"
            ));
        }
        lost
    }

    /// Whether this machine enforces all permissions.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.wall() != Wall::Landlock
    }

    /// How much memory one command may have with all that it starts, in MiB; `None` where nothing limits it.
    #[must_use]
    pub fn memory(&self) -> Option<u64> {
        self.0.groups.as_ref().and_then(cgroup::Parent::memory)
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

/// Has a step name a real path. The helper follows no link, because another command could put one there meanwhile. The last
/// part stays: what a link leads to is a place of its own.
fn resolve(step: &mut ViewStep) {
    let place = step.place_mut();
    if let (Some(above), Some(name)) = (place.parent(), place.file_name())
        && let Ok(real) = std::fs::canonicalize(above)
        && real != above
    {
        *place = real.join(name);
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

impl Confined {
    /// The way out of a command that is about to begin.
    pub(crate) fn way_out(&self) -> io::Result<WayOut> {
        self.sandbox.way_out(&self.network_name(), &self.hosts())
    }

    /// Watches over a command that is about to begin.
    pub(crate) fn watch(&self, control: Control, way: WayOut) -> Watched {
        let writes = self.permissions.write.as_ref().is_none_or(|write| !write.is_empty())
            && std::fs::canonicalize(&self.root)
                .is_ok_and(|root| root == self.sandbox.0.new_repositories.root());
        let protect = self.permissions.protect.as_deref().unwrap_or_default();
        Watched::new(control, &self.sandbox, way, (writes, protect))
    }

    /// Limits what the command takes, whose helper was started and has not begun. Where that fails, it runs all the same.
    pub(crate) fn limit(&self, watched: &mut Watched, helper: u32) {
        let group = self.sandbox.0.groups.as_ref().and_then(|groups| groups.leaf().ok());
        watched.group = group.filter(|group| group.add(helper).is_ok());
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

    /// The plan for one command.
    pub(crate) fn plan(&self, directory: &Path, input: &[u8], way: &WayOut) -> io::Result<ConfinementPlan> {
        let run = &self.sandbox.0;
        let access = FileAccess::new(&self.root, &self.permissions).map_err(io::Error::other)?;
        let wall = self.sandbox.wall();
        // Without namespaces a home holds links, where nothing could be mounted.
        let who =
            if wall == Wall::Landlock { format!("{} without mounts", self.who) } else { self.who.clone() };
        let own = if self.lasts { run.private.of(&who)? } else { run.private.once()? };
        // A command that puts a folder in their place has none.
        let _ = git_settings::put(run.git_settings.as_deref(), &own.home, &own.git_settings);
        let (denied, has_patterns) = access.denied_places();
        // Their other names have to be looked for.
        let has_links = denied.iter().any(|path| view::file_with_links(path).is_some());
        // What an agent leaves in a cache does not decide about its work.
        let caches = self.permissions.caches.as_deref().filter(|_| self.lasts).unwrap_or_default();
        let shared = run.places.shared(caches).map_err(io::Error::other)?;
        let is_whole = |granted: &[PathBuf]| granted.iter().any(|path| access.root().starts_with(path));
        let writes = is_whole(access.readable()) && is_whole(access.writable());
        let held = if writes && wall == Wall::Namespaces { run.held.hold(access.root()) } else { Vec::new() };
        run.new_repositories.begin(access.root(), access.writable());
        let survey = {
            let mut last = run.survey.lock().unwrap_or_else(PoisonError::into_inner);
            Survey::renewed(&mut last, &to_survey(&access, has_patterns || has_links))
        };
        if survey.is_cut {
            return Err(io::Error::other(
                "the project, or a folder that is granted, has too many files to find those that match the patterns of \
                 permissions.deny: list the paths instead",
            ));
        }
        let grants = |folder: &Path| {
            access.writable().iter().any(|path| path.starts_with(folder) || folder.starts_with(path))
        };
        if survey.is_blind(grants) {
            if self.permissions.require == Some(Enforcement::Enforced) {
                return Err(io::Error::other(
                    "permissions.write grants a folder with too many files to find every .git, .rawko and .claude in it, \
                     which no command may write: grant smaller folders",
                ));
            }
            way.client.refusals.note_blind();
        }
        let builder = view::PlanBuilder {
            access: &access,
            places: &run.places,
            own: &own,
            survey: &survey,
            sockets: (wall != Wall::Landlock).then_some(&run.sockets),
            new_repositories: &run.new_repositories,
            held: &held,
            repository: run
                .repository
                .as_ref()
                .filter(|repository| access.root().starts_with(&repository.top)),
            also: &self.also,
            layered: &self.layered,
            changes: self.changes.as_deref(),
            shared: &shared,
            can_layer: run.offer.layers,
            can_cover: wall == Wall::Namespaces,
        };
        let (mut base, mut view) = builder.steps()?;
        // The contents of a private home are not where this machine's links lead.
        let covers = base.iter_mut().filter(|step| matches!(step, ViewStep::Cover(_)));
        covers.chain(&mut view).for_each(resolve);
        Ok(ConfinementPlan {
            wall,
            directory: std::fs::canonicalize(directory)?,
            base,
            view,
            temporary: own.temporary.clone(),
            network: way.network,
            input: input.to_owned(),
            converses: false,
            max_processes: MAX_PROCESSES,
        })
    }
}

/// The folders that the view depends on: the project, and what is granted outside of it for writing, or for reading where
/// a pattern denies some of it.
fn to_survey(access: &FileAccess, is_thorough: bool) -> Vec<SurveyTarget> {
    let root = access.root();
    let patterns: Vec<PathBuf> =
        access.pattern_folders().into_iter().filter(|folder| !folder.starts_with(root)).collect();
    let mut others: Vec<SurveyTarget> = Vec::new();
    let writable = access.writable().iter().filter(|path| !root.starts_with(path));
    let wanted = |folder: PathBuf, is_thorough| SurveyTarget {
        folder,
        is_thorough,
        protect: access.protect().to_vec(),
    };
    others.extend(writable.map(|path| wanted(path.clone(), is_thorough)));
    for granted in access.readable() {
        // Of a folder of many things, such as a home, the part that the pattern is about.
        let parts = patterns.iter().filter_map(|pattern| {
            let is_inside = pattern.starts_with(granted);
            (is_inside || granted.starts_with(pattern))
                .then(|| if is_inside { pattern.clone() } else { granted.clone() })
        });
        others.extend(parts.map(|folder| wanted(folder, true)));
    }
    others.retain(|wanted| !wanted.folder.starts_with(root) && wanted.folder.is_dir());
    // The outermost first, and of the same folder the thorough one.
    others.sort_by(|a, b| a.folder.cmp(&b.folder).then(b.is_thorough.cmp(&a.is_thorough)));
    let mut wanted = vec![wanted(root.to_owned(), is_thorough)];
    for other in others {
        let covers = |one: &SurveyTarget| {
            other.folder.starts_with(&one.folder) && one.is_thorough >= other.is_thorough
        };
        if !wanted.iter().any(covers) {
            wanted.push(other);
        }
    }
    wanted
}

/// The files that `permissions.deny` covers and git tracks, by their paths in the repository: its history shows them to
/// every command.
#[must_use]
pub fn denied_and_tracked(root: &Path, permissions: &Permissions) -> Vec<PathBuf> {
    let Ok(access) = FileAccess::new(root, permissions) else { return Vec::new() };
    let (mut denied, has_patterns) = access.denied_places();
    if denied.is_empty() {
        return Vec::new();
    }
    if has_patterns {
        let project =
            SurveyTarget { folder: access.root().to_owned(), is_thorough: true, protect: Vec::new() };
        let survey = Survey::renewed(&mut None, &[project]);
        denied.extend(survey.files.iter().filter(|path| access.is_denied(path)).cloned());
    }
    let Some(repository) = git::repository_of(access.root()) else { return Vec::new() };
    let tracked = placeholders::tracked(&denied, &repository, false).unwrap_or_default();
    tracked.into_iter().map(|file| file.name).collect()
}
