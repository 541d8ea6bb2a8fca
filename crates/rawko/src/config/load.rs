//! Loads files, environment and flags into one validated [`Config`] with its agents.
//!
//! Owns the order of loading: read everything, collect every error, then return. It reads only
//! files below the two directories that the caller names; the environment is an argument.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use rawko_core::agent::{AgentConfig, builtin_agents};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::memory::FOLDER;

use super::agent_file::{AgentFile, document};
use super::agent_rules;
use super::claims::{self, Claim};
use super::claude_code::{self, ImportContext};
use super::config_rules::{self, Known};
use super::diagnostic::{ConfigErrors, Diagnostic};
use super::fingerprint::Fingerprint;
use super::layers::{FileLayer, Layers, Provenance};
use super::model::{Config, DEFAULT_AGENTS_DIRECTORY};
use super::provider::{choose_default, move_keys};
use super::rights;
use super::schema::{FileKind, Validated, validate};
use super::settings::{LooseModel, Overrides, push_environment, push_flags};
use super::source::{ProjectFile, Scope, SourceFile, list};
use super::temperature;
use super::yaml::escape;
use rawko_core::text::hex;

/// The directory of Claude Code's agents, relative to the project.
const CLAUDE_CODE_AGENTS: &str = ".claude/agents";

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
}

/// A valid configuration, with its agents and the origin of its values.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// The agents by name. The project's agents replace built-in agents of the same name.
    pub agents: BTreeMap<String, LoadedAgent>,
    /// The project's own prompt templates.
    pub templates: OwnTemplates,
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
    /// Whether the folder is trusted, or was not asked about (`rawko config show` and the like).
    pub is_trusted: bool,
}

impl Loaded {
    /// Leaves out what the files of an untrusted folder would otherwise say to models: templates, and memories that are
    /// not the user's own. What was left out is in a warning.
    pub(crate) fn distrust(&mut self, project: &Path, has_own_memories: bool) {
        self.is_trusted = false;
        let mut off = Vec::new();
        if self.templates != OwnTemplates::default() {
            self.templates = OwnTemplates::default();
            off.push("prompt templates");
        }
        if self.config.memory.enabled && !has_own_memories && holds_something(&project.join(FOLDER)) {
            self.config.memory.enabled = false;
            off.push("memories");
        }
        if off.is_empty() {
            return;
        }
        let message = format!("this folder is not trusted, so its {} are not used", off.join(" and "));
        let help = "look at them, then: rawko trust".to_owned();
        self.warnings.push(Diagnostic::of_file(Path::new(".rawko"), message, Some(help)));
    }
}

/// Whether there is such a folder with something in it. What keeps an empty folder in git is nothing.
pub(super) fn holds_something(folder: &Path) -> bool {
    let is_hidden = |entry: std::fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(b".");
    std::fs::read_dir(folder).is_ok_and(|entries| entries.flatten().any(|entry| !is_hidden(entry)))
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

/// An agent and its source.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedAgent {
    /// The agent.
    pub config: AgentConfig,
    /// Where the agent is defined.
    pub source: AgentSource,
    /// Lines of its file, from 1, that set its tools and permissions, by JSON pointer.
    pub(super) lines: BTreeMap<&'static str, usize>,
}

/// Where an agent is defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentSource {
    /// Built into rawko.
    BuiltIn,
    /// A file of the project.
    File(PathBuf),
    /// A file that was written for Claude Code.
    ClaudeCode(PathBuf),
}

impl fmt::Display for AgentSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::File(path) | Self::ClaudeCode(path) => write!(f, "{}", path.display()),
        }
    }
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

struct Loader<'a> {
    options: &'a LoadOptions<'a>,
    fingerprint: Fingerprint,
    /// Names and contents of the project's own files.
    hashed: Vec<SourceFile>,
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

/// The agents from files.
#[derive(Default)]
struct Agents {
    files: Vec<AgentFile>,
    translated: Vec<(AgentConfig, SourceFile)>,
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

        let builtin = builtin_agents();
        let mut names: Vec<&str> = builtin.iter().map(|agent| agent.name.as_str()).collect();
        let found = agents.files.iter().map(|file| file.name.as_str());
        names.extend(found.chain(agents.translated.iter().map(|(agent, _)| agent.name.as_str())));
        names.sort_unstable();
        names.dedup();
        let known = Known {
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
        }
        self.errors.extend(agent_rules::check(&agents.files, &known));
        let Some(config) = config.filter(|_| self.errors.is_empty()) else { return Err(()) };

