//! The names of servers' tools.

use rawko_core::policy::MCP_PREFIX;

/// The longest name that providers accept.
const LONGEST: usize = 64;

/// The name under which agents call the tool `tool` of `server`, if it can have one. What providers do not accept in names
/// becomes `_`.
pub(crate) fn tool_name(server: &str, tool: &str) -> Option<String> {
    let usable = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let tool: String = tool.chars().map(|c| if usable(c) { c } else { '_' }).collect();
    let name = format!("{MCP_PREFIX}{server}__{tool}");
    (!tool.is_empty() && name.len() <= LONGEST).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(tool: &str, expected: Option<&str>) {
        assert_eq!(tool_name("s", tool).as_deref(), expected, "{tool}");
    }

    #[test]
    fn names_are_those_that_providers_accept() {
        check("get_issue", Some("mcp__s__get_issue"));
        check("Bash", Some("mcp__s__Bash"));
        check("a__b", Some("mcp__s__a__b"));
        check("files.read/all", Some("mcp__s__files_read_all"));
        check("ü", Some("mcp__s___"));
        check("", None);
        check(&"x".repeat(60), None);
    }
}
