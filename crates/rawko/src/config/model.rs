//! `config.yaml` as Rust types: the one description from which validation, the JSON Schema, the defaults and the
//! documentation's completeness follow (`docs/configuration.md`).
//!
//! Owns names, types and defaults. Rules between values are in `config_rules`. Keys that this
//! version does not support are absent, so that they are errors and never silently ignored.

use std::collections::BTreeMap;

use rawko_core::agent::{Importance, Permissions};
use rawko_core::cost::Price;
use rawko_core::retry::RetryPolicy;
use rawko_core::setup::{ArbiterMode, CacheUse};
use rawko_core::thinking::Thinking;
use rawko_core::tool::ToolAccess;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use rawko_core::TimeSpan;

use super::time_limit::TimeLimit;

use super::api_key_env::ApiKeyEnv;
use super::fleet::FleetConfig;
use super::hooks::HooksConfig;
use super::mcp::McpSection;
use super::notify::NotifyConfig;
use super::observability::ObservabilityConfig;
use super::patience::OutageConfig;
use super::verify::VerifyConfig;
use super::web::WebConfig;
use crate::isolation::{LandingPolicy, Workspace};

/// All settings of `config.yaml`, with defaults filled in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schemars(title = "rawko configuration")]
pub struct Config {
    /// Version of the file format.
    pub version: FormatVersion,
    /// The providers of model answers.
    pub provider: ProviderSection,
    /// The arbiter, which decides which agent works next.
    pub arbiter: ArbiterConfig,
    /// Where agent files are, and the default agent.
    pub agents: AgentsSection,
    /// Limits that stop a run.
    pub constraints: Constraints,
    /// In which files a run works: `project`, or `isolated` in a tree of its own at the project's path.
    #[serde(skip_serializing_if = "is_default")]
    pub workspace: Workspace,
    /// When the work of an isolated run lands in the project.
    #[serde(skip_serializing_if = "is_default")]
    pub land: LandingPolicy,
    /// What agents may read, write and run.
    pub permissions: Permissions,
    /// What models are not shown.
    #[serde(skip_serializing_if = "is_default")]
    pub secrets: SecretsConfig,
    /// Long-term memory.
    pub memory: MemoryConfig,
    /// Custom tools: programs that read JSON on standard input and print JSON.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<CustomTool>,
    /// Servers of tools (MCP).
    #[serde(skip_serializing_if = "McpSection::is_empty")]
    pub mcp: McpSection,
    /// How agents search the web.
    #[serde(skip_serializing_if = "WebConfig::is_default")]
    pub web: WebConfig,
    /// Programs and addresses that are notified when a run ends, waits or asks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<NotifyConfig>,
    /// Programs that are asked at fixed points of a run, and may refuse. Those of several files add up.
    #[serde(skip_serializing_if = "HooksConfig::is_empty")]
    pub hooks: HooksConfig,
    /// Where telemetry goes. Nothing is sent without it or OpenTelemetry's environment variables.
    #[serde(skip_serializing_if = "is_default")]
    pub observability: ObservabilityConfig,
    /// The fleet that tasks are submitted to.
    #[serde(skip_serializing_if = "is_default")]
    pub fleet: FleetConfig,
    /// The commands that verify that a task is done.
    #[serde(skip_serializing_if = "VerifyConfig::is_empty")]
    pub verify: VerifyConfig,
    /// Prices by model name, in US dollars per million tokens; they override the built-in ones. A name applies to every
    /// model whose name starts with it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, Price>,
}

/// `secrets:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SecretsConfig {
    /// Whether tokens that are known by their shape are masked in what tools and files show to a model.
    pub mask_tokens: bool,
}

impl Default for SecretsConfig {
    fn default() -> Self {
        Self { mask_tokens: true }
    }
}

/// The version of the file format: 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FormatVersion;

impl JsonSchema for FormatVersion {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Version".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "description": "The version of the file format: 1.", "enum": [1, "1", "1.0"] })
    }
}

impl Serialize for FormatVersion {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(1)
    }
}

impl<'de> Deserialize<'de> for FormatVersion {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value.as_f64() == Some(1.0) || matches!(value.as_str(), Some("1" | "1.0")) {
            Ok(Self)
        } else {
            Err(serde::de::Error::custom("version must be 1"))
        }
    }
}

/// `provider:` — `default`, `fallback`, `retry`, and under every other key a provider of that name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderSection {
    /// Name of the provider to use if nothing else names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Names of the providers to try, in order, when one has no valid key, does not serve the model, or keeps failing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<String>,
    /// How long a run waits for a provider that is down.
    #[serde(skip_serializing_if = "is_default")]
    pub retry: OutageConfig,
    /// The providers by name.
    #[serde(flatten)]
    pub named: BTreeMap<String, ProviderConfig>,
}