        self.hash_scripts(&config, &layers);
        let claims =
            claims::of(&config, &layers, &agents.files, &agents.translated, self.options.project_dir);
        Ok(Loaded {
            agents: merge_agents(builtin, agents),
            config,
            templates,
            warnings: std::mem::take(&mut self.warnings),
            provenance: layers.provenance,
            fingerprint: std::mem::take(&mut self.fingerprint),
            project_digest: self.digest(),
            project_files: self.hashed.iter().map(ProjectFile::from).collect(),
            claims,
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
        match self.options.config_file {
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
            None => {
                let name = Path::new(".rawko/config.yaml");
                self.config_file(&mut layers, &self.options.project_dir.join(name), name, Scope::Project);
                self.warn_of_misnamed();
            }
        }
        let configured: Vec<String> = layers.names_in("/provider").into_iter().map(str::to_owned).collect();
        let from_environment = push_environment(&mut layers, self.options.env, &mut self.errors);
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
    fn read(&mut self, path: &Path, name: &Path, scope: Scope) -> Result<Option<SourceFile>, ()> {
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

    fn agents(&mut self, layers: &Layers, config: Option<&Config>) -> Agents {
        let setting = "/agents/directory";
        let directory = layers.get(setting).and_then(Value::as_str).unwrap_or(DEFAULT_AGENTS_DIRECTORY);
        let name = Path::new(directory);
        let leaves = name.is_absolute() || name.components().any(|part| matches!(part, Component::ParentDir));
        if leaves && layers.provenance.is_projects(setting) {
            let help = "use a directory inside the project, or set it in your own configuration";
            let message = "the directory is outside the project";
            self.errors.push(layers.finding(setting, message, Some(help.to_owned())));
            return Agents::default();
        }
        let path = self.options.project_dir.join(name);
        let scope = if leaves { Scope::User } else { Scope::Project };
        let mut agents = Agents::default();
        match self.list(&path, name, &["yaml", "yml", "md"]) {
            Some(files) => {
                for path in files {
                    let shown = name.join(path.file_name().unwrap_or_default());
                    if let Ok(Some(source)) = self.read(&path, &shown, scope) {
                        let file = AgentFile::parse(source, &mut self.errors);
                        agents.files.push(file);
                    }
                }
            }
            None if directory == DEFAULT_AGENTS_DIRECTORY => agents.translated = self.claude_code(config),
            None => {
                let help = "create the directory, or remove the setting";
                let message = format!("there is no directory `{}`", super::diagnostic::printable(directory));
                self.errors.push(layers.finding(setting, message, Some(help.to_owned())));
            }
        }
        agents
    }

    fn list(&mut self, path: &Path, name: &Path, extensions: &[&str]) -> Option<Vec<PathBuf>> {
        self.fingerprint.note(path);
        match list(path, name, extensions) {
            Ok(files) => files,
            Err(error) => {
                self.errors.push(*error);
                Some(Vec::new())
            }
        }
    }

    fn claude_code(&mut self, config: Option<&Config>) -> Vec<(AgentConfig, SourceFile)> {
        let name = Path::new(CLAUDE_CODE_AGENTS);
        let directory = self.options.project_dir.join(name);
        let provider =
            config.and_then(|config| config.provider(config.default_provider())).map(|found| found.kind);
        let around = ImportContext { tools: self.options.known_tools, provider };
        let mut translated: Vec<(AgentConfig, SourceFile)> = Vec::new();
        self.fingerprint.note(&directory);
        for path in list(&directory, name, &["md"]).ok().flatten().unwrap_or_default() {
            let shown = name.join(path.file_name().unwrap_or_default());
            self.fingerprint.note(&path);
            let source = match SourceFile::read(&path, &shown, Scope::Project, Some(self.options.project_dir))
            {
                Ok(Some(source)) => source,
                Ok(None) => continue,
                Err(unreadable) => {
                    self.warnings.push(*unreadable);
                    continue;
                }
            };
            self.hashed.push(source.clone());
            let Some(agent) = claude_code::translate(&source, &around, &mut self.warnings) else { continue };
            if translated.iter().any(|(known, _)| known.name == agent.name) {
                let message = format!("skipped: there is already an agent `{}`", agent.name);
                self.warnings.push(Diagnostic::of_file(&shown, message, None));
                continue;
            }
            translated.push((agent, source));
        }
        translated
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

/// The built-in agents, replaced by the project's agents of the same name.
fn merge_agents(builtin: Vec<AgentConfig>, found: Agents) -> BTreeMap<String, LoadedAgent> {
    let mut agents: BTreeMap<String, LoadedAgent> = builtin
        .into_iter()
        .map(|config| {
            (
                config.name.clone(),
                LoadedAgent { config, source: AgentSource::BuiltIn, lines: BTreeMap::new() },
            )
        })
        .collect();
    for (mut config, source) in found.translated {
        if let Some(replaced) = agents.get(&config.name) {
            // Claude Code has neither transitions nor tags, so those of the built-in agent of the same name apply.
            config.transitions.clone_from(&replaced.config.transitions);
            config.metadata.clone_from(&replaced.config.metadata);
        }
        let source = AgentSource::ClaudeCode(source.name);
        agents.insert(config.name.clone(), LoadedAgent { config, source, lines: BTreeMap::new() });
    }
    for file in found.files {
        if let Some(config) = file.config {
            let source = AgentSource::File(file.source.name);
            let lines = rights::lines(&file.document);
            agents.insert(config.name.clone(), LoadedAgent { config, source, lines });
        }
    }
    agents
}
