//! Turns a validated configuration into the parts of a run: resolves models, merges permissions, builds providers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::FileType;
use std::path::Path;
use std::sync::Arc;

use rawko_core::agent::Permissions;
use rawko_core::arbiter::Templates;
use rawko_core::cost::PriceTable;
use rawko_core::memory::extraction::EXTRACTOR;
use rawko_core::models;
use rawko_core::policy::effective_permissions;
use rawko_core::setup::{
    AgentSetup, ArbiterMode, ArbiterSetup, CacheUse, CallRetry, ExtractSetup, MemorySetup, ModelChoice,
    ProjectContext, RunLimits, Setup, SkillSetup, VerifySetup,
};
use rawko_core::thinking::Thinking;
use rawko_core::tool::ToolSpec;
use rawko_provider::{Provider, Script, Scripted, Secret};

use crate::config::{
    Config, Loaded, LoadedAgent, Origin, ProviderType, ResolvedProvider, escape, own_skills, parse_data,
    read_data_file,
};
use crate::error::Error;
use crate::features;
use crate::hooks::asked_by_session;
use crate::http;

/// Default limit of one response, in tokens: enough for a file of a thousand lines.
const DEFAULT_MAX_TOKENS: u32 = 16_384;

/// Limit of the extractor's answer, in tokens: a memory is short.
const EXTRACTOR_ANSWER: u32 = 2_048;

/// Extra tokens for a short answer, unless the model is known not to think.
const THINKING_ROOM: u32 = 4_096;

/// Upper limit of a decision, in tokens, even after retries of answers that were cut off.
const LONGEST_DECISION: u32 = 32_768;

/// Providers by name.
pub(crate) type Providers = BTreeMap<String, Arc<dyn Provider>>;

/// Reads one environment variable.
pub(crate) type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// All parts of a run except the task.
pub(crate) fn setup(
    loaded: &Loaded,
    registered: &Providers,
    cli: &Permissions,
    mut tools: Vec<ToolSpec>,
    verify: Option<VerifySetup>,
    place: ProjectContext,
    first_agent: Option<String>,
) -> Result<Setup, Error> {
    // The setup has a digest: the same in every build, whether or not `serde_json` sorts keys by itself.
    tools.iter_mut().for_each(|tool| tool.input_schema.sort_all_objects());
    let config = &loaded.config;
    let constraints = &config.constraints;
    let arbiter = &config.arbiter;
    let judge = judge(config, registered, arbiter.provider.as_deref(), arbiter.model.as_deref())?;
    let cache = cache_use(config, &judge.provider);
    let most_tokens = Some(most_decision_tokens(&judge));
    let fallback = config.provider.fallback.iter();
    let built_in = Templates::default();
    let is_default = |pointer: &str| *loaded.provenance.origin(pointer) == Origin::Default;
    let mode = match arbiter.mode {
        // A script answers every question, unless the user wants it otherwise.
        _ if is_default("/arbiter/mode") && plays_a_script(config, registered, &judge.provider) => {
            ArbiterMode::Llm
        }
        mode => mode,
    };
    let mut setup = Setup {
        agents: agents(loaded, registered, cli)?,
        default_agent: config.agents.default.clone(),
        first_agent,
        arbiter: ArbiterSetup {
            mode,
            model: judge,
            templates: Templates {
                select: loaded.templates.select.clone().unwrap_or(built_in.select),
                evaluate: loaded.templates.evaluate.clone().unwrap_or(built_in.evaluate),
            },
            cache,
            most_tokens,
        },
        fallback: fallback
            .map(|name| {
                let mut model = choice(config, registered, Some(name), None)?;
                think(&mut model, config, None, "provider.fallback")?;
                search(&mut model, config, registered);
                Ok::<_, Error>(model)
            })
            .collect::<Result<_, _>>()?,
        retry: Some(CallRetry { patience_ms: config.provider.retry.patience.as_ms() }),
        limits: RunLimits {
            max_iterations: constraints.max_iterations,
            max_consecutive_failures: constraints.max_consecutive_failures,
            max_tokens: constraints.max_tokens,
            max_cost_usd: Some(constraints.max_cost_usd).filter(|max| *max > 0.0),
            max_duration_ms: constraints.max_duration.as_ms(),
            cost_is_default: is_default("/constraints/maxCostUsd"),
            duration_is_default: is_default("/constraints/maxDuration"),
        },
        checkpoints: true,
        prices: config.prices.clone(),
        tools,
        verify,
        memory: None,
        hooks: asked_by_session(&loaded.hooks),
        place,
        left_out: Vec::new(),
        attachments: Vec::new(),
    };
    lift_default_cost(&mut setup);
    Ok(setup)
}

