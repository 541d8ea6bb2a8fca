//! Builds a [`Rawko`] from a project, overrides of its configuration, and the embedder's own providers and tools.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rawko_core::agent::Permissions;
use rawko_core::approval::ApprovalQuestion;
use rawko_core::attachment::Attachment;
use rawko_core::models::Price;
use rawko_core::policy::{WEB_FETCH, WEB_SEARCH};
use rawko_core::setup::SkillSetup;
use rawko_core::tool::ToolSpec;
use rawko_provider::Provider;
use rawko_tools::{CommandTool, FileTracker, RegistryError, Tool, ToolRegistry, builtin_tools};
use serde_json::Value;

use crate::channel::approval::Approver;
use crate::checkpoint::foreign_repository;
use crate::config::{
    self, Claim, Config, CustomTool, GivenConfig, LoadOptions, Loaded, LoadedServer, McpServer,
    NO_CONFIGURATION, Overrides, Scope, TrustStore,
};
use crate::error::Error;
use crate::features::{self, Features};
use crate::hooks::{CallGate, CallVerdict, GrantedCall};
use crate::isolation::{IsolatedTree, LandingPolicy};
use crate::outside::OutsideAgents;
use crate::run::decision_cache::DecisionCache;
use crate::setup::assemble::{Environment, Providers};
use crate::setup::project_folder::check_project_folder;
use crate::setup::rawko::Rawko;
use crate::skills::SkillTool;
use crate::web;

/// Where a server comes from that no file defines.
const EMBEDDER: &str = "the embedding program";

/// Builds a [`Rawko`]. See [`Rawko::builder`].
#[derive(Clone)]
pub struct RawkoBuilder {
    pub(crate) project: PathBuf,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) tree: Option<PathBuf>,
    pub(crate) isolation: Option<Arc<IsolatedTree>>,
    pub(crate) helper: Option<PathBuf>,
    pub(crate) config_file: Option<PathBuf>,
    pub(crate) given: GivenConfig,
    pub(crate) isolated: bool,
    pub(crate) user_config_dir: Option<PathBuf>,
    pub(crate) environment: Environment,
    pub(crate) overrides: Overrides,
    pub(crate) permissions: Permissions,
    pub(crate) first_agent: Option<String>,
    pub(crate) session_id: Option<String>,
    pub(crate) servers: BTreeMap<String, McpServer>,
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) beside: bool,
    pub(crate) keeps_limits: bool,
    pub(crate) dry_run: bool,
    pub(crate) trusted: bool,
    pub(crate) trust_store: Option<TrustStore>,
    pub(crate) decision_cache: Option<DecisionCache>,
    pub(crate) providers: Providers,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) outside: Option<Arc<dyn OutsideAgents>>,
    pub(crate) person: Option<(String, Approver)>,
    pub(crate) unattended: bool,
    pub(crate) on_call: Option<CallGate>,
    pub(crate) keys_when_called: bool,
    #[cfg(feature = "mcp")]
    pub(crate) asked_by_servers: Option<rawko_mcp::AskPerson>,
    pub(crate) secrets: Vec<String>,
    pub(crate) secret_variables: Vec<(OsString, OsString)>,
}

impl Default for RawkoBuilder {
    fn default() -> Self {
        Self {
            project: PathBuf::from("."),
            folder: None,
            tree: None,
            isolation: None,
            helper: None,
            config_file: None,
            given: GivenConfig::default(),
            isolated: false,
            user_config_dir: None,
            environment: Arc::new(|name| std::env::var(name).ok()),
            overrides: Overrides::default(),
            permissions: Permissions::default(),
            first_agent: None,
            session_id: None,
            servers: BTreeMap::new(),
            attachments: Vec::new(),
            beside: false,
            keeps_limits: false,
            dry_run: false,
            trusted: false,
            trust_store: None,
            decision_cache: None,
            providers: BTreeMap::new(),
            tools: Vec::new(),
            outside: None,
            person: None,
            unattended: false,
            on_call: None,
            keys_when_called: false,
            #[cfg(feature = "mcp")]
            asked_by_servers: None,
            secrets: Vec::new(),
            secret_variables: Vec::new(),
        }
    }
}

impl RawkoBuilder {
    /// Sets the project's directory. Default: the current directory.
    #[must_use]
    pub fn project(mut self, directory: impl Into<PathBuf>) -> Self {
        self.project = directory.into();
        self
    }

