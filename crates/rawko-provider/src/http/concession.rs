//! Request features that a model or server refuses, and that requests then leave out or write in another way.
//!
//! Owns the list of these concessions and recognises the refusals. Anthropic's newer models refuse a sampling temperature
//! and forced tools; `OpenAI`'s reasoning models want another name for the token limit; small servers do not know
//! `stream_options`; Mistral's models want roles in an order of their own. A known concession applies from the first
//! request. An unknown one is learnt from the refusal that names it, and the request is sent again. Nothing else is ever
//! dropped.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Something that a request does without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Concession {
    /// Offer the tool instead of forcing it: the prompt asks for it.
    NoForcedTool,
    /// Send no temperature.
    NoTemperature,
    /// Set no automatic cache breakpoint for the growing conversation.
    NoAutomaticCache,
    /// Do not ask for usage in the stream.
    NoStreamOptions,
    /// Call the token limit `max_completion_tokens`.
    CompletionTokens,
    /// Turn reasoning off: the server cannot combine it with tools on this endpoint.
    NoReasoning,
    /// Do not ask for less thinking: the model does not know how.
    UsualThinking,
    /// Put an assistant message between tool results and the user's next text.
    AssistantAfterTool,
    /// Use tool call ids of nine characters.
    ShortIds,
    /// Do not ask for encrypted reasoning: the model does not reason.
    NoEncryptedReasoning,
    /// Offer no search of the web, and do not send back what one found.
    NoSearch,
}

impl Concession {
    const ALL: [Self; 11] = [
        Self::NoForcedTool,
        Self::NoTemperature,
        Self::NoAutomaticCache,
        Self::NoStreamOptions,
        Self::CompletionTokens,
        Self::NoReasoning,
        Self::UsualThinking,
        Self::AssistantAfterTool,
        Self::ShortIds,
        Self::NoEncryptedReasoning,
        Self::NoSearch,
    ];

    /// Whether a server's refusal, in lower case, asks for this concession.
    fn is_asked_by(self, message: &str) -> bool {
        let says = |part: &str| message.contains(part);
        match self {
            Self::NoForcedTool => says("tool_choice") && !says("tool_choice.name"),
            Self::NoTemperature => says("temperature"),
            Self::NoAutomaticCache => says("cache_control"),
            Self::NoStreamOptions => says("stream_options"),
            Self::CompletionTokens => says("max_completion_tokens"),
            Self::NoReasoning => says("reasoning_effort") && says("none"),
            Self::UsualThinking => {
                says("output_config")
                    || (says("reasoning_effort") && !says("none"))
                    || says("reasoning.effort")
                    || says("thinking.type")
                    || says("between_tools")
                    || says("thinking: ")
            }
            // The words of Mistral and of the chat templates of its models.
            Self::AssistantAfterTool => says("'user' after role 'tool'") || says("roles must alternate"),
            Self::NoEncryptedReasoning => {
                says("encrypted content is not supported") || says("parameter: 'include") || says("include: ")
            }
            // Organisations can switch it off, and not every model has it.
            Self::NoSearch => says("web_search") || says("web search"),
            Self::ShortIds => says("tool call id") && (says("length of 9") || says("length 9")),
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// A set of concessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Concessions(u16);

impl Concessions {
    pub(crate) fn has(self, one: Concession) -> bool {
        self.0 & one.bit() != 0
    }

    #[must_use]
    pub(crate) fn with(self, one: Concession) -> Self {
        Self(self.0 | one.bit())
    }

    #[must_use]
    pub(crate) fn with_all(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The concessions that change how messages are written, not only the fields before them.
    #[must_use]
    pub(crate) fn of_messages(self) -> Self {
        let these = [Concession::AssistantAfterTool, Concession::ShortIds, Concession::NoSearch];
        Self(self.0 & these.iter().fold(0, |bits, one| bits | one.bit()))
    }

    /// The first concession that `message` asks for and that is not in the set yet.
    pub(crate) fn asked_by(self, message: &str) -> Option<Concession> {
        let message = message.to_lowercase();
        Concession::ALL.into_iter().find(|c| !self.has(*c) && c.is_asked_by(&message))
    }
}

/// The concessions learnt so far, by model. Shared by all sessions of a provider.
#[derive(Debug, Default)]
pub(crate) struct LearntConcessions(Mutex<HashMap<String, Concessions>>);

impl LearntConcessions {
    pub(crate) fn of(&self, model: &str) -> Concessions {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(model).copied().unwrap_or_default()
    }

    pub(crate) fn add(&self, model: &str, one: Concession) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let set = map.entry(model.to_owned()).or_default();
        *set = set.with(one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, expected: Option<Concession>) {
        assert_eq!(Concessions::default().asked_by(message), expected, "{message}");
        if let Some(one) = expected {
            assert_eq!(Concessions::default().with(one).asked_by(message), None, "asked only once");
        }
    }

    #[test]
    fn rejections_are_understood_in_the_words_of_the_servers() {
        check(
            "tool_choice: type \"tool\" and \"any\" are not supported for this model.",
            Some(Concession::NoForcedTool),
        );
        check(
            "Thinking may not be enabled when tool_choice forces tool use.",
            Some(Concession::NoForcedTool),
        );
        check("`temperature` is deprecated for this model.", Some(Concession::NoTemperature));
        check("cache_control: Extra inputs are not permitted", Some(Concession::NoAutomaticCache));
        check("Unrecognized request argument: stream_options", Some(Concession::NoStreamOptions));
        check(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            Some(Concession::CompletionTokens),
        );
        check(
            "Function tools with reasoning_effort are not supported for gpt-5.6-luna in /v1/chat/completions. \
             To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
            Some(Concession::NoReasoning),
        );
        check(
            "\"thinking.type.between_tools\" is not supported for this model. Use \"thinking.type.adaptive\".",
            Some(Concession::UsualThinking),
        );
        check("output_config: Extra inputs are not permitted", Some(Concession::UsualThinking));
        check("Unrecognized request argument supplied: reasoning_effort", Some(Concession::UsualThinking));
        check("Unexpected role 'user' after role 'tool'", Some(Concession::AssistantAfterTool));
        check(
            "After the optional system message, conversation roles must alternate user/assistant/user/assistant/...",
            Some(Concession::AssistantAfterTool),
        );
        check(
            "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
            Some(Concession::ShortIds),
        );
        check("Tool call IDs should be alphanumeric strings with length 9!", Some(Concession::ShortIds));
        check(
            "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
            Some(Concession::UsualThinking),
        );
        check("Encrypted content is not supported with this model.", Some(Concession::NoEncryptedReasoning));
        check("Unknown parameter: 'include'.", Some(Concession::NoEncryptedReasoning));
        check("Web search is not enabled for this organization.", Some(Concession::NoSearch));
        check("Hosted tool 'web_search' is not supported with gpt-4.1-nano.", Some(Concession::NoSearch));
        check("messages: at least one message is required", None);
        check(
            "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.",
            None,
        );
    }
}
