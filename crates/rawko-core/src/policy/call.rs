//! Whether one tool call is allowed: the tool first, then what its arguments ask for.

use crate::agent::{AgentConfig, Permissions, SKILL, SkillChoice};
use crate::message::ToolCall;
use crate::policy::{Permission, bash, nearest_name, permissions_of_calls, tool_permission};

/// Name of the tool whose `command` the `bashFilter` judges.
pub const BASH: &str = "Bash";

/// Where a call is made.
#[derive(Debug, Clone, Copy)]
pub struct CallContext<'a> {
    /// Absolute path of the project's directory.
    pub project: &'a str,
    /// Whether the sandbox confines what Bash runs.
    pub is_confined: bool,
}

/// Whether `agent` may make `call`. `permissions` are what it may touch in the end
/// ([`effective_permissions`](crate::policy::effective_permissions)), `known` are the names of all tools of the run.
#[must_use]
pub fn call_permission<S: AsRef<str>>(
    agent: &AgentConfig,
    permissions: &Permissions,
    context: CallContext<'_>,
    call: &ToolCall,
    known: &[S],
) -> Permission {
    let permission = tool_permission(agent, &call.name, known);
    if call.name == SKILL && permission.is_allowed() {
        return skill_permission(agent, call).unwrap_or(permission);
    }
    if call.name != BASH || !permission.is_allowed() {
        return permission;
    }
    let filter = agent.tools.bash_filter.as_ref();
    let is_filtered = filter.is_some() || permissions.run.is_some();
    // A call without a command runs nothing: the tool's schema refuses it.
    let Some(command) = call.input.get("command").and_then(|c| c.as_str()) else { return permission };
    let own = agent.permissions.clone().unwrap_or_default();
    let calls = permissions_of_calls(agent, permissions);
    let rules = bash::BashRules {
        agent: Some(&agent.name),
        filter,
        own_run: own.run.as_deref(),
        granted_run: permissions.run.as_deref(),
        writable: calls.write.as_deref().unwrap_or_default(),
        denied: permissions.deny.as_deref().unwrap_or_default(),
        is_confined: context.is_confined,
        project: context.project,
    };
    match bash::permission(rules, command) {
        denied @ Permission::Denied { .. } => denied,
        allowed @ Permission::Allowed { .. } if is_filtered => allowed,
        // No list says what may run: what holds it is said, if anything does.
        Permission::Allowed { .. } if context.is_confined => {
            Permission::allowed("sandbox (no bashFilter: what permissions grant)")
        }
        Permission::Allowed { .. } => {
            Permission::allowed("tools.bashFilter (absent: all; nothing confines it to permissions)")
        }
    }
}

