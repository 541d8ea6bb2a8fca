//! An agent as selection sees it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::words::{stem, words};
use crate::agent::{AgentConfig, Importance};

/// Most memories that one agent is given, by default.
pub const DEFAULT_MAX_INJECTED: u32 = 5;

/// What selection knows of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipient {
    /// Its name.
    pub name: String,
    /// Its tags, as they are written.
    pub tags: Vec<String>,
    /// Most memories it is given.
    pub max_injected: u32,
    /// Least importance of a memory it is given.
    pub min_importance: Importance,
    /// What it adds to the score of memories that share a tag with it.
    pub score_bonus: f64,
}

impl Recipient {
    /// An agent with its own `memory:` options, and the project's where it has none.
    #[must_use]
    pub fn of(agent: &AgentConfig, max_injected: u32, min_importance: Importance) -> Self {
        let own = agent.metadata.get("tags");
        let mut tags: Vec<String> = match own {
            Some(Value::Array(tags)) => tags.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            Some(Value::String(tag)) => vec![tag.clone()],
            _ => Vec::new(),
        };
        tags.extend(builtin_tags(&agent.name).iter().map(|tag| (*tag).to_owned()));
        Self {
            name: agent.name.clone(),
            tags,
            max_injected: agent.memory.max_injected.unwrap_or(max_injected),
            min_importance: agent.memory.min_importance.unwrap_or(min_importance),
            score_bonus: agent.memory.score_bonus.filter(|bonus| bonus.is_finite()).unwrap_or(0.0),
        }
    }

    /// Its tags in the form in which tags are compared.
    #[must_use]
    pub fn tag_keys(&self) -> BTreeSet<String> {
        self.tags.iter().map(|tag| tag_key(tag)).collect()
    }
}

/// The tags of the built-in agents (`docs/memory.md#agent-tags`).
fn builtin_tags(agent: &str) -> &'static [&'static str] {
    match agent {
        "planner" => &["planning", "structure", "analysis"],
        "developer" => &["implementation", "code", "patterns"],
        "tester" => &["testing", "validation", "quality"],
        "reviewer" => &["review", "quality", "standards"],
        _ => &[],
    }
}

/// A tag in the form in which tags are compared: by the stems of its words.
#[must_use]
pub fn tag_key(tag: &str) -> String {
    words(tag).map(|word| stem(&word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tags_are_the_agents_own_and_the_maps() {
        let agent: AgentConfig = serde_json::from_value(json!({
            "name": "tester", "systemPrompt": "", "metadata": {"tags": ["slow", 1]}, "memory": {"scoreBonus": 3},
        }))
        .unwrap();
        let recipient = Recipient::of(&agent, 5, Importance::Medium);
        assert_eq!(recipient.tags, ["slow", "testing", "validation", "quality"]);
        assert_eq!((recipient.max_injected, recipient.min_importance), (5, Importance::Medium));
        assert_eq!(tag_key("Patterns"), tag_key("pattern"));
    }
}
