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
mod network;
mod new_repositories;
mod owners_alone;
mod placeholders;
mod places;
mod plan;
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
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rawko_core::MemoryLimit;
use rawko_sandbox::{Control, Wall};

use crate::confinement::{Confined, Shortage};

use git::ProjectRepository;
use held::HeldFolders;
pub use machine::Offer;
use network::{AgentNetwork, WayOut};
use new_repositories::NewRepositories;
pub(crate) use new_repositories::settle_after;
use places::Places;
pub use plan::denied_and_tracked;
use private::PrivateFolders;
use proxy::Clients;
use survey::Survey;
pub(crate) use watched::Watched;

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
}

impl Confined {
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
}
