//! What an agent may do in the end, each right with the setting that decides it.

use rawko::Rawko;
use rawko::config::LoadedAgent;
use rawko_core::agent::Permissions;
use rawko_core::policy::{effective_permissions, permissions_of_calls};
use serde::Serialize;

/// One right.
#[derive(Debug, Serialize)]
pub(super) struct Right {
    pub(super) name: &'static str,
    /// What it grants; absent where it grants everything.
    pub(super) grants: Option<Vec<String>>,
    /// What everything is, where that can be listed.
    #[serde(skip)]
    all: Vec<String>,
    /// The lines of configuration that decide it, or what else does.
    pub(super) source: String,
}

impl Right {
    /// What it grants, for people.
    pub(super) fn text(&self) -> String {
        match &self.grants {
            None if self.all.is_empty() => "everything".to_owned(),
            None => format!("everything: {}", self.all.join(", ")),
            Some(grants) if grants.is_empty() => "nothing".to_owned(),
            Some(grants) => grants.join(", "),
        }
    }
}

/// All rights of an agent, as a run that begins now would grant them.
pub(super) fn of(rawko: &Rawko, agent: &LoadedAgent) -> Vec<Right> {
    let config = &agent.config;
    let own = config.permissions.clone().unwrap_or_default();
    let granted = effective_permissions(&rawko.config().config.permissions, Some(&own), None);
    let calls = permissions_of_calls(config, &granted);
    let source = |rule: &str, is_own: bool| source(rawko, agent, rule, is_own);
    let tools = config.tools.allowed.clone().map(|mut allowed| {
        allowed.retain(|tool| !config.tools.blocked.contains(tool));
        allowed
    });
    // Without the tools of the run it is said that these are all.
    let offered = rawko.tools().map(|tools| tools.offered(config)).unwrap_or_default();
    let offered: Vec<String> = offered.into_iter().map(|tool| tool.name).collect();
    let may_edit = calls.write == granted.write;
    let list = |name, grants: fn(&Permissions) -> &Option<Vec<String>>| {
        let rule = format!("permissions.{name}");
        let grants_own = grants(&own).is_some();
        Right { name, grants: grants(&granted).clone(), all: Vec::new(), source: source(&rule, grants_own) }
    };
    let filter = config.tools.bash_filter.as_ref();
    let mut rights = vec![
        Right {
            name: "tools",
            grants: tools,
            all: offered,
            source: source("tools.allowed", config.tools.allowed.is_some()),
        },
        list("read", |permissions| &permissions.read),
        if may_edit {
            list("write", |permissions| &permissions.write)
        } else {
            Right {
                name: "write",
                grants: calls.write,
                all: Vec::new(),
                source: "neither Write nor Edit among its tools".to_owned(),
            }
        },
        list("net", |permissions| &permissions.net),
        list("env", |permissions| &permissions.env),
    ];
    // Without it, programs are listed by the filter alone: `run: everything` beside a filter would say the opposite.
    if granted.run.is_some() || filter.is_none() {
        rights.push(list("run", |permissions| &permissions.run));
    }
    if granted.deny.is_some() {
        rights.push(list("deny", |permissions| &permissions.deny));
    }
    if granted.protect.is_some() {
        rights.push(list("protect", |permissions| &permissions.protect));
    }
    rights.push(Right {
        name: "bashFilter",
        grants: filter.and_then(|filter| filter.allowed_commands.clone()),
        all: Vec::new(),
        source: source("tools.bashFilter.allowedCommands", filter.is_some()),
    });
    if let Some(filter) = filter.filter(|filter| !filter.blocked_patterns.is_empty()) {
        rights.push(Right {
            name: "bash refuses",
            grants: Some(filter.blocked_patterns.clone()),
            all: Vec::new(),
            source: source("tools.bashFilter.blockedPatterns", true),
        });
    }
    rights
}

/// Whether the operating system holds commands to these rights, and by which setting.
pub(super) fn sandbox(rawko: &Rawko) -> (bool, String) {
    let rules = ["permissions.require", "permissions.sandbox"];
    let places: Vec<String> = rules.iter().flat_map(|rule| rawko.config().places_of_rule("", rule)).collect();
    (rawko.is_confined(), if places.is_empty() { "default".to_owned() } else { places.join(", ") })
}

/// Where a right comes from. `is_own`: the agent itself sets it.
fn source(rawko: &Rawko, agent: &LoadedAgent, rule: &str, is_own: bool) -> String {
    let mut places = rawko.config().places_of_rule(&agent.config.name, rule);
    // An agent that is built in has no lines.
    let of_agent = agent.source.to_string();
    if is_own && !places.iter().any(|place| place.starts_with(&of_agent)) {
        places.insert(0, of_agent);
    }
    if places.is_empty() { "default".to_owned() } else { places.join(", ") }
}
