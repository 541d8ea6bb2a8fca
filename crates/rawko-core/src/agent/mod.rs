//! Agents: their configuration, the built-in ones, and the agent loop.

mod builtin;
mod compaction;
mod config;
mod control;
pub mod execution;
pub mod outside;
mod outside_prompt;
pub mod prompt;
mod replan;
mod role;
mod shortening;
mod skills;
mod verdict;

pub use builtin::{BUILTIN_AGENTS, builtin_agents};
pub use config::{
    AgentBudget, AgentConfig, AgentLimits, AgentMemory, AgentProvider, Ask, BashFilter, CustomTransition,
    DEFAULT_MAX_TURNS, Enforcement, Importance, OneOrMany, Permissions, SandboxUse, SkillChoice, ToolFilter,
    Transitions,
};
pub use control::{
    REPORT, Report, ReportOutcome, StepInput, UPDATE_PLAN, UpdatePlan, control_tools, report_tool,
};
pub use outside::AcpProgram;
pub use outside_prompt::outside_system_prompt;
pub use role::AgentRole;
pub use shortening::Compaction;
pub use skills::{SKILL, SkillSetup};
pub use verdict::{Finding, Verdict, VerdictReport};
