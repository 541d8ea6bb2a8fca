//! Lists of the programs that Bash may run. Each knows where it stands, so that a denial blames the right one.

use super::SHOWN;
use super::options::Refused;
use crate::text::truncate;

/// Characters of a list in a message.
const LIST_SHOWN: usize = 400;

/// A list, and where it is configured.
#[derive(Debug)]
pub(super) struct Allowlist<'a> {
    pub(super) names: &'a [String],
    pub(super) place: ListPlace,
}

/// Where a list of programs is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListPlace {
    /// The agent's `tools.bashFilter.allowedCommands`.
    BashFilter,
    /// The agent's own `permissions.run`.
    AgentRun,
    /// `permissions.run` of the configuration, or the command line's `--allow-run` in its place.
    GlobalRun,
}

impl ListPlace {
    /// The rule, as it is journaled.
    pub(super) fn rule(self) -> &'static str {
        match self {
            Self::BashFilter => "tools.bashFilter.allowedCommands",
            Self::AgentRun | Self::GlobalRun => "permissions.run",
        }
    }

    /// What would let everything pass that no entry of the list grants.
    pub(super) fn lifted(self) -> String {
        format!(
            " No entry of {} grants that; to allow it, remove the list {}: then every program may run.",
            self.rule(),
            self.owner()
        )
    }

    fn owner(self) -> &'static str {
        match self {
            Self::BashFilter | Self::AgentRun => "of this agent",
            Self::GlobalRun => "of the configuration (`rawko config show` says where), or in --allow-run",
        }
    }
}

impl Allowlist<'_> {
    /// Whether `program` is listed; if not, the line that would list it.
    pub(super) fn holds(&self, program: &str) -> Refused {
        if self.names.iter().any(|name| name == program) {
            return Ok(());
        }
        let shown = truncate(program, SHOWN);
        Err(format!(
            "`{shown}` is not listed. To allow it, add `- {shown}` under {} {}. Listed are: {}.",
            self.place.rule(),
            self.place.owner(),
            if self.names.is_empty() {
                "none".to_owned()
            } else {
                truncate(&self.names.join(", "), LIST_SHOWN)
            }
        ))
    }
}
