//! GitHub Copilot as a provider, through GitHub's official SDK and the Copilot CLI.
//!
//! The CLI is an agent of its own. Here it is a wire: it gets rawko's system prompt and rawko's tools, none of its own, and
//! nothing of the user's or the project's (instructions, MCP servers, skills, hooks). It works in a private empty folder,
//! and what it asks permission for is denied. rawko runs the agent loop ([ADR 54](../../docs/adr/0054-copilot-is-a-wire.md)).
//!
//! ```text
//! CopilotProvider ─▶ cli (one process a provider) ─▶ session (one conversation) ─▶ turn (one answer)
//!        │                                              └─ history (what a session is sent)
//!        └─ settings, failure
//! ```
//!
//! Without the feature `sdk` the crate is the mapping alone, for its tests: the SDK takes a minute to compile, and switches
//! `serde_json` to another order of keys.

#[cfg(feature = "sdk")]
mod cli;
#[cfg(any(feature = "sdk", test))]
mod failure;
#[cfg(any(feature = "sdk", test))]
mod history;
#[cfg(feature = "sdk")]
mod provider;
#[cfg(feature = "sdk")]
mod session;
mod settings;
#[cfg(any(feature = "sdk", test))]
mod turn;

#[cfg(feature = "sdk")]
pub use provider::CopilotProvider;
pub use settings::{CLI_VARIABLE, CopilotSettings, DEFAULT_MODEL, TOKEN_VARIABLES};

#[cfg(test)]
mod tests {
    use rawko_core::message::{Content, ToolCall};
    use rawko_provider::{Events, MessageDraft, ProviderEvent};

    const SORTED: &str = r#"{"a":1,"b":{"c":2,"d":3}}"#;

    /// With the feature `sdk` keys stay as they are written, unless they are sorted explicitly. Digests must not depend
    /// on that.
    #[test]
    fn arguments_are_sorted_in_every_build() {
        let written = r#"{"b":{"d":3,"c":2},"a":1}"#;
        let json = format!(r#"{{"id":"1","name":"Read","input":{written}}}"#);
        let stored: ToolCall = serde_json::from_str(&json).unwrap();
        assert_eq!(stored.input.to_string(), SORTED);
        let (mut draft, mut out) = (MessageDraft::default(), Events::new());
        draft.tool(0, "1", "Read", &mut out);
        draft.tool_input(0, written, &mut out);
        let ProviderEvent::MessageDone { message, .. } = draft.finish(&mut out) else { panic!("no message") };
        let [Content::ToolUse(call)] = &message.content[..] else { panic!("{message:?}") };
        assert_eq!(call.input.to_string(), SORTED);
    }
}
