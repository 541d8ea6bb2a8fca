//! The configuration of an agent (`docs/agents.md#files-of-agents`).
//!
//! The schema, which checks configuration files, refuses unknown fields. Deserializing does not: journals contain agents
//! too, and a later version of rawko may have written fields that this one does not know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::outside::{AcpProgram, OUTSIDE_TIMEOUT_MS};
use super::role::AgentRole;
use crate::memory_limit::MemoryLimit;
use crate::thinking::Thinking;
use crate::time_span::TimeSpan;

/// Default for the model turns of one execution (`limits.maxIterations`).
pub const DEFAULT_MAX_TURNS: u32 = 10;

/// One agent: its name and instructions, when to use it, what it may do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct AgentConfig {
    /// Unique name: a letter, then letters, digits, `_` and `-`.
    #[schemars(regex(pattern = r"^[A-Za-z][A-Za-z0-9_-]*$"))]
    pub name: String,
    /// Name for people; `name` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// When the arbiter should choose this agent.
    #[serde(default, skip_serializing_if = "OneOrMany::is_empty")]
    pub when_to_use: OneOrMany,
    /// What it is for; where absent, rules go by its tools and transitions. Agents that test or review report a verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<AgentRole>,
    /// The agent's instructions, the stable start of every request it makes.
    pub system_prompt: String,
    /// Which tools it may use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tools: ToolFilter,
    /// Which agents should follow. Hints for the arbiter's model; binding for the rules.
    #[serde(default, skip_serializing_if = "is_default")]
    pub transitions: Transitions,
    /// Limits of one execution.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: AgentLimits,
    /// What it may use in a run, over all its executions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub budget: AgentBudget,
    /// Provider and model, where they differ from the project's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub provider: AgentProvider,
    /// The program that does its work, by the Agent Client Protocol, in the place of a model and rawko's tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acp: Option<AcpProgram>,
    /// Which memories it is given.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory: AgentMemory,
    /// Which skills it may use: names, or `false` for none; absent: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<SkillChoice>,
    /// Narrows the project's permissions; never widens them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// Free form; `tags` are used to score memories.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub metadata: serde_json::Map<String, Value>,
}

impl AgentConfig {
    /// Name for people.
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.display_name.as_deref().unwrap_or(&self.name)
    }

    /// Whether its report carries a verdict on the work of others.
    #[must_use]
    pub fn judges(&self) -> bool {
        self.role.is_some_and(AgentRole::judges)
    }

    /// Longest time of one execution, in milliseconds.
    #[must_use]
    pub fn longest_execution(&self) -> Option<u64> {
        self.limits.timeout.or_else(|| self.acp.as_ref().map(|_| OUTSIDE_TIMEOUT_MS))
    }

    /// Model turns of one execution.
    #[must_use]
    pub fn max_turns(&self) -> u32 {
        self.limits.max_iterations.unwrap_or(DEFAULT_MAX_TURNS)
    }
}

/// `skills:` of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SkillChoice {
    /// All of them, or none.
    All(bool),
    /// Those of these names.
    Named(Vec<String>),
}

impl SkillChoice {
    /// Whether the skill `name` is among them.
    #[must_use]
    pub fn includes(&self, name: &str) -> bool {
        match self {
            Self::All(all) => *all,
            Self::Named(names) => names.iter().any(|named| named == name),
        }
    }

    /// Whether no skill can be among them.
    #[must_use]
    pub fn is_none(&self) -> bool {
        match self {
            Self::All(all) => !all,
            Self::Named(names) => names.is_empty(),
        }
    }
}

/// A text or a list of texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One text.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Default for OneOrMany {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl OneOrMany {
    /// Whether there is no text at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::One(text) => text.trim().is_empty(),
            Self::Many(texts) => texts.is_empty(),
        }
    }

    /// All of it as one text, list items joined by `; `.
    #[must_use]
    pub fn joined(&self) -> String {
        match self {
            Self::One(text) => text.trim().to_owned(),
            Self::Many(texts) => texts.iter().map(|t| t.trim()).collect::<Vec<_>>().join("; "),
        }
    }
}

/// `tools:` of an agent. Allowed (absent: all) minus blocked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct ToolFilter {
    /// Names of the tools it may use; absent: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Vec<String>>,
    /// Names of the tools it may not use. Wins over `allowed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<String>,
    /// What its Bash may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bash_filter: Option<BashFilter>,
}