/// One provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ProviderConfig {
    /// The API it speaks. Not needed if the name or the preset implies it.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<ProviderType>,
    /// A known server whose address and key variable are used, e.g. `ollama`. Not needed if the provider has that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// The model to use if nothing else names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Address of the API, e.g. `http://localhost:11434/v1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Name of the environment variable that holds the key, or `null` to send no key. Never write the key itself
    /// into a file.
    #[serde(skip_serializing_if = "ApiKeyEnv::is_not_set")]
    pub api_key_env: ApiKeyEnv,
    /// Largest response, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
    /// Context window of its models: most tokens of request and response together. Known for many models.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1_000))]
    pub context_window: Option<u32>,
    /// Longest response that its models can give, in tokens, thinking included. Known for many models.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_output: Option<u32>,
    /// Sampling temperature. If absent, the provider's own default applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f64>,
    /// How much its models think for agents: `off`, `{budget: N}` or `{effort: low}`. If absent, as each model does by
    /// itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// Whether it searches the web itself for agents that may search. If absent: where it is known to, at its own
    /// address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_search: Option<bool>,
    /// Time limits of a call.
    #[serde(skip_serializing_if = "TimeoutConfig::is_empty")]
    pub timeouts: TimeoutConfig,
    /// How often failed calls are retried, and after which delays.
    #[serde(skip_serializing_if = "is_default")]
    pub retry: RetryPolicy,
    /// The file with the answers of a `scripted` provider, relative to the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// The Copilot CLI of a `copilot` provider: a name to look up in `PATH`, or a path. Default: `copilot`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub cli: Option<String>,
    /// Further top-level fields of the provider's request format, passed through unchanged (e.g. `metadata`).
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// The API that a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderType {
    /// Anthropic's Messages API.
    Claude,
    /// OpenAI's Chat Completions API, which many servers speak.
    OpenAi,
    /// GitHub Copilot, through its CLI. Only in builds with the feature `copilot`.
    Copilot,
    /// OpenAI's Responses API, or a server that speaks Open Responses.
    Responses,
    /// Answers from a file, for tests and demonstrations.
    Scripted,
}

/// `timeouts:` of a provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TimeoutConfig {
    /// Time to connect (default 10s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect: Option<TimeSpan>,
    /// Longest time without data from the server (default 60s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<TimeSpan>,
    /// Longest time of the whole call, including retries (default 15m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<TimeSpan>,
}

impl TimeoutConfig {
    /// Puts what is configured into `timeouts`.
    pub(crate) fn set(&self, timeouts: &mut rawko_provider::Timeouts) {
        for (slot, span) in [
            (&mut timeouts.connect_ms, self.connect),
            (&mut timeouts.idle_ms, self.idle),
            (&mut timeouts.total_ms, self.total),
        ] {
            if let Some(span) = span {
                *slot = span.as_ms();
            }
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// `arbiter:`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ArbiterConfig {
    /// Name of its provider. Default: `provider.default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Its model. Default: the provider's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Largest decision, in tokens, not counting the model's thinking.
    #[schemars(range(min = 1))]
    pub max_tokens: u32,
    /// Sampling temperature of decisions. The default is not sent to models that accept none.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: f64,
    /// Whether a cached answer may replace a model call: `true`, `false`, or by question.
    pub cache: CacheConfig,
    /// `hybrid` lets the rules decide where they are certain, and asks a model elsewhere; `llm` always asks, `rules` never.
    pub mode: ArbiterMode,
}

impl Default for ArbiterConfig {
    fn default() -> Self {
        Self {
            provider: None,
            model: None,
            max_tokens: 1024,
            temperature: 0.3,
            cache: CacheConfig::default(),
            mode: ArbiterMode::Hybrid,
        }
    }
}

/// `arbiter.cache`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CacheConfig {
    /// The same for both questions.
    Both(bool),
    /// By question.
    Each(CachePoints),
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self::Each(CachePoints::default())
    }
}

impl From<CacheConfig> for CacheUse {
    fn from(config: CacheConfig) -> Self {
        match config {
            CacheConfig::Both(both) => Self { select: both, evaluate: both },
            CacheConfig::Each(CachePoints { select, evaluate }) => Self { select, evaluate },
        }
    }
}

