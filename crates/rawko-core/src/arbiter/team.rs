//! Who is what in a set of agents: which of them plans, changes files, tests, reviews.
//!
//! Owns the recognition, by name first, then by what an agent is said to be for and what it may do. It says how sure
//! it is, and refuses to guess where two could be meant.

use super::fallback::{COMPLETE, follow};
use super::input::{AgentDescription, ExecutionSummary};
use super::words::{nearest, stems};

/// A part in the usual course of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Planner,
    Developer,
    Tester,
    Reviewer,
}

use Role::{Developer, Planner, Reviewer, Tester};

/// Parts of names that tell a role; German ones too, as they are met.
const NAMES: &[(Role, &[&str])] = &[
    (Planner, &["plan", "architect", "design", "analy"]),
    (Reviewer, &["review", "critic", "audit", "editor", "proofread", "gutachter"]),
    (Tester, &["test", "qa", "check", "verif", "validat", "pruef", "prüf"]),
    (
        Developer,
        &["develop", "cod", "implement", "programm", "build", "writ", "fix", "dev", "entwickl", "maker"],
    ),
];

/// Stems in what an agent is for that tell a role.
const USES: &[(Role, &[&str])] = &[
    (Planner, &["plan", "design", "step", "approach"]),
    (Tester, &["test", "check", "verify", "verif", "qa"]),
    (Reviewer, &["review", "critical", "critic", "proofread", "audit", "read", "assess"]),
    (Developer, &["cod", "writ", "imple", "chang", "develop", "fix", "repair"]),
];

/// How sure a recognition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found<'a> {
    pub(super) name: &'a str,
    pub(super) sure: bool,
}

/// Where an execution leads by its agent's transitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Successor<'a> {
    Agent(&'a str),
    End,
}

/// The agents that can be chosen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Team<'a> {
    agents: &'a [AgentDescription],
}

impl<'a> Team<'a> {
    pub(super) fn new(agents: &'a [AgentDescription]) -> Self {
        Self { agents }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a AgentDescription> {
        self.agents.iter().find(|agent| agent.name == name)
    }

    /// The only agent there is.
    pub(super) fn only(&self) -> Option<&'a str> {
        match self.agents {
            [agent] => Some(&agent.name),
            _ => None,
        }
    }

    /// Which role the agent has, and whether that is sure.
    pub(super) fn role(&self, name: &str) -> Option<(Role, bool)> {
        let Some(agent) = self.get(name) else {
            // One that cannot be chosen now may still be judged, by its name alone.
            return role_of_name(name).map(|role| (role, true));
        };
        if let Some(role) = role_of_name(&agent.name) {
            // A name that promises changes without a tool for them is a name, not a role.
            return (role != Developer || can_write(agent)).then_some((role, true));
        }
        if self.agents.len() == 1 {
            return Some((Developer, false));
        }
        let used = stems(&agent.when_to_use);
        let count = |parts: &[&str]| {
            used.iter().filter(|stem| parts.iter().any(|part| stem.starts_with(part))).count()
        };
        let told = USES.iter().map(|(role, stems)| (count(stems), *role)).filter(|(count, _)| *count > 0);
        let best = told.max_by_key(|(count, role)| (*count, *role == Developer)).map(|(_, role)| role);
        match best {
            Some(Developer) | None => can_write(agent).then_some((Developer, false)),
            Some(role) => Some((role, false)),
        }
    }

