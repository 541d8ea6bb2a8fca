use std::path::Path;

use super::*;
use crate::config::source::Scope;

const TOOLS: [&str; 6] = ["Read", "Write", "Edit", "Glob", "Grep", "Bash"];

fn translated(text: &str, provider: ProviderType) -> (Option<AgentConfig>, Vec<String>) {
    let source = SourceFile::new(Path::new("agents/my-agent.md"), Scope::Project, text);
    let mut warnings = Vec::new();
    let around = ImportContext { tools: &TOOLS, provider: Some(provider) };
    let agent = translate(&source, &around, &mut warnings);
    (agent, warnings.into_iter().map(|warning| warning.message).collect())
}

/// Checks the tools of an agent whose front matter has these lines.
#[track_caller]
fn check_tools(lines: &str, allowed: Option<&[&str]>, commands: Option<&[&str]>, warnings: &[&str]) {
    let (agent, found) = translated(&format!("---\nname: a\n{lines}\n---\nx"), ProviderType::Claude);
    let tools = agent.expect("an agent").tools;
    assert_eq!(
        tools.allowed.as_ref().map(|list| list.iter().map(String::as_str).collect::<Vec<_>>()).as_deref(),
        allowed
    );
    let filter = tools.bash_filter.and_then(|filter| filter.allowed_commands);
    assert_eq!(
        filter.as_ref().map(|list| list.iter().map(String::as_str).collect::<Vec<_>>()).as_deref(),
        commands
    );
    assert_eq!(found, warnings, "{lines}");
}

#[test]
fn tools_are_mapped() {
    check_tools("color: red", None, None, &[]);
    check_tools("tools: Read, Grep", Some(&["Read", "Grep"]), None, &[]);
    check_tools("tools:\n  - Read\n  - MultiEdit\n  - Edit", Some(&["Read", "Edit"]), None, &[]);
    check_tools("tools: LS, TodoWrite", Some(&["Glob", "UpdatePlan"]), None, &[]);
    check_tools(
        "tools: Bash(git diff:*), Bash(cargo test), Read",
        Some(&["Bash", "Read"]),
        Some(&["git", "cargo"]),
        &[],
    );
    check_tools("tools: Bash(git:*), Bash", Some(&["Bash"]), None, &[]);
    check_tools("tools: Bash(*)", Some(&["Bash"]), None, &[]);
    check_tools("tools: \"\"", Some(&[]), None, &[]);
    for all in ["\"*\"", "*", "[\"*\"]", "all", "All", "Read, *"] {
        check_tools(&format!("tools: {all}"), None, None, &[]);
    }
    check_tools("tools: \"*\"\ndisallowedTools: Bash", None, None, &[]);
    check_tools("tools: Bash(git:*), *", None, None, &[]);
    // These are names of tools, which do not exist.
    check_tools("tools: Read*", Some(&[]), None, &["the tool `Read*` does not exist in rawko"]);
    check_tools(
        "tools: Read, WebFetch, mcp__docs__search",
        Some(&["Read", "mcp__docs__search"]),
        None,
        &["the tool `WebFetch` does not exist in rawko"],
    );
}

