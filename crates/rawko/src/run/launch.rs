//! From prepared parts to a run: what a new run and a resumed one have in common.

use std::path::Path;
use std::sync::Arc;

use rawko_core::policy::effective_permissions;
use rawko_core::session::{Event, Session};
use rawko_core::setup::Setup;
use rawko_tools::{CommandRunner, Confinement, FileTracker, ToolRegistry};
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::channel::approval::Asker;
use crate::channel::beside::{Neighbours, StartPermit, running};
use crate::channel::cancel::Unfinished;
use crate::channel::control::DriverMessage;
use crate::channel::holder::{HolderMark, WorkInProgress};
use crate::channel::seal::Sealer;
use crate::channel::steering::Mailbox;
use crate::checkpoint::Checkpoints;
use crate::clock::now;
use crate::config::{Origin, Scope, user_cache_dir};
use crate::elsewhere::keyless::Keyless;
use crate::error::Error;
use crate::hooks::Gates;
use crate::integrity::IntegrityGuard;
use crate::isolation::{IsolatedTree, Workspace, complete_landings, no_entry, was_isolated};
use crate::journal::{ForkedFrom, Journal, JournalWriter, fold};
use crate::outside::OutsidePerformer;
use crate::redact::{KnownSecret, Redactor, secrets_in};
use crate::run::Run;
use crate::run::decision_cache::DecisionCache;
use crate::run::driver::{Driver, Past, Start, TreeToLand};
use crate::run::event::{InstructionsRead, RunEvent};
use crate::run::hub::Hub;
use crate::run::notify::Notifications;
use crate::run::perform::{Performer, RunStores};
use crate::run::remembering::RunMemory;
use crate::run::snapshot::Snapshots;
use crate::setup::assemble::{self, Providers};
use crate::setup::rawko::Rawko;
use crate::telemetry;

/// Everything that a run begins with.
pub(crate) struct Launch<'a> {
    pub(crate) id: String,
    pub(crate) forked_from: Option<ForkedFrom>,
    pub(crate) task: &'a str,
    pub(crate) journal: JournalWriter,
    pub(crate) setup: &'a Setup,
    pub(crate) providers: Providers,
    pub(crate) tracker: Arc<FileTracker>,
    pub(crate) start: Start,
    pub(crate) scratch: Option<TempDir>,
    /// Sessions that run in the same folder.
    pub(crate) beside: Vec<String>,
}

/// What a performer is made of.
pub(crate) struct PerformerParts<'a> {
    pub(crate) session: &'a str,
    pub(crate) task: &'a str,
    /// The session's folder.
    pub(crate) directory: &'a Path,
    pub(crate) setup: &'a Setup,
    pub(crate) providers: Providers,
    pub(crate) registry: ToolRegistry,
    pub(crate) confinement: &'a Confinement,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) past: &'a Past,
}

impl Rawko {
    /// This project in a new tree of the session `id`, if its runs are isolated.
    pub(crate) fn isolated(&self, id: &str) -> Result<Option<Self>, Error> {
        let is_isolated = self.loaded.config.workspace == Workspace::Isolated && !self.builder.dry_run;
        if !is_isolated || self.builder.isolation.is_some() {
            return Ok(None);
        }
        self.in_new_tree(id, 0).map(Some)
    }

    /// This project in the tree of the session of this journal; `None` if that is the project itself.
    pub(crate) fn in_tree_of(&self, journal: &Path, old: &Journal) -> Result<Option<Self>, Error> {
        let directory = journal.parent().unwrap_or(Path::new("."));
        if self.builder.isolation.is_some() || !was_isolated(directory) {
            return Ok(None);
        }
        let session = &old.header.session;
        if let Some(tree) = IsolatedTree::of_session(self.project(), directory) {
            if tree.is_landing() {
                return Err(Error::Setup {
                    message: format!(
                        "the work of session {session} has landed in part, and not all of it can"
                    ),
                    hint: format!("to see why: rawko land {session}"),
                });
            }
            return Ok(Some(self.within(tree)));
        }
        let folded = fold(old).session;
        let landing = folded.outcome().and_then(|outcome| outcome.landing);
        if landing.is_none_or(|landing| landing.end.is_open()) {
            return Err(Error::Setup {
                message: format!("session {session} worked in a tree of its own, which is gone"),
                hint: "move the project back to where it was, or begin anew: rawko --isolated TASK"
                    .to_owned(),
            });
        }
        // The next task begins with the project as it is now.
        let isolated = self.in_new_tree(session, folded.executions())?;
        isolated.mark_tree(journal)?;
        Ok(Some(isolated))
    }

