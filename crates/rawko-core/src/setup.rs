//! The setup of a run, fixed at its start: agents, models, limits, tools. The first event of the journal contains all
//! of it, so that the state can be folded from the events alone.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::agent::SkillSetup;
use crate::agent::{AgentConfig, Permissions};
use crate::arbiter::Templates;
use crate::attachment::Attachment;
use crate::cost::Price;
use crate::hook::HookEvent;
use crate::hosted::HostedSearch;
use crate::integrity::ChangedChecks;
use crate::policy::{WEB_SEARCH, entry_covers, is_of_use, offered_tools, tool_permission};
use crate::tool::{ToolAccess, ToolSpec};

/// Everything a run needs to know, besides its task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Setup {
    /// The agents by name.
    pub agents: BTreeMap<String, AgentSetup>,
    /// The agent to use if nothing else names one (`agents.default`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_agent: Option<String>,
    /// The agent that works first, without asking the arbiter (`--agent`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_agent: Option<String>,
    /// How the arbiter decides.
    pub arbiter: ArbiterSetup,
    /// Models to use instead, in order, when a provider refuses the key, does not serve the model, or keeps failing
    /// (`provider.fallback`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<ModelChoice>,
    /// How failed model calls are made again by the session; absent where it makes none again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<CallRetry>,
    /// The limits at which the run stops.
    pub limits: RunLimits,
    /// Prices by model, which take precedence over the built-in ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, Price>,
    /// All tools of this run; an agent is offered those that it may use.
    pub tools: Vec<ToolSpec>,
    /// Names of the tools that a dry run leaves out. It asks what the run would ask, which has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Whether a checkpoint of the tree is taken before an execution first changes it.
    #[serde(default)]
    pub checkpoints: bool,
    /// The verification commands; absent if rawko runs no checks (`--no-verify`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifySetup>,
    /// The memory of earlier runs; absent if it is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemorySetup>,
    /// The points of the run at which hooks are asked.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub hooks: BTreeSet<HookEvent>,
    /// Facts about the project, for the agents' system prompt.
    pub place: ProjectContext,
    /// What the user gave with the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

/// The memory of earlier runs (`docs/memory.md`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemorySetup {
    /// Whether memories are injected into executions.
    pub inject: bool,
    /// How new memories are extracted; absent if none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extract: Option<ExtractSetup>,
}

/// How the memories of a run are extracted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtractSetup {
    /// The model that is asked.
    pub model: ModelChoice,
    /// The extractor's prompt.
    pub prompt: String,
    /// Most tokens of all its calls together in one run.
    pub max_tokens: u64,
}

/// The commands that prove that a task is done (`docs/verification.md`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifySetup {
    /// The command lines, in order; empty where none was found.
    pub commands: Vec<String>,
    /// Longest time of one command, in milliseconds.
    pub timeout_ms: u64,
    /// Whether they were detected in the project rather than configured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub found: bool,
    /// Further files that are checks, as globs relative to the project (`verify.tests`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<String>,
    /// What the run may do to its checks (`verify.changedChecks`).
    #[serde(default, skip_serializing_if = "ChangedChecks::is_default")]
    pub changed_checks: ChangedChecks,
}

/// One agent with everything resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSetup {
    /// Its configuration.
    pub config: AgentConfig,
    /// Where it is configured, for messages: a path, or `built in`.
    pub source: String,
    /// The model it uses.
    pub model: ModelChoice,
    /// Its effective permissions: the grants of the project and the command line, narrowed by its own.
    #[serde(default)]
    pub permissions: Permissions,
    /// Whether the sandbox confines its commands. Then the Bash filter is a guide and the sandbox the wall.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confined: bool,
}

/// A provider and a model of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelChoice {
    /// Name of the configured provider.
    pub provider: String,
    /// The model as the provider knows it.
    pub model: String,
    /// Most tokens of one response.
    pub max_tokens: u32,
    /// Most tokens of a prompt and its response together; not checked if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u32>,
    /// Most tokens that the model can give in one response, thinking included; unknown if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u32>,
    /// Extra tokens for a short answer, because the model may think before it, and providers count both towards one
    /// limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub thinking_room: u32,
    /// Whether its signed thinking is only accepted after exactly the messages that it was produced after, so that a
    /// shortened conversation drops it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bound_thinking: bool,
    /// Sampling temperature; the provider's default where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Further top-level fields of the provider's own request format, passed through unchanged.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub extra: serde_json::Map<String, serde_json::Value>,
    /// The provider's own search of the web, for agents that may search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<HostedSearch>,
}

// serde requires this signature.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl ModelChoice {
    /// The token limit to request for one response: at most what the model can give, and at most half of the window.
    #[must_use]
    pub fn answer_tokens(&self) -> u32 {
        self.most_answer_tokens().map_or(self.max_tokens, |most| self.max_tokens.min(most))
    }

    /// The highest token limit that may be requested, if it is known.
    #[must_use]
    pub fn most_answer_tokens(&self) -> Option<u32> {
        [self.context_window.map(|window| window / 2), self.max_output].into_iter().flatten().min()
    }
}

