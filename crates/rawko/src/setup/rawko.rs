//! The entry to the SDK: a project with its configuration, ready to run tasks.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rawko_core::message::ToolCall;
use rawko_core::session::Event;
use rawko_core::setup::{ModelChoice, ProjectContext, Setup, SkillSetup};
use rawko_core::text::{hex, truncate};
use rawko_core::tool::{ToolAccess, ToolOutcome, ToolSpec};
use rawko_provider::Provider;
use rawko_tools::{FileTracker, Sandbox, Shortage, ToolContext, ToolRegistry};
use sha2::{Digest as _, Sha256};

use crate::channel::seal::Sealer;
use crate::clock::now;
use crate::config::{Loaded, has_memories};
use crate::error::Error;
use crate::journal::{FORMAT, ForkedFrom, JournalHeader, SessionStore};
use crate::memory::{self, MemoryStore};
use crate::redact::Redactor;
use crate::run::Run;
use crate::run::driver::Start;
use crate::run::launch::Launch;
use crate::run::reload::{Reloader, Reread};
use crate::session_id;
use crate::setup::assemble::{self, Providers};
use crate::setup::builder::RawkoBuilder;
use crate::setup::instructions;
use crate::skills;
use crate::telemetry;

/// Characters of the task in a journal's header.
const HEADER_TASK_CHARS: usize = 200;

/// A project, configured and checked.
///
/// ```no_run
/// # async fn example() -> Result<(), rawko::Error> {
/// let rawko = rawko::Rawko::builder().project(".").build()?;
/// let outcome = rawko.run("Implement user authentication")?.await?;
/// println!("{}", outcome.summary);
/// # Ok(())
/// # }
/// ```
pub struct Rawko {
    pub(crate) builder: RawkoBuilder,
    pub(crate) loaded: Loaded,
    pub(crate) sandbox: OnceLock<Result<Sandbox, Shortage>>,
}

/// What a new session is made of.
pub(crate) struct Prepared {
    pub(crate) task: String,
    pub(crate) setup: Setup,
    pub(crate) providers: Providers,
}

impl Rawko {
    /// Starts with the defaults: the current directory, the process's environment, no trust.
    #[must_use]
    pub fn builder() -> RawkoBuilder {
        RawkoBuilder::default()
    }

    pub(crate) fn new(builder: RawkoBuilder, loaded: Loaded) -> Self {
        Self { builder, loaded, sandbox: OnceLock::new() }
    }

    /// The configuration as it was read.
    #[must_use]
    pub fn config(&self) -> &Loaded {
        &self.loaded
    }

    /// The project's directory.
    #[must_use]
    pub fn project(&self) -> &Path {
        &self.builder.project
    }

    /// The file of standing instructions that agents are given where the folder is trusted, seen from the project.
    #[must_use]
    pub fn instructions_file(&self) -> Option<String> {
        let folder = self.builder.folder.as_deref().unwrap_or(&self.builder.project);
        let standing = instructions::standing(&self.builder.project, folder);
        standing.text.is_some().then(|| standing.from.unwrap_or_else(|| instructions::AGENTS.to_owned()))
    }

    /// The directory in which agents work: the project's, or a copy of it at another path.
    #[must_use]
    pub fn tree(&self) -> &Path {
        self.builder.tree.as_deref().unwrap_or(&self.builder.project)
    }

    /// The tools of this project's runs.
    ///
    /// # Errors
    /// [`Error::Setup`] if two tools have the same name.
    pub fn tools(&self) -> Result<ToolRegistry, Error> {
        self.registry(&Arc::default(), &skills::of_run(&self.loaded.skills))
    }

    /// The tools of a run, those of approved servers among them.
    pub(crate) fn registry(
        &self,
        tracker: &Arc<FileTracker>,
        skills: &[SkillSetup],
    ) -> Result<ToolRegistry, Error> {
        let mut registry = self.builder.registry_with_skills(tracker, &self.loaded.config, skills)?;
        for tool in self.tools_of_servers() {
            registry.add(tool).map_err(|error| Error::Setup {
                message: error.to_string(),
                hint: "a tool of a server is called `mcp__SERVER__TOOL`: give your own tool another name"
                    .to_owned(),
            })?;
        }
        Ok(registry)
    }

    /// Builds the provider of that name, with its key.
    ///
    /// # Errors
    /// [`Error::Setup`] where there is none of that name, [`Error::NoKey`] where its key is missing.
    pub fn provider(&self, name: &str) -> Result<Arc<dyn Provider>, Error> {
        let builder = &self.builder;
        match builder.providers.get(name) {
            Some(provider) => Ok(Arc::clone(provider)),
            None => assemble::provider(&self.loaded, name, &builder.environment, &builder.project),
        }
    }