/// `bashFilter:` of an agent (`docs/sandbox.md`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct BashFilter {
    /// Programs that may run; absent: every one; an empty list: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_commands: Option<Vec<String>>,
    /// Regular expressions that refuse a command wherever they match in it. Wins over `allowedCommands`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_patterns: Vec<String>,
}

/// `transitions:` of an agent: names of agents, or `complete`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct Transitions {
    /// The agent that follows a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_success: Option<String>,
    /// The agent that follows a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<String>,
    /// The agent that follows when the turns are used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_max_iterations: Option<String>,
    /// Further transitions, described in words for the arbiter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub custom: Vec<CustomTransition>,
}

/// One entry of `transitions.custom`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct CustomTransition {
    /// The condition, in words.
    pub condition: String,
    /// What follows: an agent's name or `complete`.
    pub target: String,
}

/// `limits:` of an agent, for one execution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct AgentLimits {
    /// Most model turns (default 10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_iterations: Option<u32>,
    /// Longest wall time, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout: Option<u64>,
    /// Most tokens of one response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
}

/// `budget:` of an agent: over all its executions in one run. An absent one does not limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct AgentBudget {
    /// Most executions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_iterations: Option<u32>,
    /// Most tokens of all its model calls together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u64>,
    /// Most cost of all its model calls together, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub max_cost_usd: Option<f64>,
    /// Longest time of all its executions together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_duration: Option<TimeSpan>,
}

/// `provider:` of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct AgentProvider {
    /// Name of a configured provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Model of that provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How much the model thinks; the provider's own setting if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
}

/// `memory:` of an agent (`docs/memory.md#selection`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct AgentMemory {
    /// Most memories injected (default 5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_injected: Option<u32>,
    /// Least importance of an injected memory (default `low`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_importance: Option<Importance>,
    /// Added to the score of memories that share a tag with the agent (default 0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_bonus: Option<f64>,
}

/// The importance of a memory (`docs/memory.md#file`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Importance {
    /// Nice to know.
    Low,
    /// Worth knowing.
    Medium,
    /// Saves real trouble.
    High,
    /// Must be known.
    Critical,
}

/// Permissions (`docs/configuration.md#permissions`). An absent list grants the default, an empty one nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct Permissions {
    /// Paths that may be read (default: the project).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<Vec<String>>,
    /// Paths that may be written (default: the project).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<Vec<String>>,
    /// Paths that may be neither read nor written, whatever the other lists say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deny: Option<Vec<String>>,
    /// Names of files and folders that may be read and not written, in any folder, besides `.git`, `.rawko` and `.claude`
    /// (default: none).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protect: Option<Vec<String>>,
    /// Hosts that may be reached (default: none).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net: Option<Vec<String>>,
    /// Environment variables that child processes are given, besides a harmless base set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<String>>,
    /// Programs that Bash may run (default: what the agent's `bashFilter` says).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Vec<String>>,
    /// Folders of the user's caches, such as `~/.cargo/registry`, that commands in the sandbox share instead of keeping their
    /// changes apart (configuration only; default: none).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches: Option<Vec<String>>,
    /// How much memory a command in the sandbox may use with all that it starts (configuration only, default: `75%`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryLimit>,
    /// What the operating system must do (configuration only): with `enforced`, all commands run in a sandbox, and where
    /// that cannot be had, nothing runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require: Option<Enforcement>,
    /// Whether commands run in a sandbox (configuration only, default: `auto`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxUse>,
    /// What a person is asked for where it is not granted (default: nothing). An agent's own list only narrows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<Vec<Ask>>,
    /// How long a question waits for its answer before it counts as denied (configuration only, default: `10m`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask_timeout: Option<TimeSpan>,
}

/// What a person may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Ask {
    /// Commands that `bashFilter` or `permissions.run` do not list.
    Commands,
    /// Hosts that `permissions.net` does not grant.
    Hosts,
    /// Paths that `permissions.read` or `permissions.write` do not grant.
    Paths,
}

impl Ask {
    /// Its name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Commands => "commands",
            Self::Hosts => "hosts",
            Self::Paths => "paths",
        }
    }
}

/// Whether commands run in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SandboxUse {
    /// In the best one that the machine offers. Where it offers none, commands are refused.
    Auto,
    /// They run without one, unless `require` asks for one.
    Off,
}

/// What the operating system must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Enforcement {
    /// Confine every command to what the permissions grant.
    Enforced,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
