//! The roles in a set of agents: which of them plans, changes files, tests, reviews.
//!
//! An agent's author declares its role. Where that is missing, its tools and the transitions of the set say it as far as
//! they can; names and descriptions never do. The result says whether it is sure; where two agents fit equally it is not.

use super::fallback::{COMPLETE, follow};
use super::input::{AgentDescription, ExecutionSummary};
use super::words::{nearest, stems};
use crate::agent::AgentRole;

/// An agent chosen for a piece of work, and whether the choice is sure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChosenAgent<'a> {
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
pub(super) struct SelectableAgents<'a> {
    agents: &'a [AgentDescription],
}

impl<'a> SelectableAgents<'a> {
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
        let agent = self.get(name)?;
        match agent.role {
            Some(role) => Some((role, true)),
            None if self.agents.len() == 1 => Some((AgentRole::Implement, can_write(agent))),
            None if can_write(agent) => Some(self.role_of_writer(agent)),
            None => self.role_of_reader(agent),
        }
    }

    /// An agent that writes implements, unless another agent that writes repairs what it finds and is followed by it.
    fn role_of_writer(&self, agent: &AgentDescription) -> (AgentRole, bool) {
        let hands_back = self.target(agent.transitions.on_failure.as_ref()).filter(|to| can_write(to));
        let goes_on = self.target(agent.transitions.on_success.as_ref());
        let is_examined = goes_on.is_none_or(|to| !can_write(to));
        match hands_back {
            Some(writer) if writer.name != agent.name && is_examined => {
                let follows = writer.transitions.on_success.as_ref() == Some(&agent.name);
                (AgentRole::Test, follows)
            }
            _ => {
                let undeclared = |other: &&AgentDescription| other.role.is_none() && can_write(other);
                let mut others =
                    self.agents.iter().filter(undeclared).filter(|other| other.name != agent.name);
                (AgentRole::Implement, !others.any(|other| self.seems_to_implement(other)))
            }
        }
    }

    /// Whether nothing says of a writer that it examines.
    fn seems_to_implement(&self, agent: &AgentDescription) -> bool {
        let hands_back = self.target(agent.transitions.on_failure.as_ref());
        !hands_back.is_some_and(|to| can_write(to) && to.name != agent.name)
    }

    /// An agent that only reads plans if a writer follows its success, and examines if a writer follows its failure.
    fn role_of_reader(&self, agent: &AgentDescription) -> Option<(AgentRole, bool)> {
        let is_writer = |target: Option<&String>| self.target(target).is_some_and(can_write);
        let transitions = &agent.transitions;
        let (goes_on, hands_back) =
            (is_writer(transitions.on_success.as_ref()), is_writer(transitions.on_failure.as_ref()));
        match (goes_on, hands_back) {
            (true, _) => Some((AgentRole::Plan, !hands_back)),
            (false, true) if !has_tool(agent, "Bash") => Some((AgentRole::Review, true)),
            (false, true) if self.follows_an_examiner(agent) => Some((AgentRole::Review, true)),
            (false, true) => {
                let is_examined = self.target(transitions.on_success.as_ref()).is_some();
                Some((AgentRole::Test, is_examined))
            }
            (false, false) => None,
        }
    }

    /// Whether an agent whose failure goes to a writer hands its success to this one: it tests, and this one reads.
    fn follows_an_examiner(&self, agent: &AgentDescription) -> bool {
        self.agents.iter().any(|other| {
            let back = self.target(other.transitions.on_failure.as_ref());
            other.name != agent.name
                && other.transitions.on_success.as_ref() == Some(&agent.name)
                && back.is_some_and(|back| can_write(back) && back.name != other.name)
        })
    }

    fn target(&self, name: Option<&String>) -> Option<&'a AgentDescription> {
        self.get(name?)
    }

    /// The agent with that role. Of several: the last one that changed files, else the one whose `whenToUse` matches
    /// `state` best.
    pub(super) fn agent_for(
        &self,
        role: AgentRole,
        last_writer: Option<&str>,
        state: &str,
    ) -> Option<ChosenAgent<'a>> {
        let with_role = |agent: &&AgentDescription| self.role(&agent.name).filter(|(r, _)| *r == role);
        let found: Vec<ChosenAgent<'_>> = self
            .agents
            .iter()
            .filter_map(|agent| with_role(&agent).map(|(_, sure)| ChosenAgent { name: &agent.name, sure }))
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
                Some(ChosenAgent { name: name.or(by_words).unwrap_or(first.name), sure: false })
            }
        }
    }

    /// The target of the agent's own transitions, if it is in the set.
    pub(super) fn successor(&self, last: &ExecutionSummary) -> Option<Successor<'a>> {
        let target = follow(&self.get(&last.agent)?.transitions, last.ended(), last.status, last.verdict())?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbiter::testing::builtin;
    use AgentRole::{Implement, Other, Plan, Review, Test};

    fn agent(
        name: &str,
        role: Option<&str>,
        tools: &[&str],
        success: &str,
        failure: &str,
    ) -> AgentDescription {
        let target = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        serde_json::from_value(serde_json::json!({
            "name": name, "displayName": name, "whenToUse": "", "role": role, "tools": {"allowed": tools},
            "transitions": {"onSuccess": target(success), "onFailure": target(failure)},
        }))
        .unwrap()
    }

    #[track_caller]
    fn check(agents: &[AgentDescription], name: &str, expected: Option<(AgentRole, bool)>) {
        assert_eq!(SelectableAgents::new(agents).role(name), expected, "{name}");
    }

    #[test]
    fn declared_roles_count_whatever_the_name() {
        let set = [
            agent("tester", Some("implement"), &["Read"], "", ""),
            agent("developer", Some("review"), &["Write"], "", ""),
            agent("x", Some("other"), &["Write"], "", ""),
        ];
        check(&set, "tester", Some((Implement, true)));
        check(&set, "developer", Some((Review, true)));
        check(&set, "x", Some((Other, true)));
    }

    #[test]
    fn the_built_in_agents_need_no_declaration() {
        let undeclared: Vec<AgentDescription> =
            builtin().into_iter().map(|agent| AgentDescription { role: None, ..agent }).collect();
        for (name, role) in
            [("planner", Plan), ("developer", Implement), ("tester", Test), ("reviewer", Review)]
        {
            check(&undeclared, name, Some((role, true)));
        }
    }

    #[test]
    fn tools_and_transitions_tell_what_names_do_not() {
        let set = [
            agent("architect", None, &["Read"], "coder", ""),
            agent("coder", None, &["Edit"], "checker", "architect"),
            agent("checker", None, &["Read", "Bash"], "complete", "coder"),
            agent("reader", None, &["Read"], "complete", "coder"),
            agent("tester", None, &["Read", "Bash"], "", ""),
        ];
        check(&set, "architect", Some((Plan, true)));
        check(&set, "coder", Some((Implement, true)));
        check(&set, "checker", Some((Test, false)));
        check(&set, "reader", Some((Review, true)));
        check(&set, "tester", None);
        check(&set, "unknown", None);
        let writers = [agent("a", None, &["Write"], "", ""), agent("b", None, &["Write"], "", "")];
        check(&writers, "a", Some((Implement, false)));
        check(&[agent("solo", None, &["Read"], "", "")], "solo", Some((Implement, false)));
    }

    #[test]
    fn of_several_the_one_at_work_or_the_nearest_is_meant() {
        let writer = |name: &str, when: &str| AgentDescription {
            when_to_use: when.to_owned(),
            ..agent(name, Some("implement"), &["Write"], "", "")
        };
        let set = [writer("sql-developer", "Migrations"), writer("css-developer", "Layout")];
        let team = SelectableAgents::new(&set);
        let who =
            |writer, state| team.agent_for(Implement, writer, state).map(|found| (found.name, found.sure));
        assert_eq!(who(None, "the layout is off"), Some(("css-developer", false)));
        assert_eq!(who(Some("sql-developer"), "the layout is off"), Some(("sql-developer", false)));
        assert_eq!(who(None, ""), Some(("sql-developer", false)));
        assert_eq!(team.agent_for(Test, None, ""), None);
    }
}