    /// Sets the folder inside the project from which rawko searches upwards for the nearest `AGENTS.md` or `CLAUDE.md`. Default: the
    /// project's directory, which also applies if the folder is outside it.
    #[must_use]
    pub fn folder(mut self, directory: impl Into<PathBuf>) -> Self {
        self.folder = Some(directory.into());
        self
    }

    /// Sets another copy of the project, in which agents work instead of in its directory. Configuration, trust, memories and
    /// sessions stay the project's.
    #[must_use]
    pub fn tree(mut self, directory: impl Into<PathBuf>) -> Self {
        self.tree = Some(directory.into());
        self
    }

    /// Has runs work in trees of their own: see [`Workspace::Isolated`](crate::Workspace). They are in the folder for state of the
    /// user who runs this process (`XDG_STATE_HOME`, `HOME`).
    #[must_use]
    pub fn isolated(mut self) -> Self {
        self.overrides.isolated = true;
        self
    }

    /// Sets when the work of isolated runs lands in the project.
    #[must_use]
    pub fn land(mut self, policy: LandingPolicy) -> Self {
        self.overrides.land = Some(policy);
        self
    }

    /// Sets the program that confines commands: an installed `rawko`, or a program whose `main` begins with
    /// [`run_helper_if_asked`](crate::tools::run_helper_if_asked). It is started for each command, so it does not matter what
    /// runtime and how many threads this process has. Default: this program, if it made that call while it had one thread,
    /// else the `rawko` beside it or in `PATH`. A program that is no helper is an error when a run begins.
    #[must_use]
    pub fn helper(mut self, program: impl Into<PathBuf>) -> Self {
        self.helper = Some(program.into());
        self
    }