/// The denial of a skill that is not among the agent's own.
fn skill_permission(agent: &AgentConfig, call: &ToolCall) -> Option<Permission> {
    let own = agent.skills.as_ref()?;
    let wanted = call.input.get("name").and_then(|name| name.as_str()).filter(|name| !own.includes(name))?;
    let has = match own {
        SkillChoice::Named(names) => names.join(", "),
        SkillChoice::All(_) => "none".to_owned(),
    };
    let near = match own {
        SkillChoice::Named(names) => nearest_name(wanted, names),
        SkillChoice::All(_) => None,
    };
    let near = near.map(|near| format!(" Did you mean `{near}`?")).unwrap_or_default();
    let (name, wanted) = (&agent.name, crate::text::truncate(wanted, 100));
    let message = format!(
        "You have no skill `{wanted}`.{near} You have: {has}. Use one of these, or continue without it."
    );
    let lift =
        format!("add `- {wanted}` under skills of agent `{name}` (`rawko skills list` names them all)");
    Some(Permission::denied("skills", message).lifted_by(Some(lift)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const HERE: CallContext<'_> = CallContext { project: "/project", is_confined: false };

    #[track_caller]
    fn check(config: &Value, command: &str, denied_by: Option<&str>) {
        let mut agent = json!({"name": "tester", "systemPrompt": "Test."});
        agent.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
        let agent: AgentConfig = serde_json::from_value(agent).unwrap();
        let input = json!({"command": command});
        let call = ToolCall { id: "1".into(), name: BASH.into(), input, invalid_input: None, withheld: None };
        let permissions = agent.permissions.clone().unwrap_or_default();
        let permission = call_permission(&agent, &permissions, HERE, &call, &[BASH]);
        assert_eq!((!permission.is_allowed()).then(|| permission.rule()), denied_by, "{permission:?}");
        // What only the user can change is not said to the model.
        if let Permission::Denied { message, would_allow, .. } = &permission {
            for key in ["permissions.", "bashFilter", "To allow", "rawko "] {
                assert!(!message.contains(key), "{message}");
            }
            assert!(would_allow.as_ref().is_none_or(|it| it.contains("`tester`")), "{would_allow:?}");
        }
    }

    #[test]
    fn tool_filter_and_permissions_are_asked_in_turn() {
        let listed = json!({"tools": {"bashFilter": {"allowedCommands": ["ls", "git"]}}});
        let (filter, run) = (Some("tools.bashFilter.allowedCommands"), Some("permissions.run"));
        check(&json!({}), "anything", None);
        check(&json!({"permissions": {"write": ["."]}}), "rm -rf /", Some("permissions.write"));
        check(&json!({"permissions": {"write": ["."]}}), "sudo rm -rf /usr/*", Some("permissions.write"));
        check(&json!({"permissions": {"write": ["."]}}), "rm -rf ~", Some("permissions.write"));
        check(&json!({"permissions": {"write": ["src"]}}), "rm /project/x", Some("permissions.write"));
        check(&json!({"permissions": {"write": ["."]}}), "grep -r rm /etc; git rm x; rm -rf /tmp/*", None);
        check(&json!({"permissions": {"write": ["."]}}), "cd x && rm -rf build /project/target /tmp/x", None);
        for inside in [
            "cd src && rm ../x",
            "cd src; rm ../x",
            "rm a/../b",
            "cd src && cd - && rm ../x",
            "rm .git/index.lock",
        ] {
            check(&json!({"permissions": {"write": ["."]}}), inside, None);
        }
        for outside in [
            "rm -rf ../x",
            "rm -rf a/../../x",
            "cd a && rm -rf ../../x",
            "cd /tmp && rm -rf ../x",
            "rm ../*",
            "(cd a); rm ../../x",
        ] {
            check(&json!({"permissions": {"write": ["."]}}), outside, Some("permissions.write"));
        }
        check(&json!({"permissions": {"write": ["src"]}}), "rm x", Some("permissions.write"));
        check(&json!({"permissions": {"write": ["src"]}}), "cd src && rm x", None);
        check(&listed, "ls; git status", None);
        check(&listed, "cd /project/src && ls", None);
        check(&listed, "ls; touch x", filter);
        check(&json!({"tools": {"blocked": ["Bash"]}}), "ls", Some("tools.blocked"));
        check(&json!({"permissions": {"run": ["ls"]}}), "ls", None);
        check(&json!({"permissions": {"run": ["ls"]}}), "git status", run);
        check(&json!({"permissions": {"run": ["ls"]}}), "cd .. && ls", run);
        check(&json!({"permissions": {"run": ["ls"]}, "tools": listed["tools"]}), "git status", run);
        check(&json!({"permissions": {"run": ["ls", "rm"]}, "tools": listed["tools"]}), "rm x", filter);
        let pattern = json!({"tools": {"bashFilter": {"blockedPatterns": ["sudo "]}}});
        check(&pattern, "'sudo' ls", Some("tools.bashFilter.blockedPatterns"));
    }

    #[test]
    fn an_agent_gets_its_own_skills_alone() {
        let permission = |own: Value, wanted: &str| {
            let agent = json!({"name": "tester", "systemPrompt": "Test.", "skills": own});
            let agent: AgentConfig = serde_json::from_value(agent).unwrap();
            let input = json!({ "name": wanted });
            let call =
                ToolCall { id: "1".into(), name: SKILL.into(), input, invalid_input: None, withheld: None };
            call_permission(&agent, &Permissions::default(), HERE, &call, &[SKILL])
        };
        assert!(permission(json!(["pdf"]), "pdf").is_allowed());
        assert!(
            permission(json!(null), "pdf").is_allowed(),
            "a tool of that name from before there were skills"
        );
        let denied = permission(json!(["pdf", "ppt"]), "release");
        let Permission::Denied { rule, message, .. } = &denied else { panic!("{denied:?}") };
        assert_eq!(rule, "skills");
        assert!(message.contains("`release`. You have: pdf, ppt."), "{message}");
        assert!(!permission(json!(false), "pdf").is_allowed());
    }

    #[track_caller]
    fn check_change(own: &Value, granted: &Value, change: &str) {
        let agent = json!({"name": "tester", "systemPrompt": "Test.", "permissions": own});
        let agent: AgentConfig = serde_json::from_value(agent).unwrap();
        let granted: Permissions = serde_json::from_value(granted.clone()).unwrap();
        let input = json!({"command": "rm x"});
        let call = ToolCall { id: "1".into(), name: BASH.into(), input, invalid_input: None, withheld: None };
        let permission = call_permission(&agent, &granted, HERE, &call, &[BASH]);
        assert_eq!(permission.would_allow(), Some(change));
        let message = permission.denial().unwrap().content;
        assert!(message.contains("`rm` is not listed: you may run ls. Use these"), "{message}");
    }

    #[test]
    fn a_denial_by_permissions_run_names_the_list_that_decided() {
        let own = "add `- rm` under permissions.run of agent `tester`";
        check_change(&json!({"run": ["ls"]}), &json!({"run": ["ls"]}), own);
        let global = "add `- rm` under permissions.run of the configuration (`rawko config show` says where), or in \
                      --allow-run";
        check_change(&json!({}), &json!({"run": ["ls"]}), global);
        check_change(&json!({"run": ["ls", "rm"]}), &json!({"run": ["ls"]}), global);
    }
}