    fn in_new_tree(&self, id: &str, since: u32) -> Result<Self, Error> {
        let directory = self.sessions().folder().join(id);
        let tree = IsolatedTree::make(self.project(), (id, &directory), (since, self.loaded.config.land))?;
        Ok(self.within(tree))
    }

    /// Completes what processes that are gone have begun to land.
    pub(crate) fn complete_landings(&self) {
        if self.builder.isolation.is_none() {
            complete_landings(self.project(), &self.sessions());
        }
    }

    fn within(&self, tree: IsolatedTree) -> Self {
        let mut builder = self.builder.clone();
        if let Some(path) = tree.path() {
            builder.tree = Some(path.to_owned());
            builder.folder = None;
        }
        builder.isolation = Some(Arc::new(tree));
        Self::new(builder, self.loaded.clone())
    }

    /// Names the tree that this project was given in the folder of the session whose journal this is.
    pub(crate) fn mark_tree(&self, journal: &Path) -> Result<(), Error> {
        let Some(tree) = &self.builder.isolation else { return Ok(()) };
        tree.mark().map_err(|source| Error::Project { path: journal.to_owned(), source })
    }

    /// Does some work in the tree that this project was given.
    pub(crate) fn in_tree<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let Some(tree) = &self.builder.isolation else { return Ok(work()) };
        tree.within().run(work).map_err(|error| no_entry(&error))
    }

    /// The folder that a run has to itself, as others see it.
    fn work_folder(&self) -> &Path {
        self.builder.isolation.as_ref().map_or_else(|| self.tree(), |tree| tree.copy())
    }

    /// Makes sure that nothing else runs in the folder, or that the user knows.
    ///
    /// # Errors
    /// [`Error::Busy`] where something does, unless the builder allows running beside it.
    pub(crate) fn begin_here(&self, own: Option<&str>) -> Result<StartPermit, Error> {
        if self.builder.dry_run {
            // It changes nothing.
            return Ok(StartPermit::new(None, Vec::new()));
        }
        let store = self.sessions();
        let guard = store.beginning()?;
        let running = running(&store, self.work_folder(), own)?;
        if !running.is_empty() && !self.builder.beside {
            return Err(Error::Busy { folder: self.work_folder().to_owned(), running });
        }
        Ok(StartPermit::new(Some(guard), running))
    }

    pub(crate) fn launch(&self, launch: Launch<'_>) -> Result<Run, Error> {
        let Launch { id, forked_from, task, journal, setup, providers, tracker, start, scratch, beside } =
            launch;
        let confinement = self.confinement_of(setup)?;
        let registry = self.registry(&tracker, &setup.place.skills)?;
        let redactor = Arc::new(self.redactor(&providers));
        let journal_path = journal.path().to_owned();
        let directory = journal_path.parent().unwrap_or(Path::new("."));
        let started = RunEvent::SessionStarted {
            session: id.clone(),
            task: task.to_owned(),
            at: now(),
            agents: setup.agents.keys().cloned().collect(),
            journal: journal_path.display().to_string(),
            resumed: matches!(start, Start::Resumed { .. } | Start::Continued { .. }),
            continued: matches!(start, Start::Continued { event: Event::TaskContinued { .. }, .. }),
            forked_from,
            dry_run: self.builder.dry_run,
            limits: Some(start.limits().unwrap_or(setup.limits)),
            so_far: start.so_far().map(Box::new),
            confined: confinement.walls(),
            degraded: self.missing(&confinement),
            instructions: InstructionsRead::of(&setup.place),
            skills: setup.place.skills.iter().map(|skill| skill.name.clone()).collect(),
        };
        let past = start.past();
        let performer = self.performer_of(PerformerParts {
            session: &id,
            task,
            directory,
            setup,
            providers,
            registry,
            confinement: &confinement,
            redactor: Arc::clone(&redactor),
            past: &past,
        });
        if !matches!(start, Start::New(_)) {
            // Otherwise, changes that someone else made in the meantime would count as the session's.
            let _ = performer.checkpoints.resume(start.goes_on());
        }
        let sealer = self.builder.trust_store.as_ref().and_then(|store| Sealer::of(store).ok());
        let mailbox = sealer.map(|sealer| Mailbox::new(&id, self.project(), directory, sealer));
        let reloader = self.reloader(setup, Arc::clone(&redactor));
        let work = WorkInProgress { folder: self.work_folder(), task, since: now() };
        let mark = HolderMark::leave(&journal_path, &confinement, work);
        let neighbours = scratch.is_none().then(|| Neighbours::of(&journal_path, &id, &beside));
        let mut hub = Hub::default();
        let notified = if scratch.is_none() { self.loaded.config.notify.as_slice() } else { &[] };
        let notifications = Notifications::of(notified, hub.watch(), self.tree());
        let snapshots = match &start {
            Start::New(_) => Snapshots::new(&id, &Session::new()),
            Start::Continued { folded, .. } | Start::Resumed { folded, .. } => {
                Snapshots::new(&id, &folded.session)
            }
        };
        let (telemetry, telemetry_end) = telemetry::begin(self, &journal_path);
        let mut unfinished = Unfinished::default();
        if matches!(start, Start::New(_)) {
            unfinished.begin(&journal_path);
        }
        let (signals, inbox) = mpsc::unbounded_channel();
        if !beside.is_empty() {
            let _ = signals.send(DriverMessage::Happened(Event::RanBeside { sessions: beside }));
        }
        let driver_signals = signals.clone();
        let driver_id = id.clone();
        let policy = self.builder.overrides.land;
        let landing = self.builder.isolation.clone().map(|tree| TreeToLand { tree, policy });
        let memory = &self.loaded.config.memory;
        let memories = self.project().join(crate::memory::FOLDER);
        let is_undecided = memory.enabled && memory.extract.is_none() && memories.symlink_metadata().is_err();
        Ok(Run {
            no_memories: is_undecided.then_some(memories),
            id,
            journal: journal_path,
            isolation: self.builder.isolation.clone(),
            signals,
            hub,
            snapshots,
            notifications,
            start,
            started,
            telemetry: telemetry_end,
            mark,
            driver: Box::new(move |seen| {
                let channel = (driver_signals, inbox);
                Driver::new(driver_id, journal, performer, redactor, reloader, seen, channel)
                    .with_mailbox(mailbox)
                    .with_scratch(scratch)
                    .with_neighbours(neighbours)
                    .with_telemetry(telemetry)
                    .landing(landing)
            }),
            unfinished,
        })
    }

    /// What performs the effects of one session.
    pub(crate) fn performer_of(&self, parts: PerformerParts<'_>) -> Performer {
        let PerformerParts {
            session,
            task,
            directory,
            setup,
            providers,
            registry,
            confinement,
            redactor,
            past,
        } = parts;
        registry.resumed(past.last_job);
        let checkpoints = Checkpoints::new(self.tree(), directory, session)
            .after(past.earlier_executions)
            .holding_checks_since(past.checks_since)
            .having_kept(past.has_kept);
        let defaults = (self.loaded.config.memory.max_injected, self.loaded.config.memory.min_importance);
        let memory = RunMemory::new(
            (self.tree().to_owned(), self.memories()),
            session.to_owned(),
            task.to_owned(),
            defaults,
            &setup.agents,
        );
        let terms = setup.verify.clone().map(Into::into);
        let guard =
            IntegrityGuard::new(checkpoints.clone(), self.tree(), directory, self.runner(confinement), terms)
                .keeping(
                    user_cache_dir(self.builder.environment.as_ref()).map(|cache| cache.join("baselines")),
                );
        Performer::new(
            providers,
            registry,
            self.tree().to_owned(),
            &setup.agents,
            RunStores { checkpoints, memory },
            Arc::new(guard),
            redactor,
        )
        .confined(confinement.clone())
        .asking(Asker {
            session: session.to_owned(),
            project: self.project().to_owned(),
            folder: directory.to_owned(),
            sealer: self.builder.trust_store.as_ref().and_then(|store| Sealer::of(store).ok()),
            person: self.builder.person.clone(),
            unattended: self.builder.unattended,
        })
        .with_gates(self.gates(session, directory, confinement))
        .with_outside(
            self.builder
                .outside
                .clone()
                .map(|agents| OutsidePerformer::new(agents, self.builder.environment.clone(), &setup.agents)),
        )
        .with_cache(self.decision_cache(setup))
        .with_seen(past.verified.clone())
    }

    /// Who is asked about calls, and the hooks of the configuration.
    fn gates(&self, session: &str, directory: &Path, confinement: &Confinement) -> Gates {
        let permissions =
            effective_permissions(&self.loaded.config.permissions, None, Some(&self.builder.permissions));
        let place = (self.tree(), permissions, confinement);
        Gates::new(self.builder.on_call.clone(), &self.loaded.hooks, (session, directory), place)
    }

    /// What runs the verification commands: with the variables that the project's agents may see.
    fn runner(&self, confinement: &Confinement) -> CommandRunner {
        let config = &self.loaded.config;
        let granted = effective_permissions(&config.permissions, None, Some(&self.builder.permissions));
        CommandRunner::new(self.tree(), granted.env.clone().unwrap_or_default())
            .confined(confinement, granted)
    }

    /// The arbiter's cache, of its own for a server that the project names.
    fn decision_cache(&self, setup: &Setup) -> Option<DecisionCache> {
        let cache = self.builder.decision_cache.clone()?.read_only(self.builder.dry_run);
        let name = &setup.arbiter.model.provider;
        let origin = self.loaded.provenance.origin(&format!("/provider/{name}/baseUrl"));
        let is_the_projects = matches!(origin, Origin::File { scope: Scope::Project, .. });
        let provider = self.loaded.config.provider(name).filter(|_| is_the_projects);
        Some(match provider.and_then(|provider| provider.config.base_url) {
            Some(address) => cache.of_server(&address),
            None => cache,
        })
    }

    /// What keeps secrets out of the journal: those of the providers, of the environment, and of the embedder.
    pub(crate) fn redactor(&self, providers: &Providers) -> Redactor {
        let builder = &self.builder;
        let config = &self.loaded.config;
        let variable = |name: &String| config.provider(name)?.key_env().map(str::to_owned);
        let keys = providers.keys().filter_map(|name| {
            let variable = variable(name)?;
            Some(KnownSecret::of_variable(&variable, (builder.environment)(&variable)?))
        });
        let search = config.web.search.brave.iter().filter_map(|brave| {
            let variable = &brave.api_key_env;
            Some(KnownSecret::of_variable(variable, (builder.environment)(variable)?))
        });
        // A child can be made to look into the environment of the process that began it.
        let variables = std::env::vars_os().chain(builder.secret_variables.iter().cloned());
        let inherited = secrets_in(variables, &builder.project);
        let named = builder.secrets.iter().cloned().map(KnownSecret::of_program);
        let of_collector = telemetry::secrets(builder.environment.as_ref()).into_iter();
        let of_collector = of_collector
            .map(|text| KnownSecret { what: "a key of the telemetry collector".to_owned(), text });
        let of_servers = self.secrets_of_servers().map(KnownSecret::of_program);
        let of_outside = self.loaded.agents.values().filter_map(|agent| {
            let variable = agent.config.acp.as_ref()?.key.as_ref()?;
            Some(KnownSecret::of_variable(variable, (builder.environment)(variable)?))
        });
        let secrets = keys
            .chain(search)
            .chain(inherited)
            .chain(named)
            .chain(of_collector)
            .chain(of_servers)
            .chain(of_outside);
        Redactor::new(secrets, providers.values().cloned()).showing_tokens(!config.secrets.mask_tokens)
    }

    pub(crate) fn providers(&self, setup: &Setup) -> Result<Providers, Error> {
        let builder = &self.builder;
        assemble::providers(setup, &builder.providers, |name| {
            match assemble::provider(&self.loaded, name, &builder.environment, &builder.project) {
                Err(Error::NoKey { provider, variable }) if builder.keys_when_called => {
                    Ok(Arc::new(Keyless { provider, variable }))
                }
                provider => provider,
            }
        })
    }
}
