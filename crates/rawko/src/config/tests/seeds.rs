//! The configuration that the project's founding documents print, letter for letter.

use super::project::TestProject;
use crate::config::{Config, ProviderType};

#[track_caller]
fn loaded(text: &str) -> Config {
    TestProject::new(&[(".rawko/config.yaml", text)]).loaded().config
}

#[test]
fn an_arbiter_with_a_model_of_its_own() {
    let config = loaded(include_str!("seeds/adr-0005-arbiter.yaml"));
    assert_eq!(config.arbiter.provider.as_deref(), Some("claude"));
    assert_eq!(config.arbiter.model.as_deref(), Some("claude-haiku-4"));
    assert_eq!(config.arbiter.max_tokens, 1024);
    assert!((config.arbiter.temperature - 0.3).abs() < f64::EPSILON);
}

#[test]
fn agents_on_copilot_and_an_arbiter_on_claude() {
    let config = loaded(include_str!("seeds/adr-0005-two-providers.yaml"));
    let copilot = config.provider(config.default_provider()).unwrap();
    assert_eq!((copilot.name.as_str(), copilot.kind), ("copilot", ProviderType::Copilot));
    assert_eq!(copilot.model(), Some("gpt-4"));
    assert_eq!(copilot.key_env(), None, "its own login, or one of several variables");
    assert_eq!(copilot.token_variables(), ["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"]);
    assert!(copilot.settings().is_none(), "rawko sends it no HTTP requests");
    let judge = config.provider(config.arbiter.provider.as_deref().unwrap()).unwrap();
    assert_eq!((judge.kind, config.arbiter.model.as_deref()), (ProviderType::Claude, Some("claude-haiku-4")));
}

#[test]
fn an_agent_with_a_tool_of_the_projects_own() {
    let tool = "tools:\n  - {name: DatabaseQuery, description: Asks the database., inputSchema: {type: object}, command: [./query]}\n";
    let agent = include_str!("seeds/spec-0001-custom-agent.yaml");
    let loaded =
        TestProject::new(&[(".rawko/agents/custom.yaml", agent), (".rawko/config.yaml", tool)]).loaded();
    let custom = &loaded.agents["custom"].config;
    assert_eq!(custom.display_name.as_deref(), Some("Custom Agent"));
    assert_eq!(custom.system_prompt.trim(), "You are a specialized agent...");
    assert_eq!(custom.transitions.on_success.as_deref(), Some("developer"));
    // Without the tool, the error names it.
    let report = TestProject::new(&[(".rawko/agents/custom.yaml", agent)]).report();
    assert!(report.contains("DatabaseQuery") && report.contains("custom.yaml:6"), "{report}");
}

#[test]
fn an_agent_that_says_which_memories_it_wants() {
    let front = include_str!("seeds/spec-0007-memory-of-an-agent.yaml");
    let agent = format!("---\n{front}---\nYou develop.\n");
    let loaded = TestProject::new(&[(".rawko/agents/developer.md", &agent)]).loaded();
    let memory = &loaded.agents["developer"].config.memory;
    assert_eq!((memory.max_injected, memory.score_bonus), (Some(5), Some(10.0)));
    assert_eq!(serde_json::to_value(memory).unwrap()["minImportance"], "medium");
}