    /// Who has that role. Of several the one that did such work last, or whose "when to use" is nearest to `state`.
    pub(super) fn who(&self, role: Role, last_writer: Option<&str>, state: &str) -> Option<Found<'a>> {
        let with_role = |agent: &&AgentDescription| self.role(&agent.name).filter(|(r, _)| *r == role);
        let found: Vec<Found<'_>> = self
            .agents
            .iter()
            .filter_map(|agent| with_role(&agent).map(|(_, sure)| Found { name: &agent.name, sure }))
            .collect();
        match found.as_slice() {
            [] => None,
            [only] => Some(*only),
            [first, ..] => {
                let texts: Vec<(&str, String)> = found
                    .iter()
                    .filter_map(|found| Some((found.name, text(self.get(found.name)?))))
                    .collect();
                let by_words = nearest(state, &texts);
                let by_record = last_writer.filter(|name| found.iter().any(|found| found.name == *name));
                let name = by_record.and_then(|name| self.get(name)).map(|agent| agent.name.as_str());
                Some(Found { name: name.or(by_words).unwrap_or(first.name), sure: false })
            }
        }
    }

    /// Where the agent's own transitions lead, as far as they lead to somebody in the set.
    pub(super) fn successor(&self, last: &ExecutionSummary) -> Option<Successor<'a>> {
        let target = follow(&self.get(&last.agent)?.transitions, last.ended(), last.status)?;
        if target == COMPLETE {
            return Some(Successor::End);
        }
        self.get(target).map(|agent| Successor::Agent(agent.name.as_str()))
    }

    /// The agent of a custom transition whose condition has words of `state`.
    pub(super) fn special(&self, name: &str, state: &str) -> Option<&'a str> {
        let state = stems(state);
        let custom = &self.get(name)?.transitions.custom;
        let fits = custom.iter().filter(|custom| stems(&custom.condition).intersection(&state).count() >= 2);
        fits.filter_map(|custom| self.get(&custom.target)).map(|agent| agent.name.as_str()).next()
    }

    /// Whether its author named cases of its own.
    pub(super) fn has_special(&self, name: &str) -> bool {
        self.get(name).is_some_and(|agent| !agent.transitions.custom.is_empty())
    }

    /// Whose "when to use" is nearest to `state`, `but` left out.
    pub(super) fn nearest(&self, state: &str, but: &str) -> Option<&'a str> {
        let others = self.agents.iter().filter(|agent| agent.name != but);
        let texts: Vec<(&str, String)> = others.map(|agent| (agent.name.as_str(), text(agent))).collect();
        nearest(state, &texts)
    }

    /// The agents that may use `tool`, `but` left out.
    pub(super) fn with_tool(&self, tool: &str, but: &str) -> Vec<&'a str> {
        let others = self.agents.iter().filter(|agent| agent.name != but && has_tool(agent, tool));
        others.map(|agent| agent.name.as_str()).collect()
    }

    /// Whether the agent may use `tool`.
    pub(super) fn has_tool(&self, name: &str, tool: &str) -> bool {
        self.get(name).is_some_and(|agent| has_tool(agent, tool))
    }
}

fn text(agent: &AgentDescription) -> String {
    format!("{} {} {}", agent.name, agent.display_name, agent.when_to_use)
}

fn can_write(agent: &AgentDescription) -> bool {
    has_tool(agent, "Write") || has_tool(agent, "Edit")
}

fn has_tool(agent: &AgentDescription, tool: &str) -> bool {
    let allowed = agent.tools.allowed.as_ref().is_none_or(|allowed| allowed.iter().any(|name| name == tool));
    allowed && !agent.tools.blocked.iter().any(|name| name == tool)
}

fn role_of_name(name: &str) -> Option<Role> {
    let name = name.to_lowercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).collect();
    let told = |parts: &&[&str]| words.iter().any(|word| parts.iter().any(|part| word.starts_with(part)));
    NAMES.iter().find(|(_, parts)| told(parts)).map(|(role, _)| *role)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbiter::testing::builtin;

    fn agent(name: &str, when: &str, tools: &[&str]) -> AgentDescription {
        serde_json::from_value(serde_json::json!({
            "name": name, "displayName": name, "whenToUse": when, "tools": {"allowed": tools},
        }))
        .unwrap()
    }

    #[track_caller]
    fn check(agents: &[AgentDescription], name: &str, expected: Option<(Role, bool)>) {
        assert_eq!(Team::new(agents).role(name), expected, "{name}");
    }

    #[test]
    fn roles_are_told_by_names_then_by_uses_then_by_tools() {
        let built_in = builtin();
        for (name, role) in
            [("planner", Planner), ("developer", Developer), ("tester", Tester), ("reviewer", Reviewer)]
        {
            check(&built_in, name, Some((role, true)));
        }
        let set = [
            agent("code-architect", "", &["Read"]),
            agent("coder", "", &["Edit"]),
            agent("coder-without-tools", "", &["Read"]),
            agent("anna", "Runs tests and checks", &["Bash"]),
            agent("berta", "Writes and changes code", &["Write"]),
            agent("carla", "", &["Write"]),
            agent("dora", "", &["Read"]),
        ];
        check(&set, "code-architect", Some((Planner, true)));
        check(&set, "coder", Some((Developer, true)));
        check(&set, "coder-without-tools", None);
        check(&set, "anna", Some((Tester, false)));
        check(&set, "berta", Some((Developer, false)));
        check(&set, "carla", Some((Developer, false)));
        check(&set, "dora", None);
        check(&[agent("solo", "Everything", &["Read"])], "solo", Some((Developer, false)));
    }

    #[test]
    fn of_several_the_one_at_work_or_the_nearest_is_meant() {
        let set =
            [agent("sql-developer", "Migrations", &["Write"]), agent("css-developer", "Layout", &["Write"])];
        let team = Team::new(&set);
        let who = |writer, state| team.who(Developer, writer, state).map(|found| (found.name, found.sure));
        assert_eq!(who(None, "the layout is off"), Some(("css-developer", false)));
        assert_eq!(who(Some("sql-developer"), "the layout is off"), Some(("sql-developer", false)));
        assert_eq!(who(None, ""), Some(("sql-developer", false)));
        assert_eq!(team.who(Tester, None, ""), None);
    }
}