/// The default cost limit counts only where the prices of all models are known.
pub(crate) fn lift_default_cost(setup: &mut Setup) {
    let limits = setup.limits;
    let without = RunLimits { max_cost_usd: None, cost_is_default: false, ..limits };
    if limits.cost_is_default && unpriced(setup).is_some() {
        setup.limits = without;
    }
}

/// A model of the run whose price is not known, if a cost limit needs it.
pub(crate) fn unpriced(setup: &Setup) -> Option<&str> {
    let prices = PriceTable::with_overrides(setup.prices.clone());
    let of_run = setup.limits.max_cost_usd.is_some();
    // What an outside agent spends is checked elsewhere.
    let limited = |agent: &&AgentSetup| {
        agent.config.acp.is_none() && (of_run || agent.config.budget.max_cost_usd.is_some())
    };
    let choices: Vec<_> = setup.agents.values().filter(limited).map(|agent| &agent.model).collect();
    // An agent with a budget may continue with any of the alternatives.
    let others = setup.fallback.iter().filter(|_| of_run || !choices.is_empty());
    let judge = of_run.then_some(&setup.arbiter.model);
    let mut all = choices.iter().copied().chain(judge).chain(others);
    all.find(|choice| prices.price(&choice.model).is_none()).map(|choice| choice.model.as_str())
}

/// A script gives its answers in order, so a cached answer would shift the others.
fn cache_use(config: &Config, provider: &str) -> CacheUse {
    if is_scripted(config, provider) { CacheUse::default() } else { config.arbiter.cache.into() }
}

/// The arbiter's model.
pub(crate) fn judge(
    config: &Config,
    registered: &Providers,
    provider: Option<&str>,
    model: Option<&str>,
) -> Result<ModelChoice, Error> {
    let mut judge = choice(config, registered, provider, model)?;
    judge.max_tokens = config.arbiter.max_tokens.saturating_add(judge.thinking_room);
    judge.temperature = Some(config.arbiter.temperature);
    // Fields such as `thinking` are meant for the agents, and do not work with a forced tool call.
    judge.extra.clear();
    Ok(judge)
}

/// The limit, in tokens, for repeating a decision that was cut off.
pub(crate) fn most_decision_tokens(judge: &ModelChoice) -> u32 {
    judge.most_answer_tokens().map_or(LONGEST_DECISION, |most| most.min(LONGEST_DECISION))
}

/// How the run uses memories. `folder` is the state of the memory folder. Without a folder, nothing is extracted by
/// default: extraction costs model calls, and is for projects that use memories. A file in its place is reported.
/// `has_users`: whether the user has memories of their own.
pub(crate) fn memory(
    loaded: &Loaded,
    registered: &Providers,
    folder: Option<FileType>,
    has_users: bool,
) -> Result<Option<MemorySetup>, Error> {
    let config = &loaded.config.memory;
    if !config.enabled {
        return Ok(None);
    }
    let extract = config.extract.unwrap_or(folder.is_some_and(|kind| kind.is_dir()));
    let extract = extract.then(|| {
        let extractor = &config.extractor;
        let (provider, model) = (extractor.provider.as_deref(), extractor.model.as_deref());
        let mut model = choice(&loaded.config, registered, provider, model)?;
        let budget = u32::try_from(extractor.max_tokens).unwrap_or(u32::MAX).max(1);
        model.max_tokens = model.max_tokens.min(EXTRACTOR_ANSWER + model.thinking_room).min(budget);
        // As for the arbiter, `thinking` does not work with a forced tool call.
        model.extra.clear();
        let prompt = loaded.templates.extractor.clone().unwrap_or_else(|| EXTRACTOR.to_owned());
        Ok::<_, Error>(ExtractSetup { model, prompt, max_tokens: extractor.max_tokens })
    });
    let setup = MemorySetup {
        inject: folder.is_some() || has_users || extract.is_some(),
        extract: extract.transpose()?,
    };
    Ok(setup.inject.then_some(setup))
}

