//! Who may use which tool: `tools.allowed` (absent: all) minus `tools.blocked`. Entries for tools of MCP servers may be
//! patterns.

use crate::agent::{AgentConfig, Ask, Permissions, REPORT, SKILL, report_tool};
use crate::policy::Permission;
use crate::policy::mcp::{deferred, entry_covers, stand_ins};
use crate::tool::ToolSpec;

/// Tools by which plan updates and the outcome reach the machine. No filter takes them away: an agent
/// without them could not end its work.
pub const CONTROL_TOOLS: [&str; 2] = ["UpdatePlan", "Report"];

/// Name of the tool that reads a page of a host that `permissions.net` grants.
pub const WEB_FETCH: &str = "WebFetch";

/// Name of the tool that searches the web.
pub const WEB_SEARCH: &str = "WebSearch";

/// Whether `tool` is one of [`CONTROL_TOOLS`].
#[must_use]
pub fn is_control_tool(tool: &str) -> bool {
    CONTROL_TOOLS.contains(&tool)
}

/// Whether `agent` may call `tool`. `known` are the names of all tools of the run.
///
/// Names are compared exactly: a case variant is an unknown tool, so that no second spelling of a name
/// can slip past `tools.blocked`.
#[must_use]
pub fn tool_permission<S: AsRef<str>>(agent: &AgentConfig, tool: &str, known: &[S]) -> Permission {
    if is_control_tool(tool) {
        return Permission::allowed("control tool");
    }
    if !known.iter().any(|name| name.as_ref() == tool) {
        return Permission::denied("unknown tool", unknown_message(tool, known));
    }
    let name = &agent.name;
    if let Some(entry) = agent.tools.blocked.iter().find(|blocked| entry_covers(blocked, tool)) {
        let by = if entry == tool {
            "it is blocked".to_owned()
        } else {
            format!("`{entry}` covers it, which is blocked")
        };
        let message = format!(
            "Agent `{name}` may not use the tool `{tool}`: {by}. Use the tools that this conversation offers, or continue \
             without it."
        );
        let lift = format!("remove `- {entry}` under tools.blocked of agent `{name}`");
        return Permission::denied("tools.blocked", message).lifted_by(Some(lift));
    }
    // A run with skills says of each agent which ones it has. With them comes the tool, whatever `tools.allowed` lists.
    if tool == SKILL
        && let Some(skills) = &agent.skills
    {
        if !skills.is_none() {
            return Permission::allowed("skills");
        }
        let message =
            format!("Agent `{name}` may not use the tool `{tool}`: it has no skills. Continue without it.");
        let lift = format!("name skills under skills of agent `{name}` (`rawko skills list` names them all)");
        return Permission::denied("skills", message).lifted_by(Some(lift));
    }
    match &agent.tools.allowed {
        None => Permission::allowed("tools.allowed (absent: all)"),
        Some(allowed) if allowed.iter().any(|a| entry_covers(a, tool)) => {
            Permission::allowed("tools.allowed")
        }
        Some(_) => {
            let message = format!(
                "Agent `{name}` may not use the tool `{tool}`: it is not one of its tools. Use those that this \
                 conversation offers, or leave it to an agent that has it: say so in your report."
            );
            let lift = format!("add `- {tool}` under tools.allowed of agent `{name}`");
            Permission::denied("tools.allowed", message).lifted_by(Some(lift))
        }
    }
}

/// The tools that a request of `agent` offers: those that [`tool_permission`] allows, in the given order, and `Report` in
/// the form of the agent's role. Where there are many tools of MCP servers among them, two others come in their place, by
/// which they are found and called.
#[must_use]
pub fn offered_tools(agent: &AgentConfig, specs: &[ToolSpec]) -> Vec<ToolSpec> {
    let known: Vec<&str> = specs.iter().map(|s| s.name.as_str()).collect();
    let deferred = deferred(agent, specs);
    let is_deferred = |spec: &ToolSpec| deferred.iter().any(|other| other.name == spec.name);
    let offered = specs.iter().filter(|s| tool_permission(agent, &s.name, &known).is_allowed());
    let own = |spec: &ToolSpec| {
        if spec.name == REPORT && agent.judges() { report_tool(agent.role) } else { spec.clone() }
    };
    let mut offered: Vec<ToolSpec> = offered.filter(|spec| !is_deferred(spec)).map(own).collect();
    if !deferred.is_empty() {
        offered.extend(stand_ins(&deferred));
    }
    offered
}

/// Whether a call of `tool` can succeed with these permissions: `WebFetch` reaches nothing where no host is granted and
/// no person is asked for one. A tool that cannot work only lengthens each request.
#[must_use]
pub fn is_of_use(tool: &str, permissions: &Permissions) -> bool {
    tool != WEB_FETCH
        || permissions.net.as_ref().is_some_and(|hosts| !hosts.is_empty())
        || permissions.ask.iter().flatten().any(|ask| *ask == Ask::Hosts)
}

/// The name among `known` that `name` was most likely meant to be, if one is near.
#[must_use]
pub fn nearest_name<'a, S: AsRef<str>>(name: &str, known: &'a [S]) -> Option<&'a str> {
    let lower = name.to_lowercase();
    known
        .iter()
        .map(|k| (strsim::jaro_winkler(&lower, &k.as_ref().to_lowercase()), k.as_ref()))
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

