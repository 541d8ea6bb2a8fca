//! Agents: what configuration says of them, and the four that come built in.

mod config;

pub use config::{
    AgentConfig, AgentLimits, AgentMemory, AgentProvider, BashFilter, CustomTransition, DEFAULT_MAX_TURNS,
    Importance, OneOrMany, Permissions, ToolFilter, Transitions,
};
