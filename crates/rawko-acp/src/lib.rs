//! rawko and the Agent Client Protocol: rawko as an agent of editors, and other agents in rawko's team.

pub mod agent;
mod outside;

pub use outside::AcpAgents;
