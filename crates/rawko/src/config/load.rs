//! Loads files, environment and flags into one validated [`Config`] with its agents.
//!
//! Owns the order of loading: read everything, collect every error, then return. It reads only
//! files below the two directories that the caller names; the environment is an argument.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rawko_core::agent::SandboxUse;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::skills::{self, Skill};

use super::agent_file::document;
use super::agent_rules;
use super::claim::Claim;
use super::claims;
use super::config_rules::{self, KnownNames};
use super::diagnostic::{ConfigErrors, Diagnostic};
use super::fingerprint::Fingerprint;
use super::given::GivenConfig;
use super::hooks::{self, LoadedHook};
use super::layers::{FileLayer, Layers, Provenance};
use super::mcp::{self, LoadedServer, MCP_JSON};
use super::model::Config;
use super::plugins::{self, Plugin};
use super::provider::{choose_default, move_keys};
use super::schema::{FileKind, Validated, validate};
use super::settings::{LooseModel, Overrides, push_environment, push_flags};
use super::source::{ProjectFile, Scope, SourceFile};
use super::team::LoadedAgent;
use super::temperature;
use super::thinking;
use super::yaml::escape;
use rawko_core::text::hex;

/// The sources to load from.
pub struct LoadOptions<'a> {
    /// The project's directory, which contains `.rawko/`.
    pub project_dir: &'a Path,
    /// The directory of the user's `config.yaml` (see [`user_config_dir`](super::user_config_dir)).
    pub user_dir: Option<&'a Path>,
    /// Looks up an environment variable by name.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Settings from the command line.
    pub overrides: &'a Overrides,
    /// Names of the available tools, without custom ones. Empty: names of tools are not checked.
    pub known_tools: &'a [&'a str],
    /// Names of the providers that the embedder registered.
    pub known_providers: &'a [&'a str],
    /// A file to read instead of the project's `config.yaml` (`--config`).
    pub config_file: Option<&'a Path>,
    /// What the embedding program gives in code.
    pub given: &'a GivenConfig,
    /// Whether nothing is read of the user besides `user_dir`: neither the home, nor variables other than those of keys.
    pub isolated: bool,
}

/// A valid configuration, with its agents and the origin of its values.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// The agents by name. The project's go before the user's, and these before built-in ones.
    pub agents: BTreeMap<String, LoadedAgent>,
    /// The project's own prompt templates.
    pub templates: OwnTemplates,
    /// The skills, those with precedence first. Their states say which are used.
    pub skills: Vec<Skill>,
    /// The servers of tools by name, without those that are switched off.
    pub mcp: BTreeMap<String, LoadedServer>,
    /// The hooks of the configuration and of Claude Code's settings, the user's first, then those of plug-ins.
    pub hooks: Vec<LoadedHook>,
    /// The plug-ins that are installed and approved as they are. Their agents, skills, servers and hooks are among those above.
    pub plugins: Vec<Plugin>,
    /// Findings that are not errors, such as a file that is ignored.
    pub warnings: Vec<Diagnostic>,
    /// The origin of each setting.
    pub provenance: Provenance,
    /// Detects changes of the files.
    pub fingerprint: Fingerprint,
    /// SHA-256 of the content of the project's own files, in hex. [`TrustStore`](super::TrustStore) records trust in it.
    /// `None` if the project has no configuration.
    pub project_digest: Option<String>,
    /// The project's own files that trust covers, by name, as they were read for the digest.
    pub project_files: Vec<ProjectFile>,
    /// What the project's files claim and only a trusted folder gets. If empty, the folder needs no trust.
    pub claims: Vec<Claim>,
    /// Whether agents are given the project's memories, if any.
    pub uses_project_memories: bool,
    /// Whether the folder is trusted, or was not asked about (as in `rawko config show`).
    pub is_trusted: bool,
}

/// A project's own prompt templates, each of which replaces a built-in one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnTemplates {
    /// Content of `.rawko/prompts/memory-extractor.md`.
    pub extractor: Option<String>,
    /// Content of `.rawko/prompts/arbiter-select.md`.
    pub select: Option<String>,
    /// Content of `.rawko/prompts/arbiter-evaluate.md`.
    pub evaluate: Option<String>,
}