/// The agents with their models and permissions.
pub(crate) fn agents(
    loaded: &Loaded,
    registered: &Providers,
    cli: &Permissions,
) -> Result<BTreeMap<String, AgentSetup>, Error> {
    let resolve = |(name, agent): (&String, &LoadedAgent)| {
        let config = &agent.config;
        let own = &config.provider;
        let mut model = choice(&loaded.config, registered, own.name.as_deref(), own.model.as_deref())?;
        model.max_tokens = config.limits.max_tokens.unwrap_or(model.max_tokens);
        think(&mut model, &loaded.config, own.thinking, name)?;
        search(&mut model, &loaded.config, registered);
        let permissions =
            effective_permissions(&loaded.config.permissions, config.permissions.as_ref(), Some(cli));
        let setup = AgentSetup {
            config: config.clone(),
            source: agent.source.to_string(),
            model,
            permissions,
            confined: false,
        };
        Ok((name.clone(), setup))
    };
    loaded.agents.iter().map(resolve).collect()
}

/// The same agents, each with the names of its skills, whose folders it may read.
pub(crate) fn with_skills(
    mut agents: BTreeMap<String, AgentSetup>,
    skills: &[SkillSetup],
) -> BTreeMap<String, AgentSetup> {
    for agent in agents.values_mut() {
        agent.config.skills = own_skills(&agent.config, skills.iter().map(|skill| skill.name.as_str()));
        let Some(own) = agent.config.skills.as_ref() else { continue };
        let folders = skills.iter().filter(|skill| own.includes(&skill.name)).map(|skill| &skill.folder);
        let read = agent.permissions.read.get_or_insert_with(|| vec![".".to_owned()]);
        let sees_project = read.iter().any(|granted| granted == ".");
        let folders = folders.filter(|folder| !sees_project || Path::new(folder).is_absolute());
        let more: Vec<String> = folders.filter(|folder| !read.contains(folder)).cloned().collect();
        read.extend(more);
    }
    agents
}

/// The same agents, with their commands held to their permissions by the sandbox, or not.
pub(crate) fn with_sandbox(
    mut agents: BTreeMap<String, AgentSetup>,
    is_confined: bool,
) -> BTreeMap<String, AgentSetup> {
    agents.values_mut().for_each(|agent| agent.confined = is_confined);
    agents
}

fn is_scripted(config: &Config, provider: &str) -> bool {
    config.provider(provider).is_some_and(|known| known.kind == ProviderType::Scripted)
}

fn plays_a_script(config: &Config, registered: &Providers, provider: &str) -> bool {
    match registered.get(provider) {
        Some(registered) => registered.plays_a_script(),
        None => is_scripted(config, provider),
    }
}

fn choice(
    config: &Config,
    registered: &Providers,
    provider: Option<&str>,
    model: Option<&str>,
) -> Result<ModelChoice, Error> {
    let name = provider.unwrap_or_else(|| config.default_provider());
    let known = config.provider(name);
    let settings = known.as_ref().map(|known| &known.config);
    let default_model = registered
        .get(name)
        .map(|provider| provider.default_model())
        .or_else(|| known.as_ref().and_then(ResolvedProvider::model))
        .or_else(|| known.as_ref().filter(|p| p.kind == ProviderType::Scripted).map(|_| "scripted"));
    let model = model.or(default_model).filter(|model| !model.is_empty()).ok_or_else(|| Error::Setup {
        message: format!("provider `{name}` has no default model, and none is configured"),
        hint: format!("set one: --model MODEL, RAWKO_MODEL, or provider.{name}.model in .rawko/config.yaml; `rawko providers models {name}` lists what it serves"),
    })?;
    let own = known.as_ref().filter(|_| !registered.contains_key(name));
    if let Some(others) = own.and_then(|own| own.foreign_alias(model)) {
        return Err(foreign_alias(name, model, &others));
    }
    let model = own.map_or(model, |own| own.full_name(model));
    let facts = models::find(model);
    let window = settings.and_then(|settings| settings.context_window).or(facts.context_window);
    let extra = settings.map(|settings| settings.extra.clone()).unwrap_or_default();
    let usual = window.map_or(DEFAULT_MAX_TOKENS, |window| DEFAULT_MAX_TOKENS.min(window / 4));
    Ok(ModelChoice {
        provider: name.to_owned(),
        model: model.to_owned(),
        max_tokens: settings.and_then(|settings| settings.max_tokens).unwrap_or(usual),
        context_window: window,
        max_output: settings.and_then(|settings| settings.max_output).or(facts.max_output),
        thinking_room: if facts.thinks == Some(false) { 0 } else { THINKING_ROOM },
        bound_thinking: !wants_thinking_back(&extra),
        temperature: settings.and_then(|settings| settings.temperature),
        extra,
        search: None,
    })
}

