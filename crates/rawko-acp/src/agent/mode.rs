//! The modes of a session: who works. By default the arbiter decides; each agent of the team is a mode too, in which it
//! works first.

use agent_client_protocol::v1::schema::{SessionMode, SessionModeId, SessionModeState};
use rawko::config::Loaded;
use rawko_core::text::truncate;

/// The mode in which the arbiter decides.
pub(super) const TEAM: &str = "team";
/// Characters of a description.
const DESCRIPTION_CHARS: usize = 300;

/// The team of a project, and who works first.
#[derive(Debug, Clone)]
pub(super) struct Modes {
    current: String,
    agents: Vec<(String, String, Option<String>)>,
}

impl Modes {
    /// Those of a project.
    pub(super) fn of(loaded: &Loaded) -> Self {
        let agents = loaded.agents.values().map(|agent| {
            let config = &agent.config;
            let title = config.display_name.clone().unwrap_or_else(|| config.name.clone());
            let when = config.when_to_use.joined();
            let description = (!when.is_empty()).then(|| truncate(&when, DESCRIPTION_CHARS));
            (config.name.clone(), title, description)
        });
        // An agent of this name cannot be chosen.
        let agents = agents.filter(|(name, ..)| name != TEAM).collect();
        Self { current: TEAM.to_owned(), agents }
    }

    /// The same with the mode of another state, where it is there still.
    pub(super) fn keeping(mut self, other: &Self) -> Self {
        if self.has(&other.current) {
            self.current.clone_from(&other.current);
        }
        self
    }

    /// The agent that is to work first, if one was chosen.
    pub(super) fn agent(&self) -> Option<&str> {
        Some(self.current.as_str()).filter(|mode| *mode != TEAM)
    }

    /// Chooses a mode. `false` if there is none of this name.
    pub(super) fn choose(&mut self, mode: &SessionModeId) -> bool {
        let is_there = self.has(&mode.0);
        if is_there {
            (*mode.0).clone_into(&mut self.current);
        }
        is_there
    }

    fn has(&self, mode: &str) -> bool {
        mode == TEAM || self.agents.iter().any(|(name, ..)| name == mode)
    }

    /// All names.
    pub(super) fn names(&self) -> String {
        let agents = self.agents.iter().map(|(name, ..)| name.as_str());
        std::iter::once(TEAM).chain(agents).collect::<Vec<_>>().join(", ")
    }

    /// As a client is shown them.
    pub(super) fn shown(&self) -> SessionModeState {
        let team = SessionMode::new(TEAM, "Team")
            .description("The arbiter decides which agent works next".to_owned());
        let agent = |(name, title, description): &(String, String, Option<String>)| {
            SessionMode::new(name.clone(), title.clone()).description(description.clone())
        };
        let modes = std::iter::once(team).chain(self.agents.iter().map(agent)).collect::<Vec<_>>();
        SessionModeState::new(self.current.clone(), modes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes() -> Modes {
        let agent = |name: &str| (name.to_owned(), name.to_uppercase(), None);
        Modes { current: TEAM.to_owned(), agents: vec![agent("developer"), agent("tester")] }
    }

    #[test]
    fn the_arbiter_decides_unless_an_agent_is_chosen() {
        let mut modes = modes();
        assert_eq!(modes.agent(), None);
        assert!(modes.choose(&"tester".into()) && !modes.choose(&"nobody".into()));
        assert_eq!(modes.agent(), Some("tester"));
        let shown = modes.shown();
        assert_eq!(&*shown.current_mode_id.0, "tester");
        assert_eq!(shown.available_modes.len(), 3);
        assert!(modes.choose(&TEAM.into()));
        assert_eq!((modes.agent(), modes.names().as_str()), (None, "team, developer, tester"));
    }

    #[test]
    fn a_mode_is_kept_while_there_is_such_an_agent() {
        let mut chosen = modes();
        assert!(chosen.choose(&"tester".into()));
        assert_eq!(modes().keeping(&chosen).agent(), Some("tester"));
        let without = Modes { agents: Vec::new(), ..modes() };
        assert_eq!(without.keeping(&chosen).agent(), None);
    }
}