    /// Prepares a run of `task`: builds the providers and opens the journal. The run itself happens when the result
    /// is awaited.
    ///
    /// # Errors
    /// [`Error::EmptyTask`], [`Error::NoKey`], [`Error::Setup`], or [`Error::Journal`] where the project cannot be
    /// written.
    pub fn run(&self, task: &str) -> Result<Run, Error> {
        if task.trim().is_empty() {
            return Err(Error::EmptyTask);
        }
        let id = session_id::given_or_new(self.builder.session_id.as_deref())?;
        self.complete_landings();
        match self.isolated(&id)? {
            Some(isolated) => isolated.in_tree(|| isolated.run_as(id, task))?,
            None => self.run_as(id, task),
        }
    }

    fn run_as(&self, id: String, task: &str) -> Result<Run, Error> {
        let Prepared { task, setup, providers } = self.prepare(task)?;
        let (task, builder) = (task.as_str(), &self.builder);
        self.begin_memories(&setup);
        let beginning = self.begin_here(None)?;
        // A dry run changes nothing: its journal is in a temporary folder, which is removed with the run.
        let scratch = builder
            .dry_run
            .then(|| rawko_tools::temporary::private("rawko-dry-run-", Some(&builder.project)))
            .transpose()
            .map_err(|source| Error::Project {
                path: rawko_tools::temporary::parent_of_small(Some(&builder.project)),
                source,
            })?;
        let store = match &scratch {
            Some(scratch) => SessionStore::at(scratch.path().to_owned()),
            None => self.sessions(),
        };
        let header = self.header(&id, task, &setup, None)?;
        let journal = store.create(&header)?;
        self.mark_tree(journal.path())?;
        let start = Start::New(Event::TaskStarted {
            task: task.to_owned(),
            setup: Box::new(setup.clone()),
            shared_events: 0,
        });
        self.launch(Launch {
            id,
            forked_from: None,
            task,
            journal,
            setup: &setup,
            providers,
            tracker: Arc::default(),
            start,
            scratch,
            beside: beginning.beside(),
        })
    }

    /// What a new session is made of, without secrets.
    pub(crate) fn prepare(&self, task: &str) -> Result<Prepared, Error> {
        let task = task.trim();
        if task.is_empty() {
            return Err(Error::EmptyTask);
        }
        let (mut setup, providers, task) = std::thread::scope(|scope| {
            // The trial of the sandbox waits for processes most of its time.
            scope.spawn(|| self.confinement().map(drop));
            let mut setup = self.with_attachments(self.unconfined()?);
            let providers = self.providers(&setup)?;
            let redactor = self.redactor(&providers);
            redactor.setup(&mut setup)?;
            Ok::<_, Error>((setup, providers, redactor.text(task)))
        })?;
        // Before there is a session.
        let confinement = self.confinement()?;
        setup.agents = assemble::with_sandbox(setup.agents, self.is_confined());
        self.check_prices(&setup)?;
        self.check_outside(&setup)?;
        self.check_search()?;
        if !confinement.runs_commands() {
            setup.verify = None;
        }
        if self.builder.dry_run {
            setup.limits.max_iterations = 1;
            let reads = |tool: &ToolSpec| tool.access == ToolAccess::ReadOnly;
            let (kept, left_out): (Vec<_>, Vec<_>) = setup.tools.into_iter().partition(reads);
            setup.tools = kept;
            setup.left_out = left_out.into_iter().map(|tool| tool.name).collect();
            setup.checkpoints = false;
            setup.verify = None;
            if let Some(memory) = &mut setup.memory {
                memory.extract = None;
            }
        }
        Ok(Prepared { task, setup, providers })
    }

    /// Memories that begin with this run are the user's own, and not those of a clone.
    fn begin_memories(&self, setup: &Setup) {
        let learns = setup.memory.as_ref().is_some_and(|memory| memory.extract.is_some());
        if let Some(store) = &self.builder.trust_store
            && learns
        {
            // Without the record they need trust, as those of others do.
            let _ = store.begin_memories(self.project());
        }
    }