#[test]
fn everything_else_finds_its_place() {
    let text = "---\nname: code-reviewer\ndescription: Use it after changes.\ntools: Read\ndisallowedTools: Bash\nmodel: opus\nmaxTurns: 7\ncolor: red\n---\n\n# Review\n\nBe strict.\n\n## When to Use\nkept\n";
    let (agent, warnings) = translated(text, ProviderType::Claude);
    let agent = agent.expect("an agent");
    assert_eq!(agent.name, "code-reviewer");
    assert_eq!(agent.when_to_use, OneOrMany::One("Use it after changes.".to_owned()));
    assert_eq!(agent.tools.blocked, ["Bash"]);
    assert_eq!(agent.limits.max_iterations, Some(7));
    assert_eq!(agent.provider.model.as_deref(), Some("claude-opus-5-5"));
    assert_eq!(agent.system_prompt, "# Review\n\nBe strict.\n\n## When to Use\nkept");
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[track_caller]
fn check_name(given: &str, name: Option<&str>, shown: Option<&str>) {
    let (agent, warnings) = translated(&format!("---\nname: {given}\n---\nx"), ProviderType::Claude);
    let found = agent.as_ref().map(|agent| (agent.name.as_str(), agent.display_name.as_deref()));
    assert_eq!(found, name.map(|name| (name, shown)), "{given}");
    assert_eq!(warnings.is_empty(), name.is_some(), "{given}: {warnings:?}");
}

#[test]
fn a_name_for_people_becomes_one_for_programs() {
    check_name("code-reviewer", Some("code-reviewer"), None);
    check_name("CodeReviewer", Some("CodeReviewer"), None);
    check_name("Code Reviewer", Some("code-reviewer"), Some("Code Reviewer"));
    check_name("Code Reviewer (strict)", Some("code-reviewer-strict"), Some("Code Reviewer (strict)"));
    check_name("QA / Test", Some("qa-test"), Some("QA / Test"));
    // What would be left is not the name.
    check_name("Prüfer", None, None);
    check_name("2nd reader", None, None);
    check_name("***", None, None);
}

#[test]
fn an_agent_of_claude_code_is_known_by_its_form() {
    let is_foreign = |front: &str| {
        let text = format!("---\n{front}\n---\nDo it.\n");
        is_of_claude_code(&SourceFile::new(Path::new("agents/a.md"), Scope::Project, text.as_str()))
    };
    assert!(is_foreign("name: a\ndescription: does it\ntools: Read, Grep\nmodel: sonnet"));
    assert!(is_foreign("name: a\ndescription: note: not YAML"));
    assert!(!is_foreign("name: a\nwhenToUse: for it\ndescription: does it"));
    assert!(!is_foreign("name: a\ndescription: does it\ntools:\n  allowed: [Read]"));
    assert!(!is_foreign("name: a\ntools: Read"));
}

#[track_caller]
fn check_model(given: &str, provider: ProviderType, expected: Option<&str>, warned: bool) {
    let (agent, warnings) = translated(&format!("---\nmodel: {given}\n---\nx"), provider);
    assert_eq!(agent.expect("an agent").provider.model.as_deref(), expected, "{given}");
    assert_eq!(!warnings.is_empty(), warned, "{given}: {warnings:?}");
}

#[test]
fn models_are_mapped_where_the_provider_has_them() {
    check_model("inherit", ProviderType::Claude, None, false);
    check_model("sonnet", ProviderType::Claude, Some(rawko_provider::preset::CLAUDE_DEFAULT_MODEL), false);
    check_model("haiku", ProviderType::Claude, Some("claude-haiku-5-5"), false);
    check_model("claude-opus-4-5", ProviderType::Claude, Some("claude-opus-4-5"), false);
    check_model("gpt-5", ProviderType::Claude, None, true);
    check_model("sonnet", ProviderType::OpenAi, None, true);
}

#[test]
fn every_short_name_is_a_model_with_a_price() {
    let prices = rawko_core::cost::PriceTable::default();
    for (short, model) in models::aliases("claude") {
        assert!(prices.price(model).is_some(), "{short}: {model}");
    }
}

#[test]
fn front_matter_that_is_no_yaml_is_read_line_by_line() {
    let text = "---\nname: tester\ndescription: Use this agent when: you want tests. Examples: <example>user: \"hi\"</example>\n  more\ntools: Read\n---\nTest.\n";
    let (agent, warnings) = translated(text, ProviderType::Claude);
    let agent = agent.expect("an agent");
    assert_eq!(agent.name, "tester");
    assert!(
        agent.when_to_use.joined().starts_with("Use this agent when: you want tests."),
        "{:?}",
        agent.when_to_use
    );
    assert!(agent.when_to_use.joined().ends_with("more"));
    assert_eq!(agent.tools.allowed, Some(vec!["Read".to_owned()]));
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[track_caller]
fn check_skipped(text: &str, part: &str) {
    let (agent, warnings) = translated(text, ProviderType::Claude);
    assert!(agent.is_none());
    assert!(warnings.iter().any(|warning| warning.contains(part)), "{warnings:?}");
}

#[test]
fn what_is_no_agent_is_skipped_with_a_warning() {
    check_skipped("# Notes\n", "front matter is missing");
    check_skipped("---\nname: a\n---\n", "no system prompt");
    check_skipped("---\nname: 1 a\n---\nx", "not a valid agent name");
    let (agent, _) = translated("---\ndescription: d\n---\nx", ProviderType::Claude);
    assert_eq!(agent.expect("an agent").name, "my-agent", "the file's stem if it has no name");
}