/// How the arbiter works.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArbiterSetup {
    /// Whether it asks a model, the rules, or both.
    pub mode: ArbiterMode,
    /// The model that it asks.
    pub model: ModelChoice,
    /// Its prompts.
    pub templates: Templates,
    /// The questions that its cache may answer.
    #[serde(default, skip_serializing_if = "CacheUse::is_none")]
    pub cache: CacheUse,
    /// Most tokens of a decision that is asked for again because its token limit cut it off; absent where it is
    /// not asked for again with a higher limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_tokens: Option<u32>,
}

/// Which of the arbiter's questions may be answered from its cache (`docs/arbiter.md#cache`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheUse {
    /// Whether it may select the next agent.
    pub select: bool,
    /// Whether it may evaluate progress.
    pub evaluate: bool,
}

impl CacheUse {
    /// Whether the cache is not used.
    #[must_use]
    pub fn is_none(&self) -> bool {
        !self.select && !self.evaluate
    }
}

/// How the arbiter decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArbiterMode {
    /// A model decides; the rules if it gives no usable answer, or none.
    Llm,
    /// The rules decide if they are certain, otherwise a model.
    #[default]
    Hybrid,
    /// The rules decide.
    Rules,
}

/// The limits at which a run stops.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunLimits {
    /// Most executions.
    pub max_iterations: u32,
    /// Failures in a row that end the run.
    pub max_consecutive_failures: u32,
    /// Most tokens of all model calls together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Most cost, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Longest wall time, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_duration_ms: Option<u64>,
    /// Whether the limit of the cost is the default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_is_default: bool,
    /// Whether the limit of the time is the default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub duration_is_default: bool,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            max_iterations: 50,
            max_consecutive_failures: 3,
            max_tokens: None,
            max_cost_usd: None,
            max_duration_ms: None,
            cost_is_default: false,
            duration_is_default: false,
        }
    }
}

/// How a failed model call is made again, in the same conversation, before the failure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRetry {
    /// How long an outage of a provider is waited out, in milliseconds; with 0 it is not
    /// (`provider.retry.patience`). An answer that was cut off is asked for again in any case.
    pub patience_ms: u64,
}

/// What agents should know about the project, so that they need not find it out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectContext {
    /// The project's directory, as agents see it.
    pub directory: String,
    /// The folder in it in which the user started rawko; absent if that is the directory itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Operating system, e.g. `linux`.
    pub platform: String,
    /// Whether the project is a git work tree.
    pub git: bool,
    /// The project's standing instructions for agents: the nearest `AGENTS.md`, bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The path of that file relative to the directory; absent if it is the directory's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions_from: Option<String>,
    /// Whether the user does not trust the folder, so that these files are data and no instructions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub instructions_are_data: bool,
    /// The other `AGENTS.md` files of the project, relative to the directory. Each takes precedence in its folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_instructions: Vec<String>,
    /// Problems with these files, reported when the run begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instruction_problems: Vec<String>,
    /// The skills of the run, by name. Each agent is offered those that its `skills` leaves it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<SkillSetup>,
}

impl Setup {
    /// The tools that a request of `agent` offers: those that it may call and that can work with its permissions.
    #[must_use]
    pub fn tools_of(&self, agent: &AgentSetup) -> Vec<ToolSpec> {
        let mut tools = offered_tools(&agent.config, &self.tools);
        tools.retain(|tool| is_of_use(&tool.name, &agent.permissions));
        tools
    }

    /// What an outside agent may do to the tree: to change files takes a tool of rawko's that it may use and that this run
    /// has.
    #[must_use]
    pub fn access_of_outside(&self, agent: &AgentSetup) -> ToolAccess {
        let known: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        let may = |tool: &str| tool_permission(&agent.config, tool, &known).is_allowed();
        if may("Write") || may("Edit") { ToolAccess::Mutating } else { ToolAccess::ReadOnly }
    }

    /// Whether an entry of `tools.allowed` or `tools.blocked` names a tool that this run has for `agent`.
    #[must_use]
    pub fn has_tool(&self, entry: &str, agent: &AgentSetup) -> bool {
        let own = self.tools.iter().filter(|tool| is_of_use(&tool.name, &agent.permissions));
        let searches = agent.model.search.is_some().then_some(WEB_SEARCH);
        let left_out = self.left_out.iter().map(String::as_str);
        let mut there = own.map(|tool| tool.name.as_str()).chain(left_out).chain(searches);
        there.any(|tool| entry_covers(entry, tool))
    }

    /// `choice` as `agent` may use it: without the provider's search if the agent may not search, or if the run has a
    /// search of its own.
    #[must_use]
    pub fn permitted(&self, choice: &ModelChoice, agent: &AgentSetup) -> ModelChoice {
        let has_own = self.tools.iter().any(|tool| tool.name == WEB_SEARCH);
        let may = !has_own && tool_permission(&agent.config, WEB_SEARCH, &[WEB_SEARCH]).is_allowed();
        let search = choice.search.clone().filter(|_| may);
        ModelChoice { search, ..choice.clone() }
    }

    /// The models with which a conversation that began with `choice` may continue when its provider fails for good.
    #[must_use]
    pub fn alternatives(&self, choice: &ModelChoice) -> Vec<ModelChoice> {
        self.fallback.iter().filter(|other| other.provider != choice.provider).cloned().collect()
    }
}
