//! Says what does not hold the agents that are other programs (`docs/acp-agents.md`). They make their own calls, which no gate
//! and no list of programs sees. What holds them is the sandbox.

use std::path::Path;

use rawko_core::hook::HookEvent;

use super::diagnostic::{Diagnostic, printable};
use super::load::Loaded;
use super::team::{AgentSource, LoadedAgent};

impl Loaded {
    /// Warns of rules that do not hold an agent of this configuration, because it is another program.
    pub(crate) fn warn_of_outside_agents(&mut self) {
        let mut warnings = Vec::new();
        let is_about_calls =
            |event: HookEvent| matches!(event, HookEvent::PreToolUse | HookEvent::PostToolUse);
        let has_hooks = self.hooks.iter().any(|hook| is_about_calls(hook.event));
        for agent in self.agents.values().filter(|agent| agent.config.acp.is_some()) {
            let name = printable(&agent.config.name);
            let mut warn = |message: String, help: &str| {
                warnings.push(Diagnostic::of_file(file(agent), message, Some(help.to_owned())));
            };
            if has_hooks {
                warn(
                    format!("PreToolUse and PostToolUse hooks do not see what the program of `{name}` does"),
                    "the sandbox holds it: set `permissions.write`, `permissions.deny` and `acp.net`; Stop hooks see its work",
                );
            }
            let own = agent.config.permissions.as_ref().and_then(|permissions| permissions.run.as_ref());
            if own.or(self.config.permissions.run.as_ref()).is_some() {
                warn(
                    format!("`permissions.run` does not hold the commands of the program of `{name}`"),
                    "the sandbox holds them: set `permissions.write`, `permissions.deny` and `acp.net`",
                );
            }
        }
        self.warnings.extend(warnings);
    }
}

fn file(agent: &LoadedAgent) -> &Path {
    match &agent.source {
        AgentSource::BuiltIn => Path::new(".rawko/agents"),
        AgentSource::File(path) | AgentSource::ClaudeCode(path) | AgentSource::Plugin { path, .. } => path,
    }
}
