//! Configuration in code: read as files are, with their errors.

use super::project::TestProject;
use crate::config::{ConfigErrors, GivenConfig, Loaded, Origin, Scope};
use rawko_core::models::Price;

fn load(project: &TestProject, given: GivenConfig) -> Result<Loaded, ConfigErrors> {
    project.load_with(&given, false)
}

fn agent(text: &str) -> GivenConfig {
    GivenConfig { agents: vec![text.to_owned()], ..GivenConfig::default() }
}

#[test]
fn a_given_configuration_takes_the_place_of_the_projects_and_claims_nothing() {
    let project = TestProject::new(&[
        (".rawko/config.yaml", "constraints: {maxIterations: 3}\nverify: [make test]\n"),
        ("user:config.yaml", "constraints: {maxConsecutiveFailures: 2}\n"),
    ]);
    let text = "constraints: {maxIterations: 5}\nverify: [make check]\npermissions: {sandbox: off}\n";
    let given = GivenConfig { config: Some(text.to_owned()), ..GivenConfig::default() };
    let loaded = load(&project, given).unwrap();
    assert_eq!(loaded.config.constraints.max_iterations, 5);
    assert_eq!(loaded.config.constraints.max_consecutive_failures, 2, "the user's stays below it");
    assert_eq!(loaded.config.verify.commands.as_deref(), Some(&["make check".to_owned()][..]));
    assert!(loaded.claims.is_empty(), "{:?}", loaded.claims);
    let origin = loaded.provenance.origin("/constraints/maxIterations");
    assert!(matches!(origin, Origin::File { line: 1, scope: Scope::User, .. }), "{origin:?}");
    // Without it, the project's counts and needs trust.
    let loaded = load(&project, GivenConfig::default()).unwrap();
    assert_eq!(loaded.config.constraints.max_iterations, 3);
    assert!(!loaded.claims.is_empty());
}

#[test]
fn errors_in_code_are_those_of_a_file() {
    let text = "constraints: {maxIteration: 5}\n";
    let in_file = TestProject::new(&[(".rawko/config.yaml", text)]).load().unwrap_err().to_string();
    let given = GivenConfig { config: Some(text.to_owned()), ..GivenConfig::default() };
    let in_code = load(&TestProject::new(&[]), given).unwrap_err().to_string();
    assert_eq!(in_code, in_file.replace(".rawko/config.yaml", "in code/config.yaml"));
    let errors =
        load(&TestProject::new(&[]), agent("name: a\ntools: {allowed: [Raed]}\n")).unwrap_err().to_string();
    for part in ["in code/agent-1.yaml:2", "Raed", "Read", "systemPrompt"] {
        assert!(errors.contains(part), "{part:?} is missing in {errors}");
    }
}

#[test]
fn a_given_agent_goes_before_every_other_of_its_name() {
    let file = "name: developer\nsystemPrompt: of a file\n";
    let project = TestProject::new(&[(".rawko/agents/developer.yaml", file)]);
    let prompt = |given| load(&project, given).unwrap().agents["developer"].config.system_prompt.clone();
    assert_eq!(prompt(GivenConfig::default()), "of a file");
    assert_eq!(prompt(agent("name: developer\nsystemPrompt: in code\n")), "in code");
    assert_eq!(prompt(agent("---\nname: developer\n---\nin Markdown\n")), "in Markdown");
    assert_eq!(prompt(agent(r#"{"name": "developer", "systemPrompt": "in JSON"}"#)), "in JSON");
}

#[test]
fn a_given_price_goes_before_a_configured_one() {
    let configured = "prices: {m: {input: 1, output: 2}, n: {input: 1, output: 1}}\n";
    let project = TestProject::new(&[("user:config.yaml", configured)]);
    let price = Price { input: 3.0, output: 4.5, ..Price::default() };
    let given = GivenConfig { prices: vec![("m".to_owned(), price)], ..GivenConfig::default() };
    let prices = load(&project, given).unwrap().config.prices;
    assert_eq!((prices["m"], prices["n"].output), (price, 1.0));
    let wrong = Price { input: -1.0, ..price };
    let given = GivenConfig { prices: vec![("m".to_owned(), wrong)], ..GivenConfig::default() };
    assert!(load(&project, given).unwrap_err().to_string().contains("in code/prices.yaml"));
}

#[test]
fn who_is_isolated_from_the_user_gets_neither_the_home_nor_settings_in_variables() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join(".claude/agents")).unwrap();
    let text = "---\nname: theirs\ndescription: d\n---\nOf the user.\n";
    std::fs::write(home.path().join(".claude/agents/theirs.md"), text).unwrap();
    let project = TestProject::new(&[("user:agents/own.yaml", "name: own\nsystemPrompt: Of the program.\n")])
        .env("HOME", home.path().to_str().unwrap())
        .env("RAWKO_MAX_ITERATIONS", "4");
    let seen = |isolated| {
        let loaded = project.load_with(&GivenConfig::default(), isolated).unwrap();
        let has = |name: &str| loaded.agents.contains_key(name);
        (has("own"), has("theirs"), loaded.config.constraints.max_iterations == 4)
    };
    assert_eq!(seen(false), (true, true, true));
    assert_eq!(seen(true), (true, false, false));
}
