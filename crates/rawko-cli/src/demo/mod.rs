//! The demo's temporary project with a bug, and the scripted answers. The run itself is like any other: the state machine,
//! tools, permissions and tests are real.

mod project;
mod script;

pub(crate) use project::{DemoProject, TEST_COMMAND, TestRun};
pub(crate) use script::{TASK, script};
