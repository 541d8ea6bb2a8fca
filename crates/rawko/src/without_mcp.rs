//! Servers of tools (MCP), in a program without them. A configuration with one is refused ([`crate::features`]).

use std::sync::Arc;

use rawko_tools::Tool;

use crate::setup::rawko::Rawko;

impl Rawko {
    /// None.
    pub(crate) fn tools_of_servers(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }

    /// None.
    pub(crate) fn secrets_of_servers(&self) -> impl Iterator<Item = String> {
        std::iter::empty()
    }

    /// There is none to warn of.
    pub(crate) fn warn_of_servers(&mut self) {}
}