fn unknown_message<S: AsRef<str>>(tool: &str, known: &[S]) -> String {
    let shown = crate::text::truncate(tool, 100);
    match nearest_name(tool, known) {
        Some(near) if near.eq_ignore_ascii_case(tool) => {
            format!("There is no tool `{shown}`: names are case-sensitive, call `{near}`.")
        }
        Some(near) => format!("There is no tool `{shown}`. Did you mean `{near}`?"),
        None => format!("There is no tool `{shown}`. Call one of the tools that this conversation offers."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const KNOWN: [&str; 4] = ["Read", "Write", "Bash", "mcp__docs__search"];

    fn agent(tools: &serde_json::Value) -> AgentConfig {
        serde_json::from_value(json!({"name": "planner", "systemPrompt": "Plan.", "tools": tools})).unwrap()
    }

    #[track_caller]
    fn check(tools: &serde_json::Value, tool: &str, allowed: bool, parts: &[&str]) {
        let permission = tool_permission(&agent(tools), tool, &KNOWN);
        assert_eq!(permission.is_allowed(), allowed, "{permission:?}");
        let text = format!("{permission:?}");
        for part in parts {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
    }

    #[test]
    fn allowed_minus_blocked() {
        check(&json!({}), "Bash", true, &["absent"]);
        check(&json!({"allowed": ["Bash"]}), "Bash", true, &["tools.allowed"]);
        check(&json!({"allowed": []}), "Read", false, &["tools.allowed"]);
        check(&json!({"allowed": ["Bash"], "blocked": ["Bash"]}), "Bash", false, &["tools.blocked"]);
        check(&json!({"blocked": ["Bash"]}), "mcp__docs__search", true, &[]);
    }

    #[track_caller]
    fn check_skill(config: &serde_json::Value, allowed: bool, rule: &str) {
        let mut agent = agent(&config["tools"]);
        agent.skills = serde_json::from_value(config["skills"].clone()).unwrap();
        let permission = tool_permission(&agent, SKILL, &["Read", SKILL]);
        assert_eq!((permission.is_allowed(), permission.rule()), (allowed, rule), "{config}");
    }

    #[test]
    fn the_tool_comes_with_the_skills() {
        let read = json!({"allowed": ["Read"]});
        check_skill(&json!({"tools": read, "skills": ["pdf"]}), true, "skills");
        check_skill(&json!({"tools": read, "skills": []}), false, "skills");
        check_skill(&json!({"tools": {}, "skills": false}), false, "skills");
        check_skill(&json!({"tools": {"blocked": [SKILL]}, "skills": ["pdf"]}), false, "tools.blocked");
        // Before there were skills it was a tool like any other.
        check_skill(&json!({"tools": read, "skills": null}), false, "tools.allowed");
    }

    #[test]
    fn a_denial_by_a_pattern_names_the_pattern() {
        let parts = ["`mcp__docs` covers it", "remove `- mcp__docs` under tools.blocked of agent `planner`"];
        check(&json!({"blocked": ["Bash", "mcp__docs"]}), "mcp__docs__search", false, &parts);
    }

    #[test]
    fn a_denial_names_agent_tool_rule_and_the_line_to_add() {
        let parts = ["`planner`", "`Bash`", "add `- Bash` under tools.allowed of agent `planner`"];
        check(&json!({"allowed": ["Read"]}), "Bash", false, &parts);
    }

    #[test]
    fn control_tools_are_always_there() {
        check(&json!({"allowed": [], "blocked": ["Report", "UpdatePlan"]}), "Report", true, &["control"]);
        check(&json!({"allowed": [], "blocked": ["UpdatePlan"]}), "UpdatePlan", true, &["control"]);
    }

    #[test]
    fn unknown_names_and_case_variants_are_refused_naming_the_nearest() {
        check(&json!({}), "bash", false, &["unknown tool", "case-sensitive", "`Bash`"]);
        check(&json!({"blocked": ["Bash"]}), "BASH", false, &["unknown tool"]);
        check(&json!({}), "Raed", false, &["Did you mean `Read`"]);
        check(&json!({}), "zzzz", false, &["There is no tool `zzzz`"]);
    }

    #[test]
    fn a_tool_that_can_reach_nothing_is_of_no_use() {
        for (permissions, expected) in [
            (json!({}), false),
            (json!({"net": []}), false),
            (json!({"net": ["docs.rs"]}), true),
            (json!({"ask": ["paths"]}), false),
            (json!({"ask": ["paths", "hosts"]}), true),
        ] {
            let permissions: Permissions = serde_json::from_value(permissions).unwrap();
            assert_eq!(is_of_use(WEB_FETCH, &permissions), expected, "{permissions:?}");
            assert!(is_of_use("Read", &permissions));
        }
    }

    #[test]
    fn only_allowed_tools_are_offered() {
        let spec = |name: &str| ToolSpec {
            name: name.into(),
            description: String::new(),
            input_schema: json!({}),
            access: crate::tool::ToolAccess::ReadOnly,
        };
        let specs = [spec("Read"), spec("Bash"), spec("Report")];
        let offered = offered_tools(&agent(&json!({"allowed": ["Read"]})), &specs);
        let names: Vec<_> = offered.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["Read", "Report"]);
    }
}