    /// The header of a new session's journal, with the user's seal. Without a key there is no seal, and such a journal
    /// is resumed only if the user confirms it.
    pub(crate) fn header(
        &self,
        session: &str,
        task: &str,
        setup: &Setup,
        forked_from: Option<ForkedFrom>,
    ) -> Result<JournalHeader, Error> {
        let confinement = self.confinement_of(setup)?;
        let header = JournalHeader {
            format: FORMAT,
            rawko: env!("CARGO_PKG_VERSION").to_owned(),
            session: session.to_owned(),
            created_at: now(),
            task: truncate(task, HEADER_TASK_CHARS),
            config_digest: digest(setup),
            degraded: self.missing(&confinement),
            confined: confinement.walls(),
            seal: None,
            forked_from,
            traceparent: telemetry::caller(self),
        };
        Ok(self.sealed(header))
    }

    /// The header with the user's seal, if there is a key.
    pub(crate) fn sealed(&self, header: JournalHeader) -> JournalHeader {
        let sealer = self.builder.trust_store.as_ref().and_then(|store| Sealer::of(store).ok());
        let seal = sealer.map(|sealer| sealer.seal(&header, self.project()));
        JournalHeader { seal, ..header }
    }

    /// The sessions of this project.
    #[must_use]
    pub fn sessions(&self) -> SessionStore {
        SessionStore::of_project(&self.builder.project)
    }

    /// The memories that runs of this project are given: the project's, and the user's own.
    #[must_use]
    pub fn memories(&self) -> MemoryStore {
        let store = MemoryStore::of_project(self.project());
        let store = if self.loaded.uses_project_memories { store } else { store.without_own() };
        match &self.builder.user_config_dir {
            Some(user) => store.with_user(user),
            None => store,
        }
    }

    /// A setup with what the user gives with a new task.
    pub(crate) fn with_attachments(&self, setup: Setup) -> Setup {
        Setup { attachments: self.builder.attachments.clone(), ..setup }
    }

    /// What runs of this project are made of.
    ///
    /// # Errors
    /// [`Error::Setup`] where an agent's model cannot be resolved.
    pub fn setup(&self) -> Result<Setup, Error> {
        let setup = self.unconfined()?;
        Ok(Setup { agents: assemble::with_sandbox(setup.agents, self.is_confined()), ..setup })
    }

    /// The same without the sandbox, which takes longest to try.
    fn unconfined(&self) -> Result<Setup, Error> {
        let builder = &self.builder;
        let mut tools = self.tools()?.specs();
        tools.extend(rawko_core::agent::control_tools());
        let standing = instructions::standing(self.tree(), builder.folder.as_deref().unwrap_or(self.tree()));
        let instructions_are_data = standing.text.is_some() && !self.loaded.is_trusted;
        let mut problems = standing.problems;
        problems.extend(instructions_are_data.then(|| {
            let file = standing.from.as_deref().unwrap_or(instructions::AGENTS);
            format!("{file} is read as data, because this folder is not trusted; to have agents follow it: rawko trust")
        }));
        let place = ProjectContext {
            directory: self.tree().display().to_string(),
            folder: self.folder_inside(),
            platform: std::env::consts::OS.to_owned(),
            git: self.tree().ancestors().any(|folder| folder.join(".git").exists()),
            instructions_are_data,
            instructions: standing.text,
            instructions_from: standing.from,
            more_instructions: standing.others,
            instruction_problems: problems,
            skills: skills::of_run(&self.loaded.skills),
        };
        let first = builder.first_agent.clone();
        let verify = self.verify_setup();
        let memories = builder.project.join(memory::FOLDER).symlink_metadata();
        let memories =
            memories.ok().filter(|_| self.loaded.uses_project_memories).map(|data| data.file_type());
        let has_users = builder.user_config_dir.as_ref().is_some_and(|user| has_memories(user));
        let providers = &builder.providers;
        let setup =
            assemble::setup(&self.loaded, providers, &builder.permissions, tools, verify, place, first)?;
        let memory = assemble::memory(&self.loaded, providers, memories, has_users)?;
        let agents = assemble::with_skills(setup.agents, &setup.place.skills);
        Ok(Setup { memory, agents, ..setup })
    }

    /// Checks that what runs are made of is free of secrets. A run does so before it begins.
    ///
    /// # Errors
    /// [`Error::Setup`] that names the place and the secret.
    pub fn check_secrets(&self) -> Result<(), Error> {
        let mut setup = self.setup()?;
        // A provider without its key has no secret to find.
        let redactor = self.redactor(&self.providers(&setup).unwrap_or_default());
        redactor.setup(&mut setup)
    }

