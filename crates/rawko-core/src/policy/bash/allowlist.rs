//! Lists of the programs that Bash may run. Each knows where it comes from, so that a denial blames the right one.

use super::denial::{Denial, Lift, PolicyResult};
use super::{SHOWN, is_program_name};
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

    /// What the user can change, where this list refuses something.
    pub(super) fn lifted(self, lift: &Lift, agent: Option<&str>) -> Option<String> {
        let (rule, owner) = (self.rule(), self.owner(agent));
        match lift {
            Lift::Program(program) => Some(format!("add `- {program}` under {rule} {owner}")),
            Lift::NoList => Some(format!("remove the list under {rule} {owner}: then every program may run")),
            Lift::WritePath(path) => Some(write_path(path, agent)),
            Lift::Nothing => None,
        }
    }

    fn owner(self, agent: Option<&str>) -> String {
        match self {
            Self::BashFilter | Self::AgentRun => of_agent(agent),
            Self::GlobalRun => {
                "of the configuration (`rawko config show` says where), or in --allow-run".to_owned()
            }
        }
    }
}

/// The change that lets an agent write a path.
pub(super) fn write_path(path: &str, agent: Option<&str>) -> String {
    format!("add `- {path}` under permissions.write {} and of the configuration", of_agent(agent))
}

pub(super) fn of_agent(agent: Option<&str>) -> String {
    agent.map_or_else(|| "of this agent".to_owned(), |name| format!("of agent `{name}`"))
}

impl Allowlist<'_> {
    /// Whether `program` is listed.
    pub(super) fn holds(&self, program: &str) -> PolicyResult {
        if self.names.iter().any(|name| name == program) {
            return Ok(());
        }
        let shown = truncate(program, SHOWN);
        let listed = match self.names {
            [] => "no programs".to_owned(),
            names => truncate(&names.join(", "), LIST_SHOWN),
        };
        let lift = match program.len() <= SHOWN && is_program_name(program) {
            true => Lift::Program(program.to_owned()),
            false => Lift::Nothing,
        };
        Err(Denial {
            why: format!("`{shown}` is not listed: you may run {listed}. Use these, or another tool."),
            lift,
        })
    }
}
