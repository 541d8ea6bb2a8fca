//! Who may use which tool: `tools.allowed` (absent: all) minus `tools.blocked`.

use crate::agent::{AgentConfig, REPORT, report_tool};
use crate::policy::Verdict;
use crate::tool::ToolSpec;

/// Tools by which plan updates and the outcome reach the machine. No filter takes them away: an agent
/// without them could not end its work.
pub const CONTROL_TOOLS: [&str; 2] = ["UpdatePlan", "Report"];

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
pub fn tool_verdict<S: AsRef<str>>(agent: &AgentConfig, tool: &str, known: &[S]) -> Verdict {
    if is_control_tool(tool) {
        return Verdict::allowed("control tool");
    }
    if !known.iter().any(|name| name.as_ref() == tool) {
        return Verdict::denied("unknown tool", unknown_message(tool, known));
    }
    let name = &agent.name;
    let place = "of this agent, where `rawko agents list` says it is configured";
    if agent.tools.blocked.iter().any(|blocked| blocked == tool) {
        let message = format!(
            "Agent `{name}` may not use the tool `{tool}`: it is listed under tools.blocked. \
             To allow it, remove `- {tool}` under tools.blocked {place}. Continue without it."
        );
        return Verdict::denied("tools.blocked", message);
    }
    match &agent.tools.allowed {
        None => Verdict::allowed("tools.allowed (absent: all)"),
        Some(allowed) if allowed.iter().any(|a| a == tool) => Verdict::allowed("tools.allowed"),
        Some(_) => {
            let message = format!(
                "Agent `{name}` may not use the tool `{tool}`: it is not listed under tools.allowed. \
                 To allow it, add `- {tool}` under tools.allowed {place}. Continue without it."
            );
            Verdict::denied("tools.allowed", message)
        }
    }
}

/// The tools that a request of `agent` offers: those that [`tool_verdict`] allows, in the given order, and `Report` in
/// the form of the agent's role.
#[must_use]
pub fn offered_tools(agent: &AgentConfig, specs: &[ToolSpec]) -> Vec<ToolSpec> {
    let known: Vec<&str> = specs.iter().map(|s| s.name.as_str()).collect();
    let offered = specs.iter().filter(|s| tool_verdict(agent, &s.name, &known).is_allowed());
    let own = |spec: &ToolSpec| {
        if spec.name == REPORT && agent.judges() { report_tool(agent.role) } else { spec.clone() }
    };
    offered.map(own).collect()
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
        let verdict = tool_verdict(&agent(tools), tool, &KNOWN);
        assert_eq!(verdict.is_allowed(), allowed, "{verdict:?}");
        let text = format!("{verdict:?}");
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

    #[test]
    fn a_denial_names_agent_tool_rule_and_the_line_to_add() {
        let parts = ["`planner`", "`Bash`", "add `- Bash` under tools.allowed of this agent"];
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
