//! Configuration: loads files, environment and flags into one validated [`Config`] and records where each value came from
//! (`docs/configuration.md`).
//!
//! ```text
//! source ─▶ yaml ─▶ schema ─┐                         ┌─▶ Loaded ─▶ report
//!    │    (places)  (words) ├─▶ layers ─▶ rules ──────┤
//!    └─▶ markdown ─▶ agents ┘   (merge)   (names, …)  └─▶ ConfigErrors, all of them
//! ```
//!
//! [`load`] reads and validates everything; the environment is an argument. [`Loaded::claims`] lists what only
//! a folder in the [`TrustStore`] gets. [`Fingerprint::changed`] detects when to load again. [`init`] writes the files.
//! The configuration never holds API keys, only the names of the variables that do.

mod address;
mod agent_file;
mod agent_rules;
mod api_key_env;
mod claim;
mod claims;
mod claude_code;
mod claude_settings;
mod config_rules;
mod data_file;
mod diagnostic;
mod directories;
mod distrust;
mod emit;
mod fingerprint;
mod fleet;
pub(crate) mod front_matter;
mod given;
mod hooks;
mod init;
mod jsonc;
mod layers;
mod limit_claims;
mod load;
mod markdown;
mod mcp;
mod model;
mod nearest;
pub(crate) use nearest::nearest;
mod notify;
mod observability;
mod outside;
mod patience;
mod plugins;
mod position;
mod provider;
mod report;
mod rights;
mod schema;
mod settings;
mod source;
mod team;
mod temperature;
mod thinking;
mod time_limit;
mod trust;
mod trust_keys;
mod unsupported;
mod verify;
mod violation;
mod web;
mod yaml;

#[cfg(test)]
mod tests;

pub(crate) use address::is_loopback_url;
pub use api_key_env::ApiKeyEnv;
pub use claim::{Claim, ClaimKind};
pub(crate) use config_rules::host_fault;
pub(crate) use data_file::parse_data;
pub use data_file::read_data_file;
pub use diagnostic::{ConfigErrors, Diagnostic, DiagnosticOrigin};
pub use directories::{user_cache_dir, user_config_dir, user_data_dir, user_state_dir};
pub(crate) use distrust::has_memories;
pub use fingerprint::Fingerprint;
pub use fleet::FleetConfig;
pub use given::GivenConfig;
pub use hooks::{HookEntry, HookGroup, HookKind, HooksConfig, LoadedHook};
pub use init::{InitError, Initialised, agent_markdown, init};
pub use layers::{Origin, Provenance};
pub use load::{LoadOptions, Loaded, OwnTemplates, load};
pub(crate) use mcp::check_server;
#[cfg(feature = "mcp")]
pub(crate) use mcp::expand;
pub use mcp::{LoadedServer, McpClient, McpPermissions, McpSection, McpServer};
pub use model::{
    AgentsSection, ArbiterConfig, BuiltinAgents, CacheConfig, CachePoints, Config, Constraints, CustomTool,
    ExtractorConfig, FormatVersion, MemoryConfig, ProviderConfig, ProviderSection, ProviderType,
    SecretsConfig, TimeoutConfig,
};
pub use notify::{NotifyConfig, NotifyOn};
pub use observability::{ObservabilityConfig, OtlpProtocol};
pub use patience::{OutageConfig, Patience};
pub use plugins::{HookCommand, Plugin, PluginAgent, PluginForm, PluginPlace, PluginServer};
pub(crate) use plugins::{is_plugin_name, plugin_name};
pub use position::Position;
pub use provider::{COPILOT, ResolvedProvider};
pub use rawko_core::{NotATimeSpan, PlainNumber, TimeSpan};
pub use report::{ConfigReport, ReportedSetting};
pub use schema::{agent_schema, config_schema};
pub use settings::{Overrides, environment_variables};
pub use source::{ProjectFile, Scope};
pub(crate) use team::own_skills;
pub use team::{AgentSource, LoadedAgent};
pub use time_limit::TimeLimit;
pub use trust::{ChangeSinceTrust, ChangedFile, NO_CONFIGURATION, TrustError, TrustStore};
pub use verify::VerifyConfig;
pub use web::{BraveConfig, ProviderSearchConfig, SearchConfig, WebConfig};
pub(crate) use yaml::{escape, yaml_value};
