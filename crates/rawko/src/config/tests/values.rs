//! The values of a valid configuration, and their origins.

use rawko_core::agent::{AgentBudget, OneOrMany, builtin_agents};
use rawko_core::setup::{ArbiterMode, CacheUse};
use serde_json::Value;

use super::project::TestProject;
use crate::config::{AgentSource, Config, Overrides, ProviderType, TimeSpan, init};

/// The value and the origin of one setting, as `rawko config show` prints them.
#[track_caller]
fn check(project: &TestProject, key: &str, value: &str, origin: &str) {
    let report = project.loaded().report();
    let setting = report.settings.iter().find(|setting| setting.key == key);
    let setting = setting.unwrap_or_else(|| panic!("no {key} in\n{report}"));
    let shown = match &setting.value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    assert_eq!(
        (shown.as_str(), project.named(&setting.origin.to_string()).as_str()),
        (value, origin),
        "{key}"
    );
}

#[test]
fn without_any_file_the_defaults_hold() {
    let loaded = TestProject::new(&[]).loaded();
    let mut expected = Config::default();
    expected.provider.default = Some("claude".to_owned());
    assert_eq!(loaded.config, expected);
    assert_eq!(loaded.agents.len(), 4);
    for agent in builtin_agents() {
        assert_eq!(loaded.agents[&agent.name].config, agent);
        assert_eq!(loaded.agents[&agent.name].source, AgentSource::BuiltIn);
    }
    assert_eq!(loaded.project_digest, None);
    assert!(loaded.warnings.is_empty() && loaded.claims.is_empty());
    let constraints = &loaded.config.constraints;
    assert_eq!((constraints.max_iterations, constraints.max_consecutive_failures), (50, 3));
    assert_eq!((loaded.config.arbiter.max_tokens, loaded.config.arbiter.temperature), (1024, 0.3));
}

#[test]
fn flag_before_environment_before_project_before_user_before_default() {
    let key = "constraints.maxIterations";
    let files = [
        ("user:config.yaml", "constraints:\n  maxIterations: 1\n  maxTokens: 7\n"),
        (".rawko/config.yaml", "# first\nconstraints:\n  maxIterations: 2\n"),
    ];
    check(&TestProject::new(&[]), key, "50", "default");
    check(&TestProject::new(&files[..1]), key, "1", "USER/config.yaml:2");
    check(&TestProject::new(&files), key, "2", ".rawko/config.yaml:3");
    check(&TestProject::new(&files).env("RAWKO_MAX_ITERATIONS", "3"), key, "3", "RAWKO_MAX_ITERATIONS");
    let flags = Overrides { max_iterations: Some(4), ..Overrides::default() };
    let all = TestProject::new(&files).env("RAWKO_MAX_ITERATIONS", "3").flags(flags);
    check(&all, key, "4", "--max-iterations");
    check(&all, "constraints.maxTokens", "7", "USER/config.yaml:3");
    check(&all, "constraints.maxConsecutiveFailures", "3", "default");
    check(&TestProject::new(&files).env("RAWKO_MAX_ITERATIONS", " "), key, "2", ".rawko/config.yaml:3");
}