/// `arbiter.cache`, by question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CachePoints {
    /// Whether the choice of the next agent may come from the cache.
    pub select: bool,
    /// Whether the evaluation of an execution may come from the cache.
    pub evaluate: bool,
}

impl Default for CachePoints {
    fn default() -> Self {
        Self { select: true, evaluate: false }
    }
}

/// `agents:`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AgentsSection {
    /// Directory of the agent files, relative to the project.
    #[schemars(length(min = 1))]
    pub directory: String,
    /// Which built-in agents there are: all, none, or those of these names.
    pub builtin: BuiltinAgents,
    /// The agent to use if neither the arbiter nor the rules name one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// The default of `agents.directory`.
pub(super) const DEFAULT_AGENTS_DIRECTORY: &str = ".rawko/agents";

impl Default for AgentsSection {
    fn default() -> Self {
        Self {
            directory: DEFAULT_AGENTS_DIRECTORY.to_owned(),
            builtin: BuiltinAgents::default(),
            default: None,
        }
    }
}

/// `agents.builtin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum BuiltinAgents {
    /// All of them, or none.
    All(bool),
    /// Those of these names.
    Named(Vec<String>),
}

impl Default for BuiltinAgents {
    fn default() -> Self {
        Self::All(true)
    }
}

/// `constraints:` — limits that stop a run. An absent limit does not apply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Constraints {
    /// Most executions of agents in a run.
    #[schemars(range(min = 1))]
    pub max_iterations: u32,
    /// Number of consecutive failures after which the run fails.
    #[schemars(range(min = 1))]
    pub max_consecutive_failures: u32,
    /// Most tokens of all model calls of a run together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u64>,
    /// Highest cost of all model calls of a run together, in US dollars; `0` for no limit. The default counts where the
    /// prices of all models are known.
    #[schemars(range(min = 0.0))]
    pub max_cost_usd: f64,
    /// Longest wall time of a run; `0` for no limit.
    pub max_duration: TimeLimit,
}

/// The cost at which a run stops if nothing else is configured, in US dollars.
const DEFAULT_COST_USD: f64 = 10.0;
/// The time after which a run stops if nothing else is configured, in milliseconds: four hours.
const DEFAULT_DURATION_MS: u64 = 4 * 3_600_000;

impl Default for Constraints {
    fn default() -> Self {
        Self {
            max_iterations: 50,
            max_consecutive_failures: 3,
            max_tokens: None,
            max_cost_usd: DEFAULT_COST_USD,
            max_duration: TimeLimit::from_ms(DEFAULT_DURATION_MS),
        }
    }
}

/// `memory:` — defaults for agents that do not set their own (`docs/memory.md`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct MemoryConfig {
    /// Whether memories are read and added to prompts.
    pub enabled: bool,
    /// Whether a run may save what it learned as new memories, with one model call after each execution. Default: only
    /// in projects that have the folder `.rawko/memories`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extract: Option<bool>,
    /// The model that writes new memories.
    pub extractor: ExtractorConfig,
    /// Most memories added to one agent's prompt.
    pub max_injected: u32,
    /// Lowest importance of a memory that is added to a prompt.
    pub min_importance: Importance,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            extract: None,
            extractor: ExtractorConfig::default(),
            max_injected: 5,
            min_importance: Importance::Low,
        }
    }
}

/// `memory.extractor:` — the model that writes new memories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ExtractorConfig {
    /// Name of its provider. Default: `provider.default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Its model. Default: the provider's model. A cheap one is good enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Most tokens of all its calls in one run together. After that, no further call is made.
    #[schemars(range(min = 1))]
    pub max_tokens: u64,
}

impl Default for ExtractorConfig {
    fn default() -> Self {
        Self { provider: None, model: None, max_tokens: 100_000 }
    }
}

/// One entry of `tools:`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CustomTool {
    /// Name that agents call it by. It must be unique among all tools.
    #[schemars(regex(pattern = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"))]
    pub name: String,
    /// What it does and when to use it, for the model.
    #[schemars(length(min = 1))]
    pub description: String,
    /// JSON Schema of its arguments, of type `object`.
    #[serde(default = "any_object")]
    pub input_schema: Map<String, Value>,
    /// The program and its arguments. rawko runs it without a shell, in the project's directory.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
    /// `read_only` if it changes nothing. Such calls run in parallel and may be repeated.
    #[serde(default = "mutating")]
    pub access: ToolAccess,
    /// Longest time of one call (default 2m).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<TimeSpan>,
}

fn any_object() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), Value::from("object"))])
}

fn mutating() -> ToolAccess {
    ToolAccess::Mutating
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
