//! rawko and the Agent Client Protocol: rawko as an agent of editors, and other agents in rawko's team.

mod outside;

pub use outside::AcpAgents;
