//! The demonstration's project and the answers that stand in for a model.
//!
//! Owns the throw-away project with its bug, and the script. The run itself is like any other: real machine, real
//! tools, real rights, real tests.

mod project;
mod script;

pub(crate) use project::{Project, TEST_COMMAND, TestRun};
pub(crate) use script::{TASK, script};