/// Adds to `model` its provider's own search of the web, where it has one and no service is configured. Whether an agent may
/// use it is the core's decision.
fn search(model: &mut ModelChoice, config: &Config, registered: &Providers) {
    let known = config.provider(&model.provider).filter(|known| !registered.contains_key(&known.name));
    if known.is_some_and(|known| known.searches(&model.model)) {
        model.search = config.web.search.hosted();
    }
}

/// The error for a short name that another service has.
fn foreign_alias(provider: &str, model: &str, others: &[&str]) -> Error {
    let own: Vec<String> =
        models::aliases(provider).map(|(short, full)| format!("{short} ({full})")).collect();
    Error::Setup {
        message: format!(
            "provider `{provider}` has no model `{model}`: that is a short name at {}",
            others.join(" and ")
        ),
        hint: format!(
            "name another provider (--provider {}), or one of its models by full or short name: {}; \
             `rawko providers models {provider}` lists them",
            others.first().copied().unwrap_or_default(),
            own.join(", ")
        ),
    }
}

/// Adds to `model` the request fields of its thinking setting: the agent's own, else the provider's.
fn think(model: &mut ModelChoice, config: &Config, own: Option<Thinking>, whose: &str) -> Result<(), Error> {
    let known = config.provider(&model.provider);
    let Some(thinking) = own.or_else(|| known.as_ref()?.config.thinking) else { return Ok(()) };
    let fields = match &known {
        Some(known) => known.thinking_fields(&model.model, thinking, Some(model.answer_tokens())),
        None => Err("a provider of your own decides itself; remove the setting".to_owned()),
    };
    let fields = fields.map_err(|why| Error::Setup {
        message: format!("{whose}: `thinking` cannot be set for the provider `{}`: {why}", model.provider),
        hint: "change `thinking` of the agent's `provider`, or of the provider".to_owned(),
    })?;
    model.extra.extend(fields);
    model.bound_thinking = !wants_thinking_back(&model.extra);
    Ok(())
}

/// Models that think within a token budget refuse a turn's calls without the thinking that led to them, and do not
/// check earlier turns (<https://platform.claude.com/docs/en/build-with-claude/extended-thinking>). All others think
/// adaptively, and check them all.
fn wants_thinking_back(extra: &serde_json::Map<String, serde_json::Value>) -> bool {
    extra.get("thinking").and_then(|thinking| thinking.get("type")).is_some_and(|kind| kind == "enabled")
}

/// The providers that `setup` names: those that are registered, and others as `build` makes them.
pub(crate) fn providers(
    setup: &Setup,
    registered: &Providers,
    build: impl Fn(&str) -> Result<Arc<dyn Provider>, Error>,
) -> Result<Providers, Error> {
    let asking = setup.agents.values().filter(|agent| agent.config.acp.is_none());
    let choices = asking.map(|agent| &agent.model);
    let extractor = setup.memory.iter().filter_map(|memory| Some(&memory.extract.as_ref()?.model));
    let names: BTreeSet<&str> = choices
        .chain([&setup.arbiter.model])
        .chain(extractor)
        .chain(&setup.fallback)
        .map(|choice| choice.provider.as_str())
        .collect();
    let mut built = Providers::new();
    for name in names {
        let provider = match registered.get(name) {
            Some(provider) => Arc::clone(provider),
            None => build(name)?,
        };
        built.insert(name.to_owned(), provider);
    }
    Ok(built)
}

