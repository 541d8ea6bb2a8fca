//! The roles in a set of agents: which of them plans, changes files, tests, reviews.
//!
//! A role is recognised by the agent's name first, then by its `whenToUse` and its tools. The result says whether it
//! is sure; where two agents fit equally it is not.

use super::fallback::{COMPLETE, follow};
use super::input::{AgentDescription, ExecutionSummary};
use super::words::{nearest, stems};

/// The role of an agent in the usual course of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AgentRole {
    Planner,
    Developer,
    Tester,
    Reviewer,
}

use AgentRole::{Developer, Planner, Reviewer, Tester};

/// Beginnings of names that indicate a role, some of them German.
const NAMES: &[(AgentRole, &[&str])] = &[
    (Planner, &["plan", "architect", "design", "analy"]),
    (Reviewer, &["review", "critic", "audit", "editor", "proofread", "gutachter"]),
    (Tester, &["test", "qa", "check", "verif", "validat", "pruef", "prüf"]),
    (
        Developer,
        &["develop", "cod", "implement", "programm", "build", "writ", "fix", "dev", "entwickl", "maker"],
    ),
];

/// Beginnings of words in `whenToUse` that indicate a role.
const USES: &[(AgentRole, &[&str])] = &[
    (Planner, &["plan", "design", "step", "approach"]),
    (Tester, &["test", "check", "verify", "verif", "qa"]),
    (Reviewer, &["review", "critical", "critic", "proofread", "audit", "read", "assess"]),
    (Developer, &["cod", "writ", "imple", "chang", "develop", "fix", "repair"]),
];

/// An agent chosen for a piece of work, and whether the choice is sure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Worker<'a> {
    pub(super) name: &'a str,
    pub(super) sure: bool,
}

/// The target of an agent's transition.
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

    /// The only agent, if there is just one.
    pub(super) fn only(&self) -> Option<&'a str> {
        match self.agents {
            [agent] => Some(&agent.name),
            _ => None,
        }
    }

    /// The agent's role, and whether that is sure.
    pub(super) fn role(&self, name: &str) -> Option<(AgentRole, bool)> {
        let Some(agent) = self.get(name) else {
            // An agent that cannot be chosen now is recognised by its name alone.
            return role_of_name(name).map(|role| (role, true));
        };
        if let Some(role) = role_of_name(&agent.name) {
            // A developer by name needs a tool that writes.
            return (role != Developer || can_write(agent)).then_some((role, true));
        }
        if self.agents.len() == 1 {
            return Some((Developer, false));
        }
        let used = stems(&agent.when_to_use);
        let count = |parts: &[&str]| {
            used.iter().filter(|stem| parts.iter().any(|part| stem.starts_with(part))).count()
        };
        let indicated =
            USES.iter().map(|(role, stems)| (count(stems), *role)).filter(|(count, _)| *count > 0);
        let best = indicated.max_by_key(|(count, role)| (*count, *role == Developer)).map(|(_, role)| role);
        match best {
            Some(Developer) | None => can_write(agent).then_some((Developer, false)),
            Some(role) => Some((role, false)),
        }
    }

    /// The agent with that role. Of several: the last one that changed files, else the one whose `whenToUse` matches
    /// `state` best.
    pub(super) fn agent_for(
        &self,
        role: AgentRole,
        last_writer: Option<&str>,
        state: &str,
    ) -> Option<Worker<'a>> {
        let with_role = |agent: &&AgentDescription| self.role(&agent.name).filter(|(r, _)| *r == role);
        let found: Vec<Worker<'_>> = self
            .agents
            .iter()
            .filter_map(|agent| with_role(&agent).map(|(_, sure)| Worker { name: &agent.name, sure }))
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
                Some(Worker { name: name.or(by_words).unwrap_or(first.name), sure: false })
            }
        }
    }

    /// The target of the agent's own transitions, if it is in the set.
    pub(super) fn successor(&self, last: &ExecutionSummary) -> Option<Successor<'a>> {
        let target = follow(&self.get(&last.agent)?.transitions, last.ended(), last.status)?;
        if target == COMPLETE {
            return Some(Successor::End);
        }
        self.get(target).map(|agent| Successor::Agent(agent.name.as_str()))
    }

    /// The target of the first custom transition whose condition shares two words with `state`.
    pub(super) fn special(&self, name: &str, state: &str) -> Option<&'a str> {
        let state = stems(state);
        let custom = &self.get(name)?.transitions.custom;
        let fits = custom.iter().filter(|custom| stems(&custom.condition).intersection(&state).count() >= 2);
        fits.filter_map(|custom| self.get(&custom.target)).map(|agent| agent.name.as_str()).next()
    }

    /// Whether the agent has custom transitions.
    pub(super) fn has_special(&self, name: &str) -> bool {
        self.get(name).is_some_and(|agent| !agent.transitions.custom.is_empty())
    }

    /// The agent other than `but` whose `whenToUse` matches `state` best.
    pub(super) fn nearest(&self, state: &str, but: &str) -> Option<&'a str> {
        let others = self.agents.iter().filter(|agent| agent.name != but);
        let texts: Vec<(&str, String)> = others.map(|agent| (agent.name.as_str(), text(agent))).collect();
        nearest(state, &texts)
    }

    /// The agents other than `but` that may use `tool`.
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

fn role_of_name(name: &str) -> Option<AgentRole> {
    let name = name.to_lowercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).collect();
    let matches = |parts: &&[&str]| words.iter().any(|word| parts.iter().any(|part| word.starts_with(part)));
    NAMES.iter().find(|(_, parts)| matches(parts)).map(|(role, _)| *role)
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
    fn check(agents: &[AgentDescription], name: &str, expected: Option<(AgentRole, bool)>) {
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
        let who =
            |writer, state| team.agent_for(Developer, writer, state).map(|found| (found.name, found.sure));
        assert_eq!(who(None, "the layout is off"), Some(("css-developer", false)));
        assert_eq!(who(Some("sql-developer"), "the layout is off"), Some(("sql-developer", false)));
        assert_eq!(who(None, ""), Some(("sql-developer", false)));
        assert_eq!(team.agent_for(Tester, None, ""), None);
    }
}