    /// Masks secrets in texts of the project's files, as they are masked toward models: the providers' keys, those of the
    /// environment and of the embedding program, and tokens that are known by their shape.
    pub fn secret_mask(&self) -> impl Fn(&str) -> String + Send + Sync + use<> {
        // A provider without its key has no secret to find.
        let providers = self.setup().and_then(|setup| self.providers(&setup)).unwrap_or_default();
        let redactor = self.redactor(&providers);
        move |text| {
            let mut outcome = ToolOutcome::ok(text);
            redactor.outcome(&mut outcome);
            outcome.content
        }
    }

    /// Makes one call of a tool outside of a run, and treats secrets as a run does: a call that holds one is refused, what
    /// was shown can be written back, and the result is masked. Does not ask whether the agent may make the call.
    pub async fn call_tool(
        &self,
        tools: &ToolRegistry,
        call: ToolCall,
        context: &ToolContext,
    ) -> ToolOutcome {
        // A provider without its key has no secret to find.
        let providers = self.setup().and_then(|setup| self.providers(&setup)).unwrap_or_default();
        let redactor = Arc::new(self.redactor(&providers));
        let mut outcome = redactor.call_tool(tools, call, context).await;
        redactor.outcome(&mut outcome);
        outcome
    }

    /// The model that the arbiter asks, or another one in its place. A provider that is named alone brings its own model.
    pub(crate) fn judge(&self, provider: Option<&str>, model: Option<&str>) -> Result<ModelChoice, Error> {
        let config = &self.loaded.config;
        let own = provider.is_none().then_some(config.arbiter.model.as_deref()).flatten();
        let provider = provider.or(config.arbiter.provider.as_deref());
        assemble::judge(config, &self.builder.providers, provider, model.or(own))
    }

    /// A budget in dollars needs the price of every model.
    pub(crate) fn check_prices(&self, setup: &Setup) -> Result<(), Error> {
        if let Some(model) = assemble::unpriced(setup) {
            return Err(Error::Setup {
                message: format!("a cost limit is set, but the price of the model `{model}` is not known"),
                hint: format!("give its price under prices.{model} in the configuration"),
            });
        }
        Ok(())
    }

    /// A search service that needs a key needs it before there is a session.
    fn check_search(&self) -> Result<(), Error> {
        let Some(brave) = &self.loaded.config.web.search.brave else { return Ok(()) };
        let variable = &brave.api_key_env;
        if (self.builder.environment)(variable).is_some_and(|key| !key.trim().is_empty()) {
            return Ok(());
        }
        Err(Error::Setup {
            message: format!("the key of web.search.brave is missing: the variable {variable} is not set"),
            hint: format!("set {variable}, or take web.search out of the configuration"),
        })
    }

    pub(crate) fn reloader(&self, setup: &Setup, redactor: Arc<Redactor>) -> Option<Reloader> {
        if self.builder.dry_run {
            return None;
        }
        let builder = self.builder.clone();
        let is_confined = setup.agents.values().any(|agent| agent.confined);
        let skills = setup.place.skills.clone();
        let usable: Vec<String> = setup.agents.values().map(|agent| agent.model.provider.clone()).collect();
        let read = move || {
            let loaded = builder.load().map_err(|error| error.to_string())?;
            let trusted = builder.trusts(&loaded).map_err(|error| error.to_string())?;
            let agents = assemble::agents(&loaded, &builder.providers, &builder.permissions)
                .map_err(|error| error.to_string())?;
            // A run keeps the skills that it began with.
            let agents = assemble::with_sandbox(assemble::with_skills(agents, &skills), is_confined);
            if let Some(agent) = agents.values().find(|agent| !usable.contains(&agent.model.provider)) {
                return Err(format!(
                    "agent `{}` now uses the provider `{}`, which this run did not begin with",
                    agent.config.name, agent.model.provider
                ));
            }
            redactor.check(&agents).map_err(|error| error.to_string())?;
            Ok(Reread { fingerprint: loaded.fingerprint, agents, trusted })
        };
        Some(Reloader::new(self.loaded.fingerprint.clone(), setup.agents.clone(), Box::new(read)))
    }
}

impl std::fmt::Debug for Rawko {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rawko").field("project", &self.builder.project).finish_non_exhaustive()
    }
}

/// SHA-256 of everything a run is configured with, in hexadecimal.
pub(crate) fn digest(setup: &Setup) -> String {
    let configured = Setup { attachments: Vec::new(), ..setup.clone() };
    let bytes = serde_json::to_vec(&configured).unwrap_or_default();
    hex(&Sha256::digest(&bytes))
}