/// Builds one configured provider. Keys are read only here, and only the providers get them.
pub(crate) fn provider(
    loaded: &Loaded,
    name: &str,
    environment: &Environment,
    project: &Path,
) -> Result<Arc<dyn Provider>, Error> {
    let known = loaded.config.provider(name).ok_or_else(|| Error::Setup {
        message: format!("there is no provider `{name}`"),
        hint: "`rawko providers list` shows the available ones".to_owned(),
    })?;
    let key = || {
        let key = known.key_env().map(|variable| {
            let key = environment(variable).filter(|key| !key.trim().is_empty());
            let (provider, variable) = (name.to_owned(), variable.to_owned());
            key.map(Secret::new).ok_or(Error::NoKey { provider, variable })
        });
        key.transpose()
    };
    match (known.kind, known.settings()) {
        // A key does not help where there is no HTTP.
        (_, Some(settings)) if !features::BUILT.http => http::connect(settings),
        (_, Some(settings)) => http::connect(settings.with_key(key()?)),
        (ProviderType::Copilot, None) => copilot(&known, key()?, environment, project),
        (_, None) => scripted(loaded, &known, project),
    }
}

/// GitHub Copilot, with what the environment and the configuration say.
#[cfg(feature = "copilot")]
fn copilot(
    known: &ResolvedProvider,
    key: Option<Secret>,
    environment: &Environment,
    project: &Path,
) -> Result<Arc<dyn Provider>, Error> {
    let mut settings = rawko_copilot::CopilotSettings::new(&known.name, &**environment);
    if known.config.api_key_env != crate::config::ApiKeyEnv::NotSet {
        settings.token = key;
    }
    if let Some(model) = known.model() {
        settings.default_model = model.to_owned();
    }
    if let Some(cli) = known.config.cli.as_deref().map(Path::new) {
        // A name is looked up in PATH, a path is one in the project.
        let is_name = cli.components().count() == 1;
        settings.cli = Some(if is_name { cli.to_owned() } else { project.join(cli) });
    }
    known.config.timeouts.set(&mut settings.timeouts);
    Ok(Arc::new(rawko_copilot::CopilotProvider::new(settings)))
}

#[cfg(not(feature = "copilot"))]
fn copilot(
    known: &ResolvedProvider,
    _: Option<Secret>,
    _: &Environment,
    _: &Path,
) -> Result<Arc<dyn Provider>, Error> {
    Err(Error::Setup {
        message: format!("provider `{}` is not available: this rawko was built without Copilot", known.name),
        hint: "use a released rawko, or build one with it: \
               `cargo install --locked --path crates/rawko-cli --features copilot`"
            .to_owned(),
    })
}

fn scripted(loaded: &Loaded, known: &ResolvedProvider, project: &Path) -> Result<Arc<dyn Provider>, Error> {
    let name = &known.name;
    let Some(file) = &known.config.script else {
        return Err(Error::Setup {
            message: format!("provider `{name}` is scripted, but has no script"),
            hint: format!("set provider.{name}.script to the script's file"),
        });
    };
    let path = project.join(file);
    let wrong = |what: String| Error::Setup {
        message: format!("the script {} of provider `{name}`: {what}", path.display()),
        hint: "docs/providers.md describes the format of a script".to_owned(),
    };
    // A script of the project is played as it was read for the digest that is trusted.
    let value = match loaded.project_files.iter().find(|read| read.path == Path::new(file)) {
        Some(read) => parse_data(&path, &read.text).map_err(Error::Config)?,
        None => {
            let value = read_data_file(&path).map_err(Error::Config)?;
            if loaded.provenance.is_projects(&format!("/provider/{}/script", escape(name))) {
                return Err(wrong("it could not be read with the configuration, and can be now".to_owned()));
            }
            value
        }
    };
    let script: Script = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
    Ok(Arc::new(Scripted::named(name, script)))
}

#[cfg(test)]
mod tests {
    use crate::{Error, Rawko};

    #[test]
    fn a_script_is_played_as_it_was_read_for_trust() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::create_dir(path(".rawko")).unwrap();
        let config = "provider: {s: {type: scripted, script: s.yaml}}";
        std::fs::write(path(".rawko/config.yaml"), config).unwrap();
        let build = || Rawko::builder().project(dir.path()).trusted(true).build().unwrap();
        std::fs::write(path("s.yaml"), "[]").unwrap();
        let rawko = build();
        std::fs::write(path("s.yaml"), "- this is no script").unwrap();
        assert!(rawko.provider("s").is_ok(), "what was written since is not read");
        std::fs::remove_file(path("s.yaml")).unwrap();
        let rawko = build();
        std::fs::write(path("s.yaml"), "[]").unwrap();
        let late = rawko.provider("s").map(drop).unwrap_err();
        assert!(matches!(late, Error::Setup { .. }), "{late}");
    }
}
