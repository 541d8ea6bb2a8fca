//! Finds how much of an agent's last request a provider's prompt cache can use.
//!
//! A cache goes by the beginning of a request: model, tools, system prompt, messages, in this order. A conversation only
//! grows at its end, so the next request normally begins with the one before it. Where it does not, this names the first
//! part that differs.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::conversation::{ConversationId, ConversationLog};
use crate::message::Message;
use crate::note::PrefixChange;
use crate::setup::ModelChoice;
use crate::tool::ToolSpec;

/// The beginning of the last request of each agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SentPrefixes(BTreeMap<String, SentPrefix>);

#[derive(Debug, Clone, PartialEq)]
struct SentPrefix {
    model: ModelChoice,
    conversation: ConversationId,
    tools: Arc<[ToolSpec]>,
    system: Arc<str>,
    stable: Option<usize>,
    opening: Option<Arc<Message>>,
}

impl SentPrefixes {
    /// `agent` sends `log` to `model`. Returns what the request does not have in common with the agent's last one, or
    /// `None` if it begins with that one or is the first.
    pub(super) fn sent(
        &mut self,
        agent: &str,
        model: &ModelChoice,
        log: &ConversationLog,
    ) -> Option<PrefixChange> {
        let before = self.0.get(agent);
        if before.is_some_and(|before| before.conversation == log.id && before.is_for(model)) {
            return None;
        }
        let change = before.map(|before| before.change(model, log));
        self.0.insert(agent.to_owned(), SentPrefix::of(model, log));
        change
    }
}

impl SentPrefix {
    fn of(model: &ModelChoice, log: &ConversationLog) -> Self {
        Self {
            model: model.clone(),
            conversation: log.id,
            tools: Arc::clone(&log.tools),
            system: Arc::clone(&log.system),
            stable: log.stable,
            opening: log.messages.first().cloned(),
        }
    }

    fn is_for(&self, model: &ModelChoice) -> bool {
        (&self.model.provider, &self.model.model, &self.model.extra)
            == (&model.provider, &model.model, &model.extra)
    }

    /// The first difference, in the order in which caches go.
    fn change(&self, model: &ModelChoice, log: &ConversationLog) -> PrefixChange {
        let is_same_opening = match (&self.opening, log.messages.first()) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            _ => false,
        };
        if !self.is_for(model) {
            PrefixChange::Model
        } else if self.tools != log.tools {
            PrefixChange::Tools
        } else if stable_part(&self.system, self.stable) != stable_part(&log.system, log.stable) {
            PrefixChange::SystemPrompt
        } else if self.system != log.system {
            PrefixChange::Memories
        } else if is_same_opening {
            PrefixChange::Shortened
        } else {
            PrefixChange::NewConversation
        }
    }
}

/// The system prompt without the memories at its end.
fn stable_part(system: &str, stable: Option<usize>) -> &str {
    stable.and_then(|at| system.get(..at)).unwrap_or(system)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn model(name: &str) -> ModelChoice {
        serde_json::from_value(json!({"provider": "p", "model": name, "maxTokens": 100})).expect("a model")
    }

    fn log(id: ConversationId, system: &str, memories: &str, tools: &[&str]) -> ConversationLog {
        let tool = |name: &&str| {
            serde_json::from_value::<ToolSpec>(
                json!({"name": name, "description": "", "inputSchema": {}, "access": "read_only"}),
            )
        };
        let tools: Vec<ToolSpec> = tools.iter().map(|name| tool(name).expect("a tool")).collect();
        let mut log = ConversationLog::with_own_ending(id, system.into(), memories, tools.into());
        log.push(Message::user("the task"));
        log
    }

    #[test]
    fn the_first_difference_is_named() {
        let first = log(1, "S", "", &["Read"]);
        let mut sent = SentPrefixes::default();
        let mut check = |name: &str, log: &ConversationLog, expected: Option<PrefixChange>| {
            assert_eq!(sent.sent("developer", &model(name), log), expected, "{log:?}");
        };
        check("a", &first, None);
        let mut longer = first.clone();
        longer.push(Message::user("more"));
        check("a", &longer, None);
        check("a", &longer.rewritten(2, longer.messages[..1].to_vec()), Some(PrefixChange::Shortened));
        check("a", &log(3, "S", "", &["Read"]), Some(PrefixChange::NewConversation));
        check("a", &log(4, "S", "M", &["Read"]), Some(PrefixChange::Memories));
        check("a", &log(5, "S", "N", &["Read"]), Some(PrefixChange::Memories));
        check("a", &log(6, "T", "N", &["Read"]), Some(PrefixChange::SystemPrompt));
        check("a", &log(7, "U", "", &["Read", "Edit"]), Some(PrefixChange::Tools));
        check("b", &log(8, "V", "", &["Edit"]), Some(PrefixChange::Model));
        check("b", &log(8, "V", "", &["Edit"]), None);
        check("a", &log(8, "V", "", &["Edit"]), Some(PrefixChange::Model));
        assert_eq!(sent.sent("tester", &model("z"), &first), None, "each agent has a prefix of its own");
    }
}