#[test]
fn what_verifies_has_two_forms() {
    let list = [("user:config.yaml", "verify: [make]\n"), (".rawko/config.yaml", "verify: [a, b]\n")];
    let key = "verify.commands";
    check(&TestProject::new(&list), key, r#"["a","b"]"#, ".rawko/config.yaml:1");
    check(&TestProject::new(&list[..1]), key, r#"["make"]"#, "USER/config.yaml:1");
    let mapping = [
        ("user:config.yaml", "verify:\n  commands: [make]\n"),
        (".rawko/config.yaml", "verify: {timeout: 5m}\n"),
    ];
    check(&TestProject::new(&mapping), key, r#"["make"]"#, "USER/config.yaml:2");
    check(&TestProject::new(&mapping), "verify.timeout", "5m", ".rawko/config.yaml:1");
    let none = Overrides { verify: Some(Vec::new()), ..Overrides::default() };
    check(&TestProject::new(&list).flags(none), key, "[]", "--no-verify");
    let one = Overrides { verify: Some(vec!["x y".to_owned()]), ..Overrides::default() };
    let both = TestProject::new(&mapping).flags(one);
    check(&both, key, r#"["x y"]"#, "--verify");
    check(&both, "verify.timeout", "5m", ".rawko/config.yaml:1");
}

#[test]
fn a_config_file_by_name_takes_the_projects_place() {
    let files =
        [(".rawko/config.yaml", "arbiter:\n  mode: rules\n"), ("other.yaml", "arbiter:\n  maxTokens: 9\n")];
    let project = TestProject::new(&files).config_file("other.yaml");
    check(&project, "arbiter.maxTokens", "9", "other.yaml:2");
    check(&project, "arbiter.mode", "hybrid", "default");
}

#[test]
fn the_environment_has_all_of_these() {
    let project = TestProject::new(&[])
        .env("RAWKO_PROVIDER", "openai")
        .env("RAWKO_MODEL", "some-model")
        .env("RAWKO_MAX_COST", "2.5")
        .env("RAWKO_TIMEOUT", "90s")
        .env("RAWKO_MAX_TOKENS", "1000")
        .env("RAWKO_MAX_CONSECUTIVE_FAILURES", "2")
        .env("RAWKO_ARBITER_PROVIDER", "claude")
        .env("RAWKO_ARBITER_MODEL", "small")
        .env("RAWKO_ARBITER_MODE", "rules")
        .env("OPENAI_BASE_URL", "http://localhost:1/v1");
    check(&project, "provider.default", "openai", "RAWKO_PROVIDER");
    check(&project, "provider.openai.model", "some-model", "RAWKO_MODEL");
    check(&project, "provider.openai.baseUrl", "http://localhost:1/v1", "OPENAI_BASE_URL");
    check(&project, "constraints.maxCostUsd", "2.5", "RAWKO_MAX_COST");
    check(&project, "constraints.maxDuration", "1m30s", "RAWKO_TIMEOUT");
    check(&project, "constraints.maxTokens", "1000", "RAWKO_MAX_TOKENS");
    check(&project, "constraints.maxConsecutiveFailures", "2", "RAWKO_MAX_CONSECUTIVE_FAILURES");
    check(&project, "arbiter.provider", "claude", "RAWKO_ARBITER_PROVIDER");
    check(&project, "arbiter.model", "small", "RAWKO_ARBITER_MODEL");
    check(&project, "arbiter.mode", "rules", "RAWKO_ARBITER_MODE");
}

#[test]
fn the_default_provider_is_the_likely_one() {
    let one = [(".rawko/config.yaml", "provider:\n  ollama:\n    model: qwen\n")];
    let two = [(".rawko/config.yaml", "provider:\n  ollama: {model: a}\n  groq: {model: b}\n")];
    let key = "provider.default";
    check(&TestProject::new(&one), key, "ollama", "default");
    check(&TestProject::new(&two), key, "claude", "default");
    check(&TestProject::new(&two).env("GROQ_API_KEY", "k"), key, "groq", "GROQ_API_KEY");
    check(&TestProject::new(&[]).env("OPENAI_API_KEY", "k"), key, "openai", "OPENAI_API_KEY");
    check(
        &TestProject::new(&[]).env("OPENAI_API_KEY", "k").env("ANTHROPIC_API_KEY", "k"),
        key,
        "claude",
        "ANTHROPIC_API_KEY",
    );
    check(&TestProject::new(&one).provider("own"), key, "own", "default");
    let named = [(".rawko/config.yaml", "provider:\n  default: own\n")];
    check(&TestProject::new(&named).provider("own"), key, "own", ".rawko/config.yaml:2");
    let model = Overrides { model: Some("m".to_owned()), ..Overrides::default() };
    check(&TestProject::new(&one).flags(model), "provider.ollama.model", "m", "--model");
}

#[test]
fn providers_are_resolved_over_what_is_known() {
    let text = "
provider:
  default: mine
  mine: {preset: ollama, model: qwen, timeouts: {idle: 5s}}
  claude: {maxTokens: 5}
  gateway: {type: openai, baseUrl: 'https://example.com/v1', apiKeyEnv: GATEWAY_KEY}
  test: {type: scripted, script: s.yaml}
  openai: {type: claude, baseUrl: 'https://example.com'}
";
    let config = TestProject::new(&[(".rawko/config.yaml", text)]).loaded().config;
    let of = |name: &str| {
        let found = config.provider(name).unwrap_or_else(|| panic!("no {name}"));
        let text = |text: Option<&str>| text.unwrap_or("-").to_owned();
        (found.kind, text(found.base_url()), text(found.key_env()), text(found.model()))
    };
    let owned =
        |kind, url: &str, key: &str, model: &str| (kind, url.to_owned(), key.to_owned(), model.to_owned());
    assert_eq!(of("mine"), owned(ProviderType::OpenAi, "http://localhost:11434/v1", "-", "qwen"));
    assert_eq!(of("gateway"), owned(ProviderType::OpenAi, "https://example.com/v1", "GATEWAY_KEY", "-"));
    assert_eq!(of("test"), owned(ProviderType::Scripted, "-", "-", "-"));
    assert_eq!(of("openai"), owned(ProviderType::Claude, "https://example.com", "-", "-"));
    assert_eq!(of("claude").2, "ANTHROPIC_API_KEY");
    assert_eq!(of("groq").2, "GROQ_API_KEY");
    assert!(config.provider("nobody").is_none());
    let settings = config.provider("mine").and_then(|found| found.settings()).expect("a server");
    assert_eq!((settings.name.as_str(), settings.timeouts.idle_ms), ("mine", 5_000));
    assert!(config.provider("test").and_then(|found| found.settings()).is_none());
}

/// The variable whose key is sent to a provider of this configuration.
#[track_caller]
fn check_key(config: &str, environment: &[(&str, &str)], provider: &str, expected: Option<&str>) {
    let project = TestProject::new(&[(".rawko/config.yaml", config)]);
    let project = environment.iter().fold(project, |project, (name, value)| project.env(name, value));
    let config = project.loaded().config;
    let found = config.provider(provider).unwrap_or_else(|| panic!("no {provider}"));
    assert_eq!(found.key_env(), expected, "{provider}");
}

#[test]
fn a_server_without_api_key_env_is_sent_no_key() {
    let keys = [("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k"), ("GROQ_API_KEY", "k")];
    let of = |config: &str, provider, expected| check_key(config, &keys, provider, expected);
    // Presets at their own addresses.
    of("version: 1\n", "openai", Some("OPENAI_API_KEY"));
    of("provider: {openai: {baseUrl: 'https://API.openai.com/v1/'}}\n", "openai", Some("OPENAI_API_KEY"));
    of("provider: {fast: {preset: groq}}\n", "fast", Some("GROQ_API_KEY"));
    // Any other server.
    of("provider: {mine: {type: openai, baseUrl: 'http://localhost:1/v1'}}\n", "mine", None);
    of("provider: {mine: {type: claude, baseUrl: 'https://gateway.example'}}\n", "mine", None);
    of("provider: {openai: {baseUrl: 'https://api.openai.com.example/v1'}}\n", "openai", None);
    of("provider: {openai: {baseUrl: 'http://api.openai.com/v1'}}\n", "openai", None);
    of("provider: {claude: {baseUrl: 'https://gateway.example'}}\n", "claude", None);
    of("provider: {fast: {preset: groq, baseUrl: 'https://gateway.example'}}\n", "fast", None);
    // `apiKeyEnv` wins.
    of("provider: {mine: {type: openai, baseUrl: 'http://h/v1', apiKeyEnv: MINE}}\n", "mine", Some("MINE"));
    of("provider: {openai: {apiKeyEnv: null}}\n", "openai", None);
    of("provider: {openai: {apiKeyEnv: }}\n", "openai", None);
}

#[test]
fn a_key_goes_along_where_the_environment_moves_its_server() {
    let moved =
        [("ANTHROPIC_BASE_URL", "https://gateway.example"), ("OPENAI_BASE_URL", "http://localhost:1/v1")];
    let with_key = [moved[0], moved[1], ("OPENAI_API_KEY", "k")];
    check_key("version: 1\n", &moved, "claude", Some("ANTHROPIC_API_KEY"));
    check_key("version: 1\n", &moved, "openai", None);
    check_key("version: 1\n", &with_key, "openai", Some("OPENAI_API_KEY"));
    // A file's `apiKeyEnv` holds, and its address does not.
    check_key("provider: {claude: {apiKeyEnv: null}}\n", &moved, "claude", None);
    check_key("provider: {claude: {apiKeyEnv: OTHER}}\n", &moved, "claude", Some("OTHER"));
    check_key("provider: {claude: {baseUrl: 'https://h'}}\n", &moved, "claude", Some("ANTHROPIC_API_KEY"));
    check_key("provider: {openai: {type: claude}}\n", &with_key, "openai", None);
    let project = TestProject::new(&[]).env(moved[0].0, moved[0].1);
    check(&project, "provider.claude.apiKeyEnv", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL");
}

#[test]
fn byte_order_marks_and_line_ends_do_not_matter() {
    let project = TestProject::new(&[
        (".rawko/config.yaml", "\u{feff}version: \"1\"\r\narbiter:\r\n  mode: rules\r\n"),
        (".rawko/agents/a.md", "\u{feff}---\r\nname: a\r\n---\r\n\r\n# A\r\n\r\nHelp.\r\n"),
        (".rawko/agents/b.yaml", "name: b\r\nsystemPrompt: |\r\n  one\r\n  two\r\n"),
    ]);
    let loaded = project.loaded();
    assert_eq!(loaded.config.arbiter.mode, ArbiterMode::Rules);
    assert_eq!(loaded.agents["a"].config.system_prompt, "Help.");
    assert_eq!(loaded.agents["b"].config.system_prompt, "one\ntwo\n");
    check(&project, "arbiter.mode", "rules", ".rawko/config.yaml:3");
}

#[test]
fn empty_keys_count_as_absent() {
    let text = "provider:\narbiter:\n  model:\nconstraints:\n  maxTokens: ~\npermissions:\n";
    let loaded = TestProject::new(&[(".rawko/config.yaml", text)]).loaded();
    assert_eq!(loaded.config.constraints, Config::default().constraints);
}

#[test]
fn a_projects_agent_replaces_the_built_in_one() {
    let project = TestProject::new(&[
        (
            ".rawko/agents/planner.md",
            "---\nname: planner\ntools: {allowed: [Read]}\n---\n# P\n\n## When to Use\n- first\n- always\n\n## System Prompt\nPlan.\n\n## Notes\nnone\n",
        ),
        (
            ".rawko/agents/extra.yaml",
            "name: extra\nsystemPrompt: Help.\ntransitions: {onSuccess: complete}\n",
        ),
    ]);
    let loaded = project.loaded();
    assert_eq!(loaded.agents.len(), 5);
    let planner = &loaded.agents["planner"];
    assert_eq!(planner.source.to_string(), ".rawko/agents/planner.md");
    assert_eq!(planner.config.system_prompt, "Plan.");
    assert_eq!(planner.config.when_to_use, OneOrMany::Many(vec!["first".to_owned(), "always".to_owned()]));
    assert_eq!(loaded.agents["reviewer"].source.to_string(), "built in");
}

#[test]
fn templates_are_the_projects_own() {
    let loaded = TestProject::new(&[(".rawko/prompts/arbiter-evaluate.md", "Judge {task}")]).loaded();
    assert_eq!(loaded.templates.evaluate.as_deref(), Some("Judge {task}"));
    assert_eq!(loaded.templates.select, None);
}

#[test]
fn misnamed_files_are_reported() {
    let loaded = TestProject::new(&[(".rawko/config.yml", "version: 1")]).loaded();
    assert_eq!(loaded.warnings.len(), 1);
    assert!(loaded.warnings[0].to_string().contains("rename it"), "{}", loaded.warnings[0]);
}

#[test]
fn memory_settings_are_read_without_a_word() {
    let project = TestProject::new(&[
        (".rawko/config.yaml", "memory:\n  maxInjected: 3\n"),
        (".rawko/agents/a.yaml", "name: a\nsystemPrompt: x\nmemory: {scoreBonus: 2}\n"),
    ]);
    let loaded = project.loaded();
    assert_eq!(loaded.config.memory.max_injected, 3);
    assert_eq!(loaded.agents["a"].config.memory.score_bonus, Some(2.0));
    assert_eq!(loaded.config.memory.extract, None, "the folder decides");
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn denials_add_up() {
    let project = TestProject::new(&[
        ("user:config.yaml", "permissions:\n  deny: [.env]\n"),
        (".rawko/config.yaml", "permissions:\n  deny: [secrets, .env]\n"),
    ]);
    check(&project, "permissions.deny", r#"[".env","secrets"]"#, ".rawko/config.yaml:2");
    let emptied = TestProject::new(&[
        ("user:config.yaml", "permissions:\n  deny: [.env]\n"),
        (".rawko/config.yaml", "permissions:\n  deny: []\n"),
    ]);
    check(&emptied, "permissions.deny", r#"[".env"]"#, ".rawko/config.yaml:2");
}

#[test]
fn what_init_writes_changes_nothing() {
    let project = TestProject::new(&[]);
    let before = project.loaded();
    let done = init(project.path()).expect("init");
    assert_eq!(done.created.len(), 6, "{done:?}");
    assert!(done.kept.is_empty());
    let after = project.loaded();
    assert_eq!(after.config, before.config);
    assert!(after.warnings.is_empty() && after.claims.is_empty(), "{:?} {:?}", after.warnings, after.claims);
    for (name, agent) in &after.agents {
        assert_eq!(agent.config, before.agents[name].config);
        assert_eq!(agent.source.to_string(), format!(".rawko/agents/{name}.md"));
    }
    assert_eq!(std::fs::read_to_string(project.path().join(".rawko/sessions/.gitignore")).unwrap(), "*\n");

    project.write(".rawko/config.yaml", "version: 1\n");
    std::fs::remove_file(project.path().join(".rawko/agents/tester.md")).unwrap();
    let again = init(project.path()).expect("init");
    assert_eq!(again.created, [std::path::PathBuf::from(".rawko/agents/tester.md")]);
    assert_eq!(again.kept.len(), 5);
    assert_eq!(std::fs::read_to_string(project.path().join(".rawko/config.yaml")).unwrap(), "version: 1\n");
}

#[test]
fn changes_of_the_files_are_noticed() {
    let project = TestProject::new(&[
        (".rawko/config.yaml", "version: 1\n"),
        (".rawko/agents/a.yaml", "name: a\nsystemPrompt: x\n"),
    ]);
    let check = |change: &dyn Fn()| {
        let mut fingerprint = project.loaded().fingerprint;
        assert!(!fingerprint.changed());
        change();
        assert!(fingerprint.changed());
        fingerprint.refresh();
        assert!(!fingerprint.changed());
    };
    check(&|| project.write(".rawko/config.yaml", "version: 1\n# more\n"));
    check(&|| project.write(".rawko/agents/a.yaml", "name: a\nsystemPrompt: other\n"));
    check(&|| project.write(".rawko/agents/b.yaml", "name: b\nsystemPrompt: x\n"));
    check(&|| project.write(".rawko/prompts/arbiter-select.md", "x"));
    check(&|| project.write("user:config.yaml", "version: 1\n"));
    check(&|| std::fs::remove_file(project.path().join(".rawko/agents/b.yaml")).unwrap());
    assert!(project.loaded().fingerprint.paths().count() >= 5);
}

#[test]
fn the_report_is_text_and_json() {
    let project = TestProject::new(&[(
        ".rawko/config.yaml",
        "arbiter:\n  model: small\ntools:\n  - {name: T, description: d, command: [x]}\n",
    )])
    .env("RAWKO_TIMEOUT", "1h");
    let report = project.loaded().report();
    insta::assert_snapshot!("report", report);
    insta::assert_json_snapshot!("report_json", report.settings[..2]);
}

/// Prints how long loading takes, and checks it against a limit that only a mistake in the order of growth would break: the
/// times that matter are a hundredth of it.
#[test]
fn a_hostile_file_is_judged_in_time() {
    let many_keys: String = (0..30_000).map(|n| format!("key{n}: {n}\n")).collect();
    let same_key = "a: 1\n".repeat(15_000);
    let deep = "- ".repeat(200_000);
    let strangers: String = (0..9_000).map(|n| format!("  - tool{n}\n")).collect();
    let strangers = format!("name: a\nsystemPrompt: x\ntools:\n blocked:\n{strangers}");
    for (name, text) in [
        (".rawko/config.yaml", many_keys),
        (".rawko/config.yaml", same_key),
        (".rawko/config.yaml", deep),
        (".rawko/agents/a.yaml", strangers),
    ] {
        let project = TestProject::new(&[(name, &text)]);
        let before = std::time::Instant::now();
        let errors = project.load().expect_err("errors").errors;
        let took = before.elapsed();
        println!("{} bytes, {} errors, {took:?}", text.len(), errors.len());
        assert!(took.as_secs() < 20, "{name}: {took:?}");
    }
}

/// Checks which of the arbiter's questions the cache may answer under this `.rawko/config.yaml`.
#[track_caller]
fn check_cache(file: &str, flags: Overrides, expected: (bool, bool)) {
    let loaded = TestProject::new(&[(".rawko/config.yaml", file)]).flags(flags).loaded();
    let CacheUse { select, evaluate } = loaded.config.arbiter.cache.into();
    assert_eq!((select, evaluate), expected, "{file}");
}

#[test]
fn the_arbiters_cache_is_for_both_questions_or_for_each() {
    let usual = Overrides::default;
    check_cache("version: 1\n", usual(), (true, false));
    check_cache("arbiter:\n  cache: true\n", usual(), (true, true));
    check_cache("arbiter:\n  cache: false\n", usual(), (false, false));
    check_cache("arbiter:\n  cache: {select: false}\n", usual(), (false, false));
    check_cache("arbiter:\n  cache: {evaluate: true}\n", usual(), (true, true));
    let without = Overrides { no_cache: true, ..Overrides::default() };
    check_cache("arbiter:\n  cache: {evaluate: true}\n", without, (false, false));
}

#[test]
fn an_agent_may_have_a_budget_of_its_own() {
    let file = "name: a\nsystemPrompt: s\nbudget: {maxIterations: 2, maxTokens: 9000, maxCostUsd: 0.5, maxDuration: 1h30m}\n";
    let loaded = TestProject::new(&[(".rawko/agents/a.yaml", file)]).loaded();
    let expected = AgentBudget {
        max_iterations: Some(2),
        max_tokens: Some(9_000),
        max_cost_usd: Some(0.5),
        max_duration: TimeSpan::from_ms(5_400_000),
    };
    assert_eq!(loaded.agents["a"].config.budget, expected);
    let wrong = file.replace("2, maxTokens: 9000", "0, maxTokens: none").replace("1h30m", "long");
    let report = TestProject::new(&[(".rawko/agents/a.yaml", &wrong)]).report();
    for part in ["budget.maxIterations", "budget.maxTokens", "budget.maxDuration"] {
        assert!(report.contains(part), "{part} is missing in\n{report}");
    }
}

/// No errors: accepted temperatures, rawko's default, and unknown servers.
#[test]
fn temperatures_that_are_taken() {
    for text in [
        "arbiter: {temperature: 0.3}",
        "provider: {claude: {temperature: 1.0}}",
        "provider: {claude: {model: claude-haiku-4-5, temperature: 0.7}}\narbiter: {temperature: 0.9}",
        "provider: {openai: {model: gpt-4.1, temperature: 1.5}}",
        "provider: {openai: {model: gpt-5.4, temperature: 0.5}}",
        "provider: {mine: {type: openai, baseUrl: 'http://localhost:1/v1', model: gpt-5, temperature: 0.5}}",
        "provider: {claude: {model: claude-sonnet-9, temperature: 0.5}}",
    ] {
        let project = TestProject::new(&[(".rawko/config.yaml", text)]);
        assert_eq!(project.load().map_err(|errors| errors.to_string()).err(), None, "{text}");
    }
}

/// No errors: settings that the models have, and unknown servers.
#[test]
fn thinking_that_models_have() {
    for text in [
        "provider: {claude: {thinking: {effort: low}}}",
        "provider: {claude: {model: claude-haiku-4-5, thinking: {budget: 4096}}}",
        "provider: {claude: {model: claude-haiku-5-5, thinking: off}}",
        "provider: {responses: {thinking: {effort: high}}}",
        "provider: {responses: {model: gpt-5.4, thinking: off, temperature: 0.5}}",
        "provider: {mine: {type: responses, baseUrl: 'http://localhost:1/v1', model: qwen, thinking: {effort: max}}}",
    ] {
        let project = TestProject::new(&[(".rawko/config.yaml", text)]);
        assert_eq!(project.load().map_err(|errors| errors.to_string()).err(), None, "{text}");
    }
    // A temperature that the model takes only while it does not think.
    let text = "provider: {claude: {model: claude-haiku-4-5, thinking: {budget: 4096}, temperature: 0.5}}";
    let report = TestProject::new(&[(".rawko/config.yaml", text)]).report();
    assert!(report.contains("accepts no temperature while it thinks"), "{report}");
}

#[test]
fn a_temperature_is_judged_by_the_models_of_the_agents_too() {
    let config = "provider: {claude: {model: claude-haiku-4-5, temperature: 0.7}}";
    let agent = "name: helper\nsystemPrompt: Help.\nprovider: {model: claude-sonnet-5-5}\n";
    let files = [(".rawko/config.yaml", config), (".rawko/agents/helper.yaml", agent)];
    let report = TestProject::new(&files).report();
    let expected = "the model `claude-sonnet-5-5` (of the agent `helper`) accepts no temperature";
    assert!(report.contains(expected) && report.contains(".rawko/config.yaml:1:"), "{report}");
    // A flag can name the model too.
    let project = TestProject::new(&[(".rawko/config.yaml", config)]).env("RAWKO_MODEL", "claude-opus-5-5");
    assert!(project.report().contains("`claude-opus-5-5` accepts no temperature"), "{}", project.report());
}

#[test]
fn transitions_to_built_in_agents_that_are_left_out_are_dropped() {
    let project = TestProject::new(&[
        (".rawko/config.yaml", "agents: {builtin: [planner, tester]}\n"),
        ("user:agents/mine.md", "---\nname: mine\ntransitions: {onSuccess: tester}\n---\nMine.\n"),
    ]);
    let loaded = project.load().unwrap();
    let names: Vec<&str> = loaded.agents.keys().map(String::as_str).collect();
    assert_eq!(names, ["mine", "planner", "tester"]);
    let target = |name: &str| loaded.agents[name].config.transitions.on_success.clone();
    assert_eq!(target("planner"), None, "the developer is not there");
    assert_eq!(target("mine").as_deref(), Some("tester"));
    let whole = TestProject::new(&[]).load().unwrap();
    assert_eq!(whole.agents["planner"].config.transitions.on_success.as_deref(), Some("developer"));
}
