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