/// Loads and validates everything.
///
/// # Errors
/// Returns all errors of all files at once.
pub fn load(options: &LoadOptions<'_>) -> Result<Loaded, ConfigErrors> {
    let mut loader = Loader {
        options,
        fingerprint: Fingerprint::default(),
        hashed: Vec::new(),
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    loader.run().map_err(|()| ConfigErrors::new(std::mem::take(&mut loader.errors)))
}

pub(super) struct Loader<'a> {
    pub(super) options: &'a LoadOptions<'a>,
    pub(super) fingerprint: Fingerprint,
    /// Names and contents of the project's own files.
    pub(super) hashed: Vec<SourceFile>,
    pub(super) errors: Vec<Diagnostic>,
    pub(super) warnings: Vec<Diagnostic>,
}

impl Loader<'_> {
    /// Returns `Err` if `self.errors` is not empty.
    fn run(&mut self) -> Result<Loaded, ()> {
        let mut layers = self.layers();
        let mut config = self.typed(&layers);
        if let Some(config) = &mut config {
            move_keys(config, &mut layers.provenance, self.options.env);
        }
        let agents = self.agents(&layers, config.as_ref());
        let templates = self.templates();
        let mut plugins = self.plugins(config.as_ref());

        let builtin = self.builtin_agents(&layers, config.as_ref());
        let mut names: Vec<&str> = builtin.iter().map(|agent| agent.name.as_str()).collect();
        let found = agents.files.iter().map(|file| file.name.as_str());
        names.extend(found.chain(agents.translated.iter().map(|(agent, _)| agent.name.as_str())));
        names
            .extend(plugins.iter().flat_map(|plugin| &plugin.agents).map(|agent| agent.config.name.as_str()));
        names.sort_unstable();
        names.dedup();
        let known = KnownNames {
            agents: &names,
            tools: self.options.known_tools,
            custom_tools: &layers.names_in("/tools"),
            registered: self.options.known_providers,
            providers: &layers.names_in("/provider"),
            is_whole: !layers.unreadable,
        };
        if let Some(config) = &config {
            self.errors.extend(config_rules::check(config, &layers, &known));
            let own = agents.files.iter().filter_map(|file| file.config.as_ref());
            let all = own.chain(agents.translated.iter().map(|(agent, _)| agent));
            self.errors.extend(temperature::check(config, &layers, all));
            self.errors.extend(thinking::check(config, &layers, &agents.files));
        }
        self.errors.extend(agent_rules::check(&agents.files, &known));
        let Some(config) = config.filter(|_| self.errors.is_empty()) else { return Err(()) };

        self.hash_scripts(&config, &layers);
        let skills = self.skills(&plugins);
        let mcp = self.mcp_servers(&config, &layers, &mut plugins);
        let hooks = self.hooks(&config, &layers, &plugins);
        let claims =
            claims::of(&config, &layers, &agents.files, &agents.translated, self.options.project_dir);
        Ok(Loaded {
            agents: agents.merged(builtin, &plugins),
            config,
            templates,
            skills,
            mcp,
            hooks,
            plugins,
            warnings: std::mem::take(&mut self.warnings),
            provenance: layers.provenance,
            fingerprint: std::mem::take(&mut self.fingerprint),
            project_digest: self.digest(),
            project_files: self.hashed.iter().map(ProjectFile::from).collect(),
            claims,
            uses_project_memories: true,
            is_trusted: true,
        })
    }

    /// Merges files, environment and flags.
    fn layers(&mut self) -> Layers {
        let mut layers = Layers::default();
        if let Some(directory) = self.options.user_dir {
            let path = directory.join("config.yaml");
            self.config_file(&mut layers, &path, &path, Scope::User);
        }
        let is_given = self.given_config(&mut layers);
        match self.options.config_file.filter(|_| !is_given) {
            Some(path) => {
                let absolute = self.options.project_dir.join(path);
                let scope =
                    if is_inside(&absolute, self.options.project_dir) { Scope::Project } else { Scope::User };
                if absolute.symlink_metadata().is_err() {
                    let help = "pass the path of an existing configuration file";
                    let missing = Diagnostic::of_file(path, "there is no such file", Some(help.to_owned()));
                    self.errors.push(missing);
                }
                self.config_file(&mut layers, &absolute, path, scope);
            }
            None if is_given => {}
            None => {
                let name = Path::new(".rawko/config.yaml");
                self.config_file(&mut layers, &self.options.project_dir.join(name), name, Scope::Project);
                self.warn_of_misnamed();
            }
        }
        let configured: Vec<String> = layers.names_in("/provider").into_iter().map(str::to_owned).collect();
        let from_environment = if self.options.isolated {
            None
        } else {
            push_environment(&mut layers, self.options.env, &mut self.errors)
        };
        self.given_prices(&mut layers);
        let from_flag = push_flags(&mut layers, self.options.overrides, &mut self.errors);
        if layers.get("/provider/default").is_none() {
            let (name, origin) = choose_default(&configured, self.options.known_providers, self.options.env);
            layers.set("/provider/default", Value::from(name), origin);
        }
        if let Some(LooseModel { model, origin }) = from_flag.or(from_environment)
            && let Some(name) = layers.get("/provider/default").and_then(Value::as_str)
        {
            let pointer = format!("/provider/{}/model", escape(name));
            layers.set(&pointer, Value::from(model), origin);
        }
        layers
    }

    /// Merges the valid part of one file over the others, if the file exists.
    fn config_file(&mut self, layers: &mut Layers, path: &Path, name: &Path, scope: Scope) {
        let source = match self.read(path, name, scope) {
            Ok(Some(source)) => source,
            Ok(None) => return,
            Err(()) => {
                layers.unreadable = true;
                return;
            }
        };
        self.layer(layers, source);
    }

    /// Merges the valid part of a configuration over the others.
    pub(super) fn layer(&mut self, layers: &mut Layers, source: SourceFile) {
        match document(&source, &source.text, 0) {
            Ok(document) => {
                let Validated { sound, unsound, findings } = validate(FileKind::Config, &document, &source);
                self.errors.extend(findings);
                layers.push_file(FileLayer { source, document, value: sound, unsound });
            }
            Err(errors) => {
                self.errors.extend(errors);
                layers.unreadable = true;
            }
        }
    }

    /// Reads the file at `path`, if it exists. Returns `Err` if it exists and cannot be read.
    pub(super) fn read(&mut self, path: &Path, name: &Path, scope: Scope) -> Result<Option<SourceFile>, ()> {
        self.fingerprint.note(path);
        let within = (scope == Scope::Project).then_some(self.options.project_dir);
        let source = SourceFile::read(path, name, scope, within).map_err(|error| self.errors.push(*error))?;
        if scope == Scope::Project {
            self.hashed.extend(source.clone());
        }
        Ok(source)
    }

    fn warn_of_misnamed(&mut self) {
        for name in [".rawko/config.yml", ".rawko/config.json", ".rawko/config.toml"] {
            if self.options.project_dir.join(name).exists() {
                let help = "rename it to config.yaml (JSON is valid YAML)";
                let message = "rawko does not read this file";
                self.warnings.push(Diagnostic::of_file(Path::new(name), message, Some(help.to_owned())));
            }
        }
    }

    fn typed(&mut self, layers: &Layers) -> Option<Config> {
        match serde_json::from_value(Value::Object(layers.merged.clone())) {
            Ok(config) => Some(config),
            // A value that breaks its schema was reported already.
            Err(_) if !self.errors.is_empty() => None,
            Err(error) => {
                let message = format!("the settings do not fit together: {error}");
                self.errors.push(layers.finding("", message, None));
                None
            }
        }
    }

    fn templates(&mut self) -> OwnTemplates {
        let mut templates = OwnTemplates::default();
        let files = [
            (".rawko/prompts/arbiter-select.md", &mut templates.select),
            (".rawko/prompts/arbiter-evaluate.md", &mut templates.evaluate),
            (".rawko/prompts/memory-extractor.md", &mut templates.extractor),
        ];
        for (name, template) in files {
            let name = Path::new(name);
            let path = self.options.project_dir.join(name);
            let Ok(Some(source)) = self.read(&path, name, Scope::Project) else { continue };
            if source.text.trim().is_empty() {
                let help = "write the template, or remove the file to use the built-in one";
                self.errors.push(Diagnostic::of_file(name, "the template is empty", Some(help.to_owned())));
            }
            *template = Some(source.text.to_string());
        }
        templates
    }

    /// Reads the skills. Those of the project are part of what is trusted, with all their files.
    fn skills(&mut self, plugins: &[Plugin]) -> Vec<Skill> {
        let (mut skills, warnings) =
            skills::read_all(self.options.project_dir, self.options.user_dir, self.home().as_deref());
        self.warnings.extend(warnings);
        for skill in skills.iter().filter(|skill| skill.scope() == Scope::Project) {
            let text = skill.place.shown.join("SKILL.md");
            self.hashed.push(SourceFile::new(&text, Scope::Project, &skill.source));
            let files = skill.place.shown.join("(SHA-256 of each file)");
            self.hashed.push(SourceFile::new(&files, Scope::Project, &skill.manifest));
        }
        skills.extend(plugins.iter().flat_map(|plugin| plugin.skills.iter().cloned()));
        skills
    }

    /// The user's home.
    pub(super) fn home(&self) -> Option<PathBuf> {
        // Without the user's folder, nothing of the user is read.
        self.options.user_dir.filter(|_| !self.options.isolated)?;
        (self.options.env)("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
    }

    /// The servers of all files. Those of `.mcp.json` are part of what is trusted.
    fn mcp_servers(
        &mut self,
        config: &Config,
        layers: &Layers,
        plugins: &mut [Plugin],
    ) -> BTreeMap<String, LoadedServer> {
        let mut servers = mcp::of_config(&config.mcp, layers);
        let name = Path::new(MCP_JSON);
        let path = self.options.project_dir.join(name);
        self.fingerprint.note(&path);
        match SourceFile::read(&path, name, Scope::Project, Some(self.options.project_dir)) {
            Ok(Some(source)) => {
                self.hashed.push(source.clone());
                mcp::add_mcp_json(&source, &config.mcp, &mut servers, &mut self.warnings);
            }
            Ok(None) => {}
            // Another tool's file: it does not stop a run.
            Err(unreadable) => self.warnings.push(*unreadable),
        }
        let left_out = |name: &str, server: &LoadedServer, by: String| {
            let message =
                format!("the server `{name}` of this plug-in is left out: {by} has one of this name");
            let help = "rename or remove one of them to use both".to_owned();
            Diagnostic::of_file(&server.path, message, Some(help))
        };
        for plugin in plugins.iter_mut() {
            // One that is switched off stays so, also where a plug-in brings it.
            for (name, own) in &config.mcp.servers {
                let removed = plugin.servers.remove(name).filter(|_| !own.disabled);
                self.warnings.extend(removed.map(|server| left_out(name, &server, "config.yaml".to_owned())));
            }
        }
        for (name, server) in plugins::add_servers(plugins, &mut servers) {
            let by = servers.get(name).map(|other| other.path.display().to_string()).unwrap_or_default();
            self.warnings.push(left_out(name, server, by));
        }
        servers
    }

    /// The hooks of all files. The user's own run outside the sandbox if the user says so, and nothing requires it. Those of
    /// plug-ins do not: others wrote them.
    fn hooks(&mut self, config: &Config, layers: &Layers, plugins: &[Plugin]) -> Vec<LoadedHook> {
        let of_config = hooks::of_layers(layers);
        let is_off = config.hooks.sandbox == Some(SandboxUse::Off) && config.permissions.require.is_none();
        let mut all: Vec<LoadedHook> = of_config.into_iter().chain(self.claude_hooks(config)).collect();
        for hook in &mut all {
            hook.outside_sandbox = is_off && hook.scope == Scope::User;
        }
        // The user's go first.
        all.sort_by_key(|hook| hook.scope);
        all.extend(plugins.iter().flat_map(|plugin| plugin.asked.iter().cloned()));
        all
    }

    /// A script that the project names is part of what is trusted. One that cannot be read is not run either.
    fn hash_scripts(&mut self, config: &Config, layers: &Layers) {
        for (name, provider) in &config.provider.named {
            let pointer = format!("/provider/{}/script", escape(name));
            let script = provider.script.as_deref().filter(|_| layers.provenance.is_projects(&pointer));
            let Some(script) = script.map(Path::new) else { continue };
            let path = self.options.project_dir.join(script);
            let source = SourceFile::read(&path, script, Scope::Project, None).ok().flatten();
            self.hashed.extend(source);
        }
    }

    fn digest(&mut self) -> Option<String> {
        if self.hashed.is_empty() {
            return None;
        }
        self.hashed.sort_by(|a, b| a.name.cmp(&b.name));
        let mut hash = Sha256::new();
        for source in &self.hashed {
            // Lengths come first, so that moving text from one file to the next changes the digest.
            let name = source.name.as_os_str().as_encoded_bytes();
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name);
            hash.update((source.text.len() as u64).to_le_bytes());
            hash.update(source.text.as_bytes());
        }
        Some(hex(&hash.finalize()))
    }
}

fn is_inside(path: &Path, directory: &Path) -> bool {
    match (path.canonicalize(), directory.canonicalize()) {
        (Ok(path), Ok(directory)) => path.starts_with(directory),
        _ => true,
    }
}
