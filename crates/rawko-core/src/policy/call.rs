//! The verdict on one tool call: the tool first, then what its arguments ask for.

use crate::agent::{AgentConfig, Permissions};
use crate::message::ToolCall;
use crate::policy::{Verdict, bash_verdict, narrowed_filter, tool_verdict};

/// Name of the tool whose `command` the `bashFilter` judges.
pub const BASH: &str = "Bash";

/// Whether `agent` may make `call`. `known` are the names of all tools of the run; `permissions` are what the agent
/// may touch in the end ([`effective_permissions`](crate::policy::effective_permissions)).
#[must_use]
pub fn call_verdict<S: AsRef<str>>(
    agent: &AgentConfig,
    permissions: &Permissions,
    call: &ToolCall,
    known: &[S],
) -> Verdict {
    let verdict = tool_verdict(agent, &call.name, known);
    if call.name != BASH || !verdict.is_allowed() {
        return verdict;
    }
    let run = permissions.run.as_deref();
    if agent.tools.bash_filter.is_none() && run.is_none() {
        return verdict;
    }
    // A call without a command runs nothing: the tool's schema refuses it.
    let Some(command) = call.input.get("command").and_then(|c| c.as_str()) else { return verdict };
    match bash_verdict(&narrowed_filter(agent.tools.bash_filter.as_ref(), run), command) {
        Verdict::Denied { rule, message } => {
            let name = &agent.name;
            Verdict::Denied {
                rule,
                message: format!(
                    "{message} (Agent `{name}`: `rawko agents list` says where it is configured.)"
                ),
            }
        }
        allowed @ Verdict::Allowed { .. } => allowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[track_caller]
    fn check(config: &Value, command: &str, denied_by: Option<&str>) {
        let mut agent = json!({"name": "tester", "systemPrompt": "Test."});
        agent.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
        let agent: AgentConfig = serde_json::from_value(agent).unwrap();
        let input = json!({"command": command});
        let call = ToolCall { id: "1".into(), name: BASH.into(), input, invalid_input: None };
        let permissions = agent.permissions.clone().unwrap_or_default();
        let verdict = call_verdict(&agent, &permissions, &call, &[BASH]);
        assert_eq!((!verdict.is_allowed()).then(|| verdict.rule()), denied_by, "{verdict:?}");
        if let Verdict::Denied { message, .. } = &verdict {
            assert!(message.contains("tester"), "{message}");
        }
    }

    #[test]
    fn tool_filter_and_permissions_are_asked_in_turn() {
        let listed = json!({"tools": {"bashFilter": {"allowedCommands": ["ls", "git"]}}});
        let rule = Some("tools.bashFilter.allowedCommands");
        check(&json!({}), "anything", None);
        check(&listed, "ls; git status", None);
        check(&listed, "ls; touch x", rule);
        check(&json!({"tools": {"blocked": ["Bash"]}}), "ls", Some("tools.blocked"));
        check(&json!({"permissions": {"run": ["ls"]}}), "git status", rule);
        check(&json!({"permissions": {"run": ["ls"]}, "tools": listed["tools"]}), "git status", rule);
        let pattern = json!({"tools": {"bashFilter": {"blockedPatterns": ["sudo "]}}});
        check(&pattern, "'sudo' ls", Some("tools.bashFilter.blockedPatterns"));
    }
}