    /// Reads this configuration file instead of the project's `.rawko/config.yaml`.
    #[must_use]
    pub fn config_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.config_file = Some(path.into());
        self
    }

    /// Sets the whole configuration, as YAML, JSON or a [`serde_json::Value`], instead of the project's `.rawko/config.yaml`. It is
    /// checked like the file, and needs no trust.
    #[must_use]
    pub fn config(mut self, configuration: impl ToString) -> Self {
        self.given.config = Some(configuration.to_string());
        self
    }

    /// Adds an agent, as its file would be written: YAML, JSON, a [`serde_json::Value`], or Markdown that begins with `---`. It
    /// takes the place of any other of its name, is checked like a file, and needs no trust.
    #[must_use]
    pub fn agent(mut self, agent: impl ToString) -> Self {
        self.given.agents.push(agent.to_string());
        self
    }

    /// Sets the price of a model, and of those whose names begin with its name, whatever the configuration says.
    #[must_use]
    pub fn price(mut self, model: impl Into<String>, price: Price) -> Self {
        self.given.prices.push((model.into(), price));
        self
    }

    /// Reads nothing of the user who runs this program: neither `~/.claude` and `~/.agents`, even with [`Self::user_config_dir`],
    /// nor settings from variables such as `RAWKO_MODEL` and `ANTHROPIC_BASE_URL`. Keys still come from the environment.
    #[must_use]
    pub fn isolated_from_user(mut self) -> Self {
        self.isolated = true;
        self
    }

    /// Sets the directory of the user's `config.yaml`, agents, skills and memories, e.g. `~/.config/rawko`. With it, what the user
    /// keeps in `~/.agents` and `~/.claude` is read too, if the environment has `HOME`. Default: nothing of the user is read.
    #[must_use]
    pub fn user_config_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.user_config_dir = Some(directory.into());
        self
    }

    /// Sets the source of environment variables, including keys. Default: the process's environment.
    #[must_use]
    pub fn env(mut self, lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.environment = Arc::new(lookup);
        self
    }

    /// Sets values that override all files and variables, as command-line flags do.
    #[must_use]
    pub fn overrides(mut self, overrides: Overrides) -> Self {
        self.overrides = overrides;
        self
    }

    /// Sets the verification commands, instead of the configured ones and those that rawko would find. An empty list runs
    /// none.
    #[must_use]
    pub fn verify(mut self, commands: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.overrides.verify = Some(commands.into_iter().map(Into::into).collect());
        self
    }

    /// Lets the run change the checks that verify it: for tasks that are about the tests. The result names what changed.
    #[must_use]
    pub fn allow_changed_checks(mut self) -> Self {
        self.overrides.allow_changed_checks = true;
        self
    }

    /// Sets permissions that override the project's, as `--allow-*` flags do. Agents still narrow them.
    #[must_use]
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = permissions;
        self
    }

    /// Starts with this agent, without asking the arbiter.
    #[must_use]
    pub fn first_agent(mut self, name: impl Into<String>) -> Self {
        self.first_agent = Some(name.into());
        self
    }

    /// Sets the id of the session that [`Rawko::run`] begins: one of [`new_session_id`](crate::new_session_id) that no session
    /// has. For a program that names a session before there is a task. Default: a new one for each.
    #[must_use]
    pub fn session_id(mut self, id: impl Into<String>) -> Self {
        self.session_id = Some(id.into());
        self
    }

    /// Adds a server of tools (MCP). It is the user's own, as one of their configuration is: its tools need the same
    /// approval ([`McpHandle::accept`](crate::McpHandle::accept)), and its program the same permissions. A server of the user's
    /// configuration with this name is used in its place.
    #[must_use]
    pub fn mcp_server(mut self, name: impl Into<String>, server: McpServer) -> Self {
        self.servers.insert(name.into(), server);
        self
    }

    /// Gives this with the tasks of [`Rawko::run`] and [`Rawko::continue_session`]: text and pictures that agents see as
    /// data. [`attachment`](crate::attachment) makes one of the bytes of a file.
    #[must_use]
    pub fn attach(mut self, attachments: impl IntoIterator<Item = Attachment>) -> Self {
        self.attachments.extend(attachments);
        self
    }

    /// Begins also where another session runs in the same folder. Both record it, and their outcomes name the other
    /// ([`Outcome::beside`](crate::Outcome::beside)). Without this, such a run is refused ([`Error::Busy`]).
    #[must_use]
    pub fn beside_others(mut self, beside: bool) -> Self {
        self.beside = beside;
        self
    }

    /// Never raises a limit of a session that goes on: [`Rawko::resume`] and [`Rawko::continue_session`] take the lower one of
    /// the session's and of what is configured or given here. For a program that acts on the word of another, and not of the
    /// user. Default: what is given here counts.
    #[must_use]
    pub fn keep_limits(mut self, keep: bool) -> Self {
        self.keeps_limits = keep;
        self
    }

    /// Makes a dry run: only the first decision and one execution, with read-only tools, and without keeping a journal.
    #[must_use]
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Trusts the project's configuration, even if it sets addresses that keys are sent to, commands to run, or
    /// wider permissions. Without this, such a configuration is refused ([`Error::Untrusted`]), the project's prompt
    /// templates, memories and skills are not used, and agents read its `AGENTS.md` as data.
    #[must_use]
    pub fn trusted(mut self, trusted: bool) -> Self {
        self.trusted = trusted;
        self
    }

    /// Needs the key of a provider only for its calls: one whose key is missing fails them, and not the beginning. For a process that
    /// performs single effects of sessions, and perhaps no model calls at all.
    #[must_use]
    pub fn keys_when_called(mut self, when_called: bool) -> Self {
        self.keys_when_called = when_called;
        self
    }

    /// Sets the store of trusted folders. A configuration that is trusted there needs no [`Self::trusted`].
    #[must_use]
    pub fn trust_store(mut self, store: TrustStore) -> Self {
        self.trust_store = Some(store);
        self
    }

    /// Sets the directory of the arbiter's cache, e.g. `~/.cache/rawko`. Default: decisions are not cached.
    #[must_use]
    pub fn decision_cache(mut self, cache: DecisionCache) -> Self {
        self.decision_cache = Some(cache);
        self
    }

    /// Adds a provider of your own. It becomes the default unless the configuration sets another.
    #[must_use]
    pub fn provider(mut self, provider: Arc<dyn Provider>) -> Self {
        self.providers.insert(provider.name().to_owned(), provider);
        self
    }

    /// Adds a tool of your own. `tools.allowed` and `tools.blocked` of agents apply to it as to any other.
    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Sets what speaks with the programs of agents with `acp:`. Without it, a run with such an agent is refused. The crate
    /// `rawko-acp` has one that speaks the Agent Client Protocol.
    #[must_use]
    pub fn outside_agents(mut self, agents: Arc<dyn OutsideAgents>) -> Self {
        self.outside = Some(agents);
        self
    }

    /// Sets the function that is asked about a call that is not granted, if `permissions.ask` allows asking: the
    /// function says yes (`Some(true)`), no, or nothing (`None`). Then, and until it says something, `rawko approve`
    /// may answer; when the question's time is up, the answer is no. `by` is the name that is recorded. The future is
    /// dropped once another answer counts.
    #[must_use]
    pub fn on_approval<F, Answer>(mut self, by: impl Into<String>, ask: F) -> Self
    where
        F: Fn(ApprovalQuestion) -> Answer + Send + Sync + 'static,
        Answer: Future<Output = Option<bool>> + Send + 'static,
    {
        self.person = Some((by.into(), Arc::new(move |question| Box::pin(ask(question)))));
        self
    }

    /// Sets the function that sees every tool call before it is made, those that only read and those of servers (MCP) included,
    /// and allows or denies it. The call is granted already: a denial goes to the agent as the call's result, with the
    /// reason, and is journaled; to allow it grants nothing. A function that panics denies. Not seen are `Report` and
    /// `UpdatePlan`, which do nothing outside the run, and searches that a provider makes itself. A later function replaces
    /// an earlier one.
    #[must_use]
    pub fn on_call<F, Answer>(mut self, gate: F) -> Self
    where
        F: Fn(GrantedCall) -> Answer + Send + Sync + 'static,
        Answer: Future<Output = CallVerdict> + Send + 'static,
    {
        self.on_call = Some(Arc::new(move |call| Box::pin(gate(call))));
        self
    }

    /// Says that no one is there to answer: a call that would need approval is refused at once, without waiting.
    #[must_use]
    pub fn unattended(mut self, unattended: bool) -> Self {
        self.unattended = unattended;
        self
    }

    /// Adds a secret that must not reach a model, the journal or an event stream. Keys of providers, and
    /// environment variables whose names suggest a secret, are redacted without this.
    #[must_use]
    pub fn secret(mut self, text: impl Into<String>) -> Self {
        self.secrets.push(text.into());
        self
    }

    /// Adds environment variables that are no longer in the process's environment, which
    /// [`take_secret_variables`](crate::tools::take_secret_variables) gave. Their values are redacted as if they were there;
    /// [`Self::env`] has to look them up.
    #[must_use]
    pub fn secret_variables(mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.secret_variables.extend(variables);
        self
    }

    /// Reads and checks the configuration.
    ///
    /// # Errors
    /// [`Error::Config`] with all errors of all files; [`Error::Untrusted`] if trust is needed and not given;
    /// [`Error::Setup`] if something is not possible on this machine.
    pub fn build(self) -> Result<Rawko, Error> {
        let project = canonical(&self.project)?;
        let tree = self.tree.as_deref().map(canonical).transpose()?.filter(|tree| *tree != project);
        let builder = Self { project, tree, ..self };
        check_project_folder(&builder.project)?;
        let mut loaded = builder.load()?;
        if let Some(claims) = builder.untrusted_claims(&loaded)? {
            return Err(Error::Untrusted { folder: builder.project, claims });
        }
        // A damaged store trusts nothing.
        if !builder.trusted && !builder.trusts(&loaded).unwrap_or_default() {
            let own = |store: &TrustStore| store.has_own_memories(&builder.project).unwrap_or_default();
            let has_own_memories = builder.trust_store.as_ref().is_some_and(own);
            loaded.distrust(&builder.project, builder.user_config_dir.as_deref(), has_own_memories);
        }
        let fetches = builder.tools.iter().any(|tool| tool.spec().name == WEB_FETCH);
        Features { web: features::BUILT.web || fetches, ..features::BUILT }.check(&loaded)?;
        loaded.settle_skills();
        loaded.warn_of_outside_agents();
        if let Some(dot_git) = foreign_repository(&builder.project) {
            let message = "this names a repository that does not name this folder back, so checkpoints are kept apart from it";
            let help = "if it is yours, say so there: git config core.worktree DIR".to_owned();
            loaded.warnings.push(config::Diagnostic::of_file(&dot_git, message, Some(help)));
        }
        if let Some(name) = &builder.first_agent
            && !loaded.agents.contains_key(name)
        {
            let known: Vec<&str> = loaded.agents.keys().map(String::as_str).collect();
            return Err(Error::Setup {
                message: format!("there is no agent `{name}`"),
                hint: format!("the available agents are: {}", known.join(", ")),
            });
        }
        let mut rawko = Rawko::new(builder, loaded);
        rawko.warn_of_servers();
        Ok(rawko)
    }

    /// The project's claims, if there are any and the folder is not trusted.
    pub(crate) fn untrusted_claims(&self, loaded: &Loaded) -> Result<Option<Vec<Claim>>, Error> {
        let claims = &loaded.claims;
        if self.trusted || claims.is_empty() {
            return Ok(None);
        }
        Ok((!self.trusts(loaded)?).then(|| claims.to_vec()))
    }

    /// Whether the user trusts exactly the current content of the project's files.
    pub(crate) fn trusts(&self, loaded: &Loaded) -> Result<bool, Error> {
        let digest = loaded.project_digest.as_deref().unwrap_or(NO_CONFIGURATION);
        match &self.trust_store {
            Some(store) => Ok(store.is_trusted(&self.project, digest)?),
            None => Ok(false),
        }
    }

    pub(crate) fn load(&self) -> Result<Loaded, Error> {
        let registry = self.registry(&Arc::default(), &Config::default())?;
        let mut known_tools: Vec<&str> = registry.names();
        known_tools.extend(rawko_core::policy::CONTROL_TOOLS);
        known_tools.push(rawko_core::agent::SKILL);
        // An agent may list them, whether or not a search service is configured. What this program lacks is said later.
        known_tools.extend([WEB_SEARCH, WEB_FETCH].into_iter().filter(|name| registry.get(name).is_none()));
        let known_providers: Vec<&str> = self.providers.keys().map(String::as_str).collect();
        let options = LoadOptions {
            project_dir: &self.project,
            user_dir: self.user_config_dir.as_deref(),
            config_file: self.config_file.as_deref(),
            env: self.environment.as_ref(),
            overrides: &self.overrides,
            known_tools: &known_tools,
            known_providers: &known_providers,
            given: &self.given,
            isolated: self.isolated,
        };
        let mut loaded = config::load(&options).map_err(Error::Config)?;
        for (name, server) in &self.servers {
            config::check_server(name, server)?;
            let is_the_users = |known: &LoadedServer| known.scope == Scope::User;
            if !loaded.mcp.get(name).is_some_and(is_the_users) {
                let path = PathBuf::from(EMBEDDER);
                let added = LoadedServer { config: server.clone(), path, scope: Scope::User, plugin: None };
                loaded.mcp.insert(name.clone(), added);
            }
        }
        Ok(loaded)
    }

    /// The same with the tool that returns these skills, if there are any.
    pub(crate) fn registry_with_skills(
        &self,
        tracker: &Arc<FileTracker>,
        config: &Config,
        skills: &[SkillSetup],
    ) -> Result<ToolRegistry, Error> {
        let mut registry = self.registry(tracker, config)?;
        if let Some(tool) = SkillTool::of(self.project.clone(), skills) {
            registry.add(Arc::new(tool)).map_err(no_such_name)?;
        }
        Ok(registry)
    }

    /// Collects the built-in, the embedder's and the configured tools.
    pub(crate) fn registry(
        &self,
        tracker: &Arc<FileTracker>,
        config: &Config,
    ) -> Result<ToolRegistry, Error> {
        let mut registry = ToolRegistry::new();
        let builtin = builtin_tools(tracker);
        let configured = config.tools.iter().filter_map(command_tool);
        let of_web = web::tools(&config.web.search, |name| (self.environment)(name));
        let builtin = builtin.into_iter().chain(of_web);
        for tool in builtin.chain(self.tools.iter().cloned()).chain(configured) {
            registry.add(tool).map_err(no_such_name)?;
        }
        Ok(registry)
    }
}

fn no_such_name(error: RegistryError) -> Error {
    Error::Setup { message: error.to_string(), hint: "give the tool another name".to_owned() }
}

/// Builds the tool of an entry of `tools:`. `None` without a program, which validation has already refused.
fn command_tool(tool: &CustomTool) -> Option<Arc<dyn Tool>> {
    let (program, arguments) = tool.command.split_first()?;
    let spec = ToolSpec {
        name: tool.name.clone(),
        description: tool.description.clone(),
        input_schema: Value::Object(tool.input_schema.clone()),
        access: tool.access,
    };
    let command = CommandTool::new(spec, program).arguments(arguments);
    Some(Arc::new(match tool.timeout {
        Some(timeout) => command.timeout(timeout.as_duration()),
        None => command,
    }))
}

fn canonical(path: &Path) -> Result<PathBuf, Error> {
    let wrong = |source| Error::Project { path: path.to_owned(), source };
    let real = path.canonicalize().map_err(wrong)?;
    if real.is_dir() { Ok(real) } else { Err(wrong(std::io::Error::from(std::io::ErrorKind::NotADirectory))) }
}
