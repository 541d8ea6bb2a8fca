//! The agents of a run: built-in ones, the user's and the project's together.
//!
//! Owns where agents are read from and which of several with one name counts: the project's own, then its `.claude/agents`, then
//! the user's own, then the user's `~/.claude/agents`, then those of plug-ins, then the built-in one. What a replaced agent was is
//! kept, to be shown.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use rawko_core::agent::{AgentConfig, SkillChoice, Transitions, builtin_agents};
use serde_json::Value;

use super::agent_file::AgentFile;
use super::claude_code::{self, ImportContext};
use super::diagnostic::{Diagnostic, printable};
use super::given::is_given;
use super::layers::Layers;
use super::load::Loader;
use super::model::{BuiltinAgents, Config, DEFAULT_AGENTS_DIRECTORY};
use super::nearest::nearest;
use super::plugins::Plugin;
use super::rights;
use super::source::{Scope, SourceFile, list};

/// The directory of Claude Code's agents, in a project and in the user's home.
const CLAUDE_CODE_AGENTS: &str = ".claude/agents";
/// Where the directory is set.
const DIRECTORY: &str = "/agents/directory";
/// The target of a transition that is no agent.
const COMPLETE: &str = "complete";

/// An agent and its source.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedAgent {
    /// The agent.
    pub config: AgentConfig,
    /// Where the agent is defined.
    pub source: AgentSource,
    /// Whose it is; `None`: built in.
    pub scope: Option<Scope>,
    /// The agents of that name that it replaces, the one with the highest precedence first.
    pub replaces: Vec<AgentSource>,
    /// Lines of its file, from 1, that set its tools and permissions, by JSON pointer.
    pub(super) lines: BTreeMap<&'static str, usize>,
}

/// Where an agent is defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentSource {
    /// Built into rawko.
    BuiltIn,
    /// A file of the project or the user.
    File(PathBuf),
    /// A file that was written for Claude Code.
    ClaudeCode(PathBuf),
    /// A file of a plug-in.
    Plugin {
        /// The plug-in's name.
        name: String,
        /// The file.
        path: PathBuf,
    },
}

impl fmt::Display for AgentSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::File(path) | Self::ClaudeCode(path) => write!(f, "{}", path.display()),
            Self::Plugin { name, path } => write!(f, "plug-in {name}: {}", path.display()),
        }
    }
}

/// The agents from files, those with precedence last.
#[derive(Default)]
pub(super) struct Agents {
    pub(super) files: Vec<AgentFile>,
    pub(super) translated: Vec<(AgentConfig, SourceFile)>,
}

