//! Confines the commands of agents and of verification to what their permissions grant (`docs/spec/bash-and-sandbox.md`).
//!
//! Owns what a command may see and change: the view is computed here, from permissions and from what this machine and
//! this project look like. `rawko-sandbox` makes it true.

mod git;
mod machine;
mod places;
mod private;
mod survey;
mod view;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rawko_core::agent::Permissions;
use rawko_sandbox::{Control, Network, Plan, Report, Shared};

use crate::access::FileAccess;

pub use machine::{Offer, Shortage};
use places::Places;
use private::PrivateFolders;
use survey::Survey;

/// The most processes that one command may have at the same time.
const MAX_PROCESSES: u64 = 8_192;

/// The sandbox of one run. Clones are the same sandbox.
#[derive(Debug, Clone)]
pub struct Sandbox(Arc<RunSandbox>);

#[derive(Debug)]
struct RunSandbox {
    helper: PathBuf,
    offer: Offer,
    places: Places,
    private: PrivateFolders,
    survey: Mutex<Option<Survey>>,
    /// The namespaces that the commands of each agent share, by its name.
    shared: Mutex<BTreeMap<String, Arc<Shared>>>,
}

/// Who runs a command, and what they may touch.
#[derive(Debug, Clone)]
pub(crate) struct Confined {
    pub(crate) sandbox: Sandbox,
    /// The name of the folders that hold what the command's tools keep: an agent's name.
    pub(crate) who: String,
    pub(crate) permissions: Arc<Permissions>,
    /// The project.
    pub(crate) root: PathBuf,
    /// What it may read besides.
    pub(crate) also: Vec<PathBuf>,
}

impl Sandbox {
    /// The sandbox of a run in the project at `root`, if this machine has what it takes. `cache` is the user's folder for what can be made again;
    /// `variable` reads the environment.
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
        let helper = helper.to_owned();
        Ok(Self(Arc::new(RunSandbox { helper, offer, places, private, survey: Mutex::default(), shared: Mutex::default() })))
    }

    /// What this machine offers.
    #[must_use]
    pub fn offer(&self) -> Offer {
        self.0.offer
    }

    pub(crate) fn helper(&self) -> &Path {
        &self.0.helper
    }

    /// Has the helper begin, in the namespaces of the agent's earlier commands if there are some.
    pub(crate) fn begin(&self, control: &mut Control, plan: &Plan, who: &str) -> io::Result<()> {
        let shared = self.shared().get(who).cloned();
        control.send(plan, shared.as_deref())?;
        if shared.is_none()
            && let Some(Report::Ready) = control.next()?
            && let Some((made, _)) = control.take_shared()
        {
            // Two first commands at the same time have namespaces of their own.
            self.shared().entry(who.to_owned()).or_insert_with(|| Arc::new(made));
        }
        Ok(())
    }

    fn shared(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Shared>>> {
        self.0.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Confined {
    /// The plan for one command.
    pub(crate) fn plan(&self, directory: &Path, input: &[u8]) -> io::Result<Plan> {
        let run = &self.sandbox.0;
        let access = FileAccess::new(&self.root, &self.permissions).map_err(io::Error::other)?;
        let own = run.private.of(&self.who)?;
        let survey = {
            let mut last = run.survey.lock().unwrap_or_else(PoisonError::into_inner);
            Survey::renewed(&mut last, access.root())
        };
        let builder = view::Builder {
            access: &access,
            places: &run.places,
            own: &own,
            survey: &survey,
            also: &self.also,
            can_layer: run.offer.layers,
        };
        Ok(Plan {
            directory: std::fs::canonicalize(directory)?,
            view: builder.steps(),
            temporary: own.temporary.clone(),
            network: Network::Own,
            input: input.to_owned(),
            max_processes: MAX_PROCESSES,
        })
    }
}
