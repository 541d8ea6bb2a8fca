//! Finds the lines that set what an agent may do, for messages that name the line to change.

use std::collections::BTreeMap;

use super::layers::Origin;
use super::load::Loaded;
use super::yaml::Document;

/// The settings of an agent that policy rules use.
const RIGHTS: [&str; 12] = [
    "/tools/allowed",
    "/tools/blocked",
    "/tools/bashFilter/allowedCommands",
    "/tools/bashFilter/blockedPatterns",
    "/permissions/read",
    "/permissions/write",
    "/permissions/deny",
    "/permissions/protect",
    "/permissions/net",
    "/permissions/env",
    "/permissions/run",
    "/permissions/ask",
];

/// The lines of a file that set an agent's tools and permissions, by JSON pointer.
pub(super) fn lines(document: &Document) -> BTreeMap<&'static str, usize> {
    let set = RIGHTS.into_iter().filter(|pointer| document.value.pointer(pointer).is_some());
    set.map(|pointer| (pointer, document.key_place(pointer).line)).collect()
}

impl Loaded {
    /// The lines that set `rule` for `agent`, as `.rawko/config.yaml:3`. The agent's own line comes first.
    /// Empty if the rule is not configured, or cannot be changed.
    #[must_use]
    pub fn places_of_rule(&self, agent: &str, rule: &str) -> Vec<String> {
        // The text after a rule's name is for people: `tools.allowed (absent: all)`.
        let name = rule.split(' ').next().unwrap_or_default();
        let pointer = format!("/{}", name.replace('.', "/"));
        let mut places = Vec::new();
        if let Some(agent) = self.agents.get(agent)
            && let Some(line) = agent.lines.get(pointer.as_str())
        {
            places.push(format!("{}:{line}", agent.source));
        }
        // Of these settings, only permissions can also be set for the whole project.
        let origin = self.provenance.origin(&pointer);
        if name.starts_with("permissions.") && *origin != Origin::Default {
            places.push(origin.to_string());
        }
        places
    }
}