impl Loader<'_> {
    /// Reads the agents of the user and of the project.
    pub(super) fn agents(&mut self, layers: &Layers, config: Option<&Config>) -> Agents {
        let mut agents = Agents::default();
        let home = self.home();
        if let Some(home) = &home {
            let directory = home.join(CLAUDE_CODE_AGENTS);
            // In the home, both are the same folder.
            if directory.canonicalize().ok()
                != self.options.project_dir.join(CLAUDE_CODE_AGENTS).canonicalize().ok()
            {
                agents.translated = self.claude_code(&directory, &directory, Scope::User, config);
            }
        }
        let users = directory_of(layers, Scope::User);
        let outside = users.filter(|directory| leaves_project(directory));
        match (outside, self.options.user_dir) {
            (Some(directory), _) => self.directory(&mut agents, directory, Scope::User, layers, config),
            (None, Some(user)) => {
                let directory = user.join("agents");
                self.files_of(&mut agents, &directory, &directory, Scope::User, config);
            }
            (None, None) => {}
        }
        let projects = directory_of(layers, Scope::Project);
        let own = projects.unwrap_or(DEFAULT_AGENTS_DIRECTORY);
        // The user may have such a folder in many projects, and need not have it in this one.
        if let Some(name) = users.filter(|directory| !leaves_project(directory) && *directory != own) {
            let path = self.options.project_dir.join(name);
            self.files_of(&mut agents, &path, Path::new(name), Scope::Project, config);
        }
        if own == DEFAULT_AGENTS_DIRECTORY {
            let name = Path::new(CLAUDE_CODE_AGENTS);
            let directory = self.options.project_dir.join(name);
            let projects = self.claude_code(&directory, name, Scope::Project, config);
            agents.translated.extend(projects);
        }
        self.directory(&mut agents, own, Scope::Project, layers, config);
        self.given_agents(&mut agents);
        agents
    }

    /// Adds the agents of the configured directory `name`, which has to be there unless it is the default.
    fn directory(
        &mut self,
        agents: &mut Agents,
        name: &str,
        scope: Scope,
        layers: &Layers,
        config: Option<&Config>,
    ) {
        if scope == Scope::Project && leaves_project(name) {
            let help = "use a directory inside the project, or set it in your own configuration";
            let message = "the directory is outside the project";
            self.errors.push(layers.finding(DIRECTORY, message, Some(help.to_owned())));
            return;
        }
        let path = self.options.project_dir.join(name);
        if !self.files_of(agents, &path, Path::new(name), scope, config) && name != DEFAULT_AGENTS_DIRECTORY {
            let help = "create the directory, or remove the setting";
            let message = format!("there is no directory `{}`", printable(name));
            self.errors.push(layers.finding(DIRECTORY, message, Some(help.to_owned())));
        }
    }

    /// Adds the agents of the directory at `path`, shown as `name`. Returns whether there is one.
    fn files_of(
        &mut self,
        agents: &mut Agents,
        path: &Path,
        name: &Path,
        scope: Scope,
        config: Option<&Config>,
    ) -> bool {
        self.fingerprint.note(path);
        let files = match list(path, name, &["yaml", "yml", "md"]) {
            Ok(Some(files)) => files,
            Ok(None) => return false,
            Err(error) => {
                self.errors.push(*error);
                return true;
            }
        };
        for path in files {
            let shown = name.join(path.file_name().unwrap_or_default());
            if let Ok(Some(source)) = self.read(&path, &shown, scope) {
                if claude_code::is_of_claude_code(&source) {
                    let around = self.around(config);
                    let agent = claude_code::translate(&source, &around, &mut self.warnings);
                    agents.translated.extend(agent.map(|agent| (agent, source)));
                    continue;
                }
                agents.files.push(AgentFile::parse(source, &mut self.errors));
            }
        }
        true
    }

    /// What the translation of an agent for Claude Code depends on.
    pub(super) fn around<'b>(&self, config: Option<&Config>) -> ImportContext<'b>
    where
        Self: 'b,
    {
        let provider =
            config.and_then(|config| config.provider(config.default_provider())).map(|found| found.kind);
        ImportContext { tools: self.options.known_tools, provider }
    }

    /// The agents in `directory`, shown as `name`, that were written for Claude Code.
    fn claude_code(
        &mut self,
        directory: &Path,
        name: &Path,
        scope: Scope,
        config: Option<&Config>,
    ) -> Vec<(AgentConfig, SourceFile)> {
        let around = self.around(config);
        let within = (scope == Scope::Project).then_some(self.options.project_dir);
        let mut translated: Vec<(AgentConfig, SourceFile)> = Vec::new();
        self.fingerprint.note(directory);
        for path in list(directory, name, &["md"]).ok().flatten().unwrap_or_default() {
            let shown = name.join(path.file_name().unwrap_or_default());
            self.fingerprint.note(&path);
            let source = match SourceFile::read(&path, &shown, scope, within) {
                Ok(Some(source)) => source,
                Ok(None) => continue,
                Err(unreadable) => {
                    self.warnings.push(*unreadable);
                    continue;
                }
            };
            if scope == Scope::Project {
                self.hashed.push(source.clone());
            }
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

    /// The built-in agents that `agents.builtin` leaves.
    pub(super) fn builtin_agents(&mut self, layers: &Layers, config: Option<&Config>) -> Vec<AgentConfig> {
        let all = builtin_agents();
        let Some(config) = config else { return all };
        match &config.agents.builtin {
            BuiltinAgents::All(true) => all,
            BuiltinAgents::All(false) => Vec::new(),
            BuiltinAgents::Named(names) => {
                for (n, name) in names.iter().enumerate() {
                    let known = || all.iter().map(|agent| agent.name.as_str());
                    if known().any(|known| known == name) {
                        continue;
                    }
                    let help = match nearest(name, known()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("there are: {}", known().collect::<Vec<_>>().join(", ")),
                    };
                    let message = format!("there is no built-in agent `{}`", printable(name));
                    self.errors.push(layers.finding(&format!("/agents/builtin/{n}"), message, Some(help)));
                }
                all.into_iter().filter(|agent| names.contains(&agent.name)).collect()
            }
        }
    }
}

impl Agents {
    /// All agents by name, and of several with one name the one with precedence.
    pub(super) fn merged(
        self,
        builtin: Vec<AgentConfig>,
        plugins: &[Plugin],
    ) -> BTreeMap<String, LoadedAgent> {
        let mut team = Team::default();
        for agent in builtin {
            team.add(agent, AgentSource::BuiltIn, None, BTreeMap::new());
        }
        for plugin in plugins {
            for agent in &plugin.agents {
                let source =
                    AgentSource::Plugin { name: plugin.place.name.clone(), path: agent.path.clone() };
                // Of two plug-ins, the first by its name counts.
                if !team.agents.contains_key(&agent.config.name) {
                    team.add(agent.config.clone(), source, Some(Scope::User), BTreeMap::new());
                }
            }
        }
        let (given, mut files): (Vec<AgentFile>, Vec<AgentFile>) =
            self.files.into_iter().partition(|file| is_given(&file.source));
        let mut translated = self.translated;
        for scope in [Scope::User, Scope::Project] {
            let (now, later) = translated.into_iter().partition(|(_, source)| source.scope == scope);
            translated = later;
            let now: Vec<(AgentConfig, SourceFile)> = now;
            for (mut config, source) in now {
                if let Some(replaced) = team.agents.get(&config.name) {
                    // Claude Code has neither transitions nor tags, so those of the agent that it replaces apply.
                    config.transitions.clone_from(&replaced.config.transitions);
                    config.metadata.clone_from(&replaced.config.metadata);
                }
                team.add(config, AgentSource::ClaudeCode(source.name), Some(scope), BTreeMap::new());
            }
            let (now, later): (Vec<AgentFile>, _) =
                files.into_iter().partition(|file| file.source.scope == scope);
            files = later;
            now.into_iter().for_each(|file| team.add_file(file));
        }
        given.into_iter().for_each(|file| team.add_file(file));
        team.without_loose_ends()
    }
}

#[derive(Default)]
struct Team {
    agents: BTreeMap<String, LoadedAgent>,
}

impl Team {
    fn add_file(&mut self, file: AgentFile) {
        let lines = rights::lines(&file.document);
        if let Some(config) = file.config {
            let SourceFile { name, scope, .. } = file.source;
            self.add(config, AgentSource::File(name), Some(scope), lines);
        }
    }

    /// Adds an agent in the place of one with its name.
    fn add(
        &mut self,
        config: AgentConfig,
        source: AgentSource,
        scope: Option<Scope>,
        lines: BTreeMap<&'static str, usize>,
    ) {
        let replaced = self.agents.remove(&config.name);
        let replaces = replaced.map(|old| [vec![old.source], old.replaces].concat()).unwrap_or_default();
        self.agents.insert(config.name.clone(), LoadedAgent { config, source, scope, replaces, lines });
    }

    /// Takes out transitions to built-in agents that are left out. Those in files were checked.
    fn without_loose_ends(mut self) -> BTreeMap<String, LoadedAgent> {
        let names: Vec<String> = self.agents.keys().cloned().collect();
        let is_there = |target: &String| target == COMPLETE || names.contains(target);
        for agent in self.agents.values_mut() {
            let Transitions { on_success, on_failure, on_max_iterations, custom } =
                &mut agent.config.transitions;
            for target in [on_success, on_failure, on_max_iterations] {
                *target = target.take().filter(is_there);
            }
            custom.retain(|transition| is_there(&transition.target));
        }
        self.agents
    }
}

/// The directory of agents that the files of one scope name.
fn directory_of(layers: &Layers, scope: Scope) -> Option<&str> {
    layers.value_in(scope, DIRECTORY).and_then(Value::as_str)
}

/// Whether a directory is outside the project, compared as text.
fn leaves_project(directory: &str) -> bool {
    let path = Path::new(directory);
    path.is_absolute() || path.components().any(|part| matches!(part, Component::ParentDir))
}

/// The `skills` of an agent where a run has these: their names. Without any they stay as they are configured.
pub(crate) fn own_skills<'a>(
    agent: &AgentConfig,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<SkillChoice> {
    let mut names = names.into_iter().peekable();
    if names.peek().is_none() {
        return agent.skills.clone();
    }
    let is_own = |name: &&str| agent.skills.as_ref().is_none_or(|own| own.includes(name));
    Some(SkillChoice::Named(names.filter(is_own).map(str::to_owned).collect()))
}
